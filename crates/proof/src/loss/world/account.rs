//! The account around the function, and its faults.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive_laws::letters::LetterNumber;
use redrive_sim::lambda::{FunctionSettings, SimInvocationResult};
use redrive_sim::mapping::MappingBatch;
use redrive_sim::sns::TopicSettings;
use redrive_sim::sqs::{QueueRedrive, QueueSettings, ReceiveRequest};
use redrive_sim::{Caller, EntryFault, FaultHook, SimAws, SimCall, SocketServer, WebAnswer};

use super::config::WorldConfig;
use super::forged::forged;
use crate::ProcessKiller;
use crate::loss::faults::{FaultKind, FaultPlan, FaultSite};
use crate::loss::letters::{ProofLetter, ProofLetterKind, is_refused, named, subscriptions, token};

/// The receives after which SQS moves a message from a consumer's queue.
pub(super) const MAX_RECEIVES: usize = 3;

/// The name of the subscribers' web server.
const WEB: &str = "payments.example.com";

/// The end of the name of the document of recoveries, and what the names of all objects of the list have in them.
pub(super) const RECOVERIES: &str = "-control/recoveries.json";
const WAITING: &str = "-control/waiting/";

/// The caller of the web server's door, which all processes share.
pub(super) const WEB_CALLER: &str = "web";

/// The network of a world, which decides about the fault of each call.
#[derive(Debug)]
pub(super) struct FaultyNetwork {
    fifo: bool,
    /// `true` if subscriptions are looked up for an override by target.
    holds: bool,
    /// `true` while the queue of most letters takes none.
    down: AtomicBool,
    plan: Mutex<FaultPlan>,
    /// The objects of the list that are gone or forged: they stay so.
    spoiled: Mutex<BTreeMap<String, FaultKind>>,
    /// The process that has each letter: the web server does not know which process posts.
    holders: Mutex<HashMap<LetterNumber, ProcessKiller>>,
    /// The receipt handles of the batch that each process has.
    batches: Mutex<HashMap<Arc<str>, BTreeSet<Arc<str>>>>,
    /// The letters whose process is killed when the web server gets them.
    fatal: Mutex<BTreeSet<LetterNumber>>,
}

impl FaultyNetwork {
    pub(super) fn new(config: &WorldConfig, plan: FaultPlan) -> Arc<Self> {
        let (fifo, holds, down) = (config.fifo, config.holds, AtomicBool::new(false));
        let (plan, spoiled) = (Mutex::new(plan), Mutex::default());
        let (holders, batches, fatal) = (Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(Self { fifo, holds, down, plan, spoiled, holders, batches, fatal })
    }

    /// Lets the queue of most letters take none, or again all.
    pub(super) fn set_down(&self, is_down: bool) {
        self.down.store(is_down, Ordering::Relaxed);
    }

    pub(super) fn plan(&self) -> MutexGuard<'_, FaultPlan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the process that is handed a letter.
    pub(super) fn hold(&self, who: LetterNumber, killer: &ProcessKiller) {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner).insert(who, killer.clone());
    }

