//! P11: endpoints that go down and come back, and the letters that are woken.

use super::*;

/// Waking and scouts make attempts that take no number. They use up no retry, and nobody gets a letter twice.
#[test]
fn letters_whose_endpoint_goes_and_comes_keep_their_plan() {
    let laws: [StoryLaw; 6] = [
        laws::every_letter_is_accounted_for,
        laws::nothing_is_lost,
        laws::nothing_is_archived_early,
        laws::attempts_are_honest,
        laws::early_returns_move_no_plan,
        laws::each_letter_ends_once,
    ];
    let woken = Cell::new(0);
    holds(1_000, &recovering(calm()), |world| {
        let story = world.live();
        woken.set(woken.get() + story.journal.counts.woken);
        laws.iter().try_for_each(|law| law(&world, &story)).map_err(TestCaseError::fail)
    });
    assert!(woken.get() > 200, "{} letters were woken", woken.get());
}

/// Overrides that begin, end or cannot be read while letters are woken, and an operator who wakes them as well.
#[test]
fn overrides_count_for_letters_that_are_woken() {
    obey(
        400,
        &recovering(operated(wild(), &OverrideAction::ALL, 20)),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost_that_was_seen_in_time,
            laws::nothing_is_archived_early,
            laws::attempts_are_honest,
        ],
    );
    obey(
        400,
        &recovering(operated(wild(), &[OverrideAction::Hold], 0)),
        &[overrides::no_attempt_begins_under_an_old_hold],
    );
}

/// A letter with which a function always fails is woken once a recovery, a quarter of an hour apart, and as often as it has
/// retries at most.
#[test]
fn a_poison_letter_beside_good_ones_is_attempted_a_few_times_more() {
    for (hours, most) in [(2, 8), (15, 12)] {
        let flaps =
            (0..hours * 6).map(|turn| (turn * 10 * MINUTE, turn * 10 * MINUTE + 5 * MINUTE)).collect();
        let setup = RecoverySetup { outages: flaps, ..RecoverySetup::outage(1, hours * HOUR) };
        let mut world = setup.world();
        world.letters[0].poison = true;
        world.until = Some(hours * HOUR);
        let story = world.live();
        let lives = lives(&world, &story);
        let woken = lives[0].count(|what| *what == FactKind::Woken);
        let scouts = lives[0].count(FactKind::is_scout);
        let attempts = lives[0].attempts().len();
        assert!((1..=most).contains(&woken), "{woken} times in {hours} hours");
        assert!(attempts <= 12 + woken + scouts, "{attempts} attempts, {woken} woken, {scouts} scouts");
        // Without a number as often as with one.
        assert!(attempts <= 12 + 12, "{attempts} attempts in {hours} hours");
    }
}

/// With the template's two instances and one endpoint, nothing but the limit decides how soon the letters arrive.
#[test]
fn the_limit_of_a_rule_holds_for_letters_that_are_woken() {
    for (instances, limit) in [(1, 4), (2, 4), (4, 8)] {
        let setup = RecoverySetup { instances, limit: Some(limit), ..RecoverySetup::outage(10, 20 * MINUTE) };
        let world = setup.world();
        let story = world.live();
        let lives = lives(&world, &story);
        let mut attempts: Vec<_> =
            lives.iter().flat_map(StoryLife::attempts).map(|attempt| attempt.begin).collect();
        attempts.sort_unstable();
        let after = story.journal.last_delivery - story.journal.first_delivery.unwrap();
        let backlog = ModelMillis::try_from(setup.letters).unwrap() * SECOND / ModelMillis::from(limit);
        assert!(after * 4 <= backlog * 5, "{after} ms after the first, instead of {backlog}");
        for (place, first) in attempts.iter().enumerate() {
            let within = attempts[place..].iter().take_while(|at| **at - first < 10 * SECOND).count();
            assert!(within <= limit as usize * 12, "{within} attempts in ten seconds of {limit} each");
        }
    }
}

/// An early attempt moves no plan: each retry comes when it would without the list, and so does the end.
#[test]
fn a_poison_letter_beside_good_ones_has_the_retries_that_it_has_without_the_list() {
    let flaps = (0..22 * 6).map(|turn| (turn * 10 * MINUTE, turn * 10 * MINUTE + 5 * MINUTE)).collect();
    let setup = RecoverySetup { outages: flaps, ..RecoverySetup::outage(1, HOUR) };
    let [with, without] = [true, false].map(|listed| {
        let mut world = RecoverySetup { listed, ..setup.clone() }.world();
        world.letters[0].poison = true;
        let story = world.live();
        let life = &lives(&world, &story)[0];
        assert_eq!(life.count(|what| *what == FactKind::Woken) > 0, listed);
        let ends = |what: &FactKind| matches!(what, FactKind::Archived { reason: ArchiveReason::Exhausted });
        let end = life.facts.iter().find(|fact| ends(&fact.what)).map(|fact| fact.at);
        // An early attempt has the number of the retry before it.
        let mut retries = BTreeMap::new();
        for attempt in life.attempts() {
            retries.entry(attempt.number).or_insert(attempt.begin);
        }
        retries.into_values().chain(end).collect::<Vec<_>>()
    });
    assert_eq!((with.len(), without.len()), (13, 13), "{with:?} {without:?}");
    assert!(
        with.iter().zip(&without).all(|(with, without)| (with - without).abs() < MINUTE),
        "{with:?} {without:?}"
    );
}

