//! Letters of every kind, where they must go, and how they must arrive.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::chance::Chance;
use super::ledger::{End, Who};
use crate::protocol::Entry;
use crate::wire::Raw;

const ACCOUNT: &str = "eu-central-1:123456789012";
const MARK: &str = "sns-redrive";
const EPITAPH: &str = "sns-redrive-archive";
const TOKEN: &str = "letter-";
const TOKEN_DIGITS: usize = 7;

/// Message attributes: type and value, bytes as `base64 ...`.
pub type Attributes = BTreeMap<String, (String, String)>;

/// The kinds of letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An envelope of SNS for a queue.
    Queue,
    /// An envelope that its rule sends to the topic.
    Topic,
    /// An envelope for a function; out of a FIFO queue by a rule's target.
    Function,
    /// An envelope for a web server.
    Web,
    /// An envelope for a stream.
    Stream,
    /// A raw delivery, whose rule names the subscription.
    Raw,
    /// A raw delivery, whose subscription is searched for.
    Discovered,
    /// Moved by SQS from a consumer's queue.
    Moved,
    /// A plain event for a function, which is waited for.
    Plain,
    /// Of a function's on-failure destination.
    Destination,
    /// Nothing that anybody could deliver.
    Garbage,
    /// Its subscription does not exist.
    Stranger,
    /// Its rule archives it.
    Buried,
    /// Its queue takes nothing, ever.
    Broken,
    /// Its queue says that it will never take it.
    Picky,
    /// Of a FIFO group whose heads make way when they fail.
    Aside,
}

/// A letter as it was put into the dead-letter queue.
#[derive(Debug, Clone)]
pub struct Letter {
    /// Its number.
    pub who: Who,
    /// Its kind.
    pub kind: Kind,
    /// Whether it lies in a FIFO queue.
    pub fifo: bool,
    /// The body.
    pub body: String,
    /// The attributes.
    pub attributes: Attributes,
    /// The group.
    pub group: Option<String>,
    /// The X-Ray header.
    pub trace: Option<String>,
    /// The queue from which SQS moved it.
    pub source: Option<String>,
    sns: Option<Sns>,
}

/// The message of SNS in it.
#[derive(Debug, Clone)]
struct Sns {
    id: String,
    message: String,
    subject: String,
    attributes: Attributes,
}

/// An ARN of the world.
#[must_use]
pub fn arn(service: &str, resource: &str) -> String {
    format!("arn:aws:{service}:{ACCOUNT}:{resource}")
}

/// A name with the ending of FIFO queues and topics, where it is one.
#[must_use]
pub fn named(name: &str, fifo: bool) -> String {
    if fifo { format!("{name}.fifo") } else { name.to_owned() }
}

/// The subscriptions of a world, with protocol and endpoint; `web` is the address of its web server.
#[must_use]
pub fn subscriptions(fifo: bool, discovered_only: bool, web: &str) -> Vec<(String, &'static str, String)> {
    let queue = |name: &str| arn("sqs", &named(name, fifo));
    let all = [
        (Kind::Queue, "sqs", queue("orders-worker")),
        (Kind::Broken, "sqs", queue("orders-broken")),
        (Kind::Picky, "sqs", queue("orders-picky")),
        (Kind::Raw, "sqs", queue("orders-raw")),
        (Kind::Function, "lambda", arn("lambda", "function:orders-notifier")),
        (Kind::Web, "http", format!("http://{web}/web/orders")),
        (Kind::Stream, "firehose", arn("firehose", "deliverystream/orders")),
    ];
    let wanted = |kind: &Kind| (*kind == Kind::Raw) || !discovered_only;
    all.into_iter()
        .filter(|(kind, ..)| wanted(kind))
        .map(|(kind, protocol, endpoint)| (subscription(kind, fifo), protocol, endpoint))
        .collect()
}

