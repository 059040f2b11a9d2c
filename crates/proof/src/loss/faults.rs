//! The faults: their kind, their place, and their frequency.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fastrand::Rng;
use redrive_sim::{EntryFault, SimFault as Course};

use super::weighed;

/// A call of the function, or of Lambda on its behalf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultSite {
    /// `GetQueueAttributes` of the batch's own queue, or of a source queue.
    QueueAttributes,
    /// `GetQueueAttributes` of the requeue.
    RequeueAttributes,
    /// `GetSubscriptionAttributes`.
    Subscription,
    /// `GetSubscriptionAttributes` in a world with an override by target, which is asked before it counts.
    OverrideTarget,
    /// `ListSubscriptions`.
    Subscriptions,
    /// `SendMessageBatch` to a target.
    Send,
    /// `SendMessageBatch` to the requeue.
    Requeue,
    /// `SendMessageBatch` to an archive.
    ArchiveMessage,
    /// `PublishBatch`.
    Publish,
    /// `Invoke` of a function, without waiting for its result.
    Invoke,
    /// `Invoke` of a function, with waiting for its result.
    InvokeAndWait,
    /// A POST to a web server.
    Post,
    /// `PutRecordBatch`.
    Stream,
    /// `ChangeMessageVisibilityBatch`.
    Hide,
    /// `ChangeMessageVisibilityBatch` that wakes letters which the invocation has not got.
    Wake,
    /// `PutObject`.
    Store,
    /// `GetObject` of the overrides.
    Overrides,
    /// `PutObject` of the list of waiting letters.
    Waiting,
    /// `ListObjectsV2` of the list of waiting letters.
    WaitingKeys,
    /// `GetObject` of an object of that list.
    WaitingLines,
    /// `GetObject` of the recoveries.
    Recoveries,
    /// `PutObject` of the recoveries.
    RecoveriesWrite,
    /// `Publish` of the notice of archived letters.
    Notice,
    /// The invocation itself: event and answer.
    Answer,
    /// The mapping's own `DeleteMessageBatch`.
    Delete,
}

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// The service throttles the call.
    Throttle,
    /// The service answers 503.
    Unavailable,
    /// The service denies access.
    Denied,
    /// The service refuses the call for good.
    Permanent,
    /// The call has no effect and gets no answer.
    Silent,
    /// The call has its effect and gets no answer.
    Mute,
    /// The connection breaks before the effect.
    BreakBefore,
    /// The connection breaks between effect and answer.
    BreakAfter,
    /// Every other entry fails through the service's fault. Where `Invoke` waits, the function's code fails.
    Partial,
    /// Every other entry fails through the sender's fault.
    PartialSender,
    /// SIGKILL ends the function before the effect.
    KillBefore,
    /// SIGKILL ends the function between effect and answer.
    KillAfter,
    /// The function panics between effect and answer, which ends its process.
    Panic,
    /// The process freezes after its answer, its connections are closed, and it thaws for the next event.
    Freeze,
    /// Somebody else was there first: a conditional write is refused, and what is read is gone.
    Changed,
    /// What is read is nonsense, or was forged.
    Forged,
}

impl TargetOutages {
    /// Reports whether a site is down. Every other outage is one of the queues, which most letters go to.
    fn is_down(self, site: FaultSite, since: Duration) -> bool {
        let (every, since) = (self.every.as_millis().max(1), since.as_millis());
        let number = usize::try_from(since / every).unwrap_or(0);
        let target = if number.is_multiple_of(2) { 0 } else { number / 2 % TARGETS.len() };
        site == TARGETS[target] && since % every < self.last.as_millis()
    }
}

impl FaultSite {
    /// Every site.
    pub const ALL: [Self; 25] = [
        Self::QueueAttributes,
        Self::RequeueAttributes,
        Self::Subscription,
        Self::OverrideTarget,
        Self::Subscriptions,
        Self::Send,
        Self::Requeue,
        Self::ArchiveMessage,
        Self::Publish,
        Self::Invoke,
        Self::InvokeAndWait,
        Self::Post,
        Self::Stream,
        Self::Hide,
        Self::Wake,
        Self::Store,
        Self::Overrides,
        Self::Waiting,
        Self::WaitingKeys,
        Self::WaitingLines,
        Self::Recoveries,
        Self::RecoveriesWrite,
        Self::Notice,
        Self::Answer,
        Self::Delete,
    ];

