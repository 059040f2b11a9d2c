//! The fault matrix: every call that redrives, every fault, standard and FIFO.
//!
//! A scenario is a world of its own with some letters. The first calls of one kind meet the fault, then no
//! more faults occur, the queues drain, and the laws judge. Calls that are made only after minutes, such as those
//! for an endpoint that is back, have a story in which the clock goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redrive_laws::letters::LettersVerdict;
use serde_json::json;

use super::faults::{FaultInjection, FaultKind, FaultPlan, FaultSite};
use super::letters::ProofLetterKind;
use super::mapping;
use super::stories::{self, LONG_DELAY_SECONDS, StoryFault};
use super::world::{ProofWorld, WorldConfig};

/// The longest time that a scenario may take to drain.
const MAX_DRAIN_TIME: Duration = Duration::from_mins(2);

/// The delay, in seconds, of letters that are to be listed: they stay hidden until they are woken.
const LISTED_DELAY_SECONDS: u64 = 180;

/// The time after which an override releases the listed letters and they are woken. By then the list is written,
/// and has met its fault.
const WAKES_AFTER: Duration = Duration::from_secs(4);

/// The longest time of an invocation that waits a second for a list or a notice.
const MAX_INVOCATION_TIME: Duration = Duration::from_millis(2_500);

/// The time by which the wall clock alone goes on at each freeze, in turn.
const SLEEPS: [Duration; 3] = [Duration::from_hours(3), Duration::from_secs(7), Duration::from_mins(11)];

/// The most violations of a scenario that are printed.
const MAX_REPORTED_VIOLATIONS: usize = 3;

/// The number of groups of a FIFO queue.
const GROUPS: usize = 4;

/// The number of letters that are listed before their endpoint is back: more than an instance claims at first, twenty;
/// and more than it claims with the first two claims, twenty and forty, where both may be lost. In a FIFO queue so many
/// groups have a letter at their head.
const LISTED_LETTERS: usize = 26;
const MANY_LISTED_LETTERS: usize = 70;

/// One cell of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixScenario {
    /// The call that goes wrong.
    pub site: FaultSite,
    /// The fault.
    pub fault: FaultKind,
    /// `true` if the queues are FIFO.
    pub fifo: bool,
    /// `true` if the function has 30 s, so that the SDK's own timeout ends a call before the invocation's
    /// deadline does.
    pub patient: bool,
}

/// The result of a scenario.
#[derive(Debug)]
pub struct ScenarioResult {
    /// The scenario.
    pub scenario: MatrixScenario,
    /// The verdict on its letters.
    pub verdict: LettersVerdict,
    /// The number of times that its fault was made.
    pub faults: usize,
    /// A broken promise that the verdict does not include.
    pub fault: Option<String>,
    /// What a slow machine can cause, and a broken promise too.
    pub slow: Vec<String>,
    /// The time that it took.
    pub took: Duration,
}

/// Returns every cell that makes sense.
#[must_use]
pub fn scenarios() -> Vec<MatrixScenario> {
    let mut all = Vec::new();
    for site in FaultSite::ALL {
        for fault in FaultKind::ALL {
            for fifo in [false, true] {
                if site.nonsense(fault, fifo).is_some() {
                    continue;
                }
                // The process needs time after its thaw to find that its connections are gone.
                let scenario = MatrixScenario { site, fault, fifo, patient: fault == FaultKind::Freeze };
                all.push(scenario);
                // These calls have limits of their own: a synchronous invocation may take all the time that
                // is left, a POST 15 s, and the overrides one second.
                let own_timeout = !matches!(
                    site,
                    FaultSite::InvokeAndWait
                        | FaultSite::Post
                        | FaultSite::Answer
                        | FaultSite::Overrides
                        | FaultSite::Waiting
                        | FaultSite::Notice
                ) && !site.is_about_recoveries();
                if own_timeout && matches!(fault, FaultKind::Silent | FaultKind::Mute) {
                    all.push(MatrixScenario { patient: true, ..scenario });
                }
            }
        }
    }
    // The scenarios that take long begin first.
    all.sort_by_key(|it| !(it.patient || it.site == FaultSite::Overrides));
    all
}

