//! The page *now*: a verdict, five numbers, the targets that fail, and what is in force.

use jiff::SignedDuration;
use maud::{Markup, html};
use redrive_core::policy::{Override, OverrideAction};
use redrive_replay::{ReplayState, ReplayStatus};

use super::elements::{
    ViewContext, bounded, column, given_up, moment, next_and_last, number, pill, scale, section, spark,
    table, tile, verdict, when,
};
use super::link::action;
use crate::operator_action::{ActionObject, ActionVerb, PageAction};
use crate::page_host::{DoctorProgress, LocalConsole, PageFinding, PageHost};
use crate::pattern_words::pattern_words;
use crate::query::{Filter, GroupField, PageKind};
use crate::read::{
    Alarm, DANGER_SECONDS, FailingTarget, MetricSeries, PresentState, PresentVerdict, QueueNow, TargetState,
    VerdictLevel, bare_code, part_of,
};
use crate::text::{clock_time, count, distance, harmless, label, span, thousands, utc, who};

/// The most targets on the page. The page of letters has them all.
const MAX_TARGETS: usize = 20;

/// Renders the present state. `is_whole` is false if a part of it could not be read.
#[must_use]
pub fn now(now: &PresentState, is_whole: bool, view: &ViewContext<'_>) -> Markup {
    html! {
        (view.ranges())
        (answer(now, is_whole, view))
        (tiles(now, is_whole, view))
        (targets(now, is_whole, view))
        (alarms(now.alarms.as_deref(), view))
        (flow(now, view))
        @if matches!((&now.overrides, &now.replays), (Some(overrides), Some(replays)) if overrides.is_empty() && replays.is_empty()) {
            (section("overrides", "Overrides and replays", &html! { p { "No override is in force, and no replay is kept." } }))
        } @else {
            (overrides(now.overrides.as_deref(), view))
            (replays(now, view))
        }
        (queues(now, view))
        @if let PageHost::Local(LocalConsole { doctor: Some(doctor), .. }) = view.door { (findings(doctor)) }
    }
}

fn answer(now: &PresentState, is_whole: bool, view: &ViewContext<'_>) -> Markup {
    let PresentVerdict { level, says, since } = PresentVerdict::of(now, is_whole, view.now);
    let below = html! {
        @if let Some(since) = since {
            (since.words()) " " (when(since.at(), view.now)) ", at " (clock_time(since.at(), view.now)) ". "
        }
        @if let Some(worst) = now.worst().filter(|_| level == VerdictLevel::Bad) {
            @if let Some(target) = &worst.target {
                (view.to("What to do", target_page(target)))
            }
        }
    };
    verdict(level, &says, &below)
}

/// Returns the page of a target.
fn target_page(target: &str) -> PageKind {
    PageKind::Group { of: Filter::default().with(GroupField::Target, target) }
}

fn tiles(now: &PresentState, is_whole: bool, view: &ViewContext<'_>) -> Markup {
    let level = |letters: u64, bad| (letters > 0).then_some(bad);
    let oldest = now.queues.iter().filter_map(|queue| queue.oldest).max();
    let flow = now.came_and_delivered();
    html! {
        dl class="tiles" {
            (tile(level(now.need_you.letters, VerdictLevel::Bad), &bounded(now.need_you), "need you", &html! {
                "archived in this time, not replayed" @if let Some(kept) = now.kept_words() { "; " (kept) }
            }))
            (tile(level(now.waits.letters, VerdictLevel::Watch), &bounded(now.waits), "wait for a retry", &html! {
                @if let Some(due) = now.due {
                    (next_and_last(due, view.now))
                    @if let Some(end) = now.gives_up { (given_up(end, view.now)) }
                }
                @else if view.account.control.is_none() { "not known: no list is kept" }
                @else if !is_whole { "not everything could be read" }
                @else { "none is hidden for long" }
            }))
            (tile(None, &bounded(now.held), "held", &html! { (held_until(now, is_whole, view)) }))
            (tile(None, &html! { @if let Some((_, delivered)) = flow { (thousands(delivered)) } @else { "-" } }, "delivered by retries", &html! {
                @if now.queues.is_empty() { "no metrics" }
                @else if let Some((came, _)) = flow { "in this time; " (thousands(came)) " came" }
                @else { "no metric of this time is there yet" }
            }))
            @if let Some(left) = now.to_expiry {
                @let danger = (left < DANGER_SECONDS).then_some(VerdictLevel::Bad);
                (tile(danger, &html! { (span(left)) }, "until the first expires", &html! { "of those received lately" }))
            } @else {
                (tile(None, &html! { @if let Some(age) = oldest { (span(age)) } @else { "-" } }, "age of the oldest letter", &html! {
                    "of those received at most twice"
                }))
            }
        }
    }
}

