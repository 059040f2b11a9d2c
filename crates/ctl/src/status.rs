//! `redrivectl status`: the console's page *now*, as text.

use jiff::Timestamp;
use redrive_console::read::{
    BoundedCount, FailingTarget, PresentState, PresentVerdict, TargetState, VerdictLevel, VerdictSince,
};
use redrive_console::text::{clock_time, distance, span, who};
use redrive_console::{BodyVisibility, PageRange, TargetGrants, read_present};
use redrive_core::policy::{Override, OverrideAction};
use serde_json::{Value, json};

use crate::args;
use crate::aws::AwsAccess;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment};
use crate::output::CommandResult;
use crate::serve::account::account;
use crate::tables::{TableNames, TextStyle, harmless, thousands};

/// The most targets that are shown, and the most holds.
const MAX_TARGETS: usize = 4;
const MAX_HOLDS: usize = 2;

/// Prints what fails, how many letters wait or need a person, and what to type next.
pub(super) async fn run(
    args: &args::StatusArgs,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    let aws = AwsAccess::connect(&args.connection, console).await?;
    let account = account(BodyVisibility::Hidden, &aws, console).await?;
    let range = args.range.unwrap_or_default();
    let (state, unread) = read_present(&account, range).await;
    let now = account.clock.now();
    let verdict = PresentVerdict::of(&state, unread.is_empty(), now);
    let (stack, grants) = (account.stack.clone().unwrap_or_default(), account.grants.clone());
    let command = |words: Vec<String>| console.stack.further().command(&words);
    let is_edited = state.worst().is_some_and(is_refused);
    let mut next = next_words(&state, range, now).map(command);
    let last = next.as_mut().filter(|_| is_edited).map(|next| {
        next.push_str(" > letters.jsonl");
        command(["replay", "--from", "letters.jsonl", "--dry-run"].map(str::to_owned).to_vec())
    });
    console.print(&StatusReport { stack, state, verdict, unread, next, last, range, now, grants }, as_json)
}

struct StatusReport {
    stack: String,
    state: PresentState,
    verdict: PresentVerdict,
    unread: Vec<String>,
    /// The command to type next.
    next: Option<String>,
    /// The command after that, for an edited copy of its output.
    last: Option<String>,
    range: PageRange,
    now: Timestamp,
    grants: TargetGrants,
}

impl CommandResult for StatusReport {
    fn text(&self, style: TextStyle) -> String {
        let Self { stack, state, verdict, unread, now, .. } = self;
        let since = verdict.since.map_or(String::new(), |since| {
            format!(" {} {}, at {}.", since.words(), distance(since.at(), *now), clock_time(since.at(), *now))
        });
        let mut lines =
            vec![format!("{}: {}{since}", harmless(stack), harmless(&verdict.says)), String::new()];
        lines.push(self.numbers());
        lines.extend(state.gives_up.map(|end| {
            let (when, at) = (distance(end, *now), clock_time(end, *now));
            format!("if every retry fails, the first letter is archived {when} at the earliest, at {at}")
        }));
        let of =
            if state.kept_until.is_some() { "archived letters that need you" } else { "archived letters" };
        lines.extend(state.kept_words().map(|kept| format!("{of} are {kept}")));
        lines.extend(state.to_expiry.map(|left| format!("the first letter expires in {}", span(left))));
        let shown: Vec<_> = state.targets.iter().filter(|it| it.state != TargetState::Fine).collect();
        if !shown.is_empty() {
            lines.extend([String::new(), targets(&shown, style, *now)]);
        }
        if shown.len() > MAX_TARGETS {
            let further = shown.len() - MAX_TARGETS;
            lines.push(format!("and {further} more: redrivectl waiting, redrivectl archive list"));
        }
        let alarms: Vec<_> = state.alarms.iter().flatten().map(|alarm| harmless(&alarm.name)).collect();
        lines.extend((!alarms.is_empty()).then(|| format!("alarms: {}", alarms.join(", "))));
        lines.extend(unread.iter().map(|what| format!("not seen: {}", harmless(what))));
        lines.extend(self.holds());
        let first = self.first();
        lines.extend(first.as_ref().map(|first| format!("first: {}", harmless(first))));
        let then = if first.is_some() { "then" } else { "next" };
        let edits = self.last.is_some().then_some("edit: the bodies in letters.jsonl, and nothing else");
        lines.extend(self.next.iter().map(|next| format!("{then}: {next}")));
        lines.extend(edits.map(str::to_owned));
        lines.extend(self.last.iter().map(|last| format!("last: {last}")));
        lines.join("\n") + "\n"
    }

