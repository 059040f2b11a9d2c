//! The faults of the calls in a world.

use std::sync::Mutex;
use std::time::Duration;

use fastrand::Rng;
use redrive_sim::lambda::Ran;
use redrive_sim::{Call, EntryFault, Fault, Millis, Service, WebAnswer};

use crate::live::token;
use crate::world::{ARCHIVE, How, REQUEUE, SECOND, Source, Target, World, endpoint, weather};

/// The number of faults that may leave a copy of a letter, in a world where each copy can leave more.
const MOST_COPIES: u32 = 10;

/// The number of error codes with which services refuse content.
pub const FORMS: usize = 4;

/// The hook that decides about faults.
pub struct Hook {
    world: World,
    start: Millis,
    rng: Mutex<Rng>,
    calls: Mutex<usize>,
    copies: Mutex<u32>,
}

impl Hook {
    pub fn new(world: &World, start: Millis) -> Self {
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

    pub fn fault(&self, call: &Call, now: Millis) -> Fault {
        let at = now - self.start;
        match &*call.caller {
            "sns" => self.of_sns(call, at),
            "mapping" => self.of_mapping(call, at),
            // An asynchronous invocation that fails leaves a letter.
            "lambda" if self.world.source != Source::Topic => Fault::Unavailable,
            "publisher" | "lambda" => Fault::Pass,
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
    fn of_sns(&self, call: &Call, at: Millis) -> Fault {
        if call.target == "witness" {
            return Fault::Pass;
        }
        let body = call.entries.first().map_or(call.body.as_slice(), |entry| entry.body.as_bytes());
        let again = String::from_utf8_lossy(body).contains("sns-redrive");
        let subscribers = self.world.subscribers.iter().enumerate();
        let mut of = subscribers.filter(|(index, _)| endpoint(&self.world, *index) == call.target);
        let is_up = of.next().is_some_and(|(_, one)| weather(&one.weather, at).is_none());
        if again && is_up { Fault::Pass } else { Fault::Denied }
    }

    /// Returns the run of a subscriber's function, which fails by itself.
    pub fn ran(&self, subscriber: usize, now: Millis) -> Ran {
        let one = &self.world.subscribers[subscriber];
        match weather(&one.weather, now - self.start) {
            Some(How::EachFails) => Ran::failed("Error", "Try again."),
            _ => Ran::ok("null"),
        }
    }

    /// Returns the answer of a subscriber's web server, which throttles by itself.
    pub fn answer(&self, subscriber: usize, now: Millis) -> WebAnswer {
        let one = &self.world.subscribers[subscriber];
        if weather(&one.weather, now - self.start) != Some(How::Throttled) {
            return WebAnswer::status(200);
        }
        let answer = WebAnswer::status(429);
        match one.retry_after {
            Some(seconds) => answer.retry_after(seconds),
            None => answer,
        }
    }

    fn of_mapping(&self, call: &Call, at: Millis) -> Fault {
        let (world, trouble) = (&self.world, &self.world.trouble);
        let off = world.mapping.off.iter().find(|(from, to)| (*from..*to).contains(&at));
        match (call.operation.as_str(), off) {
            ("ReceiveMessage", Some((_, to))) if world.mapping.is_disabled => {
                Fault::Throttle.after(Duration::from_millis(u64::try_from(to - at).unwrap()))
            }
            ("Invoke", Some(_)) if !world.mapping.is_disabled => Fault::Throttle,
            ("Invoke", _) if self.chance(trouble.throttled) => Fault::Throttle,
            ("DeleteMessageBatch", _) if self.chance_of_copy(trouble.delete_fails) => {
                Fault::Entries(vec![(0, EntryFault::service("InternalError", "Try again."))])
            }
            _ => Fault::Pass,
        }
    }

    fn of_function(&self, call: &Call, at: Millis) -> Fault {
        let (world, trouble) = (&self.world, &self.world.trouble);
        let number = {
            let mut calls = self.calls.lock().unwrap();
            *calls += 1;
            *calls - 1
        };
        if let Some((_, after)) = world.cut_at.filter(|(at, _)| *at == number) {
            return if after { Fault::CutAfter } else { Fault::CutBefore };
        }
        if self.chance_of_copy(trouble.cut) {
            return if self.chance(50) { Fault::CutAfter } else { Fault::CutBefore };
        }
        let fault = self.of_service(call, at);
        if self.chance(trouble.slow) {
            let wait = self.rng.lock().unwrap().i64(0..8 * SECOND);
            return fault.after(Duration::from_millis(u64::try_from(wait).unwrap()));
        }
        fault
    }

    fn of_service(&self, call: &Call, at: Millis) -> Fault {
        let (world, trouble) = (&self.world, &self.world.trouble);
        if is_to_archive(world, call) && call.operation != "GetQueueAttributes" {
            let fails = self.chance(trouble.archive_fails).then_some(How::Down);
            let outage = weather(&world.archive_weather, at).or(fails).map(|how| fault(how, call));
            let refuses = call.service == Service::Sqs && world.archive_refuses();
            let refusal = refuses.then(|| self.of_content(call)).flatten();
            return refusal.or(outage).unwrap_or(Fault::Pass);
        }
        let reads = ["GetQueueAttributes", "GetSubscriptionAttributes", "ListSubscriptions"];
        if call.operation == "GetSubscriptionAttributes" && self.chance(trouble.lookups_hang) {
            return Fault::HangBefore;
        }
        if call.operation == "GetQueueAttributes" && at < trouble.unread_until {
            return Fault::Denied;
        }
        if reads.contains(&call.operation.as_str()) {
            return if self.chance(trouble.reads_fail) { Fault::Unavailable } else { Fault::Pass };
        }
        if call.operation.starts_with("ChangeMessageVisibility") {
            let fails = self.chance(trouble.hide_fails);
            return if fails { fault(How::EachFails, call) } else { Fault::Pass };
        }
        let name = call.target.as_str();
        let subscribers = world.subscribers.iter().enumerate();
        let mut of = subscribers.filter(|(index, _)| {
            world.target == Target::Topic && call.service == Service::Sns || endpoint(world, *index) == name
        });
        let one = of.next();
        if let Some(how) = one.and_then(|(_, one)| weather(&one.weather, at)) {
            // SNS itself takes messages that it cannot deliver.
            let answers_itself = call.service == Service::Web && how == How::Throttled
                || call.service == Service::Lambda
                    && how == How::EachFails
                    && call.parameter("type") != Some("Event");
            if !answers_itself && (world.target == Target::Origin || how != How::Never) {
                return fault(how, call);
            }
        }
        let is_sent_on = one.is_some() || name == world.name(REQUEUE);
        if let Some(refusal) = is_sent_on.then(|| self.of_content(call)).flatten() {
            return refusal;
        }
        if self.chance_of_copy(trouble.lost) { Fault::ResetAfter } else { Fault::Pass }
    }

    /// Returns the refusal of a request that has a letter with bad content. The codes of SNS and SQS are recorded,
    /// but for one that nobody knows.
    fn of_content(&self, call: &Call) -> Option<Fault> {
        let World { bad, refusal, .. } = &self.world;
        let is_bad = |text: &str| bad.iter().any(|letter| text.contains(&token(*letter)));
        let entries: Vec<_> = (0..call.entries.len()).filter(|at| is_bad(&call.entries[*at].body)).collect();
        if entries.is_empty() && !is_bad(&String::from_utf8_lossy(&call.body)) {
            return None;
        }
        let code = match call.service {
            Service::Sns => ["InvalidParameter", "ParameterValueInvalid", "ValidationError", "NewRefusal"],
            Service::Sqs => {
                ["InvalidParameterValue", "MissingParameter", "InvalidMessageContents", "NewRefusal"]
            }
            Service::Firehose => {
                ["InvalidArgumentException", "ValidationException", "InvalidArgumentException", "NewRefusal"]
            }
            Service::Lambda => ["InvalidRequestContentException"; FORMS],
            _ => [""; FORMS],
        }[refusal.form];
        // SNS refuses the whole request, whatever the form.
        if refusal.whole || entries.is_empty() || call.service == Service::Sns {
            return Some(Fault::refuse(400, code, "no"));
        }
        let fails = EntryFault::sender(code, "no");
        Some(Fault::Entries(entries.into_iter().map(|at| (at, fails.clone())).collect()))
    }
}

/// Reports whether a call is one of the archive's.
pub fn is_to_archive(world: &World, call: &Call) -> bool {
    call.service == Service::S3 || (call.service == Service::Sqs && call.target == world.name(ARCHIVE))
}

/// Returns the fault of a call in an outage.
fn fault(how: How, call: &Call) -> Fault {
    match how {
        How::Down => Fault::Unavailable,
        How::Refused => Fault::NoConnection,
        How::Throttled => Fault::Throttle,
        How::Denied => Fault::Denied,
        How::Hangs => Fault::HangBefore,
        How::Slow => Fault::Pass.after(Duration::from_millis(7_500)),
        How::Mute => Fault::ResetAfter,
        How::EachFails if call.entries.is_empty() => Fault::Unavailable,
        How::EachFails => {
            let fails = EntryFault::service("InternalError", "Try again.");
            Fault::Entries((0..call.entries.len()).map(|index| (index, fails.clone())).collect())
        }
        How::Never => match call.service {
            Service::Lambda => Fault::refuse(400, "InvalidRequestContentException", "no"),
            Service::Firehose => Fault::refuse(400, "ValidationException", "no"),
            _ => Fault::refuse(400, "InvalidParameterValue", "no"),
        },
    }
}