/// Returns the cells that make no sense, by the reason.
#[must_use]
pub fn nonsense() -> String {
    let mut reasons: BTreeMap<&str, BTreeMap<String, BTreeSet<&str>>> = BTreeMap::new();
    for (site, fault) in FaultSite::ALL.into_iter().flat_map(|site| FaultKind::ALL.map(|fault| (site, fault)))
    {
        let standard = site.nonsense(fault, false);
        let fifo = site.nonsense(fault, true).filter(|reason| standard != Some(*reason));
        let found = [(standard, ""), (fifo, ", FIFO")];
        for (reason, kind) in found.into_iter().filter_map(|(reason, kind)| Some((reason?, kind))) {
            let sites = reasons.entry(reason).or_default();
            sites.entry(format!("{}{kind}", site.name())).or_default().insert(fault.name());
        }
    }
    let mut text = String::new();
    for (reason, sites) in reasons {
        // Sites with the same faults share a line.
        let mut lines: BTreeMap<Vec<&str>, Vec<String>> = BTreeMap::new();
        for (site, faults) in sites {
            lines.entry(faults.into_iter().collect()).or_default().push(site);
        }
        for (faults, sites) in lines {
            let faults =
                if faults.len() == FaultKind::ALL.len() { "all".to_owned() } else { faults.join(", ") };
            let _ = writeln!(text, "- {}: {faults}: {reason}.", sites.join("; "));
        }
    }
    text
}

/// Returns the matrix: duplicates, standard and FIFO.
#[must_use]
pub fn table(runs: &[ScenarioResult]) -> String {
    let row = |site: FaultSite| {
        FaultKind::ALL.map(|fault| {
            let of = |fifo: bool| {
                let runs = || {
                    runs.iter().filter(|run| {
                        (run.scenario.site, run.scenario.fault, run.scenario.fifo) == (site, fault, fifo)
                    })
                };
                match (runs().count(), runs().all(ScenarioResult::is_good)) {
                    (0, _) => "–".to_owned(),
                    (_, false) => "FAILED".to_owned(),
                    _ => runs().map(|run| run.verdict.duplicates).sum::<usize>().to_string(),
                }
            };
            let (standard, fifo) = (of(false), of(true));
            if standard == fifo && standard == "–" { standard } else { format!("{standard}, {fifo}") }
        })
    };
    by_fault(FaultSite::ALL.map(|site| (site.name(), row(site))))
}

/// Returns a table with a row for each call and a column for each fault that was made.
pub(super) fn by_fault<const FAULTS: usize>(
    rows: impl IntoIterator<Item = (&'static str, [String; FAULTS])>,
) -> String {
    let rows: Vec<_> = rows.into_iter().collect();
    let is_made = |fault: &usize| rows.iter().any(|(_, cells)| cells[*fault] != "–");
    let made: Vec<_> = (0..FAULTS).filter(is_made).collect();
    let head: Vec<_> = made.iter().map(|fault| FaultKind::ALL[*fault].name()).collect();
    let mut text = format!("| call | {} |\n|---|{}\n", head.join(" | "), "---:|".repeat(head.len()));
    for (name, cells) in &rows {
        let cells: Vec<_> = made.iter().map(|fault| cells[*fault].as_str()).collect();
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    text
}

/// Runs scenarios, so many at the same time, and passes each result to `tell`.
pub fn run_all<S: Sync, R: Send>(
    scenarios: &[S],
    at_once: usize,
    run: impl Fn(&S) -> R + Sync,
    tell: impl Fn(&R) + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let runs = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let run = run(scenario);
                    tell(&run);
                    runs.lock().unwrap_or_else(PoisonError::into_inner).push(run);
                }
            });
        }
    });
    runs.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a line about the scenario, and everything that is wrong with it.
