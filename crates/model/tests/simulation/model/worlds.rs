//! Random worlds.

use proptest::prelude::*;
use redrive_core::batch::{IN_FLIGHT_LIMIT, MAX_DELAY};
use redrive_core::policy::{Jitter, OverrideAction, Schedule, VISIBILITY_CEILING};
use redrive_sim_queue::QueueSettings;
use redrive_testing::schedules;

use super::operator::{ModelOperator, TimedOverride};
use super::world::{
    ArrivalPlan, FailureStyle, ModelMapping, ModelSubscriber, ModelWorld, SourceTraces, TroubleRates,
};
use super::{DAY, HOUR, MINUTE, ModelMillis, SECOND, seconds};

/// The longest retention, in seconds.
pub const SQS_MAX_RETENTION: i64 = 1_209_600;

/// Returns letters that arrive within an hour, in three groups. Some of them are poison, some have retries
/// behind them, and some were moved here by SQS.
fn letters(schedule: &Schedule) -> impl Strategy<Value = Vec<ArrivalPlan>> + use<> {
    let behind = schedule.retries - 1;
    let moved = (0..=2 * HOUR, any::<bool>())
        .prop_map(|(age, keeps_first_receive)| SourceTraces { age, keeps_first_receive });
    let letter = (
        prop_oneof![Just(0), 0..=HOUR],
        0_u32..3,
        prop::bool::weighted(0.4),
        prop_oneof![4 => Just(0), 1 => 0..=behind],
        prop::option::weighted(0.15, moved),
    );
    let letter = letter.prop_map(|(arrives, group, poison, spent, moved)| ArrivalPlan {
        arrives,
        to: 0,
        group,
        poison,
        spent: if moved.is_some() { 0 } else { spent },
        moved,
    });
    prop_oneof![3 => prop::collection::vec(letter.clone(), 1..=2), 1 => prop::collection::vec(letter, 3..=8)]
}

fn subscribers() -> impl Strategy<Value = ModelSubscriber> {
    let outage =
        prop_oneof![Just(vec![]), (0..=HOUR, 0..=2 * DAY).prop_map(|(from, long)| vec![(from, from + long)])];
    let takes = prop_oneof![Just(0..=0), Just(0..=2 * SECOND), Just(0..=15 * SECOND)];
    (outage, takes).prop_map(|(outages, takes)| ModelSubscriber {
        outages,
        fails: FailureStyle::AtOnce,
        flaky: 0,
        takes,
    })
}

/// Returns worlds with a standard queue where nothing goes wrong. The limit in flight that the function
/// believes in decides how many letters are moved: none, some, all.
pub fn calm() -> impl Strategy<Value = ModelWorld> {
    let schedules = schedules((3_600..=50_000, 0..=40_000), [0..=3, 0..=2, 0..=4, 0..=2]);
    let world = schedules.prop_flat_map(|schedule| {
        let letters = letters(&schedule);
        let ceiling = prop_oneof![3 => Just(VISIBILITY_CEILING), 1 => 400_u64..=4_000];
        let limit = prop_oneof![2 => Just(IN_FLIGHT_LIMIT), 1 => Just(0_u64), 1 => 1_u64..=12];
        (Just(schedule), letters, ceiling, limit, (any::<u64>(), any::<bool>()), subscribers(), 1_usize..=10)
    });
    world.prop_map(|(schedule, letters, ceiling, limit, (seed, requeue), subscriber, batch)| {
        let queue = QueueSettings {
            retention: SQS_MAX_RETENTION,
            visibility: 1_800,
            lag: MINUTE,
            shuffled: Some(seed),
            ..QueueSettings::default()
        };
        ModelWorld {
            seed,
            schedule,
            jitter: [0.0, 0.1, 1.0][usize::try_from(seed % 3).unwrap()],
            ceiling,
            dlq: queue.clone(),
            requeue: requeue.then_some(queue),
            letters,
            subscriber,
            mapping: ModelMapping {
                batch,
                window: 0..=0,
                late: 0..=200,
                instances: 10,
                off: vec![],
                takes: 50,
            },
            until: None,
            ..filling(0, limit, 0)
        }
    })
}

/// Returns a percentage that is often 0.
fn percent(most: u8) -> impl Strategy<Value = u8> {
    prop_oneof![Just(0), 0..=most]
}

fn troubles() -> impl Strategy<Value = TroubleRates> {
    let t = (
        percent(50),
        percent(30),
        (percent(20), percent(30)),
        prop::bool::weighted(0.2),
        percent(30),
        percent(50),
        percent(50),
        (percent(30), prop_oneof![Just(0), percent(90)], unread_for()),
    );
    t.prop_map(
        |(
            throttled,
            crash,
            (out_of_time, refused_whole),
            put_off,
            hide_fails,
            send_fails,
            archive_fails,
            (comes_back, reads_fail, unread_until),
        )| TroubleRates {
            throttled,
            crash,
            out_of_time,
            refused_whole,
            put_off,
            hide_fails,
            comes_back,
            reads_fail,
            unread_until,
            send_fails,
            archive_fails,
            control_fails: 0,
        },
    )
}

