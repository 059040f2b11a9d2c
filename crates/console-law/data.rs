//! Pages with one text in every field.

use std::sync::LazyLock;

use aws_config::{BehaviorVersion, SdkConfig};
use jiff::{SignedDuration, Timestamp};
use redrive_console::read::{
    Alarm, ArchivedLetter, Common, Count, Counted, Fields, Group, Groups, Left, Letter, Line, Log, Now,
    OneGroup, QueueNow, Replayed, Said, Span, Value, Waiting, WaitingGroup, WaitingOne,
};
use redrive_console::view::{self, Frame, View};
use redrive_console::{
    Account, Bodies, Clients, Doctor, Door, Field, Filter, Finding, OneLetter, Page, Place, Query,
};
use serde_json::json;
use sns_redrive::clock::Clock;
use sns_redrive::policy::{Overrides, Policy};
use sns_redrive::replay::State;

/// Clients for an account that no test calls.
static CLIENTS: LazyLock<Clients> = LazyLock::new(|| {
    let config = SdkConfig::builder().behavior_version(BehaviorVersion::latest()).build();
    Clients::from_config(&config, true)
});

fn now() -> Timestamp {
    "2026-11-01T12:00:00Z".parse().unwrap()
}

fn span() -> Span {
    Span { from: now() - SignedDuration::from_hours(3), to: now() }
}

/// Returns an account that no test calls, with the text in every field.
#[must_use]
pub fn account(text: &str) -> Account {
    let queue = "arn:aws:sqs:eu-central-1:123456789012:payments-dlq".parse().unwrap();
    let place = || Some(Place { bucket: text.to_owned(), prefix: text.to_owned() });
    Account {
        clients: CLIENTS.clone(),
        archive: place(),
        control: place(),
        stack: Some(text.to_owned()),
        function: Some(text.to_owned()),
        log_group: Some(text.to_owned()),
        namespace: text.to_owned(),
        queues: vec![queue],
        requeue: None,
        region: "eu-central-1".to_owned(),
        clock: Clock::from_fn(now),
        bodies: Bodies::Hidden,
    }
}

pub(crate) fn doctor(text: &str) -> Doctor {
    let finding = Finding {
        severity: text.to_owned(),
        check: text.to_owned(),
        about: text.to_owned(),
        says: text.to_owned(),
        fix: Some(text.to_owned()),
    };
    Doctor::Found { at: now(), findings: vec![finding] }
}

fn filter(text: &str) -> Filter {
    Field::ALL.into_iter().fold(Filter::default(), |filter, field| filter.with(field, text))
}

fn fields(text: &str) -> Fields {
    let some = || Some(text.to_owned());
    Fields {
        topic: some(),
        subscription: some(),
        target: some(),
        error: some(),
        rule: some(),
        reason: some(),
        queue: some(),
    }
}

fn said(text: &str) -> Said {
    Said { body: text.to_owned(), is_cut: true, attributes: vec![(text.to_owned(), text.to_owned())] }
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
        retry: (4, 12),
        held_by: Some(text.to_owned()),
    }
}

fn count() -> Count {
    let mut count = Count::default();
    count.add(7, now() - SignedDuration::from_hours(1), &span());
    count
}

fn left() -> Left {
    Left { asked: 3, left: 2 }
}