/// The subscription of letters of a kind.
#[must_use]
pub fn subscription(kind: Kind, fifo: bool) -> String {
    let digit = match kind {
        Kind::Queue | Kind::Topic | Kind::Buried | Kind::Aside | Kind::Moved => 1,
        Kind::Broken => 2,
        Kind::Picky => 3,
        Kind::Raw | Kind::Discovered => 4,
        Kind::Function | Kind::Destination => 5,
        Kind::Web => 6,
        Kind::Stream => 7,
        Kind::Stranger | Kind::Garbage | Kind::Plain => 8,
    };
    let topic = named("orders", fifo);
    arn("sns", &format!("{topic}:00000000-0000-4000-8000-00000000000{digit}"))
}

/// The redrive policy under which each kind goes where it must. `first_delay` of 0 means a first retry at
/// once.
#[must_use]
pub fn policy(fifo: bool, schedule: &Value) -> Value {
    let way = |way: &str| json!({ "messageAttributes": { "way": [way] } });
    let mut rules = vec![
        json!({ "name": "topic", "match": way("topic"), "target": "topic" }),
        json!({ "name": "bury", "match": way("bury"), "action": "archive" }),
        json!({ "name": "raw", "match": way("raw"), "subscription": subscription(Kind::Raw, fifo) }),
        json!({ "name": "discover", "match": way("discover"), "subscription": "discover" }),
    ];
    if fifo {
        let function = |name: &str| arn("lambda", &format!("function:{name}"));
        rules.push(
            json!({ "name": "function", "match": way("function"), "target": function("orders-notifier") }),
        );
        rules.push(json!({ "name": "plain", "match": way("plain"), "target": function("orders-projector") }));
        rules.push(json!({ "name": "aside", "match": way("aside"), "fifo": "step-aside" }));
    }
    json!({ "default": { "target": "origin", "jitter": 0, "deliveryPolicy": { "healthyRetryPolicy": schedule } },
        "origins": { "*": ["lambda-destination", "eventbridge"] },
        "rules": rules })
}

impl Kind {
    /// Where it must end.
    #[must_use]
    pub fn end(self) -> End {
        match self {
            Self::Garbage => End::Archived("unrecognised"),
            Self::Stranger => End::Archived("refused"),
            Self::Buried => End::Archived("rule"),
            Self::Broken => End::Archived("exhausted"),
            Self::Picky => End::Archived("permanent"),
            _ => End::Delivered,
        }
    }

    /// In a word.
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
            Self::Aside => "stepping aside",
        }
    }

    fn way(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Buried => "bury",
            Self::Raw => "raw",
            Self::Discovered => "discover",
            Self::Function => "function",
            Self::Plain => "plain",
            Self::Aside => "aside",
            _ => "origin",
        }
    }

    /// The operation that delivers it, and its target's name there.
    fn target(self, fifo: bool) -> Option<(&'static str, String)> {
        let queue = |name: &str| Some(("SendMessageBatch", named(name, fifo)));
        match self {
            Self::Queue | Self::Aside => queue("orders-worker"),
            Self::Raw | Self::Discovered => queue("orders-raw"),
            Self::Moved => queue("orders-billing"),
            Self::Broken => queue("orders-broken"),
            Self::Picky => queue("orders-picky"),
            Self::Topic => Some(("PublishBatch", named("orders", fifo))),
            Self::Function | Self::Destination => Some(("Invoke", "orders-notifier".to_owned())),
            Self::Plain => Some(("Invoke", "orders-projector".to_owned())),
            Self::Web => Some(("POST", "orders".to_owned())),
            Self::Stream => Some(("PutRecordBatch", "orders".to_owned())),
            Self::Garbage | Self::Stranger | Self::Buried => None,
        }
    }
}

