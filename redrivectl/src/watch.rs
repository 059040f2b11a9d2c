//! A replay as a person sees it: a bar with what was sent, how fast, and what it waits for.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::{SignedDuration, Timestamp};

use crate::console::Console;
use crate::text::{clock, count, harmless, thousands};
use sns_redrive::clock::Clock;
use sns_redrive::replay::{At, Control, State, Status};

/// Between two looks at the clock: a countdown goes by seconds.
const TICK: Duration = Duration::from_millis(250);

/// The time of which letters a second are told.
const LATELY: SignedDuration = SignedDuration::from_secs(10);

/// Between two batches at most, else it has slowed down.
const PAUSE: SignedDuration = SignedDuration::from_secs(2);

/// The least time that tells a rate.
const LEAST: SignedDuration = SignedDuration::from_secs(1);

/// Between two lines about one step.
const LINE: SignedDuration = SignedDuration::from_mins(1);

const BAR: &str = "[{bar:20}] {wide_msg}";

/// Tells of a replay while it runs: what is left out in lines, and on a terminal how far it is, below them.
pub(crate) struct Watch<'a> {
    stop: Arc<AtomicBool>,
    clock: Clock,
    bar: ProgressBar,
    err: Mutex<&'a mut (dyn Write + Send)>,
    view: Mutex<View>,
    /// Whether it is told in lines.
    tells: bool,
    /// What the last line told of, and when.
    told: Mutex<Option<(usize, Status, Timestamp)>>,
}

/// What is known of a replay under way.
#[derive(Debug, Default)]
struct View {
    /// None while it looks through the archive.
    state: Option<State>,
    /// Letters that were sent until now, also in units that are under way.
    sent: u64,
    /// The same when it was looked the last time.
    seen: u64,
    /// How many had been sent after each batch lately; empty while a step settles.
    lately: VecDeque<(Timestamp, u64)>,
    /// Letters a second when it sent the last time.
    rate: Option<u64>,
    /// Whether it was told to stop.
    stops: bool,
}

impl<'a> Watch<'a> {
    /// Begins to show a replay; to a person only, and not where JSON is asked for.
    pub(crate) fn new(console: &'a mut Console, as_json: bool, stop: Arc<AtomicBool>) -> Self {
        let shows = console.progress && !as_json;
        let target = if shows { (console.draws)() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target).with_style(style("{wide_msg}"));
        let (clock, err) = (console.clock.clone(), Mutex::new(&mut *console.err as _));
        let tells = console.lines && !as_json;
        let watch = Self { stop, clock, bar, err, view: Mutex::default(), tells, told: Mutex::default() };
        watch.show();
        watch
    }

    /// Shows the time that goes by, for as long as it is asked to.
    pub(crate) async fn keep_showing(&self) -> Infallible {
        loop {
            tokio::time::sleep(TICK).await;
            self.show();
        }
    }

    /// Clears the line; whether it was interrupted.
    pub(crate) fn end(self) -> bool {
        self.bar.finish_and_clear();
        self.stop()
    }

