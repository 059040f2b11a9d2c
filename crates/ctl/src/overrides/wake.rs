//! Waking: hidden letters become visible again, so that an override reaches them now.
//!
//! A standard queue accepts an old receipt handle. It then shows a message that a later receive has hidden,
//! perhaps in the middle of an attempt, and the letter is delivered twice. So the tool uses the newest line
//! of each letter, and leaves letters alone that are due soon. It also does not repeat a request whose answer
//! was lost, because SQS may have shown the letters. Nobody can count how many letters woke: SQS refuses only
//! messages that are gone. A FIFO queue refuses an old handle. Receipt handles are never printed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_sqs::config::retry::RetryConfig;
use futures_util::stream::{self, LocalBoxStream, StreamExt};
use jiff::{SignedDuration, Timestamp};
use redrive_aws::clock::InstanceClock;
use redrive_aws::control::{WaitingLine, WaitingList};
use redrive_aws::delivery::{HideRequest, hide};
use redrive_core::arn::Arn;
use redrive_core::batch::MAX_ENTRIES;
use redrive_core::failure::{Failure, FailureClass};
use redrive_core::policy::{Override, OverrideAction, OverrideReach, ReachAnswer};
use redrive_core::waiting::WaitingLetter;
use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until};

use super::target_check::ListedResources;
use crate::console::{CommandFailure, ToolEnvironment};
use crate::control::ControlAccess;
use crate::progress_line::ProgressLine;
use crate::tables::{bar, count, harmless, thousands};

/// The seconds before its next retry in which a letter is not woken, because it comes back by itself.
const SOON_SECONDS: i64 = 60;

/// The time between an override and the first wake: by then every instance has read the override.
pub(super) const WAKE_DELAY: Duration = Duration::from_secs(20);

/// The number of concurrent requests.
const CONCURRENT_WAKES: usize = 16;

/// The time for one request.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// The number of tries for a letter if SQS refuses for now.
const WAKE_PASSES: u32 = 5;

/// The wait between two passes.
const PASS_WAIT: Duration = Duration::from_secs(2);

/// How often a wait checks for an interrupt.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(200);

/// The error codes of SQS for a handle that is no longer valid. [`Failure::ends_receive`] goes by the error's
/// text; these are for errors with another text.
const STALE_CODES: [&str; 4] =
    ["ReceiptHandleIsInvalid", "InvalidReceiptHandle", "MessageNotInflight", "InvalidParameterValue"];

/// Wakes the letters of overrides.
pub(super) struct LetterWaker {
    control: ControlAccess,
    /// A client that makes each request once.
    sqs: aws_sdk_sqs::Client,
    reaches: Vec<(OverrideReach, Option<Timestamp>)>,
    /// Other overrides, by precedence: a letter that one of them holds stays hidden.
    others: Vec<(Override, OverrideReach)>,
    list: WaitingList<WakeCandidate>,
    listed: RefCell<ListedResources>,
}

/// The part of a line that is kept.
#[derive(Clone)]
struct WakeCandidate {
    queue: Arn,
    /// The receipt handle; empty if the letter shall not wake.
    handle: Box<str>,
    touches: ReachAnswer,
    /// True if one of the overrides matches the letter, but another one holds it.
    held: bool,
}

/// The numbers of waiting letters that overrides match.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MatchCounts {
    pub(crate) yes: u64,
    /// Letters that may match: the list lacks a field of the pattern.
    pub(crate) maybe: u64,
    /// Letters that another override holds.
    pub(crate) held: u64,
    /// Letters whose endpoint is back, and which the function has claimed, to wake them. Some may wait all the same.
    pub(crate) claimed: u64,
    /// Lines and objects of the list that could not be read.
    pub(crate) unread: u64,
}

/// The result of waking.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WakeSummary {
    /// Letters that SQS was asked to show, without an error. The number that it showed is unknown.
    pub(super) asked: u64,
    /// Letters that were received again meanwhile, or are gone.
    pub(super) stale: u64,
    /// Letters that failed, by error code.
    pub(super) failed: BTreeMap<String, u64>,
    /// AWS's own sentence about the first of them, by error code.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) said: BTreeMap<String, String>,
    /// Letters that were not asked.
    pub(super) left: u64,
    /// The error if letters hidden since the preview could not be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unlisted: Option<String>,
    /// The reason why letters were left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stopped: Option<WakeStop>,
}

