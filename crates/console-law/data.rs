//! Pages with one text in every field.

use std::sync::LazyLock;

use aws_config::{BehaviorVersion, SdkConfig};
use jiff::{SignedDuration, Timestamp};
use redrive_archive::ArchiveRetention;
use redrive_aws::clock::InstanceClock;
use redrive_console::read::{
    Alarm, ArchivedLetter, BoundedCount, ChartSpan, CommonValue, CountBound, CountMethod, FailingTarget,
    GroupValue, LetterFields, LetterHistory, LetterLog, LetterLogLine, LetterReplay, OneGroup, PageGroup,
    PageGroups, PresentState, QueueNow, SearchResult, ShownContent, TargetState, TimedCount, UnreplayedCount,
    WaitingGroup, WaitingOne, WaitingSummary,
};
use redrive_console::view::{self, PageFrame, ViewContext};
use redrive_console::{
    BodyVisibility, BucketPrefix, ConsoleAccount, ConsoleClients, DoctorProgress, Filter, GroupField,
    OneLetter, PageFinding, PageHost, PageKind, Query, TargetGrants,
};
use redrive_core::policy::{Overrides, Policy};
use redrive_replay::ReplayState;
use serde_json::json;

/// Clients for an account that no test calls.
static CLIENTS: LazyLock<ConsoleClients> = LazyLock::new(|| {
    let config = SdkConfig::builder().behavior_version(BehaviorVersion::latest()).build();
    ConsoleClients::from_config(&config, true)
});

fn now() -> Timestamp {
    "2026-11-01T12:00:00Z".parse().unwrap()
}

fn span() -> ChartSpan {
    ChartSpan { from: now() - SignedDuration::from_hours(3), to: now() }
}

/// Returns an account that no test calls, with the text in every field.
#[must_use]
pub fn account(text: &str) -> ConsoleAccount {
    let queue = "arn:aws:sqs:eu-central-1:123456789012:payments-dlq".parse().unwrap();
    let place = || Some(BucketPrefix { bucket: text.to_owned(), prefix: text.to_owned() });
    ConsoleAccount {
        clients: CLIENTS.clone(),
        archive: place(),
        control: place(),
        stack: Some(text.to_owned()),
        function: Some(text.to_owned()),
        log_group: Some(text.to_owned()),
        namespace: text.to_owned(),
        queues: vec![queue],
        requeue: None,
        grants: TargetGrants::default(),
        region: "eu-central-1".to_owned(),
        clock: InstanceClock::from_fn(now),
        bodies: BodyVisibility::Hidden,
    }
}

pub(crate) fn doctor(text: &str) -> DoctorProgress {
    let finding = PageFinding {
        severity: text.to_owned(),
        check: text.to_owned(),
        about: text.to_owned(),
        says: text.to_owned(),
        fix: Some(text.to_owned()),
    };
    DoctorProgress::Found { at: now(), findings: vec![finding] }
}

fn filter(text: &str) -> Filter {
    GroupField::ALL.into_iter().fold(Filter::default(), |filter, field| filter.with(field, text))
}

fn fields(text: &str) -> LetterFields {
    let some = || Some(text.to_owned());
    LetterFields {
        topic: some(),
        subscription: some(),
        target: some(),
        error: some(),
        cause: some(),
        rule: some(),
        reason: some(),
        queue: some(),
    }
}

fn said(text: &str) -> ShownContent {
    ShownContent { body: text.to_owned(), is_cut: true, attributes: vec![(text.to_owned(), text.to_owned())] }
}

fn archived(text: &str) -> ArchivedLetter {
    ArchivedLetter {
        key: text.to_owned(),
        id: text.to_owned(),
        message_id: text.to_owned(),
        fields: fields(text),
        archived: now(),
        arrived: Some(span().from),
        retry: Some((3, 12)),
        replayed: Some(false),
    }
}

fn waiting(text: &str) -> WaitingOne {
    WaitingOne {
        id: text.to_owned(),
        message_id: text.to_owned(),
        fields: fields(text),
        since: span().from,
        due: now() + SignedDuration::from_hours(1),
        hidden: Some(now()),
        retry: (4, 12),
        held_by: Some(text.to_owned()),
        recovers: true,
        claimed: false,
    }
}

fn count() -> TimedCount {
    let mut count = TimedCount::default();
    count.add(7, now() - SignedDuration::from_hours(1), &span());
    count
}

