//! The order in which requests begin: at their turn, when a place is free, if they are likely to end in time,
//! and if their endpoint is not down.
//!
//! A batch becomes some requests. [`super::SendingState`] asks [`RoundDispatch`] which of them begin now, and tells it
//! how they have ended.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::action::SendResult;
use super::health::{Health, RequestAdmission, RequestCandidate};
use super::purpose::{CONCURRENT_REQUESTS, CONCURRENT_SINGLES, RequestPurpose};
use super::time::RoundWindow;
use crate::arn::Arn;
use crate::endpoint::Endpoint;

/// A request that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DispatchRequest {
    /// The endpoint.
    pub to: Endpoint,
    /// Its turn, counted as the window is.
    pub turn: Duration,
    /// True if the request waits until the function that it calls has ended.
    pub waits: bool,
    /// The purpose.
    pub purpose: RequestPurpose,
}

/// The answer whether a request begins now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartDecision {
    /// It begins and may take this long, or its full time if this is `None`.
    Now(Option<Duration>),
    /// It would not end in time, so it is not made.
    TooLate,
    /// Its endpoint is left alone, for this time at least, so it is not made.
    LeftOut(Duration),
    /// Its endpoint is slow, so it is put off by so many full minutes and the rest of this one.
    PutOff(u32),
    /// Its letters may no longer go, so it is not made.
    Withheld,
}

/// The requests of one round of a batch.
#[derive(Debug)]
pub(super) struct RoundDispatch {
    window: RoundWindow,
    /// The time that a call may take while nothing is known of its function.
    share: Duration,
    requests: Vec<DispatchRequest>,
    lanes: Vec<EndpointLane>,
    /// The lane of each request.
    lane_of: Vec<usize>,
    /// The requests under way, with the times when they began.
    begun: HashMap<usize, Duration>,
    singles_under_way: usize,
}

/// The requests to one endpoint.
#[derive(Debug, Default)]
struct EndpointLane {
    /// The waiting requests that contain last retries, by their turns.
    last: VecDeque<usize>,
    /// The other waiting requests, by their turns.
    others: VecDeque<usize>,
    under_way: usize,
}

impl DispatchRequest {
    /// Returns the function that it waits for, if it does.
    fn function(&self) -> Option<&Arn> {
        match &self.to {
            Endpoint::Function(function) if self.waits => Some(function),
            _ => None,
        }
    }
}

impl EndpointLane {
    fn queue(&mut self, purpose: RequestPurpose) -> &mut VecDeque<usize> {
        if purpose.is_last() { &mut self.last } else { &mut self.others }
    }

    /// Returns the next requests of both kinds.
    fn fronts(&self) -> impl Iterator<Item = usize> {
        [self.last.front(), self.others.front()].into_iter().flatten().copied()
    }
}

impl RoundDispatch {
    /// Creates the dispatch of a round's requests, of which none is under way. The window, `now` and the
    /// turns are counted from the same point.
    pub(super) fn new(requests: Vec<DispatchRequest>, window: RoundWindow, now: Duration) -> Self {
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.sort_by_key(|request| requests[*request].turn);
        let mut numbers: HashMap<&Endpoint, usize> = HashMap::new();
        let (mut lanes, mut lane_of) = (Vec::<EndpointLane>::new(), vec![0; requests.len()]);
        for number in order {
            let request = &requests[number];
            let next = numbers.len();
            let lane = *numbers.entry(&request.to).or_insert(next);
            lanes.resize_with(numbers.len(), EndpointLane::default);
            lanes[lane].queue(request.purpose).push_back(number);
            lane_of[number] = lane;
        }
        let singles = requests.iter().filter(|request| goes_alone(&request.to)).count();
        let share = share(window.end.saturating_sub(now), singles);
        Self { window, share, requests, lanes, lane_of, begun: HashMap::new(), singles_under_way: 0 }
    }

    /// Returns a request whose turn and place have come, or one that is not made. `goes` says whether any
    /// letter of a request may still go. It is asked once for each request, before that counts as begun.
    pub(super) fn poll(
        &mut self,
        now: Duration,
        health: &mut Health,
        goes: impl FnOnce(usize) -> bool,
    ) -> Option<(usize, StartDecision)> {
        let (request, admission) = self.next(now, health)?;
        let DispatchRequest { to, purpose, .. } = &self.requests[request];
        let lane = &mut self.lanes[self.lane_of[request]];
        lane.queue(*purpose).pop_front();
        let begin = match admission {
            RequestAdmission::Begins(_) if !goes(request) => StartDecision::Withheld,
            RequestAdmission::Begins(limit)
                if is_in_time(&self.requests[request], self.window, self.share, now, health) =>
            {
                if *purpose != RequestPurpose::Other {
                    health.begins(to, now);
                }
                lane.under_way += 1;
                self.singles_under_way += usize::from(goes_alone(to));
                self.begun.insert(request, now);
                StartDecision::Now(limit)
            }
            RequestAdmission::Begins(_) => StartDecision::TooLate,
            RequestAdmission::PutOff => StartDecision::PutOff(health.put_off(to, now)),
            RequestAdmission::LeftOut(least) => StartDecision::LeftOut(least),
            RequestAdmission::Waits => StartDecision::LeftOut(Duration::ZERO),
        };
        Some((request, begin))
    }

