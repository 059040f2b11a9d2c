//! The worlds of a seed: any world, and special kinds.

use fastrand::Rng;
use redrive_core::policy::{Backoff, Jitter, OverrideAction, Schedule, VISIBILITY_CEILING};
use redrive_sim::SimMillis;

use crate::hook::REFUSAL_CODES;
use crate::world::{
    ArchiveKind, HOUR, MINUTE, OldHandles, SECOND, SeededDocument, SeededFault, SeededFaultRates,
    SeededMapping, SeededMessage, SeededOperator, SeededOutage, SeededOverride, SeededQueue, SeededRefusal,
    SeededSource, SeededSubscriber, SeededSubscriberKind, SeededSubscriberState, SeededTarget, SeededWorld,
    expiry_margin,
};

impl SeededWorld {
    /// Returns the world of a seed.
    #[expect(clippy::too_many_lines, reason = "one draw for each property of a world")]
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let rng = &mut rng;
        let fifo = rng.u8(..10) < 3;
        let target = if !fifo && rng.u8(..10) == 0 { SeededTarget::Topic } else { SeededTarget::Origin };
        let schedule = schedule(rng);
        let retention = match rng.u8(..8) {
            0 => rng.u64(300..1_800),
            1 | 2 => rng.u64(1_800..86_400),
            3 => 345_600,
            _ => rng.u64(86_400..=1_209_600),
        };
        let margin = expiry_margin(retention);
        let timeout = *pick(rng, &[20, 30, 60]);
        let window = if fifo || rng.bool() { 0 } else { rng.u64(0..=(margin / 10).min(300)) };
        let skew = |rng: &mut Rng| {
            let most = SimMillis::try_from(margin * 100).unwrap().min(5 * SECOND);
            rng.i64(-most..=most)
        };
        let calm = rng.u8(..3) == 0;
        let skews = if calm { vec![0] } else { (0..3).map(|_| skew(rng)).collect() };
        let mapping = SeededMapping {
            batch: *pick(rng, if fifo { &[1, 3, 10] } else { &[1, 5, 10, 10] }),
            window,
            concurrency: *pick(rng, &[1, 2, 5]),
            timeout,
            skews,
            set_right: (Rng::with_seed(seed ^ 0xc10c).u8(..3) == 0)
                .then(|| Rng::with_seed(seed ^ 0xc10d).i64(0..=6 * HOUR)),
            freezes: !seed.is_multiple_of(3),
            off: if calm || rng.bool() { vec![] } else { vec![span(rng, 6 * HOUR, 12 * HOUR)] },
            is_disabled: Rng::with_seed(seed ^ 0x0ff).bool(),
        };
        let requeue = (!fifo && rng.u8(..4) == 0).then(|| *pick(rng, &[10, 12, 120_000]));
        let queue = SeededQueue {
            retention,
            visibility: (timeout + window) * *pick(rng, &[1, 1, 6]) + u64::from(rng.bool()),
            whole_group: rng.bool(),
            duplicates: if calm { 0 } else { *pick(rng, &[0, 0, 300, 2_000]) },
            lag: *pick(rng, &[0, MINUTE]),
            old_handles: old_handles(&mut Rng::with_seed(seed ^ 0x01d)),
        };
        let subscribers = match target {
            SeededTarget::Topic => vec![subscriber(rng, fifo, true)],
            // Two subscriptions that share a FIFO queue would send it one message with one deduplication id.
            SeededTarget::Origin => {
                (0..rng.usize(1..=if fifo { 1 } else { 2 })).map(|_| subscriber(rng, fifo, false)).collect()
            }
        };
        let spread = *pick(rng, &[0, MINUTE, HOUR]);
        let groups = rng.u32(1..=2);
        let mut letters: Vec<_> = (0..rng.usize(1..=6))
            .map(|_| SeededMessage { at: rng.i64(0..=spread), group: rng.u32(..groups) })
            .collect();
        letters.sort_by_key(|plan| plan.at);
        let percent = |rng: &mut Rng, most: u8| if calm || rng.bool() { 0 } else { rng.u8(0..=most) };
        let trouble = SeededFaultRates {
            throttled: percent(rng, 40),
            cut: percent(rng, 8),
            hide_fails: percent(rng, 20),
            delete_fails: percent(rng, 20),
            lost: percent(rng, 15),
            slow: percent(rng, 20),
            archive_fails: percent(rng, 40),
            reads_fail: if retention == 345_600 { percent(rng, 30) } else { 0 },
            unread_until: 0,
            lookups_hang: if rng.u8(..4) == 0 { percent(rng, 60) } else { 0 },
        };
        let mut world = Self {
            seed,
            fifo,
            fifo_topic: false,
            source: SeededSource::Topic,
            target,
            jitter: *pick(rng, &[0.0, 0.0, 0.1, 1.0]),
            rate: (rng.u8(..8) == 0).then(|| rng.u32(1..=3)),
            ceiling: if rng.u8(..4) == 0 { rng.u64(600..4_000) } else { VISIBILITY_CEILING },
            archive: if rng.u8(..3) == 0 { ArchiveKind::Queue } else { ArchiveKind::Bucket },
            archive_weather: if calm { vec![] } else { archive_weather(rng, &schedule, retention) },
            schedule,
            queue,
            mapping,
            requeue,
            steps_aside: false,
            subscribers,
            discovers: false,
            letters,
            bad: vec![],
            refusal: SeededRefusal { whole: false, form: 0 },
            trouble,
            operator: SeededOperator::default(),
            cut_at: None,
        };
        world.operator = operator(&mut Rng::with_seed(seed ^ 0x0de5), world.letters.len());
        world.serve(&mut Rng::with_seed(seed ^ 0x5e4e));
        world.step_aside(&mut Rng::with_seed(seed ^ 0x51de));
        if !calm {
            world.keep_queues_silent(&mut Rng::with_seed(seed ^ 0x7ead));
        }
        if world.forks() {
            world.fork_less();
        }
        if target == SeededTarget::Origin && world.subscribers.len() == 1 && rng.u8(..5) == 0 {
            world.subscribers[0].raw = true;
            world.discovers = seed.is_multiple_of(2);
        }
        world.come_from_elsewhere(&mut Rng::with_seed(seed ^ 0xe15e));
        if rng.u8(..8) == 0 {
            world.come_to_the_brink(rng);
        }
        world.spoil(&mut Rng::with_seed(seed ^ 0x0bad));
        world.publish_in_order(&mut Rng::with_seed(seed ^ 0xf1f0));
        world
    }

    /// Lets the queues of some worlds tell nothing at first. No letter comes near its end meanwhile.
    fn keep_queues_silent(&mut self, rng: &mut Rng) {
        if self.queue.retention >= 86_400 && rng.u8(..3) == 0 {
            let most = *pick(rng, &[MINUTE, 20 * MINUTE, 6 * HOUR]);
            self.trouble.unread_until = rng.i64(0..=most);
        }
    }

    /// Returns a small world whose function is off for five days and whose queue, which keeps letters for two
    /// weeks, then tells nothing for a while. The letters of some are held all the time.
    pub fn silent(seed: u64) -> Self {
        let mut world = Self::small(seed);
        let rng = &mut Rng::with_seed(seed ^ 0x51e7);
        let days = 120 * HOUR;
        world.queue.retention = 1_209_600;
        (world.mapping.off, world.mapping.is_disabled) = (vec![(0, days)], true);
        world.subscribers[0].state = SeededSubscriberState::Confirmed;
        let is_held = seed.is_multiple_of(2);
        let most = if is_held { HOUR } else { 9 * MINUTE };
        world.trouble.unread_until = days + rng.i64(MINUTE..most);
        if is_held {
            let override_ =
                SeededOverride { action: OverrideAction::Hold, letter: None, lasts: Some(days + 2 * HOUR) };
            world.operator.writes = vec![(0, SeededDocument::Override(override_))];
        }
        world
    }

    /// Spoils the content of some letters.
    fn spoil(&mut self, rng: &mut Rng) {
        if rng.u8(..4) == 0 {
            self.bad = (0..self.letters.len()).filter(|_| rng.u8(..3) == 0).collect();
            self.refusal = SeededRefusal { whole: rng.bool(), form: rng.usize(..REFUSAL_CODES) };
        }
    }

    /// Makes the topic of some worlds FIFO, whose queues are not.
    fn publish_in_order(&mut self, rng: &mut Rng) {
        let are_queues = self.subscribers.iter().all(|one| one.kind == SeededSubscriberKind::Queue);
        self.fifo_topic = rng.u8(..4) == 0 && !self.fifo && self.source == SeededSource::Topic && are_queues;
    }

    /// Gives some FIFO queues a requeue, which failing heads step aside to or only replays use.
    fn step_aside(&mut self, rng: &mut Rng) {
        if self.fifo && rng.u8(..3) == 0 {
            (self.requeue, self.steps_aside) = (Some(120_000), rng.u8(..3) > 0);
        }
    }

    /// Lets the letters of some worlds come from a queue or a function in place of SNS.
    fn come_from_elsewhere(&mut self, rng: &mut Rng) {
        if self.target == SeededTarget::Topic || rng.u8(..4) > 0 {
            return;
        }
        self.source = if self.fifo {
            SeededSource::Queue
        } else {
            *pick(rng, &[SeededSource::Queue, SeededSource::Function, SeededSource::Destination])
        };
        self.discovers = false;
        self.subscribers.truncate(1);
        let kind = if self.source == SeededSource::Queue {
            SeededSubscriberKind::Queue
        } else {
            SeededSubscriberKind::Function
        };
        let one = &mut self.subscribers[0];
        (one.kind, one.raw, one.retry_after, one.state) =
            (kind, false, None, SeededSubscriberState::Confirmed);
    }

    /// Makes web servers of some subscribers.
    fn serve(&mut self, rng: &mut Rng) {
        // A FIFO topic has none.
        for one in self.subscribers.iter_mut().filter(|_| !self.fifo) {
            if rng.u8(..4) > 0 {
                continue;
            }
            one.kind = SeededSubscriberKind::Server;
            one.retry_after = *pick(rng, &[None, Some(0), Some(40), Some(3_000), Some(100_000)]);
            // One that throttles says when to come again.
            for outage in one.weather.iter_mut().filter(|_| rng.bool()) {
                outage.how = SeededFault::Throttled;
            }
        }
    }

    /// Makes the archive come back in the middle of a last margin that is shorter than an invocation may be.
    fn come_to_the_brink(&mut self, rng: &mut Rng) {
        self.queue.retention = rng.u64(620..1_600);
        self.queue.duplicates = 0;
        (self.mapping.timeout, self.mapping.window) = (60, 0);
        self.mapping.skews = vec![0];
        self.mapping.off.clear();
        self.queue.visibility = *pick(rng, &[60, 360]);
        (self.requeue, self.steps_aside, self.rate) = (None, false, None);
        self.trouble =
            SeededFaultRates { lookups_hang: *pick(rng, &[0, 0, 100]), ..SeededFaultRates::default() };
        // A group comes as a whole, so that all letters behind its head reach their end with it.
        self.mapping.batch = self.mapping.batch.max(5);
        self.letters.iter_mut().for_each(|plan| *plan = SeededMessage { at: 0, group: 0 });
        let how = *pick(
            rng,
            &[SeededFault::Down, SeededFault::Refused, SeededFault::Throttled, SeededFault::Denied],
        );
        self.archive_weather = vec![SeededOutage { from: 0, to: self.retention() - self.margin() / 2, how }];
        let to = 2 * self.retention();
        for one in &mut self.subscribers {
            one.weather = vec![SeededOutage { from: 0, to, how: SeededFault::Down }];
        }
    }

    /// Reduces events that send a letter twice. If each copy fails and comes back, there are soon too many.
    fn fork_less(&mut self) {
        self.letters.truncate(3);
        self.queue.duplicates = 0;
        let SeededFaultRates { cut, lost, delete_fails, .. } = &mut self.trouble;
        for percent in [cut, lost, delete_fails] {
            *percent = (*percent).min(2);
        }
        if self.target == SeededTarget::Topic {
            let all = self.subscribers.iter_mut().flat_map(|one| &mut one.weather);
            all.filter(|outage| outage.how == SeededFault::Mute)
                .for_each(|outage| outage.how = SeededFault::Down);
        }
    }

    /// Returns a world with few calls, for a death at each of them.
    pub fn small(seed: u64) -> Self {
        let mut world = Self::of(seed);
        let rng = &mut Rng::with_seed(seed ^ 0x5eed);
        world.schedule = Schedule {
            min: rng.u32(1..=30),
            max: 60,
            retries: rng.u32(1..=2),
            no_delay: 0,
            min_delay: 0,
            max_delay: 0,
            backoff: Backoff::Linear,
        };
        world.queue.retention = world.queue.retention.max(86_400);
        world.letters.truncate(2);
        world.subscribers.truncate(1);
        world.trouble = SeededFaultRates::default();
        world.mapping.off.clear();
        world.queue.duplicates = 0;
        world.archive_weather.clear();
        world.rate = None;
        world.operator = SeededOperator::default();
        world.bad.clear();
        world.fifo_topic = false;
        world
    }

    /// Returns a world in which letters with bad content come among others, alone or in one batch. The kinds of
    /// targets and of refusals take turns with the seeds.
    pub fn bad(seed: u64) -> Self {
        let mut world = Self::small(seed);
        let rng = &mut Rng::with_seed(seed ^ 0x5b0d);
        let turn = usize::try_from(seed).unwrap();
        let (fifo, fifo_topic, target, kind) = [
            (false, false, SeededTarget::Origin, SeededSubscriberKind::Queue),
            (true, false, SeededTarget::Origin, SeededSubscriberKind::Queue),
            (false, true, SeededTarget::Origin, SeededSubscriberKind::Queue),
            (false, false, SeededTarget::Topic, SeededSubscriberKind::Queue),
            (false, true, SeededTarget::Topic, SeededSubscriberKind::Queue),
            (false, false, SeededTarget::Origin, SeededSubscriberKind::Stream),
            (false, false, SeededTarget::Origin, SeededSubscriberKind::Function),
            (false, false, SeededTarget::Origin, SeededSubscriberKind::Server),
        ][turn % 8];
        (world.fifo, world.fifo_topic, world.target, world.source) =
            (fifo, fifo_topic, target, SeededSource::Topic);
        (world.requeue, world.steps_aside, world.discovers) = (None, false, false);
        world.subscribers = vec![SeededSubscriber {
            kind,
            raw: false,
            retry_after: None,
            state: SeededSubscriberState::Confirmed,
            weather: vec![],
        }];
        world.letters = (0..10).map(|letter| SeededMessage { at: 0, group: letter }).collect();
        world.bad = (0..10).filter(|_| rng.u8(..3) == 0).collect();
        world.refusal =
            SeededRefusal { whole: (turn / 8).is_multiple_of(2), form: turn / 16 % REFUSAL_CODES };
        (world.mapping.batch, world.mapping.window, world.mapping.timeout) = (10, 0, 60);
        // What its archive refuses too comes back until its end.
        (world.queue.visibility, world.queue.retention) = (360, 86_400);
        world
    }

    /// Returns a world in which an archive in SQS, or the requeue, refuses the content of some letters, alone or with
    /// their whole request. The kinds take turns with the seeds.
    pub fn bad_on_the_way(seed: u64) -> Self {
        let turn = usize::try_from(seed).unwrap();
        let mut world = if seed.is_multiple_of(2) { Self::bad(0) } else { Self::moved(seed) };
        if seed.is_multiple_of(2) {
            world.archive = ArchiveKind::Queue;
            world.subscribers[0].state = SeededSubscriberState::Elsewhere;
        }
        world.queue.retention = 14_400;
        world.operator = SeededOperator::default();
        world.bad = vec![1, 4];
        world.refusal = SeededRefusal { whole: (turn / 2).is_multiple_of(2), form: turn / 4 % REFUSAL_CODES };
        world
    }

    /// Returns a small world whose letters move into the requeue, while an operator gives an override and wakes
    /// them. The kinds of overrides take turns with the seeds.
    pub fn moved(seed: u64) -> Self {
        let mut world = Self::small(seed);
        let rng = &mut Rng::with_seed(seed ^ 0x303e);
        (world.fifo, world.steps_aside, world.target) = (false, false, SeededTarget::Origin);
        // A batch has more letters than may be in flight, and SQS says so at once.
        (world.requeue, world.mapping.batch, world.queue.lag) = (Some(10), 10, 0);
        world.letters = vec![SeededMessage { at: 0, group: 0 }; 8];
        world.subscribers[0].state = SeededSubscriberState::Confirmed;
        world.subscribers[0].weather = vec![SeededOutage { from: 0, to: HOUR, how: SeededFault::Down }];
        let action = OverrideAction::ALL[usize::try_from(seed % 3).unwrap()];
        let (at, lasts) = (rng.i64(0..2 * MINUTE), Some(rng.i64(10 * MINUTE..HOUR)));
        let override_ = SeededDocument::Override(SeededOverride { action, letter: None, lasts });
        let wakes = (0..2).map(|_| rng.i64(at..at + 10 * MINUTE)).collect();
        world.operator = SeededOperator { writes: vec![(at, override_)], wakes, only_retries: false };
        world
    }

    /// Returns a small world whose letters have their last attempt shortly before the margin of their end, in
    /// a queue that would hide them for longer than that.
    pub fn late(seed: u64) -> Self {
        let mut world = Self::small(seed);
        let rng = &mut Rng::with_seed(seed ^ 0x1a7e);
        world.queue.retention = rng.u64(14_400..86_400);
        let margin = expiry_margin(world.queue.retention);
        world.queue.visibility = 2 * margin;
        (world.mapping.timeout, world.mapping.window) = (20, 0);
        world.mapping.skews = vec![0];
        let wait = u32::try_from(world.queue.retention - margin - rng.u64(5..60)).unwrap();
        world.schedule = Schedule { min: wait, max: wait, retries: 2, ..world.schedule };
        (world.requeue, world.steps_aside) = (None, false);
        (world.jitter, world.ceiling) = (0.0, VISIBILITY_CEILING);
        for one in &mut world.subscribers {
            one.weather = vec![SeededOutage { from: 0, to: SimMillis::MAX, how: SeededFault::Down }];
        }
        world
    }

    /// Returns a world whose group has its last attempts shortly before the margin of its end, at an endpoint
    /// so slow that a run has time for two letters of ten.
    pub fn slow(seed: u64) -> Self {
        let mut world = Self::late(seed);
        world.fifo = true;
        (world.source, world.target, world.rate) = (SeededSource::Topic, SeededTarget::Origin, None);
        world.mapping.batch = 10;
        world.letters = vec![SeededMessage { at: 0, group: 0 }; 10];
        let end = world.retention();
        let weather = vec![
            SeededOutage { from: 0, to: end / 2, how: SeededFault::Down },
            SeededOutage { from: end / 2, to: SimMillis::MAX, how: SeededFault::Slow },
        ];
        world.subscribers = vec![SeededSubscriber {
            kind: SeededSubscriberKind::Queue,
            raw: false,
            retry_after: None,
            state: SeededSubscriberState::Confirmed,
            weather,
        }];
        let margin = expiry_margin(world.queue.retention);
        let wait = u32::try_from(world.queue.retention - margin - seed % 20).unwrap();
        world.schedule = Schedule { min: wait, max: wait, ..world.schedule };
        world
    }

    /// Returns a world whose letters come to a run just within the margin of their end, and are more than the
    /// run can begin at their slow endpoint.
    pub fn crowded(seed: u64) -> Self {
        let mut world = Self::slow(seed);
        world.fifo = false;
        world.subscribers[0].kind = SeededSubscriberKind::Function;
        world.letters = vec![SeededMessage { at: 0, group: 0 }; 60];
        // They are received before the margin begins, and delivered to the function when the window ends.
        (world.mapping.batch, world.mapping.window, world.mapping.concurrency) = (100, 5, 1);
        let wait = world.queue.retention - expiry_margin(world.queue.retention) - 1 - seed % 3;
        let wait = u32::try_from(wait).unwrap();
        world.schedule = Schedule { min: wait, max: wait, ..world.schedule };
        world
    }

    /// Returns a world in which one run has more letters for a slow endpoint than it can begin in half a
    /// minute, and an operator holds them in that time.
    pub fn held(seed: u64) -> Self {
        let mut world = Self::crowded(seed);
        let rng = &mut Rng::with_seed(seed ^ 0x4e1d);
        (world.mapping.timeout, world.mapping.window) = (60, 1);
        world.queue = SeededQueue { retention: 86_400, visibility: 366, ..world.queue };
        world.schedule = Schedule { min: 1, max: 1, ..world.schedule };
        world.letters = vec![SeededMessage { at: 0, group: 0 }; 100];
        world.subscribers[0].weather =
            vec![SeededOutage { from: 0, to: SimMillis::MAX, how: SeededFault::Slow }];
        let action = *pick(rng, &[OverrideAction::Hold, OverrideAction::Hold, OverrideAction::GiveUp]);
        let (at, lasts) = (rng.i64(2 * SECOND..25 * SECOND), Some(rng.i64(40 * SECOND..HOUR)));
        let override_ = SeededDocument::Override(SeededOverride { action, letter: None, lasts });
        world.operator = SeededOperator { writes: vec![(at, override_)], ..SeededOperator::default() };
        world
    }
}

