//! The sending of messages: which requests they share, when each request begins, and what its answer means.
//!
//! [`SendingState`] asks for one request at a time. The code that makes a request hands over the answers that have
//! come before it asks for the next one. If a service refuses a whole request because of its content, the
//! messages are sent again one by one, so that one bad message does not fail the others.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::action::{InvocationNow, RequestEnd, RequestResult, SendResult, no_answer, whole};
use super::dispatch::{DispatchRequest, RoundDispatch, StartDecision};
use super::function_calls::CallEnd;
use super::health::Health;
use super::requests::{UnsentMessage, requests};
use super::time::{AgeConversion, RoundWindow};
use crate::endpoint::Endpoint;
use crate::failure::{
    CUT_SHORT, DEADLINE_EXCEEDED, FUNCTION_ERROR, FUNCTION_TIMED_OUT, Failure, FailureClass,
};

/// Messages on their way to a result each.
#[derive(Debug)]
pub struct SendingState {
    ages: AgeConversion,
    /// The time for it, in ages.
    window: RoundWindow,
    dispatch: RoundDispatch,
    /// True if other letters of the batch have had a part of the time.
    is_late: bool,
    /// The messages of each request, by their positions.
    requests: Vec<Vec<usize>>,
    /// The requests that hold a place among those under way.
    begun: BTreeMap<usize, BegunRequest>,
    results: Vec<(SendResult, Duration)>,
}

/// A request that is to be made now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextRequest {
    /// The number that ties the answer to the request.
    pub number: usize,
    /// The messages, by their positions.
    pub messages: Vec<usize>,
    /// The time at which it is cut off.
    pub until: Duration,
}

/// A request that has begun. If it was refused whole, its messages go one by one in its place.
#[derive(Debug, Default)]
struct BegunRequest {
    /// The number of messages that are under way.
    out: usize,
    /// True if they have less than the whole time.
    is_short: bool,
    /// The messages that are still to go alone.
    alone: VecDeque<usize>,
    /// The answers so far, in the order of the messages.
    answers: Vec<SendResult>,
    took: Duration,
}

impl SendingState {
    /// Divides messages into requests. A request waits for the last turn of its messages.
    #[must_use]
    pub fn new(
        messages: &[UnsentMessage<'_>],
        window: RoundWindow,
        now: InvocationNow,
        health: &Health,
    ) -> Self {
        let (ages, requests) = (AgeConversion::new(now), requests(messages, health));
        let window = ages.window(window);
        let request = |indexes: &Vec<usize>| {
            let all = indexes.iter().map(|index| &messages[*index]);
            let turn = all.clone().map(|one| one.turn).max()?;
            let purpose = all.clone().map(|one| one.purpose).max()?;
            let first = all.clone().next()?;
            Some(DispatchRequest { to: first.to.clone(), turn: ages.at(turn), waits: first.waits, purpose })
        };
        let dispatch = RoundDispatch::new(requests.iter().filter_map(request).collect(), window, now.age);
        Self {
            ages,
            window,
            dispatch,
            is_late: false,
            requests,
            begun: BTreeMap::new(),
            results: vec![(SendResult::NotStarted, Duration::ZERO); messages.len()],
        }
    }

    /// Returns the same in the time that other letters have left: what is cut off in it had less than the whole.
    #[must_use]
    pub fn in_what_is_left(self) -> Self {
        Self { is_late: true, ..self }
    }

    /// Returns the next request to make, if one may begin now. `goes` says whether a message may still go.
    pub fn poll(
        &mut self,
        elapsed: Duration,
        health: &mut Health,
        goes: impl Fn(usize) -> bool,
    ) -> Option<NextRequest> {
        let now = self.ages.at(elapsed);
        while let Some(number) = self.refused() {
            match self.next_alone(number, now, &goes) {
                None => self.end(number, now, health),
                next => return next,
            }
        }
        loop {
            let Self { dispatch, requests, results, .. } = self;
            let any_goes = |number: usize| {
                requests[number].retain(|message| {
                    let goes = goes(*message);
                    if !goes {
                        results[*message].0 = SendResult::Withheld;
                    }
                    goes
                });
                !requests[number].is_empty()
            };
            match dispatch.poll(now, health, any_goes)? {
                (number, StartDecision::Now(limit)) => return Some(self.begin(number, limit, now)),
                (number, StartDecision::LeftOut(least)) => {
                    self.is_not_made(number, &SendResult::LeftOut(least));
                }
                (number, StartDecision::PutOff(minutes)) => {
                    self.is_not_made(number, &SendResult::PutOff(minutes));
                }
                (_, StartDecision::TooLate | StartDecision::Withheld) => {}
            }
        }
    }

    /// Takes the result of a request.
    pub fn take(&mut self, number: usize, result: RequestResult, elapsed: Duration, health: &mut Health) {
        let Some(begun) = self.begun.get_mut(&number).filter(|begun| begun.out > 0) else { return };
        let now = self.ages.at(elapsed);
        let out = std::mem::take(&mut begun.out);
        begun.took += result.took;
        if let Some(function) = self.dispatch.function(number) {
            health.calls.ended(function, result.took, how_ended(&result.end), now);
        }
        let may_be_content = |failure: &Failure| failure.may_be_content();
        if out > 1 && matches!(&result.end, RequestEnd::Failed(failure) if may_be_content(failure)) {
            begun.alone = self.requests[number].iter().copied().collect();
            begun.is_short = self.is_late;
            return;
        }
        begun.answers.extend(answers(result.end, out, begun.is_short));
        if begun.alone.is_empty() {
            self.end(number, now, health);
        }
    }

    /// Returns the endpoint of a request.
    #[must_use]
    pub fn endpoint(&self, number: usize) -> &Endpoint {
        self.dispatch.endpoint(number)
    }

    /// Reports whether the answer to a request is awaited.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Reports whether there are messages whose request has not begun.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        self.dispatch.has_waiting() || self.refused().is_some()
    }