fn left() -> UnreplayedCount {
    UnreplayedCount { asked: 3, left: 2 }
}

fn counted() -> CountMethod {
    CountMethod {
        letters: 7,
        more: true,
        read: 3,
        matching: 2,
        is_narrower: true,
        is_sample: true,
        untold: 1,
        blind: 1,
    }
}

fn line(text: &str, outcome: &str) -> LetterLogLine {
    let some = || Some(text.to_owned());
    LetterLogLine {
        at: Some(now()),
        outcome: outcome.to_owned(),
        reason: some(),
        retry: Some((text.to_owned(), text.to_owned())),
        due: some(),
        target: some(),
        error: some(),
        took: some(),
        queue: some(),
        message: Some(format!("{outcome}{text}")),
    }
}

/// Renders every page through a door. Returns their names and their HTML.
#[allow(clippy::too_many_lines, reason = "a list of all pages with their data")]
#[must_use]
pub fn pages(text: &str, door: &PageHost) -> Vec<(String, String)> {
    let account = account(text);
    let of = filter(text);
    let values = || {
        vec![
            GroupValue::Known(text.to_owned()),
            GroupValue::Hash(text.to_owned()),
            GroupValue::None,
            GroupValue::Others,
            GroupValue::Untold,
        ]
    };
    let groups = PageGroups {
        by: GroupField::Error,
        of: of.without(GroupField::Error),
        span: span(),
        counted: counted(),
        left: left(),
        rows: values()
            .into_iter()
            .map(|value| PageGroup { value, archived: count(), left: left(), waiting: 2, since: Some(now()) })
            .collect(),
        further: 3,
        waiting: 2,
        more_waiting: true,
    };
    let common = values().into_iter().map(|value| CommonValue { value, archived: 2, waiting: 1 }).collect();
    let group = OneGroup {
        of: of.clone(),
        span: span(),
        counted: counted(),
        archived: count(),
        left: left(),
        waiting: 2,
        more_waiting: true,
        since: Some(now()),
        next: Some((2, 4)),
        need_you: 1,
        held: 1,
        target: Some(target(text)),
        fields: vec![(GroupField::Error, common)],
        rule: Some(rule_name(text).to_owned()),
        examples: vec![(archived(text), Some(said(text)))],
        next_waiting: vec![waiting(text)],
    };
    let rows = values().into_iter().map(|value| WaitingGroup { value, letters: 2, due: (now(), now()) });
    let mut due = [0; redrive_console::read::PARTS];
    due[3] = 2;
    let list = WaitingSummary {
        by: GroupField::Target,
        of: of.clone(),
        letters: 2,
        claimed: 3,
        more: true,
        span: ChartSpan { from: now(), to: now() + SignedDuration::from_hours(12) },
        due,
        rows: rows.collect(),
        further: 1,
        held: vec![(text.to_owned(), 1)],
        next: vec![waiting(text)],
    };
    let one = OneLetter { id: text.to_owned(), key: Some(text.to_owned()), log_query: Some(text.to_owned()) };
    let lines = vec![line(text, text), line(text, "deferred"), line(text, "archived")];
    let letter = |log| LetterHistory {
        archived: Some((archived(text), Some(said(text)))),
        replayed: Some(LetterReplay { id: text.to_owned(), began: Some(now()) }),
        waiting: Some(waiting(text)),
        log,
        back_since: None,
        held_by: Some(text.to_owned()),
    };
    let found = SearchResult {
        archived: vec![archived(text)],
        waiting: vec![waiting(text)],
        values: vec![(GroupField::Error, text.to_owned(), 2)],
        is_part: true,
        more: true,
    };
    let policy = policy(rule_name(text));
    let unknown = Err(text.to_owned());
    let queries = [
        (PageKind::Now, "now"),
        (PageKind::Groups { by: GroupField::Error, of: groups.of.clone() }, "groups"),
        (PageKind::Group { of: of.clone() }, "group"),
        (PageKind::Group { of: of.clone() }, "group without policy"),
        (PageKind::Waiting { by: GroupField::Target, of }, "waiting"),
        (PageKind::Letter(one.clone()), "letter"),
        (PageKind::Letter(one.clone()), "letter that is still searched"),
        (PageKind::Group { of: Filter::default() }, "group without a target"),
        (PageKind::Find { text: text.to_owned() }, "find"),
    ];
    let render = |(page, name): (PageKind, &str)| {
        let query = Query::of(page);
        let view = ViewContext { query: &query, account: &account, door, now: now() };
        let content = match name {
            "now" => view::now(&happens(text), false, &view),
            "groups" => view::groups(&groups, &view),
            "group" => view::group(&group, Some(&policy), true, &view),
            "group without policy" => view::group(&group, Some(&unknown), false, &view),
            "group without a target" => {
                view::group(&OneGroup { target: None, ..group.clone() }, Some(&policy), true, &view)
            }
            "find" => view::find(&found, text, &view),
            "waiting" => view::waiting(&list, &view),
            "letter" => {
                let lines = LetterLog::Lines { lines: lines.clone(), more: true };
                view::letter(&letter(lines), &one, policy.as_ref().ok(), &view)
            }
            _ => view::letter(&letter(LetterLog::Running(text.to_owned())), &one, None, &view),
        };
        let frame = PageFrame {
            title: text,
            has_heading: name != "find",
            query: Some(&query),
            account: &account,
            door,
            footer: Some(text),
        };
        (name.to_owned(), frame.put(&content))
    };
    queries.into_iter().map(render).collect()
}