fn old_handles(rng: &mut Rng) -> OldHandles {
    OldHandles { show: rng.u8(..4) > 0, hide: rng.u8(..4) == 0, delete: rng.u8(..4) == 0 }
}

fn pick<'a, T>(rng: &mut Rng, all: &'a [T]) -> &'a T {
    &all[rng.usize(..all.len())]
}

fn span(rng: &mut Rng, begin: SimMillis, length: SimMillis) -> (SimMillis, SimMillis) {
    let from = rng.i64(0..begin);
    (from, from + rng.i64(SECOND..length))
}

/// Adds wakes shortly after others: the letters of the first are being handled then.
fn woken_again(rng: &mut Rng, wakes: Vec<SimMillis>) -> Vec<SimMillis> {
    wakes.into_iter().flat_map(|at| [at, at + rng.i64(100..4 * SECOND)]).collect()
}

/// Returns the operator: two of three worlds have one who gives overrides.
fn operator(rng: &mut Rng, letters: usize) -> SeededOperator {
    let horizon = *pick(rng, &[2 * MINUTE, HOUR, 24 * HOUR]);
    let override_ = |rng: &mut Rng, action| {
        let letter = rng.bool().then(|| rng.usize(..letters));
        SeededOverride { action, letter, lasts: Some(rng.i64(MINUTE..2 * horizon)) }
    };
    match rng.u8(..3) {
        0 => SeededOperator::default(),
        1 => {
            let (at, override_) = (rng.i64(0..horizon), override_(rng, OverrideAction::Retry));
            let override_ = SeededOverride { letter: None, ..override_ };
            let (from, to) = (at + 20 * SECOND, at + override_.lasts.unwrap_or_default() - 5 * SECOND);
            let wakes = (0..rng.usize(..4)).map(|_| rng.i64(from..to)).collect();
            let wakes = woken_again(rng, wakes);
            SeededOperator {
                writes: vec![(at, SeededDocument::Override(override_))],
                wakes,
                only_retries: true,
            }
        }
        _ => {
            let mut writes: Vec<_> = (0..rng.usize(1..=4))
                .map(|_| {
                    let document = match rng.u8(..10) {
                        0..4 => SeededDocument::Override(override_(rng, OverrideAction::Hold)),
                        4 | 5 => SeededDocument::Override(override_(rng, OverrideAction::Retry)),
                        6 => SeededDocument::Override(override_(rng, OverrideAction::GiveUp)),
                        7 => SeededDocument::Broken,
                        _ => SeededDocument::Empty,
                    };
                    (rng.i64(0..horizon), document)
                })
                .collect();
            writes.sort_by_key(|(at, _)| *at);
            let wakes = (0..rng.usize(..3)).map(|_| rng.i64(0..horizon)).collect();
            let wakes = woken_again(rng, wakes);
            SeededOperator { writes, wakes, only_retries: false }
        }
    }
}

