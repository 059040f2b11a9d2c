//! `drill`: all that it makes has names of its own, and whatever fails, it is taken away again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::stack::formation_with;
use super::{Ran, World, records, redrivectl_in};
use support::stand_in::{self, Asked};
use support::{Account, DLQ, Post, REQUEUE};

const OUTPUTS: &[(&str, &str)] = &[
    ("ArchiveLocation", "s3://my-bucket/dead-letters"),
    ("ControlLocation", "s3://my-bucket/dead-letters-control"),
    ("DeadLetterQueueArn", DLQ),
    ("LogGroupName", "/sns-redrive/orders"),
    ("RequeueArn", REQUEUE),
];
const DRILLS: &str =
    "<member><ParameterKey>Drill</ParameterKey><ParameterValue>true</ParameterValue></member>";
const QUEUES: &str = "https://sqs.eu-central-1.amazonaws.com/123456789012/";
const SNS: &str = "arn:aws:sns:eu-central-1:123456789012:";
const ORDERS: &str = "my-bucket/dead-letters-control/orders.json";

/// A letter that the function has not settled yet: the id of SNS's message, its attribute, and whether it is replayed.
#[derive(Clone)]
struct Letter {
    id: String,
    kind: String,
    /// The time at which it comes back, if it is hidden.
    hidden_until: Option<Instant>,
}

/// The resources in front of the account, and a function that obeys orders.
#[derive(Default)]
struct Place {
    /// Messages by queue.
    queues: BTreeMap<String, Vec<String>>,
    topics: BTreeSet<String>,
    /// Tags of the topic.
    tags: BTreeMap<String, String>,
    /// Endpoints by subscription.
    subscriptions: BTreeMap<String, String>,
    letters: Vec<Letter>,
    replayed: Option<Letter>,
    log: Vec<String>,
    /// Everything that was ever made.
    made: Vec<String>,
    calls: usize,
    publishes: usize,
}

/// The failure of one call.
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    None,
    Fails(usize),
    Interrupted(usize),
    /// SNS does not take this message.
    Refuses(usize),
}

#[derive(Clone)]
struct Drill {
    cloud: Account,
    place: Arc<Mutex<Place>>,
    /// The outputs; `None` if the stack is deleted.
    outputs: Option<&'static [(&'static str, &'static str)]>,
    parameters: &'static str,
    policy: String,
    /// The time for which a letter is hidden after a failed attempt.
    hides: Duration,
    /// True if the bucket has S3 Object Lock.
    locks: bool,
    read_until: Option<usize>,
}

