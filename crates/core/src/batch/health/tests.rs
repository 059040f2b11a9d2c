use std::time::Duration;

use super::endpoint_health::{ASKS_IN_A_ROW, RequestAdmission, RequestCandidate};
use super::health_change::HealthChange;
use super::hung_questions::LookupQuestion;
use super::questions::{QuestionEnd, QuestionTurn};
use super::table::{Health, MAX_KEPT};
use crate::batch::action::SendResult;
use crate::batch::purpose::CONCURRENT_SINGLES;
use crate::endpoint::Endpoint;
use crate::failure::{FUNCTION_ERROR, Failure, FailureClass};

const SECOND: Duration = Duration::from_secs(1);
const MAX_LETTER_WAIT: Duration = Duration::from_mins(10);
const ONE: RequestCandidate =
    RequestCandidate { last: false, longest: MAX_LETTER_WAIT, under_way: 0, slots: CONCURRENT_SINGLES };

fn server(number: usize) -> Endpoint {
    let url = format!("https://server-{number}.example/");
    Endpoint::Http(crate::endpoint::HttpUrl::parse(&url).unwrap())
}

fn failure() -> SendResult {
    SendResult::Failed(Failure::ours(FailureClass::Transient, "Timeout"))
}

/// One server, and the requests that are made to it.
#[derive(Default)]
struct HealthScenario {
    health: Health,
    now: Duration,
}

impl HealthScenario {
    fn at(mut self, seconds: u64) -> Self {
        self.now = Duration::from_secs(seconds);
        self
    }

    fn asks(&self, last: bool, under_way: usize) -> RequestAdmission {
        self.asks_about(0, RequestCandidate { last, under_way, ..ONE })
    }

    fn asks_about(&self, number: usize, attempt: RequestCandidate) -> RequestAdmission {
        self.health.admit(&server(number), attempt, self.now)
    }

    /// Makes a request that takes so long. The endpoint must admit it.
    fn makes(mut self, took: Duration, answer: &SendResult) -> Self {
        let RequestAdmission::Begins(limit) = self.asks(false, 0) else {
            panic!("{:?}", self.asks(false, 0))
        };
        self.health.begins(&server(0), self.now);
        let began = self.now;
        self.now += limit.map_or(took, |limit| limit.min(took));
        self.health.ended(&server(0), began, std::slice::from_ref(answer), self.now);
        self
    }

    fn takes(self, took: Duration) -> Self {
        self.makes(took, &SendResult::Accepted)
    }

    fn hangs(self) -> Self {
        self.makes(SECOND * 15, &failure())
    }

    fn changes(&mut self) -> Vec<HealthChange> {
        self.health.changes().into_iter().map(|(_, change)| change).collect()
    }
}

#[test]
fn an_endpoint_that_nobody_knows_gets_a_quarter_of_the_places() {
    let story = HealthScenario::default();
    assert_eq!(
        (story.asks(false, 3), story.asks(false, 4)),
        (RequestAdmission::Begins(None), RequestAdmission::Waits)
    );
    let story = story.takes(SECOND);
    assert_eq!(
        (story.asks(false, 15), story.asks(false, 16)),
        (RequestAdmission::Begins(None), RequestAdmission::Waits)
    );
}

#[test]
fn one_time_out_is_paid_and_then_the_endpoint_is_left_alone_for_forty_seconds() {
    let mut story = HealthScenario::default().hangs();
    let SendResult::Failed(failure) = failure() else { unreachable!() };
    assert_eq!(story.changes(), [HealthChange::Down { failure, pause: SECOND * 40 }]);
    for last in [false, true] {
        assert_eq!(story.asks(last, 0), RequestAdmission::LeftOut(SECOND * 40));
    }
    let story = story.at(54);
    assert_eq!(story.asks(false, 0), RequestAdmission::LeftOut(SECOND));
    let story = story.at(55);
    assert_eq!(story.asks(false, 0), RequestAdmission::Begins(Some(SECOND * 3)));
    assert_eq!(story.asks(false, 1), RequestAdmission::Waits);
}

