//! The present state: failing targets, metrics by queue, overrides, replays, alarms.

use jiff::Timestamp;
use redrive_archive::ArchiveRetention;
use redrive_aws::clients::failure_of_call;
use redrive_core::policy::{Override, Policy};
use redrive_replay::{ReplayState, StoredReplays};
use tokio::time::timeout_at;

use super::collect::{
    CollectedLetters, REQUESTS as COLLECT_REQUESTS, collect, read_overrides, read_recoveries, too_late,
};
use super::failing_targets::{FailingTarget, failing_targets, needs_person, needs_person_now};
use super::letter_counts::{BoundedCount, ChartSpan, CountBound, TimedCount};
use super::lifecycle::lifecycle_rules;
use super::policy::policy;
use super::queue_metrics::{MAX_QUEUES, MetricsRead, QueueNow, metrics};
use super::stack_alarms::{Alarm, MAX_ALARMS, alarms};
use super::time_limits::PageDeadlines;
use crate::account::{BucketPrefix, ConsoleAccount, ConsoleClients};
use crate::query::Filter;
use crate::text::{count, utc_day};

/// The most replays whose state is read.
const MAX_REPLAYS: usize = 8;

/// The most requests for this page: letters, metrics twice, alarms, overrides, the archive's lifecycle, the function's
/// configuration and policy, the listing of replays, their states, the endpoints, and a few repeats.
pub(crate) const REQUESTS: u32 = COLLECT_REQUESTS + 9 + 9 + 4;

/// The present state.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PresentState {
    /// The queues.
    pub queues: Vec<QueueNow>,
    /// The seconds until SQS would drop a letter: the shortest among those that the function received in the
    /// last minutes, from any queue.
    pub to_expiry: Option<u64>,
    /// The number of queues that are not shown.
    pub further: usize,
    /// The endpoints whose letters fail, wait or were archived, the worst first.
    pub targets: Vec<FailingTarget>,
    /// The letters that need a person: archived in the time range, not on purpose, and not replayed.
    pub need_you: BoundedCount,
    /// How long the archive keeps letters, or why that could not be read; `None` if it is no bucket.
    pub retention: Option<Result<ArchiveRetention, String>>,
    /// The time before which S3 deletes none of the letters that need a person, by the retention. `None` if it is not known.
    pub kept_until: Option<Timestamp>,
    /// The letters that wait for a retry.
    pub waits: BoundedCount,
    /// The letters that an override or a rule holds.
    pub held: BoundedCount,
    /// When the next and the last of the waiting letters are due.
    pub due: Option<(Timestamp, Timestamp)>,
    /// The time before which none of the waiting letters is archived if every retry fails, by the function's policy. `None` if it
    /// is not known of all.
    pub gives_up: Option<Timestamp>,
    /// The letters by the time of their arrival, of those that wait or were archived.
    pub span: Option<ChartSpan>,
    /// True if the numbers by target are about a part of the letters.
    pub is_sample: bool,
    /// What the account keeps nowhere, so that nobody can read it, in words.
    pub blind: Vec<&'static str>,
    /// The overrides that have not ended, including those that begin later; `None` if the account has no place
    /// for overrides.
    pub overrides: Option<Vec<Override>>,
    /// The latest replays; `None` if they could not be read.
    pub replays: Option<Vec<ReplayState>>,
    /// True if there are earlier replays.
    pub more_replays: bool,
    /// The alarms that are on; `None` without a stack's name, since the alarms' names begin with it.
    pub alarms: Option<Vec<Alarm>>,
}

impl PresentState {
    /// Says how long the archive keeps the letters that need a person, or else letters in general: as the rest of "they are".
    #[must_use]
    pub fn kept_words(&self) -> Option<String> {
        Some(match (self.retention.as_ref()?, self.kept_until) {
            (Ok(ArchiveRetention::Unlimited), _) => "kept until somebody deletes them".to_owned(),
            (Ok(ArchiveRetention::Days(_)), Some(end)) => format!("kept until {}", utc_day(end)),
            (Ok(ArchiveRetention::Days(days)), None) => format!("kept for {}", count((*days).into(), "day")),
            (Ok(ArchiveRetention::Differs), _) => {
                "kept for a time that differs: see the bucket's lifecycle rules".to_owned()
            }
            (Err(why), _) => format!("kept for a time that could not be read ({why})"),
        })
    }

    /// Returns the target to look at first: one that fails or needs a person, and only then one that asks for time.
    #[must_use]
    pub fn worst(&self) -> Option<&FailingTarget> {
        let is_urgent =
            |it: &&FailingTarget| it.need_you > 0 || (it.state.is_failing() && !it.state.is_throttled());
        let mut urgent = self.targets.iter().filter(is_urgent).peekable();
        let throttled = self.targets.iter().find(|it| it.target.is_some() && it.state.is_failing());
        let throttled = throttled.filter(|_| urgent.peek().is_none());
        urgent.find(|it| it.target.is_some()).or(throttled)
    }

