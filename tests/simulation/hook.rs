//! The faults of the calls in a world.

use std::sync::Mutex;
use std::time::Duration;

use fastrand::Rng;
use redrive_sim::lambda::SimInvocationResult;
use redrive_sim::{AwsService, EntryFault, SimCall, SimFault, SimMillis, WebAnswer};

use crate::live::token;
use crate::world::{
    ARCHIVE, REQUEUE, SECOND, SeededFault, SeededSource, SeededTarget, SeededWorld, endpoint, weather,
};

/// The number of faults that may leave a copy of a letter, in a world where each copy can leave more.
const MOST_COPIES: u32 = 10;

/// The number of error codes with which services refuse content.
pub const REFUSAL_CODES: usize = 4;

/// The hook that decides about faults.
pub struct SeededFaults {
    world: SeededWorld,
    start: SimMillis,
    rng: Mutex<Rng>,
    calls: Mutex<usize>,
    copies: Mutex<u32>,
}

impl SeededFaults {
    pub fn new(world: &SeededWorld, start: SimMillis) -> Self {
        Self {
            world: world.clone(),
            start,
            rng: Mutex::new(Rng::with_seed(world.seed ^ 0xfa)),
            calls: Mutex::default(),
            copies: Mutex::default(),
        }
    }

    /// Returns the number of the function's calls so far.
    pub fn calls(&self) -> usize {
        *self.calls.lock().unwrap()
    }

    pub fn fault(&self, call: &SimCall, now: SimMillis) -> SimFault {
        let at = now - self.start;
        match &*call.caller {
            "sns" => self.of_sns(call, at),
            "mapping" => self.of_mapping(call, at),
            // An asynchronous invocation that fails leaves a letter.
            "lambda" if self.world.source != SeededSource::Topic => SimFault::Unavailable,
            "publisher" | "lambda" => SimFault::Pass,
            _ => self.of_function(call, at),
        }
    }

    fn chance(&self, percent: u8) -> bool {
        percent > 0 && self.rng.lock().unwrap().u8(..100) < percent
    }

    /// Returns whether a fault occurs that may leave a copy of a letter.
    fn chance_of_copy(&self, percent: u8) -> bool {
        let mut copies = self.copies.lock().unwrap();
        let occurs = self.chance(percent) && (*copies < MOST_COPIES || !self.world.forks());
        *copies += u32::from(occurs);
        occurs
    }

    /// Returns the fault of SNS's calls. A letter's first delivery always fails; messages that the function
    /// publishes again depend on the weather.
    fn of_sns(&self, call: &SimCall, at: SimMillis) -> SimFault {
        if call.target == "witness" {
            return SimFault::Pass;
        }
        let body = call.entries.first().map_or(call.body.as_slice(), |entry| entry.body.as_bytes());
        let again = String::from_utf8_lossy(body).contains("sns-redrive");
        let subscribers = self.world.subscribers.iter().enumerate();
        let mut of = subscribers.filter(|(index, _)| endpoint(&self.world, *index) == call.target);
        let is_up = of.next().is_some_and(|(_, one)| weather(&one.weather, at).is_none());
        if again && is_up { SimFault::Pass } else { SimFault::Denied }
    }

    /// Returns the run of a subscriber's function, which fails by itself.
    pub fn ran(&self, subscriber: usize, now: SimMillis) -> SimInvocationResult {
        let one = &self.world.subscribers[subscriber];
        match weather(&one.weather, now - self.start) {
            Some(SeededFault::EachFails) => SimInvocationResult::failed("Error", "Try again."),
            _ => SimInvocationResult::ok("null"),
        }
    }

    /// Returns the answer of a subscriber's web server, which throttles by itself.
    pub fn answer(&self, subscriber: usize, now: SimMillis) -> WebAnswer {
        let one = &self.world.subscribers[subscriber];
        if weather(&one.weather, now - self.start) != Some(SeededFault::Throttled) {
            return WebAnswer::status(200);
        }
        let answer = WebAnswer::status(429);
        match one.retry_after {
            Some(seconds) => answer.retry_after(seconds),
            None => answer,
        }
    }

    fn of_mapping(&self, call: &SimCall, at: SimMillis) -> SimFault {
        let (world, trouble) = (&self.world, &self.world.trouble);
        let off = world.mapping.off.iter().find(|(from, to)| (*from..*to).contains(&at));
        match (call.operation.as_str(), off) {
            ("ReceiveMessage", Some((_, to))) if world.mapping.is_disabled => {
                SimFault::Throttle.after(Duration::from_millis(u64::try_from(to - at).unwrap()))
            }
            ("Invoke", Some(_)) if !world.mapping.is_disabled => SimFault::Throttle,
            ("Invoke", _) if self.chance(trouble.throttled) => SimFault::Throttle,
            ("DeleteMessageBatch", _) if self.chance_of_copy(trouble.delete_fails) => {
                SimFault::Entries(vec![(0, EntryFault::service("InternalError", "Try again."))])
            }
            _ => SimFault::Pass,
        }
    }

    fn of_function(&self, call: &SimCall, at: SimMillis) -> SimFault {
        let (world, trouble) = (&self.world, &self.world.trouble);
        let number = {
            let mut calls = self.calls.lock().unwrap();
            *calls += 1;
            *calls - 1
        };
        if let Some((_, after)) = world.cut_at.filter(|(at, _)| *at == number) {
            return if after { SimFault::CutAfter } else { SimFault::CutBefore };
        }
        if self.chance_of_copy(trouble.cut) {
            return if self.chance(50) { SimFault::CutAfter } else { SimFault::CutBefore };
        }
        let fault = self.of_service(call, at);
        if self.chance(trouble.slow) {
            let wait = self.rng.lock().unwrap().i64(0..8 * SECOND);
            return fault.after(Duration::from_millis(u64::try_from(wait).unwrap()));
        }
        fault
    }