/// Returns the time for which no queue tells its attributes at first.
fn unread_for() -> impl Strategy<Value = ModelMillis> {
    prop_oneof![4 => Just(0), 2 => 0..=20 * MINUTE, 1 => 0..=6 * HOUR]
}

/// Returns worlds whose letters come back before their time, now and then, and nothing else goes wrong.
pub fn coming_back(worlds: impl Strategy<Value = ModelWorld>) -> impl Strategy<Value = ModelWorld> {
    (worlds, 1_u8..=60).prop_map(|(mut world, comes_back)| {
        world.trouble.comes_back = comes_back;
        world
    })
}

/// Returns worlds whose queues do not tell their attributes at first, and nothing else goes wrong.
pub fn silent(worlds: impl Strategy<Value = ModelWorld>) -> impl Strategy<Value = ModelWorld> {
    (worlds, prop_oneof![2 => 0..=HOUR, 1 => 0..=6 * DAY]).prop_map(|(mut world, unread_until)| {
        world.trouble.unread_until = unread_until;
        world
    })
}

/// Returns the largest number of moves of a letter: those along its schedule, and further ones while it is
/// held.
fn moves(world: &ModelWorld) -> u64 {
    let wait = |k| world.schedule.wait(k, &Jitter::NONE).unwrap();
    let planned: u64 = (1..=world.schedule.retries).map(|k| wait(k).div_ceil(MAX_DELAY)).sum();
    let holds = world.operator.overrides.iter().filter(|given| given.action == OverrideAction::Hold);
    let held =
        holds.map(|given| u64::try_from((given.to - given.from) / SECOND).unwrap().div_ceil(MAX_DELAY));
    let before =
        u64::try_from(world.schedule_from.map_or(0, |from| from / SECOND)).unwrap_or(0).div_ceil(MAX_DELAY);
    planned + held.sum::<u64>() + before
}

/// Reduces crashes that would leave too many letters: a crash after a move leaves two letters, and each of
/// them moves on. A letter that is put off or left out moves once more each time.
fn crash_less(world: &mut ModelWorld) {
    let moves_on = world.trouble.put_off || world.subscriber.fails == FailureStyle::Hanging;
    let most = match moves(world) {
        _ if world.requeue.is_none() => 100,
        0..=20 if !moves_on => 30,
        0..=100 => 1,
        _ => 0,
    };
    world.trouble.crash = world.trouble.crash.min(most);
}

fn late_polls() -> impl Strategy<Value = ModelMillis> {
    prop_oneof![3 => Just(200), 1 => Just(10 * MINUTE), 1 => Just(20 * HOUR)]
}

fn offs() -> impl Strategy<Value = Vec<(ModelMillis, ModelMillis)>> {
    let off = (0..=2 * DAY, 0..=5 * DAY).prop_map(|(from, long)| (from, from + long));
    prop_oneof![2 => Just(vec![]), 1 => prop::collection::vec(off, 1..=2)]
}

/// Returns worlds in which everything goes wrong that can.
pub fn wild() -> impl Strategy<Value = ModelWorld> {
    let window = prop_oneof![Just(0), 0..=5 * MINUTE];
    (calm(), troubles(), late_polls(), offs(), window, (1_u32..=3, percent(40), any::<bool>())).prop_map(
        |(mut world, trouble, late, off, window, (instances, flaky, hangs))| {
            world.trouble = trouble;
            world.mapping.late = 0..=late;
            world.mapping.off = off;
            world.mapping.window = 0..=window;
            world.mapping.instances = instances;
            world.subscriber.flaky = flaky;
            world.subscriber.fails = if hangs { FailureStyle::Hanging } else { FailureStyle::AtOnce };
            crash_less(&mut world);
            world
        },
    )
}

/// Returns worlds whose queues drop letters after a short retention.
pub fn forgetful(worlds: impl Strategy<Value = ModelWorld>) -> impl Strategy<Value = ModelWorld> {
    let retention = || prop_oneof![60..=3_600_i64, 3_600..=86_400_i64, 86_400..=14 * 86_400_i64];
    (worlds, retention(), retention()).prop_map(|(mut world, dlq, requeue)| {
        world.dlq.retention = dlq;
        for moved in world.letters.iter_mut().filter_map(|letter| letter.moved.as_mut()) {
            moved.age = moved.age.min(seconds(dlq / 2));
        }
        if let Some(settings) = &mut world.requeue {
            settings.retention = requeue;
        }
        world
    })
}