impl Drill {
    fn new() -> Self {
        let cloud = Account::new();
        for queue in ["orders-requeue", "orders-dlq"] {
            cloud.drained(queue);
        }
        let lets_in = json!({ "Statement": [
            { "Effect": "Allow", "Principal": { "Service": "sns.amazonaws.com" }, "Action": "sqs:SendMessage",
              "Resource": DLQ, "Condition": { "ArnLike": { "aws:SourceArn": format!("{SNS}orders-drill-*") } } },
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

    async fn run(&self, trouble: Trouble, args: &[&str]) -> Ran {
        {
            let mut place = self.place.lock().unwrap();
            (place.calls, place.publishes) = (0, 0);
        }
        let interrupted = Arc::new(AtomicBool::new(false));
        let (this, flag) = (self.clone(), Arc::clone(&interrupted));
        let config = stand_in::before(&self.cloud, move |asked| this.answer(trouble, &flag, asked));
        let read_until = self.read_until;
        let world = World { config: Some(config), interrupted, ticks: true, read_until, ..World::default() };
        let drill = ["drill", "--stack", "orders", "--settle", "1", "--within", "300", "--watch", "1"];
        redrivectl_in(world, &[&drill, args].concat()).await
    }

    /// Kills a drill as soon as this holds.
    async fn killed(&self, when: impl Fn(&Place) -> bool) {
        let reached = async {
            while !when(&self.place.lock().unwrap()) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            ran = self.run(Trouble::None, &["--yes"]) => panic!("{ran:?}"),
            () = reached => {}
        }
    }

    fn answer(&self, trouble: Trouble, interrupted: &AtomicBool, asked: &Asked<'_>) -> Option<(u16, String)> {
        let mut place = self.place.lock().unwrap();
        place.calls += 1;
        if trouble == Trouble::Interrupted(place.calls) {
            interrupted.store(true, Ordering::Relaxed);
        }
        self.function(&mut place);
        if trouble == Trouble::Fails(place.calls) {
            let json = json!({ "__type": "InternalFailure", "message": "broken" }).to_string();
            let xml = "<ErrorResponse><Error><Code>InternalFailure</Code></Error></ErrorResponse>".to_owned();
            return Some((500, if asked.target.is_empty() { xml } else { json }));
        }
        if asked.is_of("sns") {
            if asked.field("Action") == Some("Publish") {
                place.publishes += 1;
                if trouble == Trouble::Refuses(place.publishes) {
                    let xml = "<ErrorResponse><Error><Code>AuthorizationError</Code></Error></ErrorResponse>";
                    return Some((403, xml.to_owned()));
                }
            }
            return Some(place.sns(asked));
        }
        if asked.is_of("sqs") || asked.is_of("logs") {
            let body = serde_json::from_str(asked.body).unwrap();
            return place.json(asked.target.rsplit('.').next().unwrap(), &body, &self.policy);
        }
        if asked.is_of("cloudformation") && self.outputs.is_none() {
            let error = "<Code>ValidationError</Code><Message>Stack with id orders does not exist</Message>";
            return Some((400, format!("<ErrorResponse><Error>{error}</Error></ErrorResponse>")));
        }
        formation_with(asked, self.outputs.unwrap_or_default(), self.parameters)
            .or_else(|| self.versions(asked))
    }

    /// Does with letters what the orders say.
    fn function(&self, place: &mut Place) {
        let objects = self.cloud.objects();
        let document: Value =
            objects.get(ORDERS).map(|it| serde_json::from_str(it).unwrap()).unwrap_or_default();
        let orders = document["orders"].as_array().cloned().unwrap_or_default();
        if !self.cloud.messages("orders-requeue").is_empty() {
            let replayed = place.replayed.take();
            place.letters.extend(replayed);
        }
        let (hidden, seen): (Vec<_>, Vec<_>) = std::mem::take(&mut place.letters)
            .into_iter()
            .partition(|letter| letter.hidden_until.is_some_and(|until| Instant::now() < until));
        place.letters = hidden;
        for mut letter in seen {
            let is_meant = |order: &&Value| {
                let kinds = &order["match"]["messageAttributes"]["drill"];
                kinds.is_null() || kinds[0] == letter.kind.as_str()
            };
            let order = orders.iter().find(is_meant).map(|order| order["do"].as_str().unwrap());
            let broken = place.queues.iter_mut().find(|(name, _)| name.ends_with("-broken"));
            match (order, broken) {
                (Some("archive"), _) => {
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

    fn archive(&self, letter: &Letter, topic: &str) {
        let mut record = records::record(&support::letter(&Post::envelope("1")));
        record.topic_arn = Some(topic.parse().unwrap());
        "ordered".clone_into(&mut record.reason);
        record.letter_id.clone_from(&letter.id);
        record.message.message_id.clone_from(&letter.id);
        "2026-11-01T11:30:00Z".clone_into(&mut record.archived_at);
        let key = format!("20261101T113000.000Z-{}.2-n1-r0.jsonl", letter.id);
        let key = format!("my-bucket/dead-letters/queue=orders-dlq/date=2026-11-01/{key}");
        self.cloud.put_at(&key, &record.to_line().unwrap(), "2026-11-01T11:30:00.000Z");
    }

    /// The versions of an object, and the end of one.
    fn versions(&self, asked: &Asked<'_>) -> Option<(u16, String)> {
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

    /// Everything that is there of a drill.
    fn left(&self) -> Vec<String> {
        let place = self.place.lock().unwrap();
        let mut left: Vec<String> = place.queues.keys().chain(&place.topics).cloned().collect();
        left.extend(place.subscriptions.keys().cloned());
        left.extend(place.letters.iter().map(|letter| letter.id.clone()));
        for (key, object) in self.cloud.objects() {
            let none = json!({ "version": 1, "orders": [] });
            let is_none = key == ORDERS && serde_json::from_str::<Value>(&object).unwrap() == none;
            // What a replay keeps stays, so that no letter is replayed twice.
            if !(is_none || key.contains("-control/replays/")) {
                left.push(key);
            }
        }
        left
    }
}

impl Place {
    fn sns(&mut self, asked: &Asked<'_>) -> (u16, String) {
        let field = |name| asked.field(name).unwrap_or_default().replace("%3A", ":");
        let topic = field("TopicArn");
        let action = field("Action");
        let result = match action.as_str() {
            "CreateTopic" => {
                self.tag(asked);
                assert_eq!(self.tags["sns-redrive-drill"], "orders");
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
                let id = format!("message-to-{kind}");
                let healthy = self.queues.iter_mut().find(|(name, _)| name.ends_with("-healthy")).unwrap();
                healthy.1.push(id.clone());
                self.letters.push(Letter { id: id.clone(), kind, hidden_until: None });
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
                let other = format!("{SNS}orders");
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

    fn tag(&mut self, asked: &Asked<'_>) {
        let field = |number: usize, name| asked.field(&format!("Tags.member.{number}.{name}"));
        for number in 1.. {
            let (Some(key), Some(value)) = (field(number, "Key"), field(number, "Value")) else { break };
            self.tags.insert(key.to_owned(), value.replace("%3A", ":"));
        }
    }

    /// The answer of SQS about the drill's queues, and of the log; other queues are the account's.
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
                assert_eq!(body["tags"]["sns-redrive-drill"], "orders");
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
                json!({ "Tags": { "sns-redrive-drill": "orders", "sns-redrive-drill-queue": DLQ } })
            }
            "FilterLogEvents" => {
                assert!(body["filterPattern"].as_str().unwrap().starts_with('"'));
                // Not every cloud goes by the filter.
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

#[tokio::test(start_paused = true)]
async fn a_drill_shows_its_steps_and_leaves_nothing() {
    let drill = Drill::new();
    let ran = drill.run(Trouble::None, &["--yes", "--json"]).await;
    let said = ran.json();
    assert_eq!((&said["ok"], &said["left"]), (&json!(true), &json!([])), "{said}");
    let steps: Vec<_> =
        said["steps"].as_array().unwrap().iter().map(|step| step["name"].as_str().unwrap()).collect();
    let all = [
        "create", "break", "order", "publish", "healthy", "retry", "archive", "repair", "deliver", "replay",
        "count",
    ];
    assert_eq!(steps, all);
    assert_eq!(drill.left(), Vec::<String>::new());
    let made = drill.place.lock().unwrap().made.clone();
    assert_eq!(made.len(), 6, "a topic, two queues, two subscriptions, and a queue once more: {made:?}");
    assert!(made.iter().all(|name| name.starts_with("orders-drill-")), "{made:?}");
}

#[tokio::test(start_paused = true)]
async fn whatever_call_fails_nothing_is_left_in_the_end() {
    let calls = {
        let drill = Drill::new();
        assert_eq!(drill.run(Trouble::None, &["--yes"]).await.code, 0);
        let place = drill.place.lock().unwrap();
        place.calls
    };
    assert!(calls > 50, "{calls}");
    // One in three, for the time that all would take.
    for number in (3..=calls).step_by(3) {
        let drill = Drill::new();
        let ran = drill.run(Trouble::Fails(number), &["--yes"]).await;
        // Of who asks and what is waking the tool can do without an answer.
        assert!(ran.code <= 1, "call {number}: {ran:?}");
        if ran.out.contains("some of its resources are left") {
            assert!(ran.code == 1 && ran.out.contains("--clean"), "call {number}: {ran:?}");
            let cleaned = drill.run(Trouble::None, &["--clean", "--yes"]).await;
            assert_eq!(cleaned.code, 0, "call {number}: {ran:?} {cleaned:?}");
        }
        assert_eq!(drill.left(), Vec::<String>::new(), "call {number}: {ran:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whenever_somebody_interrupts_nothing_is_left() {
    let mut stopped = 0;
    for number in (4..).step_by(3) {
        let drill = Drill::new();
        let ran = drill.run(Trouble::Interrupted(number), &["--yes"]).await;
        assert_eq!(drill.left(), Vec::<String>::new(), "call {number}: {ran:?}");
        if ran.code == 0 {
            break;
        }
        assert_eq!(ran.code, 4, "call {number}: {ran:?}");
        stopped += 1;
    }
    assert!(stopped > 10, "{stopped}");
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_is_found_again() {
    let drill = Drill::new();
    let ran = drill.run(Trouble::None, &["--yes", "--keep"]).await;
    assert!(ran.code == 0 && ran.out.contains("redrivectl drill --clean --stack orders"), "{ran:?}");
    assert!(!drill.left().is_empty());
    let asked = drill.run(Trouble::None, &["--clean"]).await;
    assert_eq!(asked.code, 2, "{asked:?}");
    assert!(!drill.left().is_empty());
    drill.run(Trouble::None, &["--clean", "--yes"]).await.text();
    assert_eq!(drill.left(), Vec::<String>::new());
    let nothing = drill.run(Trouble::None, &["--clean", "--yes"]).await.text();
    assert_eq!(nothing, "No drill of orders has left anything.\n");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_where_nobody_reads_what_a_drill_says() {
    let mut whole = 0;
    for lines in [15, 16, 17, 20, 24, 30, 34, 38, 42, 46] {
        let drill = Drill { read_until: Some(lines), ..Drill::new() };
        let ran = drill.run(Trouble::None, &["--yes"]).await;
        assert_eq!(drill.left(), Vec::<String>::new(), "{lines} lines: {ran:?}");
        assert!(!drill.place.lock().unwrap().made.is_empty(), "{lines} lines: {ran:?}");
        // A drill of which the steps were read was whole, and else it was interrupted.
        let steps_are_read = ran.out.contains("each once");
        assert_eq!(ran.code, if steps_are_read { 0 } else { 4 }, "{lines} lines: {ran:?}");
        whole += usize::from(steps_are_read);
    }
    assert!((1..10).contains(&whole), "{whole}");
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_taken_away_though_nobody_reads_of_it() {
    let mut drill = Drill { read_until: Some(0), ..Drill::new() };
    let unseen = drill.run(Trouble::None, &["--yes"]).await;
    assert!(unseen.code == 1 && unseen.err.contains("nothing was done"), "{unseen:?}");
    assert_eq!(drill.left(), Vec::<String>::new());

    drill.read_until = None;
    assert_eq!(drill.run(Trouble::None, &["--yes", "--keep"]).await.code, 0);
    drill.read_until = Some(0);
    assert_eq!(drill.run(Trouble::None, &["--clean", "--yes"]).await.code, 0);
    assert_eq!(drill.left(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn letters_that_a_killed_drill_left_on_their_way_are_archived_first() {
    let drill = Drill { hides: Duration::from_secs(135), ..Drill::new() };
    drill.killed(|place| !place.log.is_empty()).await;
    let letters = drill.place.lock().unwrap().letters.len();
    assert!(letters > 0);
    drill.run(Trouble::None, &["--clean", "--yes"]).await.text();
    assert_eq!(drill.left(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn letters_that_no_function_archives_keep_the_topic_until_one_may() {
    const OBSERVES: &str =
        "<member><ParameterKey>RedriveMode</ParameterKey><ParameterValue>observe</ParameterValue></member>";
    let mut drill = Drill::new();
    drill.killed(|place| !place.log.is_empty()).await;
    drill.parameters = OBSERVES;
    let ran = drill.run(Trouble::None, &["--clean", "--yes"]).await;
    assert!(ran.code == 1 && ran.out.contains("RedriveMode=active, then run drill --clean again"), "{ran:?}");
    assert_eq!(drill.place.lock().unwrap().topics.len(), 1);
    drill.parameters = DRILLS;
    drill.run(Trouble::None, &["--clean", "--yes"]).await.text();
    assert_eq!(drill.left(), Vec::<String>::new());

    // The stack of these is gone, and so is the function.
    let mut drill = Drill::new();
    drill.killed(|place| !place.log.is_empty()).await;
    drill.outputs = None;
    let ran = drill.run(Trouble::None, &["--clean", "--yes"]).await;
    assert!(ran.code == 1 && ran.out.contains("archives them as refused"), "{ran:?}");
    assert_eq!(drill.place.lock().unwrap().topics.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_no_order_wakes_is_waited_for() {
    // Two minutes are the longest time for which it is hidden unlisted. Then the mapping may wait for a batch.
    let drill = Drill { hides: Duration::from_secs(170), ..Drill::new() };
    let mut number = 4;
    let ran = loop {
        let drill = Drill { place: Arc::default(), cloud: Drill::new().cloud, ..drill.clone() };
        let ran = drill.run(Trouble::Interrupted(number), &["--yes"]).await;
        if ran.out.contains("retry     planned") {
            assert_eq!(drill.left(), Vec::<String>::new(), "{ran:?}");
            break ran;
        }
        number += 3;
    };
    assert_eq!(ran.code, 4, "{ran:?}");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_sns_did_not_take_is_not_waited_for() {
    for number in [1, 2] {
        let drill = Drill::new();
        let ran = drill.run(Trouble::Refuses(number), &["--yes"]).await;
        assert!(ran.code == 1 && ran.out.contains("all of its resources are removed"), "{number}: {ran:?}");
        assert_eq!(drill.left(), Vec::<String>::new(), "{number}: {ran:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_taken_away_is_said_once() {
    let lines = |drill: &Drill| {
        let objects = drill.cloud.objects();
        let mut keys = objects.keys().filter(|key| key.starts_with("my-bucket/dead-letters/")).cloned();
        (keys.next().unwrap(), objects)
    };
    for locks in [false, true] {
        let mut drill = Drill::new();
        assert_eq!(drill.run(Trouble::None, &["--yes", "--keep"]).await.code, 0);
        let (key, objects) = lines(&drill);
        if locks {
            drill.locks = true;
        } else {
            let others = objects[&key].replace("-drill-", "-other-");
            let both = format!("{}{others}", objects[&key]);
            drill.cloud.put_at(&key, &both, "2026-11-01T11:30:00.000Z");
        }
        let ran = drill.run(Trouble::None, &["--clean", "--yes"]).await;
        assert!(ran.code == 1 && ran.out.contains("left: "), "{ran:?}");
        let left = drill.left();
        assert!(left.iter().all(|it| it.contains("my-bucket")), "{left:?}");
        assert!(left.contains(&key), "{left:?}");
        let again = drill.run(Trouble::None, &["--clean", "--yes"]).await.text();
        assert_eq!(again, "No drill of orders has left anything.\n");
    }
}

#[tokio::test(start_paused = true)]
async fn names_and_tags_are_enough_to_clean() {
    const FIFO: &[(&str, &str)] = &[
        ("ArchiveLocation", "s3://my-bucket/dead-letters"),
        ("ControlLocation", "s3://my-bucket/dead-letters-control"),
        ("DeadLetterQueueArn", "arn:aws:sqs:eu-central-1:123456789012:another.fifo"),
        ("LogGroupName", "/sns-redrive/orders"),
    ];
    const ORDERS_OFF: &[(&str, &str)] =
        &[("ArchiveLocation", "s3://my-bucket/dead-letters"), ("DeadLetterQueueArn", DLQ)];
    for (outputs, code) in [(Some(FIFO), 0), (Some(ORDERS_OFF), 0), (None, 1)] {
        let mut drill = Drill::new();
        assert_eq!(drill.run(Trouble::None, &["--yes", "--keep"]).await.code, 0);
        (drill.outputs, drill.parameters) = (outputs, "");
        let ran = drill.run(Trouble::None, &["--clean", "--yes"]).await;
        assert_eq!(ran.code, code, "{outputs:?}: {ran:?}");
        let left = drill.left();
        if outputs.is_some() {
            assert_eq!(left, Vec::<String>::new(), "{outputs:?}");
        }
        // Where the archive is, a stack that is gone does not say.
        assert!(left.iter().all(|it| it.starts_with("my-bucket/")), "{left:?}");
        let again = drill.run(Trouble::None, &["--clean", "--yes"]).await.text();
        assert_eq!(again, "No drill of orders has left anything.\n");
    }
}

#[tokio::test]
async fn nothing_is_made_where_a_drill_is_not_permitted() {
    let refused = async |drill: Drill, args: &[&str], words: &str| {
        let ran = drill.run(Trouble::None, args).await;
        assert!(ran.code == 2 && ran.err.contains(words), "{ran:?}");
        assert_eq!(drill.place.lock().unwrap().made, Vec::<String>::new());
    };
    refused(Drill { parameters: "", ..Drill::new() }, &["--yes"], "deploy it with the parameter Drill=true")
        .await;
    let observes = "<member><ParameterKey>Drill</ParameterKey><ParameterValue>true</ParameterValue></member>\
         <member><ParameterKey>RedriveMode</ParameterKey><ParameterValue>observe</ParameterValue></member>";
    refused(Drill { parameters: observes, ..Drill::new() }, &["--yes"], "RedriveMode=active").await;
    let stopped = "<member><ParameterKey>Drill</ParameterKey><ParameterValue>true</ParameterValue></member>\
         <member><ParameterKey>EventSourceMappings</ParameterKey><ParameterValue>disabled</ParameterValue></member>";
    refused(Drill { parameters: stopped, ..Drill::new() }, &["--yes"], "EventSourceMappings=enabled").await;
    let closed = Drill { policy: json!({ "Statement": [] }).to_string(), ..Drill::new() };
    let statement = format!("\"aws:SourceArn\": \"{SNS}orders-drill-*\"");
    refused(closed, &["--yes"], &statement).await;
    refused(Drill::new(), &[], "give --yes").await;
}