fn schedule(rng: &mut Rng) -> Schedule {
    let (min, more) = match rng.u8(..4) {
        0 => (rng.u32(1..=5), rng.u32(0..=20)),
        1 | 2 => (rng.u32(1..=600), rng.u32(0..=7_200)),
        _ => (rng.u32(3_600..=50_000), rng.u32(0..=40_000)),
    };
    let (no_delay, min_delay, max_delay) = (rng.u32(0..=2), rng.u32(0..=1), rng.u32(0..=1));
    let retries = (no_delay + min_delay + max_delay + rng.u32(0..=3)).max(1);
    let backoff = *pick(rng, &Backoff::ALL);
    Schedule { min, max: min + more, retries, no_delay, min_delay, max_delay, backoff }
}

fn subscriber(rng: &mut Rng, fifo: bool, topic: bool) -> SeededSubscriber {
    let kind = if fifo {
        SeededSubscriberKind::Queue
    } else {
        *pick(
            rng,
            &[
                SeededSubscriberKind::Queue,
                SeededSubscriberKind::Queue,
                SeededSubscriberKind::Function,
                SeededSubscriberKind::Stream,
            ],
        )
    };
    let state = match rng.u8(..12) {
        0 => SeededSubscriberState::Elsewhere,
        1 => SeededSubscriberState::Pending,
        2 => SeededSubscriberState::Gone,
        _ => SeededSubscriberState::Confirmed,
    };
    let mut from = 0;
    let mut weather = Vec::new();
    for _ in 0..rng.u8(0..=2) {
        let length = *pick(rng, &[MINUTE, HOUR, 24 * HOUR, 400 * HOUR]);
        let to = from + rng.i64(SECOND..length);
        let how = *pick(
            rng,
            &[
                SeededFault::Down,
                SeededFault::Refused,
                SeededFault::Throttled,
                SeededFault::Denied,
                SeededFault::Hangs,
                SeededFault::Mute,
                SeededFault::EachFails,
                SeededFault::Never,
            ],
        );
        weather.push(SeededOutage { from, to, how });
        from = to + rng.i64(0..HOUR);
    }
    let state = if topic { SeededSubscriberState::Confirmed } else { state };
    SeededSubscriber { kind, raw: false, retry_after: None, state, weather }
}

/// Returns the outage of the archive, often at a time when letters come to it: at the end of the schedule, or
/// in the last margin.
fn archive_weather(rng: &mut Rng, schedule: &Schedule, retention: u64) -> Vec<SeededOutage> {
    let how = *pick(
        rng,
        &[
            SeededFault::Down,
            SeededFault::Down,
            SeededFault::Refused,
            SeededFault::Throttled,
            SeededFault::Denied,
            SeededFault::Hangs,
            SeededFault::Mute,
        ],
    );
    let end = SimMillis::try_from(retention).unwrap() * SECOND;
    let margin = SimMillis::try_from(expiry_margin(retention)).unwrap() * SECOND;
    let whole: u64 = (1..=schedule.retries).filter_map(|k| schedule.wait(k, &Jitter::NONE)).sum();
    let whole = SimMillis::try_from(whole).unwrap() * SECOND;
    let (from, to) = match rng.u8(..4) {
        0 => return vec![],
        1 => (end - margin, end - margin / 2),
        2 => (0, (whole + rng.i64(0..4 * HOUR)).min(end - margin)),
        _ => span(rng, 6 * HOUR, 6 * HOUR),
    };
    vec![SeededOutage { from, to, how }]
}
