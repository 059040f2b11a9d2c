use std::time::Duration;

use super::known::{ASKS_IN_A_ROW, Admission, Change, Made};
use super::table::{Health, MAX_KEPT};
use crate::batch::action::Sent;
use crate::batch::purpose::{CONCURRENT_SINGLES, Purpose};
use crate::endpoint::Endpoint;
use crate::failure::{FUNCTION_ERROR, Failure, FailureClass};

const SECOND: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(10);
const SLOTS: usize = CONCURRENT_SINGLES;

fn server(number: usize) -> Endpoint {
    let url = format!("https://server-{number}.example/");
    Endpoint::Http(crate::endpoint::HttpUrl::parse(&url).unwrap())
}

const LAST: Purpose = Purpose::Retry { last: true, overridden: false, longest: LONGEST };

fn retry(longest: Duration) -> Purpose {
    Purpose::Retry { last: false, overridden: false, longest }
}

fn on_override(longest: Duration) -> Purpose {
    Purpose::Retry { last: false, overridden: true, longest }
}

fn failure() -> Sent {
    Sent::Failed(Failure::ours(FailureClass::Transient, "Timeout"))
}

/// One server, and the requests that are made to it.
#[derive(Default)]
struct Story {
    health: Health,
    now: Duration,
}

impl Story {
    fn at(mut self, seconds: u64) -> Self {
        self.now = Duration::from_secs(seconds);
        self
    }

    fn asks(&self, last: bool, under_way: usize) -> Admission {
        self.health.admit(&server(0), last, LONGEST, under_way, SLOTS, self.now)
    }

    /// Makes a request that takes so long. The endpoint must admit it.
    fn makes(mut self, took: Duration, answer: &Sent) -> Self {
        let Admission::Begins(limit) = self.asks(false, 0) else { panic!("{:?}", self.asks(false, 0)) };
        self.health.begins(&server(0), self.now);
        let made = Made { began: self.now, full: limit.is_none() };
        self.now += limit.map_or(took, |limit| limit.min(took));
        self.health.ended(&server(0), made, std::slice::from_ref(answer), self.now);
        self
    }

    fn takes(self, took: Duration) -> Self {
        self.makes(took, &Sent::Accepted)
    }

    fn hangs(self) -> Self {
        self.makes(SECOND * 15, &failure())
    }

    fn changes(&mut self) -> Vec<Change> {
        self.health.changes().into_iter().map(|(_, change)| change).collect()
    }
}

#[test]
fn an_endpoint_that_nobody_knows_gets_a_quarter_of_the_places() {
    let story = Story::default();
    assert_eq!((story.asks(false, 3), story.asks(false, 4)), (Admission::Begins(None), Admission::Waits));
    let story = story.takes(SECOND);
    assert_eq!((story.asks(false, 15), story.asks(false, 16)), (Admission::Begins(None), Admission::Waits));
}

#[test]
fn one_time_out_is_paid_and_then_the_endpoint_is_left_alone_for_forty_seconds() {
    let mut story = Story::default().hangs();
    let Sent::Failed(failure) = failure() else { unreachable!() };
    assert_eq!(story.changes(), [Change::Down { failure, pause: SECOND * 40 }]);
    for last in [false, true] {
        assert_eq!(story.asks(last, 0), Admission::LeftOut);
    }
    assert_eq!(story.health.wait(&server(0), retry(LONGEST), story.now), SECOND * 40);
    assert_eq!(story.health.wait(&server(1), retry(LONGEST), story.now), Duration::ZERO);
    let story = story.at(54);
    assert_eq!(story.asks(false, 0), Admission::LeftOut);
    let story = story.at(55);
    assert_eq!(story.asks(false, 0), Admission::Begins(Some(SECOND * 2)));
    assert_eq!(story.asks(false, 1), Admission::Waits);
}

#[test]
fn failures_at_once_are_gone_on_with_until_they_have_cost_three_seconds() {
    let fails = |mut story: Story, times| {
        for _ in 0..times {
            story = story.makes(SECOND / 10, &failure());
        }
        story
    };
    let story = fails(Story::default(), 29);
    assert_eq!(story.asks(false, 0), Admission::Begins(None));
    let mut story = fails(story, 1);
    assert_eq!(story.asks(false, 0), Admission::LeftOut);
    assert_eq!(story.health.wait(&server(0), retry(LONGEST), story.now), SECOND * 40);
    // After that each trial may cost a second.
    let mut story = fails(story.at(44), 10);
    assert_eq!(story.health.wait(&server(0), retry(LONGEST), story.now), SECOND * 20);
}

#[test]
fn a_function_that_fails_by_itself_works() {
    let own = Sent::Failed(Failure::ours(FailureClass::Transient, FUNCTION_ERROR));
    let mut story = Story::default();
    for _ in 0..10 {
        story = story.makes(SECOND * 5, &own);
    }
    assert_eq!(story.asks(false, 15), Admission::Begins(None));
}

