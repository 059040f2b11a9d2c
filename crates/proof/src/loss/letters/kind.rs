//! The kinds of letter: their ends, and the account and the policy that lead each there.

use redrive_laws::letters::RequiredEnd;
use redrive_sim::arn;
use redrive_sim::sns::{Protocol, SimSubscription};
use serde_json::{Value, json};

use super::named;

/// A kind of letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProofLetterKind {
    /// An envelope of SNS for a queue.
    Queue,
    /// An envelope that its rule sends to the topic.
    Topic,
    /// An envelope for a function. In a FIFO queue, a rule's target names the function.
    Function,
    /// An envelope for a web server.
    Web,
    /// An envelope for a stream.
    Stream,
    /// A raw delivery, whose rule names the subscription.
    Raw,
    /// A raw delivery, whose subscription is searched for.
    Discovered,
    /// An envelope that SQS moved from a consumer's queue.
    Moved,
    /// A plain event for a function, whose result the call waits for.
    Plain,
    /// A message from a function's on-failure destination.
    Destination,
    /// A text that cannot be delivered.
    Garbage,
    /// An envelope whose subscription does not exist.
    Stranger,
    /// An envelope that its rule archives.
    Buried,
    /// An envelope whose queue never takes anything.
    Broken,
    /// An envelope whose queue refuses it for good.
    Picky,
    /// An envelope for the queue that refuses others for good.
    Neighbour,
    /// An envelope of a FIFO group whose heads make way when they fail.
    Aside,
}

/// Returns the subscriptions of a world; `web` is the URL of its web server.
#[must_use]
pub fn subscriptions(fifo: bool, discovered_only: bool, web: &str) -> Vec<SimSubscription> {
    let queue = |name: &str| (Protocol::Sqs, arn("sqs", &named(name, fifo)));
    let mut all = vec![(ProofLetterKind::Raw, queue("payments-raw"))];
    if !discovered_only {
        all.extend([
            (ProofLetterKind::Queue, queue("payments-worker")),
            (ProofLetterKind::Broken, queue("payments-broken")),
            (ProofLetterKind::Picky, queue("payments-picky")),
            (ProofLetterKind::Function, (Protocol::Lambda, arn("lambda", "function:payments-notifier"))),
        ]);
    }
    if !discovered_only && !fifo {
        all.extend([
            (ProofLetterKind::Web, (Protocol::Http, web.to_owned())),
            (ProofLetterKind::Stream, (Protocol::Firehose, arn("firehose", "deliverystream/payments"))),
        ]);
    }
    let subscribe = |(kind, (protocol, endpoint)): (ProofLetterKind, (Protocol, String))| {
        let one = SimSubscription::new(&named("payments", fifo), &subscription_id(kind), protocol, &endpoint);
        let one = one.dead_letters(&named("payments-dlq", fifo));
        if kind == ProofLetterKind::Raw { one.raw() } else { one }
    };
    all.into_iter().map(subscribe).collect()
}

/// Returns the subscription of letters of a kind.
#[must_use]
pub fn subscription(kind: ProofLetterKind, fifo: bool) -> String {
    format!("{}:{}", arn("sns", &named("payments", fifo)), subscription_id(kind))
}

fn subscription_id(kind: ProofLetterKind) -> String {
    let digit = match kind {
        ProofLetterKind::Queue
        | ProofLetterKind::Topic
        | ProofLetterKind::Buried
        | ProofLetterKind::Aside
        | ProofLetterKind::Moved => 1,
        ProofLetterKind::Broken => 2,
        ProofLetterKind::Picky | ProofLetterKind::Neighbour => 3,
        ProofLetterKind::Raw | ProofLetterKind::Discovered => 4,
        ProofLetterKind::Function | ProofLetterKind::Destination => 5,
        ProofLetterKind::Web => 6,
        ProofLetterKind::Stream => 7,
        ProofLetterKind::Stranger | ProofLetterKind::Garbage | ProofLetterKind::Plain => 8,
    };
    format!("00000000-0000-4000-8000-00000000000{digit}")
}