#[test]
fn failures_at_once_are_gone_on_with_until_nothing_is_left_to_pay_them() {
    let fails = |mut story: HealthScenario, times| {
        for _ in 0..times {
            story = story.makes(SECOND / 10, &failure());
        }
        story
    };
    // Thirty seconds are saved at first, and those that pass earn one and a half.
    let mut story = fails(HealthScenario::default(), 300);
    assert_eq!((story.asks(false, 0), story.changes()), (RequestAdmission::Begins(None), Vec::new()));
    let mut story = fails(story, 16);
    assert_eq!((story.asks(false, 0), story.changes().len()), (RequestAdmission::LeftOut(SECOND * 2), 1));
    let later = story.now + SECOND * 2;
    story.now = later;
    assert!(
        matches!(story.asks(false, 0), RequestAdmission::Begins(Some(_))),
        "it has rested, and something is left"
    );
}

#[test]
fn all_endpoints_share_what_is_left_and_those_at_once_are_charged_once() {
    let mut story = HealthScenario::default();
    for began in [0, 15, 30] {
        story.now = SECOND * (began + 15);
        for number in 0..10 {
            story.health.ended(&server(number), SECOND * began, &[failure()], story.now);
        }
    }
    // Forty-five seconds were spent: a quarter of an hour pays them, ten minutes of which were saved.
    assert!(matches!(story.asks_about(0, ONE), RequestAdmission::LeftOut(_)));
    assert_eq!(story.asks_about(99, ONE), RequestAdmission::Begins(Some(SECOND * 3)), "nobody knows it");
    let story = story.at(314);
    assert_eq!(story.asks_about(0, ONE), RequestAdmission::LeftOut(Duration::ZERO), "it has rested");
    let story = story.at(316);
    assert!(matches!(story.asks_about(0, ONE), RequestAdmission::Begins(Some(_))));
    assert_eq!(story.asks_about(99, ONE), RequestAdmission::Begins(None));
}

#[test]
fn trials_of_an_endpoint_that_is_down_cost_a_twentieth_of_the_time() {
    let (mut story, mut cost) = (HealthScenario::default().hangs(), Duration::ZERO);
    while story.now < SECOND * 7_200 {
        let before = story.now;
        if matches!(story.asks(false, 0), RequestAdmission::Begins(_)) {
            story = story.hangs();
            cost += story.now.saturating_sub(before);
        }
        story.now += SECOND;
    }
    let share = cost.div_duration_f64(story.now);
    assert!((0.04..0.055).contains(&share), "{share}");
}

#[test]
fn every_second_trial_is_twice_as_long_and_the_first_after_one_that_is_taken_is_short_again() {
    let mut story = HealthScenario::default().hangs();
    for limit in [3, 6, 3, 12, 3] {
        story.now += SECOND * 600;
        assert_eq!(story.asks(false, 0), RequestAdmission::Begins(Some(SECOND * limit)));
        story = story.hangs();
    }
    story.now += SECOND * 600;
    let story = story.takes(SECOND / 10);
    assert_eq!(story.asks(false, 0), RequestAdmission::Begins(Some(SECOND)), "it was fast");
}

#[test]
fn an_endpoint_that_recovers_is_found_by_the_next_trial_that_is_long_enough() {
    // The trials of a server that was never seen working, and how long each may take.
    let (mut story, mut trials) = (HealthScenario::default().hangs(), Vec::new());
    while story.now < SECOND * 14_400 {
        if let RequestAdmission::Begins(Some(limit)) = story.asks(false, 0) {
            trials.push((story.now, limit));
            story = story.hangs();
        }
        story.now += SECOND;
    }
    // It recovers just after a trial has begun.
    let longest = |takes| {
        let long_enough = trials.iter().filter(|(_, limit)| takes < *limit).map(|(began, _)| *began);
        let early =
            trials.iter().map(|(recovers, _)| *recovers).filter(|recovers| *recovers < SECOND * 10_000);
        let waits = early.map(|recovers| {
            let found = long_enough.clone().find(|began| *began > recovers).unwrap() + takes;
            found.saturating_sub(recovers)
        });
        waits.max().unwrap()
    };
    for (tenths, most) in [(1, 245), (29, 250), (30, 315), (59, 320), (60, 510), (119, 515)] {
        let longest = longest(SECOND * tenths / 10);
        assert!(longest <= SECOND * most, "{tenths}: {longest:?}");
    }
}

