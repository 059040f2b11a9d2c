//! What AWS answered, as others recorded it, against the account in memory.
//!
//! `crates/sim/tests/recorded` has the cases, and `deviations.json` those in which the account differs, each with the
//! reason. A case that differs and is not listed fails, and so does a listed one that agrees.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_sim::mapping::{MappingOutcome, MappingSettings, SimMapping};
use redrive_sim::sns::{Protocol, SimSubscription, TopicSettings};
use redrive_sim::sqs::{QueueRedrive, QueueSettings, name_of};
use redrive_sim::{ACCOUNT, Caller, REGION, SimAws, SimClock, arn};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::plain::{PlainAnswer, answer, request, text};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded");

/// The largest number of deviations.
const MAX_DEVIATIONS: usize = 5;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedCase {
    /// What it shows.
    #[serde(rename = "case")]
    name: String,
    /// The public test whose recording has it.
    source: String,
    /// The year in which it was recorded.
    year: u16,
    /// The steps: an operation, its parameters, and what was answered. `wait` passes time.
    steps: Vec<Value>,
}

fn read<T: DeserializeOwned>(file: &str) -> T {
    serde_json::from_slice(&std::fs::read(format!("{FOLDER}/{file}.json")).unwrap()).unwrap()
}

/// Returns the cases of each file, by its name.
fn files() -> BTreeMap<String, Vec<RecordedCase>> {
    let names =
        std::fs::read_dir(FOLDER).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let names = names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned));
    names.filter(|name| name != "deviations").map(|name| (name.clone(), read(&name))).collect()
}

#[test]
fn the_account_answers_as_aws_did() {
    let deviations: BTreeMap<String, String> = read("deviations");
    let cases: Vec<RecordedCase> = files().into_values().flatten().collect();
    let mut faults = Vec::new();
    for RecordedCase { name: case, source, year, steps } in &cases {
        match (RunningCase::new().play(steps), deviations.get(case)) {
            (Err(why), None) => faults.push(format!("{case}: {why} ({source}, {year})")),
            (Ok(()), Some(_)) => faults.push(format!("{case}: agrees, but is listed as a deviation")),
            _ => {}
        }
    }
    let unknown = deviations.keys().filter(|name| cases.iter().all(|it| it.name != **name));
    faults.extend(unknown.map(|name| format!("{name}: is listed as a deviation, and no case")));
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), cases.len(), faults.join("\n"));
    assert!(deviations.len() <= MAX_DEVIATIONS, "{} deviations", deviations.len());

    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/proof.md")).unwrap();
    let told = format!("{} of {} recorded cases agree", cases.len() - deviations.len(), cases.len());
    assert!(page.contains(&told), "docs/proof.md does not say: {told}");
}

#[test]
fn cases_differ_and_name_their_source() {
    for (file, cases) in files() {
        assert_eq!(wrong(&cases), [""; 0], "{file}.json");
    }
}

/// Returns what is wrong with the cases of a file. Two accounts may have answered the same case.
fn wrong(cases: &[RecordedCase]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (index, it) in cases.iter().enumerate() {
        if cases[..index].iter().any(|other| other.name == it.name) {
            wrong.push(format!("{} comes twice", it.name));
        }
        let is_known =
            ["LocalStack ", "moto ", "redrivectl drill"].iter().any(|name| it.source.starts_with(name));
        if !is_known || it.year < 2022 {
            wrong.push(format!("{} has no source", it.name));
        }
    }
    wrong
}

#[test]
fn a_file_of_a_drill_is_taken_in_any_year_and_its_names_are_its_own() {
    let case = |source: &str, year: u16| RecordedCase {
        name: "a".to_owned(),
        source: source.to_owned(),
        year,
        steps: vec![],
    };
    assert_eq!(wrong(&[case("redrivectl drill", 2031)]), [""; 0]);
    assert_eq!(wrong(&[case("redrivectl drill", 2027), case("moto 5", 2027)]), ["a comes twice"]);
    assert_eq!(wrong(&[case("hearsay", 2027)]), ["a has no source"]);
    assert_eq!(wrong(&[case("moto 5", 2021)]), ["a has no source"]);
}

