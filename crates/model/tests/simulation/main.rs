//! Tests of the promises by living through random worlds: the real decisions in a model of SQS and Lambda.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod model;
mod overridden;
mod recoveries;

use std::cell::Cell;
use std::collections::BTreeMap;

use model::crowd::{self, SubscriberCrowd};
use model::endpoints::{self, crowded, one_dead};
use model::figures;
use model::journal::FactKind;
use model::laws;
use model::life::{LawJudgement, StoryLife, lives};
use model::outage::ModelOutage;
use model::overrides;
use model::recovery::{self, RecoverySetup};
use model::simulation::ModelStory;
use model::world::{FailureStyle, ModelWorld};
use model::worlds::{
    backlogs, calm, coming_back, fifo, filling, forgetful, operated, recovering, retried, rough_backlogs,
    silent, slowly_filling, split, wild,
};
use model::{DAY, HOUR, MINUTE, ModelMillis, SECOND};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use redrive_core::batch::IN_FLIGHT_LIMIT;
use redrive_core::policy::{ArchiveReason, OverrideAction, Schedule};
use redrive_testing::holds;

type StoryLaw = fn(&ModelWorld, &ModelStory) -> LawJudgement;

/// What holds where nothing disturbs.
const UNDISTURBED: [StoryLaw; 6] = [
    laws::every_letter_is_accounted_for,
    laws::nothing_is_lost,
    laws::nothing_is_archived_early,
    laws::attempts_are_honest,
    laws::undisturbed_letters_get_each_retry_once,
    laws::each_letter_ends_once,
];

/// Lives through so many worlds, and judges each story by the laws.
fn obey(worlds: u32, strategy: &impl Strategy<Value = ModelWorld>, laws: &[StoryLaw]) {
    holds(worlds, strategy, |world| {
        let story = world.live();
        laws.iter().try_for_each(|law| law(&world, &story)).map_err(TestCaseError::fail)
    });
}

#[test]
fn undisturbed_letters_get_each_retry_once_and_at_its_time_wherever_they_wait() {
    obey(3_000, &calm(), &UNDISTURBED);
}

#[test]
fn whatever_happens_no_letter_is_lost_or_given_up_early() {
    obey(
        3_000,
        &wild(),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost_that_was_seen_in_time,
            laws::nothing_is_archived_early,
            laws::attempts_are_honest,
        ],
    );
}

#[test]
fn queues_that_forget_lose_nothing_where_the_function_runs() {
    obey(
        1_500,
        &forgetful(calm()),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost,
            laws::nothing_is_lost_that_was_seen_in_time,
            laws::nothing_is_archived_early,
            laws::attempts_are_honest,
            laws::each_letter_ends_once,
        ],
    );
}

#[test]
fn queues_that_forget_lose_nothing_that_the_function_saw_in_time_whatever_happens() {
    obey(
        1_500,
        &forgetful(wild()),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost_that_was_seen_in_time,
            laws::nothing_is_archived_early,
            laws::attempts_are_honest,
        ],
    );
}

#[test]
fn fifo_queues_that_forget_lose_nothing_that_the_function_saw_in_time_whatever_happens() {
    obey(
        3_000,
        &fifo(forgetful(wild())),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost_that_was_seen_in_time,
            laws::nothing_is_archived_early,
            laws::groups_keep_their_order,
        ],
    );
}

#[test]
fn fifo_groups_keep_their_order_whatever_happens() {
    obey(
        1_500,
        &fifo(wild()),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost_that_was_seen_in_time,
            laws::nothing_is_archived_early,
            laws::attempts_are_honest,
            laws::groups_keep_their_order,
        ],
    );
}

#[test]
fn heads_of_fifo_groups_get_each_retry_once_and_at_its_time() {
    let blocking = fifo(calm()).prop_map(|world| ModelWorld { step_aside: false, ..world });
    obey(
        1_000,
        &blocking,
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_archived_early,
            laws::attempts_are_honest,
            laws::heads_of_groups_get_each_retry_once,
            laws::each_letter_ends_once,
            laws::groups_keep_their_order,
        ],
    );
}

#[test]
fn letters_of_a_backlog_get_each_retry_once_from_the_beginning_of_their_schedule() {
    obey(2_000, &backlogs(calm()), &UNDISTURBED);
}

#[test]
fn backlogs_are_not_lost_or_given_up_early_whatever_happens() {
    let laws: [StoryLaw; 4] = [
        laws::every_letter_is_accounted_for,
        laws::nothing_is_lost_that_was_seen_in_time,
        laws::nothing_is_archived_early,
        laws::attempts_are_honest,
    ];
    obey(1_000, &rough_backlogs(wild()), &laws);
    obey(1_000, &rough_backlogs(forgetful(calm())), &laws);
    obey(500, &rough_backlogs(forgetful(wild())), &laws);
    obey(300, &rough_backlogs(fifo(wild())), &laws);
}