    /// Returns the next request whose turn and place have come, or whose endpoint is down. The endpoint with
    /// the fewest requests under way comes first, so that many requests to one endpoint do not keep the
    /// others waiting. Among equals, the request with the earliest turn comes first.
    fn next(&self, now: Duration, health: &Health) -> Option<(usize, RequestAdmission)> {
        if self.begun.len() >= CONCURRENT_REQUESTS {
            return None;
        }
        let key =
            |number: usize| (self.lanes[self.lane_of[number]].under_way, self.requests[number].turn, number);
        let mut best: Option<(usize, RequestAdmission)> = None;
        for (lane, number) in self.lanes.iter().flat_map(|lane| lane.fronts().map(move |front| (lane, front)))
        {
            let DispatchRequest { to, turn, purpose, .. } = &self.requests[number];
            let alone = goes_alone(to);
            let has_place = !alone || self.singles_under_way < CONCURRENT_SINGLES;
            let is_before = best.is_none_or(|(best, _)| key(number) < key(best));
            if *turn > now || !has_place || !is_before {
                continue;
            }
            let slots = if alone { CONCURRENT_SINGLES } else { CONCURRENT_REQUESTS };
            let admission = match purpose {
                RequestPurpose::Retry { last, longest } => {
                    let (last, longest, under_way) = (*last, *longest, lane.under_way);
                    health.admit(to, RequestCandidate { last, longest, under_way, slots }, now)
                }
                RequestPurpose::Other => RequestAdmission::Begins(None),
            };
            if admission != RequestAdmission::Waits {
                best = Some((number, admission));
            }
        }
        best
    }

    /// Returns the next turn that lies ahead, if there is one.
    pub(super) fn next_turn(&self, now: Duration) -> Option<Duration> {
        let fronts = self.lanes.iter().flat_map(EndpointLane::fronts);
        fronts.map(|one| self.requests[one].turn).filter(|turn| *turn > now).min()
    }

    /// Reports whether there are requests that have not begun.
    pub(super) fn has_waiting(&self) -> bool {
        self.lanes.iter().any(|lane| lane.fronts().next().is_some())
    }

    /// Returns the endpoint of a request.
    pub(super) fn endpoint(&self, request: usize) -> &Endpoint {
        &self.requests[request].to
    }

    /// Returns the function that a request waits for, if it does.
    pub(super) fn function(&self, request: usize) -> Option<&Arn> {
        self.requests[request].function()
    }

    /// Takes note of the answers to a request that has ended now.
    pub(super) fn ended(
        &mut self,
        request: usize,
        answers: &[SendResult],
        now: Duration,
        health: &mut Health,
    ) {
        let Some(began) = self.begun.remove(&request) else { return };
        let DispatchRequest { to, purpose, .. } = &self.requests[request];
        self.lanes[self.lane_of[request]].under_way -= 1;
        self.singles_under_way -= usize::from(goes_alone(to));
        if *purpose != RequestPurpose::Other {
            health.ended(to, began, answers, now);
        }
    }
}

/// Reports whether a request that begins now is likely to end in time.
fn is_in_time(
    request: &DispatchRequest,
    window: RoundWindow,
    share: Duration,
    now: Duration,
    health: &mut Health,
) -> bool {
    // A round that is late has half of its own time for short calls. A call that waits for its function may
    // take as long as one in the round before.
    let start = request.function().map_or(window.start, |_| window.since);
    let in_time = now < RoundWindow { start, ..window }.latest_start(&request.to);
    in_time && request.function().is_none_or(|function| health.calls.begin(function, now, window, share))
}

/// Reports whether each letter for this endpoint is a request of its own.
fn goes_alone(to: &Endpoint) -> bool {
    match to {
        Endpoint::Function(_) | Endpoint::Http(_) => true,
        Endpoint::Topic(_) | Endpoint::Queue(_) | Endpoint::Stream(_) => false,
    }
}

