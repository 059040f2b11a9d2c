//! `fleet`: many stacks, one line each, and what could not be seen.

use std::time::Duration;

use aws_smithy_cbor::Encoder;
use redrive_support::TestAccount;
use redrive_support::stand_in::{StandInRequest, late_before};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{CommandRun, CommandWorld, TextFile, redrivectl_in};

const REGIONS: [&str; 10] = [
    "eu-central-1",
    "eu-west-1",
    "eu-west-2",
    "eu-north-1",
    "us-east-1",
    "us-east-2",
    "us-west-2",
    "ap-south-1",
    "ap-northeast-1",
    "sa-east-1",
];

type Answer = Option<(Duration, u16, Vec<u8>)>;

fn role(number: usize) -> String {
    format!("arn:aws:iam::{number:012}:role/looks")
}

/// The region of a request.
fn region(asked: &StandInRequest<'_>) -> &'static str {
    REGIONS.into_iter().find(|region| asked.uri.contains(region)).unwrap()
}

/// Returns an answer of the query protocol.
fn xml(operation: &str, result: &str) -> Vec<u8> {
    format!("<{operation}Response><{operation}Result>{result}</{operation}Result></{operation}Response>")
        .into_bytes()
}

fn stack(name: &str, region: &str, account: &str) -> String {
    let arn = |queue: &str| format!("arn:aws:sqs:{region}:{account}:{queue}");
    let outputs = [
        ("FunctionName", "payments-redrive".to_owned()),
        ("DeadLetterQueueArn", arn("payments-dlq")),
        ("RequeueArn", arn("payments-requeue")),
        ("MetricsNamespace", "SnsRedrive".to_owned()),
        ("ArchiveLocation", "s3://my-archive/dead-letters".to_owned()),
    ];
    let outputs = outputs.map(|(key, value)| {
        format!("<member><OutputKey>{key}</OutputKey><OutputValue>{value}</OutputValue></member>")
    });
    let outputs = if name == "another" { String::new() } else { outputs.concat() };
    format!(
        "<member><StackName>{name}</StackName><CreationTime>2026-10-01T00:00:00Z</CreationTime>\
         <StackStatus>CREATE_COMPLETE</StackStatus><Outputs>{outputs}</Outputs></member>"
    )
}

fn alarms(names: &[&str]) -> Vec<u8> {
    let mut cbor = Encoder::new(Vec::new());
    cbor.map(2).str("CompositeAlarms").array(0).str("MetricAlarms").array(names.len());
    for name in names {
        cbor.map(1).str("AlarmName").str(name);
    }
    cbor.into_writer()
}

fn ages(seconds: &[f64]) -> Vec<u8> {
    let mut cbor = Encoder::new(Vec::new());
    cbor.map(1).str("MetricDataResults").array(seconds.len());
    for (place, age) in seconds.iter().enumerate() {
        cbor.map(3).str("Id").str(&format!("m{place}")).str("Timestamps").array(1);
        cbor.timestamp(&aws_sdk_s3::primitives::DateTime::from_secs(1_793_534_300));
        cbor.str("Values").array(1).double(*age);
    }
    cbor.into_writer()
}

/// Answers as an account in which all is well: two thirds of a letter's way, each call after some time.
fn well(asked: &StandInRequest<'_>) -> Answer {
    let account = asked.access_key.strip_prefix("ASIA").unwrap_or("123456789012");
    let body = match asked.field("Action") {
        Some("AssumeRole") => {
            let number = asked.field("RoleArn")?.split("%3A").nth(4)?.to_owned();
            xml(
                "AssumeRole",
                &format!(
                    "<Credentials><AccessKeyId>ASIA{number}</AccessKeyId><SecretAccessKey>s</SecretAccessKey>\
                     <SessionToken>t</SessionToken><Expiration>2026-11-01T13:00:00Z</Expiration></Credentials>"
                ),
            )
        }
        Some("DescribeStacks") => {
            let stacks = stack("another", region(asked), account) + &stack("payments", region(asked), account);
            xml("DescribeStacks", &format!("<Stacks>{stacks}</Stacks>"))
        }
        Some("GetTemplateSummary") => {
            let metadata = r#"{"AWS::ServerlessRepo::Application":{"SemanticVersion":"0.9.1"}}"#;
            let metadata = metadata.replace('"', "&quot;");
            xml("GetTemplateSummary", &format!("<Metadata>{metadata}</Metadata>"))
        }
        _ if asked.target.ends_with("GetQueueAttributes") => {
            let attributes = json!({ "ApproximateNumberOfMessages": "2", "ApproximateNumberOfMessagesNotVisible": "40",
                                     "ApproximateNumberOfMessagesDelayed": "0" });
            json!({ "Attributes": attributes }).to_string().into_bytes()
        }
        _ if asked.uri.contains("operation/DescribeAlarms") => alarms(&[]),
        _ if asked.uri.contains("operation/GetMetricData") => ages(&[7_260.0, 0.0]),
        _ if asked.uri.contains("delimiter=") => {
            b"<ListBucketResult><IsTruncated>false</IsTruncated><CommonPrefixes><Prefix>dead-letters/queue=payments-dlq/</Prefix>\
              </CommonPrefixes></ListBucketResult>".to_vec()
        }
        _ if asked.uri.contains("list-type=2") => {
            let key = "dead-letters/queue=payments-dlq/date=2026-11-01/20261101T080000.000Z-r1.2-n31-r0.jsonl";
            format!(
                "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>{key}</Key><Size>9</Size>\
                 <LastModified>2026-11-01T08:00:00.000Z</LastModified></Contents></ListBucketResult>"
            )
            .into_bytes()
        }
        _ => panic!("{} {}", asked.method, asked.uri),
    };
    let bytes = asked.uri.bytes().chain(asked.body.bytes()).map(u64::from).sum::<u64>();
    Some((Duration::from_millis(300 + bytes % 1_200), 200, body))
}

async fn fleet(
    answers: impl Fn(&StandInRequest<'_>) -> Answer + Send + Sync + 'static,
    args: &[&str],
) -> CommandRun {
    let config = Some(late_before(&TestAccount::new(), answers));
    redrivectl_in(CommandWorld { config, ..CommandWorld::default() }, &[&["fleet"], args].concat()).await
}

/// Returns a world in which all is well with the fleet.
pub(crate) fn fleet_world() -> CommandWorld {
    CommandWorld { config: Some(late_before(&TestAccount::new(), well)), ..CommandWorld::default() }
}

fn denied() -> (Duration, u16, Vec<u8>) {
    let error =
        "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>";
    (Duration::from_millis(50), 403, error.as_bytes().to_vec())
}

#[tokio::test(start_paused = true)]
async fn fifty_stacks_of_five_accounts_are_seen_within_ten_seconds() {
    let begun = Instant::now();
    let roles: Vec<_> = (1..=5).map(role).collect();
    let roles = roles.iter().flat_map(|role| ["--role", role]);
    let regions = REGIONS.iter().flat_map(|region| ["--region", region]);
    let args: Vec<_> = roles.chain(regions).collect();
    let ran = fleet(well, &args).await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(ran.out.ends_with("\n\n50 stacks.\n"), "{}", ran.out);
    let rows: Vec<Vec<_>> = ran
        .out
        .lines()
        .map(|row| row.split("  ").map(str::trim).filter(|it| !it.is_empty()).collect())
        .collect();
    assert_eq!(
        rows[0],
        ["account", "region", "stack", "waiting", "archived today", "alarms", "oldest", "version"]
    );
    let first = ["000000000001:role/looks", "eu-central-1", "payments", "~84", "31", "none", "2 h", "0.9.1"];
    assert_eq!(rows[1], first);
    assert_eq!(rows.len(), 53);
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_seen_is_said_on_its_line() {
    let answers = |asked: &StandInRequest<'_>| match asked.access_key {
        // An account that does not answer, and one that denies calls.
        "ASIA000000000002" => Some((Duration::from_hours(1), 200, Vec::new())),
        "ASIA000000000003" if asked.uri.contains("list-type=2") => Some(denied()),
        "ASIA000000000003" if asked.field("Action") == Some("GetTemplateSummary") => Some(denied()),
        "ASIA000000000003" if asked.target.ends_with("GetQueueAttributes") => {
            Some((Duration::from_hours(1), 200, Vec::new()))
        }
        _ if asked.body.contains("000000000004") => Some(denied()),
        _ => well(asked),
    };
    let roles: Vec<_> = (1..=4).map(role).collect();
    let args: Vec<_> =
        roles.iter().flat_map(|role| ["--role", role]).chain(["--region", "eu-west-1"]).collect();
    let begun = Instant::now();
    let ran = fleet(answers, &args).await;
    assert!(begun.elapsed() <= Duration::from_secs(11), "{:?}", begun.elapsed());
    assert_eq!(ran.code, 6, "{}", ran.out);
    let row = |account: &str| {
        let row = ran.out.lines().find(|row| row.starts_with(account)).unwrap().to_owned();
        row.split("  ")
            .map(str::trim)
            .filter(|it| !it.is_empty())
            .skip(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(row("000000000002"), ["-", "no answer"]);
    let denied = [
        "payments",
        "no answer",
        "denied (s3:ListBucket)",
        "none",
        "2 h",
        "denied (cloudformation:GetTemplateSummary)",
    ];
    assert_eq!(row("000000000003"), denied);
    assert_eq!(row("000000000004"), ["-", "denied (sts:AssumeRole)"]);
    assert!(ran.out.ends_with("\n\n2 stacks; 3 lines not wholly seen.\n"), "{}", ran.out);
}

#[tokio::test(start_paused = true)]
async fn an_alarm_that_is_on_needs_a_person_whatever_else_could_not_be_seen() {
    let answers = |asked: &StandInRequest<'_>| {
        if asked.uri.contains("operation/DescribeAlarms") {
            let names = [
                "payments-LettersFailAlarm-1XYZ",
                "payments-staging-LettersFailAlarm-1",
                "payments-of-others",
            ];
            return Some((Duration::from_millis(9), 200, alarms(&names)));
        }
        if asked.field("Action") == Some("GetTemplateSummary") { Some(denied()) } else { well(asked) }
    };
    let ran = fleet(answers, &["--json"]).await;
    assert_eq!(ran.code, 7, "{}", ran.out);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        told["stacks"],
        json!([{
            "account": "(own)", "region": "eu-central-1", "stack": "payments", "waiting": 84, "archivedToday": 31,
            "archivedTodayIsAll": true, "alarms": ["payments-LettersFailAlarm-1XYZ"], "oldestSeconds": 7260, "version": null,
            "unseen": { "version": "denied (cloudformation:GetTemplateSummary)" },
        }])
    );
}

#[tokio::test(start_paused = true)]
async fn the_stack_with_most_letters_comes_first_and_one_with_an_alarm_is_red() {
    let answers = |asked: &StandInRequest<'_>| {
        if asked.uri.contains("operation/DescribeAlarms") && region(asked) == "us-east-1" {
            return Some((Duration::from_millis(9), 200, alarms(&["payments-LettersFailAlarm-1XYZ"])));
        }
        if asked.target.ends_with("GetQueueAttributes") && region(asked) == "eu-west-1" {
            let many = json!({ "Attributes": { "ApproximateNumberOfMessages": "4000",
                "ApproximateNumberOfMessagesNotVisible": "1", "ApproximateNumberOfMessagesDelayed": "0" } });
            return Some((Duration::from_millis(9), 200, many.to_string().into_bytes()));
        }
        well(asked)
    };
    let role = role(1);
    let args = ["--role", &role, "--region", "us-east-1", "--region", "eu-west-1"];
    let ran = fleet(answers, &args).await;
    let rows: Vec<_> = ran.out.lines().skip(1).take(2).collect();
    assert!(
        rows[0].starts_with("000000000001:role/looks  eu-west-1") && rows[1].contains("us-east-1"),
        "{ran:?}"
    );
    let wide = fleet(answers, &[&args[..], &["--wide"]].concat()).await;
    assert!(wide.out.lines().nth(1).unwrap().starts_with(&role), "{wide:?}");

    let config = Some(late_before(&TestAccount::new(), answers));
    let world = CommandWorld { config, is_terminal: true, ..CommandWorld::default() };
    let coloured = redrivectl_in(world, &[&["fleet"], &args[..]].concat()).await.out;
    let is_red = |row: &str| row.starts_with("\u{1b}[31m") && row.ends_with("\u{1b}[0m");
    let red: Vec<_> = coloured.lines().filter(|row| is_red(row)).collect();
    assert!(red.len() == 1 && red[0].contains("us-east-1"), "{coloured:?}");
}

#[tokio::test(start_paused = true)]
async fn a_file_names_accounts_regions_and_stacks() {
    let file = TextFile::of(
        "fleet.json",
        r#"{"accounts": [{"role": "arn:aws:iam::000000000001:role/looks", "regions": ["eu-west-1", "us-east-1"]},
                         {"regions": ["eu-north-1"], "stacks": ["payments", "billing"]}]}"#,
    );
    let answers = |asked: &StandInRequest<'_>| match asked.field("StackName") {
        Some("billing") => {
            let error = "<ErrorResponse><Error><Code>ValidationError</Code><Message>none</Message></Error></ErrorResponse>";
            Some((Duration::from_millis(9), 400, error.as_bytes().to_vec()))
        }
        Some("payments") if asked.field("Action") == Some("DescribeStacks") => {
            let stacks = stack("payments", region(asked), "1");
            Some((
                Duration::from_millis(9),
                200,
                xml("DescribeStacks", &format!("<Stacks>{stacks}</Stacks>")),
            ))
        }
        _ => well(asked),
    };
    let ran = fleet(answers, &["--file", file.path()]).await;
    assert_eq!(ran.code, 6, "{}", ran.out);
    let places: Vec<_> = ran
        .out
        .lines()
        .skip(1)
        .take(4)
        .map(|row| row.split_whitespace().take(4).collect::<Vec<_>>())
        .collect();
    assert_eq!(places[0][..3], ["000000000001:role/looks", "eu-west-1", "payments"]);
    assert_eq!(places[1][..3], ["000000000001:role/looks", "us-east-1", "payments"]);
    assert_eq!(places[2][..3], ["(own)", "eu-north-1", "payments"]);
    assert_eq!(places[3], ["(own)", "eu-north-1", "billing", "there"]);

    for (text, problem) in [
        ("[]", "is not a file of accounts"),
        (r#"{"accounts": []}"#, "no account is named"),
        (r#"{"accounts": [{"profile": "a", "role": "b"}]}"#, "account 1 has a profile and a role"),
        (r#"{"accounts": [{"region": "eu-west-1"}]}"#, "unknown field `region`"),
    ] {
        let file = TextFile::of("bad-fleet.json", text);
        let ran = fleet(well, &["--file", file.path()]).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{text}");
        assert!(ran.err.contains(problem), "{text}: {}", ran.err);
    }
}
