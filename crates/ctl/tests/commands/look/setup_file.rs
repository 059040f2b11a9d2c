//! `look --init`: the file of parameters.

use std::collections::BTreeMap;

use redrive_support::{BILLING, DLQ, LAMBDA_SUBSCRIPTION, NOTIFIER, SUBSCRIPTION, TOPIC, WORKER};
use serde_json::{Value, json};

use super::{Around, CommandRun, HOUR, letter, look, moved, notifier, with};
use crate::{CommandWorld, TextFile, redrivectl_in};

/// A folder for one test. Dropping it deletes it.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("redrivectl-look-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the parameters of a samconfig.toml, without those that are commented out.
fn parameters(samconfig: &str) -> BTreeMap<String, String> {
    let lines = samconfig.lines().filter_map(|line| line.strip_prefix("  \"")?.strip_suffix("\","));
    // A text of TOML is one of JSON too.
    let lines = lines.map(|line| serde_json::from_str::<String>(&format!("\"{line}\"")).unwrap());
    lines
        .map(|line| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())).unwrap())
        .collect()
}

/// Runs the part of the last printed command that edits the file, on a copy. Returns what is in it then.
fn switched_on(ran: &CommandRun, file: &str, deploys: &str) -> String {
    let switch = ran.out.lines().find(|line| line.trim().starts_with("from=$(")).unwrap();
    let (edit, _) = switch.rsplit_once(deploys).unwrap();
    let copy = format!("{file}.switched");
    std::fs::copy(file, &copy).unwrap();
    let status = std::process::Command::new("sh").args(["-c", &edit.replace(file, &copy)]).status().unwrap();
    assert!(status.success(), "{edit}");
    std::fs::read_to_string(&copy).unwrap()
}