    fn json(&self) -> Value {
        let Self { stack, state, verdict, unread, grants, .. } = self;
        let count = |count: BoundedCount| json!({ "letters": count.letters, "bound": bound(count) });
        let target = |target: &FailingTarget| {
            let (state, since) = (target.state.name(), target.state.since());
            json!({
                "target": target.target, "state": state, "since": since, "error": target.error, "reason": target.reason,
                "says": target.says(), "mend": target.mend(grants), "waiting": target.waiting, "held": target.held,
                "heldBy": target.held_by, "needYou": target.need_you,
                "topics": target.topics,
            })
        };
        let level = match verdict.level {
            VerdictLevel::Fine => "fine",
            VerdictLevel::Watch => "watch",
            VerdictLevel::Bad => "bad",
        };
        json!({
            "stack": stack, "level": level, "says": verdict.says, "since": verdict.since.map(VerdictSince::at),
            "needYou": count(state.need_you), "waiting": count(state.waits), "held": count(state.held),
            "givesUp": state.gives_up, "secondsToExpiry": state.to_expiry, "keptUntil": state.kept_until,
            "targets": state.targets.iter().map(target).collect::<Value>(),
            "alarms": state.alarms.iter().flatten().map(|alarm| json!(alarm.name)).collect::<Value>(),
            "notSeen": unread.iter().map(String::as_str).chain(state.blind.iter().copied()).collect::<Vec<_>>(),
            "next": self.next, "last": self.last,
        })
    }

    fn finished(&self) -> CommandEnd {
        let is_whole = self.unread.is_empty() && self.state.blind.is_empty();
        let has_alarm = self.state.alarms.as_ref().is_some_and(|alarms| !alarms.is_empty());
        match (self.verdict.level, is_whole) {
            (VerdictLevel::Bad, _) => CommandEnd::NeedsPerson,
            // Somebody is told by an alarm, as in the line of a fleet.
            _ if has_alarm => CommandEnd::NeedsPerson,
            (_, false) => CommandEnd::Unseen,
            (_, true) => CommandEnd::Whole,
        }
    }
}

impl StatusReport {
    /// Returns a line for each of the first holds that have letters.
    fn holds(&self) -> impl Iterator<Item = String> {
        let holds = self.state.overrides.iter().flatten().filter(|it| it.action == OverrideAction::Hold);
        let by = |id: &str| {
            self.state.targets.iter().any(|target| target.held_by.contains(&format!("override {id}")))
        };
        holds.filter(move |hold| by(&hold.id)).take(MAX_HOLDS).map(|hold| {
            let end = hold
                .end()
                .map_or("until it is released".to_owned(), |end| format!("ends {}", distance(end, self.now)));
            let [id, by, why] = [&hold.id, &who(&hold.by), &hold.why].map(|text| harmless(text));
            format!("hold: {id}, given {} by {by}, {end}, why: \"{why}\"", distance(hold.at, self.now))
        })
    }

    /// Returns what comes before the command: what mends the worst target, or whom to ask whether a hold is over.
    fn first(&self) -> Option<String> {
        if let Some(worst) = self.state.worst() {
            return worst.mend(&self.grants);
        }
        let hold = hold(&self.state, self.now)?;
        Some(format!("Ask {} whether this is over: \"{}\".", who(&hold.by), hold.why))
    }

    /// Returns the line of numbers.
    fn numbers(&self) -> String {
        let Self { state, now, .. } = self;
        let range = self.range.name().unwrap_or_else(|| "the time".to_owned());
        let due = state.due.map_or(String::new(), |(next, last)| {
            match (distance(next, *now), distance(last, *now)) {
                (next, last) if next == last => format!("  due {next}"),
                (next, last) => format!("  due {next} to {last}"),
            }
        });
        let delivered =
            state.came_and_delivered().map_or("-".to_owned(), |(_, delivered)| thousands(delivered));
        format!(
            "need you {} (of {range})  wait {}{due}  held {}  delivered in {range} {}",
            number(state.need_you),
            number(state.waits),
            number(state.held),
            delivered
        )
    }
}

/// Returns the table of the worst targets.
fn targets(shown: &[&FailingTarget], style: TextStyle, now: Timestamp) -> String {
    let head = ["target", "state", "what it says", "wait", "need you"].map(str::to_owned).to_vec();
    let first = || shown.iter().take(MAX_TARGETS);
    let names = TableNames::of(first().filter_map(|target| target.target.as_deref()), style);
    let rows: Vec<_> = std::iter::once(head).chain(first().map(|target| row(target, &names, now))).collect();
    let needs = |target: &FailingTarget| target.state.is_failing() || target.need_you > 0;
    let red: Vec<_> = first().zip(1..).filter(|(target, _)| needs(target)).map(|(_, row)| row).collect();
    style.table(&rows, &[3, 4], &red).trim_end().to_owned()
}