/// Returns worlds with a backlog that was there before `SCHEDULE_FROM`: nothing received it until then, or the function
/// observed it and every letter has come back by then.
pub fn backlogs(worlds: impl Strategy<Value = ModelWorld>) -> impl Strategy<Value = ModelWorld> {
    (worlds, prop_oneof![0..=HOUR, 0..=3 * DAY], any::<bool>()).prop_map(|(mut world, switched, observed)| {
        if observed {
            world.observed_until = switched;
            world.schedule_from = Some(switched + seconds(world.dlq.visibility) + MINUTE);
            // A letter that moves has a plan of its own there.
            world.requeue = None;
        } else {
            world.mapping.off.push((0, switched));
            world.schedule_from = Some(switched);
        }
        world
    })
}

/// Returns such worlds in which `SCHEDULE_FROM` is any time before or after the function began to act.
pub fn rough_backlogs(worlds: impl Strategy<Value = ModelWorld>) -> impl Strategy<Value = ModelWorld> {
    (backlogs(worlds), -DAY..=6 * HOUR, any::<bool>()).prop_map(|(mut world, shift, is_shifted)| {
        let shift = if is_shifted { shift } else { 0 };
        world.schedule_from = world.schedule_from.map(|from| from + shift);
        crash_less(&mut world);
        world
    })
}

/// Returns worlds with FIFO queues.
pub fn fifo(worlds: impl Strategy<Value = ModelWorld>) -> impl Strategy<Value = ModelWorld> {
    (worlds, any::<bool>(), any::<bool>()).prop_map(|(mut world, whole_group, step_aside)| {
        world.fifo = true;
        for settings in world.queues() {
            settings.whole_group = whole_group;
        }
        world.step_aside = step_aside;
        world
    })
}

/// Returns times when an operator wakes waiting letters.
fn wakes() -> impl Strategy<Value = Vec<ModelMillis>> {
    let moment = prop_oneof![0..=10 * MINUTE, 0..=3 * HOUR, 0..=2 * DAY];
    prop::collection::vec(moment, 0..=8)
}

/// Returns worlds in which an override to retry every letter is in force all the time, and letters are woken. No
/// letter is moved, because a letter that moves on every quarter of an hour would be attempted each time. None
/// is woken while it is being handled, which would deliver it twice.
pub fn retried(worlds: impl Strategy<Value = ModelWorld>) -> impl Strategy<Value = ModelWorld> {
    (worlds, wakes(), any::<bool>()).prop_map(|(mut world, wakes, by_list)| {
        world.requeue = None;
        world.dlq.stale_shows = false;
        let always =
            TimedOverride { action: OverrideAction::Retry, from: 0, to: 100 * 365 * DAY, about: Vec::new() };
        world.operator =
            ModelOperator { overrides: vec![always], wakes, by_list, ..ModelOperator::default() };
        world
    })
}

/// Returns worlds whose endpoints go down and come back, and whose letters are listed and woken then. Control objects cannot be
/// read or written now and then.
pub fn recovering(worlds: impl Strategy<Value = ModelWorld>) -> impl Strategy<Value = ModelWorld> {
    let outage =
        (0..=DAY, prop_oneof![MINUTE..=HOUR, HOUR..=DAY]).prop_map(|(from, long)| (from, from + long));
    // Most letters fail at once, for long enough that they are woken.
    let first = prop_oneof![3 => Just(0), 1 => 0..=HOUR].prop_flat_map(|from| {
        prop_oneof![10 * MINUTE..=3 * HOUR, HOUR..=DAY].prop_map(move |long| (from, from + long))
    });
    let outages = (first, prop::collection::vec(outage, 0..=5));
    (worlds, outages, 1_u32..=4, percent(30)).prop_map(
        |(mut world, (first, mut outages), instances, control_fails)| {
            (world.listed, world.told) = (true, true);
            outages.push(first);
            world.subscriber.outages = outages;
            // A dozen letters that wait for long, most of them no poison.
            let dozen = world.letters.iter().cycle().take(12).enumerate();
            let letter = |(number, plan): (usize, &ArrivalPlan)| ArrivalPlan {
                poison: plan.poison && number % 4 == 0,
                arrives: plan.arrives + i64::try_from(number).unwrap() * SECOND,
                ..plan.clone()
            };
            world.letters = dozen.map(letter).collect();
            let Schedule { min, max, retries, .. } = world.schedule;
            world.schedule.min = min.max(200);
            world.schedule.max = max.max(world.schedule.min);
            world.schedule.retries = retries.max(4);
            world.mapping.instances = instances;
            world.trouble.control_fails = control_fails;
            world
        },
    )
}