/// Says until when letters are held, and by whom.
fn held_until(now: &PresentState, is_whole: bool, view: &ViewContext<'_>) -> String {
    let holds = now.overrides.iter().flatten();
    let holds: Vec<_> = holds.filter(|it| it.action == OverrideAction::Hold && it.at <= view.now).collect();
    match holds.as_slice() {
        [] if now.held.letters > 0 => "by a rule, or by an override that ended".to_owned(),
        [] if now.overrides.is_none() || !is_whole => "not known".to_owned(),
        [] => "no hold is in force".to_owned(),
        [one] => match one.end() {
            Some(end) => format!("ends {}, by {}", distance(end, view.now), who(&one.by)),
            None => format!("until it is released, by {}", who(&one.by)),
        },
        more => format!("by {}", count(more.len() as u64, "override")),
    }
}

fn alarms(alarms: Option<&[Alarm]>, view: &ViewContext<'_>) -> Markup {
    let content = match alarms {
        // No news: nothing to read.
        Some([]) => return html! {},
        None => {
            html! { p class="note" { "Unknown: the page needs the stack's name, and cloudwatch:DescribeAlarms." } }
        }
        Some(alarms) => table(
            "Alarms",
            &html! { (count(alarms.len() as u64, "alarm")) },
            &html! { (column("alarm")) (column("on since")) (column("what it means")) },
            &html! {
                @for alarm in alarms { tr {
                    th scope="row" class="value" { span title=(harmless(&alarm.name)) { (alarm_name(&alarm.name, view)) } }
                    td { @if let Some(since) = alarm.since { (when(since, view.now)) } }
                    @let says = alarm.says.as_deref().map(harmless).unwrap_or_default();
                    td class="value" title=(says) { (first_sentence(&says)) }
                } }
            },
        ),
    };
    section("alarms", "Alarms that are on", &content)
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first)
}

/// Returns an alarm's name without the stack's, and without what `CloudFormation` adds.
fn alarm_name(name: &str, view: &ViewContext<'_>) -> String {
    let stack = view.account.stack.as_deref().unwrap_or_default();
    let own = name.strip_prefix(stack).and_then(|rest| rest.strip_prefix('-')).unwrap_or(name);
    let end = own.find("Alarm-").map_or(own.len(), |place| place + "Alarm".len());
    harmless(&own[..end])
}

