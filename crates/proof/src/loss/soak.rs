//! The soak: many letters of all kinds pass through a standard and a FIFO dead-letter queue, each with a
//! requeue, under random faults.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fastrand::Rng;
use redrive_laws::letters::Verdict;
use serde_json::json;

use super::faults::{Fault, Outages, Plan, Site, Weather};
use super::letters::Kind;
use super::mapping;
use super::weighed;
use super::world::{Config, World};

/// The most messages in flight that a queue allows, which the function knows. They are so few that letters
/// must move to the requeue.
const IN_FLIGHT: usize = 1_200;

/// The most letters that wait in the queues while more come.
const CROWD: usize = 6_000;

/// The number of letters that come at the same time.
const WAVE: usize = 500;

/// The longest time that the queues may take to drain without faults.
const PATIENCE: Duration = Duration::from_mins(3);

/// The longest time of a soak, so that a function that does nothing does not prolong it for ever.
const LONGEST: Duration = Duration::from_mins(40);

/// The interval between reports of progress.
const TELL: Duration = Duration::from_secs(30);

/// The share of letters in the FIFO queue: one in so many.
const FIFO_SHARE: usize = 5;

const RETRIES: usize = 10;

/// The settings of a soak.
#[derive(Debug, Clone)]
pub struct Soak {
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
pub struct Soaked {
    /// The verdicts on the letters of the standard queue, and of the FIFO queue.
    pub verdicts: [Verdict; 2],
    /// The number of calls by name.
    pub calls: BTreeMap<String, usize>,
    /// The number of faults by kind.
    pub faults: BTreeMap<Fault, usize>,
    /// The number of faults by call.
    pub sites: BTreeMap<Site, usize>,
    /// The number of invocations.
    pub runs: usize,
    /// The number of letters that were still in the queues at the end.
    pub left: usize,
    /// The time that it took.
    pub took: Duration,
}

/// Returns the kinds of letter with their weights.
fn kinds(fifo: bool) -> Vec<(Kind, usize)> {
    let mut all = vec![
        (Kind::Queue, 40),
        (Kind::Raw, 12),
        (Kind::Moved, 10),
        (Kind::Topic, 12),
        (Kind::Function, 3),
        (Kind::Plain, 3),
        (Kind::Destination, 2),
        (Kind::Garbage, 3),
        (Kind::Stranger, 2),
        (Kind::Buried, 3),
        (Kind::Picky, 1),
        (Kind::Neighbour, 6),
    ];
    if fifo {
        all.push((Kind::Aside, 25));
    } else {
        all.extend([(Kind::Web, 3), (Kind::Stream, 6), (Kind::Broken, 3)]);
    }
    all
}

/// Returns the faults. A call that hangs costs ten seconds, and a kill costs the visibility timeout of a
/// whole batch.
fn weather() -> Weather {
    let weights = vec![
        (Fault::Throttle, 20),
        (Fault::Unavailable, 20),
        (Fault::Denied, 20),
        (Fault::Permanent, 4),
        (Fault::Silent, 1),
        (Fault::Mute, 1),
        (Fault::BreakBefore, 14),
        (Fault::BreakAfter, 20),
        (Fault::Partial, 30),
        (Fault::PartialSender, 4),
        (Fault::KillBefore, 2),
        (Fault::KillAfter, 3),
    ];
    let outages = Outages { every: Duration::from_secs(8), last: Duration::from_secs(4) };
    Weather { once_in: 20, weights, outages }
}

impl Soak {
    /// Runs the soak. Now and then it calls `tell` with the time, the number of letters still to come, and
    /// the number that wait.
    pub fn run(&self, tell: impl Fn(Duration, usize, usize)) -> Soaked {
        let began = Instant::now();
        let mut told = began;
        let worlds = [self.world(false), self.world(true)];
        let pollers: Vec<JoinHandle<()>> = worlds.iter().flat_map(mapping::start).collect();
        let mut writers = [Writer::new(self.seed, false), Writer::new(self.seed, true)];
        let share = self.letters / FIFO_SHARE;
        let mut coming = [self.letters - share, share];
        let mut calm_since: Option<Instant> = None;
        loop {
            for (index, world) in worlds.iter().enumerate() {
                let room = if index == 0 { CROWD } else { CROWD / 4 };
                if world.waiting() < room {
                    let wave = coming[index].min(WAVE);
                    (0..wave).for_each(|_| writers[index].write(world));
                    coming[index] -= wave;
                }
            }
            let waiting: usize = worlds.iter().map(|world| world.waiting()).sum();
            let rest = coming.iter().sum::<usize>();
            if told.elapsed() > TELL {
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
            let stuck =
                calm_since.is_some_and(|since| since.elapsed() > PATIENCE) || began.elapsed() > LONGEST;
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
        let mut soaked = Soaked {
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

    fn world(&self, fifo: bool) -> Arc<World> {
        let config = Config {
            binary: self.binary.clone(),
            fifo,
            schedule: json!({ "numRetries": RETRIES, "numNoDelayRetries": 1, "minDelayTarget": 1, "maxDelayTarget": 3,
                "backoffFunction": "linear" }),
            retries: RETRIES,
            archive_queue: false,
            discovery: false,
            in_flight: (self.letters / 25).clamp(40, IN_FLIGHT),
            timeout: Duration::from_secs(8),
            visibility: Duration::from_secs(if fifo { 9 } else { 10 }),
            pollers: if fifo { vec![10; 5] } else { vec![10, 100, 100, 1_000] },
            requeue_pollers: if fifo { vec![10; 2] } else { vec![10, 100, 1_000] },
            panics: false,
            sleeps: Vec::new(),
            notices: false,
            longest: None,
            log: self.log.clone(),
        };
        let seed = if fifo { self.seed ^ 1 } else { self.seed };
        World::new(config, Plan::random(weather(), seed, fifo), seed)
    }
}

/// A writer of letters of all kinds.
struct Writer {
    rng: Rng,
    kinds: Vec<(Kind, usize)>,
    fifo: bool,
}

impl Writer {
    fn new(seed: u64, fifo: bool) -> Self {
        Self { rng: Rng::with_seed(seed.wrapping_add(u64::from(fifo))), kinds: kinds(fifo), fifo }
    }

    fn write(&mut self, world: &World) {
        let kind = weighed(&mut self.rng, &self.kinds).unwrap_or(Kind::Queue);
        let group = self.fifo.then(|| match kind {
            Kind::Aside => format!("aside-{}", self.rng.u8(..40)),
            _ => format!("group-{}", self.rng.u8(..200)),
        });
        world.write(kind, group);
    }
}

impl Soaked {
    /// Returns the verdict on both queues together.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let [standard, fifo] = self.verdicts.clone();
        standard.and(fifo)
    }

    /// Reports whether every promise was kept.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.left == 0 && self.verdicts.iter().all(Verdict::is_good)
    }

    /// Returns the tables, in Markdown.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let [standard, fifo] = &self.verdicts;
        let all = self.verdict();
        let _ = writeln!(text, "| letters | standard | FIFO | together |\n|---|---:|---:|---:|");
        let mut row = |name: &str, of: fn(&Verdict) -> usize| {
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
            let of = |it: &Verdict| it.causes.get(cause).copied().unwrap_or_default();
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