/// Returns the time that each of so many requests to functions and web servers may take, if all are to be
/// made in the whole time: each place among those under way makes several in a row. If it makes only one,
/// half of the time must be enough, since that one may wait for its turn.
fn share(whole: Duration, requests: usize) -> Duration {
    let in_a_row = requests.div_ceil(CONCURRENT_SINGLES).max(2);
    whole / u32::try_from(in_a_row).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Failure, FailureClass};

    const SECOND: Duration = Duration::from_secs(1);

    fn window(end: u32) -> RoundWindow {
        RoundWindow { since: Duration::ZERO, start: Duration::ZERO, end: SECOND * end }
    }

    fn to(kind: &str, number: usize, turn: u32) -> DispatchRequest {
        let arn = format!("arn:aws:{kind}{number}").parse().unwrap();
        DispatchRequest {
            to: Endpoint::of_arn(arn).unwrap(),
            turn: SECOND * turn,
            waits: false,
            purpose: RequestPurpose::Other,
        }
    }

    fn queue(number: usize, turn: u32) -> DispatchRequest {
        to("sqs:eu-central-1:123456789012:q", number, turn)
    }

    fn function(number: usize, turn: u32) -> DispatchRequest {
        to("lambda:eu-central-1:123456789012:function:f", number, turn)
    }

    fn polled(
        dispatch: &mut RoundDispatch,
        now: u32,
        health: &mut Health,
        goes: bool,
    ) -> Vec<(usize, StartDecision)> {
        std::iter::from_fn(|| dispatch.poll(SECOND * now, health, |_| goes)).collect()
    }

    fn begun(dispatch: &mut RoundDispatch, now: u32) -> Vec<usize> {
        polled(dispatch, now, &mut Health::default(), true)
            .into_iter()
            .filter(|(_, begin)| matches!(begin, StartDecision::Now(_)))
            .map(|(request, _)| request)
            .collect()
    }

    #[test]
    fn requests_begin_at_their_turn() {
        let mut dispatch =
            RoundDispatch::new(vec![queue(0, 5), queue(1, 0), function(2, 3)], window(60), Duration::ZERO);
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
        let mut dispatch = RoundDispatch::new(requests.collect(), window(60), Duration::ZERO);
        let first = begun(&mut dispatch, 0);
        assert_eq!(first.len(), CONCURRENT_REQUESTS);
        for request in first {
            dispatch.ended(request, &[], Duration::ZERO, &mut Health::default());
        }
        let second = begun(&mut dispatch, 0);
        let singles = second.iter().filter(|request| **request >= 150).count();
        assert_eq!((second.len(), singles), (50 + CONCURRENT_SINGLES, CONCURRENT_SINGLES));
        assert_eq!(begun(&mut dispatch, 0), [] as [usize; 0]);
        let single = second.into_iter().find(|request| *request >= 150).unwrap();
        dispatch.ended(single, &[], Duration::ZERO, &mut Health::default());
        assert_eq!(begun(&mut dispatch, 0).len(), 1);
    }

    #[test]
    fn a_crowd_of_one_kind_does_not_keep_the_other_waiting() {
        let crowd = (0..200).map(|number| queue(number, 5));
        let requests = crowd.chain([function(0, 4)]).collect();
        let mut dispatch = RoundDispatch::new(requests, window(60), Duration::ZERO);
        assert!(begun(&mut dispatch, 5).contains(&200));
    }

    #[test]
    fn what_would_not_end_in_time_is_not_made_and_takes_no_place() {
        let mut dispatch = RoundDispatch::new(vec![queue(0, 57), queue(1, 58)], window(60), Duration::ZERO);
        assert_eq!(begun(&mut dispatch, 57), [0]);
        assert_eq!(polled(&mut dispatch, 58, &mut Health::default(), true), [(1, StartDecision::TooLate)]);
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
        let call = |turn| DispatchRequest { waits: true, ..function(0, turn) };
        let mut health = Health::default();
        // The last one only hands an event over.
        let requests = vec![call(1), call(2), call(30), function(0, 30)];
        let mut dispatch = RoundDispatch::new(requests, window(40), SECOND);
        assert_eq!(polled(&mut dispatch, 1, &mut health, true), [(0, StartDecision::Now(None))]);
        let Endpoint::Function(arn) = call(0).to else { unreachable!() };
        health.calls.ended(&arn, SECOND * 15, super::super::function_calls::CallEnd::Ran, SECOND * 16);
        assert_eq!(polled(&mut dispatch, 16, &mut health, true), [(1, StartDecision::Now(None))]);
        let last = [(2, StartDecision::TooLate), (3, StartDecision::Now(None))];
        assert_eq!(polled(&mut dispatch, 30, &mut health, true), last);
    }

    #[test]
    fn a_request_that_is_withheld_changes_nothing_that_is_known_of_its_endpoint() {
        let purpose = RequestPurpose::Retry { last: false, longest: SECOND * 600 };
        let call = |turn| DispatchRequest { waits: true, purpose, ..function(0, turn) };
        let to = call(0).to;
        let mut health = Health::default();
        let failure = Failure::ours(FailureClass::Transient, "Timeout");
        health.ended(&to, Duration::ZERO, &[SendResult::Failed(failure)], SECOND * 15);
        let mut dispatch = RoundDispatch::new(vec![call(0), call(81), call(81)], window(100), Duration::ZERO);
        let begin = polled(&mut dispatch, 60, &mut health, false);
        assert_eq!(begin, [(0, StartDecision::Withheld)]);
        assert!(!health.is_up(&to), "it is still down");
        // The first call to a function in an invocation always begins, and the trial is not made yet.
        let begin = polled(&mut dispatch, 81, &mut health, true);
        assert_eq!(begin, [(1, StartDecision::Now(Some(SECOND * 3)))]);
    }
}
