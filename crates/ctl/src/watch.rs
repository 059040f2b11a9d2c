//! The progress of a replay on a terminal: a bar with the letters sent, the rate, and the current step.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::{SignedDuration, Timestamp};
use redrive_aws::clock::InstanceClock;
use redrive_replay::{RecordLocation, ReplayControl, ReplayState, ReplayStatus};

use crate::console::ToolEnvironment;
use crate::tables::{clock, count, harmless, thousands};

/// The time between two updates. The countdown changes every second.
const UPDATE_INTERVAL: Duration = Duration::from_millis(250);

/// The period over which the rate is measured.
const RATE_PERIOD: SignedDuration = SignedDuration::from_secs(10);

/// The longest pause between two batches that does not lower the rate.
const LONGEST_BATCH_PAUSE: SignedDuration = SignedDuration::from_secs(2);

/// The shortest period that gives a rate.
const LEAST_RATE_PERIOD: SignedDuration = SignedDuration::from_secs(1);

/// The time between two lines about one step.
const LINE_INTERVAL: SignedDuration = SignedDuration::from_mins(1);

const BAR: &str = "[{bar:20}] {wide_msg}";

/// Shows a running replay: a line for each letter that is left out, and below them a progress bar if there is
/// a terminal.
pub(crate) struct TerminalWatch<'a> {
    stop: Arc<AtomicBool>,
    clock: InstanceClock,
    bar: ProgressBar,
    err: Mutex<&'a mut (dyn Write + Send)>,
    view: Mutex<ProgressView>,
    /// True if progress is printed in lines.
    tells: bool,
    /// True if there is a line for each letter that is left out.
    names_letters: bool,
    /// The step, status and time of the last printed line.
    told: Mutex<Option<(usize, ReplayStatus, Timestamp)>>,
}

/// The progress of a running replay.
#[derive(Debug, Default)]
struct ProgressView {
    /// The state; `None` while the replay reads the archive.
    state: Option<ReplayState>,
    /// The number of letters sent, including units under way.
    sent: u64,
    /// The number sent at the previous update.
    seen: u64,
    /// The numbers sent after recent batches; empty while a step settles.
    lately: VecDeque<(Timestamp, u64)>,
    /// The last known rate, in letters a second.
    rate: Option<u64>,
    /// True if the replay was told to stop.
    stops: bool,
}

impl<'a> TerminalWatch<'a> {
    /// Begins to show a replay. The bar needs a terminal and no `--json`.
    pub(crate) fn new(console: &'a mut ToolEnvironment, as_json: bool, stop: Arc<AtomicBool>) -> Self {
        let shows = console.progress && !as_json;
        let target = if shows { (console.draws)() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target).with_style(style("{wide_msg}"));
        let (clock, err) = (console.clock.clone(), Mutex::new(&mut *console.err as _));
        let tells = console.lines && !as_json;
        let (view, told) = (Mutex::default(), Mutex::default());
        let watch = Self { stop, clock, bar, err, view, tells, names_letters: true, told };
        watch.show();
        watch
    }

    /// Returns the same display, without a line for each letter that is left out.
    pub(crate) fn without_letters(self) -> Self {
        Self { names_letters: false, ..self }
    }

    /// Returns the state that the replay reported last; `None` before it has begun.
    pub(crate) fn state(&self) -> Option<ReplayState> {
        self.view().state.clone()
    }

    /// Updates the progress until it is dropped.
    pub(crate) async fn keep_showing(&self) -> Infallible {
        loop {
            tokio::time::sleep(UPDATE_INTERVAL).await;
            self.show();
        }
    }

    /// Clears the bar, or prints the final state as the last line. Returns whether the replay was
    /// interrupted.
    pub(crate) fn end(self, state: Option<&ReplayState>) -> bool {
        self.bar.finish_and_clear();
        let has_told = self.told.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if let Some(state) = state.filter(|_| has_told) {
            self.say(&ending(state));
        }
        self.stop()
    }

    /// Prints a line that stays, above the bar.
    pub(crate) fn say(&self, line: &str) {
        self.bar.suspend(|| {
            let mut err = self.err.lock().unwrap_or_else(PoisonError::into_inner);
            // Failed writes do not stop a replay.
            let _ = writeln!(err, "redrivectl: {line}");
        });
    }

    fn view(&self) -> MutexGuard<'_, ProgressView> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints a line when a step begins or settles, and every minute.
    fn tell(&self) {
        let now = self.clock.now();
        let mut view = self.view();
        view.look(now);
        let Some((step, status)) = view.state.as_ref().map(|state| (state.step, state.status)) else {
            return;
        };
        // The final state is printed at the end.
        if !matches!(status, ReplayStatus::Running | ReplayStatus::Settling) {
            return;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_told = |(of_step, of_status, at): &(usize, ReplayStatus, Timestamp)| {
            (*of_step, *of_status) == (step, status) && now.duration_since(*at) < LINE_INTERVAL
        };
        if told.as_ref().is_some_and(is_told) {
            return;
        }
        *told = Some((step, status, now));
        let mut err = self.err.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(err, "redrivectl: {}", view.message(now));
    }

    fn show(&self) {
        if self.tells {
            self.tell();
        }
        if self.bar.is_hidden() {
            return;
        }
        let now = self.clock.now();
        let mut view = self.view();
        view.stops = self.stop();
        view.look(now);
        let message = view.message(now);
        if let Some((behind, all)) = view.position() {
            if self.bar.length().is_none() {
                self.bar.set_style(style(BAR));
            }
            self.bar.update(|bar| {
                bar.set_len(all);
                bar.set_pos(behind);
            });
        }
        self.bar.set_message(message);
    }
}

/// Returns the style of the bar, or indicatif's own style if the template were invalid.
fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("#.")
}