#[test]
fn last_retries_get_their_full_time_and_share_it() {
    let story = HealthScenario::default().hangs().at(60);
    assert_eq!(
        (story.asks(true, 0), story.asks(true, 11)),
        (RequestAdmission::Begins(None), RequestAdmission::Begins(None))
    );
    assert_eq!(story.asks(true, 12), RequestAdmission::Waits);
    // Nothing is left for them once others have spent it.
    let mut story = story;
    story.health.ended(&server(1), SECOND * 60, &[failure()], SECOND * 100);
    story.now = SECOND * 100;
    assert_eq!(story.asks(true, 0), RequestAdmission::LeftOut(Duration::ZERO));
}

#[test]
fn an_endpoint_that_recovers_goes_on_though_others_have_spent_everything() {
    let mut story = HealthScenario::default().hangs().at(60).takes(SECOND / 10);
    story.health.ended(&server(1), story.now, &[failure()], story.now + SECOND * 60);
    story.now += SECOND * 60;
    assert!(matches!(story.asks(false, 1), RequestAdmission::Begins(Some(_))));
    assert_eq!(story.asks(true, 1), RequestAdmission::Begins(Some(SECOND * 3)), "in a short time as well");
    // One that is known to need more has it.
    let mut slow = HealthScenario::default().takes(SECOND * 20);
    slow.health.ended(&server(1), slow.now, &[failure()], slow.now + SECOND * 60);
    assert_eq!(slow.asks(false, 0), RequestAdmission::Begins(Some(SECOND * 60)));
}

#[test]
fn an_endpoint_that_asks_for_it_is_left_alone_for_the_longest_delay_of_each_letter_at_most() {
    for (asked, waits) in [(7, 7), (300, 300), (100_000, 600), (u64::MAX, 600)] {
        let mut story = HealthScenario::default().makes(SECOND / 100, &busy(asked));
        let admits = |story: &HealthScenario, longest| {
            story.asks_about(0, RequestCandidate { longest: SECOND * longest, ..ONE })
        };
        for longest in [5, 20, 600] {
            let expected = SECOND * waits.min(longest);
            assert_eq!(admits(&story, longest), RequestAdmission::LeftOut(expected), "{asked} {longest}");
        }
        // Another request that was under way does not change that.
        story.health.ended(&server(0), Duration::ZERO, &[failure()], story.now);
        assert_eq!(admits(&story, 600), RequestAdmission::LeftOut(SECOND * waits));
        // A letter of a short schedule tries an endpoint that others still leave alone.
        story.now += SECOND * 6;
        assert_eq!(admits(&story, 5), RequestAdmission::Begins(Some(SECOND * 3)));
    }
    assert_eq!(
        HealthScenario::default().makes(SECOND / 100, &busy(0)).asks(false, 0),
        RequestAdmission::Begins(None)
    );
}

#[test]
fn a_slow_endpoint_gets_a_tenth_of_the_time_while_batches_are_full_and_others_wait() {
    let fast = |story: &mut HealthScenario| {
        story.health.ended(&server(1), story.now, &[SendResult::Accepted], story.now);
    };
    let mut story = HealthScenario::default();
    story.health.batch_begins(10);
    // Alone it keeps nobody waiting, so that it costs nothing.
    story = story.takes(SECOND * 8).takes(SECOND * 8);
    fast(&mut story);
    assert_eq!(story.asks(false, 0), RequestAdmission::Begins(None));
    // Six seconds were saved, and those that passed have earned some.
    let mut story = story.takes(SECOND * 8);
    assert_eq!(story.asks(false, 0), RequestAdmission::PutOff);
    story.health.batch_begins(9);
    assert_eq!(story.asks(false, 0), RequestAdmission::Begins(None), "batches are not full");
    story.health.batch_begins(10);
    assert_eq!(story.at(24 + 19).asks(false, 0), RequestAdmission::PutOff);
}

