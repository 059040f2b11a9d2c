//! The account that a drill works in: its queues, its topic, its log, and a function that obeys overrides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive_support::stand_in::{self, StandInRequest};
use redrive_support::{DLQ, FIFO_DLQ, REQUEUE, RecordBuilder, TestAccount};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::super::stack::formation_with;
use super::super::{CommandRun, CommandWorld, records, redrivectl_in};

pub(super) const OUTPUTS: &[(&str, &str)] = &[
    ("ArchiveLocation", "s3://my-bucket/dead-letters"),
    ("ControlLocation", "s3://my-bucket/dead-letters-control"),
    ("DeadLetterQueueArn", DLQ),
    ("LogGroupName", "/sns-redrive/payments"),
    ("RequeueArn", REQUEUE),
];
pub(super) const DRILLS: &str =
    "<member><ParameterKey>Drill</ParameterKey><ParameterValue>true</ParameterValue></member>";
pub(super) const QUEUES: &str = "https://sqs.eu-central-1.amazonaws.com/123456789012/";
pub(super) const SNS: &str = "arn:aws:sns:eu-central-1:123456789012:";
pub(super) const OVERRIDES: &str = "my-bucket/dead-letters-control/overrides.json";

/// A letter that the function has not settled: the id of SNS's message, its attribute, and whether it is
/// replayed.
#[derive(Clone)]
pub(super) struct DrillLetter {
    pub(super) id: String,
    pub(super) kind: String,
    /// When the letter comes back, if it is hidden.
    pub(super) hidden_until: Option<Instant>,
}

/// The resources in front of the account, and a function that obeys overrides.
#[derive(Default)]
pub(super) struct DrillAccount {
    /// Messages by queue.
    pub(super) queues: BTreeMap<String, Vec<String>>,
    pub(super) topics: BTreeSet<String>,
    /// Tags of the topic.
    pub(super) tags: BTreeMap<String, String>,
    /// Endpoints by subscription.
    pub(super) subscriptions: BTreeMap<String, String>,
    pub(super) letters: Vec<DrillLetter>,
    pub(super) replayed: Option<DrillLetter>,
    pub(super) log: Vec<String>,
    /// Everything that the drill ever created.
    pub(super) made: Vec<String>,
    pub(super) calls: usize,
    pub(super) publishes: usize,
}

/// The failure of one call.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum DrillTrouble {
    None,
    Fails(usize),
    Interrupted(usize),
    /// SNS refuses this message.
    Refuses(usize),
}

#[derive(Clone)]
pub(super) struct DrillTest {
    pub(super) cloud: TestAccount,
    pub(super) place: Arc<Mutex<DrillAccount>>,
    /// The outputs; `None` if the stack is deleted.
    pub(super) outputs: Option<&'static [(&'static str, &'static str)]>,
    pub(super) parameters: &'static str,
    pub(super) policy: String,
    /// How long a letter is hidden after a failed attempt.
    pub(super) hides: Duration,
    /// True if the bucket has S3 Object Lock.
    pub(super) locks: bool,
    pub(super) read_until: Option<usize>,
}

impl DrillTest {
    pub(super) fn new() -> Self {
        let cloud = TestAccount::new();
        for queue in ["payments-requeue", "payments-dlq", "payments-requeue.fifo", "payments-dlq.fifo"] {
            cloud.drained(queue);
        }
        let lets_in = json!({ "Statement": [
            { "Effect": "Allow", "Principal": { "Service": "sns.amazonaws.com" }, "Action": "sqs:SendMessage",
              "Resource": DLQ, "Condition": { "ArnLike": { "aws:SourceArn": format!("{SNS}payments-drill-*") } } },
        ] });
        Self {
            cloud,
            place: Arc::default(),
            outputs: Some(OUTPUTS),
            parameters: DRILLS,
            policy: lets_in.to_string(),
            hides: Duration::ZERO,
            locks: false,
            read_until: None,
        }
    }

    pub(super) async fn run(&self, trouble: DrillTrouble, args: &[&str]) -> CommandRun {
        {
            let mut place = self.place.lock().unwrap();
            (place.calls, place.publishes) = (0, 0);
        }
        let interrupted = Arc::new(AtomicBool::new(false));
        let (this, flag) = (self.clone(), Arc::clone(&interrupted));
        let config = stand_in::before(&self.cloud, move |asked| this.answer(trouble, &flag, asked));
        let read_until = self.read_until;
        let world = CommandWorld {
            config: Some(config),
            interrupted,
            ticks: true,
            read_until,
            ..CommandWorld::default()
        };
        let drill = ["drill", "--stack", "payments", "--settle", "1", "--within", "300", "--watch", "1"];
        redrivectl_in(world, &[&drill, args].concat()).await
    }

