//! The soak: many letters of all kinds pass through a standard and a FIFO dead-letter queue, each with a
//! requeue, under random faults.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fastrand::Rng;
use redrive_laws::letters::LettersVerdict;
use serde_json::json;

use super::faults::{FaultKind, FaultPlan, FaultSite, RandomFaults, TargetOutages};
use super::letters::ProofLetterKind;
use super::mapping;
use super::weighed;
use super::world::{ProofWorld, WorldConfig};

/// The most messages in flight that a queue allows, which the function knows. They are so few that letters
/// must move to the requeue.
const SOAK_IN_FLIGHT: usize = 1_200;

/// The most letters that wait in the queues while more come.
const MAX_WAITING_LETTERS: usize = 6_000;

/// The number of letters that come at the same time.
const LETTERS_AT_ONCE: usize = 500;

/// The longest time that the queues may take to drain without faults.
const MAX_DRAIN_TIME: Duration = Duration::from_mins(3);

/// The longest time of a soak, so that a function that does nothing does not prolong it for ever.
const MAX_SOAK_TIME: Duration = Duration::from_mins(40);

/// The interval between reports of progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(30);

/// The share of letters in the FIFO queue: one in so many.
const FIFO_SHARE: usize = 5;

const RETRIES: usize = 10;

/// The settings of a soak.
#[derive(Debug, Clone)]
pub struct SoakSettings {
    /// The function.
    pub binary: PathBuf,
    /// The number of letters.
    pub letters: usize,
    /// The seed of letters and faults.
    pub seed: u64,
    /// A file for the function's log.
    pub log: Option<PathBuf>,
}

/// The result of a soak.
#[derive(Debug)]
pub struct SoakResult {
    /// The verdicts on the letters of the standard queue, and of the FIFO queue.
    pub verdicts: [LettersVerdict; 2],
    /// The number of calls by name.
    pub calls: BTreeMap<String, usize>,
    /// The number of faults by kind.
    pub faults: BTreeMap<FaultKind, usize>,
    /// The number of faults by call.
    pub sites: BTreeMap<FaultSite, usize>,
    /// The number of invocations.
    pub runs: usize,
    /// The number of letters that were still in the queues at the end.
    pub left: usize,
    /// The time that it took.
    pub took: Duration,
}

/// Returns the kinds of letter with their weights.
fn kinds(fifo: bool) -> Vec<(ProofLetterKind, usize)> {
    let mut all = vec![
        (ProofLetterKind::Queue, 40),
        (ProofLetterKind::Raw, 12),
        (ProofLetterKind::Moved, 10),
        (ProofLetterKind::Topic, 12),
        (ProofLetterKind::Function, 3),
        (ProofLetterKind::Plain, 3),
        (ProofLetterKind::Destination, 2),
        (ProofLetterKind::Garbage, 3),
        (ProofLetterKind::Stranger, 2),
        (ProofLetterKind::Buried, 3),
        (ProofLetterKind::Picky, 1),
        (ProofLetterKind::Neighbour, 6),
    ];
    if fifo {
        all.push((ProofLetterKind::Aside, 25));
    } else {
        all.extend([(ProofLetterKind::Web, 3), (ProofLetterKind::Stream, 6), (ProofLetterKind::Broken, 3)]);
    }
    all
}

/// Returns the faults. A call that hangs costs ten seconds, and a kill costs the visibility timeout of a
/// whole batch.
fn weather() -> RandomFaults {
    let weights = vec![
        (FaultKind::Throttle, 20),
        (FaultKind::Unavailable, 20),
        (FaultKind::Denied, 20),
        (FaultKind::Permanent, 4),
        (FaultKind::Silent, 1),
        (FaultKind::Mute, 1),
        (FaultKind::BreakBefore, 14),
        (FaultKind::BreakAfter, 20),
        (FaultKind::Partial, 30),
        (FaultKind::PartialSender, 4),
        (FaultKind::KillBefore, 2),
        (FaultKind::KillAfter, 3),
    ];
    let outages = TargetOutages { every: Duration::from_secs(8), last: Duration::from_secs(4) };
    RandomFaults { once_in: 20, weights, outages }
}

