//! The page *now*.

use maud::{Markup, html};
use redrive_core::policy::Override;
use redrive_core::waiting::EndpointRecovery;
use redrive_replay::{ReplayState, ReplayStatus};

use super::elements::{ViewContext, column, moment, number, scale, section, spark, table};
use super::link::action;
use crate::operator_action::{ActionObject, ActionVerb, PageAction};
use crate::page_host::{DoctorProgress, LocalConsole, PageHost};
use crate::query::{Filter, GroupField, PageKind};
use crate::read::{Alarm, MetricSeries, PresentState, QueueNow};
use crate::text::{brief, count, harmless, thousands};

/// Renders the present state.
#[must_use]
pub fn now(now: &PresentState, view: &ViewContext<'_>) -> Markup {
    html! {
        (view.ranges())
        (alarms(now.alarms.as_deref(), view))
        (endpoints(now.endpoints.as_deref(), view))
        (queues(now, view))
        (overrides(now.overrides.as_deref(), view))
        (replays(now, view))
        @if let PageHost::Local(LocalConsole { doctor: Some(doctor), .. }) = view.door { (findings(doctor)) }
    }
}

fn alarms(alarms: Option<&[Alarm]>, view: &ViewContext<'_>) -> Markup {
    section(
        "alarms",
        "Alarms that are on",
        &html! {
            @match alarms {
                None => p class="note" { "Unknown: the page needs the stack's name, and cloudwatch:DescribeAlarms." },
                Some([]) => p { "No alarm of the stack is on." },
                Some(alarms) => (table(
                    "Alarms",
                    &html! { (count(alarms.len() as u64, "alarm")) },
                    &html! { (column("alarm")) (column("on since (UTC)")) (column("what it means")) },
                    &html! {
                        @for alarm in alarms { tr {
                            th scope="row" class="value" { (harmless(&alarm.name)) }
                            td { @if let Some(since) = alarm.since { (moment(since)) " (" (super::elements::distance(since, view.now)) ")" } }
                            td class="value" { (alarm.says.as_deref().map(harmless).unwrap_or_default()) }
                        } }
                    },
                )),
            }
        },
    )
}

/// The most endpoints on the page.
const MAX_ENDPOINTS: usize = 100;

fn endpoints(endpoints: Option<&[EndpointRecovery]>, view: &ViewContext<'_>) -> Markup {
    section(
        "endpoints",
        "Endpoints",
        &html! {
            @match endpoints {
                None => p class="note" { "Not known." },
                Some([]) => p { "No endpoint is down, and none was lately." },
                Some(endpoints) => {
                    @let down = endpoints.iter().filter(|it| it.down_since.is_some()).count() as u64;
                    (table(
                        "Table of endpoints",
                        &html! { (count(down, "endpoint")) " down, " (thousands(endpoints.len() as u64 - down)) " back from an outage" },
                        &html! {
                            (column("endpoint"))
                            (column("queue"))
                            (column("state"))
                            (column("last error"))
                            (column("letters that wait for it"))
                        },
                        &html! { @for endpoint in endpoints.iter().take(MAX_ENDPOINTS) { (endpoint_row(endpoint, view)) } },
                    ))
                    @let further = endpoints.len().saturating_sub(MAX_ENDPOINTS);
                    @if further > 0 { p class="note" { "And " (count(further as u64, "further endpoint")) ", which are not shown." } }
                },
            }
        },
    )
}

fn endpoint_row(endpoint: &EndpointRecovery, view: &ViewContext<'_>) -> Markup {
    let of = Filter::default().with(GroupField::Target, endpoint.target.as_str());
    let since = |at| html! { (moment(at)) " (" (super::elements::distance(at, view.now)) ")" };
    html! {
        tr {
            th scope="row" class="value" { (view.to(endpoint.target.as_str(), PageKind::Group { of })) }
            td class="value" { (harmless(&endpoint.queue)) }
            td {
                @if let Some(at) = endpoint.down_since { "down since " (since(at)) }
                @else if let Some(at) = endpoint.recovered_at { "back since " (since(at)) }
            }
            td class="value" { (endpoint.error.as_deref().map(harmless).unwrap_or_default()) }
            td {
                @if endpoint.down_since.is_some() { "wait until it takes a letter" }
                @else if endpoint.is_done { "were woken" }
                @else { "are being woken" }
            }
        }
    }
}

fn queues(now: &PresentState, view: &ViewContext<'_>) -> Markup {
    section(
        "queues",
        "Queues",
        &html! {
            @if now.queues.is_empty() {
                p class="note" {
                    "No queue of the function is known, or its metrics could not be read."
                }
            } @else {
                @if let Some(left) = now.to_expiry {
                    p { "The next letter expires in " (brief(left)) ", among those received in the last 15 minutes." }
                }
                (table(
                    "Table of queues",
                    &html! { "Letters over the time range. The columns after archived show the last 15 minutes" },
                    &html! {
                        (column("queue"))
                        (column("arriving"))
                        (column("delivered"))
                        (column("archived"))
                        (column("waiting hidden, about"))
                        (column("not seen yet, about"))
                        (column("oldest, received at most twice"))
                    },
                    &html! {
                        @let full = scale(now.queues.iter().flat_map(series).map(|it| it.parts.as_slice()));
                        @for queue in &now.queues { (row(queue, full, view)) }
                    },
                ))
            }
            @if matches!(view.door, PageHost::Widget(_)) && now.queues.iter().all(|queue| queue.is_requeue) {
                p class="note" { "The widget knows the dead-letter queues that the stack's parameter DashboardQueues names." }
            }
            @if now.further > 0 { p class="note" { "And " (count(now.further as u64, "further queue")) ", which are not shown." } }
        },
    )
}