impl fmt::Display for ScenarioResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LettersVerdict { letters, delivered, archived, lost, duplicates, .. } = &self.verdict;
        let state = if self.is_good() { "ok" } else { "FAILED" };
        write!(
            f,
            "{:>6.1} s  {:<66} {state:<6} faults {:>2}, letters {letters}: delivered {delivered}, archived \
             {archived}, lost {lost}; duplicates {duplicates}",
            self.took.as_secs_f64(),
            self.scenario.name(),
            self.faults,
        )?;
        self.fault.iter().chain(&self.slow).try_for_each(|it| write!(f, "\n{it}"))?;
        self.verdict.violations.iter().take(MAX_REPORTED_VIOLATIONS).try_for_each(|it| write!(f, "\n{it}"))
    }
}

impl ScenarioResult {
    /// Reports whether every promise was kept, and the fault was made.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.verdict.is_good() && self.fault.is_none() && self.slow.is_empty()
    }

    /// Reports whether nothing is wrong but what a slow machine can cause: the function has time limits of its own, and a
    /// process that gets no processor meets them. Only another run, with nothing beside it, can tell.
    #[must_use]
    pub fn may_be_slow(&self) -> bool {
        self.verdict.is_good() && self.fault.is_none() && !self.slow.is_empty()
    }
}

impl MatrixScenario {
    /// Returns the name of the scenario.
    #[must_use]
    pub fn name(&self) -> String {
        let kind = if self.fifo { "FIFO" } else { "standard" };
        let time = if self.patient { ", 30 s" } else { "" };
        format!("{} x {} ({kind}{time})", self.site.name(), self.fault.name())
    }

    /// Runs the scenario.
    #[must_use]
    pub fn run(&self, binary: &Path, log: Option<&Path>) -> ScenarioResult {
        let began = Instant::now();
        let world = self.world(binary, log);
        for (kind, letters) in self.letters() {
            for number in 0..letters {
                world.write(kind, self.fifo.then(|| self.group(kind, number)));
            }
        }
        match self.site {
            FaultSite::Waiting => world.override_("retry", WAKES_AFTER),
            FaultSite::OverrideTarget => world.hold(),
            site => world.set_down(site.is_about_recoveries()),
        }
        let pollers = mapping::start(&world);
        let story = match self.site {
            site if site.is_about_recoveries() => stories::outage(&world, self.wakes_all()),
            FaultSite::OverrideTarget => {
                let held = self.letters().into_iter().filter(|(kind, _)| *kind == ProofLetterKind::Queue);
                let held = held.map(|(_, letters)| letters).sum();
                stories::hold(&world, held, self.fault == FaultKind::Permanent)
            }
            _ => Ok(()),
        };
        if self.site == FaultSite::Waiting {
            std::thread::sleep(WAKES_AFTER);
            // A process may have been killed before it had hidden its letters. Those become visible by
            // themselves.
            world.wake();
        }
        while story.is_ok() && world.waiting() > 0 && began.elapsed() < MAX_DRAIN_TIME && !world.is_over() {
            std::thread::sleep(Duration::from_millis(20));
        }
        // The delete that emptied the queue is recorded by now, but possibly not the end of its invocation.
        world.end();
        for poller in pollers {
            let _ = poller.join();
        }
        let faults = world.faults().get(&(self.site, self.fault)).copied().unwrap_or_default();
        let verdict = world.judge();
        let mut slow = world.take_slow();
        let mut fault = None;
        match story {
            Err(StoryFault::Broken(says)) => fault = Some(says),
            Err(StoryFault::Late(says)) => slow.push(says),
            Ok(()) if world.waiting() > 0 => {
                slow.push(format!("{} messages are still in the queues", world.waiting()));
            }
            Ok(()) => {}
        }
        if faults == 0 {
            slow.push("its fault was never made".to_owned());
        }
        if verdict.duplicates > 0 && self.repeats_nothing() {
            fault = Some(format!("{} letters arrived twice, and no process has ended", verdict.duplicates));
        }
        ScenarioResult { scenario: *self, verdict, faults, fault, slow, took: began.elapsed() }
    }