/// The reason why waking ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum WakeStop {
    /// It was interrupted.
    Interrupted,
    /// The override ended first.
    OverrideEnded,
}

impl LetterWaker {
    /// Returns a waker for overrides, each with the time since which a line of the list must have been written.
    pub(super) fn new(
        control: &ControlAccess,
        sqs: &aws_sdk_sqs::Client,
        reaches: Vec<(OverrideReach, Option<Timestamp>)>,
    ) -> Self {
        // The SDK must not repeat requests whose answer was lost.
        let once = sqs.config().to_builder().retry_config(RetryConfig::disabled()).build();
        let sqs = aws_sdk_sqs::Client::from_conf(once);
        Self {
            control: control.clone(),
            sqs,
            reaches,
            others: Vec::new(),
            list: WaitingList::default(),
            listed: RefCell::default(),
        }
    }

    /// Leaves letters hidden that one of these overrides holds.
    pub(super) fn but_not(self, others: Vec<(Override, OverrideReach)>) -> Self {
        Self { others, ..self }
    }

    /// Reads what was added to the list since the last read.
    pub(super) async fn read(&mut self, console: &mut ToolEnvironment) -> Result<(), CommandFailure> {
        let now = console.clock.now();
        let (reaches, others, listed) = (&self.reaches, &self.others, &self.listed);
        let keep = |written: Timestamp, letter: WaitingLetter| {
            listed.borrow_mut().add(&letter);
            let after = |from: &Option<Timestamp>| from.is_none_or(|from| written >= from);
            let overrides = reaches.iter().filter(|(_, from)| after(from));
            let touches = overrides.map(|(reach, _)| reach.touches(&letter)).max().unwrap_or(ReachAnswer::No);
            let held = touches > ReachAnswer::No && is_held(others, &letter);
            let touches = if held { ReachAnswer::No } else { touches };
            let handle = if touches == ReachAnswer::No { String::new() } else { letter.receipt_handle };
            WakeCandidate { queue: letter.queue_arn, handle: handle.into(), touches, held }
        };
        // Objects without letters of the targets need not be read, if all overrides name theirs.
        let targets: Option<Vec<_>> = reaches.iter().map(|(reach, _)| reach.targets()).collect();
        let targets = targets.map(|targets| targets.concat());
        let mut screen = ProgressLine::new(&mut *console.err, console.progress);
        let read = self.control.read_waiting(&mut self.list, now, targets.as_deref(), keep, |letters| {
            if letters % 1_000 == 0 {
                screen.show(&format!("{} waiting letters read", thousands(letters as u64)));
            }
        });
        read.await
    }

    /// Lines and objects of the list that could not be read.
    pub(super) fn unread(&self) -> u64 {
        self.list.unread()
    }

    /// Returns what the lines that were read name, whether or not an override matches them.
    pub(super) fn listed(&mut self) -> &ListedResources {
        self.listed.get_mut()
    }

    pub(super) fn touched(&self, now: Timestamp) -> MatchCounts {
        let mut touched = MatchCounts { unread: self.list.unread(), ..MatchCounts::default() };
        for line in self.list.due_after(now) {
            if line.claimed && line.kept.touches > ReachAnswer::No {
                touched.claimed += 1;
                continue;
            }
            touched.held += u64::from(line.kept.held);
            match line.kept.touches {
                ReachAnswer::Yes => touched.yes += 1,
                ReachAnswer::Maybe => touched.maybe += 1,
                ReachAnswer::No => {}
            }
        }
        touched
    }

