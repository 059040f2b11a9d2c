//! One account's services with their clock, faults and journal.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::call::{AwsService, SimCall};
use crate::call_context::SimContext;
use crate::clock::{SimClock, SimMillis};
use crate::faults::{FaultHook, SimFault};
use crate::journal::{SimEvent, SimJournal, SimRecord};
use crate::lambda::{AsyncEvent, SimInvocationResult};
use crate::services::{DeliveryFailure, ServiceTask, Services};
use crate::sns::{Protocol, SimDelivery};

/// The time that SNS gives a web server to answer.
/// <https://docs.aws.amazon.com/sns/latest/dg/sns-message-delivery-retries.html>
const WEB_TIMEOUT: Duration = Duration::from_secs(15);

/// One account's services in memory. Clones are the same account.
#[derive(Debug, Clone)]
pub struct SimAws(Arc<AccountShared>);

#[derive(Debug)]
struct AccountShared {
    clock: SimClock,
    state: Mutex<AccountState>,
    faults: Mutex<FaultHook>,
    changed: Notify,
    under_way: AtomicUsize,
    peak: AtomicUsize,
}

#[derive(Debug)]
struct AccountState {
    services: Services,
    ledger: SimJournal,
    rng: fastrand::Rng,
}

impl SimAws {
    /// Creates an empty account. All its random numbers come from the seed.
    #[must_use]
    pub fn new(clock: SimClock, seed: u64) -> Self {
        let state = AccountState {
            services: Services::default(),
            ledger: SimJournal::default(),
            rng: fastrand::Rng::with_seed(seed),
        };
        Self(Arc::new(AccountShared {
            clock,
            state: Mutex::new(state),
            faults: Mutex::default(),
            changed: Notify::new(),
            under_way: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        }))
    }

    /// Returns the clock.
    #[must_use]
    pub fn clock(&self) -> &SimClock {
        &self.0.clock
    }