fn targets(now: &PresentState, is_whole: bool, view: &ViewContext<'_>) -> Markup {
    let shown: Vec<_> = now.targets.iter().filter(|it| it.state != TargetState::Fine).collect();
    let further = shown.len().saturating_sub(MAX_TARGETS) as u64;
    let part = now.span.as_ref().map_or(SignedDuration::ZERO, part_of);
    let content = html! {
        @if shown.is_empty() {
            @if is_whole { p { "No letter fails, waits or needs a person." } }
            @else { p { "None is seen, but not everything could be read." } }
        } @else {
            (table(
                "Table of targets",
                &html! { (count(shown.len() as u64, "target")) @if now.is_sample { ", by the newest letters" } ". The charts have one scale" },
                &html! {
                    (column("target")) (column("state")) (column("what it says"))
                    (number("wait")) (number("need you")) (column("letters that came")) (column("what you can do"))
                },
                &html! {
                    @let full = scale(shown.iter().take(MAX_TARGETS).map(|it| it.came.parts.as_slice()));
                    @for target in shown.iter().take(MAX_TARGETS) { (target_row(target, full, part, now.is_sample, now.overrides.as_deref(), view)) }
                },
            ))
        }
        @if further > 0 {
            p class="note" {
                "And " (count(further, "further target")) ": "
                (view.to("all letters by target", PageKind::Groups { by: GroupField::Target, of: Filter::default() })) "."
            }
        }
    };
    section("targets", "Targets", &content)
}

fn target_row(
    target: &FailingTarget,
    full: u64,
    part: SignedDuration,
    is_sample: bool,
    overrides: Option<&[Override]>,
    view: &ViewContext<'_>,
) -> Markup {
    let mut of = Filter::default().with(GroupField::Target, target.target.as_deref().unwrap_or_default());
    if let (None, Some(topic), 1, false) =
        (&target.target, target.topics.first(), target.topics.len(), target.without_topic)
    {
        // An action cannot name letters by a target that they do not have.
        of = of.with(GroupField::Topic, topic.as_str());
    }
    let letters = || ActionObject::Letters { of: of.clone(), since: None, until: None };
    let topics: Vec<_> = target.topics.iter().map(|topic| label(topic)).collect();
    let whole = target.topics.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let about = if is_sample { "~ " } else { "" };
    html! {
        tr {
            th scope="row" class="value" {
                @match &target.target {
                    Some(name) => (view.named(name, PageKind::Group { of: of.clone() })),
                    None => (view.to("letters without an endpoint", PageKind::Group { of: of.clone() })),
                }
                @if !topics.is_empty() { span class="sub" title=(harmless(&whole)) { "of " (topics.join(", ")) } }
            }
            td { (state(target, view)) }
            td class="value" {
                @let says = target.says();
                @if let Some(says) = &says { (says) }
                @if let Some(code) = target.error.as_ref().filter(|_| says.is_some()) { span class="sub" title=(harmless(code)) { code { (harmless(bare_code(code))) } } }
            }
            td class="number" {
                (about) (thousands(target.waiting))
                @if target.held > 0 { span class="sub" { (thousands(target.held)) " held" } }
            }
            td class="number" { (about) (thousands(target.need_you)) }
            td { (spark(&target.came.parts, part, full)) }
            td class="do" {
                @if let Some(hold) = target.override_in_force(overrides, view.now) {
                    (action(&PageAction { doing: ActionVerb::Release, on: ActionObject::Override(hold.id.clone()) }, view.account, view.door))
                } @else if matches!(target.state, TargetState::GaveUp(_)) && !target.all_refused && target.target.is_some() {
                    @let since = Some(view.query.range.at(view.now).0);
                    @let on = ActionObject::Letters { of: of.clone(), since, until: view.replay_end() };
                    (action(&PageAction { doing: ActionVerb::Replay, on }, view.account, view.door))
                }
                @if target.waiting > 0 && target.target.is_some() {
                    @let act = PageAction { doing: ActionVerb::Retry, on: letters() };
                    @if act.names_its_letters() && !target.state.is_throttled() { (action(&act, view.account, view.door)) " " }
                    @let act = PageAction { doing: ActionVerb::Hold, on: letters() };
                    @if act.names_its_letters() { (action(&act, view.account, view.door)) }
                }
            }
        }
    }
}

/// Shows the state of a target, and since when it has it.
pub(super) fn state(target: &FailingTarget, view: &ViewContext<'_>) -> Markup {
    html! {
        (pill(state_level(target.state), target.state.name()))
        @if let (Some(since), Some(words)) = (target.state.since(), target.state.time_words(view.now)) {
            span class="sub" { time datetime=(since.to_string()) title={ (utc(since)) " UTC" } { (words) } }
        }
    }
}

