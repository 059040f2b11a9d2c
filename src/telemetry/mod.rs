//! Logs and metrics.
//!
//! There is one function per fact, so that names and levels are in one place. `redrive-aws` writes the lines. A line
//! never contains a body, an attribute's value, a receipt handle or an unsubscribe link.

mod letter;
mod metrics;

pub use letter::letter;
pub use metrics::{ESSENTIAL_METRICS, InvocationMetrics, InvocationSummary, level_that_passes, summarise};

use redrive_aws::settings::{POLICY_URI, PolicyAt};
use redrive_core::arn::Arn;
use redrive_core::batch::{BatchNotice, HealthChange};
use redrive_core::endpoint::TargetName;
use redrive_core::failure::Failure;
use redrive_replay::{RecordLocation, ReplayError, ReplayState, ReplayStatus, RoundLane};

use crate::notices::{NotSent, NotSentNotice};

/// Logs an event that does not come from an SQS event source mapping. The invocation fails, and nothing is
/// touched.
pub fn bad_event(problem: &str) {
    tracing::error!(detail = problem, "bad event");
}

/// Logs which policy was read from S3.
pub fn policy_read(place: &PolicyAt, digest: &str, version: Option<&str>) {
    tracing::info!(policy.uri = %place, policy.digest = digest, policy.version = version, "policy read");
}

/// Logs why there is no policy. The invocation fails, and nothing is touched.
pub fn policy_unread(problem: &str) {
    tracing::error!(setting = POLICY_URI, detail = problem, "policy not read");
}

/// Logs an event other than a letter's outcome.
pub fn notice(notice: &BatchNotice) {
    match notice {
        BatchNotice::QueueUnreadable { queue, failure } => tracing::warn!(
            queue.arn = queue.as_str(),
            error.code = failure.code,
            error.class = failure.class.name(),
            error.message = failure.message,
            "queue attributes not read: the last ones stay in use; while there are none, no letter ends by them"
        ),
        BatchNotice::RetentionAssumed { queue } => tracing::warn!(
            queue.arn = queue.as_str(),
            "retention not read for ten minutes: letters are archived as if it were four days, except those that are held"
        ),
        BatchNotice::DeliveryPolicyUnread { subscription, failure } => tracing::warn!(
            subscription.arn = subscription.as_str(),
            error.code = failure.as_ref().map(|failure| failure.code.as_str()),
            error.class = failure.as_ref().map(|failure| failure.class.name()),
            error.message = failure.as_ref().and_then(|failure| failure.message.as_deref()),
            "delivery policy of the subscription not read: attempts take no number until it is"
        ),
        BatchNotice::Unmarked(letter) => tracing::warn!(
            letter.id = letter.id.as_str(),
            sqs.message_id = letter.sqs.message_id,
            "letter sent without its mark, for which it has no room: if it returns, its retries start again"
        ),
        BatchNotice::BadlySetUp { queue, finding } => {
            tracing::warn!(queue.arn = queue.as_str(), detail = finding, "queue misconfigured");
        }
        BatchNotice::SharedWithRaw { queue, advice } => {
            tracing::warn!(
                queue.arn = queue.as_str(),
                detail = advice,
                "raw subscription shares the dead-letter queue with others"
            );
        }
        BatchNotice::ManyInFlight { queue, in_flight, limit } => tracing::warn!(
            queue.arn = queue.as_str(),
            in_flight,
            limit,
            "many letters in flight, and none can move to the requeue: at the limit SQS hands over no more"
        ),
        BatchNotice::OverridesUnread { failure, last_read, hides } => tracing::warn!(
            error.code = failure.code,
            error.class = failure.class.name(),
            error.message = failure.message,
            last_read = last_read.map(tracing::field::display),
            hides,
            "overrides not read: {}",
            match (last_read, hides) {
                (Some(_), _) =>
                    "holds that were read stay, overrides to retry and to give up end ten minutes after the last good reading",
                (None, true) =>
                    "letters that are due are hidden for a minute at a time, for ten minutes at most",
                (None, false) => "letters are handled by their rules alone",
            }
        ),
        BatchNotice::WaitingListFailed { failure } => tracing::warn!(
            error.code = failure.code,
            error.class = failure.class.name(),
            error.message = failure.message,
            "list of waiting letters not written: overrides cannot wake the letters of this invocation"
        ),
        BatchNotice::Endpoint { endpoint, change } => {
            let (arn, url) = (endpoint.arn().map(Arn::as_str), endpoint.url().map(TargetName::as_str));
            match change {
                HealthChange::Down { failure, pause } => tracing::warn!(
                    target.arn = arn,
                    target.url = url,
                    error.code = failure.code,
                    error.class = failure.class.name(),
                    delay_s = pause.as_secs(),
                    "endpoint down: its letters wait until it is tried again"
                ),
                HealthChange::Trying => tracing::info!(
                    target.arn = arn,
                    target.url = url,
                    "endpoint takes letters again: it gets a few at a time"
                ),
                HealthChange::Up => tracing::info!(target.arn = arn, target.url = url, "endpoint up again"),
            }
        }
        BatchNotice::RequeueFailed { requeue, letters, failure } => tracing::warn!(
            queue.arn = requeue.as_str(),
            letters,
            error.code = failure.code,
            error.class = failure.class.name(),
            error.message = failure.message,
            "requeue takes no letters: they stay in their queue"
        ),
        other => recovery_notice(other),
    }
}