impl Letter {
    /// Writes a letter.
    #[must_use]
    pub fn write(who: Who, kind: Kind, group: Option<String>, fifo: bool, chance: &mut Chance) -> Self {
        let token = format!("{TOKEN}{who:0TOKEN_DIGITS$}");
        let padding = "x".repeat(chance.below(900));
        let message =
            json!({ "event": "order-placed", "id": token, "note": "Grüße & <b>\"ok\"</b> \u{1F600}\n\u{7}",
            "padding": padding })
            .to_string();
        let binary = STANDARD.encode([0, 1, 2, 0xfd, 0xfe, 0xff, u8::try_from(who % 256).unwrap_or(0)]);
        let attributes: Attributes = [
            ("way", "String", kind.way().to_owned()),
            ("priority", "Number", (who % 7).to_string()),
            ("checksum", "Binary", format!("base64 {binary}")),
        ]
        .into_iter()
        .map(|(name, of, value)| (name.to_owned(), (of.to_owned(), value)))
        .collect();
        let sns = Sns {
            id: format!("00000000-0000-5000-8000-{who:012}"),
            message,
            subject: format!("Order {who}"),
            attributes,
        };
        let mut letter = Self {
            who,
            kind,
            fifo,
            body: String::new(),
            attributes: Attributes::new(),
            trace: chance
                .once_in(4)
                .then(|| format!("Root=1-5759e988-{who:024x};Parent=53995c3f42cd8ad8;Sampled=1")),
            group,
            source: None,
            sns: None,
        };
        match kind {
            Kind::Raw | Kind::Discovered => {
                letter.body = sns.message;
                letter.attributes = sns.attributes;
            }
            Kind::Plain => {
                letter.body = sns.message;
                if fifo {
                    letter.attributes = sns.attributes;
                } else {
                    let text = |value: String| ("String".to_owned(), value);
                    letter.attributes = [
                        ("RULE_ARN", arn("events", "rule/orders-to-projector")),
                        ("TARGET_ARN", arn("lambda", "function:orders-projector")),
                        ("ERROR_CODE", "THROTTLING".to_owned()),
                    ]
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), text(value)))
                    .collect();
                }
            }
            Kind::Garbage => letter.body = garbage(&token, chance),
            Kind::Destination => {
                letter.body = destination(&sns, fifo);
                letter.sns = Some(sns);
            }
            _ => {
                letter.body = envelope(&sns, kind, fifo);
                letter.source = (kind == Kind::Moved).then(|| arn("sqs", &named("orders-billing", fifo)));
                letter.sns = Some(sns);
            }
        }
        letter
    }

    /// Whether an entry of a call is this letter, whole and at its target. The number of the retry by its
    /// mark is in the answer, where it has one.
    ///
    /// # Errors
    ///
    /// What is wrong, in words.
    pub fn arrives(&self, op: &str, to: &str, entry: &Entry) -> Result<Option<usize>, String> {
        let target = self.kind.target(self.fifo);
        if target.as_ref().map(|(op, to)| (*op, to.as_str())) != Some((op, to)) {
            return Err(format!("{op} {to} is no place for {}", self.kind.name()));
        }
        match op {
            "SendMessageBatch" => {
                same("body", &entry.body, &self.body)?;
                same("group", &entry.group_id, &self.group)?;
                same("trace header", &entry.trace_header, &self.trace)?;
                let attributes =
                    if self.kind == Kind::Plain { Attributes::new() } else { self.attributes.clone() };
                unmarked(&entry.attributes, &attributes)
            }
            "PublishBatch" => {
                let sns = self.sns.as_ref().ok_or("no message of SNS")?;
                same("message", &entry.body, &sns.message)?;
                same("subject", &entry.subject.as_deref(), &Some(sns.subject.as_str()))?;
                same("group", &entry.group_id, &self.group)?;
                unmarked(&entry.attributes, &sns.attributes)
            }
            "Invoke" if self.kind != Kind::Plain => self.event(&entry.body),
            "PutRecordBatch" => {
                same("record", &entry.body.as_str(), &[&self.body, "\n"].concat().as_str()).map(|()| None)
            }
            _ => same("body", &entry.body, &self.body).map(|()| None),
        }
    }

    /// Whether a message in the requeue is this letter. The retries behind it by its mark are in the answer.
    ///
    /// # Errors
    ///
    /// What is wrong, in words.
    pub fn moves(&self, entry: &Entry) -> Result<Option<usize>, String> {
        same("body", &entry.body, &self.body)?;
        same("group", &entry.group_id, &self.group)?;
        same("trace header", &entry.trace_header, &self.trace)?;
        unmarked(&entry.attributes, &self.attributes)
    }

    /// Whether a message in an archive queue is this letter; the reason is in the answer, where the record came along.
    ///
    /// # Errors
    ///
    /// What is wrong, in words.
    pub fn rests(&self, entry: &Entry) -> Result<Option<String>, String> {
        same("body", &entry.body, &self.body)?;
        same("group", &entry.group_id, &self.group)?;
        let mut attributes = entry.attributes.clone();
        let context = attributes.remove(EPITAPH);
        attributes.remove(MARK);
        same("attributes", &attributes, &self.attributes)?;
        let Some((_, context)) = context else { return Ok(None) };
        let context: Value = serde_json::from_str(&context).map_err(|error| error.to_string())?;
        Ok(Some(context["reason"].as_str().unwrap_or_default().to_owned()))
    }

    /// Whether the message can be rebuilt from an archived record.
    ///
    /// # Errors
    ///
    /// What is wrong, in words.
    pub fn is_recorded(&self, record: &Value) -> Result<(), String> {
        let message = &record["message"];
        same("body", &message["body"].as_str().unwrap_or_default(), &self.body.as_str())?;
        let system = &message["attributes"];
        same("group", &system["MessageGroupId"].as_str(), &self.group.as_deref())?;
        same("trace header", &system["AWSTraceHeader"].as_str(), &self.trace.as_deref())?;
        let attributes = message["messageAttributes"].as_object().ok_or("no attributes")?;
        let mut attributes: Attributes = attributes
            .iter()
            .map(|(name, attribute)| {
                let text = |key: &str| attribute[key].as_str().map(str::to_owned);
                let value =
                    text("stringValue").or(text("binaryValue").map(|bytes| format!("base64 {bytes}")));
                (name.clone(), (text("dataType").unwrap_or_default(), value.unwrap_or_default()))
            })
            .collect();
        let came_back = attributes.remove(MARK).is_some();
        // SQS names the source in the first queue only; in the requeue the mark does.
        let source = system["DeadLetterQueueSourceArn"].as_str();
        if !came_back || source.is_some() {
            same("source", &source, &self.source.as_deref())?;
        }
        same("attributes", &attributes, &self.attributes)
    }

    /// Whether a post is this letter.
    ///
    /// # Errors
    ///
    /// What is wrong, in words.
    pub fn is_posted(&self, post: &Raw) -> Result<(), String> {
        same("body", &post.body.as_slice(), &self.body.as_bytes())?;
        let id = self.sns.as_ref().map(|sns| sns.id.as_str());
        same("id", &post.header("x-amz-sns-message-id"), &id)?;
        let through = subscription(self.kind, self.fifo);
        same("subscription", &post.header("x-amz-sns-subscription-arn"), &Some(through.as_str()))
    }

    fn event(&self, text: &str) -> Result<Option<usize>, String> {
        let sns = self.sns.as_ref().ok_or("no message of SNS")?;
        let event: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let record = &event["Records"][0];
        let text = |name: &str| record["Sns"][name].as_str();
        same("message", &text("Message"), &Some(sns.message.as_str()))?;
        same("id", &text("MessageId"), &Some(sns.id.as_str()))?;
        same("subject", &text("Subject"), &Some(sns.subject.as_str()))?;
        let through = subscription(self.kind, self.fifo);
        same("subscription", &record["EventSubscriptionArn"].as_str(), &Some(through.as_str()))?;
        let mut attributes = record["Sns"]["MessageAttributes"].as_object().ok_or("no attributes")?.clone();
        let mark = attributes.remove(MARK).ok_or("no mark")?;
        same("attributes", &Value::Object(attributes), &enveloped(&sns.attributes))?;
        spent(mark["Value"].as_str().unwrap_or_default()).map(Some)
    }
}