    /// Records the batch that a process is handed.
    pub(super) fn hand(&self, caller: &Arc<str>, batch: &MappingBatch) {
        let handles = batch.messages.iter().map(|message| Arc::clone(&message.handle)).collect();
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(caller), handles);
    }

    /// Reports whether a message that a process makes visible is none of its batch: it is woken. Letters behind another of
    /// their group are made visible too.
    pub(super) fn wakes(&self, caller: &str, handle: &str) -> bool {
        let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        batches.get(caller).is_none_or(|batch| !batch.contains(handle))
    }

    /// Returns the site of a call of the function.
    pub(super) fn site(&self, call: &SimCall) -> FaultSite {
        let requeue = named("payments-requeue", self.fifo);
        match call.operation.as_str() {
            "GetQueueAttributes" if call.target == requeue => FaultSite::RequeueAttributes,
            "GetQueueAttributes" => FaultSite::QueueAttributes,
            "GetSubscriptionAttributes" if self.holds => FaultSite::OverrideTarget,
            "GetSubscriptionAttributes" => FaultSite::Subscription,
            "ListSubscriptions" => FaultSite::Subscriptions,
            "SendMessageBatch" if call.target == requeue => FaultSite::Requeue,
            "SendMessageBatch" if call.target == named("payments-archive", self.fifo) => {
                FaultSite::ArchiveMessage
            }
            "SendMessageBatch" => FaultSite::Send,
            "PublishBatch" => FaultSite::Publish,
            "Publish" if call.target == "notices" => FaultSite::Notice,
            "Invoke" if call.target == "payments-projector" => FaultSite::InvokeAndWait,
            "Invoke" => FaultSite::Invoke,
            "POST" => FaultSite::Post,
            "PutRecordBatch" => FaultSite::Stream,
            "ChangeMessageVisibilityBatch" if self.is_wake(call) => FaultSite::Wake,
            "ChangeMessageVisibilityBatch" => FaultSite::Hide,
            "PutObject" if call.target.contains(WAITING) => FaultSite::Waiting,
            "ListObjectsV2" if call.target.contains(WAITING) => FaultSite::WaitingKeys,
            "GetObject" if call.target.contains(WAITING) => FaultSite::WaitingLines,
            "PutObject" if call.target.ends_with(RECOVERIES) => FaultSite::RecoveriesWrite,
            // A listing follows if access is denied.
            "GetObject" | "ListObjectsV2" if call.target.ends_with(RECOVERIES) => FaultSite::Recoveries,
            "PutObject" => FaultSite::Store,
            // A listing follows if access is denied.
            "GetObject" | "ListObjectsV2" if call.target.ends_with("-control/overrides.json") => {
                FaultSite::Overrides
            }
            other => panic!("the function calls {other}"),
        }
    }

    fn is_wake(&self, call: &SimCall) -> bool {
        call.entries.iter().all(|entry| {
            let handle = entry.handle.as_deref().unwrap_or_default();
            entry.visibility == Some(0) && self.wakes(&call.caller, handle)
        })
    }

    /// Returns the course of a call. The calls that SNS and Lambda make by themselves succeed, except
    /// deletes.
    fn course(&self, call: &SimCall) -> redrive_sim::SimFault {
        let site = match &*call.caller {
            "mapping" if call.operation == "DeleteMessageBatch" => FaultSite::Delete,
            "mapping" | "sns" | "lambda" => return redrive_sim::SimFault::Pass,
            _ => self.site(call),
        };
        let (fault, made) = {
            let mut plan = self.plan();
            let fault = plan.next(site).or_else(|| self.is_spoiled(call));
            let made = fault.and_then(|fault| plan.made().get(&(site, fault)).copied());
            (fault, made.unwrap_or_default())
        };
        let is = |name: &str| site == FaultSite::Send && call.target == named(name, self.fifo);
        if let Some(spoils @ (FaultKind::Changed | FaultKind::Forged)) = fault
            && site == FaultSite::WaitingLines
        {
            self.spoiled().insert(call.target.clone(), spoils);
        }
        let entries = call.entries.len();
        let each = |fault: EntryFault| {
            redrive_sim::SimFault::Entries((0..entries).map(|index| (index, fault.clone())).collect())
        };
        let refuses = if is("payments-broken") {
            Some(each(EntryFault::service("InternalError", "Please try again.")))
        } else if is("payments-worker") && self.down.load(Ordering::Relaxed) {
            // The SDK does not try again, so nothing waits.
            Some(redrive_sim::SimFault::Denied)
        } else if is("payments-picky") && call.entries.iter().any(|entry| is_refused(&entry.body)) {
            // One bad entry costs its whole request.
            Some(match entries {
                1 => each(EntryFault::sender("InvalidMessageContents", "Invalid characters.")),
                _ => redrive_sim::SimFault::refuse(400, "InvalidParameterValue", "Invalid characters."),
            })
        } else {
            None
        };
        // A queue that takes nothing has no effect, even under another fault.
        let fault = match fault {
            Some(FaultKind::Mute) if refuses.is_some() => Some(FaultKind::Silent),
            Some(FaultKind::BreakAfter) if refuses.is_some() => Some(FaultKind::BreakBefore),
            Some(FaultKind::KillAfter | FaultKind::Panic) if refuses.is_some() => Some(FaultKind::KillBefore),
            other => other,
        };
        match (fault, refuses) {
            (None | Some(FaultKind::Partial | FaultKind::PartialSender), Some(refuses)) => refuses,
            (None, None) => redrive_sim::SimFault::Pass,
            (Some(fault @ (FaultKind::KillBefore | FaultKind::KillAfter | FaultKind::Panic)), _)
                if site == FaultSite::Post =>
            {
                self.kill_by_post(call, fault)
            }
            // S3 has two answers to this.
            (Some(FaultKind::Changed), _) if site == FaultSite::RecoveriesWrite && made % 2 == 0 => {
                let message = "The conditional request cannot succeed due to a conflicting operation.";
                redrive_sim::SimFault::refuse(409, "ConditionalRequestConflict", message)
            }
            (Some(FaultKind::Forged), _) => {
                redrive_sim::SimFault::Nonsense(200, forged(site, self.fifo, made))
            }
            (Some(fault), _) => fault.course(site, entries),
        }
    }

    /// Returns what an earlier fault has made of the object that a call reads.
    fn is_spoiled(&self, call: &SimCall) -> Option<FaultKind> {
        self.spoiled().get(&call.target).copied().filter(|_| call.operation == "GetObject")
    }

    fn spoiled(&self) -> MutexGuard<'_, BTreeMap<String, FaultKind>> {
        self.spoiled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills the process that posts, not the caller of the door, which all processes share.
    fn kill_by_post(&self, call: &SimCall, fault: FaultKind) -> redrive_sim::SimFault {
        let Some(who) = letter_in(call) else { return redrive_sim::SimFault::Pass };
        if fault == FaultKind::KillBefore {
            self.kill(who);
            return redrive_sim::SimFault::HangBefore;
        }
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).insert(who);
        redrive_sim::SimFault::HangAfter
    }

    fn kill(&self, who: LetterNumber) {
        let holder = self.holders.lock().unwrap_or_else(PoisonError::into_inner).get(&who).cloned();
        if let Some(holder) = holder {
            holder.kill();
        }
    }

    /// Takes a POST.
    fn post(&self, call: &SimCall) -> WebAnswer {
        if &*call.caller == WEB_CALLER
            && let Some(who) = letter_in(call)
            && self.fatal.lock().unwrap_or_else(PoisonError::into_inner).remove(&who)
        {
            self.kill(who);
        }
        WebAnswer::status(200)
    }
}

