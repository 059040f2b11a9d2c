//! Tables: the largest number first, short names or whole ARNs, and colours on a terminal only.

use redrive_support::{CALLER, RecordBuilder, SUBSCRIPTION, TOPIC, TestAccount, WORKER};
use serde_json::{Value, json};

use super::doctor::ill_deployment;
use super::look::lookable;
use super::overrides::{override_, put_overrides};
use super::replay::{INDEXED, put_archive};
use super::waiting::{letter, lines, list};
use super::{CommandWorld, redrivectl_in};

const CONTROL: [&str; 2] = ["--control", "s3://my-bucket/dead-letters-control"];
const ARCHIVE: [&str; 2] = ["--archive", "s3://my-bucket/dead-letters"];
const BOLD: &str = "\u{1b}[1m";
const RED: &str = "\u{1b}[31m";

async fn run(cloud: &TestAccount, args: &[&str]) -> String {
    redrivectl_in(CommandWorld::on(cloud), args).await.text()
}

/// Returns an account in which letters for these targets wait.
fn waiting(targets: &[&str]) -> TestAccount {
    let cloud = TestAccount::new();
    let line = |(number, target): (usize, &&str)| {
        let due = format!("2026-11-01T{}:00:00Z", 20 - number);
        letter(&number.to_string(), &json!({ "target": target, "due": due }))
    };
    let all: Vec<_> = targets.iter().enumerate().map(line).collect();
    list(&cloud, "2026-11-01T10:00:00Z", &lines(&all));
    cloud
}

/// Returns the first cells of the rows behind the head, up to an empty line.
fn names(table: &str) -> Vec<&str> {
    let rows = table.lines().skip(1).take_while(|row| !row.is_empty());
    rows.map(|row| row.split("  ").next().unwrap()).collect()
}

#[tokio::test]
async fn the_largest_group_comes_first_with_a_short_name() {
    let billing = "arn:aws:sqs:eu-central-1:123456789012:payments-billing";
    let cloud = waiting(&[billing, WORKER, WORKER]);
    let of = async |args: &[&str]| run(&cloud, &[&["waiting"], args, &CONTROL].concat()).await;
    assert_eq!(names(&of(&[]).await), ["payments-worker", "payments-billing"]);
    assert_eq!(names(&of(&["--wide"]).await), [WORKER, billing]);
    // Hours keep their order.
    let hours = of(&["--by", "due"]).await;
    assert_eq!(names(&hours), ["2026-11-01 18:00", "2026-11-01 19:00", "2026-11-01 20:00"]);
    // Scripts get what they always got.
    let json: Value = serde_json::from_str(&of(&["--json"]).await).unwrap();
    let targets: Vec<_> = json["groups"].as_array().unwrap().iter().map(|it| it["target"].clone()).collect();
    assert_eq!(targets, [billing, WORKER]);
}

/// A letter has a target, also if nobody looked it up before it was hidden.
#[tokio::test]
async fn a_target_that_was_not_looked_up_is_not_called_none() {
    let cloud = TestAccount::new();
    let line = letter("a", &json!({ "target": null, "subscriptionArn": null }));
    list(&cloud, "2026-11-01T10:00:00Z", &lines(&[line]));
    let by = async |field: &str| run(&cloud, &[&["waiting", "--by", field], &CONTROL[..]].concat()).await;
    assert_eq!(names(&by("target").await), ["(not known)"]);
    assert_eq!(names(&by("subscription").await), ["(none)"]);
}

#[tokio::test]
async fn names_that_two_arns_would_share_are_whole() {
    let far = "arn:aws:sqs:us-east-1:123456789012:payments-worker";
    let billing = "arn:aws:sqs:eu-central-1:123456789012:payments-billing";
    let cloud = waiting(&[WORKER, WORKER, WORKER, far, far, billing]);
    let told = run(&cloud, &[&["waiting"], &CONTROL[..]].concat()).await;
    assert_eq!(names(&told), [WORKER, far, "payments-billing"]);
}