    /// Says something that stays, above the line.
    pub(crate) fn say(&self, line: &str) {
        self.bar.suspend(|| {
            let mut err = self.err.lock().unwrap_or_else(PoisonError::into_inner);
            // A replay goes on, also where nobody listens.
            let _ = writeln!(err, "redrivectl: {line}");
        });
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of a step that begins or settles, and each minute how far it is.
    fn tell(&self) {
        let now = self.clock.now();
        let mut view = self.view();
        view.look(now);
        let Some((step, status)) = view.state.as_ref().map(|state| (state.step, state.status)) else {
            return;
        };
        // How it ended is said at the end.
        if !matches!(status, Status::Running | Status::Settling) {
            return;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_told = |(of_step, of_status, at): &(usize, Status, Timestamp)| {
            (*of_step, *of_status) == (step, status) && now.duration_since(*at) < LINE
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

/// How the bar looks. A template of ours is never wrong; if one were, the bar would look like indicatif's own.
fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("#.")
}

impl Control for Watch<'_> {
    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn progress(&self, state: &State) {
        self.view().stands(state);
        self.show();
    }

    fn sent(&self, letters: u64) {
        self.view().sent += letters;
        self.show();
    }

    fn left_out(&self, at: &At, why: &str) {
        self.say(&format!("{}: {}", harmless(&at.to_string()), harmless(why)));
    }
}

impl View {
    /// Notes how the replay stands.
    fn stands(&mut self, state: &State) {
        // Units under way are not in it yet.
        self.sent = self.sent.max(state.counts.sent);
        self.state = Some(state.clone());
    }

    /// Notes how many letters are sent at this time.
    fn look(&mut self, now: Timestamp) {
        if self.state.as_ref().is_none_or(|state| state.status != Status::Running) {
            // The rate is that of sending, not of waiting.
            self.lately.clear();
        } else if self.seen != self.sent {
            self.lately.push_back((now, self.sent));
        }
        self.seen = self.sent;
        let is_old = |(at, _): &(Timestamp, u64)| now.duration_since(*at) > LATELY;
        while self.lately.len() > 2 && self.lately.get(1).is_some_and(is_old) {
            self.lately.pop_front();
        }
        let (Some((first, before)), Some((last, sent))) = (self.lately.front(), self.lately.back()) else {
            return;
        };
        // Letters go in batches. So the time ends with the last one, unless none has gone for too long.
        let took = now
            .duration_since(*first)
            .checked_sub(PAUSE)
            .unwrap_or_default()
            .max(last.duration_since(*first));
        if took >= LEAST {
            let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
            self.rate = Some((sent - before).saturating_mul(1000) / millis);
        }
    }

    /// Records that are behind the replay, and all of its selection; none before these are known.
    fn position(&self) -> Option<(u64, u64)> {
        let state = self.state.as_ref()?;
        let behind = self.sent + passed_over(state) + left_out(state);
        // By the index a selection may be larger than it is.
        let is_done = state.status == Status::Done;
        Some((if is_done { state.letters } else { behind.min(state.letters) }, state.letters))
    }

    /// What stands beside the bar.
    fn message(&self, now: Timestamp) -> String {
        let Some(state) = &self.state else {
            return if self.stops { "stopping" } else { "looking through the archive" }.to_owned();
        };
        let most = if state.exact { "" } else { "at most " };
        let mut parts = vec![format!("{} of {most}{}", thousands(self.sent), count(state.letters, "letter"))];
        if self.stops {
            parts.push("stopping; Ctrl-C again ends it at once".to_owned());
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

    /// The time until all is sent, at the rate that it had lately, with the waits after steps; none while nobody knows.
    fn time_left(&self, state: &State, now: Timestamp) -> Option<String> {
        let (behind, all) = self.position()?;
        let rate = self.rate.unwrap_or_else(|| state.request.rate.into());
        let sending = (all - behind).checked_div(rate)?;
        let steps_to_settle = state.steps.saturating_sub(state.step) as u64;
        let (waits, wait) = match state.not_before {
            Some(then) => (steps_to_settle.saturating_sub(1), seconds_until(then, now)),
            None => (steps_to_settle, 0),
        };
        let settling = waits.saturating_mul(state.request.settle_seconds.into());
        Some(format!("{} left", clock(sending.saturating_add(settling).saturating_add(wait))))
    }
}

/// Whole seconds, the one under way among them.
fn seconds_until(then: Timestamp, now: Timestamp) -> u64 {
    u64::try_from((then.duration_since(now).as_millis() + 999) / 1000).unwrap_or_default()
}

/// Letters that a replay does not send, and somebody should look at.
fn left_out(state: &State) -> u64 {
    let counts = &state.counts;
    counts.refused + counts.unreadable + counts.not_replayable.values().sum::<u64>()
}

/// Letters that were sent before, and records that are stored twice.
fn passed_over(state: &State) -> u64 {
    state.counts.already_replayed + state.counts.doubles
}
