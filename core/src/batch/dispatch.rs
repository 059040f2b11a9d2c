//! Which requests begin when: at their turn, when a place is free, and only if they are likely to end in time.
//!
//! A batch becomes some requests. Whoever makes them asks [`Dispatch`] which begin now, and tells it which have ended.

use std::collections::VecDeque;
use std::time::Duration;

use super::calls::CallTimes;
use super::time::Window;
use crate::arn::Arn;
use crate::endpoint::Endpoint;

/// Requests under way at once: a thousand letters, which need not wait for each other then.
pub const CONCURRENT_REQUESTS: usize = 100;

/// Of these, requests to functions and web servers: their letters go one by one, and a function with few instances, or a
/// server that has just come back, answers too many at once by failing them.
pub const CONCURRENT_SINGLES: usize = 16;

/// A request that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The endpoint.
    pub to: Endpoint,
    /// Its turn, counted as the window is.
    pub turn: Duration,
    /// Whether it waits until the function that it calls has ended.
    pub waits: bool,
}

/// What becomes of a request now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// It begins.
    Now,
    /// It would not end in time, so it is not made.
    TooLate,
}

/// The requests of one round of a batch.
#[derive(Debug)]
pub struct Dispatch {
    window: Window,
    /// The time that a call may take while nothing is known of its function.
    share: Duration,
    requests: Vec<Request>,
    /// Requests to functions and web servers that wait, by their turns.
    singles: VecDeque<usize>,
    /// All other requests that wait, by their turns.
    others: VecDeque<usize>,
    under_way: usize,
    singles_under_way: usize,
}

impl Request {
    /// The function that it waits for, where it does.
    fn function(&self) -> Option<&Arn> {
        match &self.to {
            Endpoint::Function(function) if self.waits => Some(function),
            _ => None,
        }
    }
}

impl Dispatch {
    /// The requests of a round, none of which is under way. The window is counted from the point from which `now` and the
    /// turns are.
    #[must_use]
    pub fn new(requests: Vec<Request>, window: Window, now: Duration) -> Self {
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.sort_by_key(|request| requests[*request].turn);
        let alone = |request: &usize| goes_alone(&requests[*request].to);
        let (singles, others): (VecDeque<_>, VecDeque<_>) = order.into_iter().partition(alone);
        let share = share(window.end.saturating_sub(now), singles.len());
        Self { window, share, requests, singles, others, under_way: 0, singles_under_way: 0 }
    }

    /// Returns the requests whose turn and place have come.
    pub fn poll(&mut self, now: Duration, calls: &mut CallTimes) -> Vec<(usize, Begin)> {
        let mut begun = Vec::new();
        while self.under_way < CONCURRENT_REQUESTS {
            let due = |one: &&usize| self.requests[**one].turn <= now;
            let other = self.others.front().filter(due).copied();
            let has_place = self.singles_under_way < CONCURRENT_SINGLES;
            let single = self.singles.front().filter(|_| has_place).filter(due).copied();
            // Whose turn came first, so that a crowd of one kind does not keep the other waiting.
            let earlier = |one: usize| (self.requests[one].turn, one);
            let next = match (other, single) {
                (Some(other), Some(single)) if earlier(single) < earlier(other) => self.singles.pop_front(),
                (Some(_), _) => self.others.pop_front(),
                (None, Some(_)) => self.singles.pop_front(),
                (None, None) => None,
            };
            let Some(request) = next else { break };
            if self.begins(request, now, calls) {
                self.under_way += 1;
                self.singles_under_way += usize::from(goes_alone(&self.requests[request].to));
                begun.push((request, Begin::Now));
            } else {
                begun.push((request, Begin::TooLate));
            }
        }
        begun
    }

    /// Whether a request begins now, or would not end in time.
    fn begins(&self, request: usize, now: Duration, calls: &mut CallTimes) -> bool {
        let request = &self.requests[request];
        // A round that is late has half of its own time for calls that are short. One that waits for its function may
        // take as long as the round before.
        let start = request.function().map_or(self.window.start, |_| self.window.since);
        let in_time = now < Window { start, ..self.window }.latest_start(&request.to);
        let fits = |function| calls.begin(function, now, self.window, self.share);
        in_time && request.function().is_none_or(fits)
    }

    /// The next turn that lies ahead, where there is one.
    #[must_use]
    pub fn next_turn(&self, now: Duration) -> Option<Duration> {
        let fronts = [self.singles.front(), self.others.front()];
        fronts.into_iter().flatten().map(|one| self.requests[*one].turn).filter(|turn| *turn > now).min()
    }

    /// Takes note that a request that began has ended.
    pub fn ended(&mut self, request: usize) {
        self.under_way = self.under_way.saturating_sub(1);
        if goes_alone(&self.requests[request].to) {
            self.singles_under_way = self.singles_under_way.saturating_sub(1);
        }
    }
}

/// Whether each letter for this endpoint is a request of its own.
fn goes_alone(to: &Endpoint) -> bool {
    match to {
        Endpoint::Function(_) | Endpoint::Http(_) => true,
        Endpoint::Topic(_) | Endpoint::Queue(_) | Endpoint::Stream(_) => false,
    }
}