    /// Kills a drill as soon as this condition holds.
    pub(super) async fn killed(&self, when: impl Fn(&DrillAccount) -> bool) {
        let reached = async {
            while !when(&self.place.lock().unwrap()) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            ran = self.run(DrillTrouble::None, &["--yes"]) => panic!("{ran:?}"),
            () = reached => {}
        }
    }

    fn answer(
        &self,
        trouble: DrillTrouble,
        interrupted: &AtomicBool,
        asked: &StandInRequest<'_>,
    ) -> Option<(u16, String)> {
        let mut place = self.place.lock().unwrap();
        place.calls += 1;
        if trouble == DrillTrouble::Interrupted(place.calls) {
            interrupted.store(true, Ordering::Relaxed);
        }
        self.function(&mut place);
        if trouble == DrillTrouble::Fails(place.calls) {
            let json = json!({ "__type": "InternalFailure", "message": "broken" }).to_string();
            let xml = "<ErrorResponse><Error><Code>InternalFailure</Code></Error></ErrorResponse>".to_owned();
            return Some((500, if asked.target.is_empty() { xml } else { json }));
        }
        if asked.is_of("sns") {
            if asked.field("Action") == Some("Publish") {
                place.publishes += 1;
                if trouble == DrillTrouble::Refuses(place.publishes) {
                    let xml = "<ErrorResponse><Error><Code>AuthorizationError</Code></Error></ErrorResponse>";
                    return Some((403, xml.to_owned()));
                }
            }
            return Some(place.sns(asked));
        }
        if asked.is_of("sqs") || asked.is_of("logs") {
            let body: Value = serde_json::from_str(asked.body).unwrap();
            let operation = asked.target.rsplit('.').next().unwrap();
            if let Some(name) =
                is_asked(&body).filter(|_| !["GetQueueUrl", "ListQueueTags"].contains(&operation))
            {
                match operation {
                    "CreateQueue" => self.cloud.queue(&name, &[]),
                    "DeleteQueue" => self.cloud.aws.act("test", |it, _| it.sqs.remove(&name)),
                    // The account in memory answers.
                    _ => return None,
                }
            }
            return place.json(asked.target.rsplit('.').next().unwrap(), &body, &self.policy);
        }
        if asked.is_of("cloudformation") && self.outputs.is_none() {
            let error =
                "<Code>ValidationError</Code><Message>Stack with id payments does not exist</Message>";
            return Some((400, format!("<ErrorResponse><Error>{error}</Error></ErrorResponse>")));
        }
        formation_with(asked, self.outputs.unwrap_or_default(), self.parameters)
            .or_else(|| self.versions(asked))
    }

    /// Obeys the overrides about its letters.
    fn function(&self, place: &mut DrillAccount) {
        let objects = self.cloud.objects();
        let document: Value =
            objects.get(OVERRIDES).map(|it| serde_json::from_str(it).unwrap()).unwrap_or_default();
        let overrides = document["overrides"].as_array().cloned().unwrap_or_default();
        let requeues = ["payments-requeue", "payments-requeue.fifo"];
        if requeues.iter().any(|requeue| !self.cloud.messages(requeue).is_empty()) {
            let replayed = place.replayed.take();
            place.letters.extend(replayed);
        }
        let (hidden, seen): (Vec<_>, Vec<_>) = std::mem::take(&mut place.letters)
            .into_iter()
            .partition(|letter| letter.hidden_until.is_some_and(|until| Instant::now() < until));
        place.letters = hidden;
        for mut letter in seen {
            let is_meant = |override_: &&Value| {
                let kinds = &override_["match"]["messageAttributes"]["drill"];
                kinds.is_null() || kinds[0] == letter.kind.as_str()
            };
            let override_ =
                overrides.iter().find(is_meant).map(|override_| override_["do"].as_str().unwrap());
            let broken = place.queues.iter_mut().find(|(name, _)| name.contains("-broken"));
            match (override_, broken) {
                (Some("give-up"), _) => {
                    self.archive(&letter, place.topics.first().unwrap());
                    place.replayed = Some(letter);
                }
                (_, Some((_, inbox))) => inbox.push(letter.id),
                (_, None) => {
                    let line = json!({ "outcome": "deferred", "retry.number": 1, "retry.of": 12, "retry.phase": "immediate",
                                       "error.code": "QueueDoesNotExist", "letter.id": letter.id, "due": "soon" });
                    place.log.push(line.to_string());
                    letter.hidden_until = Some(Instant::now() + self.hides);
                    place.letters.push(letter);
                }
            }
        }
    }