/// Letters that come back at random moments are attempted then, without a number.
#[test]
fn letters_that_come_back_before_their_time_keep_their_plan() {
    obey(
        1_000,
        &coming_back(calm()),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost,
            laws::nothing_is_archived_early,
            laws::attempts_are_honest,
            laws::early_returns_move_no_plan,
        ],
    );
}

/// Four days would be too short for what they hold, and nobody knows.
#[test]
fn queues_that_do_not_tell_their_retention_cost_no_letter_and_no_retry() {
    obey(
        300,
        &silent(calm()),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost,
            laws::nothing_is_lost_that_was_seen_in_time,
            laws::nothing_is_archived_early,
            laws::attempts_are_honest,
            laws::early_returns_move_no_plan,
            laws::unread_retentions_add_no_attempts,
        ],
    );
}

#[test]
fn holds_in_queues_that_do_not_tell_their_retention_go_on() {
    obey(
        200,
        &operated(silent(calm()), &[OverrideAction::Hold], 0),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost,
            laws::nothing_is_archived_early,
            overrides::no_attempt_begins_under_an_old_hold,
        ],
    );
}

// ---------------------------------------------------------------------------------------------
// Endpoints

#[test]
fn a_dead_endpoint_starves_no_other() {
    obey(
        60,
        &one_dead(),
        &[laws::every_letter_is_accounted_for, endpoints::a_dead_endpoint_starves_no_other],
    );
}

/// Promise P9, with many endpoints that do not work: from the second minute on.
#[test]
fn dead_endpoints_starve_nobody() {
    for crowd in SubscriberCrowd::all() {
        let healthy = crowd.lives();
        assert!(healthy.delivered * 10 >= healthy.letters * 9, "{crowd}: {healthy:?}");
        assert!(
            healthy.slowest <= SECOND * 3 / 2 || crowd.of < 40 || crowd.is_slow(),
            "{crowd}: {healthy:?}"
        );
    }
}

#[test]
#[ignore = "prints the table of what endpoints that do not work cost the letters of others"]
#[expect(clippy::print_stdout, reason = "that is what it is for")]
fn the_table_of_crowds() {
    print!("{}", crowd::table());
}

// ---------------------------------------------------------------------------------------------
// In flight

/// The limit is a condition on rates. The letters that are hidden within two minutes (since a number is up to
/// a minute old, and kept for up to a minute) and those that are being handled must fit into the last
/// quarter. These worlds have room for 35 to 50 letters there.
#[test]
fn spill_keeps_a_queue_below_its_limit_where_letters_fail_slower_than_it_hears_of_them() {
    let below = Cell::new(0);
    holds(24, &slowly_filling(), |world| {
        let story = world.live();
        laws::every_letter_is_accounted_for(&world, &story).map_err(TestCaseError::fail)?;
        laws::spill_bounds_what_is_in_flight(&world, &story).map_err(TestCaseError::fail)?;
        prop_assert!(story.journal.counts.moved > 0, "nothing was moved");
        let sure = world.dlq.in_flight / 4 * 3 + laws::unknown_in_flight(&world, &story, false)
            < world.dlq.in_flight;
        below.set(below.get() + u32::from(sure));

        let hiding = ModelWorld { requeue: None, ..world };
        prop_assert_eq!(hiding.live().dlq.messages.peak, hiding.dlq.in_flight, "spill off");
        Ok(())
    });
    assert!(below.get() >= 12, "only {} of 24 worlds were slow enough", below.get());
}

/// There is a letter every 30 s, and room for 160 in flight. Without spill the function gets no letter for
/// half an hour and more, not even those that are due.
#[test]
fn a_full_queue_is_silent_and_spill_keeps_it_talking() {
    let spilling = filling(30_000, 160, 300);
    let hiding = ModelWorld { requeue: None, ..spilling.clone() };
    let (spilled, hidden) = (spilling.live(), hiding.live());
    assert_eq!(hidden.dlq.messages.peak, 160);
    assert!(spilled.dlq.messages.peak < 160, "{} in flight", spilled.dlq.messages.peak);
    let (late, silent) =
        (laws::longest_overdue(&spilling, &spilled), laws::longest_overdue(&hiding, &hidden));
    assert!(late < SECOND, "{late} ms late");
    assert!(silent > 30 * MINUTE, "{silent} ms late");
}

/// There is a letter every 200 ms, so 60 are hidden before the number in flight shows one of them. The queue
/// fills, and only time is lost.
#[test]
fn letters_that_fail_faster_than_the_number_in_flight_is_known_fill_a_queue_in_spite_of_spill() {
    let mut world = filling(200, 60, 160);
    world.until = None;
    let story = world.live();
    assert_eq!(story.dlq.messages.peak, 60);
    laws::every_letter_is_accounted_for(&world, &story).unwrap();
    laws::nothing_is_lost(&world, &story).unwrap();
    laws::nothing_is_archived_early(&world, &story).unwrap();
}