/// Logs a notice about endpoints that are down or back.
fn recovery_notice(notice: &BatchNotice) {
    match notice {
        BatchNotice::EndpointDown { target, since, error } => {
            let (arn, url) = names(target);
            tracing::warn!(
                target.arn = arn,
                target.url = url,
                down_since = %since,
                error.code = error,
                "outage: every attempt at the endpoint failed for two minutes"
            );
        }
        BatchNotice::EndpointRecovered { target, down_since } => {
            let (arn, url) = names(target);
            tracing::info!(
                target.arn = arn,
                target.url = url,
                down_since = %down_since,
                "outage over: letters that wait for the endpoint are woken"
            );
        }
        BatchNotice::LettersWoken { target, letters } => {
            let (arn, url) = names(target);
            tracing::info!(target.arn = arn, target.url = url, letters, "letters woken");
        }
        BatchNotice::RecoveriesFailed { failure } => tracing::warn!(
            error.code = failure.code,
            error.class = failure.class.name(),
            error.message = failure.message,
            "recoveries not read or written: letters of an endpoint that is back wait for their next retry"
        ),
        _ => {}
    }
}

/// Returns the name of an endpoint as an ARN or as the name of a URL.
fn names(target: &TargetName) -> (Option<&str>, Option<&str>) {
    let name = target.as_str();
    if name.parse::<Arn>().is_ok() { (Some(name), None) } else { (None, Some(name)) }
}

/// Logs that a notice was not sent.
pub(crate) fn notice_not_sent(not_sent: &NotSent) {
    let NotSent { topic, notice, failure } = not_sent;
    match notice {
        NotSentNotice::Archived { letters } => tracing::warn!(
            topic.arn = topic.as_str(),
            letters,
            error.code = failure.code,
            error.class = failure.class.name(),
            error.message = failure.message,
            "notice of archived letters not sent: the next one includes these letters, after a minute at the earliest"
        ),
        NotSentNotice::Endpoint { kind, target } => {
            let (arn, url) = names(target);
            tracing::warn!(
                topic.arn = topic.as_str(),
                target.arn = arn,
                target.url = url,
                error.code = failure.code,
                error.class = failure.class.name(),
                error.message = failure.message,
                "notice of an endpoint not sent ({kind}): it is tried three times, a minute apart"
            );
        }
    }
}

/// Logs how a replay stands when an invocation ends.
pub(crate) fn replay(state: &ReplayState) {
    let message = match state.status {
        ReplayStatus::DryRun => "replay counted: dry run",
        ReplayStatus::Running => "replay running",
        ReplayStatus::Settling => "replay settling",
        ReplayStatus::Stopped => "replay stopped",
        ReplayStatus::Done => "replay done",
    };
    tracing::info!(
        replay.id = state.id,
        replay.status = state.status.name(),
        replay.step = state.step,
        replay.selected = state.letters,
        replay.sent = state.counts.sent,
        replay.repeated = state.counts.repeated,
        detail = state.because,
        "{message}"
    );
}

/// Logs that a lane of a replay has ended. `trouble` is the reason why it has not sent all of its letters.
pub(crate) fn replay_lane(lane: &RoundLane, sent: Option<u64>, trouble: Option<&str>) {
    tracing::info!(
        replay.id = lane.id,
        replay.round = lane.round,
        replay.lane = lane.lane,
        replay.sent = sent,
        "lane of a replay ended"
    );
    if let Some(detail) = trouble {
        tracing::warn!(
            replay.id = lane.id,
            replay.round = lane.round,
            replay.lane = lane.lane,
            detail,
            "lane of a replay failed in part"
        );
    }
}

/// Logs that a replay is busy.
pub(crate) fn replay_busy(error: &ReplayError) {
    tracing::warn!(detail = %error, "replay is busy");
}

/// Logs that a replay does not know the policy by which its letters are redriven.
pub(crate) fn policy_in_file(function: &str) {
    tracing::warn!(
        detail =
            format!("REDRIVE_POLICY_FILE of {function} is a file of its package, which nobody else can read"),
        "policy unknown: the replay also sends letters that may have no target"
    );
}

/// Logs that a replay cannot continue.
pub(crate) fn replay_failed(error: &ReplayError) {
    tracing::error!(detail = %error, "replay failed");
}

/// Logs that letters that wait in a queue do not stop a replay.
pub(crate) fn queue_not_watched(queue: &Arn, failure: &Failure) {
    tracing::warn!(
        queue.arn = queue.as_str(),
        error.code = failure.code,
        error.class = failure.class.name(),
        error.message = failure.message,
        "queue not read: letters that wait there do not stop the replay"
    );
}

/// Logs that an archived letter cannot be replayed.
pub(crate) fn left_out_of_replay(at: &RecordLocation, why: &str) {
    tracing::warn!(archive.key = at.key, archive.line = at.line, detail = why, "letter left out of a replay");
}
