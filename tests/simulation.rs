//! The promises, shown by living through random worlds: the real decisions in a model of SQS and Lambda.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;
mod model;

use common::holds;
use model::laws::{self, Judged};
use model::world::{Story, World};
use model::worlds::{calm, fifo, forgetful, wild};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

type Law = fn(&World, &Story) -> Judged;

/// Lives through so many worlds, and judges each story by the laws.
fn obey(worlds: u32, strategy: &impl Strategy<Value = World>, laws: &[Law]) {
    holds(worlds, strategy, |world| {
        let story = world.live();
        laws.iter().try_for_each(|law| law(&world, &story)).map_err(TestCaseError::fail)
    });
}

#[test]
fn undisturbed_letters_get_each_retry_once_and_at_its_time_wherever_they_wait() {
    obey(
        3_000,
        &calm(),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost,
            laws::nothing_is_archived_early,
            laws::attempts_are_honest,
            laws::undisturbed_letters_get_each_retry_once,
            laws::each_letter_ends_once,
        ],
    );
}

#[test]
fn whatever_happens_no_letter_is_lost_or_given_up_early() {
    obey(
        3_000,
        &wild(),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost,
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
fn fifo_groups_keep_their_order_whatever_happens() {
    obey(
        1_500,
        &fifo(wild()),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost,
            laws::nothing_is_archived_early,
            laws::attempts_are_honest,
            laws::groups_keep_their_order,
        ],
    );
}