    /// Returns the group of a letter. What an override holds keeps no other letter waiting.
    fn group(self, kind: ProofLetterKind, number: usize) -> String {
        match self.site {
            FaultSite::OverrideTarget => format!("{}-{}", kind.name(), number % GROUPS),
            site if site.is_about_recoveries() => format!("g{}", number % self.listed_letters()),
            _ => format!("g{}", number % GROUPS),
        }
    }

    /// Reports whether the call only helps others along, and its process lives: then no letter arrives twice.
    fn repeats_nothing(self) -> bool {
        let ends = matches!(self.fault, FaultKind::KillBefore | FaultKind::KillAfter | FaultKind::Panic);
        (self.site.is_about_recoveries() || self.site == FaultSite::OverrideTarget) && !ends
    }

    /// Reports whether all letters are woken once the calls work again. What an instance has claimed or asked to wake when its
    /// process ends, or when it gets no answer or a false one, waits for its schedule; so does what it has hidden and not
    /// listed.
    fn wakes_all(self) -> bool {
        use FaultKind::{BreakAfter, Changed, Forged, KillAfter, KillBefore, Mute, Panic};
        match self.site {
            FaultSite::Wake => matches!(self.fault, Mute | BreakAfter),
            FaultSite::WaitingLines => !matches!(self.fault, KillBefore | Changed | Forged),
            FaultSite::Recoveries => self.fault != KillBefore,
            FaultSite::RecoveriesWrite => {
                !matches!(self.fault, Mute | BreakAfter | KillBefore | KillAfter | Panic)
            }
            _ => true,
        }
    }

    fn world(self, binary: &Path, log: Option<&Path>) -> Arc<ProofWorld> {
        let seconds = if self.patient { 30 } else { 5 };
        let spills = matches!(self.site, FaultSite::Requeue | FaultSite::RequeueAttributes);
        let retries = if self.exhausts() { 1 } else { 8 };
        let config = WorldConfig {
            binary: PathBuf::from(binary),
            fifo: self.fifo,
            schedule: match self.site {
                site if site.is_about_recoveries() || site == FaultSite::OverrideTarget => {
                    json!({ "numRetries": retries, "numNoDelayRetries": 1, "minDelayTarget": LONG_DELAY_SECONDS, "maxDelayTarget": LONG_DELAY_SECONDS })
                }
                FaultSite::Waiting => {
                    json!({ "numRetries": retries, "minDelayTarget": LISTED_DELAY_SECONDS, "maxDelayTarget": LISTED_DELAY_SECONDS })
                }
                _ => {
                    json!({ "numRetries": retries, "numNoDelayRetries": 1, "minDelayTarget": 1, "maxDelayTarget": 1 })
                }
            },
            retries,
            archive_queue: self.site == FaultSite::ArchiveMessage,
            discovery: self.site == FaultSite::Subscriptions,
            in_flight: if spills && !self.fifo { 10 } else { 120_000 },
            timeout: Duration::from_secs(seconds),
            visibility: Duration::from_secs(seconds + 1),
            pollers: vec![10],
            requeue_pollers: if spills { vec![10] } else { Vec::new() },
            notices: self.site == FaultSite::Notice,
            panics: self.fault == FaultKind::Panic,
            holds: self.site == FaultSite::OverrideTarget,
            passes: self.site.is_about_recoveries() || self.site == FaultSite::OverrideTarget,
            sleeps: if self.fault == FaultKind::Freeze { SLEEPS.to_vec() } else { Vec::new() },
            longest: matches!(self.site, FaultSite::Waiting | FaultSite::Notice)
                .then_some(MAX_INVOCATION_TIME),
            log: log.map(Path::to_path_buf),
        };
        ProofWorld::new(config, FaultPlan::of(self.injections(), self.fifo), 1)
    }