    fn archive(&self, letter: &DrillLetter, topic: &str) {
        let queue = if is_fifo(topic) { FIFO_DLQ } else { DLQ };
        let post = RecordBuilder::envelope("1").queue(queue).group(&letter.kind);
        let mut record = records::record(&redrive_support::letter(&post));
        record.topic_arn = Some(topic.parse().unwrap());
        "overridden".clone_into(&mut record.reason);
        record.letter_id.clone_from(&letter.id);
        record.message.message_id.clone_from(&letter.id);
        "2026-11-01T11:30:00Z".clone_into(&mut record.archived_at);
        let key = format!("20261101T113000.000Z-{}.2-n1-r0.jsonl", letter.id);
        let name = queue.rsplit(':').next().unwrap();
        let key = format!("my-bucket/dead-letters/queue={name}/date=2026-11-01/{key}");
        self.cloud.put_at(&key, &record.to_line().unwrap(), "2026-11-01T11:30:00.000Z");
    }

    /// The versions of an object, and the end of one.
    fn versions(&self, asked: &StandInRequest<'_>) -> Option<(u16, String)> {
        let (path, query) =
            asked.uri.strip_prefix("https://my-bucket.s3.")?.split_once('/')?.1.split_once('?')?;
        if asked.method == "DELETE" && self.locks {
            let why = "Access Denied because object protected by object lock.";
            let error = format!("<Error><Code>AccessDenied</Code><Message>{why}</Message></Error>");
            return Some((403, error));
        }
        if asked.method == "DELETE" {
            let key = path.replace("%3D", "=");
            self.cloud.aws.act("test", |it, _| it.s3.remove(("my-bucket", &key)));
            return Some((204, String::new()));
        }
        let prefix = query.split('&').find_map(|pair| pair.strip_prefix("prefix="));
        query.starts_with("versions").then_some(())?;
        let prefix = prefix.unwrap().replace("%2F", "/").replace("%3D", "=");
        let objects = self.cloud.objects();
        let of = objects.keys().filter_map(|place| place.strip_prefix("my-bucket/"));
        let version = |key| format!("<Version><Key>{key}</Key><VersionId>1</VersionId></Version>");
        let versions: String = of.filter(|key| key.starts_with(&prefix)).map(version).collect();
        Some((200, format!("<ListVersionsResult>{versions}</ListVersionsResult>")))
    }

    /// Returns everything that is left of a drill.
    pub(super) fn left(&self) -> Vec<String> {
        let place = self.place.lock().unwrap();
        let mut left: Vec<String> = place.queues.keys().chain(&place.topics).cloned().collect();
        left.extend(place.subscriptions.keys().cloned());
        left.extend(place.letters.iter().map(|letter| letter.id.clone()));
        for (key, object) in self.cloud.objects() {
            let none = json!({ "version": 1, "overrides": [] });
            let is_none = key == OVERRIDES && serde_json::from_str::<Value>(&object).unwrap() == none;
            // The records of a replay stay, so that no letter is replayed twice.
            if !(is_none || key.contains("-control/replays/")) {
                left.push(key);
            }
        }
        left
    }
}

/// Reports whether a name is of a FIFO topic or queue.
pub(super) fn is_fifo(name: &str) -> bool {
    name.strip_suffix(".fifo").is_some()
}

/// Returns the name of the queue for the drill's questions, if a request is about one.
fn is_asked(body: &Value) -> Option<String> {
    let name = body["QueueUrl"].as_str().or(body["QueueName"].as_str())?.rsplit('/').next()?;
    let is_it = name.contains("-drill-") && (name.ends_with("-asked") || name.ends_with("-a.fifo"));
    is_it.then(|| name.to_owned())
}