#[test]
fn time_without_failures_pays_for_those_before() {
    let mut story = Story::default();
    for minute in 0..60 {
        story = story.at(60 * minute).makes(SECOND * 9 / 10, &failure());
    }
    assert_eq!(story.asks(false, 0), Admission::Begins(None));
}

#[test]
fn requests_at_the_same_time_cost_it_once() {
    let mut story = Story::default().at(100);
    for _ in 0..4 {
        let made = Made { began: story.now, full: true };
        story.health.ended(&server(0), made, &[failure()], story.now + SECOND * 9 / 10);
    }
    assert!(story.health.is_up(&server(0)));
}

#[test]
fn trials_of_an_endpoint_that_is_down_cost_a_ninth_of_the_time() {
    let (mut story, mut cost) = (Story::default().hangs(), Duration::ZERO);
    let began = story.now;
    while story.now < began + SECOND * 3_600 {
        story.now += story.health.wait(&server(0), retry(LONGEST), story.now);
        let before = story.now;
        story = story.hangs();
        cost += story.now.saturating_sub(before);
    }
    let share = cost.div_duration_f64(story.now.saturating_sub(began));
    assert!((0.05..0.115).contains(&share), "{share}");
}

#[test]
fn an_endpoint_that_answers_slowly_is_found_by_the_next_trial_that_is_long_enough() {
    // The trials of a server that was never seen working, and how long each may take.
    let (mut story, mut trials) = (Story::default().hangs(), Vec::new());
    while story.now < SECOND * 3_600 {
        story.now += story.health.wait(&server(0), retry(LONGEST), story.now);
        let Admission::Begins(limit) = story.asks(false, 0) else { panic!("{:?}", story.now) };
        trials.push((story.now, limit.unwrap_or(SECOND * 15)));
        story = story.hangs();
    }
    // It recovers just after a trial has begun.
    let longest = |takes| {
        let long_enough = trials.iter().filter(|(_, limit)| takes < *limit).map(|(began, _)| *began);
        let early =
            trials.iter().map(|(recovers, _)| *recovers).filter(|recovers| *recovers < SECOND * 3_000);
        let waits = early.map(|recovers| {
            let found = long_enough.clone().find(|began| *began > recovers).unwrap() + takes;
            found.saturating_sub(recovers)
        });
        waits.max().unwrap()
    };
    for (tenths, most) in [(1, 60), (19, 60), (30, 105), (39, 105), (79, 200), (80, 380), (140, 380)] {
        let longest = longest(SECOND * tenths / 10);
        assert!(longest <= SECOND * most, "{tenths}: {longest:?}");
    }
}

#[test]
fn the_trials_after_one_that_is_taken_are_short_again() {
    let mut story = Story::default().hangs();
    for limit in [2, 4, 2, 8, 2] {
        story.now += SECOND * 40;
        assert_eq!(story.asks(false, 0), Admission::Begins(Some(SECOND * limit)));
        story = story.hangs();
    }
    story.now += SECOND * 40;
    let mut story = story.takes(SECOND / 10).hangs();
    story.now += SECOND * 40;
    let Admission::Begins(Some(limit)) = story.asks(false, 0) else { panic!() };
    assert!(limit <= SECOND * 2, "{limit:?}");
}

#[test]
fn after_a_trial_that_is_taken_twice_as_many_go_each_time() {
    let mut story = Story::default().hangs().at(60);
    story.changes();
    for most in [1, 2, 4, 8] {
        assert_eq!(story.asks(false, most), Admission::Waits, "{most}");
        assert!(matches!(story.asks(false, most - 1), Admission::Begins(Some(_))), "{most}");
        story = story.takes(SECOND / 10);
    }
    assert_eq!(story.asks(false, 15), Admission::Begins(None));
    assert_eq!(story.changes(), [Change::Trying, Change::Up]);
}

#[test]
fn trials_that_fail_are_not_told() {
    let mut story = Story::default().hangs();
    story.changes();
    let mut story = story.at(60).hangs().at(110).hangs();
    assert_eq!(story.changes(), []);
}

#[test]
fn a_trial_takes_three_times_as_long_as_the_slowest_that_was_taken() {
    for (slowest, expected) in [(0, 1.0), (1, 3.0), (4, 12.0)] {
        let story = Story::default().takes(SECOND * slowest).hangs();
        let then = story.now.as_secs() + 41;
        let Admission::Begins(Some(limit)) = story.at(then).asks(false, 0) else { panic!() };
        // The expected time is lower by what is forgotten in a minute.
        assert!((expected * 0.9..=expected).contains(&limit.as_secs_f64()), "{limit:?}");
    }
}

