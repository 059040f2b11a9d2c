//! P10: overrides, and what goes wrong beside them.

use super::*;

#[test]
fn an_override_to_retry_costs_no_attempt_and_leaves_the_plan_where_it_was() {
    obey(
        3_000,
        &retried(calm()),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost,
            laws::nothing_is_archived_early,
            laws::attempts_are_honest,
            overrides::overrides_lose_no_attempt,
            overrides::overrides_keep_the_plan,
            overrides::overrides_repeat_no_number,
            overrides::overrides_make_no_hot_loop,
            laws::each_letter_ends_once,
        ],
    );
}

#[test]
fn a_head_of_a_fifo_group_is_attempted_by_an_override_and_its_group_keeps_its_order() {
    let blocking = retried(fifo(calm())).prop_map(|world| ModelWorld { step_aside: false, ..world });
    obey(
        1_000,
        &blocking,
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_archived_early,
            laws::attempts_are_honest,
            laws::groups_keep_their_order,
            laws::each_letter_ends_once,
        ],
    );
}

/// Wakes without an override can use up numbers, but never the last one.
#[test]
fn letters_that_are_woken_without_an_override_are_not_given_up_early() {
    obey(
        2_000,
        &operated(calm(), &[OverrideAction::Hold], 0),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost,
            laws::nothing_is_archived_early,
            laws::attempts_are_honest,
            overrides::no_attempt_begins_under_an_old_hold,
        ],
    );
}

#[test]
fn a_hold_holds_whatever_else_goes_wrong() {
    obey(
        600,
        &operated(wild(), &[OverrideAction::Hold], 0),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost_that_was_seen_in_time,
            overrides::no_attempt_begins_under_an_old_hold,
        ],
    );
}

#[test]
fn whatever_is_overridden_and_whatever_happens_no_letter_is_lost_or_given_up_early() {
    obey(
        600,
        &operated(wild(), &OverrideAction::ALL, 100),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost_that_was_seen_in_time,
            laws::nothing_is_archived_early,
        ],
    );
}

/// The case that only a requeue, overrides and crashes make together: two messages of one letter, under an
/// override.
#[test]
fn letters_that_a_crash_splits_under_overrides_are_not_lost_or_given_up_early() {
    let count = Cell::new(0);
    holds(600, &split(), |world| {
        let story = world.live();
        let laws = [
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost_that_was_seen_in_time,
            laws::nothing_is_archived_early,
        ];
        laws.iter().try_for_each(|law| law(&world, &story)).map_err(TestCaseError::fail)?;
        count.set(count.get() + lives(&world, &story).iter().filter(|life| life.is_split()).count());
        Ok(())
    });
    assert!(count.get() >= 20, "only {} letters were split", count.get());
}

#[test]
fn held_letters_in_queues_that_forget_are_archived_in_time() {
    obey(
        600,
        &operated(forgetful(calm()), &OverrideAction::ALL, 50),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost,
            laws::nothing_is_lost_that_was_seen_in_time,
            laws::nothing_is_archived_early,
        ],
    );
}

/// The built-in policy hides a letter for more than two minutes before 8 of its 12 retries. So a million
/// letters that are never delivered make 800,000 lists in batches of ten. That is 4.00 USD by S3's price of
/// 5.00 a million, and 0.40 in batches of a hundred; a busy instance joins those of ten. A scout has a list of its own.
#[test]
fn letters_that_nobody_takes_are_listed_eight_times_each() {
    for (batch, lists) in [(10, 80), (100, 8)] {
        let mut world = filling(0, IN_FLIGHT_LIMIT, 100);
        (world.jitter, world.requeue, world.until) = (0.0, None, None);
        world.mapping.batch = batch;
        world.mapping.instances = 10;
        world.operator.wakes = vec![30 * DAY];
        let journal = world.live().journal;
        let count =
            |matches: fn(&FactKind) -> bool| journal.facts.iter().filter(|fact| matches(&fact.what)).count();
        let attempts = count(|what| matches!(what, FactKind::Attempt { .. }));
        let scouts = count(FactKind::is_scout);
        let others = journal.counts.lists.saturating_sub(u64::try_from(scouts).unwrap());
        assert!(journal.counts.lists >= lists / 10, "{}", journal.counts.lists);
        // Some other waits are as long as those of scouts.
        assert!((1_180..=1_200).contains(&(attempts - scouts)), "{attempts} and {scouts} scouts");
        // A scout may stand in a list with others.
        assert!(others <= lists + 2, "{others}");
    }
}

#[test]
fn fifo_groups_keep_their_order_under_overrides() {
    obey(
        600,
        &operated(fifo(wild()), &OverrideAction::ALL, 50),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost_that_was_seen_in_time,
            laws::groups_keep_their_order,
        ],
    );
}

#[test]
fn no_attempt_begins_under_a_hold_older_than_15_s() {
    obey(
        100,
        &crowded(),
        &[laws::every_letter_is_accounted_for, overrides::no_attempt_begins_under_an_old_hold],
    );
}