    fn of_service(&self, call: &SimCall, at: SimMillis) -> SimFault {
        let (world, trouble) = (&self.world, &self.world.trouble);
        if is_to_archive(world, call) && call.operation != "GetQueueAttributes" {
            let fails = self.chance(trouble.archive_fails).then_some(SeededFault::Down);
            let outage = weather(&world.archive_weather, at).or(fails).map(|how| fault(how, call));
            let refuses = call.service == AwsService::Sqs && world.archive_refuses();
            let refusal = refuses.then(|| self.of_content(call)).flatten();
            return refusal.or(outage).unwrap_or(SimFault::Pass);
        }
        let reads = ["GetQueueAttributes", "GetSubscriptionAttributes", "ListSubscriptions"];
        if call.operation == "GetSubscriptionAttributes" && self.chance(trouble.lookups_hang) {
            return SimFault::HangBefore;
        }
        if call.operation == "GetQueueAttributes" && at < trouble.unread_until {
            return SimFault::Denied;
        }
        if reads.contains(&call.operation.as_str()) {
            return if self.chance(trouble.reads_fail) { SimFault::Unavailable } else { SimFault::Pass };
        }
        if call.operation.starts_with("ChangeMessageVisibility") {
            let fails = self.chance(trouble.hide_fails);
            return if fails { fault(SeededFault::EachFails, call) } else { SimFault::Pass };
        }
        let name = call.target.as_str();
        let subscribers = world.subscribers.iter().enumerate();
        let mut of = subscribers.filter(|(index, _)| {
            world.target == SeededTarget::Topic && call.service == AwsService::Sns
                || endpoint(world, *index) == name
        });
        let one = of.next();
        if let Some(how) = one.and_then(|(_, one)| weather(&one.weather, at)) {
            // SNS itself takes messages that it cannot deliver.
            let answers_itself = call.service == AwsService::Web && how == SeededFault::Throttled
                || call.service == AwsService::Lambda
                    && how == SeededFault::EachFails
                    && call.parameter("type") != Some("Event");
            if !answers_itself && (world.target == SeededTarget::Origin || how != SeededFault::Never) {
                return fault(how, call);
            }
        }
        let is_sent_on = one.is_some() || name == world.name(REQUEUE);
        if let Some(refusal) = is_sent_on.then(|| self.of_content(call)).flatten() {
            return refusal;
        }
        if self.chance_of_copy(trouble.lost) { SimFault::ResetAfter } else { SimFault::Pass }
    }

    /// Returns the refusal of a request that has a letter with bad content. The codes of SNS and SQS are recorded,
    /// but for one that nobody knows.
    fn of_content(&self, call: &SimCall) -> Option<SimFault> {
        let SeededWorld { bad, refusal, .. } = &self.world;
        let is_bad = |text: &str| bad.iter().any(|letter| text.contains(&token(*letter)));
        let entries: Vec<_> = (0..call.entries.len()).filter(|at| is_bad(&call.entries[*at].body)).collect();
        if entries.is_empty() && !is_bad(&String::from_utf8_lossy(&call.body)) {
            return None;
        }
        let code = match call.service {
            AwsService::Sns => ["InvalidParameter", "ParameterValueInvalid", "ValidationError", "NewRefusal"],
            AwsService::Sqs => {
                ["InvalidParameterValue", "MissingParameter", "InvalidMessageContents", "NewRefusal"]
            }
            AwsService::Firehose => {
                ["InvalidArgumentException", "ValidationException", "InvalidArgumentException", "NewRefusal"]
            }
            AwsService::Lambda => ["InvalidRequestContentException"; REFUSAL_CODES],
            _ => [""; REFUSAL_CODES],
        }[refusal.form];
        // SNS refuses the whole request, whatever the form.
        if refusal.whole || entries.is_empty() || call.service == AwsService::Sns {
            return Some(SimFault::refuse(400, code, "no"));
        }
        let fails = EntryFault::sender(code, "no");
        Some(SimFault::Entries(entries.into_iter().map(|at| (at, fails.clone())).collect()))
    }
}

/// Reports whether a call is one of the archive's.
pub fn is_to_archive(world: &SeededWorld, call: &SimCall) -> bool {
    call.service == AwsService::S3 || (call.service == AwsService::Sqs && call.target == world.name(ARCHIVE))
}

/// Returns the fault of a call in an outage.
fn fault(how: SeededFault, call: &SimCall) -> SimFault {
    match how {
        SeededFault::Down => SimFault::Unavailable,
        SeededFault::Refused => SimFault::NoConnection,
        SeededFault::Throttled => SimFault::Throttle,
        SeededFault::Denied => SimFault::Denied,
        SeededFault::Hangs => SimFault::HangBefore,
        SeededFault::Slow => SimFault::Pass.after(Duration::from_millis(7_500)),
        SeededFault::Mute => SimFault::ResetAfter,
        SeededFault::EachFails if call.entries.is_empty() => SimFault::Unavailable,
        SeededFault::EachFails => {
            let fails = EntryFault::service("InternalError", "Try again.");
            SimFault::Entries((0..call.entries.len()).map(|index| (index, fails.clone())).collect())
        }
        SeededFault::Never => match call.service {
            AwsService::Lambda => SimFault::refuse(400, "InvalidRequestContentException", "no"),
            AwsService::Firehose => SimFault::refuse(400, "ValidationException", "no"),
            _ => SimFault::refuse(400, "InvalidParameterValue", "no"),
        },
    }
}