// ---------------------------------------------------------------------------------------------
// Long waits

/// Returns the story of one letter with one retry after 12.5 days, hidden or moved all the way.
fn twelve_days_and_a_half(believed_limit: u64) -> ModelStory {
    let mut world = filling(0, IN_FLIGHT_LIMIT, 1);
    world.schedule = Schedule { min: LONG_WAIT, max: LONG_WAIT, retries: 1, ..Schedule::HTTP_DEFAULT };
    (world.jitter, world.believed_limit, world.until) = (0.0, believed_limit, None);
    world.dlq.retention = 14 * 86_400;
    world.requeue = Some(world.dlq.clone());
    let story = world.live();
    laws::undisturbed_letters_get_each_retry_once(&world, &story).unwrap();
    story
}

const LONG_WAIT: u32 = 1_080_000;

#[test]
fn a_wait_of_twelve_days_and_a_half_is_hidden_twenty_seven_times_and_costs_no_attempt() {
    let counts = twelve_days_and_a_half(IN_FLIGHT_LIMIT).journal.counts;
    assert_eq!((counts.attempts, counts.hidden, counts.moved), (1, 27, 0));
}

#[test]
fn moving_on_every_fifteen_minutes_for_twelve_days_and_a_half_costs_no_attempt_either() {
    let counts = twelve_days_and_a_half(0).journal.counts;
    assert_eq!((counts.attempts, counts.hidden, counts.moved), (1, 0, 1_200));
}

// ---------------------------------------------------------------------------------------------
// FIFO

/// Returns the numbers of each letter's retries, for a group of letters that are never delivered and are all
/// there at once.
fn group(letters: usize, batch: usize, schedule: Schedule) -> Vec<Vec<u32>> {
    let mut world = filling(0, IN_FLIGHT_LIMIT, letters);
    (world.schedule, world.jitter) = (schedule, 0.0);
    (world.fifo, world.requeue, world.until) = (true, None, None);
    world.mapping.batch = batch;
    let story = world.live();
    laws::groups_keep_their_order(&world, &story).unwrap();
    lives(&world, &story).iter().map(StoryLife::numbers).collect()
}

const FIVE_A_MINUTE_APART: Schedule = Schedule { min: 60, max: 60, retries: 5, ..Schedule::HTTP_DEFAULT };

/// Each time the head is tried, the followers in its batch are received too. So when their turn comes, both
/// the time and the receives of their last retry have been reached.
#[test]
fn a_fifo_group_fails_together_its_followers_after_one_attempt_each() {
    let head = vec![1, 2, 3, 4, 5];
    let mut all = vec![vec![5]; 24];
    all[0] = head;
    assert_eq!(group(4, 10, FIVE_A_MINUTE_APART), all[..4]);
    assert_eq!(group(24, 10, FIVE_A_MINUTE_APART), all);
}

/// A follower that is never received with its head starts at its own first retry.
#[test]
fn a_follower_outside_of_the_batch_of_its_head_has_a_schedule_of_its_own() {
    assert_eq!(group(3, 1, FIVE_A_MINUTE_APART), vec![vec![1, 2, 3, 4, 5]; 3]);
}

/// The eleventh letter is received for the first time when the head is given up, and nine times more before
/// its turn. So it has its last retries left, and its group waits once more.
#[test]
fn under_a_schedule_of_more_than_ten_retries_each_tenth_follower_holds_a_long_group_up_once_more() {
    let mut all = vec![vec![12]; 24];
    all[0] = (1..=12).collect();
    (all[10], all[20]) = (vec![10, 11, 12], vec![10, 11, 12]);
    assert_eq!(group(24, 10, Schedule::BUILT_IN), all);
}

// ---------------------------------------------------------------------------------------------
// Figures

/// `FIGURES=write` writes the page's tables. Without it, the rows that take seconds to compute are compared.
#[test]
fn the_page_of_figures_shows_what_the_model_gives() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/figures.md");
    let page = std::fs::read_to_string(path).unwrap();
    if std::env::var("FIGURES").is_ok_and(|figures| figures == "write") {
        let written = figures::tables().iter().fold(page, |page, table| table.put_into(&page));
        std::fs::write(path, written).unwrap();
        return;
    }
    let mut lines = vec![figures::waiting().text()];
    for outage in ModelOutage::all().into_iter().take(2) {
        let rows = figures::rows(outage);
        lines.extend([rows.letters, rows.calls, rows.without]);
    }
    let few = RecoverySetup::all().into_iter().filter(|(_, setup)| setup.letters < 10);
    lines.extend(few.map(|(name, setup)| figures::recovery(name, &setup)));
    for line in lines {
        assert!(page.contains(&line), "make figures; not in docs/figures.md:\n{line}");
    }
}