#[tokio::test]
async fn a_file_of_parameters_names_what_was_seen_and_nobody_types_an_arn() {
    let folder = Folder::new("sam");
    let mut letters = vec![letter(1, SUBSCRIPTION, HOUR), letter(2, LAMBDA_SUBSCRIPTION, HOUR), moved(3)];
    letters[0]["attributes"]["ApproximateReceiveCount"] = json!("1");
    let cloud = with(&letters);
    cloud.subscribe("arn:aws:sns:eu-central-1:123456789012:payments:audit", TOPIC, "sqs", WORKER);
    let file = folder.file("samconfig.toml");
    let ran = look(&cloud, notifier(), &["--yes", "--init", &file]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let written = std::fs::read_to_string(&file).unwrap();
    let expected = [
        ("ExistingDeadLetterQueueArn", DLQ.to_owned()),
        ("RedriveMode", "observe".to_owned()),
        ("TargetFunctionArns", NOTIFIER.to_owned()),
        ("TargetQueueArns", format!("{BILLING},{WORKER}")),
        ("TopicArns", TOPIC.to_owned()),
    ];
    let expected: BTreeMap<_, _> =
        expected.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    assert_eq!(parameters(&written), expected, "{written}");
    for question in ["AlarmTopicArn", "PageTopicArn", "RequeueSenderArns", "NoticeTopicArn"] {
        assert!(written.contains(&format!("  # \"{question}=...\"")), "{written}");
    }
    let attach = format!("redrivectl attach --queue {DLQ} --topic {TOPIC}");
    assert!(ran.out.contains(&attach), "{}", ran.out);
    let deploy = format!("sam build && sam deploy --config-file {file}\n");
    assert!(ran.out.contains(&deploy), "{}", ran.out);
    let switched = parameters(&switched_on(&ran, &file, " && sam deploy"));
    assert_eq!(switched.get("RedriveMode").map(String::as_str), Some("active"));
    switched["ScheduleFrom"].parse::<jiff::Timestamp>().unwrap();
    // The visibility timeout that is set by the first command, and two minutes for the deployment.
    assert!(ran.out.contains("date -u -d '+5 min'"), "{}", ran.out);
    let receives = cloud.calls("ReceiveMessage").len();
    let again = look(&cloud, notifier(), &["--yes", "--init", &file]).await;
    assert!(
        again.code == 2 && again.err.contains("exists: name another file"),
        "a file that exists stays: {again:?}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), written);
    assert_eq!(cloud.calls("ReceiveMessage").len(), receives, "each look counts");
}

/// Every parameter is one of the template's, in the form that the template takes.
#[tokio::test]
async fn the_template_knows_every_parameter() {
    let template = include_str!("../../../../../template.yaml");
    let (folder, cloud) = (
        Folder::new("template"),
        with(&[letter(1, SUBSCRIPTION, HOUR), letter(2, LAMBDA_SUBSCRIPTION, HOUR)]),
    );
    cloud.subscribe_endpoint("arn:aws:sns:eu-central-1:123456789012:payments:raw", TOPIC, "sqs", WORKER, DLQ);
    cloud.resubscribe("arn:aws:sns:eu-central-1:123456789012:payments:raw", "RawMessageDelivery", "true");
    cloud.queue("payments-dlq", &[("KmsMasterKeyId", "k"), ("VisibilityTimeout", "30")]);
    let key = json!({ "KeyId": "k", "Arn": "arn:aws:kms:eu-central-1:123456789012:key/0a-1b" });
    let around = || Around { keys: Some((key.clone(), json!({}))), ..notifier() };
    let file = folder.file("parameters.json");
    let ran =
        look(&cloud, around(), &["--yes", "--init", &file, "--format", "cloudformation", "--json"]).await;
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let report = ran.json();
    let name = |it: &Value| it["ParameterKey"].as_str().unwrap().to_owned();
    let names: Vec<_> = written.as_array().unwrap().iter().map(name).collect();
    assert!(
        names.contains(&"KmsKeyArn".to_owned()) && names.contains(&"RedrivePolicy".to_owned()),
        "{names:?}"
    );
    let file = folder.file("text.json");
    let told = look(&cloud, around(), &["--yes", "--init", &file, "--format", "cloudformation"]).await;
    let switched: Value = serde_json::from_str(&switched_on(&told, &file, " && aws cloudformation")).unwrap();
    let value = |name: &str| {
        let all = switched.as_array().unwrap();
        all.iter().find(|it| it["ParameterKey"] == name).unwrap()["ParameterValue"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(value("RedriveMode"), "active");
    value("ScheduleFrom").parse::<jiff::Timestamp>().unwrap();
    let file = folder.file("samconfig.toml");
    look(&cloud, around(), &["--yes", "--init", &file]).await.text();
    let sam = std::fs::read_to_string(&file).unwrap();
    let questions =
        sam.lines().filter_map(|line| line.strip_prefix("  # \"")?.split_once('=').map(|it| it.0.to_owned()));
    let block = template.split_once("\nParameters:\n").unwrap().1;
    for name in names.into_iter().chain(questions) {
        assert!(
            block.contains(&format!("\n  {name}:\n")) || block.starts_with(&format!("  {name}:\n")),
            "{name}"
        );
    }
    let rule = written.as_array().unwrap().iter().find(|it| it["ParameterKey"] == "RedrivePolicy").unwrap();
    redrive_core::policy::Policy::parse(rule["ParameterValue"].as_str().unwrap()).unwrap();
    let next = report["setupFile"]["next"].as_array().unwrap();
    let raises = next[0]["command"].as_str().unwrap();
    assert!(
        raises.starts_with("aws sqs set-queue-attributes")
            && raises.ends_with("VisibilityTimeout=180,MessageRetentionPeriod=1209600"),
        "{next:#?}"
    );
    assert!(
        next[1]["command"]
            .as_str()
            .unwrap()
            .contains(&format!("--parameter-overrides file://{}", folder.file("parameters.json")))
    );
}

/// A raw subscription gets a rule, if it is the only one. Claims are believed only where nobody else can make them, so they stay
/// a question where SNS writes into the queue, too.
#[tokio::test]
async fn raw_letters_get_a_rule_and_claims_a_question() {
    let raw = |number: usize| format!("arn:aws:sns:eu-central-1:123456789012:payments:raw-{number}");
    let mut claims = letter(1, SUBSCRIPTION, HOUR);
    let event = include_str!("../../../../../events/lambda-destination.json");
    let lambda: Value = serde_json::from_str(event).unwrap();
    claims["body"] = lambda["Records"][0]["body"].clone();
    claims["messageAttributes"] = lambda["Records"][0]["messageAttributes"].clone();
    for raws in 0..3 {
        let folder = Folder::new(&format!("raw-{raws}"));
        let cloud = with(&[claims.clone(), letter(2, SUBSCRIPTION, HOUR)]);
        for number in 0..raws {
            cloud.subscribe_endpoint(&raw(number), TOPIC, "sqs", WORKER, DLQ);
            cloud.resubscribe(&raw(number), "RawMessageDelivery", "true");
        }
        let file = folder.file("samconfig.toml");
        let ran = look(&cloud, notifier(), &["--yes", "--init", &file]).await;
        assert_eq!(ran.code, 0, "{ran:?}");
        let found = parameters(&std::fs::read_to_string(&file).unwrap());
        assert!(!found.contains_key("LetterOrigins"), "{found:?}");
        let written = std::fs::read_to_string(&file).unwrap();
        assert_eq!(written.contains("# \"LetterOrigins=...\""), raws == 0, "{written}");
        assert_eq!(
            ran.out.contains("letters claim to be of lambda-destination, but a raw subscription"),
            raws > 0,
            "{}",
            ran.out
        );
        assert_eq!(ran.out.contains("2 raw subscriptions share the queue"), raws == 2, "{}", ran.out);
        let rule = found.get("RedrivePolicy").map(|rule| rule.contains(&raw(0)));
        assert_eq!(rule, (raws == 1).then_some(true), "{found:?}");
    }
}

/// Only where SNS does not write into the queue may a claim be believed unasked; and a letter of a failed asynchronous invocation
/// does not name its function.
#[tokio::test]
async fn claims_are_believed_where_nobody_else_writes() {
    for (event, origins) in [
        (include_str!("../../../../../events/lambda-destination.json"), Some("lambda-destination")),
        (include_str!("../../../../../events/lambda-async.json"), None),
    ] {
        let mut claims = letter(1, SUBSCRIPTION, HOUR);
        let lambda: Value = serde_json::from_str(event).unwrap();
        claims["body"] = lambda["Records"][0]["body"].clone();
        claims["messageAttributes"] = lambda["Records"][0]["messageAttributes"].clone();
        let (folder, cloud) = (Folder::new(origins.unwrap_or("async")), with(&[claims]));
        for subscription in [SUBSCRIPTION, redrive_support::BILLING_SUBSCRIPTION, LAMBDA_SUBSCRIPTION] {
            cloud.resubscribe(
                subscription,
                "RedrivePolicy",
                "{\"deadLetterTargetArn\":\"arn:aws:sqs:eu-central-1:123456789012:x\"}",
            );
        }
        let file = folder.file("samconfig.toml");
        let ran = look(&cloud, notifier(), &["--yes", "--init", &file]).await;
        let found = parameters(&std::fs::read_to_string(&file).unwrap());
        assert_eq!(found.get("LetterOrigins").map(String::as_str), origins, "{ran:?}");
        assert_eq!(
            ran.out.contains("only a rule with its ARN as target sends them"),
            origins.is_none(),
            "{}",
            ran.out
        );
    }
}

/// Questions are asked at a terminal, and asked again where nobody is behind the answer.
#[tokio::test]
async fn what_only_a_person_knows_is_asked() {
    let (folder, cloud) = (Folder::new("asked"), with(&[letter(1, SUBSCRIPTION, HOUR)]));
    let file = folder.file("samconfig.toml");
    let alarms = "arn:aws:sns:eu-central-1:123456789012:Alarms";
    let senders = "arn:aws:iam::123456789012:role/team/operator,arn:aws:iam::123456789012:user/ada";
    let world = CommandWorld {
        config: Some(notifier().before(&cloud)),
        answers: true,
        input:
            "y\nno-such-topic\ntwo topics\nAlarms\n\n\nnobody\narn:aws:sts::123456789012:assumed-role/operator/ada\noperator, arn:aws:iam::123456789012:user/ada\n"
                .into(),
        later: 200_000,
        ..CommandWorld::default()
    };
    let ran = redrivectl_in(world, &["look", "--queue", DLQ, "--init", &file]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(parameters(&written).get("AlarmTopicArn").map(String::as_str), Some(alarms), "{written}");
    assert_eq!(parameters(&written).get("RequeueSenderArns").map(String::as_str), Some(senders), "{written}");
    assert!(written.contains("# \"PageTopicArn=...\""), "{written}");
    for said in [
        "aws sns create-topic --name no-such-topic",
        "Name one topic.",
        "There is no role and no user nobody.",
        "name its role.",
    ] {
        assert!(ran.err.contains(said), "{}", ran.err);
    }

    let world = CommandWorld {
        config: Some(Around { denied: Some("GetRole"), ..notifier() }.before(&cloud)),
        answers: true,
        input: "y\n\n\n\noperator\n".into(),
        later: 400_000,
        ..CommandWorld::default()
    };
    let file = folder.file("unchecked.toml");
    let ran = redrivectl_in(world, &["look", "--queue", DLQ, "--init", &file]).await;
    assert!(ran.out.contains("note: the role operator was not checked"), "{ran:?}");
}

/// Nothing is received for a file that cannot be finished.
#[tokio::test]
async fn an_answer_that_stays_wrong_ends_the_look() {
    let (folder, cloud) = (Folder::new("wrong"), with(&[letter(1, SUBSCRIPTION, HOUR)]));
    let world = CommandWorld {
        config: Some(notifier().before(&cloud)),
        answers: true,
        input: "y\nno-such-topic\nno-such-topic\nno-such-topic\n".into(),
        later: 200_000,
        ..CommandWorld::default()
    };
    let receives = cloud.calls("ReceiveMessage").len();
    let ran = redrivectl_in(world, &["look", "--queue", DLQ, "--init", &folder.file("samconfig.toml")]).await;
    assert!(ran.code == 2 && ran.err.contains("no answer to AlarmTopicArn"), "{ran:?}");
    assert_eq!(cloud.calls("ReceiveMessage").len(), receives);
}

/// Who attaches later needs the same grants; a policy needs those of its rules.
#[tokio::test]
async fn grants_are_for_what_will_be_attached_and_for_what_rules_name() {
    let (folder, cloud) = (Folder::new("grants"), with(&[letter(1, SUBSCRIPTION, HOUR)]));
    let audit = "arn:aws:sqs:eu-central-1:123456789012:audit";
    cloud.subscribe("arn:aws:sns:eu-central-1:123456789012:payments:audit", TOPIC, "sqs", audit);
    let file = folder.file("samconfig.toml");
    let rules = json!({ "default": { "subscription": "discover" },
                        "rules": [{ "name": "a \"b\" \\ c", "match": { "subject": ["x"] }, "target": "topic" },
                                  { "name": "to", "match": { "subject": ["y"] }, "target": NOTIFIER }] });
    let policy = TextFile::of("rules.json", &rules.to_string());
    look(&cloud, notifier(), &["--yes", "--init", &file, "--policy", policy.path()]).await.text();
    let found = parameters(&std::fs::read_to_string(&file).unwrap());
    let value = |name: &str| found.get(name).map(String::as_str);
    assert_eq!(value("TargetQueueArns"), Some(&*format!("{audit},{BILLING},{WORKER}")));
    assert_eq!((value("TargetTopicArns"), value("TargetFunctionArns")), (Some(TOPIC), Some(NOTIFIER)));
    assert_eq!(value("DiscoverSubscription"), Some("true"));
    // As the SAM CLI reads it: it removes the backslash before a quotation mark, and no other.
    let written = value("RedrivePolicy").unwrap();
    let read = written.strip_prefix('"').unwrap().strip_suffix('"').unwrap().replace("\\\"", "\"");
    assert_eq!(serde_json::from_str::<Value>(&read).unwrap(), rules, "{written}");
}
