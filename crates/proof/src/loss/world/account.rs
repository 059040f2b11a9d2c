//! The account around the function, and its faults.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive_laws::letters::Who;
use redrive_sim::lambda::{FunctionSettings, Ran};
use redrive_sim::sns::TopicSettings;
use redrive_sim::sqs::{QueueSettings, Receive, Redrive};
use redrive_sim::{Aws, Call, Caller, EntryFault, Faults, Server, WebAnswer};

use super::config::Config;
use crate::Killer;
use crate::loss::faults::{Fault, Plan, Site};
use crate::loss::letters::{Kind, Letter, is_refused, named, subscriptions, token};

/// The receives after which SQS moves a message from a consumer's queue.
pub(super) const MAX_RECEIVES: usize = 3;

/// The name of the subscribers' web server.
const WEB: &str = "payments.example.com";

/// The caller of the web server's door, which all processes share.
pub(super) const WEB_CALLER: &str = "web";

/// The network of a world, which decides about the fault of each call.
#[derive(Debug)]
pub(super) struct Network {
    fifo: bool,
    plan: Mutex<Plan>,
    /// The process that has each letter: the web server does not know which process posts.
    holders: Mutex<HashMap<Who, Killer>>,
    /// The letters whose process is killed when the web server gets them.
    fatal: Mutex<BTreeSet<Who>>,
}

impl Network {
    pub(super) fn new(fifo: bool, plan: Plan) -> Arc<Self> {
        let (plan, holders, fatal) = (Mutex::new(plan), Mutex::default(), Mutex::default());
        Arc::new(Self { fifo, plan, holders, fatal })
    }

    pub(super) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the process that is handed a letter.
    pub(super) fn hold(&self, who: Who, killer: &Killer) {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner).insert(who, killer.clone());
    }

    /// Returns the site of a call of the function.
    pub(super) fn site(&self, call: &Call) -> Site {
        let requeue = named("payments-requeue", self.fifo);
        match call.operation.as_str() {
            "GetQueueAttributes" if call.target == requeue => Site::RequeueAttributes,
            "GetQueueAttributes" => Site::QueueAttributes,
            "GetSubscriptionAttributes" => Site::Subscription,
            "ListSubscriptions" => Site::Subscriptions,
            "SendMessageBatch" if call.target == requeue => Site::Requeue,
            "SendMessageBatch" if call.target == named("payments-archive", self.fifo) => Site::ArchiveMessage,
            "SendMessageBatch" => Site::Send,
            "PublishBatch" => Site::Publish,
            "Publish" if call.target == "notices" => Site::Notice,
            "Invoke" if call.target == "payments-projector" => Site::InvokeAndWait,
            "Invoke" => Site::Invoke,
            "POST" => Site::Post,
            "PutRecordBatch" => Site::Stream,
            "ChangeMessageVisibilityBatch" => Site::Hide,
            "PutObject" if call.target.contains("-control/waiting/") => Site::Waiting,
            "PutObject" => Site::Store,
            // A listing follows if access is denied.
            "GetObject" | "ListObjectsV2" if call.target.ends_with("-control/overrides.json") => {
                Site::Overrides
            }
            other => panic!("the function calls {other}"),
        }
    }

    /// Returns the course of a call. The calls that SNS and Lambda make by themselves succeed, except
    /// deletes.
    fn course(&self, call: &Call) -> redrive_sim::Fault {
        let site = match &*call.caller {
            "mapping" if call.operation == "DeleteMessageBatch" => Site::Delete,
            "mapping" | "sns" | "lambda" => return redrive_sim::Fault::Pass,
            _ => self.site(call),
        };
        let fault = self.plan().next(site);
        let is = |name: &str| site == Site::Send && call.target == named(name, self.fifo);
        let entries = call.entries.len();
        let each = |fault: EntryFault| {
            redrive_sim::Fault::Entries((0..entries).map(|index| (index, fault.clone())).collect())
        };
        let refuses = if is("payments-broken") {
            Some(each(EntryFault::service("InternalError", "Please try again.")))
        } else if is("payments-picky") && call.entries.iter().any(|entry| is_refused(&entry.body)) {
            // One bad entry costs its whole request.
            Some(match entries {
                1 => each(EntryFault::sender("InvalidMessageContents", "Invalid characters.")),
                _ => redrive_sim::Fault::refuse(400, "InvalidParameterValue", "Invalid characters."),
            })
        } else {
            None
        };
        // A queue that takes nothing has no effect, even under another fault.
        let fault = match fault {
            Some(Fault::Mute) if refuses.is_some() => Some(Fault::Silent),
            Some(Fault::BreakAfter) if refuses.is_some() => Some(Fault::BreakBefore),
            Some(Fault::KillAfter | Fault::Panic) if refuses.is_some() => Some(Fault::KillBefore),
            other => other,
        };
        match (fault, refuses) {
            (None | Some(Fault::Partial | Fault::PartialSender), Some(refuses)) => refuses,
            (None, None) => redrive_sim::Fault::Pass,
            (Some(fault @ (Fault::KillBefore | Fault::KillAfter | Fault::Panic)), _)
                if site == Site::Post =>
            {
                self.kill_by_post(call, fault)
            }
            (Some(fault), _) => fault.course(site, entries),
        }
    }

    /// Kills the process that posts, not the caller of the door, which all processes share.
    fn kill_by_post(&self, call: &Call, fault: Fault) -> redrive_sim::Fault {
        let Some(who) = letter_in(call) else { return redrive_sim::Fault::Pass };
        if fault == Fault::KillBefore {
            self.kill(who);
            return redrive_sim::Fault::HangBefore;
        }
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).insert(who);
        redrive_sim::Fault::HangAfter
    }

    fn kill(&self, who: Who) {
        let holder = self.holders.lock().unwrap_or_else(PoisonError::into_inner).get(&who).cloned();
        if let Some(holder) = holder {
            holder.kill();
        }
    }

    /// Takes a POST.
    fn post(&self, call: &Call) -> WebAnswer {
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
pub(super) fn letter_in(call: &Call) -> Option<Who> {
    token(&String::from_utf8_lossy(&call.body))
}

/// Puts a letter into a dead-letter queue, as the service that gives it up does; returns the message's id.
pub(in crate::loss) fn put(aws: &Aws, queue: &str, letter: &Letter) -> Arc<str> {
    let sent = if letter.kind == Kind::Moved {
        let source = named("payments-billing", letter.fifo);
        aws.act("consumer", |it, cx| {
            // Without this, a letter that was delivered there before would be received as well.
            it.sqs.purge_queue(cx, &source)?;
            let sent = it.sqs.send_message(cx, &source, &letter.entry());
            for _ in 0..=MAX_RECEIVES {
                let receive = Receive { visibility: Some(0), ..Receive::default() };
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
        Redrive { queue: dlq.to_owned(), max_receives: u32::try_from(MAX_RECEIVES).unwrap_or(u32::MAX) };
    QueueSettings { redrive: Some(redrive), ..QueueSettings::default() }
}

/// Creates everything that the function finds in the account, and returns the subscribers' web server.
pub(super) fn furnish(aws: &Aws, config: &Config, network: &Arc<Network>) -> Server {
    let faults = Arc::clone(network);
    aws.set_faults(Faults::new(move |call| faults.course(call)));
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
            it.lambda.create(name, FunctionSettings::default(), |_| Ran::ok("null"));
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