    /// Returns the next turn that lies ahead, if there is one.
    #[must_use]
    pub fn next_turn(&self, elapsed: Duration) -> Option<Duration> {
        self.dispatch.next_turn(self.ages.at(elapsed)).map(|turn| self.ages.elapsed(turn))
    }

    /// Returns the result of each message, in their order, with the time that its request took. What has not
    /// begun by now does not begin.
    #[must_use]
    pub fn into_results(self) -> Vec<(SendResult, Duration)> {
        self.results
    }

    /// Gives the messages of a request that is not made their result.
    fn is_not_made(&mut self, number: usize, result: &SendResult) {
        for message in &self.requests[number] {
            self.results[*message].0 = result.clone();
        }
    }

    fn begin(&mut self, number: usize, limit: Option<Duration>, now: Duration) -> NextRequest {
        let messages = self.requests[number].clone();
        let until = limit.map_or(self.window.end, |limit| self.window.end.min(now + limit));
        let is_short = until < self.window.end || self.is_late;
        self.begun.insert(number, BegunRequest { out: messages.len(), is_short, ..BegunRequest::default() });
        NextRequest { number, messages, until: self.ages.elapsed(until) }
    }

    /// Returns a request that was refused whole, and none of whose messages is under way.
    fn refused(&self) -> Option<usize> {
        self.begun.iter().find(|(_, begun)| begun.out == 0).map(|(number, _)| *number)
    }

    /// Returns the request for the next message that goes alone. Those whose time is over, or that may no
    /// longer go, are not sent.
    fn next_alone(
        &mut self,
        number: usize,
        now: Duration,
        goes: &impl Fn(usize) -> bool,
    ) -> Option<NextRequest> {
        let latest = self.window.latest_start(self.dispatch.endpoint(number));
        let begun = self.begun.get_mut(&number)?;
        while let Some(message) = begun.alone.pop_front() {
            if now < latest && goes(message) {
                begun.out = 1;
                let until = self.ages.elapsed(self.window.end);
                return Some(NextRequest { number, messages: vec![message], until });
            }
            begun.answers.push(if now < latest { SendResult::Withheld } else { SendResult::NotStarted });
        }
        None
    }

    /// Ends a request all of whose messages have an answer.
    fn end(&mut self, number: usize, now: Duration, health: &mut Health) {
        let Some(begun) = self.begun.remove(&number) else { return };
        self.dispatch.ended(number, &begun.answers, now, health);
        for (message, answer) in self.requests[number].iter().zip(begun.answers) {
            self.results[*message] = (answer, begun.took);
        }
    }
}

/// Returns what the end of a call says of how long its function works.
fn how_ended(end: &RequestEnd) -> CallEnd {
    match end {
        RequestEnd::Answered(_) => CallEnd::Ran,
        RequestEnd::Failed(failure)
            if [FUNCTION_ERROR, FUNCTION_TIMED_OUT].contains(&failure.code.as_str()) =>
        {
            CallEnd::Ran
        }
        RequestEnd::Failed(_) => CallEnd::Unknown,
        RequestEnd::CutOff => CallEnd::CutOff,
    }
}

/// Returns the answer to each of so many messages. A message without an answer has failed.
fn answers(end: RequestEnd, count: usize, is_short: bool) -> Vec<SendResult> {
    let failure = match end {
        RequestEnd::Answered(answers) => return whole(answers, count, || SendResult::Failed(no_answer())),
        RequestEnd::Failed(failure) => failure,
        RequestEnd::CutOff => {
            Failure::ours(FailureClass::Transient, if is_short { CUT_SHORT } else { DEADLINE_EXCEEDED })
        }
    };
    vec![SendResult::Failed(failure); count]
}

#[cfg(test)]
mod tests {
    use super::super::purpose::RequestPurpose;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn function() -> Endpoint {
        let arn = "arn:aws:lambda:eu-central-1:123456789012:function:f".parse().unwrap();
        Endpoint::of_arn(arn).unwrap()
    }

    fn queue() -> Endpoint {
        Endpoint::of_arn("arn:aws:sqs:eu-central-1:123456789012:q".parse().unwrap()).unwrap()
    }