#[test]
fn last_retries_wait_for_a_trial_that_may_take_its_full_time_and_share_it() {
    let story = Story::default().hangs().at(60);
    assert_eq!(story.asks(true, 0), Admission::LeftOut);
    let mut story = story.hangs();
    assert_eq!(story.health.wait(&server(0), LAST, story.now), SECOND * (315 - 62));
    let story = story.at(316);
    assert_eq!(
        (story.asks(true, 0), story.asks(true, 11)),
        (Admission::Begins(None), Admission::Begins(None))
    );
    assert_eq!(story.asks(true, 12), Admission::Waits);
    // The other retries leave the long trial to the last retries for a while.
    assert_eq!(story.asks(false, 0), Admission::Begins(Some(SECOND * 4)));
    assert_eq!(story.at(361).asks(false, 0), Admission::Begins(None));
}

#[test]
fn last_retries_go_as_soon_as_the_endpoint_takes_messages() {
    let mut story = Story::default().hangs().at(60);
    story.health.begins(&server(0), story.now);
    assert_eq!(story.asks(true, 1), Admission::Waits);
    let story = story.takes(SECOND);
    assert_eq!(story.asks(true, 0), Admission::Begins(None));
}

#[test]
fn a_time_out_among_messages_that_are_taken_slows_an_endpoint_and_no_more() {
    let mut story = Story::default().takes(SECOND / 10).at(100).takes(SECOND / 10);
    let made = Made { began: SECOND * 90, full: true };
    story.health.ended(&server(0), made, &[failure()], SECOND * 105);
    let story = story.at(105);
    assert!(matches!(story.asks(false, 1), Admission::Begins(Some(_))));
    assert_eq!(story.asks(false, 2), Admission::Waits);
    let mut story = story.takes(SECOND / 10).takes(SECOND / 10).takes(SECOND / 10);
    assert_eq!(story.asks(false, 15), Admission::Begins(None));
    assert_eq!(story.changes(), []);
}

#[test]
fn a_message_that_is_refused_for_good_shows_that_the_endpoint_lives() {
    let refused = Sent::Failed(Failure::ours(FailureClass::Permanent, "Http400"));
    let mut story = Story::default().hangs().at(60).makes(SECOND / 10, &refused);
    assert_eq!(story.changes().last(), Some(&Change::Trying));
    // Any accepted entry of a batch shows the same.
    let mut other = Story::default().hangs().at(60);
    other.health.begins(&server(0), other.now);
    let made = Made { began: other.now, full: false };
    other.health.ended(&server(0), made, &[failure(), Sent::Accepted], other.now + SECOND);
    assert_eq!(other.changes().last(), Some(&Change::Trying));
}

fn busy(seconds: u64) -> Sent {
    let throttled = Failure::ours(FailureClass::Throttling, "Http429");
    Sent::Failed(Failure { retry_after: Some(seconds), ..throttled })
}

#[test]
fn an_endpoint_that_asks_for_it_is_left_alone_for_the_longest_delay_of_each_letter_at_most() {
    for (asked, waits) in [(0, 0), (7, 7), (300, 300), (100_000, 600), (u64::MAX, 600)] {
        let mut story = Story::default().makes(SECOND / 100, &busy(asked));
        let wait = |story: &mut Story, longest| {
            story.health.wait(&server(0), retry(SECOND * longest), story.now).as_secs()
        };
        assert_eq!(wait(&mut story, 600), waits, "{asked}");
        for longest in [5, 20] {
            let until = story.health.wait(&server(0), on_override(SECOND * longest), story.now);
            assert_eq!(until.as_secs(), waits.min(longest.into()));
        }
        // Another request that was under way does not change that.
        let made = Made { began: Duration::ZERO, full: true };
        story.health.ended(&server(0), made, &[failure()], story.now + SECOND);
        assert!(wait(&mut story, 600) >= waits);
    }
}

#[test]
fn a_letter_of_a_short_schedule_tries_an_endpoint_that_others_still_leave_alone() {
    let story = Story::default().makes(SECOND / 100, &busy(300)).at(21);
    let admits =
        |story: &Story, longest| story.health.admit(&server(0), false, SECOND * longest, 0, SLOTS, story.now);
    assert_eq!(admits(&story, 300), Admission::LeftOut);
    assert_eq!(admits(&story, 20), Admission::Begins(Some(SECOND * 2)));
    let mut story = story;
    story.health.begins(&server(0), story.now);
    assert_eq!(admits(&story, 300), Admission::LeftOut);
    let made = Made { began: story.now, full: false };
    story.health.ended(&server(0), made, &[Sent::Accepted], story.now + SECOND);
    assert!(matches!(admits(&story, 300), Admission::Begins(_)), "it takes letters");
}