    /// Returns the name of the site in the figures.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::QueueAttributes => "GetQueueAttributes",
            Self::RequeueAttributes => "GetQueueAttributes, requeue",
            Self::Subscription => "GetSubscriptionAttributes",
            Self::OverrideTarget => "GetSubscriptionAttributes, override",
            Self::Subscriptions => "ListSubscriptions",
            Self::Send => "SendMessageBatch, target",
            Self::Requeue => "SendMessageBatch, requeue",
            Self::ArchiveMessage => "SendMessageBatch, archive",
            Self::Publish => "PublishBatch",
            Self::Invoke => "Invoke, asynchronous",
            Self::InvokeAndWait => "Invoke, synchronous",
            Self::Post => "POST",
            Self::Stream => "PutRecordBatch",
            Self::Hide => "ChangeMessageVisibilityBatch",
            Self::Wake => "ChangeMessageVisibilityBatch, wake",
            Self::Store => "PutObject",
            Self::Overrides => "GetObject, overrides",
            Self::Waiting => "PutObject, waiting letters",
            Self::WaitingKeys => "ListObjectsV2, waiting letters",
            Self::WaitingLines => "GetObject, waiting letters",
            Self::Recoveries => "GetObject, recoveries",
            Self::RecoveriesWrite => "PutObject, recoveries",
            Self::Notice => "Publish, notice",
            Self::Answer => "event and answer",
            Self::Delete => "DeleteMessageBatch, by Lambda",
        }
    }

    /// Reports whether the call is made because an endpoint was down and is back.
    #[must_use]
    pub fn is_about_recoveries(self) -> bool {
        matches!(
            self,
            Self::Wake | Self::WaitingKeys | Self::WaitingLines | Self::Recoveries | Self::RecoveriesWrite
        )
    }

    /// Returns the reason why a fault makes no sense here, or `None` if it does make sense.
    #[must_use]
    pub fn nonsense(self, fault: FaultKind, fifo: bool) -> Option<&'static str> {
        use FaultKind::{
            BreakAfter, BreakBefore, Changed, Denied, Forged, Freeze, KillAfter, KillBefore, Mute, Panic,
            Partial, PartialSender, Permanent, Silent, Throttle, Unavailable,
        };
        let reads = matches!(
            self,
            Self::QueueAttributes
                | Self::RequeueAttributes
                | Self::Subscription
                | Self::OverrideTarget
                | Self::Subscriptions
                | Self::Overrides
                | Self::WaitingKeys
                | Self::WaitingLines
                | Self::Recoveries
        );
        let single = reads
            || matches!(
                self,
                Self::Invoke
                    | Self::InvokeAndWait
                    | Self::Post
                    | Self::Store
                    | Self::Waiting
                    | Self::RecoveriesWrite
                    | Self::Notice
            );
        if fifo && matches!(self, Self::Post | Self::Stream) {
            return Some("FIFO topics deliver to queues only, and rules cannot name web servers or streams");
        }
        match (self, fault) {
            (Self::Answer, KillBefore | KillAfter | BreakAfter | Freeze)
            | (Self::Delete, Unavailable | Partial)
            | (Self::InvokeAndWait, Partial)
            | (Self::RecoveriesWrite, Changed)
            | (Self::Recoveries | Self::WaitingLines, Changed | Forged) => None,
            (_, Changed | Forged) => {
                Some("only what instances share to wake letters is changed or forged here")
            }
            (_, Freeze) => Some("Lambda freezes a process between its invocations"),
            (Self::Answer, _) => {
                Some("Lambda takes the answer or does not hear it; it has no errors of its own")
            }
            (Self::Delete, BreakAfter | Mute | KillBefore | KillAfter | Panic) => {
                Some("the function's part is over; a delete that worked is no fault for it")
            }
            (Self::Delete, _) => Some("for the function a failed delete is a failed delete"),
            (_, Mute | BreakAfter | KillAfter | Panic) if reads => Some("a call that reads has no effect"),
            (_, Partial | PartialSender) if single => Some("it is no batch"),
            (Self::Stream, PartialSender) => Some("Firehose does not say whose fault it is"),
            (
                _,
                Throttle | Unavailable | Denied | Permanent | Silent | Mute | BreakBefore | BreakAfter
                | Partial | PartialSender | KillBefore | KillAfter | Panic,
            ) => None,
        }
    }
}

