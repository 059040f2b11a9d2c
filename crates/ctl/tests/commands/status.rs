//! `status`: what fails, as text.

use redrive_core::batch::ArchiveContext;
use redrive_core::endpoint::TargetName;
use redrive_core::policy::ArchiveReason;
use redrive_support::stand_in::{self, StandInRequest};
use redrive_support::{BILLING, NOW, RecordBuilder, TestAccount, WORKER, letters};
use serde_json::json;

use super::archive::bury_as;
use super::stack::{OUTPUTS, formation};
use super::waiting::{letter, lines, list};
use super::{CommandRun, CommandWorld, redrivectl_in};

fn world(cloud: &TestAccount) -> CommandWorld {
    let config = stand_in::before(cloud, |asked: &StandInRequest<'_>| formation(asked, &OUTPUTS));
    CommandWorld { config: Some(config), ..CommandWorld::default() }
}

async fn status(cloud: &TestAccount, args: &[&str]) -> CommandRun {
    redrivectl_in(world(cloud), &[&["status", "--stack", "payments"], args].concat()).await
}

/// The worker's queue is gone, and two letters wait for it; one waits for billing.
fn failing() -> TestAccount {
    let cloud = TestAccount::new();
    let gone = |id: &str, target: &str| {
        letter(id, &json!({ "target": target, "error": "AWS.SimpleQueueService.NonExistentQueue" }))
    };
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&[gone("a", WORKER), gone("b", WORKER), gone("c", BILLING)]));
    cloud.expire("my-bucket", "dead-letters/", 90);
    cloud
}

#[tokio::test]
async fn it_says_what_fails_since_when_and_what_to_type_next() {
    let cloud = failing();
    let ran = status(&cloud, &[]).await;
    assert_eq!(ran.code, 7, "a person is needed: {ran:?}");
    let first = ran.out.lines().next().unwrap();
    assert!(first.starts_with("payments: 2 targets are failing."), "{}", ran.out);
    assert!(ran.out.contains("wait ≤ 3"), "{}", ran.out);
    assert!(ran.out.contains("\narchived letters are kept for 90 days\n"), "{}", ran.out);
    let row = ran.out.lines().find(|line| line.starts_with("payments-worker ")).unwrap();
    assert!(
        row.contains("failing") && row.contains("the queue does not exist") && row.contains('2'),
        "{row}"
    );
    let next = format!("redrivectl retry --target {WORKER} --dry-run --stack payments");
    let first = "first: Create the queue again, or give the subscription another endpoint.";
    assert!(ran.out.ends_with(&format!("{first}\nthen: {next}\n")), "{}", ran.out);
    assert!(ran.out.lines().count() <= 12, "{}", ran.out);
    // It can be typed as it is. It shows the two letters, and does nothing.
    let words: Vec<_> = next.split(' ').skip(1).collect();
    let tried = redrivectl_in(world(&cloud), &words).await;
    assert!(tried.code == 0 && tried.out.contains("2 letters"), "{tried:?}");
    // The largest number comes first, and --wide shows whole names.
    let wide = status(&cloud, &["--wide"]).await.out;
    assert!(wide.find(WORKER).unwrap() < wide.find(BILLING).unwrap(), "{wide}");
}

#[tokio::test]
async fn queues_of_one_name_in_two_regions_are_told_apart() {
    let far = WORKER.replace("eu-central-1", "us-east-1");
    let cloud = TestAccount::new();
    let gone = |id: &str, target: &str| letter(id, &json!({ "target": target }));
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&[gone("a", WORKER), gone("b", &far), gone("c", BILLING)]));
    let ran = status(&cloud, &[]).await;
    for name in [WORKER, &far, "payments-billing"] {
        assert!(ran.out.lines().any(|line| line.starts_with(&format!("{name} "))), "{name}: {}", ran.out);
    }
}

#[tokio::test]
async fn what_cannot_be_seen_has_an_exit_code_of_its_own() {
    // The account answers no question about metrics and alarms.
    let ran = status(&TestAccount::new(), &[]).await;
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(ran.out.contains("No failure is seen, but not everything could be read."), "{}", ran.out);
    assert!(ran.out.contains("not seen: the metrics (cloudwatch:GetMetricData)"), "{}", ran.out);
}

#[tokio::test]
async fn scripts_read_the_same_as_json() {
    let ran = status(&failing(), &["--json"]).await;
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (&report["level"], &report["waiting"]),
        (&json!("bad"), &json!({ "letters": 3, "bound": "atMost" }))
    );
    let target = &report["targets"][0];
    assert_eq!(
        [&target["target"], &target["state"], &target["says"], &target["waiting"]],
        [&json!(WORKER), &json!("failing"), &json!("the queue does not exist"), &json!(2)]
    );
}

/// Refused content is edited before it is sent again. Each command can be typed as it is, with the stack's name.
#[tokio::test]
async fn refused_content_has_the_commands_before_and_after_the_edit() {
    let cloud = TestAccount::new();
    let context = ArchiveContext {
        reason: ArchiveReason::Permanent,
        detail: None,
        rule: "default".to_owned(),
        target: Some(TargetName::read(WORKER)),
        retry: None,
        failure: None,
        override_id: None,
    };
    let refused = letters(&[RecordBuilder::envelope("a")]);
    bury_as(&cloud, &refused, &context, NOW - 60_000, "r1").await;
    let ran = status(&cloud, &[]).await;
    let since = "2026-11-01T09:00:00Z";
    let show = format!("redrivectl archive show --target {WORKER} --reason permanent --since {since} --json");
    let lines: Vec<_> = ran.out.lines().rev().take(3).collect();
    assert_eq!(lines[2], format!("next: {show} --stack payments > letters.jsonl"), "{}", ran.out);
    assert_eq!(lines[1], "edit: the bodies in letters.jsonl, and nothing else");
    assert_eq!(lines[0], "last: redrivectl replay --from letters.jsonl --dry-run --stack payments");
    // What the first prints is what the last takes.
    let words: Vec<_> = show.split(' ').skip(1).chain(["--stack", "payments"]).collect();
    let shown = redrivectl_in(world(&cloud), &words).await;
    assert_eq!(shown.code, 0, "{shown:?}");
    let given = CommandWorld { input: shown.out.into(), ..world(&cloud) };
    let sent = redrivectl_in(given, &["replay", "--from", "-", "--dry-run", "--stack", "payments"]).await;
    assert!(sent.code == 0 && sent.out.contains("1 letter"), "{sent:?}");
}

/// Without a command it is what one wants to know first, if the stack is named by the variable.
#[tokio::test]
async fn it_is_shown_without_a_command_where_a_stack_is_named() {
    let mut with_stack = world(&failing());
    with_stack.variable = Some(|name| (name == "REDRIVE_STACK").then(|| "payments".to_owned()));
    let ran = redrivectl_in(with_stack, &[]).await;
    assert!(ran.code == 7 && ran.out.starts_with("payments: 2 targets are failing."), "{ran:?}");
    let mut as_json = world(&failing());
    as_json.variable = Some(|name| (name == "REDRIVE_STACK").then(|| "payments".to_owned()));
    let ran = redrivectl_in(as_json, &["--json"]).await;
    assert!(ran.code == 7 && ran.out.starts_with('{'), "{ran:?}");
    let ran = redrivectl_in(world(&failing()), &[]).await;
    assert!(ran.code == 2 && ran.err.contains("Usage: redrivectl"), "{ran:?}");
}