#[test]
fn an_endpoint_that_takes_letters_and_asks_one_of_them_to_wait_is_not_left_alone() {
    let mut story = Story::default();
    for _ in 0..100 {
        story = story.takes(SECOND / 100).makes(SECOND / 100, &busy(300)).makes(SECOND / 100, &busy(300));
    }
    assert_eq!((story.asks(false, 15), story.changes()), (Admission::Begins(None), Vec::new()));
    // It means all letters if it says so to one after the other, or long after it accepted any.
    let mut all = story;
    for _ in 2..ASKS_IN_A_ROW {
        assert_eq!(all.asks(false, 15), Admission::Begins(None));
        all = all.makes(SECOND / 100, &busy(300));
    }
    assert_eq!(all.asks(false, 0), Admission::LeftOut);
    let later = Story::default().takes(SECOND).at(61).makes(SECOND / 100, &busy(300));
    assert_eq!(later.asks(false, 0), Admission::LeftOut);
}

#[test]
fn an_endpoint_that_takes_a_letter_after_it_asked_to_be_left_alone_is_tried() {
    let mut story = Story::default().makes(SECOND, &busy(300));
    assert_eq!(story.asks(false, 0), Admission::LeftOut);
    let made = Made { began: Duration::ZERO, full: true };
    story.health.ended(&server(0), made, &[Sent::Accepted], story.now);
    let story = story.at(25);
    assert!(matches!(story.asks(false, 0), Admission::Begins(Some(_))));
    assert_eq!(story.asks(false, 1), Admission::Waits);
}

#[test]
fn what_began_before_an_endpoint_went_down_does_not_bring_it_back() {
    let mut story = Story::default().hangs();
    let made = Made { began: Duration::ZERO, full: true };
    story.health.ended(&server(0), made, &[Sent::Accepted], story.now);
    assert_eq!(story.asks(false, 0), Admission::LeftOut);
}

#[test]
fn letters_that_are_left_out_come_back_one_a_second_and_no_later_than_the_outage_has_lasted() {
    let waits = |story: &mut Story, letters| -> Vec<_> {
        (0..letters).map(|_| story.health.wait(&server(0), retry(LONGEST), story.now).as_secs()).collect()
    };
    let mut story = Story::default().hangs();
    assert_eq!(waits(&mut story, 20), (40..=55).chain([55; 4]).collect::<Vec<_>>());
    let mut story = story.at(600).hangs();
    assert_eq!(waits(&mut story, 400), (40..=340).chain([340; 99]).collect::<Vec<_>>());
    // Another outage begins afresh.
    let mut story = story.at(700).takes(SECOND).at(1_000).takes(SECOND).hangs();
    assert_eq!(waits(&mut story, 1_000).into_iter().max(), Some(40 + 15));
}

#[test]
fn letters_that_an_override_sends_come_back_in_the_minute_after_the_trial_and_evenly_over_it() {
    let mut story = Story::default().hangs();
    let mut waits = |now, letters| -> Vec<_> {
        (0..letters).map(|_| story.health.wait(&server(0), on_override(LONGEST), now).as_millis()).collect()
    };
    let now = SECOND * 15;
    assert_eq!(waits(now, 5), [40_000, 40_030, 40_060, 40_090, 40_120]);
    let waits = waits(now, 100_000);
    for second in 40..100 {
        let back = waits.iter().filter(|wait| *wait / 1_000 == second).count();
        assert!((1_600..1_750).contains(&back), "{back} after {second} s");
    }
    assert!(waits.iter().all(|wait| (40_000..=100_000).contains(wait)));
    assert_eq!(waits.iter().max(), Some(&100_000), "the whole minute");
    assert_eq!(story.health.wait(&server(1), on_override(LONGEST), now), Duration::ZERO);
    // The next trial fails as well. If the pause ends meanwhile, the letters do not come back at once.
    let mut story = story.at(55).hangs();
    let mut wait = |now| story.health.wait(&server(0), on_override(LONGEST), now).as_secs();
    assert_eq!(wait(SECOND * 57), 40);
    assert_eq!((1..1_000).map(|_| wait(SECOND * 200)).max(), Some(29));
    // Once the endpoint works they need not wait.
    let mut story = story.at(300).takes(SECOND);
    assert_eq!(story.health.wait(&server(0), on_override(LONGEST), story.now), Duration::ZERO);
}

#[test]
fn so_many_endpoints_are_remembered_and_no_more() {
    let mut health = Health::default();
    for number in 0..=MAX_KEPT {
        let now = SECOND * u32::try_from(number).unwrap();
        health.ended(&server(number), Made { began: now, full: true }, &[Sent::Accepted], now);
    }
    assert_eq!((health.endpoints.len(), health.endpoints.contains_key(&server(0))), (MAX_KEPT, false));
}