/// Returns the redrive policy that leads each kind to its end.
#[must_use]
pub fn policy(fifo: bool, schedule: &Value) -> Value {
    let way = |way: &str| json!({ "messageAttributes": { "way": [way] } });
    let mut rules = vec![
        json!({ "name": "topic", "match": way("topic"), "target": "topic" }),
        json!({ "name": "bury", "match": way("bury"), "action": "archive" }),
        json!({ "name": "raw", "match": way("raw"), "subscription": subscription(ProofLetterKind::Raw, fifo) }),
        json!({ "name": "discover", "match": way("discover"), "subscription": "discover" }),
    ];
    if fifo {
        let function = |name: &str| arn("lambda", &format!("function:{name}"));
        rules.push(
            json!({ "name": "function", "match": way("function"), "target": function("payments-notifier") }),
        );
        rules.push(
            json!({ "name": "plain", "match": way("plain"), "target": function("payments-projector") }),
        );
        rules.push(json!({ "name": "aside", "match": way("aside"), "fifo": "step-aside" }));
    }
    json!({ "default": { "target": "origin", "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": schedule } },
        "origins": { "*": ["lambda-destination", "eventbridge"] },
        "rules": rules })
}

/// Reports whether this is the body of a letter that its queue refuses for good.
#[must_use]
pub fn is_refused(body: &str) -> bool {
    body.contains(&format!("\"{}\"", ProofLetterKind::Picky.way()))
}

impl ProofLetterKind {
    /// Returns the place where a letter of this kind must end.
    #[must_use]
    pub fn end(self) -> RequiredEnd {
        match self {
            Self::Garbage => RequiredEnd::Archived("unrecognised"),
            Self::Stranger => RequiredEnd::Archived("refused"),
            Self::Buried => RequiredEnd::Archived("rule"),
            Self::Broken => RequiredEnd::Archived("exhausted"),
            Self::Picky => RequiredEnd::Archived("permanent"),
            _ => RequiredEnd::Delivered,
        }
    }

    /// Returns the kind as text.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Topic => "topic",
            Self::Function => "function",
            Self::Web => "web",
            Self::Stream => "stream",
            Self::Raw => "raw",
            Self::Discovered => "discovered",
            Self::Moved => "moved by SQS",
            Self::Plain => "plain event",
            Self::Destination => "Lambda destination",
            Self::Garbage => "garbage",
            Self::Stranger => "unknown subscription",
            Self::Buried => "archived by rule",
            Self::Broken => "broken queue",
            Self::Picky => "picky queue",
            Self::Neighbour => "beside bad letters",
            Self::Aside => "stepping aside",
        }
    }

    /// Returns the value of the attribute `way`, by which rules distinguish the kinds.
    pub(super) fn way(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Buried => "bury",
            Self::Raw => "raw",
            Self::Discovered => "discover",
            Self::Function => "function",
            Self::Plain => "plain",
            Self::Aside => "aside",
            Self::Picky => "picky",
            _ => "origin",
        }
    }

    /// Returns the operation that delivers a letter of this kind, and its target's name there.
    pub(super) fn target(self, fifo: bool) -> Option<(&'static str, String)> {
        let queue = |name: &str| Some(("SendMessageBatch", named(name, fifo)));
        match self {
            Self::Queue | Self::Aside => queue("payments-worker"),
            Self::Raw | Self::Discovered => queue("payments-raw"),
            Self::Moved => queue("payments-billing"),
            Self::Broken => queue("payments-broken"),
            Self::Picky | Self::Neighbour => queue("payments-picky"),
            Self::Topic => Some(("PublishBatch", named("payments", fifo))),
            Self::Function | Self::Destination => Some(("Invoke", "payments-notifier".to_owned())),
            Self::Plain => Some(("Invoke", "payments-projector".to_owned())),
            Self::Web => Some(("POST", "payments".to_owned())),
            Self::Stream => Some(("PutRecordBatch", "payments".to_owned())),
            Self::Garbage | Self::Stranger | Self::Buried => None,
        }
    }
}