/// Returns the letter in a body.
pub(super) fn letter_in(call: &SimCall) -> Option<LetterNumber> {
    token(&String::from_utf8_lossy(&call.body))
}

/// Puts a letter into a dead-letter queue, as the service that gives it up does; returns the message's id.
pub(in crate::loss) fn put(aws: &SimAws, queue: &str, letter: &ProofLetter) -> Arc<str> {
    let sent = if letter.kind == ProofLetterKind::Moved {
        let source = named("payments-billing", letter.fifo);
        aws.act("consumer", |it, cx| {
            // Without this, a letter that was delivered there before would be received as well.
            it.sqs.purge_queue(cx, &source)?;
            let sent = it.sqs.send_message(cx, &source, &letter.entry());
            for _ in 0..=MAX_RECEIVES {
                let receive = ReceiveRequest { visibility: Some(0), ..ReceiveRequest::default() };
                it.sqs.poll(cx, &source, receive, &BTreeSet::new(), &[]);
            }
            sent
        })
    } else {
        aws.act("sns", |it, cx| it.sqs.send_message(cx, queue, &letter.entry()))
    };
    sent.expect("a queue takes every letter").id
}

/// Returns the settings of a consumer's queue: SQS moves messages that its consumer fails to process.
pub(in crate::loss) fn moving(dlq: &str) -> QueueSettings {
    let redrive =
        QueueRedrive { queue: dlq.to_owned(), max_receives: u32::try_from(MAX_RECEIVES).unwrap_or(u32::MAX) };
    QueueSettings { redrive: Some(redrive), ..QueueSettings::default() }
}

/// Creates everything that the function finds in the account, and returns the subscribers' web server.
pub(super) fn furnish(aws: &SimAws, config: &WorldConfig, network: &Arc<FaultyNetwork>) -> SocketServer {
    let faults = Arc::clone(network);
    aws.set_faults(FaultHook::new(move |call| faults.course(call)));
    let web = aws.listen_web(&Caller::new(WEB_CALLER), WEB).expect("a port of loopback is free");
    let feed = QueueSettings {
        retention: 1_209_600,
        visibility: i64::try_from(config.visibility.as_secs()).expect("some seconds"),
        in_flight: config.in_flight,
        whole_group: false,
        ..QueueSettings::default()
    };
    aws.act("world", |it, _| {
        for name in ["payments-dlq", "payments-requeue"] {
            it.sqs.create(&config.named(name), feed.clone());
        }
        for name in
            ["payments-worker", "payments-broken", "payments-picky", "payments-raw", "payments-archive"]
        {
            it.sqs.create(&config.named(name), QueueSettings::default());
        }
        it.sqs.create(&config.named("payments-billing"), moving(&config.named("payments-dlq")));
        it.sns.create("notices", TopicSettings::default());
        it.s3.create("my-bucket");
        it.firehose.create("payments");
        for name in ["payments-notifier", "payments-projector"] {
            it.lambda.create(name, FunctionSettings::default(), |_| SimInvocationResult::ok("null"));
        }
        it.sns.create(&config.named("payments"), TopicSettings::default());
        for one in subscriptions(config.fifo, config.discovery, &format!("{}/payments", web.url())) {
            it.sns.subscribe(one);
        }
        // SNS knows the server by its address; the function uses its door.
        for host in [WEB.to_owned(), web.address()] {
            let network = Arc::clone(network);
            it.web.serve(&host, move |call| network.post(call));
        }
    });
    web
}