/// The judge sees each kind of difference.
#[test]
fn a_difference_is_seen() {
    let queue =
        json!(["CreateQueue", { "QueueName": "{q}", "Attributes": {} }, { "keep": { "q": "QueueUrl" } }]);
    let send = json!(["SendMessage", { "QueueUrl": "$q", "MessageBody": "a" }, {}]);
    let receive =
        |then: Value| json!(["ReceiveMessage", { "QueueUrl": "$q", "MaxNumberOfMessages": 1 }, then]);
    for (then, agrees) in [
        (json!({}), true),
        (json!({ "bodies": ["a"] }), true),
        (json!({ "bodies": [] }), false),
        (json!({ "anyOf": [["b"], ["a"]] }), true),
        (json!({ "anyOf": [["b"]] }), false),
        (json!({ "has": { "Messages.0.Body": "a", "Messages.0.MessageId": "*" } }), true),
        (json!({ "has": { "Messages.0.Body": "b" } }), false),
        (json!({ "has": { "Messages.1.Body": "*" } }), false),
        (json!({ "lacks": ["Messages.1"] }), true),
        (json!({ "lacks": ["Messages.0.Body"] }), false),
        (json!({ "error": "OverLimit" }), false),
        (json!({ "status": 201 }), false),
    ] {
        let played = RunningCase::new().play(&[queue.clone(), send.clone(), receive(then.clone())]);
        assert_eq!(played.is_ok(), agrees, "{then}: {played:?}");
    }
    let empty = |then: Value| {
        let send = json!(["SendMessage", { "QueueUrl": "$q", "MessageBody": "" }, then]);
        RunningCase::new().play(&[queue.clone(), send]).is_ok()
    };
    let (right, wrong) =
        (json!({ "error": "MissingParameter", "status": 400 }), json!({ "error": "Missing" }));
    let says = json!({ "error": "MissingParameter", "says": "other words" });
    assert_eq!([right, wrong, says, json!({})].map(empty), [true, false, false, false]);
    let hide = |says: &str| {
        let receive = receive(json!({ "keep": { "h": "Messages.0.ReceiptHandle" } }));
        let delete = json!(["DeleteMessage", { "QueueUrl": "$q", "ReceiptHandle": "$h" }, {}]);
        let entry = json!({ "Id": "1", "ReceiptHandle": "$h", "VisibilityTimeout": 60 });
        let then = json!({ "failed": { "1": "InvalidParameterValue" }, "says": { "1": says } });
        let hide = json!(["ChangeMessageVisibilityBatch", { "QueueUrl": "$q", "Entries": [entry] }, then]);
        RunningCase::new().play(&[queue.clone(), send.clone(), receive, delete, hide]).is_ok()
    };
    assert_eq!(["Message does not exist", "other words"].map(hide), [true, false]);
}

/// A case under way.
struct RunningCase {
    aws: SimAws,
    caller: Caller,
    /// What later steps use as `$name`.
    kept: BTreeMap<String, Value>,
    mappings: BTreeMap<String, SimMapping>,
}

impl RunningCase {
    fn new() -> Self {
        Self {
            aws: SimAws::new(SimClock::manual("2026-11-01T12:00:00Z".parse().unwrap()), 7),
            caller: Caller::new("anybody"),
            kept: BTreeMap::new(),
            mappings: BTreeMap::new(),
        }
    }

    fn play(&mut self, steps: &[Value]) -> Result<(), String> {
        for (number, step) in (1..).zip(steps) {
            let operation = step[0].as_str().unwrap();
            if operation == "wait" {
                self.aws.clock().pass(Duration::from_secs_f64(step[1].as_f64().unwrap()));
                continue;
            }
            let (parameters, then) = (self.filled(&step[1]), self.filled(&step[2]));
            let answer = match self.create(operation, &parameters) {
                Some(body) => PlainAnswer { status: 200, body, error: None },
                None if operation == "Mapping" => self.run_mapping(&step[1]),
                None => {
                    let response = self.aws.answer(&self.caller, &request(operation, &parameters));
                    answer(operation, &response)
                }
            };
            judge(&answer, &then).map_err(|why| format!("step {number}, {operation}: {why}"))?;
            for (name, path) in step[2]["keep"].as_object().into_iter().flatten() {
                let value = at(&answer.body, path.as_str().unwrap());
                let value = value.ok_or_else(|| format!("step {number}, {operation}: no {path}"))?;
                self.kept.insert(format!("${name}"), value);
            }
        }
        Ok(())
    }