    /// Asks the letters to wake, when every instance has read the overrides.
    pub(super) async fn wake(
        &mut self,
        written: Instant,
        rate: u32,
        end: Option<Timestamp>,
        stop: &AtomicBool,
        console: &mut ToolEnvironment,
    ) -> WakeSummary {
        let begins = written + WAKE_DELAY;
        while Instant::now() < begins && !stop.load(Ordering::Relaxed) {
            let mut screen = ProgressLine::new(&mut *console.err, console.progress);
            screen.show(&format!("waking begins in {} s", (begins - Instant::now()).as_secs() + 1));
            sleep_until(begins.min(Instant::now() + INTERRUPT_INTERVAL)).await;
        }
        let mut woken = WakeSummary::default();
        // Instances that had not read the override yet may have hidden more letters meanwhile.
        if !stop.load(Ordering::Relaxed) {
            woken.unlisted = self.read(console).await.err().map(|failed| failed.to_string());
        }
        let clock = &console.clock;
        let mut letters: Vec<_> =
            self.list.due_after(Timestamp::MIN).filter(|line| line.kept.touches > ReachAnswer::No).collect();
        letters.sort_by(|one, other| {
            let override_ = |line: &WaitingLine<WakeCandidate>| (line.kept.queue.clone(), line.since);
            override_(one).cmp(&override_(other))
        });
        letters.retain(|line| !is_due_soon(line, clock));
        let mut screen = ProgressLine::new(&mut *console.err, console.progress);
        let all = letters.len() as u64;
        let ends = WakeLimits { stop, clock, end };
        for pass in 1..=WAKE_PASSES {
            let mut again = Vec::new();
            let mut answers = asked(&self.sqs, &letters, rate, &ends);
            while let Some((batch, answers)) = answers.next().await {
                match answers {
                    WakeAnswers::Stopped(why) => {
                        woken.stopped.get_or_insert(why);
                        woken.left += batch.len() as u64;
                    }
                    WakeAnswers::All(answers) => {
                        for (line, answer) in batch.iter().zip(answers) {
                            match answer {
                                Err(failure) if is_refused_for_now(&failure) && pass < WAKE_PASSES => {
                                    again.push(*line);
                                }
                                answer => woken.count(answer),
                            }
                        }
                    }
                }
                let done = woken.handled();
                screen.show(&format!(
                    "{} {} of {} asked to wake",
                    bar(done, all),
                    thousands(done),
                    count(all, "letter")
                ));
            }
            drop(answers);
            if again.is_empty() {
                break;
            }
            letters = again;
            sleep(PASS_WAIT).await;
        }
        woken
    }
}

/// Reports whether one of these overrides holds a waiting letter until it comes back by itself. A letter hidden
/// beyond the end of the hold wakes, so that the function hides it only until then.
fn is_held(overrides: &[(Override, OverrideReach)], letter: &WaitingLetter) -> bool {
    for (override_, reach) in overrides {
        match (override_.action, reach.touches(letter)) {
            (_, ReachAnswer::No) | (OverrideAction::Hold, ReachAnswer::Maybe) => {}
            (OverrideAction::Hold, ReachAnswer::Yes) => {
                return override_.end().is_none_or(|end| letter.due <= end);
            }
            // It is not held, or may not be.
            (OverrideAction::Retry | OverrideAction::GiveUp, _) => return false,
        }
    }
    false
}

/// The conditions that end waking before its time.
struct WakeLimits<'a> {
    stop: &'a AtomicBool,
    clock: &'a InstanceClock,
    end: Option<Timestamp>,
}

impl WakeLimits<'_> {
    fn now(&self) -> Option<WakeStop> {
        if self.stop.load(Ordering::Relaxed) {
            return Some(WakeStop::Interrupted);
        }
        // A letter that wakes after the end of its override uses up a retry.
        self.end.is_some_and(|end| end <= self.clock.now()).then_some(WakeStop::OverrideEnded)
    }
}

/// The answers about a batch.
enum WakeAnswers {
    All(Vec<Result<(), Failure>>),
    Stopped(WakeStop),
}