/// Returns the text if a rule may have this name, otherwise a harmless one.
fn rule_name(text: &str) -> &str {
    if policy(text).is_ok() { text } else { "abc" }
}

/// Returns a policy with one rule of this name.
fn policy(name: &str) -> Result<Policy, String> {
    let json = json!({ "rules": [{ "name": name, "match": { "origin": ["sns"] } }] });
    Policy::parse(&json.to_string()).map_err(|bad| bad.to_string())
}

fn happens(text: &str) -> PresentState {
    let override_ = json!({ "version": 1, "overrides": [{
        "id": "0", "do": "hold", "match": { "subject": [text] }, "at": "2026-11-01T11:00:00Z",
        "by": "ada", "why": "why",
    }] });
    let overrides = Overrides::parse(override_.to_string().as_bytes()).unwrap();
    let mut override_ = overrides.all()[0].clone();
    (override_.id, override_.by, override_.why) = (text.to_owned(), text.to_owned(), text.to_owned());
    let queue = QueueNow { name: text.to_owned(), is_requeue: true, ..QueueNow::default() };
    let alarm = Alarm { name: text.to_owned(), says: Some(text.to_owned()), since: Some(now()) };
    PresentState {
        queues: vec![queue],
        to_expiry: Some(1),
        further: 1,
        targets: vec![target(text), FailingTarget { target: None, state: TargetState::Held, ..target(text) }],
        need_you: BoundedCount { letters: 3, bound: CountBound::AtMost },
        retention: Some(Ok(ArchiveRetention::Days(90))),
        kept_until: Some(now()),
        waits: BoundedCount { letters: 2, bound: CountBound::About },
        held: BoundedCount { letters: 1, bound: CountBound::AtLeast },
        due: Some((now(), now() + SignedDuration::from_hours(1))),
        gives_up: Some(now()),
        span: Some(span()),
        is_sample: true,
        blind: vec!["abc"],
        overrides: Some(vec![override_]),
        replays: Some(vec![replay(text)]),
        more_replays: true,
        alarms: Some(vec![alarm]),
    }
}

fn target(text: &str) -> FailingTarget {
    FailingTarget {
        target: Some(text.to_owned()),
        state: TargetState::Down(now()),
        error: Some(text.to_owned()),
        reason: Some(text.to_owned()),
        all_refused: true,
        topics: [text.to_owned()].into(),
        without_topic: true,
        waiting: 2,
        held: 1,
        held_by: [format!("override {text}")].into(),
        back_since: Some(now()),
        failed_since_back: 1,
        need_you: 3,
        need_since: Some(now()),
        came: count(),
        due: Some((now(), now())),
        stands: Some([(("default".to_owned(), 1), (now(), now()))].into()),
    }
}

fn replay(text: &str) -> ReplayState {
    let state = json!({
        "version": 1, "id": text, "request": { "why": text }, "by": text, "began": now(), "takenUp": now(),
        "holder": text, "cutOff": now(), "status": "running", "because": text, "letters": 10, "exact": true, "units": 1,
        "counts": { "sent": 3 }, "step": 1, "steps": 4,
        "place": { "units": 0, "counts": {}, "stage": 0, "stepBegan": now(), "sentBefore": 0, "refusedBefore": 0,
            "waitingBefore": 0 },
    });
    serde_json::from_value(state).unwrap()
}