/// The time that each of so many requests to functions and web servers may take, if all are to be made in the whole time:
/// each place among those under way makes several in a row. Where it makes only one, half of the time must do, since
/// that one may wait for its turn.
fn share(whole: Duration, requests: usize) -> Duration {
    let in_a_row = requests.div_ceil(CONCURRENT_SINGLES).max(2);
    whole / u32::try_from(in_a_row).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn window(end: u32) -> Window {
        Window { since: Duration::ZERO, start: Duration::ZERO, end: SECOND * end }
    }

    fn to(kind: &str, number: usize, turn: u32) -> Request {
        let arn = format!("arn:aws:{kind}{number}").parse().unwrap();
        Request { to: Endpoint::of_arn(arn).unwrap(), turn: SECOND * turn, waits: false }
    }

    fn queue(number: usize, turn: u32) -> Request {
        to("sqs:eu-central-1:123456789012:q", number, turn)
    }

    fn function(number: usize, turn: u32) -> Request {
        to("lambda:eu-central-1:123456789012:function:f", number, turn)
    }

    fn begun(dispatch: &mut Dispatch, now: u32) -> Vec<usize> {
        let polled = dispatch.poll(SECOND * now, &mut CallTimes::default());
        polled.into_iter().filter(|(_, begin)| *begin == Begin::Now).map(|(request, _)| request).collect()
    }

    #[test]
    fn requests_begin_at_their_turn() {
        let mut dispatch =
            Dispatch::new(vec![queue(0, 5), queue(1, 0), function(2, 3)], window(60), Duration::ZERO);
        assert_eq!(begun(&mut dispatch, 0), [1]);
        assert_eq!(dispatch.next_turn(Duration::ZERO), Some(SECOND * 3));
        assert_eq!(begun(&mut dispatch, 4), [2]);
        assert_eq!(begun(&mut dispatch, 5), [0]);
        assert_eq!(dispatch.next_turn(SECOND * 5), None);
    }

    #[test]
    fn so_many_are_under_way_and_no_more() {
        let queues = (0..150).map(|number| queue(number, 0));
        let requests = queues.chain((0..40).map(|number| function(number, 0)));
        let mut dispatch = Dispatch::new(requests.collect(), window(60), Duration::ZERO);
        let first = begun(&mut dispatch, 0);
        assert_eq!(first.len(), CONCURRENT_REQUESTS);
        for request in first {
            dispatch.ended(request);
        }
        let second = begun(&mut dispatch, 0);
        let singles = second.iter().filter(|request| **request >= 150).count();
        assert_eq!((second.len(), singles), (50 + CONCURRENT_SINGLES, CONCURRENT_SINGLES));
        assert_eq!(begun(&mut dispatch, 0), [] as [usize; 0]);
        dispatch.ended(second.into_iter().find(|request| *request >= 150).unwrap());
        assert_eq!(begun(&mut dispatch, 0).len(), 1);
    }

    #[test]
    fn a_crowd_of_one_kind_does_not_keep_the_other_waiting() {
        let crowd = (0..200).map(|number| queue(number, 5));
        let requests = crowd.chain([function(0, 4)]).collect();
        let mut dispatch = Dispatch::new(requests, window(60), Duration::ZERO);
        assert!(begun(&mut dispatch, 5).contains(&200));
    }

    #[test]
    fn what_would_not_end_in_time_is_not_made_and_takes_no_place() {
        let mut dispatch = Dispatch::new(vec![queue(0, 57), queue(1, 58)], window(60), Duration::ZERO);
        assert_eq!(begun(&mut dispatch, 57), [0]);
        assert_eq!(dispatch.poll(SECOND * 58, &mut CallTimes::default()), [(1, Begin::TooLate)]);
    }

    #[test]
    fn the_time_is_shared_by_the_calls_that_a_place_makes_in_a_row() {
        for (requests, expected) in
            [(0, 12), (1, 12), (16, 12), (17, 12), (32, 12), (33, 8), (48, 8), (160, 2)]
        {
            assert_eq!(share(SECOND * 24, requests).as_secs(), expected, "{requests}");
        }
    }

    #[test]
    fn a_call_that_waits_begins_only_if_the_longest_lately_still_fits() {
        let call = |turn| Request { waits: true, ..function(0, turn) };
        let mut calls = CallTimes::default();
        let mut dispatch = Dispatch::new(vec![call(1), call(2), call(30)], window(40), SECOND);
        assert_eq!(dispatch.poll(SECOND, &mut calls), [(0, Begin::Now)]);
        let Endpoint::Function(arn) = call(0).to else { unreachable!() };
        calls.ended(&arn, SECOND * 15, super::super::calls::Ended::Ran, SECOND * 16);
        assert_eq!(dispatch.poll(SECOND * 16, &mut calls), [(1, Begin::Now)]);
        assert_eq!(dispatch.poll(SECOND * 30, &mut calls), [(2, Begin::TooLate)]);
    }
}