    /// Returns the fault, and the other faults without which its call would not be made.
    fn injections(self) -> Vec<FaultInjection> {
        let calls = match self.fault {
            // Each failed read of the overrides costs a minute.
            FaultKind::Throttle | FaultKind::Unavailable | FaultKind::BreakBefore
                if self.site == FaultSite::Overrides =>
            {
                2
            }
            _ if self.site == FaultSite::Overrides => 1,
            _ if self.site.is_about_recoveries() => self.calls_about_recoveries(),
            // The other subscriptions exist.
            FaultKind::Permanent if self.site == FaultSite::OverrideTarget => 1,
            // The SDK tries three times.
            FaultKind::Throttle | FaultKind::Unavailable | FaultKind::BreakBefore | FaultKind::BreakAfter => {
                4
            }
            FaultKind::Denied
            | FaultKind::Permanent
            | FaultKind::Partial
            | FaultKind::PartialSender
            | FaultKind::KillBefore
            | FaultKind::KillAfter
            | FaultKind::Panic
            | FaultKind::Freeze
            | FaultKind::Changed
            | FaultKind::Forged => 3,
            // The function tries a target that hangs again after ten times as long.
            FaultKind::Silent | FaultKind::Mute => 1,
        };
        let injection = |from, calls| FaultInjection { site: self.site, fault: self.fault, from, calls };
        let mut all = if self.claims_by_unheard_writes() {
            // The SDK tries again after each, and is told that another was faster.
            vec![injection(0, 1), injection(2, 1), injection(4, 1)]
        } else {
            vec![injection(0, calls)]
        };
        if self.exhausts()
            || matches!(self.site, FaultSite::Requeue | FaultSite::RequeueAttributes | FaultSite::Hide)
        {
            // Three calls are an attempt. After it the function does not try the target for up to 40 s.
            all.push(FaultInjection {
                site: FaultSite::Send,
                fault: FaultKind::Unavailable,
                from: 0,
                calls: 3,
            });
        }
        if self.fault == FaultKind::Freeze {
            // The letters come back, so that a wasted attempt shows in the number of the next.
            all.push(FaultInjection {
                site: FaultSite::Send,
                fault: FaultKind::Unavailable,
                from: 0,
                calls: 3,
            });
        }
        all
    }

    /// Reports whether what an instance has written is what it is then refused for.
    fn claims_by_unheard_writes(self) -> bool {
        self.site == FaultSite::RecoveriesWrite && self.fault == FaultKind::BreakAfter
    }

    fn listed_letters(self) -> usize {
        if self.claims_by_unheard_writes() { MANY_LISTED_LETTERS } else { LISTED_LETTERS }
    }

    /// Returns the number of calls about recoveries that meet the fault. After each that fails, an instance leaves the
    /// recoveries alone for a minute.
    fn calls_about_recoveries(self) -> usize {
        use FaultKind::{BreakAfter, BreakBefore, Throttle, Unavailable};
        // The SDK tries three times.
        let is_tried_again = matches!(self.fault, Throttle | Unavailable | BreakBefore | BreakAfter);
        match self.site {
            // That it is down, that it is back, and the claim; or the objects of a claim, which are read side by side.
            FaultSite::RecoveriesWrite | FaultSite::WaitingLines if is_tried_again => 8,
            _ if is_tried_again => 4,
            // What is lost of them is not woken, and some are to be left.
            FaultSite::WaitingLines | FaultSite::Wake => 1,
            _ => 3,
        }
    }

    /// Reports whether heads of groups use up their schedule before their archive fails. They come back then,
    /// and other letters must not overtake them meanwhile.
    fn exhausts(self) -> bool {
        self.site == FaultSite::Store && self.fifo
    }