    /// Returns how many letters came and how many were delivered in the time range, by the metrics. `None` without metrics,
    /// or if letters came that no metric counts yet: metrics are minutes late.
    #[must_use]
    pub fn came_and_delivered(&self) -> Option<(u64, u64)> {
        let own = self.queues.iter().filter(|queue| !queue.is_requeue);
        let came = own.map(|queue| queue.arriving.sum()).sum();
        let delivered = self.queues.iter().map(|queue| queue.delivered.sum()).sum();
        let from = self.span.map_or(Timestamp::MIN, |span| span.from);
        let mut seen = self.targets.iter().filter_map(|target| target.came.seen);
        let are_missing = came == 0 && delivered == 0 && seen.any(|(_, last)| last >= from);
        (!self.queues.is_empty() && !are_missing).then_some((came, delivered))
    }
}

/// Reads the present state.
pub(crate) async fn now(
    account: &ConsoleAccount,
    clients: &ConsoleClients,
    span: &ChartSpan,
    times: PageDeadlines,
) -> (PresentState, Vec<String>) {
    let all = Filter::default();
    let (collected, queues, recoveries, overrides, replays, alarms, retention, policy) = tokio::join!(
        Box::pin(collect(account, clients, &all, span, times)),
        timeout_at(times.end, metrics(account, clients, span)),
        read_recoveries(account, clients, times.end),
        read_overrides(account, clients, times.end),
        timeout_at(times.end, replays(account, clients)),
        timeout_at(times.end, alarms(account, clients)),
        timeout_at(times.end, retention(account, clients)),
        policy(account, clients, times.end),
    );
    let mut unread = collected.unread.clone();
    let queues = keep(queues.unwrap_or_else(|_| Err(too_late("the metrics"))), &mut unread);
    if queues.as_ref().is_some_and(|read| !read.is_whole) {
        unread.push("some data points of the metrics: CloudWatch did not give all of them".to_owned());
    }
    let present = account.clock.now();
    let recoveries = keep(recoveries, &mut unread).filter(|_| account.control.is_some());
    let endpoints: Vec<_> = recoveries.map_or_else(Vec::new, |mut recoveries| {
        recoveries.retain_possible(present);
        let told = recoveries.iter().filter(|it| it.down_since.is_some() || it.recovered_at.is_some());
        told.cloned().collect()
    });
    let targets = failing_targets(&collected, &endpoints, span);
    let is_part = collected.more_waiting || account.control.is_none();
    let in_force = overrides.map(|overrides| {
        let overrides = overrides.all().iter().filter(|override_| !override_.has_ended(present));
        overrides.cloned().collect()
    });
    let overrides = keep(in_force, &mut unread).filter(|_| account.control.is_some());
    let replays = keep(replays.unwrap_or_else(|_| Err(too_late("the replays"))), &mut unread);
    let replays = replays.filter(|_| account.control.is_some());
    let (replays, more_replays) = replays.map_or((None, false), |LatestReplays { states, broken, more }| {
        unread.extend(broken);
        (Some(states), more)
    });
    let alarms = keep(alarms.unwrap_or_else(|_| Err(too_late("the alarms"))), &mut unread).flatten();
    if alarms.as_ref().is_some_and(|(_, more)| *more) {
        unread.push(format!("alarms beyond the first {MAX_ALARMS} of this prefix"));
    }
    let retention =
        retention.unwrap_or_else(|_| Some(Err(too_late("the lifecycle of the archive's bucket"))));
    let MetricsRead { queues, to_expiry, .. } = queues.unwrap_or_default();
    let now = PresentState {
        queues,
        to_expiry,
        further: account.queues.len().saturating_sub(MAX_QUEUES),
        need_you: need_you(&collected, account.archive.is_some()),
        kept_until: first_needing(&collected)
            .zip(retention.clone().and_then(Result::ok))
            .and_then(|(first, kept)| kept.end(first)),
        retention,
        waits: listed(targets.iter().map(|it| it.waiting).sum(), is_part),
        held: listed(targets.iter().map(|it| it.held).sum(), is_part),
        blind: blind(account),
        due: due(&targets),
        // Whoever may not read the policy does without: the pages of the targets say why.
        gives_up: policy.and_then(Result::ok).and_then(|policy| gives_up(&targets, &policy)),
        span: Some(*span),
        is_sample: collected.more || collected.read < collected.index.letters || collected.more_waiting,
        targets,
        overrides,
        replays,
        more_replays,
        alarms: alarms.map(|(alarms, _)| alarms),
    };
    (now, unread)
}

/// Returns the counts of the letters that need a person by the archive's keys. A key without a reason counts too.
fn needing(collected: &CollectedLetters) -> impl Iterator<Item = &TimedCount> {
    let groups = collected.index.groups.iter();
    groups.filter(|(key, _)| key.reason.as_deref().is_none_or(needs_person)).map(|(_, count)| count)
}