    /// Puts names and kept values into what a step says. `a*129` is that many letters.
    fn filled(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                if let Some(kept) = self.kept.get(text) {
                    return kept.clone();
                }
                self.text(text).into()
            }
            Value::Array(all) => all.iter().map(|it| self.filled(it)).collect(),
            Value::Object(all) => all.iter().map(|(name, it)| (self.text(name), self.filled(it))).collect(),
            _ => value.clone(),
        }
    }

    fn text(&self, text: &str) -> String {
        if let Some((letter, count)) = text.split_once('*')
            && let (1, Ok(count)) = (letter.len(), count.parse())
        {
            return letter.repeat(count);
        }
        let names =
            [("{q}", "queue"), ("{q2}", "other"), ("{t}", "topic"), ("{b}", "bucket"), ("{r}", REGION)];
        let filled = names.iter().fold(text.to_owned(), |text, (name, is)| text.replace(name, is));
        let filled = filled.replace("{a}", ACCOUNT);
        let ids = self.kept.iter().filter_map(|(name, id)| Some((name.strip_prefix("id:")?, id.as_str()?)));
        ids.fold(filled, |text, (body, id)| text.replace(&format!("{{id:{body}}}"), id))
    }

    /// Creates what exists before anybody asks. Returns the answer.
    fn create(&self, operation: &str, parameters: &Value) -> Option<Value> {
        let of = |name: &str| parameters[name].as_str().unwrap_or_default().to_owned();
        let attribute = |name: &str| parameters["Attributes"][name].as_str();
        let is = |name: &str| attribute(name) == Some("true");
        match operation {
            "CreateQueue" => {
                let number = |name: &str| attribute(name).and_then(|it| it.parse::<i64>().ok());
                let default = QueueSettings::default();
                let bytes = number("MaximumMessageSize").and_then(|it| it.try_into().ok());
                let redrive = attribute("RedrivePolicy").map(|it| serde_json::from_str::<Value>(it).unwrap());
                let redrive = redrive.map(|it| QueueRedrive {
                    queue: name_of(it["deadLetterTargetArn"].as_str().unwrap()).to_string(),
                    max_receives: it["maxReceiveCount"].as_u64().unwrap().try_into().unwrap(),
                });
                let settings = QueueSettings {
                    visibility: number("VisibilityTimeout").unwrap_or(default.visibility),
                    retention: number("MessageRetentionPeriod").unwrap_or(default.retention),
                    max_bytes: bytes.unwrap_or(default.max_bytes),
                    delay: number("DelaySeconds").unwrap_or(default.delay),
                    content_based: is("ContentBasedDeduplication"),
                    deduplicates_by_group: attribute("DeduplicationScope") == Some("messageGroup"),
                    redrive,
                    ..default
                };
                let name = of("QueueName");
                self.aws.act("test", |it, _| it.sqs.create(&name, settings));
                Some(json!({ "QueueUrl": format!("https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{name}") }))
            }
            "CreateTopic" => {
                let content_based = is("ContentBasedDeduplication");
                let settings = TopicSettings { content_based, ..TopicSettings::default() };
                self.aws.act("test", |it, _| it.sns.create(&of("Name"), settings));
                Some(json!({ "TopicArn": arn("sns", &of("Name")) }))
            }
            "Subscribe" => {
                let topic = of("TopicArn").rsplit(':').next().unwrap_or_default().to_owned();
                let protocol = if of("Protocol") == "lambda" { Protocol::Lambda } else { Protocol::Sqs };
                let id = format!("subscription-{}", of("Endpoint").rsplit(':').next().unwrap_or_default());
                let mut subscription = SimSubscription::new(&topic, &id, protocol, &of("Endpoint"));
                subscription.raw = is("RawMessageDelivery");
                let redrive = attribute("RedrivePolicy").map(|it| serde_json::from_str::<Value>(it).unwrap());
                subscription.dead_letters =
                    redrive.map(|it| name_of(it["deadLetterTargetArn"].as_str().unwrap()).to_string());
                let arn = subscription.arn.clone();
                self.aws.act("test", |it, _| it.sns.subscribe(subscription));
                Some(json!({ "SubscriptionArn": arn }))
            }
            "CreateBucket" => {
                self.aws.act("test", |it, _| it.s3.create(&of("Bucket")));
                Some(json!({}))
            }
            "DeleteObject" => {
                self.aws.act("test", |it, _| it.s3.remove((&of("Bucket"), &of("Key"))));
                Some(json!({}))
            }
            _ => None,
        }
    }

    /// Lets the mapping of a queue run its function once, if it has a batch. The function's answer is `error`, or
    /// JSON that may name the ids of messages by their bodies.
    fn run_mapping(&mut self, parameters: &Value) -> PlainAnswer {
        let queue = name_of(&text(&self.filled(&parameters["QueueUrl"]))).to_string();
        let aws = &self.aws;
        let mapping = self.mappings.entry(queue.clone()).or_insert_with(|| {
            let settings = MappingSettings { allow_loops: true, ..MappingSettings::new(&queue, "worker") };
            SimMapping::new(aws, settings)
        });
        let mapping = mapping.clone();
        let batch = mapping.take();
        let messages = batch.iter().flat_map(|batch| &batch.messages);
        let messages: Vec<_> =
            messages.map(|it| json!({ "Body": it.payload.body, "MessageId": *it.id })).collect();
        for message in &messages {
            self.kept.insert(format!("id:{}", text(&message["Body"])), message["MessageId"].clone());
        }
        if let Some(batch) = batch {
            let answer = self.filled(&parameters["Answer"]);
            let is_error = answer == "error";
            let answer = answer.to_string();
            mapping.settle(
                &batch,
                &if is_error { MappingOutcome::Error(answer) } else { MappingOutcome::Answer(answer) },
            );
        }
        PlainAnswer { status: 200, body: json!({ "Messages": messages }), error: None }
    }
}