/// Returns the series that a queue's row shows as bars.
fn series(queue: &QueueNow) -> [&MetricSeries; 5] {
    [&queue.arriving, &queue.delivered, &queue.archived, &queue.waiting, &queue.visible]
}

/// Returns the row of a queue. A bar is full at `full` letters.
fn row(queue: &QueueNow, full: u64, view: &ViewContext<'_>) -> Markup {
    let page = PageKind::Groups {
        by: GroupField::Error,
        of: Filter::default().with(GroupField::Queue, &*queue.name),
    };
    let sum =
        |series: &MetricSeries| html! { (thousands(series.sum())) (spark(&series.parts, series.part, full)) };
    let last = |series: &MetricSeries| {
        html! {
            (series.last.map_or_else(|| "-".to_owned(), thousands)) (spark(&series.parts, series.part, full))
        }
    };
    let time = |seconds: Option<u64>| seconds.map_or_else(|| "-".to_owned(), brief);
    html! {
        tr {
            th scope="row" class="value" {
                // The groups count letters in the requeue under their dead-letter queue, so the requeue has
                // no link.
                @if queue.is_requeue { (harmless(&queue.name)) " (requeue)" } @else { (view.to(&queue.name, page)) }
            }
            td { (sum(&queue.arriving)) }
            td { (sum(&queue.delivered)) }
            td { (sum(&queue.archived)) }
            td { (last(&queue.waiting)) }
            td { (last(&queue.visible)) }
            td { (time(queue.oldest)) }
        }
    }
}

fn overrides(overrides: Option<&[Override]>, view: &ViewContext<'_>) -> Markup {
    section(
        "payments",
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
                        &html! {
                            (column("override"))
                            (column("does"))
                            (column("letters"))
                            (column("from (UTC)"))
                            (column("until (UTC)"))
                            (column("by"))
                            (column("why"))
                            (column("release"))
                        },
                        &html! {
                            @for override_ in overrides {
                                @let act = PageAction { doing: ActionVerb::Release, on: ActionObject::Override(override_.id.clone()) };
                                tr {
                                    th scope="row" class="value" { (harmless(&override_.id)) }
                                    td { (override_.action.name()) }
                                    td class="value" {
                                        code { (harmless(&override_.pattern.to_string())) }
                                        @if let Some(before) = override_.arrived_before { ", arrived before " (moment(before)) }
                                        @if let Some(after) = override_.arrived_after { ", arrived " (moment(after)) " or later" }
                                    }
                                    td { (moment(override_.at)) @if override_.at > view.now { " (not yet)" } }
                                    td { @if let Some(end) = override_.end() { (moment(end)) } @else { "it is released" } }
                                    td class="value" { (harmless(&override_.by)) }
                                    td class="value" { (harmless(&override_.why)) }
                                    td { (action(&act, view.account, view.door)) }
                                }
                            }
                        },
                    ))
                },
            }
        },
    )
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
                        (column("replay"))
                        (column("status"))
                        (column("progress"))
                        (number("sent"))
                        (number("of"))
                        (number("came back"))
                        (column("begun (UTC)"))
                        (column("by"))
                        (column("why"))
                        (column("what you can do"))
                    },
                    &html! {
                        @for state in replays { (replay(state, view)) }
                    },
                ))
                @if now.more_replays {
                    p class="note" { "There are earlier ones, which may still run. To see all: " code { "redrivectl replays" } }
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
    let most = if state.exact { "" } else { "at most " };
    html! {
        tr {
            th scope="row" class="value" { (harmless(&state.id)) }
            td { (status) }
            td { (progress(state)) }
            td class="number" { (thousands(state.counts.sent)) }
            td class="number" { (most) (thousands(state.letters)) }
            td class="number" { (thousands(state.came_back)) }
            td { (moment(state.began)) }
            td class="value" { (harmless(&state.by)) }
            td class="value" { (state.request.why.as_deref().map(harmless).unwrap_or_default()) }
            td {
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
                ul { @for finding in findings { li {
                    p {
                        strong { (harmless(&finding.severity)) } " " (harmless(&finding.about)) ": " (harmless(&finding.says))
                        span class="note" { " (" (harmless(&finding.check)) ")" }
                    }
                    @if let Some(fix) = &finding.fix { pre { code { (harmless(fix)) } } }
                } } }
            }
        },
    };
    section("doctor", "What the doctor finds", &content)
}