/// Returns how bad a state is.
pub(super) fn state_level(state: TargetState) -> VerdictLevel {
    match state {
        TargetState::Down(_) | TargetState::Fails(_) | TargetState::GaveUp(_) => VerdictLevel::Bad,
        TargetState::Throttles(_) | TargetState::Held => VerdictLevel::Watch,
        TargetState::Flows(_) | TargetState::Back(_) | TargetState::Fine => VerdictLevel::Fine,
    }
}

/// Shows the letters that came and were delivered, over time.
fn flow(now: &PresentState, view: &ViewContext<'_>) -> Markup {
    let own = || now.queues.iter().filter(|queue| !queue.is_requeue);
    let came = total(own().map(|queue| &queue.arriving));
    let delivered = total(now.queues.iter().map(|queue| &queue.delivered));
    let archived = total(now.queues.iter().map(|queue| &queue.archived));
    if [&came, &delivered, &archived].iter().all(|it| it.sum() == 0) {
        return html! {};
    }
    let full = scale([&came, &delivered, &archived].map(|it| it.parts.as_slice()));
    section(
        "flow",
        "What came and what went",
        &html! {
            dl class="flow" {
                @for (name, series) in [("came", &came), ("delivered", &delivered), ("archived", &archived)] {
                    div { dt { (name) " " strong { (thousands(series.sum())) } } dd { (spark(&series.parts, series.part, full)) } }
                }
            }
            p class="note" {
                "From " (moment(view.query.range.at(view.now).0)) " to " (moment(view.query.range.at(view.now).1)) " UTC, on one scale."
            }
        },
    )
}

fn total<'s>(all: impl Iterator<Item = &'s MetricSeries>) -> MetricSeries {
    let mut total = MetricSeries::default();
    for series in all {
        total.part = series.part;
        total.parts.resize(total.parts.len().max(series.parts.len()), 0);
        for (sum, more) in total.parts.iter_mut().zip(&series.parts) {
            *sum = sum.saturating_add(*more);
        }
    }
    total
}
fn queues(now: &PresentState, view: &ViewContext<'_>) -> Markup {
    let flow = now.came_and_delivered();
    section(
        "queues",
        "Queues",
        &html! {
            @if now.queues.is_empty() {
                p class="note" { "No queue of the function is known, or its metrics could not be read." }
            } @else {
                (table(
                    "Table of queues",
                    &html! { "Letters in this time; the columns with about and the oldest, in the last 15 minutes" },
                    &html! {
                        (column("queue"))
                        (number("came"))
                        (number("delivered"))
                        (number("archived"))
                        (number("hidden, about"))
                        (number("not received yet, about"))
                        (number("oldest, received at most twice"))
                    },
                    &html! { @for queue in &now.queues { (queue_row(queue, flow.is_none(), view)) } },
                ))
            }
            @if matches!(view.door, PageHost::Widget(_)) && now.queues.iter().all(|queue| queue.is_requeue) {
                p class="note" { "The widget knows the dead-letter queues that the stack's parameter DashboardQueues names." }
            }
            @if now.further > 0 { p class="note" { "And " (count(now.further as u64, "further queue")) ", which are not shown." } }
        },
    )
}