#[test]
fn a_slow_endpoint_shows_once_a_minute_whether_it_still_is() {
    let mut story = HealthScenario::default().takes(SECOND * 8).at(69);
    story.health.batch_begins(10);
    story.health.ended(&server(1), story.now, &[SendResult::Accepted], story.now);
    story.health.worked_slowly(Duration::ZERO, story.now);
    assert!(story.health.slow_must_wait(story.now));
    assert_eq!(story.asks(false, 0), RequestAdmission::Begins(None));
    let mut story = story.takes(SECOND / 10);
    story.health.worked_slowly(Duration::ZERO, story.now);
    assert_eq!(story.asks(false, 0), RequestAdmission::Begins(None), "it is fast");
}

#[test]
fn an_endpoint_that_works_goes_on_after_a_hiccup_though_nothing_is_left() {
    let mut story = HealthScenario::default().takes(SECOND / 10);
    story.health.ended(&server(1), story.now, &[failure()], story.now + SECOND * 40);
    story.now += SECOND * 40;
    let mut story = story.makes(SECOND / 50, &failure()).makes(SECOND * 2, &failure());
    assert!(
        matches!(story.asks(false, 3), RequestAdmission::Begins(_)) && story.changes().len() == 1,
        "the other one"
    );
    // Not for ever.
    story.now += SECOND * 60;
    let story = story.makes(SECOND / 50, &failure());
    assert!(matches!(story.asks(false, 0), RequestAdmission::LeftOut(_)));
}

#[test]
fn ten_letters_of_a_slow_endpoint_are_put_off_to_the_same_minute_and_more_to_the_next() {
    let mut story = HealthScenario::default().takes(SECOND * 8);
    let minutes: Vec<_> = (0..25).map(|_| story.health.put_off(&server(0), story.now)).collect();
    assert_eq!(minutes, [vec![0; 10], vec![1; 10], vec![2; 5]].concat());
    assert_eq!(story.health.put_off(&server(1), story.now), 0);
}

#[test]
fn a_question_that_hung_is_asked_after_its_rest_and_from_what_is_left() {
    let question = |number: usize| {
        let arn = format!("arn:aws:sns:eu-central-1:123456789012:payments:{number}");
        LookupQuestion::Subscription(arn.parse().unwrap())
    };
    let mut health = Health::default();
    let asking = |health: &Health, now: u64| health.asking(&question(0), Duration::from_secs(now));
    // One that is asked once more at once is paid, and not remembered.
    health.asked([(question(0), QuestionEnd::CutOff)], Duration::ZERO, SECOND);
    assert_eq!(asking(&health, 1), QuestionTurn::AtOnce);
    health.asked(
        [(question(0), QuestionEnd::Failed), (question(1), QuestionEnd::Answered)],
        SECOND,
        SECOND * 16,
    );
    assert_eq!((asking(&health, 55), asking(&health, 56)), (QuestionTurn::NotNow, QuestionTurn::Later));
    assert_eq!(health.asking(&question(1), SECOND * 16), QuestionTurn::AtOnce);
    // Sixteen seconds are spent, and fifteen more.
    health.asked([(question(0), QuestionEnd::Failed)], SECOND * 60, SECOND * 75);
    assert_eq!(
        health.time_to_ask(QuestionTurn::Later, SECOND * 75),
        SECOND * 15,
        "three seconds were earned"
    );
    health.asked([(question(0), QuestionEnd::Failed)], SECOND * 120, SECOND * 135);
    assert_eq!(
        (asking(&health, 200), health.time_to_ask(QuestionTurn::Later, SECOND * 200)),
        (QuestionTurn::NotNow, SECOND * 3)
    );
    assert_eq!(asking(&health, 500), QuestionTurn::Later);
    health.asked([(question(0), QuestionEnd::Answered)], SECOND * 500, SECOND * 501);
    assert_eq!(asking(&health, 501), QuestionTurn::AtOnce);
    // What fails at once is asked again, and each attempt fails.
    health.asked([(question(0), QuestionEnd::Failed)], SECOND * 600, SECOND * 600 + SECOND / 10);
    assert_eq!(asking(&health, 601), QuestionTurn::AtOnce);
}

