//! The control of a replay: its observer and its pace.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redrive_core::arn::Arn;
use redrive_core::failure::Failure;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::letter::RecordLocation;
use super::replay_state::ReplayState;

/// The time to sleep before checking again whether to stop.
pub(super) const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The time between two checks whether somebody has stopped the replay.
pub(super) const STOP_READ_INTERVAL: Duration = Duration::from_secs(2);

/// The observer of a replay, which may stop it.
pub trait ReplayControl: Sync {
    /// Reports whether to stop after the letters under way.
    fn stop(&self) -> bool;
    /// Takes the state after the replay began or continued, after letters were sent, and after a step began,
    /// was judged or ended.
    fn progress(&self, state: &ReplayState);
    /// Takes the number of letters just sent. The state counts them only when the work on their unit ends.
    fn sent(&self, _letters: u64) {}
    /// Takes the place of a letter that is left out, and the reason in words.
    fn left_out(&self, at: &RecordLocation, why: &str);
    /// Takes a queue that could not be read: letters that wait there do not stop the replay.
    fn not_watched(&self, queue: &Arn, failure: &Failure) {
        let why = "cannot be read, so letters that wait there do not stop the replay";
        self.left_out(
            &RecordLocation { key: queue.to_string(), line: None },
            &format!("{why}: {}", failure.told()),
        );
    }
}

/// An observer combined with a switch, for a replay that must stop for a reason of its own.
pub(super) struct SwitchedControl<'c> {
    control: &'c dyn ReplayControl,
    is_off: AtomicBool,
}

impl<'c> SwitchedControl<'c> {
    pub(super) fn new(control: &'c dyn ReplayControl) -> Self {
        Self { control, is_off: AtomicBool::new(false) }
    }

    /// Makes the replay stop after the letters under way.
    pub(super) fn turn_off(&self) {
        self.is_off.store(true, Ordering::Relaxed);
    }
}

impl ReplayControl for SwitchedControl<'_> {
    fn stop(&self) -> bool {
        self.is_off.load(Ordering::Relaxed) || self.control.stop()
    }

    fn progress(&self, state: &ReplayState) {
        self.control.progress(state);
    }

    fn sent(&self, letters: u64) {
        self.control.sent(letters);
    }

    fn left_out(&self, at: &RecordLocation, why: &str) {
        self.control.left_out(at, why);
    }

    fn not_watched(&self, queue: &Arn, failure: &Failure) {
        self.control.not_watched(queue, failure);
    }
}

/// The number of letters per second, for all workers together.
#[derive(Debug)]
pub(super) struct SendPace {
    rate: u64,
    next: Mutex<Instant>,
}

impl SendPace {
    pub(super) fn new(rate: u32) -> Self {
        Self { rate: u64::from(rate.max(1)), next: Mutex::new(Instant::now()) }
    }

    /// Waits until these letters may go. Returns `false` if the replay must stop. Time without sending is not
    /// made up for.
    pub(super) async fn turn(&self, letters: u64, stop: impl Fn() -> bool) -> bool {
        let mut next = self.next.lock().await;
        let turn = (*next).max(Instant::now());
        *next = turn + Duration::from_micros(letters.saturating_mul(1_000_000) / self.rate);
        drop(next);
        while Instant::now() < turn && !stop() {
            sleep(STOP_CHECK_INTERVAL.min(turn.saturating_duration_since(Instant::now()))).await;
        }
        !stop()
    }
}