/// The letter whose token is in a text.
#[must_use]
pub fn token(text: &str) -> Option<Who> {
    let after = text.find(TOKEN)? + TOKEN.len();
    text.get(after..after + TOKEN_DIGITS)?.parse().ok()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?}, not {expected:?}")) }
}

/// The attributes without the mark are these; the mark's retry is in the answer.
fn unmarked(found: &Attributes, expected: &Attributes) -> Result<Option<usize>, String> {
    let mut found = found.clone();
    let (_, mark) = found.remove(MARK).ok_or("no mark")?;
    same("attributes", &found, expected)?;
    spent(&mark).map(Some)
}

fn spent(mark: &str) -> Result<usize, String> {
    let mark: Value = serde_json::from_str(mark).map_err(|error| format!("mark: {error}"))?;
    let spent = mark["spent"].as_u64().and_then(|spent| usize::try_from(spent).ok());
    spent.filter(|_| mark["v"] == 2).ok_or_else(|| format!("mark: {mark}"))
}

fn envelope(sns: &Sns, kind: Kind, fifo: bool) -> String {
    let text = |text: &str| Value::from(text).to_string();
    let through = subscription(kind, fifo);
    let url = format!("https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn={through}");
    // As SNS writes it.
    format!(
        "{{\n  \"Type\" : \"Notification\",\n  \"MessageId\" : {},\n  \"TopicArn\" : {},\n  \"Subject\" : {},\n  \
         \"Message\" : {},\n  \"Timestamp\" : \"2026-11-01T11:59:58.351Z\",\n  \"UnsubscribeURL\" : {},\n  \
         \"MessageAttributes\" : {}\n}}",
        text(&sns.id),
        text(&arn("sns", &named("orders", fifo))),
        text(&sns.subject),
        text(&sns.message),
        text(&url),
        enveloped(&sns.attributes),
    )
}