#[tokio::test]
async fn the_archive_is_listed_by_number_with_short_names() {
    let cloud = TestAccount::new();
    let mut posts = vec![RecordBuilder::raw("x", "x")];
    posts.extend((0..3).map(|number| RecordBuilder::envelope(&number.to_string())));
    put_archive(&cloud, INDEXED, &posts);
    let of =
        async |args: &[&str]| run(&cloud, &[&["archive", "list", "--by"], args, &ARCHIVE].concat()).await;
    assert_eq!(names(&of(&["topic"]).await), ["payments", "(none)"]);
    assert_eq!(names(&of(&["topic", "--wide"]).await), [TOPIC, "(none)"]);
}

#[tokio::test]
async fn callers_are_named_by_role_and_session() {
    let cloud = TestAccount::new();
    let mut held = override_("one", "hold", None);
    held["by"] = CALLER.into();
    put_overrides(&cloud, &[held]);
    let short = run(&cloud, &[&["overrides"], &CONTROL[..]].concat()).await;
    assert!(short.contains("  operator/ada  ") && !short.contains(CALLER), "{short}");
    let wide = run(&cloud, &[&["overrides", "--wide"], &CONTROL[..]].concat()).await;
    assert!(wide.contains(CALLER), "{wide}");
}

#[tokio::test]
async fn a_look_names_its_groups_shortly_or_wholly() {
    let look = ["look", "--queue", "payments-dlq", "--yes"];
    let short = redrivectl_in(lookable(), &look).await.text();
    assert!(short.contains("   subscription  payments:43fe80b0\n"), "{short}");
    assert!(!short.contains(WORKER), "{short}");
    let wide = redrivectl_in(lookable(), &[&look[..], &["--wide"]].concat()).await.text();
    assert!(wide.contains(&format!("   subscription  {SUBSCRIPTION}\n")) && wide.contains(WORKER), "{wide}");
}

/// A world whose results go to a terminal.
fn on_terminal(world: CommandWorld, no_color: Option<&'static str>) -> CommandWorld {
    let variable: fn(&str) -> Option<String> = match no_color {
        None => |_| None,
        Some("") => |name| (name == "NO_COLOR").then(String::new),
        Some(_) => |name| (name == "NO_COLOR").then(|| "1".to_owned()),
    };
    CommandWorld { is_terminal: true, variable: Some(variable), ..world }
}

#[tokio::test]
async fn colours_are_on_a_terminal_only_and_not_where_nobody_wants_them() {
    let cloud = waiting(&[WORKER]);
    let args = [&["waiting"], &CONTROL[..]].concat();
    let plain = run(&cloud, &args).await;
    assert!(!plain.contains('\u{1b}'), "{plain}");
    let of = async |no_color, args: &[&str]| {
        redrivectl_in(on_terminal(CommandWorld::on(&cloud), no_color), args).await.text()
    };
    let coloured = of(None, &args).await;
    assert!(coloured.starts_with(&format!("{BOLD}target  ")), "{coloured:?}");
    assert_eq!(coloured.replace(BOLD, "").replace("\u{1b}[0m", ""), plain);
    // An empty variable says nothing: https://no-color.org
    assert_eq!(of(Some(""), &args).await, coloured);
    assert_eq!(of(Some("1"), &args).await, plain);
    let json = of(None, &[&args[..], &["--json"]].concat()).await;
    assert!(!json.contains('\u{1b}'), "{json}");
}

#[tokio::test]
async fn what_needs_a_person_is_red() {
    let (_cloud, config) = ill_deployment();
    let world = CommandWorld { config: Some(config), ..CommandWorld::default() };
    let ran = redrivectl_in(on_terminal(world, None), &["doctor", "--stack", "payments"]).await;
    assert!(ran.out.contains(&format!("{RED}error ")), "{}", ran.out);
    assert!(!ran.out.contains(&format!("{RED}warning")), "{}", ran.out);
}