fn queue_row(queue: &QueueNow, are_missing: bool, view: &ViewContext<'_>) -> Markup {
    let page = PageKind::Groups {
        by: GroupField::Error,
        of: Filter::default().with(GroupField::Queue, &*queue.name),
    };
    let last = |series: &MetricSeries| series.last.map_or_else(|| "-".to_owned(), thousands);
    html! {
        tr {
            th scope="row" class="value" {
                // The groups count letters in the requeue under their dead-letter queue, so the requeue has
                // no link.
                @if queue.is_requeue { (harmless(&queue.name)) " (requeue)" } @else { (view.to(&queue.name, page)) }
            }
            @for series in [&queue.arriving, &queue.delivered, &queue.archived] {
                td class="number" { @if are_missing { "-" } @else { (thousands(series.sum())) } }
            }
            td class="number" { (last(&queue.waiting)) }
            td class="number" { (last(&queue.visible)) }
            td class="number" { @if let Some(age) = queue.oldest { (span(age)) } @else { "-" } }
        }
    }
}

fn overrides(overrides: Option<&[Override]>, view: &ViewContext<'_>) -> Markup {
    section(
        "overrides",
        "Overrides",
        &html! {
            @match overrides {
                None => p class="note" { "Not known." },
                Some([]) => p { "No override is in force." },
                Some(overrides) => {
                    @let later = overrides.iter().filter(|override_| override_.at > view.now).count();
                    (table(
                        "Table of overrides",
                        &html! {
                            (count((overrides.len() - later) as u64, "override")) " in force"
                            @if later > 0 { ", " (thousands(later as u64)) " to begin later" }
                        },
                        &html! { (column("override")) (column("letters")) (column("until")) (column("why")) (column("what you can do")) },
                        &html! { @for override_ in overrides { (override_row(override_, view)) } },
                    ))
                },
            }
        },
    )
}

fn override_row(override_: &Override, view: &ViewContext<'_>) -> Markup {
    let act = PageAction { doing: ActionVerb::Release, on: ActionObject::Override(override_.id.clone()) };
    html! {
        tr {
            th scope="row" class="value" {
                (pill(VerdictLevel::Watch, override_.action.name()))
                span class="sub" { (harmless(&override_.id)) }
            }
            td class="value" {
                @match pattern_words(&override_.pattern) {
                    Some(words) => (words),
                    None => code { (harmless(&override_.pattern.to_string())) },
                }
                @if let Some(before) = override_.arrived_before { span class="sub" { "arrived before " (moment(before)) } }
                @if let Some(after) = override_.arrived_after { span class="sub" { "arrived " (moment(after)) " or later" } }
            }
            td {
                @if let Some(end) = override_.end() { (when(end, view.now)) } @else { "somebody releases it" }
                @if override_.at > view.now { span class="sub" { "begins " (when(override_.at, view.now)) } }
                @else { span class="sub" { "given " (when(override_.at, view.now)) } }
            }
            td class="value" { (harmless(&override_.why)) span class="sub" title=(harmless(&override_.by)) { "by " (who(&override_.by)) } }
            td class="do" { (action(&act, view.account, view.door)) }
        }
    }
}

fn replays(now: &PresentState, view: &ViewContext<'_>) -> Markup {
    section(
        "replays",
        "Replays",
        &html! {
            @let replays = now.replays.as_deref();
            @if replays.is_none() { p class="note" { "Not known." } }
            @if replays.is_some_and(<[_]>::is_empty) { p { "No replay is kept." } }
            @if let Some(replays @ [_, ..]) = replays {
                (table(
                    "Table of replays",
                    &html! { "The latest" },
                    &html! {
                        (column("replay")) (column("progress")) (number("sent")) (number("came back")) (column("why")) (column("what you can do"))
                    },
                    &html! { @for state in replays { (replay(state, view)) } },
                ))
                @if now.more_replays {
                    p class="note" { "There are earlier ones, which may still run. To see all: " code { "redrivectl replay list" } }
                }
            }
        },
    )
}