    /// Sets the hook that chooses faults from now on.
    pub fn set_faults(&self, faults: FaultHook) {
        *self.0.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    /// Returns the fault of a call, and writes it into the journal.
    pub(crate) fn fault(&self, call: &SimCall) -> SimFault {
        // The hook may use the account, so nothing is locked while it runs.
        let faults = self.0.faults.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let fault = (faults.0)(call);
        if fault != SimFault::Pass {
            let event = SimEvent::Faulty { call: Arc::new(call.clone()), fault: fault.clone() };
            self.locked(&call.caller, self.0.clock.millis(), |_, cx| cx.log(event));
        }
        fault
    }

    /// Uses the services directly, without protocols and faults, as this caller. The account is locked meanwhile, so the
    /// closure must not use it in another way.
    pub fn act<T>(&self, by: &str, act: impl FnOnce(&mut Services, &mut SimContext<'_>) -> T) -> T {
        self.advance();
        let result = self.locked(by, self.0.clock.millis(), act);
        self.advance();
        result
    }

    /// Reads the journal. The account is locked meanwhile, so the closure must not use it.
    pub fn journal<T>(&self, read: impl FnOnce(&[SimRecord]) -> T) -> T {
        self.advance();
        read(self.state().ledger.records())
    }

    /// Removes the journal so far and returns it.
    #[must_use]
    pub fn take_journal(&self) -> Vec<SimRecord> {
        self.advance();
        self.state().ledger.take()
    }

    /// Returns a hash of the journal so far. Two runs with the same seed have the same hash.
    #[must_use]
    pub fn digest(&self) -> String {
        self.journal(crate::journal::digest)
    }

    /// Returns the requests so far, in the order in which they began.
    #[must_use]
    pub fn calls(&self) -> Vec<Arc<SimCall>> {
        let call = |record: &SimRecord| match &record.event {
            SimEvent::Called(call) => Some(Arc::clone(call)),
            _ => None,
        };
        self.journal(|records| records.iter().filter_map(call).collect())
    }

    /// Returns the largest number of requests that were under way at once behind the doors.
    #[must_use]
    pub fn peak(&self) -> usize {
        self.0.peak.load(Ordering::Relaxed)
    }

    /// Resets the largest number of requests that were under way at once.
    pub fn forget_peak(&self) {
        self.0.peak.store(0, Ordering::Relaxed);
    }

    /// Counts a request as under way until the guard is dropped, which also happens if the request is given
    /// up.
    pub(crate) fn under_way(&self) -> SimRequestGuard {
        let count = self.0.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        self.0.peak.fetch_max(count, Ordering::Relaxed);
        SimRequestGuard(self.clone())
    }

    /// Carries out everything that services do by themselves until now, in order.
    pub fn advance(&self) {
        loop {
            let now = self.0.clock.millis();
            let due = self.locked("sqs", now, Services::take_due);
            match due {
                None => return,
                Some((at, ServiceTask::Deliver(delivery))) => self.deliver(at, *delivery),
                Some((at, ServiceTask::Run(event))) => self.run(at, *event),
            }
        }
    }

    /// Returns a future that notices every change from now on.
    pub(crate) fn changes(&self) -> Notified<'_> {
        self.0.changed.notified()
    }

    /// Waits for a change, at most until this time.
    pub(crate) async fn changed(&self, changed: Notified<'_>, until: Option<SimMillis>) {
        let Some(until) = until else { return changed.await };
        let wait = crate::clock::duration(until - self.0.clock.millis());
        // It does not matter which of the two it was.
        let _ = tokio::time::timeout(wait, changed).await;
    }

    pub(crate) fn locked<T>(
        &self,
        by: &str,
        now: SimMillis,
        act: impl FnOnce(&mut Services, &mut SimContext<'_>) -> T,
    ) -> T {
        let mut state = self.state();
        let AccountState { services, ledger, rng } = &mut *state;
        let before = ledger.records().len();
        let result = act(services, &mut SimContext { now, by: by.into(), ledger, rng, failing: Vec::new() });
        // Only an event can matter to those who wait. Without this check, two of them would wake each other.
        let is_new = ledger.has_news(before);
        drop(state);
        if is_new {
            self.0.changed.notify_waiters();
        }
        result
    }

    fn state(&self) -> MutexGuard<'_, AccountState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers a message of SNS. The faults see it as a call of the caller `sns`.
    fn deliver(&self, at: SimMillis, delivery: SimDelivery) {
        let SimDelivery { subscription, message, .. } = &delivery;
        let endpoint = subscription.endpoint.as_str();
        let name = endpoint.rsplit([':', '/']).next().unwrap_or_default();
        let (service, operation, target) = match subscription.protocol {
            Protocol::Sqs => (AwsService::Sqs, "SendMessage", name),
            Protocol::Lambda => (AwsService::Lambda, "Invoke", name),
            Protocol::Firehose => (AwsService::Firehose, "PutRecord", name),
            Protocol::Http | Protocol::Https => (AwsService::Web, "POST", host_of(endpoint)),
            Protocol::Address(_) => {
                return self.locked("sns", at, |services, cx| services.delivered(cx, delivery, Ok(())));
            }
        };
        let mut call = SimCall::new(&"sns".into(), service, operation, target);
        match subscription.protocol {
            Protocol::Sqs => call.entries.push(message.for_queue(subscription)),
            Protocol::Firehose => {
                let line_break = self.locked("sns", at, |services, _| services.sns.line_break);
                call.entries.push(message.for_stream(subscription, line_break));
            }
            Protocol::Lambda => call.body = message.for_function(subscription).into_bytes(),
            Protocol::Http | Protocol::Https => {
                let post = message.for_web(subscription);
                call.parameters = post.headers.into_iter().collect();
                call.parameters.insert("path".to_owned(), path_of(endpoint).to_owned());
                call.body = post.body.into_bytes();
            }
            Protocol::Address(_) => {}
        }
        let result = match self.fault(&call).split().1 {
            SimFault::Denied => Err(DeliveryFailure::Permanent),
            SimFault::Refuse(error) if error.is_senders() && error.status != 429 => {
                Err(DeliveryFailure::Permanent)
            }
            SimFault::Pass => self.hand_over(at, &call, message.trace.as_deref()),
            // SNS counts an answer that it did not get as a failure, though there was an effect.
            SimFault::HangAfter | SimFault::ResetAfter | SimFault::BreakOff(_) | SimFault::Stall(_) => {
                let _ = self.hand_over(at, &call, message.trace.as_deref());
                Err(DeliveryFailure::Retryable)
            }
            _ => Err(DeliveryFailure::Retryable),
        };
        self.locked("sns", at, |services, cx| services.delivered(cx, delivery, result));
    }

    /// Gives a message to the endpoint of its subscription.
    fn hand_over(&self, at: SimMillis, call: &SimCall, trace: Option<&str>) -> Result<(), DeliveryFailure> {
        let permanent = |_| DeliveryFailure::Permanent;
        match call.service {
            AwsService::Sqs => self.locked("sns", at, |services, cx| {
                let entry = call.entries.first().cloned().unwrap_or_default();
                services.sqs.send_message(cx, &call.target, &entry).map(|_| ()).map_err(permanent)
            }),
            AwsService::Firehose => self.locked("sns", at, |services, cx| {
                let put = services.firehose.put_record_batch(cx, &call.target, &call.entries);
                put.map(|_| ()).map_err(permanent)
            }),
            AwsService::Lambda => self.locked("sns", at, |services, cx| {
                let function = services.lambda.check(&call.target, &call.body, true).map_err(permanent)?;
                let payload = String::from_utf8_lossy(&call.body).into_owned();
                services.accept(cx, &function, payload, trace);
                Ok(())
            }),
            AwsService::Web => {
                let (fault, answer) = self.post(at, call);
                let (wait, fault) = fault.split();
                let in_time = fault == SimFault::Pass && wait <= WEB_TIMEOUT;
                match answer.filter(|_| in_time).map(|answer| answer.0) {
                    Some(200..300) => Ok(()),
                    Some(429 | 100..=101 | 500..) | None => Err(DeliveryFailure::Retryable),
                    Some(_) => Err(DeliveryFailure::Permanent),
                }
            }
            AwsService::Sns | AwsService::S3 | AwsService::Sts => Err(DeliveryFailure::Permanent),
        }
    }

    /// Calls a web server. Returns the fault, and the answer if there is one.
    pub(crate) fn post(&self, at: SimMillis, call: &SimCall) -> (SimFault, Option<WebReply>) {
        let script = self.locked(&call.caller, at, |services, _| services.web.script(&call.target));
        let Some(script) = script else { return (SimFault::NoConnection, None) };
        let answer = script(call);
        let (wait, fault) = answer.fault.split();
        if !fault.is_before() {
            self.locked(&call.caller, at, |_, cx| {
                cx.log(SimEvent::Posted {
                    host: call.target.as_str().into(),
                    path: call.parameter("path").unwrap_or("/").to_owned(),
                    body: call.body.clone(),
                    status: answer.status,
                });
            });
        }
        let fault = if wait.is_zero() { fault } else { fault.after(wait) };
        (fault, Some((answer.status, answer.headers, answer.body)))
    }

    /// Runs an asynchronous event. The faults see it as a call of the caller `lambda`; a throttle counts as
    /// no run.
    fn run(&self, at: SimMillis, event: AsyncEvent) {
        let Some(function) = self.locked("lambda", at, |it, _| it.lambda.function(&event.function)) else {
            return;
        };
        let mut call = SimCall::new(&"lambda".into(), AwsService::Lambda, "Run", &event.function);
        call.body = event.invocation.payload.clone().into_bytes();
        let ran = match self.fault(&call).split().1 {
            SimFault::Pass => Some((function.handler)(&event.invocation)),
            SimFault::Throttle => None,
            _ => Some(SimInvocationResult::failed("Runtime.ExitError", "RequestId: Error: Runtime exited")),
        };
        self.locked("lambda", at, |services, cx| {
            let next = event.ran(cx, &function, ran.as_ref());
            services.next(cx, next);
        });
    }
}

/// The guard of a request that is under way.
#[derive(Debug)]
pub(crate) struct SimRequestGuard(SimAws);

impl Drop for SimRequestGuard {
    fn drop(&mut self) {
        self.0.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The status, the headers and the body of a web server's answer.
pub(crate) type WebReply = (u16, Vec<(String, String)>, String);

/// Returns host and port of a URL.
pub(crate) fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or_default()
}

/// Returns path and query of a URL.
pub(crate) fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find(['/', '?']).map_or("/", |start| &rest[start..])
}
