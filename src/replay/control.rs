//! Whoever watches a replay, and the pace at which it goes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::letter::At;
use super::state::State;

/// A nap, between which it is asked whether to stop.
pub(super) const NAP: Duration = Duration::from_millis(200);

/// Between two looks whether somebody has stopped it.
pub(super) const LOOK: Duration = Duration::from_secs(2);

/// Whoever watches a replay.
pub trait Control: Sync {
    /// Whether to stop after the letters under way.
    fn stop(&self) -> bool;
    /// It has begun or goes on, letters were sent, or a step begun, judged or ended.
    fn progress(&self, state: &State);
    /// So many letters were sent. A state counts them as soon as the work on their unit ends.
    fn sent(&self, _letters: u64) {}
    /// A letter is left out; `at` is its place, in words why.
    fn left_out(&self, at: &At, why: &str);
}

/// Whoever watches a replay, and whether it must stop for a reason of its own.
pub(super) struct Switch<'c> {
    control: &'c dyn Control,
    is_off: AtomicBool,
}

impl<'c> Switch<'c> {
    pub(super) fn new(control: &'c dyn Control) -> Self {
        Self { control, is_off: AtomicBool::new(false) }
    }

    /// Has the replay stop after the letters under way.
    pub(super) fn turn_off(&self) {
        self.is_off.store(true, Ordering::Relaxed);
    }
}

impl Control for Switch<'_> {
    fn stop(&self) -> bool {
        self.is_off.load(Ordering::Relaxed) || self.control.stop()
    }

    fn progress(&self, state: &State) {
        self.control.progress(state);
    }

    fn sent(&self, letters: u64) {
        self.control.sent(letters);
    }

    fn left_out(&self, at: &At, why: &str) {
        self.control.left_out(at, why);
    }
}

/// So many letters a second, for all workers together.
#[derive(Debug)]
pub(super) struct Pace {
    rate: u64,
    next: Mutex<Instant>,
}

impl Pace {
    pub(super) fn new(rate: u32) -> Self {
        Self { rate: u64::from(rate.max(1)), next: Mutex::new(Instant::now()) }
    }

    /// Waits until so many letters may go; whether they may, or it must stop. Time in which nothing was sent is not
    /// made up for.
    pub(super) async fn turn(&self, letters: u64, stop: impl Fn() -> bool) -> bool {
        let mut next = self.next.lock().await;
        let turn = (*next).max(Instant::now());
        *next = turn + Duration::from_micros(letters.saturating_mul(1_000_000) / self.rate);
        drop(next);
        while Instant::now() < turn && !stop() {
            sleep(NAP.min(turn.saturating_duration_since(Instant::now()))).await;
        }
        !stop()
    }
}