fn number(count: BoundedCount) -> String {
    format!("{}{}", count.bound.sign(), thousands(count.letters))
}

fn bound(count: BoundedCount) -> &'static str {
    use redrive_console::read::CountBound;
    match count.bound {
        CountBound::Exact => "exact",
        CountBound::AtMost => "atMost",
        CountBound::AtLeast => "atLeast",
        CountBound::About => "about",
    }
}

fn row(target: &FailingTarget, names: &TableNames, now: Timestamp) -> Vec<String> {
    let of_topic = || match (target.topics.first(), target.topics.len()) {
        (Some(topic), 1) if !target.without_topic => format!("letters of {}", names.name(topic)),
        _ => "letters without an endpoint".to_owned(),
    };
    let name = target.target.as_deref().map_or_else(of_topic, |name| names.name(name));
    let state = match target.state {
        TargetState::Held => format!("{} held", thousands(target.held)),
        state => {
            state.time_words(now).map_or(state.name().to_owned(), |words| format!("{} {words}", state.name()))
        }
    };
    let says = target.says().unwrap_or_default();
    vec![name, state, says, thousands(target.waiting), thousands(target.need_you)]
}

/// Reports whether its letters need an edit before they are sent again.
fn is_refused(target: &FailingTarget) -> bool {
    target.all_refused && !is_retried(target)
}

/// Reports whether a retry at once helps its letters: they wait, and it does not ask for time.
fn is_retried(target: &FailingTarget) -> bool {
    target.waiting > 0 && target.state.is_failing() && !target.state.is_throttled()
}

/// Returns the first hold in force that has letters.
fn hold(state: &PresentState, now: Timestamp) -> Option<&Override> {
    state.targets.iter().find_map(|it| it.override_in_force(state.overrides.as_deref(), now))
}