fn replay(state: &ReplayState, view: &ViewContext<'_>) -> Markup {
    let is_given = state.given.is_some();
    // A replay counts as running even after its process died, so it offers both stop and resume.
    let doing: &[ActionVerb] = match state.status {
        _ if !state.is_unfinished() => &[],
        ReplayStatus::Stopped => &[ActionVerb::Resume],
        _ => &[ActionVerb::Stop, ActionVerb::Resume],
    };
    let status = match state {
        _ if state.freed.is_some() => "freed",
        _ if state.abandoned => "cut off",
        _ => state.status.name(),
    };
    let level = match state.status {
        ReplayStatus::Done => VerdictLevel::Fine,
        _ if state.is_unfinished() => VerdictLevel::Watch,
        _ => VerdictLevel::Fine,
    };
    html! {
        tr {
            th scope="row" class="value" { (pill(level, status)) span class="sub" { (harmless(&state.id)) } }
            td { (progress(state)) }
            td class="number" {
                (thousands(state.counts.sent))
                span class="sub" { "of " @if !state.exact { "at most " } (thousands(state.letters)) }
            }
            td class="number" { (thousands(state.came_back)) }
            td class="value" {
                (state.request.why.as_deref().map(harmless).unwrap_or_default())
                span class="sub" { span title=(harmless(&state.by)) { (who(&state.by)) } ", " (when(state.began, view.now)) }
            }
            td class="value" {
                @for doing in doing.iter().filter(|doing| **doing != ActionVerb::Resume || !is_given) {
                    (action(&PageAction { doing: *doing, on: ActionObject::Replay(state.id.clone()) }, view.account, view.door)) " "
                }
                @if is_given && state.is_unfinished() {
                    "It was given its letters, so it cannot be resumed here: begin a new replay on the letter's page."
                }
            }
        }
    }
}

/// Shows the progress of a replay. It shows no share if the number of letters is only an upper bound.
fn progress(state: &ReplayState) -> Markup {
    let (share, says) = match state.status {
        ReplayStatus::Done => (100, "complete".to_owned()),
        _ if !state.exact => return html! { "-" },
        _ => {
            let handled = state.letters - state.left();
            let share = (handled * 100).checked_div(state.letters).unwrap_or(100);
            (share, format!("{share} %"))
        }
    };
    html! {
        (says)
        svg class="spark" role="img" aria-label=(says) viewBox="0 0 100 8" width="100" height="8" {
            rect x="0" y="0" width="100" height="8" fill="currentColor" fill-opacity="0.2" {}
            rect x="0" y="0" width=(share) height="8" fill="currentColor" {}
        }
    }
}

fn findings(doctor: &DoctorProgress) -> Markup {
    let content = match doctor {
        DoctorProgress::Looking => html! { p { "Looking; reload the page in a few seconds." } },
        DoctorProgress::Failed { at, why } => html! {
            p class="note" { "Asked at " (moment(*at)) " UTC." }
            p { "The doctor could not look: " (harmless(why)) }
        },
        DoctorProgress::Found { at, findings } => html! {
            p class="note" { "Looked at " (moment(*at)) " UTC." }
            @if findings.is_empty() { p { "Nothing is wrong." } } @else {
                details {
                    summary { (severities(findings)) }
                    ul { @for finding in findings { li {
                        p {
                            strong { (harmless(&finding.severity)) } " " (harmless(&finding.about)) ": " (harmless(&finding.says))
                            span class="note" { " (" (harmless(&finding.check)) ")" }
                        }
                        @if let Some(fix) = &finding.fix { pre { code { (harmless(fix)) } } }
                    } } }
                }
            }
        },
    };
    section("doctor", "What the doctor finds in the set-up", &content)
}

/// Counts findings by severity, in their order: the worst first.
fn severities(findings: &[PageFinding]) -> String {
    let mut counts: Vec<(&str, u64)> = Vec::new();
    for finding in findings {
        match counts.iter_mut().find(|(severity, _)| *severity == finding.severity) {
            Some((_, number)) => *number += 1,
            None => counts.push((&finding.severity, 1)),
        }
    }
    let counts =
        counts.into_iter().map(|(severity, number)| format!("{} {}", thousands(number), harmless(severity)));
    counts.collect::<Vec<_>>().join(", ")
}