#[test]
fn whatever_is_woken_and_whatever_happens_no_letter_is_lost_or_given_up_early() {
    obey(
        1_000,
        &recovering(wild()),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_lost_that_was_seen_in_time,
            laws::nothing_is_archived_early,
            recovery::nobody_is_told_too_often,
            laws::attempts_are_honest,
        ],
    );
    obey(
        500,
        &recovering(fifo(wild())),
        &[
            laws::every_letter_is_accounted_for,
            laws::nothing_is_archived_early,
            laws::attempts_are_honest,
            laws::groups_keep_their_order,
        ],
    );
}

/// Without the list they come back by their schedules, half an hour later. `docs/figures.md` has an outage of an hour.
#[test]
fn letters_arrive_within_minutes_once_their_endpoint_is_back() {
    let outage = RecoverySetup::outage(100, 20 * MINUTE);
    for (instances, fails) in
        [(2, FailureStyle::AtOnce), (8, FailureStyle::AtOnce), (2, FailureStyle::Hanging)]
    {
        let toll = RecoverySetup { fails, instances, ..outage.clone() }.toll();
        assert_eq!(toll.delivered, outage.letters, "none is delivered twice: {toll:?}");
        assert!(
            toll.last_after < 3 * MINUTE && toll.woken > outage.letters / 2,
            "{instances} {fails:?}: {toll:?}"
        );
        // Each is hidden seven times. A batch hides few, and a busy instance joins those of ten batches.
        assert!(toll.lists < outage.letters, "{toll:?}");
    }
    let unlisted = RecoverySetup { listed: false, ..outage }.toll();
    assert!(unlisted.last_after > 10 * MINUTE, "{unlisted:?}");
}

/// An endpoint that is back, takes five letters a second and refuses more.
#[test]
fn an_endpoint_that_takes_little_gets_no_less_than_by_schedules_and_few_attempts_more() {
    let setup = limited(20 * MINUTE);
    let [with, without] = [true, false].map(|listed| RecoverySetup { listed, ..setup.clone() }.toll());
    assert!(with.delivered * 100 >= without.delivered * 95, "{with:?}\n{without:?}");
    assert!(with.early < with.delivered, "{with:?}");
}

/// Returns letters of an outage that fail ten a second, and an endpoint that takes five a second afterwards.
fn limited(lasts: ModelMillis) -> RecoverySetup {
    let outage = RecoverySetup::outage(100, lasts);
    RecoverySetup { takes_a_second: Some(5), until: Some(lasts + 200 * MINUTE / (HOUR / lasts)), ..outage }
}

/// The last few of them wait until a scout meets such a minute.
#[test]
fn an_endpoint_that_works_one_minute_in_ten_gets_nearly_all_within_an_hour_and_a_half() {
    let setup = one_minute_in_ten(20 * MINUTE);
    let [with, without] = [true, false].map(|listed| RecoverySetup { listed, ..setup.clone() }.toll());
    assert!(with.delivered * 100 >= with.letters * 99, "{with:?}");
    assert!(without.delivered * 100 < without.letters * 50, "{without:?}");
}

fn one_minute_in_ten(lasts: ModelMillis) -> RecoverySetup {
    let mut outages = vec![(0, lasts)];
    outages.extend(
        (0..9).map(|turn| lasts + turn * 10 * MINUTE).map(|from| (from + MINUTE, from + 10 * MINUTE)),
    );
    RecoverySetup { outages, until: Some(lasts + 90 * MINUTE), ..RecoverySetup::outage(100, lasts) }
}

#[test]
fn letters_of_others_wait_two_seconds_at_most_while_thousands_are_woken() {
    let setup = beside_others(20 * MINUTE);
    let toll = setup.toll();
    assert!(toll.woken > 5_000 && toll.others_waited < 2 * SECOND, "{toll:?}");
}

/// Returns an outage, and four letters a second for another endpoint until ten minutes after it.
fn beside_others(lasts: ModelMillis) -> RecoverySetup {
    RecoverySetup { others: Some((250, lasts + 10 * MINUTE)), ..RecoverySetup::outage(100, lasts) }
}