impl FaultKind {
    /// Every fault.
    pub const ALL: [Self; 16] = [
        Self::Throttle,
        Self::Unavailable,
        Self::Denied,
        Self::Permanent,
        Self::Silent,
        Self::Mute,
        Self::BreakBefore,
        Self::BreakAfter,
        Self::Partial,
        Self::PartialSender,
        Self::KillBefore,
        Self::KillAfter,
        Self::Panic,
        Self::Freeze,
        Self::Changed,
        Self::Forged,
    ];

    /// Returns the name of the fault in the figures.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Throttle => "throttle",
            Self::Unavailable => "5xx",
            Self::Denied => "access denied",
            Self::Permanent => "permanent",
            Self::Silent => "no answer, no effect",
            Self::Mute => "no answer, effect",
            Self::BreakBefore => "reset before effect",
            Self::BreakAfter => "reset after effect",
            Self::Partial => "entries fail",
            Self::PartialSender => "entries fail, sender",
            Self::KillBefore => "kill before effect",
            Self::KillAfter => "kill after effect",
            Self::Panic => "panic",
            Self::Freeze => "frozen",
            Self::Changed => "changed by others",
            Self::Forged => "forged",
        }
    }

    /// Returns the course of a call with so many entries.
    #[must_use]
    pub fn course(self, site: FaultSite, entries: usize) -> Course {
        let every_other = |fault: EntryFault| {
            Course::Entries((0..entries).step_by(2).map(|index| (index, fault.clone())).collect())
        };
        match self {
            Self::Throttle => Course::Throttle,
            Self::Unavailable => Course::Unavailable,
            Self::Denied => Course::Denied,
            Self::Permanent => {
                let (code, message) = permanent(site);
                Course::refuse(400, code, message)
            }
            // The process freezes between its calls.
            Self::Freeze => Course::Pass,
            Self::Changed if site == FaultSite::RecoveriesWrite => {
                let message = "At least one of the pre-conditions you specified did not hold";
                Course::refuse(412, "PreconditionFailed", message)
            }
            Self::Changed => Course::refuse(404, "NoSuchKey", "The specified key does not exist."),
            // A world that has what is forged says it itself.
            Self::Forged => Course::Nonsense(200, "{".to_owned()),
            Self::Silent => Course::HangBefore,
            Self::Mute => Course::HangAfter,
            Self::BreakBefore => Course::ResetBefore,
            Self::BreakAfter => Course::ResetAfter,
            Self::Partial if site == FaultSite::InvokeAndWait => Course::FunctionError,
            Self::Partial if site == FaultSite::Stream => {
                every_other(EntryFault::service("ServiceUnavailableException", "Slow down."))
            }
            Self::Partial => every_other(EntryFault::service("InternalError", "Please try again.")),
            Self::PartialSender if matches!(site, FaultSite::Hide | FaultSite::Wake) => {
                every_other(EntryFault::sender("ReceiptHandleIsInvalid", "The receipt handle is not valid."))
            }
            Self::PartialSender => {
                every_other(EntryFault::sender("InvalidParameterValue", "Invalid parameter value"))
            }
            Self::KillBefore => Course::CutBefore,
            Self::KillAfter | Self::Panic => Course::CutAfter,
        }
    }
}

/// Returns code and message of a service that refuses a call for good.
fn permanent(site: FaultSite) -> (&'static str, &'static str) {
    match site {
        FaultSite::Publish
        | FaultSite::Subscription
        | FaultSite::OverrideTarget
        | FaultSite::Subscriptions
        | FaultSite::Notice => ("InvalidParameter", "Invalid parameter"),
        FaultSite::Store
        | FaultSite::Overrides
        | FaultSite::Waiting
        | FaultSite::WaitingKeys
        | FaultSite::WaitingLines
        | FaultSite::Recoveries
        | FaultSite::RecoveriesWrite => ("InvalidArgument", "Invalid Argument"),
        FaultSite::Invoke | FaultSite::InvokeAndWait => {
            ("InvalidRequestContentException", "Could not parse request body")
        }
        FaultSite::Stream => ("InvalidArgumentException", "Invalid argument"),
        _ => ("InvalidParameterValue", "Invalid parameter value"),
    }
}