/// Returns the command for the worst target, without the connection: it shows the letters, and does nothing yet. None where
/// an endpoint asks for time. Where nothing fails, it releases a hold.
fn next_words(state: &PresentState, range: PageRange, now: Timestamp) -> Option<Vec<String>> {
    let Some(worst) = state.worst() else {
        let hold = hold(state, now)?;
        return Some(["overrides", "release", &hold.id, "--dry-run"].map(str::to_owned).to_vec());
    };
    let target = worst.target.clone()?;
    if worst.state.is_throttled() && worst.need_you == 0 {
        return None;
    }
    let since = range.at(now).0.to_string();
    let words: &[&str] = if is_retried(worst) {
        &["retry", "--target", &target, "--dry-run"]
    } else if is_refused(worst) {
        // The same content would be refused again: these are the records to edit.
        &["archive", "show", "--target", &target, "--reason", "permanent", "--since", &since, "--json"]
    } else {
        &["replay", "--target", &target, "--since", &since, "--not-replayed", "--dry-run"]
    };
    Some(words.iter().map(|word| (*word).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use redrive_console::read::Alarm;

    use super::*;

    fn report(state: PresentState, unread: &[&str]) -> StatusReport {
        let now: Timestamp = "2026-11-01T12:00:00Z".parse().unwrap();
        let (range, stack) = (PageRange::default(), "payments".to_owned());
        let verdict = PresentVerdict::of(&state, unread.is_empty(), now);
        let unread = unread.iter().map(|it| (*it).to_owned()).collect();
        let next = next_words(&state, range, now).map(|words| words.join(" "));
        let last = None;
        StatusReport {
            stack,
            state,
            verdict,
            unread,
            next,
            last,
            range,
            now,
            grants: TargetGrants::default(),
        }
    }

    fn hold(at: Timestamp) -> Override {
        Override {
            id: "o1".to_owned(),
            action: OverrideAction::Hold,
            pattern: json!({}),
            arrived_before: None,
            arrived_after: None,
            at,
            until: None,
            by: "arn:aws:iam::1:user/ada".to_owned(),
            why: "an update".to_owned(),
        }
    }

    const WORKER: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-worker";

    /// Returns a target with two letters that need a person.
    fn target(state: TargetState, waiting: u64) -> FailingTarget {
        let target = Some(WORKER.to_owned());
        FailingTarget { target, state, waiting, need_you: 2, ..FailingTarget::default() }
    }

    #[test]
    fn a_person_is_needed_by_an_alarm_whatever_could_not_be_seen() {
        let alarm = Alarm { name: "payments-SilentAlarm".to_owned(), says: None, since: None };
        let on = || PresentState { alarms: Some(vec![alarm.clone()]), ..PresentState::default() };
        assert_eq!(report(on(), &[]).finished(), CommandEnd::NeedsPerson);
        assert_eq!(report(on(), &["the metrics"]).finished(), CommandEnd::NeedsPerson);
        let none = || PresentState { alarms: Some(Vec::new()), ..PresentState::default() };
        assert_eq!(report(none(), &["the metrics"]).finished(), CommandEnd::Unseen);
        assert_eq!(report(none(), &[]).finished(), CommandEnd::Whole);
    }

    #[test]
    fn what_is_kept_nowhere_is_not_seen() {
        let blind = PresentState { blind: vec!["archived letters"], ..PresentState::default() };
        let report = report(blind, &["the metrics"]);
        assert_eq!(report.finished(), CommandEnd::Unseen);
        assert_eq!(report.json()["notSeen"], json!(["the metrics", "archived letters"]));
    }

    /// Archived letters are sent again, those of the time that is shown, and each once. Letters that wait come first.
    #[test]
    fn the_next_command_is_about_the_worst_target() {
        let arn = WORKER;
        let at: Timestamp = "2026-11-01T11:00:00Z".parse().unwrap();
        let next =
            |target| report(PresentState { targets: vec![target], ..PresentState::default() }, &[]).next;
        let replay = format!("replay --target {arn} --since 2026-11-01T09:00:00Z --not-replayed --dry-run");
        assert_eq!(next(target(TargetState::GaveUp(at), 0)), Some(replay));
        let refused = FailingTarget { all_refused: true, ..target(TargetState::GaveUp(at), 0) };
        let show =
            format!("archive show --target {arn} --reason permanent --since 2026-11-01T09:00:00Z --json");
        assert_eq!(next(refused), Some(show));
        let retry = format!("retry --target {arn} --dry-run");
        assert_eq!(next(target(TargetState::Fails(at), 1)), Some(retry));
        let replay_it = next(target(TargetState::Throttles(at), 1));
        assert!(replay_it.is_some_and(|next| next.starts_with("replay ")), "letters need somebody");
        let asks = FailingTarget { need_you: 0, ..target(TargetState::Throttles(at), 1) };
        assert_eq!(next(asks.clone()), None, "it asks for time");
        let one = PresentState { targets: vec![asks.clone()], ..PresentState::default() };
        assert_eq!(report(one, &[]).finished(), CommandEnd::Whole, "nobody has to do anything");
        // Another one needs somebody, though it stands behind.
        let other = FailingTarget { target: Some("https://shop.example#0123456789ab".to_owned()), ..asks };
        let targets = vec![other, target(TargetState::GaveUp(at), 0)];
        let both = PresentState { targets, ..PresentState::default() };
        assert!(report(both, &[]).next.is_some_and(|next| next.contains(WORKER)));
        let by_override = std::iter::once("override o1".to_owned()).collect();
        let held =
            FailingTarget { held: 1, held_by: by_override, need_you: 0, ..target(TargetState::Held, 0) };
        // It may have ended since: the list keeps a letter until it is due.
        assert_eq!(next(held.clone()), None);
        let state =
            PresentState { targets: vec![held], overrides: Some(vec![hold(at)]), ..PresentState::default() };
        assert_eq!(report(state, &[]).next, Some("overrides release o1 --dry-run".to_owned()));
    }

    /// What mends an endpoint comes before the command that would otherwise fail again. A hold says who gave it, and why.
    #[test]
    fn what_mends_it_comes_before_the_command() {
        let text = |state| report(state, &[]).text(TextStyle::default());
        let at: Timestamp = "2026-11-01T11:00:00Z".parse().unwrap();
        let error = Some("KMS.DisabledException".to_owned());
        let target = FailingTarget { error, ..target(TargetState::GaveUp(at), 0) };
        let said = text(PresentState { targets: vec![target.clone()], ..PresentState::default() });
        let place = |words: &str| said.find(words).unwrap_or_else(|| panic!("no {words} in {said}"));
        assert!(place("first: Enable the key") < place("then: replay --target"), "{said}");
        let by_override = std::iter::once("override o1".to_owned()).collect();
        let held = FailingTarget {
            held: 1,
            held_by: by_override,
            need_you: 0,
            error: None,
            state: TargetState::Held,
            ..target
        };
        let overrides = Some(vec![hold(at)]);
        let said = text(PresentState { targets: vec![held], overrides, ..PresentState::default() });
        assert!(said.contains("hold: o1, given 60 min ago by ada, until it is released, why: \"an update\"\nfirst: Ask ada whether this is over: \"an update\".\nthen: overrides release o1 --dry-run"), "{said}");
    }
}