    /// Returns letters that make the call.
    fn letters(self) -> Vec<(ProofLetterKind, usize)> {
        let aside = if self.fifo { ProofLetterKind::Aside } else { ProofLetterKind::Queue };
        match self.site {
            FaultSite::QueueAttributes => vec![(ProofLetterKind::Queue, 16), (ProofLetterKind::Moved, 8)],
            FaultSite::Requeue | FaultSite::RequeueAttributes => {
                vec![(aside, 18), (ProofLetterKind::Moved, 8), (ProofLetterKind::Raw, 6)]
            }
            FaultSite::Subscription if self.fifo => {
                vec![(ProofLetterKind::Queue, 12), (ProofLetterKind::Topic, 8), (ProofLetterKind::Raw, 8)]
            }
            FaultSite::Subscription => vec![
                (ProofLetterKind::Queue, 8),
                (ProofLetterKind::Web, 8),
                (ProofLetterKind::Stream, 8),
                (ProofLetterKind::Raw, 8),
            ],
            FaultSite::Subscriptions => vec![(ProofLetterKind::Discovered, 24)],
            FaultSite::Send => {
                vec![
                    (ProofLetterKind::Queue, 16),
                    (ProofLetterKind::Raw, 6),
                    (ProofLetterKind::Moved, 6),
                    (ProofLetterKind::Picky, 1),
                    (ProofLetterKind::Neighbour, 5),
                ]
            }
            FaultSite::Publish => vec![(ProofLetterKind::Topic, 24)],
            FaultSite::Invoke => vec![(ProofLetterKind::Function, 16), (ProofLetterKind::Destination, 6)],
            FaultSite::InvokeAndWait => vec![(ProofLetterKind::Plain, 20)],
            FaultSite::Post => vec![(ProofLetterKind::Web, 20)],
            FaultSite::Stream => vec![(ProofLetterKind::Stream, 24)],
            FaultSite::Hide => vec![(ProofLetterKind::Queue, 24)],
            FaultSite::Overrides => vec![(ProofLetterKind::Queue, 16), (ProofLetterKind::Topic, 8)],
            FaultSite::Wake
            | FaultSite::WaitingKeys
            | FaultSite::WaitingLines
            | FaultSite::Recoveries
            | FaultSite::RecoveriesWrite => {
                let behind_heads = if self.fifo { 2 } else { 1 };
                vec![(ProofLetterKind::Queue, behind_heads * self.listed_letters())]
            }
            FaultSite::OverrideTarget if self.fifo => {
                vec![(ProofLetterKind::Queue, 12), (ProofLetterKind::Raw, 8)]
            }
            FaultSite::OverrideTarget => {
                vec![(ProofLetterKind::Queue, 12), (ProofLetterKind::Raw, 8), (ProofLetterKind::Function, 4)]
            }
            FaultSite::Waiting => vec![(ProofLetterKind::Queue, 16)],
            FaultSite::Notice => {
                vec![(ProofLetterKind::Garbage, 8), (ProofLetterKind::Buried, 8), (ProofLetterKind::Queue, 8)]
            }
            FaultSite::Store if self.fifo => vec![(ProofLetterKind::Queue, 16)],
            FaultSite::ArchiveMessage | FaultSite::Store => {
                vec![
                    (ProofLetterKind::Garbage, 8),
                    (ProofLetterKind::Buried, 8),
                    (ProofLetterKind::Picky, 4),
                    (ProofLetterKind::Queue, 8),
                ]
            }
            FaultSite::Answer | FaultSite::Delete => {
                vec![
                    (ProofLetterKind::Queue, 12),
                    (ProofLetterKind::Buried, 6),
                    (ProofLetterKind::Function, 4),
                    (ProofLetterKind::Topic, 4),
                ]
            }
        }
    }
}