fn counted() -> Counted {
    Counted {
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

fn line(text: &str, outcome: &str) -> Line {
    let some = || Some(text.to_owned());
    Line {
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
#[must_use]
pub fn pages(text: &str, door: &Door) -> Vec<(String, String)> {
    let account = account(text);
    let of = filter(text);
    let values = || {
        vec![
            Value::Known(text.to_owned()),
            Value::Hash(text.to_owned()),
            Value::None,
            Value::Others,
            Value::Untold,
        ]
    };
    let groups = Groups {
        by: Field::Error,
        of: of.without(Field::Error),
        span: span(),
        counted: counted(),
        left: left(),
        rows: values()
            .into_iter()
            .map(|value| Group { value, archived: count(), left: left(), waiting: 2, since: Some(now()) })
            .collect(),
        further: 3,
        waiting: 2,
        more_waiting: true,
    };
    let common = values().into_iter().map(|value| Common { value, archived: 2, waiting: 1 }).collect();
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
        fields: vec![(Field::Error, common)],
        rule: Some(rule_name(text).to_owned()),
        examples: vec![(archived(text), Some(said(text)))],
        next_waiting: vec![waiting(text)],
    };
    let rows = values().into_iter().map(|value| WaitingGroup { value, letters: 2, due: (now(), now()) });
    let mut due = [0; redrive_console::read::PARTS];
    due[3] = 2;
    let list = Waiting {
        by: Field::Target,
        of: of.clone(),
        letters: 2,
        more: true,
        span: Span { from: now(), to: now() + SignedDuration::from_hours(12) },
        due,
        rows: rows.collect(),
        further: 1,
        held: vec![(text.to_owned(), 1)],
        next: vec![waiting(text)],
    };
    let one = OneLetter { id: text.to_owned(), key: Some(text.to_owned()), log_query: Some(text.to_owned()) };
    let lines = vec![line(text, text), line(text, "deferred"), line(text, "archived")];
    let letter = |log| Letter {
        archived: Some((archived(text), Some(said(text)))),
        replayed: Some(Replayed { id: text.to_owned(), began: Some(now()) }),
        waiting: Some(waiting(text)),
        log,
    };
    let policy = policy(rule_name(text));
    let unknown = Err(text.to_owned());
    let queries = [
        (Page::Now, "now"),
        (Page::Groups { by: Field::Error, of: groups.of.clone() }, "groups"),
        (Page::Group { of: of.clone() }, "group"),
        (Page::Group { of: of.clone() }, "group without policy"),
        (Page::Waiting { by: Field::Target, of }, "waiting"),
        (Page::Letter(one.clone()), "letter"),
        (Page::Letter(one.clone()), "letter that is still searched"),
    ];
    let render = |(page, name): (Page, &str)| {
        let query = Query::of(page);
        let view = View { query: &query, account: &account, door, now: now() };
        let content = match name {
            "now" => view::now(&happens(text), &view),
            "groups" => view::groups(&groups, &view),
            "group" => view::group(&group, Some(&policy), &view),
            "group without policy" => view::group(&group, Some(&unknown), &view),
            "waiting" => view::waiting(&list, &view),
            "letter" => view::letter(&letter(Log::Lines { lines: lines.clone(), more: true }), &one, &view),
            _ => view::letter(&letter(Log::Running(text.to_owned())), &one, &view),
        };
        let frame = Frame { title: text, query: Some(&query), account: &account, door, footer: Some(text) };
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

fn happens(text: &str) -> Now {
    let override_ = json!({ "version": 1, "overrides": [{
        "id": "0", "do": "hold", "match": { "subject": [text] }, "at": "2026-11-01T11:00:00Z",
        "by": "ada", "why": "why",
    }] });
    let overrides = Overrides::parse(override_.to_string().as_bytes()).unwrap();
    let mut override_ = overrides.all()[0].clone();
    (override_.id, override_.by, override_.why) = (text.to_owned(), text.to_owned(), text.to_owned());
    let queue = QueueNow { name: text.to_owned(), is_requeue: true, ..QueueNow::default() };
    let alarm = Alarm { name: text.to_owned(), says: Some(text.to_owned()), since: Some(now()) };
    Now {
        queues: vec![queue],
        further: 1,
        overrides: Some(vec![override_]),
        replays: Some(vec![replay(text)]),
        more_replays: true,
        alarms: Some(vec![alarm]),
    }
}

fn replay(text: &str) -> State {
    let state = json!({
        "version": 1, "id": text, "request": { "why": text }, "by": text, "began": now(), "takenUp": now(),
        "holder": text, "cutOff": now(), "status": "running", "because": text, "letters": 10, "exact": true, "units": 1,
        "counts": { "sent": 3 }, "step": 1, "steps": 4,
        "place": { "units": 0, "counts": {}, "stage": 0, "stepBegan": now(), "sentBefore": 0, "refusedBefore": 0,
            "waitingBefore": 0 },
    });
    serde_json::from_value(state).unwrap()
}