impl SoakSettings {
    /// Runs the soak. Now and then it calls `tell` with the time, the number of letters still to come, and
    /// the number that wait.
    pub fn run(&self, tell: impl Fn(Duration, usize, usize)) -> SoakResult {
        let began = Instant::now();
        let mut told = began;
        let worlds = [self.world(false), self.world(true)];
        let pollers: Vec<JoinHandle<()>> = worlds.iter().flat_map(mapping::start).collect();
        let mut writers = [LetterWriter::new(self.seed, false), LetterWriter::new(self.seed, true)];
        let share = self.letters / FIFO_SHARE;
        let mut coming = [self.letters - share, share];
        let mut calm_since: Option<Instant> = None;
        loop {
            for (index, world) in worlds.iter().enumerate() {
                let room = if index == 0 { MAX_WAITING_LETTERS } else { MAX_WAITING_LETTERS / 4 };
                if world.waiting() < room {
                    let wave = coming[index].min(LETTERS_AT_ONCE);
                    (0..wave).for_each(|_| writers[index].write(world));
                    coming[index] -= wave;
                }
            }
            let waiting: usize = worlds.iter().map(|world| world.waiting()).sum();
            let rest = coming.iter().sum::<usize>();
            if told.elapsed() > REPORT_INTERVAL {
                told = Instant::now();
                tell(began.elapsed(), rest, waiting);
            }
            // The last letters arrive without faults: those of targets that fail now and then would wait for
            // long.
            if rest == 0 && calm_since.is_none() && waiting < (self.letters / 8).max(10) {
                for world in &worlds {
                    world.calm();
                }
                calm_since = Some(Instant::now());
            }
            let stuck = calm_since.is_some_and(|since| since.elapsed() > MAX_DRAIN_TIME)
                || began.elapsed() > MAX_SOAK_TIME;
            if (rest == 0 && waiting == 0) || stuck || worlds.iter().any(|world| world.is_over()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        for world in &worlds {
            world.end();
        }
        for poller in pollers {
            let _ = poller.join();
        }
        let [standard, fifo] = &worlds;
        let mut soaked = SoakResult {
            verdicts: [standard.judge(), fifo.judge()],
            calls: BTreeMap::new(),
            faults: BTreeMap::new(),
            sites: BTreeMap::new(),
            runs: worlds.iter().map(|world| world.runs()).sum(),
            left: worlds.iter().map(|world| world.waiting()).sum(),
            took: began.elapsed(),
        };
        for world in &worlds {
            for (name, count) in world.calls() {
                *soaked.calls.entry(name).or_default() += count;
            }
            for ((site, fault), count) in world.faults() {
                *soaked.faults.entry(fault).or_default() += count;
                *soaked.sites.entry(site).or_default() += count;
            }
        }
        soaked
    }

    fn world(&self, fifo: bool) -> Arc<ProofWorld> {
        let config = WorldConfig {
            binary: self.binary.clone(),
            fifo,
            schedule: json!({ "numRetries": RETRIES, "numNoDelayRetries": 1, "minDelayTarget": 1, "maxDelayTarget": 3,
                "backoffFunction": "linear" }),
            retries: RETRIES,
            archive_queue: false,
            discovery: false,
            in_flight: (self.letters / 25).clamp(40, SOAK_IN_FLIGHT),
            timeout: Duration::from_secs(8),
            visibility: Duration::from_secs(if fifo { 9 } else { 10 }),
            pollers: if fifo { vec![10; 5] } else { vec![10, 100, 100, 1_000] },
            requeue_pollers: if fifo { vec![10; 2] } else { vec![10, 100, 1_000] },
            panics: false,
            holds: false,
            passes: false,
            sleeps: Vec::new(),
            notices: false,
            longest: None,
            log: self.log.clone(),
        };
        let seed = if fifo { self.seed ^ 1 } else { self.seed };
        ProofWorld::new(config, FaultPlan::random(weather(), seed, fifo), seed)
    }
}

/// A writer of letters of all kinds.
struct LetterWriter {
    rng: Rng,
    kinds: Vec<(ProofLetterKind, usize)>,
    fifo: bool,
}

impl LetterWriter {
    fn new(seed: u64, fifo: bool) -> Self {
        Self { rng: Rng::with_seed(seed.wrapping_add(u64::from(fifo))), kinds: kinds(fifo), fifo }
    }

    fn write(&mut self, world: &ProofWorld) {
        let kind = weighed(&mut self.rng, &self.kinds).unwrap_or(ProofLetterKind::Queue);
        let group = self.fifo.then(|| match kind {
            ProofLetterKind::Aside => format!("aside-{}", self.rng.u8(..40)),
            _ => format!("group-{}", self.rng.u8(..200)),
        });
        world.write(kind, group);
    }
}

impl SoakResult {
    /// Returns the verdict on both queues together.
    #[must_use]
    pub fn verdict(&self) -> LettersVerdict {
        let [standard, fifo] = self.verdicts.clone();
        standard.and(fifo)
    }

    /// Reports whether every promise was kept.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.left == 0 && self.verdicts.iter().all(LettersVerdict::is_good)
    }

    /// Returns the tables, in Markdown.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let [standard, fifo] = &self.verdicts;
        let all = self.verdict();
        let _ = writeln!(text, "| letters | standard | FIFO | together |\n|---|---:|---:|---:|");
        let mut row = |name: &str, of: fn(&LettersVerdict) -> usize| {
            let _ = writeln!(text, "| {name} | {} | {} | {} |", of(standard), of(fifo), of(&all));
        };
        row("all", |it| it.letters);
        row("delivered", |it| it.delivered);
        row("archived", |it| it.archived);
        row("still queued", |it| it.queued);
        row("**lost**", |it| it.lost);
        row("moved to the requeue at least once", |it| it.moved);
        row("duplicates, explained", |it| it.duplicates - it.unexplained);
        row("**duplicates, unexplained**", |it| it.unexplained);
        row("repetitions recognised as such", |it| it.swallowed);
        row("**order violations**", |it| it.disorders);
        row("**other violations**", |it| it.violations.len() - it.lost - it.unexplained - it.disorders);
        let _ =
            writeln!(text, "\n| a duplicate, because | standard | FIFO | together |\n|---|---:|---:|---:|");
        for (cause, count) in &all.causes {
            let of = |it: &LettersVerdict| it.causes.get(cause).copied().unwrap_or_default();
            let _ = writeln!(text, "| {} | {} | {} | {count} |", cause.name(), of(standard), of(fifo));
        }
        let _ = writeln!(text, "\n| call | calls | of these with a fault |\n|---|---:|---:|");
        for (name, calls) in &self.calls {
            let faults: usize =
                self.sites.iter().filter(|(site, _)| site.name() == name).map(|(_, count)| count).sum();
            let _ = writeln!(text, "| {name} | {calls} | {faults} |");
        }
        let _ = writeln!(text, "\n| fault | times |\n|---|---:|");
        for (fault, count) in &self.faults {
            let _ = writeln!(text, "| {} | {count} |", fault.name());
        }
        let _ = writeln!(text, "\n{} invocations, {:.0} s.", self.runs, self.took.as_secs_f64());
        text
    }
}