/// Returns a time before which none of the letters that need a person was archived: where all were read, without those that a
/// replay has sent. `None` if older ones may not even be listed.
fn first_needing(collected: &CollectedLetters) -> Option<Timestamp> {
    let CollectedLetters { index, more, archived, read, .. } = collected;
    if *more || index.blind > 0 {
        return None;
    }
    if *read >= index.letters {
        return archived.iter().filter(|letter| needs_person_now(letter)).map(|letter| letter.archived).min();
    }
    needing(collected).filter_map(|count| count.seen).map(|(first, _)| first).min()
}

/// Returns the time before which none of the waiting letters is archived if every retry fails; `None` if it is not known of all.
fn gives_up(targets: &[FailingTarget], policy: &Policy) -> Option<Timestamp> {
    let waiting = targets.iter().filter(|target| target.waiting > 0);
    let ends: Option<Vec<_>> = waiting.map(|target| target.gives_up(policy)).collect();
    ends?.into_iter().min()
}

/// Reads how long the archive's bucket keeps letters. Whoever may not read that sees all letters nevertheless.
async fn retention(
    account: &ConsoleAccount,
    clients: &ConsoleClients,
) -> Option<Result<ArchiveRetention, String>> {
    let BucketPrefix { bucket, prefix } = account.archive.as_ref()?;
    let rules = lifecycle_rules(&clients.s3, bucket).await;
    let failed = |error| format!("s3:GetLifecycleConfiguration: {}", failure_of_call(&error).code);
    Some(rules.map(|rules| ArchiveRetention::of(&rules, prefix)).map_err(failed))
}

/// Counts the letters that need a person: those that the archive's keys count, without those that a replay is known to
/// have sent.
fn need_you(collected: &CollectedLetters, is_read: bool) -> BoundedCount {
    let CollectedLetters { index, more, archived, .. } = collected;
    let all: u64 = needing(collected).map(|count| count.letters).sum();
    let of_those_read = archived.iter().filter(|it| it.fields.reason.as_deref().is_none_or(needs_person));
    let (mut asked, mut sent) = (0_u64, 0_u64);
    for letter in of_those_read {
        asked += u64::from(letter.replayed.is_some());
        sent += u64::from(letter.replayed == Some(true));
    }
    let bound = match (*more || index.blind > 0 || !is_read, asked < all) {
        (true, true) => CountBound::About,
        (true, false) => CountBound::AtLeast,
        (false, true) => CountBound::AtMost,
        (false, false) => CountBound::Exact,
    };
    BoundedCount { letters: all.saturating_sub(sent), bound }
}

/// Returns what an account does not keep where it could be read.
fn blind(account: &ConsoleAccount) -> Vec<&'static str> {
    let list = account.control.is_none().then_some("the letters that wait, because no list of them is kept");
    let archive = account.archive.is_none().then_some("archived letters, because the archive is a queue");
    list.into_iter().chain(archive).collect()
}

/// Returns a number of letters on the list of waiting letters. A letter stays there until it was due.
fn listed(letters: u64, is_part: bool) -> BoundedCount {
    let bound = match (letters, is_part) {
        (0, false) => CountBound::Exact,
        (_, false) => CountBound::AtMost,
        (_, true) => CountBound::About,
    };
    BoundedCount { letters, bound }
}

fn due(targets: &[FailingTarget]) -> Option<(Timestamp, Timestamp)> {
    let all = targets.iter().filter_map(|it| it.due);
    all.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
}

fn keep<T>(read: Result<T, String>, unread: &mut Vec<String>) -> Option<T> {
    read.map_err(|why| unread.push(why)).ok()
}

/// The latest replays.
#[derive(Default)]
struct LatestReplays {
    states: Vec<ReplayState>,
    /// The replays whose state cannot be read, in words.
    broken: Vec<String>,
    /// True if there are earlier replays.
    more: bool,
}

async fn replays(account: &ConsoleAccount, clients: &ConsoleClients) -> Result<LatestReplays, String> {
    let Some(BucketPrefix { bucket, prefix }) = &account.control else {
        return Ok(LatestReplays::default());
    };
    let replays =
        StoredReplays::new(clients.s3.clone(), bucket, prefix, account.clock.clone(), String::new());
    let mut found = replays.newest(MAX_REPLAYS + 1).await.map_err(|error| format!("the replays: {error}"))?;
    let mut latest = LatestReplays { more: found.len() > MAX_REPLAYS, ..LatestReplays::default() };
    found.truncate(MAX_REPLAYS);
    for (id, state) in found {
        match state {
            Ok(state) => latest.states.push(state),
            Err(error) => latest.broken.push(format!("the replay {id}: {error}")),
        }
    }
    Ok(latest)
}