/// Returns overrides of every kind, about all letters or about some, for a while.
fn given(actions: &'static [OverrideAction]) -> impl Strategy<Value = TimedOverride> {
    let from = prop_oneof![Just(0), 0..=HOUR, 0..=2 * DAY];
    let lasts = prop_oneof![MINUTE..=HOUR, HOUR..=DAY];
    let about = prop_oneof![Just(Vec::new()), prop::collection::vec(0_usize..8, 1..=3)];
    let action = prop::sample::select(actions.to_vec());
    (action, from, lasts, about).prop_map(|(action, from, lasts, about)| TimedOverride {
        action,
        from,
        to: from + lasts,
        about,
    })
}

/// Returns worlds with an operator who gives such overrides and wakes letters, and with an S3 that fails now and
/// then.
pub fn operated(
    worlds: impl Strategy<Value = ModelWorld>,
    actions: &'static [OverrideAction],
    fails: u8,
) -> impl Strategy<Value = ModelWorld> {
    let overrides = prop::collection::vec(given(actions), 0..=3);
    let stale = (any::<bool>(), any::<bool>());
    (worlds, overrides, wakes(), stale, percent(fails)).prop_map(
        |(mut world, overrides, wakes, (by_list, stale_shows), reads_fail)| {
            world.operator = ModelOperator { overrides, wakes, by_list, reads_fail };
            for settings in world.queues() {
                settings.stale_shows = stale_shows;
            }
            crash_less(&mut world);
            world
        },
    )
}

/// Returns worlds in which overrides are given about letters that all move into the requeue, by functions that
/// often die. Waits and overrides are short, since otherwise there are too many letters.
pub fn split() -> impl Strategy<Value = ModelWorld> {
    let override_ = given(&OverrideAction::ALL);
    (operated(wild(), &OverrideAction::ALL, 20), override_).prop_map(|(mut world, override_)| {
        let longest = u32::try_from(MAX_DELAY).unwrap();
        world.schedule = Schedule { min: longest.min(world.schedule.min), max: longest, ..world.schedule };
        (world.requeue, world.believed_limit) = (Some(world.dlq.clone()), 0);
        world.operator.overrides.push(override_);
        for given in &mut world.operator.overrides {
            given.to = given.to.min(given.from + HOUR);
        }
        (world.trouble.crash, world.trouble.put_off) = (30, false);
        world.subscriber.fails = FailureStyle::AtOnce;
        world
    })
}

/// Returns a world with a small queue that fills within an hour or so: letters arrive so far apart, and none
/// is ever delivered.
pub fn filling(apart: ModelMillis, limit: u64, letters: usize) -> ModelWorld {
    let queue = QueueSettings {
        retention: SQS_MAX_RETENTION,
        visibility: 360,
        in_flight: usize::try_from(limit).unwrap(),
        lag: MINUTE,
        shuffled: Some(1),
        ..QueueSettings::default()
    };
    let arrives = |who: usize| i64::try_from(who).unwrap() * apart;
    ModelWorld {
        seed: 1,
        schedule: Schedule::BUILT_IN,
        jitter: 0.1,
        ceiling: VISIBILITY_CEILING,
        fifo: false,
        dlq: queue.clone(),
        requeue: Some(queue),
        believed_limit: limit,
        step_aside: false,
        letters: (0..letters)
            .map(|who| ArrivalPlan { arrives: arrives(who), poison: true, ..ArrivalPlan::default() })
            .collect(),
        subscriber: ModelSubscriber { outages: vec![], fails: FailureStyle::AtOnce, flaky: 0, takes: 0..=0 },
        takes_a_second: None,
        limit: None,
        others: Vec::new(),
        mapping: ModelMapping {
            batch: 1,
            window: 0..=0,
            late: 0..=200,
            instances: 2,
            off: vec![],
            takes: 100,
        },
        trouble: TroubleRates::default(),
        operator: ModelOperator::default(),
        listed: false,
        control_takes: 0,
        told: false,
        observed_until: 0,
        schedule_from: None,
        until: Some(4 * HOUR),
    }
}

/// Returns such worlds whose queue fills slowly compared with the readings of the number in flight.
pub fn slowly_filling() -> impl Strategy<Value = ModelWorld> {
    (any::<u64>(), 140_u64..=200, 20 * SECOND..=40 * SECOND, 1_usize..=2, 1_u32..=3, 0..=MINUTE).prop_map(
        |(seed, limit, apart, batch, instances, lag)| {
            let mut world = filling(apart, limit, usize::try_from(limit).unwrap() * 3 / 2);
            (world.seed, world.dlq.lag, world.dlq.shuffled) = (seed, lag, Some(seed));
            (world.mapping.batch, world.mapping.instances) = (batch, instances);
            world
        },
    )
}