fn enveloped(attributes: &Attributes) -> Value {
    let attribute = |(name, (of, value)): (&String, &(String, String))| {
        let value = value.strip_prefix("base64 ").unwrap_or(value);
        (name.clone(), json!({ "Type": of, "Value": value }))
    };
    Value::Object(attributes.iter().map(attribute).collect::<Map<_, _>>())
}

fn destination(sns: &Sns, fifo: bool) -> String {
    let event = json!({ "Records": [{
        "EventSource": "aws:sns", "EventVersion": "1.0",
        "EventSubscriptionArn": subscription(Kind::Destination, fifo),
        "Sns": { "Type": "Notification", "MessageId": sns.id, "TopicArn": arn("sns", &named("orders", fifo)),
            "Subject": sns.subject, "Message": sns.message, "Timestamp": "2026-11-01T11:59:58.351Z",
            "MessageAttributes": enveloped(&sns.attributes) } }] });
    json!({ "version": "1.0", "timestamp": "2026-11-01T11:59:59.351Z", "requestPayload": event,
        "requestContext": { "requestId": "r", "functionArn": arn("lambda", "function:orders-notifier:$LATEST"),
            "condition": "RetriesExhausted", "approximateInvokeCount": 3 },
        "responseContext": { "statusCode": 200, "functionError": "Unhandled" },
        "responsePayload": { "errorMessage": "mail relay refused" } })
    .to_string()
}

fn garbage(token: &str, chance: &mut Chance) -> String {
    match chance.below(5) {
        0 => format!("call me back, {token}"),
        1 => format!("{{\"Type\" : \"Notification\", \"Message\" : \"{token}\", \"TopicArn"),
        2 => format!("[{token:?}, {{}}, null]"),
        3 => format!("{}\"{token}\"", "[".repeat(300)),
        _ => format!("\u{202e}{token} \u{0}\u{FFFD} é"),
    }
}