    /// Returns the sending of so many retries to an endpoint, in a minute that begins when the instance is an
    /// hour old.
    fn retries(to: &Endpoint, count: usize, health: &Health) -> SendingState {
        let purpose = RequestPurpose::Retry { last: false, longest: SECOND * 600 };
        let (turn, waits) = (Duration::ZERO, false);
        let one = UnsentMessage { to, trace: None, bytes: 1, at_once: usize::MAX, waits, turn, purpose };
        let window = RoundWindow { since: Duration::ZERO, start: Duration::ZERO, end: SECOND * 60 };
        let (at, age) = (jiff::Timestamp::UNIX_EPOCH, SECOND * 3_600);
        SendingState::new(
            &vec![one; count],
            window,
            InvocationNow { at, age, elapsed: Duration::ZERO },
            health,
        )
    }

    fn after(seconds: u32, end: RequestEnd) -> RequestResult {
        RequestResult { end, took: SECOND * seconds }
    }

    fn failed(class: FailureClass, code: &str) -> Failure {
        Failure::ours(class, code)
    }

    fn codes(results: &[(SendResult, Duration)]) -> Vec<String> {
        let code = |(sent, _): &(SendResult, Duration)| match sent {
            SendResult::Failed(failure) => failure.code.clone(),
            other => format!("{other:?}"),
        };
        results.iter().map(code).collect()
    }

    #[test]
    fn what_is_refused_whole_for_its_content_goes_one_by_one_while_it_may_and_there_is_time() {
        let (to, mut health) = (queue(), Health::default());
        let refused = || RequestEnd::Failed(failed(FailureClass::Permanent, "InvalidMessageContents"));
        let mut sending = retries(&to, 4, &health);
        let first = sending.poll(Duration::ZERO, &mut health, |_| true).unwrap();
        assert_eq!((first.messages.as_slice(), first.until), ([0, 1, 2, 3].as_slice(), SECOND * 60));
        assert_eq!(sending.poll(Duration::ZERO, &mut health, |_| true), None);
        sending.take(first.number, after(1, refused()), SECOND, &mut health);
        for (message, end) in [(0, RequestEnd::Answered(vec![SendResult::Accepted])), (2, refused())] {
            assert!(sending.is_under_way() && sending.has_waiting());
            // The second is withheld.
            let next = sending.poll(SECOND * 2, &mut health, |message| message != 1).unwrap();
            assert_eq!((next.number, next.messages), (first.number, vec![message]));
            sending.take(next.number, after(1, end), SECOND * 3, &mut health);
        }
        assert_eq!(sending.poll(SECOND * 58, &mut health, |_| true), None, "it would not end in time");
        assert!(!sending.is_under_way() && !sending.has_waiting());
        let results = sending.into_results();
        assert_eq!(codes(&results), ["Accepted", "Withheld", "InvalidMessageContents", "NotStarted"]);
        assert_eq!(results[0].1, SECOND * 3, "all of its requests took this long");
    }

    #[test]
    fn what_is_refused_whole_for_another_reason_has_failed() {
        let (to, mut health) = (queue(), Health::default());
        let mut sending = retries(&to, 2, &health);
        let first = sending.poll(Duration::ZERO, &mut health, |_| true).unwrap();
        let denied = RequestEnd::Failed(failed(FailureClass::ActionRequired, "AccessDenied"));
        sending.take(first.number, after(1, denied), SECOND, &mut health);
        assert_eq!(sending.poll(SECOND, &mut health, |_| true), None);
        assert_eq!(codes(&sending.into_results()), ["AccessDenied"; 2]);
    }

    #[test]
    fn a_short_trial_that_is_cut_off_timed_out_and_others_are_left_out() {
        let (to, mut health) = (function(), Health::default());
        let mut sending = retries(&to, 1, &health);
        let first = sending.poll(Duration::ZERO, &mut health, |_| true).unwrap();
        sending.take(first.number, after(60, RequestEnd::CutOff), SECOND * 60, &mut health);
        assert_eq!(codes(&sending.into_results()), [DEADLINE_EXCEEDED]);
        // The endpoint is down.
        let mut sending = retries(&to, 2, &health);
        assert_eq!(sending.poll(SECOND, &mut health, |_| true), None);
        let results = sending.into_results();
        assert!(codes(&results).iter().all(|code| code.starts_with("LeftOut(")), "{results:?}");
    }

    #[test]
    fn an_answer_that_lacks_messages_fails_them() {
        let (to, mut health) = (queue(), Health::default());
        let mut sending = retries(&to, 2, &health);
        let first = sending.poll(Duration::ZERO, &mut health, |_| true).unwrap();
        let one = RequestEnd::Answered(vec![SendResult::Accepted]);
        sending.take(first.number, after(0, one), Duration::ZERO, &mut health);
        // An answer that comes twice counts once.
        let again = RequestEnd::Answered(vec![SendResult::Accepted; 2]);
        sending.take(first.number, after(0, again), Duration::ZERO, &mut health);
        assert_eq!(codes(&sending.into_results()), ["Accepted", "NoAnswer"]);
    }
}