/// Asks letters to wake, ten of a queue at a time, at this rate. Skips letters that are due soon by then.
fn asked<'l>(
    sqs: &'l aws_sdk_sqs::Client,
    letters: &[&'l WaitingLine<WakeCandidate>],
    rate: u32,
    ends: &'l WakeLimits<'l>,
) -> LocalBoxStream<'l, (Vec<&'l WaitingLine<WakeCandidate>>, WakeAnswers)> {
    let begun = Instant::now();
    let of_queue = letters.chunk_by(|one, other| one.kept.queue == other.kept.queue);
    let batches: Vec<_> =
        of_queue.flat_map(|letters| letters.chunks(MAX_ENTRIES)).map(<[_]>::to_vec).collect();
    let timed = batches.into_iter().scan(0_u32, move |before, batch| {
        let at = begun + Duration::from_secs(1) * *before / rate;
        *before = before.saturating_add(u32::try_from(batch.len()).unwrap_or(u32::MAX));
        Some((at, batch))
    });
    // A stop does not wait for the remaining batches.
    let paced = stream::iter(timed).then(move |(at, batch)| async move {
        while Instant::now() < at && ends.now().is_none() {
            sleep_until(at.min(Instant::now() + INTERRUPT_INTERVAL)).await;
        }
        batch
    });
    let answered = paced.map(move |batch| async move {
        let batch: Vec<_> = batch.into_iter().filter(|line| !is_due_soon(line, ends.clock)).collect();
        let Some(first) = batch.first() else { return (batch, WakeAnswers::All(Vec::new())) };
        if let Some(why) = ends.now() {
            return (batch, WakeAnswers::Stopped(why));
        }
        let shown = |line: &&'l WaitingLine<WakeCandidate>| HideRequest {
            receipt_handle: &line.kept.handle,
            seconds: 0,
        };
        let hidings: Vec<_> = batch.iter().map(shown).collect();
        let answers = hide(sqs, &first.kept.queue, &hidings, Instant::now() + REQUEST_TIMEOUT).await;
        (batch, WakeAnswers::All(answers))
    });
    answered.buffer_unordered(CONCURRENT_WAKES).boxed_local()
}

fn is_due_soon(line: &WaitingLine<WakeCandidate>, clock: &InstanceClock) -> bool {
    line.shows
        <= clock.now().saturating_add(SignedDuration::from_secs(SOON_SECONDS)).unwrap_or(Timestamp::MAX)
}

/// Reports whether SQS refused a request for now, so that it has shown nothing.
fn is_refused_for_now(failure: &Failure) -> bool {
    failure.class == FailureClass::Throttling || failure.code.ends_with("ServiceUnavailable")
}

impl WakeSummary {
    fn count(&mut self, answer: Result<(), Failure>) {
        match answer {
            Ok(()) => self.asked += 1,
            Err(failure) => {
                let code = failure.code.rsplit('.').next().unwrap_or_default();
                if failure.ends_receive() || STALE_CODES.contains(&code) {
                    self.stale += 1;
                } else {
                    *self.failed.entry(code.to_owned()).or_default() += 1;
                    // The sentence about another error may contain a receipt handle, so it is not shown.
                    if let Some(said) = failure.message.as_ref().filter(|_| failure.is_denied()) {
                        self.said.entry(code.to_owned()).or_insert_with(|| said.clone());
                    }
                }
            }
        }
    }

    fn handled(&self) -> u64 {
        self.asked + self.stale + self.left + self.failed.values().sum::<u64>()
    }

    pub(super) fn is_whole(&self) -> bool {
        self.failed.is_empty() && self.stopped.is_none() && self.unlisted.is_none()
    }

    pub(super) fn text(&self) -> String {
        let mut parts = vec![format!("{} asked to wake", count(self.asked, "letter"))];
        if self.stale > 0 {
            parts.push(format!("{} already received again or gone", thousands(self.stale)));
        }
        let failed = |(code, letters): (&String, &u64)| {
            let said = self.said.get(code).map_or(String::new(), |said| format!(": {}", harmless(said)));
            format!("{} failed: {}{said}", thousands(*letters), harmless(code))
        };
        parts.extend(self.failed.iter().map(failed));
        let left = thousands(self.left);
        parts.extend(self.stopped.map(|why| match why {
            WakeStop::Interrupted => format!("interrupted, {left} left hidden"),
            WakeStop::OverrideEnded => format!("the override ended, {left} left hidden"),
        }));
        let unlisted =
            |why: &String| format!("letters hidden since the preview were not woken: {}", harmless(why));
        parts.extend(self.unlisted.as_ref().map(unlisted));
        format!("{}.", parts.join("; "))
    }
}