#[test]
fn a_function_that_fails_by_itself_works() {
    let own = SendResult::Failed(Failure::ours(FailureClass::Transient, FUNCTION_ERROR));
    let mut story = HealthScenario::default();
    for _ in 0..10 {
        story = story.makes(SECOND * 5, &own);
    }
    assert_eq!(story.asks(false, 15), RequestAdmission::Begins(None));
}

#[test]
fn after_a_trial_that_is_taken_twice_as_many_go_each_time() {
    let mut story = HealthScenario::default().hangs().at(60);
    story.changes();
    for most in [1, 2, 4, 8] {
        assert_eq!(story.asks(false, most), RequestAdmission::Waits, "{most}");
        assert!(matches!(story.asks(false, most - 1), RequestAdmission::Begins(Some(_))), "{most}");
        story = story.takes(SECOND / 10);
    }
    assert_eq!(story.asks(false, 15), RequestAdmission::Begins(None));
    assert_eq!(story.changes(), [HealthChange::Trying, HealthChange::Up]);
}

#[test]
fn trials_that_fail_are_not_told() {
    let mut story = HealthScenario::default().hangs();
    story.changes();
    let mut story = story.at(60).hangs().at(110).hangs();
    assert_eq!(story.changes(), []);
}

#[test]
fn a_trial_takes_three_times_as_long_as_the_slowest_that_was_taken() {
    for (slowest, expected) in [(0, 1.0), (1, 3.0), (4, 12.0)] {
        let story = HealthScenario::default().takes(SECOND * slowest).hangs();
        let then = story.now.as_secs() + 41;
        let RequestAdmission::Begins(Some(limit)) = story.at(then).asks(false, 0) else { panic!() };
        // The expected time is lower by what is forgotten in a minute.
        assert!((expected * 0.9..=expected).contains(&limit.as_secs_f64()), "{limit:?}");
    }
}

#[test]
fn last_retries_wait_for_no_trial() {
    let mut story = HealthScenario::default().hangs().at(60);
    story.health.begins(&server(0), story.now);
    assert_eq!(
        (story.asks(false, 1), story.asks(true, 1)),
        (RequestAdmission::Waits, RequestAdmission::Begins(None))
    );
    let story = story.takes(SECOND);
    assert_eq!(story.asks(true, 0), RequestAdmission::Begins(None));
}

#[test]
fn a_time_out_among_messages_that_are_taken_slows_an_endpoint_and_no_more() {
    let mut story = HealthScenario::default().takes(SECOND / 10).at(100).takes(SECOND / 10);
    let began = SECOND * 90;
    story.health.ended(&server(0), began, &[failure()], SECOND * 105);
    let story = story.at(105);
    assert!(matches!(story.asks(false, 1), RequestAdmission::Begins(Some(_))));
    assert_eq!(story.asks(false, 2), RequestAdmission::Waits);
    let mut story = story.takes(SECOND / 10).takes(SECOND / 10).takes(SECOND / 10);
    assert_eq!(story.asks(false, 15), RequestAdmission::Begins(None));
    assert_eq!(story.changes(), []);
}

#[test]
fn a_message_that_is_refused_for_good_shows_that_the_endpoint_lives() {
    let refused = SendResult::Failed(Failure::ours(FailureClass::Permanent, "Http400"));
    let mut story = HealthScenario::default().hangs().at(60).makes(SECOND / 10, &refused);
    assert_eq!(story.changes().last(), Some(&HealthChange::Trying));
    // Any accepted entry of a batch shows the same.
    let mut other = HealthScenario::default().hangs().at(60);
    other.health.begins(&server(0), other.now);
    let began = other.now;
    other.health.ended(&server(0), began, &[failure(), SendResult::Accepted], other.now + SECOND);
    assert_eq!(other.changes().last(), Some(&HealthChange::Trying));
}