/// One fault for some calls of a site.
#[derive(Debug, Clone)]
pub struct FaultInjection {
    /// The site of the calls.
    pub site: FaultSite,
    /// The fault.
    pub fault: FaultKind,
    /// The first call that it hits, from 0.
    pub from: usize,
    /// The number of calls that it hits.
    pub calls: usize,
}

/// Random faults.
#[derive(Debug, Clone)]
pub struct RandomFaults {
    /// The number of calls of which one is hit on average.
    pub once_in: usize,
    /// The faults with their weights.
    pub weights: Vec<(FaultKind, usize)>,
    /// The outages: one target at a time is down for a while.
    pub outages: TargetOutages,
}

/// Outages of targets.
#[derive(Debug, Clone, Copy)]
pub struct TargetOutages {
    /// The time from the beginning of one outage to that of the next.
    pub every: Duration,
    /// The duration of an outage.
    pub last: Duration,
}

/// The sites that can be down.
const TARGETS: [FaultSite; 6] = [
    FaultSite::Send,
    FaultSite::Publish,
    FaultSite::Invoke,
    FaultSite::InvokeAndWait,
    FaultSite::Post,
    FaultSite::Stream,
];

/// The plan of faults: decides about each call, and counts the faults it made.
#[derive(Debug)]
pub struct FaultPlan {
    injections: Vec<FaultInjection>,
    weather: Option<RandomFaults>,
    rng: Rng,
    began: Instant,
    fifo: bool,
    calls: BTreeMap<FaultSite, usize>,
    made: BTreeMap<(FaultSite, FaultKind), usize>,
    over: bool,
}

impl FaultPlan {
    /// Creates a plan with these faults at these calls.
    #[must_use]
    pub fn of(injections: Vec<FaultInjection>, fifo: bool) -> Self {
        Self {
            injections,
            weather: None,
            rng: Rng::with_seed(0),
            began: Instant::now(),
            fifo,
            calls: BTreeMap::new(),
            made: BTreeMap::new(),
            over: false,
        }
    }

    /// Creates a plan with random faults.
    #[must_use]
    pub fn random(weather: RandomFaults, seed: u64, fifo: bool) -> Self {
        let rng = Rng::with_seed(seed);
        Self { weather: Some(weather), rng, ..Self::of(Vec::new(), fifo) }
    }

    /// Returns the fault of the next call of a site, if it has one. The first injection that fits counts.
    pub fn next(&mut self, site: FaultSite) -> Option<FaultKind> {
        let call = self.calls.entry(site).or_default();
        let number = *call;
        *call += 1;
        if self.over {
            return None;
        }
        let planned = self
            .injections
            .iter()
            .find(|it| it.site == site && (it.from..it.from.saturating_add(it.calls)).contains(&number));
        let fault = match (&self.weather, planned) {
            (_, Some(injection)) => Some(injection.fault),
            (Some(weather), None) if weather.outages.is_down(site, self.began.elapsed()) => {
                Some(FaultKind::Unavailable)
            }
            (Some(weather), None) if self.rng.usize(..weather.once_in) == 0 => {
                let fault = weighed(&mut self.rng, &weather.weights);
                // The function believes for five minutes that a subscription is impossible if SNS says so:
                // its letters would go to the archive for the rest of the time.
                let lasting = (FaultSite::Subscription, FaultKind::Permanent);
                // A process that has not read the overrides yet puts its letters back for a minute.
                let lasts = |it: FaultKind| (site, it) == lasting || site == FaultSite::Overrides;
                fault.filter(|it| site.nonsense(*it, self.fifo).is_none() && !lasts(*it))
            }
            (_, None) => None,
        }?;
        *self.made.entry((site, fault)).or_default() += 1;
        Some(fault)
    }

    /// Ends all faults from now on.
    pub fn end(&mut self) {
        self.over = true;
    }

    /// Returns the number of faults that were made, by site and fault.
    #[must_use]
    pub fn made(&self) -> &BTreeMap<(FaultSite, FaultKind), usize> {
        &self.made
    }

    /// Returns the number of calls of each site.
    #[must_use]
    pub fn calls(&self) -> &BTreeMap<FaultSite, usize> {
        &self.calls
    }
}