impl ReplayControl for TerminalWatch<'_> {
    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn progress(&self, state: &ReplayState) {
        self.view().stands(state);
        self.show();
    }

    fn sent(&self, letters: u64) {
        self.view().sent += letters;
        self.show();
    }

    fn left_out(&self, at: &RecordLocation, why: &str) {
        if self.names_letters {
            self.say(&format!("{}: {}", harmless(&at.to_string()), harmless(why)));
        }
    }
}

impl ProgressView {
    /// Notes the state of the replay.
    fn stands(&mut self, state: &ReplayState) {
        // The state does not include units under way.
        self.sent = self.sent.max(state.counts.sent);
        self.state = Some(state.clone());
    }

    /// Notes the number of letters sent at this time.
    fn look(&mut self, now: Timestamp) {
        if self.state.as_ref().is_none_or(|state| state.status != ReplayStatus::Running) {
            // Pauses do not count for the rate.
            self.lately.clear();
        } else if self.seen != self.sent {
            self.lately.push_back((now, self.sent));
        }
        self.seen = self.sent;
        let is_old = |(at, _): &(Timestamp, u64)| now.duration_since(*at) > RATE_PERIOD;
        while self.lately.len() > 2 && self.lately.get(1).is_some_and(is_old) {
            self.lately.pop_front();
        }
        let (Some((first, before)), Some((last, sent))) = (self.lately.front(), self.lately.back()) else {
            return;
        };
        // Letters go in batches, so the measured time ends with the last batch, unless the pause since then
        // is too long.
        let took = now
            .duration_since(*first)
            .checked_sub(LONGEST_BATCH_PAUSE)
            .unwrap_or_default()
            .max(last.duration_since(*first));
        if took >= LEAST_RATE_PERIOD {
            let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
            self.rate = Some((sent - before).saturating_mul(1000) / millis);
        }
    }

    /// Returns the number of records done and of all in the selection, once these are known.
    fn position(&self) -> Option<(u64, u64)> {
        let state = self.state.as_ref()?;
        let behind = self.sent + passed_over(state) + left_out(state);
        // The index may overestimate the selection.
        let is_done = state.status == ReplayStatus::Done;
        Some((if is_done { state.letters } else { behind.min(state.letters) }, state.letters))
    }

    /// Returns the text beside the bar.
    fn message(&self, now: Timestamp) -> String {
        let Some(state) = &self.state else {
            return if self.stops { "stopping" } else { "reading the archive" }.to_owned();
        };
        let most = if state.exact { "" } else { "at most " };
        let mut parts = vec![format!("{} of {most}{}", thousands(self.sent), count(state.letters, "letter"))];
        if self.stops {
            parts.push("stopping; press Ctrl-C again to end at once".to_owned());
            return parts.join(", ");
        }
        let step = format!("step {} of {}", state.step, state.steps);
        if let Some(then) = state.not_before {
            let left = seconds_until(then, now);
            let judged =
                if left == 0 { "is judged".to_owned() } else { format!("judged in {}", clock(left)) };
            parts.push(format!("{step} {judged}"));
            parts.extend(self.time_left(state, now));
        } else {
            parts.extend(self.rate.map(|rate| format!("{}/s", thousands(rate))));
            parts.extend(self.time_left(state, now));
            parts.push(step);
        }
        for (number, what) in [(left_out(state), "left out"), (passed_over(state), "passed over")] {
            if number > 0 {
                parts.push(format!("{} {what}", thousands(number)));
            }
        }
        parts.join(", ")
    }

    /// Returns the time until all letters are sent, at the recent rate and with the waits after steps, if it is known.
    fn time_left(&self, state: &ReplayState, now: Timestamp) -> Option<String> {
        let (behind, all) = self.position()?;
        let rate = self.rate.unwrap_or_else(|| state.request.rate.into());
        let sending = (all - behind).checked_div(rate)?;
        // Only a step that sends letters settles, and the last such step does not.
        let steps_to_settle =
            (state.steps.saturating_sub(state.step) as u64).min((all - behind).saturating_sub(1));
        let (waits, wait) = match state.not_before {
            Some(then) => (steps_to_settle.saturating_sub(1), seconds_until(then, now)),
            None => (steps_to_settle, 0),
        };
        let settling = waits.saturating_mul(state.request.settle_seconds.into());
        Some(format!("{} left", clock(sending.saturating_add(settling).saturating_add(wait))))
    }
}

/// Says how far a replay came that does not run here any more.
fn ending(state: &ReplayState) -> String {
    let most = if state.exact { "" } else { "at most " };
    let (sent, all) = (thousands(state.counts.sent), count(state.letters, "letter"));
    let end = match state.status {
        ReplayStatus::Running | ReplayStatus::Settling => "interrupted",
        status => status.name(),
    };
    format!("{sent} of {most}{all} sent: {end}")
}

/// Returns the seconds until a time, rounded up.
fn seconds_until(then: Timestamp, now: Timestamp) -> u64 {
    u64::try_from((then.duration_since(now).as_millis() + 999) / 1000).unwrap_or_default()
}

/// Returns the number of letters that the replay does not send and that somebody should check.
fn left_out(state: &ReplayState) -> u64 {
    let counts = &state.counts;
    counts.refused + counts.gone + counts.unreadable + counts.not_replayable.values().sum::<u64>()
}

/// Returns the number of letters that were sent before, and of records that are stored twice.
fn passed_over(state: &ReplayState) -> u64 {
    state.counts.already_replayed + state.counts.doubles
}