fn busy(seconds: u64) -> SendResult {
    let throttled = Failure::ours(FailureClass::Throttling, "Http429");
    SendResult::Failed(Failure { retry_after: Some(seconds), ..throttled })
}

#[test]
fn an_endpoint_that_takes_letters_and_asks_one_of_them_to_wait_is_not_left_alone() {
    let mut story = HealthScenario::default();
    for _ in 0..100 {
        story = story.takes(SECOND / 100).makes(SECOND / 100, &busy(300)).makes(SECOND / 100, &busy(300));
    }
    assert_eq!((story.asks(false, 15), story.changes()), (RequestAdmission::Begins(None), Vec::new()));
    // It means all letters if it says so to one after the other, or long after it accepted any.
    let mut all = story;
    for _ in 2..ASKS_IN_A_ROW {
        assert_eq!(all.asks(false, 15), RequestAdmission::Begins(None));
        all = all.makes(SECOND / 100, &busy(300));
    }
    assert_eq!(all.asks(false, 0), RequestAdmission::LeftOut(SECOND * 300));
    let later = HealthScenario::default().takes(SECOND).at(61).makes(SECOND / 100, &busy(300));
    assert_eq!(later.asks(false, 0), RequestAdmission::LeftOut(SECOND * 300));
}

#[test]
fn an_endpoint_that_takes_a_letter_after_it_asked_to_be_left_alone_is_tried() {
    let mut story = HealthScenario::default().makes(SECOND, &busy(300));
    assert_eq!(story.asks(false, 0), RequestAdmission::LeftOut(SECOND * 300));
    let began = Duration::ZERO;
    story.health.ended(&server(0), began, &[SendResult::Accepted], story.now);
    let story = story.at(25);
    assert!(matches!(story.asks(false, 0), RequestAdmission::Begins(Some(_))));
    assert_eq!(story.asks(false, 1), RequestAdmission::Waits);
}

#[test]
fn what_began_before_an_endpoint_went_down_does_not_bring_it_back() {
    let mut story = HealthScenario::default().hangs();
    let began = Duration::ZERO;
    story.health.ended(&server(0), began, &[SendResult::Accepted], story.now);
    assert_eq!(story.asks(false, 0), RequestAdmission::LeftOut(SECOND * 40));
}

#[test]
fn so_many_endpoints_are_remembered_and_no_more() {
    let mut health = Health::default();
    for number in 0..=MAX_KEPT {
        let now = SECOND * u32::try_from(number).unwrap();
        // The first is down.
        let answer = if number == 0 { failure() } else { SendResult::Accepted };
        health.ended(&server(number), now, &[answer], now + SECOND * 2);
    }
    let is_kept = |number| health.endpoints.contains_key(&server(number));
    assert_eq!((health.endpoints.len(), is_kept(0), is_kept(1)), (MAX_KEPT, true, false));
}

/// It hung until the 15th second, and would be left alone for 40 more.
#[test]
fn an_endpoint_that_has_taken_a_letter_of_another_instance_is_left_alone_no_longer() {
    let story = || HealthScenario::default().hangs().at(20);
    assert!(matches!(story().asks(false, 0), RequestAdmission::LeftOut(_)));
    let told = |at: u64| {
        let mut story = story();
        story.health.is_back(&server(0).name(), SECOND * u32::try_from(at).unwrap());
        assert!(!story.health.is_up_by_name(&server(0).name()), "it gets a few at a time");
        story.asks(false, 0)
    };
    assert!(matches!(told(18), RequestAdmission::Begins(Some(_))));
    assert!(matches!(told(14), RequestAdmission::LeftOut(_)), "it has failed since");
    let mut other = story();
    other.health.is_back(&server(1).name(), SECOND * 18);
    assert!(matches!(other.asks(false, 0), RequestAdmission::LeftOut(_)));
}