/// Compares an answer with what AWS answered.
fn judge(answer: &PlainAnswer, then: &Value) -> Result<(), String> {
    let PlainAnswer { status, body, error } = answer;
    let expected = then.get("error").and_then(Value::as_str);
    match (error, expected) {
        (None, None) => {}
        (Some((code, _)), Some(expected)) => {
            let is_it = expected.strip_suffix('*').map_or(code == expected, |start| code.starts_with(start));
            if !is_it {
                return Err(format!("{code} in place of {expected}"));
            }
        }
        _ => return Err(format!("{error:?} in place of {expected:?}")),
    }
    if then.get("status").is_some_and(|it| *it != json!(status)) {
        return Err(format!("status {status} in place of {}", then["status"]));
    }
    let says = then["says"].as_str().unwrap_or_default();
    if !error.as_ref().is_none_or(|(_, text)| text.contains(says)) {
        return Err(format!("{error:?} does not say: {says}"));
    }
    let bodies: Value =
        body["Messages"].as_array().into_iter().flatten().map(|it| it["Body"].clone()).collect();
    if then.get("bodies").is_some_and(|it| *it != bodies) {
        return Err(format!("{bodies} in place of {}", then["bodies"]));
    }
    if then.get("anyOf").is_some_and(|any| !any.as_array().is_some_and(|any| any.contains(&bodies))) {
        return Err(format!("{bodies} is none of {}", then["anyOf"]));
    }
    for (path, value) in then["has"].as_object().into_iter().flatten() {
        let found = at(body, path);
        let is_it = found.as_ref().is_some_and(|it| *value == "*" || text(it) == text(value));
        if !is_it {
            return Err(format!("{path} is {found:?} in place of {value}"));
        }
    }
    for path in then["lacks"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if let Some(found) = at(body, path) {
            return Err(format!("{path} is {found}"));
        }
    }
    entries(body, then)
}

/// Compares the lists of a batch answer, in any order.
fn entries(body: &Value, then: &Value) -> Result<(), String> {
    let list = |name: &str| body[name].as_array().into_iter().flatten();
    if let Some(expected) = then["ok"].as_array() {
        let mut ids: Vec<_> = list("Successful").map(|it| it["Id"].clone()).collect();
        ids.sort_by_key(text);
        if ids != *expected {
            return Err(format!("{ids:?} were taken in place of {expected:?}"));
        }
    }
    if let Some(expected) = then["failed"].as_object() {
        let failed: BTreeMap<_, _> = list("Failed").map(|it| (text(&it["Id"]), it["Code"].clone())).collect();
        if failed != expected.iter().map(|(id, code)| (id.clone(), code.clone())).collect() {
            return Err(format!("{failed:?} failed in place of {expected:?}"));
        }
    }
    for (id, says) in then["says"].as_object().into_iter().flatten() {
        let message = list("Failed").find(|it| text(&it["Id"]) == *id).map(|it| text(&it["Message"]));
        if !message.as_ref().is_some_and(|message| message.contains(&text(says))) {
            return Err(format!("{id} failed with {message:?}, which does not say: {says}"));
        }
    }
    Ok(())
}

/// Returns the value at a path such as `Messages.0.Body|json.Type`, unless it is null.
fn at(body: &Value, path: &str) -> Option<Value> {
    let mut value = body.clone();
    for part in path.split('.') {
        let (name, is_json) = part.strip_suffix("|json").map_or((part, false), |name| (name, true));
        let inner = match name.parse::<usize>() {
            Ok(index) if value.is_array() => value.get(index),
            _ => value.get(name),
        };
        value = inner?.clone();
        if is_json {
            value = serde_json::from_str(value.as_str()?).ok()?;
        }
    }
    (!value.is_null()).then_some(value)
}