/// `ROWS` selects outages of the table by a part of their names.
#[test]
#[ignore = "prints the rows of figures.md's table, and what stands beside it"]
#[expect(clippy::print_stdout, reason = "that is what it is for")]
fn the_rows_of_recoveries() {
    let only = std::env::var("ROWS").unwrap_or_default();
    for (name, setup) in RecoverySetup::all().into_iter().filter(|(name, _)| name.contains(&only)) {
        println!("{}", figures::recovery(name, &setup));
    }
    let others = [
        ("takes five a second", limited(HOUR)),
        ("works one minute in ten", one_minute_in_ten(HOUR)),
        ("beside others", beside_others(HOUR)),
    ];
    for (name, setup) in others.into_iter().filter(|(name, _)| name.contains(&only)) {
        for listed in [true, false] {
            println!("{name}: listed {listed}: {:?}", RecoverySetup { listed, ..setup.clone() }.toll());
        }
    }
}

/// Returns the world with a tenth of what SQS lets be in flight.
fn tenth(mut world: ModelWorld) -> ModelWorld {
    for queue in world.queues() {
        queue.in_flight /= 10;
    }
    world.believed_limit /= 10;
    world
}

/// An outage of three days at ten a second, a tenth of it: one letter a second, and a tenth of what SQS lets be in flight.
#[test]
#[ignore = "prints what becomes of the letters with a requeue and without, with the list and without"]
#[expect(clippy::print_stdout, reason = "that is what it is for")]
fn an_outage_of_three_days() {
    for (spill, listed) in [(false, true), (false, false), (true, true), (true, false)] {
        let setup = RecoverySetup { spill, listed, ..RecoverySetup::outage(10, 3 * DAY) };
        let counts = tenth(setup.world()).count().journal.counts;
        println!("requeue {spill}, list {listed}: {} of {} delivered", counts.delivered, setup.letters);
    }
}

/// An outage of a day at ten a second, a tenth of it as above. At the rate of two instances, some 220 a second, its backlog takes
/// seven minutes.
#[test]
#[ignore = "prints how soon the letters of a day arrive, with a requeue and without"]
#[expect(clippy::print_stdout, reason = "that is what it is for")]
fn an_outage_of_a_day_with_a_requeue() {
    for (spill, listed) in [(false, true), (true, true), (true, false)] {
        let setup = RecoverySetup { spill, listed, ..RecoverySetup::outage(10, DAY) };
        println!("requeue {spill}, list {listed}: {:?}", setup.toll_of(&tenth(setup.world())));
    }
}

/// Of an endpoint that is up and down for five minutes each, whatever the instance that sees it.
#[test]
fn a_topic_is_told_in_turn_that_an_endpoint_is_down_and_back() {
    for instances in [1, 2, 8] {
        let flaps = (0..18).map(|turn| (turn * 10 * MINUTE, turn * 10 * MINUTE + 5 * MINUTE)).collect();
        let setup = RecoverySetup { outages: flaps, instances, ..RecoverySetup::outage(10, 3 * HOUR) };
        let world = ModelWorld { told: true, ..setup.world() };
        let story = world.live();
        recovery::nobody_is_told_too_often(&world, &story).unwrap();
        let mut changes = story.journal.changes;
        changes.sort_by_key(|change| change.at);
        let turns: Vec<_> = changes.iter().map(recovery::is_down).collect();
        let expected: Vec<_> = (0..turns.len()).map(|turn| turn % 2 == 0).collect();
        assert_eq!(turns, expected, "{instances}");
        assert!((4..=24).contains(&turns.len()), "{instances}: {} notices in three hours", turns.len());
        for change in changes {
            let least = u64::from(!recovery::is_down(&change));
            assert!(change.waiting.is_some_and(|count| count >= least), "{instances}: {change:?}");
        }
    }
}

/// A few letters whose next retry is hours away: one of them asks every ten minutes.
#[test]
fn scouts_find_out_within_minutes_that_an_endpoint_is_back() {
    for hours in [5, 9, 13, 19] {
        let toll = RecoverySetup::few(hours).toll();
        assert!(toll.first_after < 10 * MINUTE + SECOND && toll.last_after < MINUTE, "{hours} h: {toll:?}");
        assert_eq!(toll.delivered, 3, "{toll:?}");
        // Twelve retries each, and a scout of each of two instances every ten minutes.
        let most = 36 + 12 * u64::try_from(hours + 1).unwrap();
        assert!(toll.attempts <= most, "{hours} h: {toll:?}");
    }
}

/// Letters for which a queue has no room go from requeue to requeue, and are hidden there when there is room again.
#[test]
fn letters_that_moved_before_they_were_hidden_arrive_with_the_others() {
    // Some move when the endpoint is back and come a quarter of an hour later; of the second a moment after that.
    for per_ten_seconds in [1, 2] {
        let setup = RecoverySetup { spill: true, ..RecoverySetup::outage(per_ten_seconds, 5 * HOUR) };
        let mut world = setup.world();
        for queue in world.queues() {
            queue.in_flight = 400;
        }
        world.believed_limit = 400;
        let toll = setup.toll_of(&world);
        assert_eq!(toll.delivered, setup.letters, "none is delivered twice: {toll:?}");
        assert!(toll.last_after < 16 * MINUTE, "{toll:?}");
    }
}