impl DrillAccount {
    fn sns(&mut self, asked: &StandInRequest<'_>) -> (u16, String) {
        let field = |name| asked.field(name).unwrap_or_default().replace("%3A", ":");
        let topic = field("TopicArn");
        let action = field("Action");
        let result = match action.as_str() {
            "CreateTopic" => {
                self.tag(asked);
                assert_eq!(self.tags["sns-redrive-drill"], "payments");
                assert_eq!(is_fifo(&field("Name")), field("Attributes.entry.1.key") == "FifoTopic");
                let arn = format!("{SNS}{}", field("Name"));
                self.topics.insert(arn.clone());
                self.made.push(field("Name"));
                format!("<TopicArn>{arn}</TopicArn>")
            }
            "Subscribe" => {
                let (arn, endpoint) = (format!("{topic}:{}", self.subscriptions.len()), field("Endpoint"));
                self.made.push(endpoint.rsplit(':').next().unwrap().to_owned());
                self.subscriptions.insert(arn.clone(), endpoint);
                format!("<SubscriptionArn>{arn}</SubscriptionArn>")
            }
            "Publish" => {
                let kind = field("MessageAttributes.entry.1.Value.StringValue");
                // A failing letter holds those of its group.
                let own = if is_fifo(&topic) { &*kind } else { "" };
                assert_eq!(["MessageGroupId", "MessageDeduplicationId"].map(field), [own; 2]);
                let id = format!("message-to-{kind}");
                let healthy = self.queues.iter_mut().find(|(name, _)| name.contains("-healthy")).unwrap();
                healthy.1.push(id.clone());
                self.letters.push(DrillLetter { id: id.clone(), kind, hidden_until: None });
                format!("<MessageId>{id}</MessageId>")
            }
            "ListSubscriptionsByTopic" => {
                let member =
                    |arn: &String| format!("<member><SubscriptionArn>{arn}</SubscriptionArn></member>");
                let members: String = self.subscriptions.keys().map(member).collect();
                format!("<Subscriptions>{members}</Subscriptions>")
            }
            "Unsubscribe" => {
                self.subscriptions.remove(&field("SubscriptionArn"));
                String::new()
            }
            "DeleteTopic" => {
                self.topics.remove(&topic);
                String::new()
            }
            "ListTopics" => {
                let other = format!("{SNS}payments");
                let topics = self.topics.iter().chain([&other]);
                let member = |arn: &String| format!("<member><TopicArn>{arn}</TopicArn></member>");
                let topics: String = topics.map(member).collect();
                format!("<Topics>{topics}</Topics>")
            }
            "ListTagsForResource" => {
                let member =
                    |(key, value)| format!("<member><Key>{key}</Key><Value>{value}</Value></member>");
                let tags: String = self.tags.iter().map(member).collect();
                format!("<Tags>{tags}</Tags>")
            }
            "TagResource" => {
                self.tag(asked);
                String::new()
            }
            action => panic!("{action}"),
        };
        (200, format!("<{action}Response><{action}Result>{result}</{action}Result></{action}Response>"))
    }

    fn tag(&mut self, asked: &StandInRequest<'_>) {
        let field = |number: usize, name| asked.field(&format!("Tags.member.{number}.{name}"));
        for number in 1.. {
            let (Some(key), Some(value)) = (field(number, "Key"), field(number, "Value")) else { break };
            self.tags.insert(key.to_owned(), value.replace("%3A", ":"));
        }
    }

    /// Answers for the drill's queues and for the log. For other queues the account answers.
    fn json(&mut self, operation: &str, body: &Value, policy: &str) -> Option<(u16, String)> {
        let name = match body["QueueUrl"].as_str() {
            Some(url) => url.rsplit('/').next().unwrap(),
            None => body["QueueName"].as_str().unwrap_or_default(),
        };
        let gone = json!({ "__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "none" }).to_string();
        let is_drills = name.contains("-drill-");
        let answer = match operation {
            "GetQueueUrl" if is_drills && !self.queues.contains_key(name) => return Some((400, gone)),
            "GetQueueUrl" => json!({ "QueueUrl": format!("{QUEUES}{name}") }),
            "GetQueueAttributes" if body["AttributeNames"][0] == "Policy" => {
                json!({ "Attributes": { "Policy": policy } })
            }
            "CreateQueue" => {
                assert_eq!(body["tags"]["sns-redrive-drill"], "payments");
                assert_eq!(is_fifo(name), body["Attributes"]["FifoQueue"] == "true");
                self.made.push(name.to_owned());
                self.queues.entry(name.to_owned()).or_default();
                json!({ "QueueUrl": format!("{QUEUES}{name}") })
            }
            "ReceiveMessage" => {
                let bodies = std::mem::take(self.queues.get_mut(name).unwrap());
                let message = |id| json!({ "Body": json!({ "MessageId": id }).to_string(), "ReceiptHandle": id, "MessageId": id });
                json!({ "Messages": bodies.into_iter().map(message).collect::<Vec<_>>() })
            }
            "DeleteMessageBatch" => json!({ "Successful": [], "Failed": [] }),
            "DeleteQueue" => {
                assert!(self.queues.remove(name).is_some());
                json!({})
            }
            "ListQueues" => {
                let urls = self.queues.keys().map(|name| format!("{QUEUES}{name}"));
                json!({ "QueueUrls": urls.collect::<Vec<_>>() })
            }
            "ListQueueTags" if is_drills => {
                json!({ "Tags": { "sns-redrive-drill": "payments", "sns-redrive-drill-queue": DLQ } })
            }
            "FilterLogEvents" => {
                assert!(body["filterPattern"].as_str().unwrap().starts_with('"'));
                // Not every cloud applies the filter.
                let other =
                    json!({ "outcome": "archived", "letter.id": "another", "rule": "never" }).to_string();
                let lines = [&other].into_iter().chain(&self.log);
                json!({ "events": lines.map(|line| json!({ "message": line })).collect::<Vec<_>>() })
            }
            _ => return None,
        };
        Some((200, answer.to_string()))
    }
}
