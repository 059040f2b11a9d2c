//! `doctor`: a deployment as it is read over the wire, and what is told of it. The checks have tests of their own.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::desk::{self, Asked};
use super::stack::formation;
use super::waiting::{letter, lines, list};
use super::{Ran, World, redrivectl_in};
use support::{Account, DLQ, NOTIFIER, REQUEUE, SUBSCRIPTION, TOPIC, WORKER};

const ROLE: &str = "arn:aws:iam::123456789012:role/orders-function";

const OUTPUTS: [(&str, &str); 2] = [("FunctionName", "orders"), ("DeadLetterQueueArn", DLQ)];

/// What is set up before the account: the function, its mappings, and what its role may not do.
#[derive(Clone)]
struct Deployment {
    function: Value,
    mappings: Value,
    recursion: &'static str,
    denied: &'static [&'static str],
}

impl Deployment {
    /// As the template makes it.
    fn new() -> Self {
        let mapping = |source: &str| {
            json!({ "UUID": "0a1b2c3d", "EventSourceArn": source, "State": "Enabled", "BatchSize": 10,
                    "FunctionResponseTypes": ["ReportBatchItemFailures"], "ScalingConfig": { "MaximumConcurrency": 2 } })
        };
        let variables = json!({
            "ARCHIVE": "s3://graveyard/dead-letters", "CONTROL": "s3://graveyard/dead-letters-control",
            "REQUEUE_ARN": REQUEUE, "MAX_CONCURRENCY": "2",
        });
        Self {
            function: json!({
                "FunctionName": "orders", "FunctionArn": "arn:aws:lambda:eu-central-1:123456789012:function:orders",
                "Role": ROLE, "Timeout": 30, "MemorySize": 256, "State": "Active", "LastUpdateStatus": "Successful",
                "LoggingConfig": { "LogFormat": "JSON", "ApplicationLogLevel": "INFO" },
                "Environment": { "Variables": variables },
            }),
            mappings: json!([mapping(DLQ), mapping(REQUEUE)]),
            recursion: "Allow",
            denied: &[],
        }
    }

    fn answer(&self, asked: &Asked<'_>) -> Option<(u16, String)> {
        if asked.is_of("cloudformation") {
            return Some(summary(asked)).flatten().or_else(|| formation(asked, &OUTPUTS));
        }
        if asked.is_of("iam") {
            return Some((200, self.simulation(asked)));
        }
        let listing = "<ListSubscriptionsByTopicResponse><ListSubscriptionsByTopicResult><Subscriptions/>\
                       </ListSubscriptionsByTopicResult></ListSubscriptionsByTopicResponse>";
        if asked.field("Action") == Some("ListSubscriptionsByTopic") {
            return Some((200, listing.to_owned()));
        }
        let path = asked.uri.split_once(".com/")?.1;
        let answer = if asked.is_of("lambda") {
            match path.split('?').next()? {
                "2015-03-31/functions/orders/configuration" => self.function.clone(),
                "2019-09-30/functions/orders/concurrency" => json!({}),
                "2024-08-31/functions/orders/recursion-config" => json!({ "RecursiveLoop": self.recursion }),
                mappings if mappings.starts_with("2015-03-31/event-source-mappings") => {
                    json!({ "EventSourceMappings": self.mappings })
                }
                _ => return None,
            }
            .to_string()
        } else {
            bucket(asked.method, path)?
        };
        Some((200, answer))
    }

    fn simulation(&self, asked: &Asked<'_>) -> String {
        let resource = asked.field("ResourceArns.member.1").unwrap();
        let actions = (1..).map_while(|number| asked.field(&format!("ActionNames.member.{number}")));
        let member = |action: &str| {
            let action = action.replace("%3A", ":");
            let denied = self.denied.iter().any(|denied| resource.ends_with(denied));
            let decision = if denied { "implicitDeny" } else { "allowed" };
            format!(
                "<member><EvalActionName>{action}</EvalActionName><EvalDecision>{decision}</EvalDecision></member>"
            )
        };
        let results: String = actions.map(member).collect();
        format!(
            "<SimulatePrincipalPolicyResponse><SimulatePrincipalPolicyResult><EvaluationResults>{results}</EvaluationResults>\
             </SimulatePrincipalPolicyResult></SimulatePrincipalPolicyResponse>"
        )
    }
}

fn summary(asked: &Asked<'_>) -> Option<(u16, String)> {
    asked.body.contains("Action=GetTemplateSummary").then(|| {
        let metadata =
            json!({ "AWS::ServerlessRepo::Application": { "SemanticVersion": env!("CARGO_PKG_VERSION") } });
        let metadata = metadata.to_string().replace('"', "&quot;");
        let answer = format!(
            "<GetTemplateSummaryResponse><GetTemplateSummaryResult><Metadata>{metadata}</Metadata>\
             </GetTemplateSummaryResult></GetTemplateSummaryResponse>"
        );
        (200, answer)
    })
}

/// The settings of the bucket.
fn bucket(method: &str, path: &str) -> Option<String> {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    let rule = |id: &str, prefix: &str, days: u32| {
        format!(
            "<Rule><ID>{id}</ID><Status>Enabled</Status><Prefix>{prefix}</Prefix><Expiration><Days>{days}</Days>\
             </Expiration></Rule>"
        )
    };
    let blocks = ["BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"];
    Some(match query.split('&').next()? {
        _ if method == "DELETE" => String::new(),
        "encryption" => {
            "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>\
                         AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule>\
                         </ServerSideEncryptionConfiguration>"
                .to_owned()
        }
        "versioning" => {
            "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>".to_owned()
        }
        "publicAccessBlock" => {
            let blocks = blocks.map(|block| format!("<{block}>true</{block}>")).concat();
            format!("<PublicAccessBlockConfiguration>{blocks}</PublicAccessBlockConfiguration>")
        }
        "lifecycle" => format!(
            "<LifecycleConfiguration>{}</LifecycleConfiguration>",
            rule("forget-the-waiting-list", "dead-letters-control/waiting/", 1)
        ),
        "policy" => {
            let tls = json!({ "Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "*",
                              "Condition": { "Bool": { "aws:SecureTransport": "false" } } });
            json!({ "Statement": [tls] }).to_string()
        }
        _ => return None,
    })
}

/// The queues as the template makes them, and three subscriptions of one topic.
fn account() -> Account {
    let cloud = Account::new();
    let lets_in = json!({ "Statement": [
        { "Effect": "Allow", "Principal": { "Service": "sns.amazonaws.com" }, "Action": "sqs:SendMessage",
          "Resource": DLQ, "Condition": { "ArnLike": { "aws:SourceArn": TOPIC } } },
    ] });
    let denies = json!({ "Statement": [
        { "Effect": "Deny", "Principal": "*", "Action": "sqs:SendMessage", "Resource": REQUEUE,
          "Condition": { "ArnNotLike": { "aws:PrincipalArn": ROLE } } },
    ] });
    let moves = json!({ "redrivePermission": "denyAll" }).to_string();
    let common = [("MessageRetentionPeriod", "1209600"), ("VisibilityTimeout", "180")];
    cloud.queue("orders-dlq", &[&common[..], &[("Policy", &lets_in.to_string())]].concat());
    cloud.queue(
        "orders-requeue",
        &[&common[..], &[("Policy", &denies.to_string()), ("RedriveAllowPolicy", &moves)]].concat(),
    );
    cloud
}

async fn doctor(cloud: &Account, deployment: Deployment, args: &[&str]) -> Ran {
    let config = desk::before(cloud, move |asked| deployment.answer(asked));
    let world = World { config: Some(config), ..World::default() };
    redrivectl_in(world, &[&["doctor"], args].concat()).await
}

#[tokio::test]
async fn a_healthy_deployment_is_read_and_nothing_is_said() {
    let cloud = account();
    let ran = doctor(&cloud, Deployment::new(), &["--stack", "orders"]).await;
    let said = "Looked at orders, 1 dead-letter queue, 3 subscriptions: nothing to say.\n";
    assert_eq!(ran, Ran { code: 0, out: said.to_owned(), err: String::new() });
    let writes = cloud.journal().into_iter().filter(|call| call.operation == "PutObject").count();
    assert_eq!(writes, 0, "it only reads");
}

#[tokio::test]
async fn a_test_of_conditional_writes_is_made_where_it_is_asked_for() {
    let cloud = account();
    let ran = doctor(&cloud, Deployment::new(), &["--stack", "orders", "--write-test"]).await;
    assert_eq!((ran.code, ran.out.contains("nothing to say")), (0, true), "{ran:?}");
    let writes: Vec<_> = cloud.calls("PutObject").into_iter().map(|call| call.target).collect();
    assert_eq!(writes.len(), 2);
    assert!(writes.iter().all(|it| it.starts_with("graveyard/dead-letters-control/doctor/")), "{writes:?}");
}

#[tokio::test]
async fn conditional_writes_are_tested_where_the_control_prefix_is_and_nowhere_else() {
    for control in ["s3://desk/orders-control", "off"] {
        let cloud = account();
        let mut deployment = Deployment::new();
        deployment.function["Environment"]["Variables"]["CONTROL"] = json!(control);
        let ran = doctor(&cloud, deployment, &["--stack", "orders", "--write-test", "--json"]).await;
        let writes: Vec<_> = cloud.calls("PutObject").into_iter().map(|call| call.target).collect();
        assert!(writes.iter().all(|it| it.starts_with("desk/orders-control/doctor/")), "{writes:?}");
        assert_eq!(writes.is_empty(), control == "off");
        assert!(control != "off" || ran.out.contains("archive-conditions"), "{}", ran.out);
    }
}

/// What a team meets that has made some of it by hand.
fn ill() -> (Account, Deployment) {
    let cloud = account();
    cloud.queue("orders-dlq", &[("VisibilityTimeout", "20"), ("MessageRetentionPeriod", "345600")]);
    cloud.subscribe("arn:aws:sns:eu-central-1:123456789012:orders:audit", TOPIC, "sqs", WORKER);
    let mut deployment = Deployment::new();
    deployment.mappings[0]["FunctionResponseTypes"] = json!([]);
    deployment.denied = &["orders-notifier"];
    let order = json!({ "version": 1, "orders": [
        { "id": "20261030T080000Z-5e07b9", "do": "hold", "match": { "queueArn": [DLQ] }, "at": "2026-10-30T08:00:00Z",
          "by": "jo", "why": "billing is down" },
    ] });
    cloud.put("graveyard/dead-letters-control/orders.json", &order.to_string());
    let soon = letter("a", &json!({ "since": "2026-10-28T20:00:00Z" }));
    list(&cloud, "2026-11-01T10:00:00Z", &lines(&[soon]));
    (cloud, deployment)
}

#[tokio::test]
async fn the_manual_shows_what_is_found() {
    let (cloud, deployment) = ill();
    let ran = doctor(&cloud, deployment, &["--stack", "orders"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let manual =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/redrivectl.md")).unwrap();
    assert!(manual.contains(&format!("```text\n{}```\n", ran.out)), "it prints:\n{}", ran.out);
}

#[tokio::test]
async fn scripts_read_the_same_as_json() {
    let (cloud, deployment) = ill();
    let ran = doctor(&cloud, deployment, &["--stack", "orders", "--json"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let answer: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&answer["function"], &answer["queues"]), (&json!("orders"), &json!([DLQ])));
    let findings = answer["findings"].as_array().unwrap();
    let checks: Vec<_> = findings.iter().map(|it| (it["severity"].as_str(), it["check"].as_str())).collect();
    let is_there = |severity, check| checks.contains(&(Some(severity), Some(check)));
    assert!(is_there("error", "queue-policy") && is_there("warning", "letters-expire"), "{checks:?}");
    let grant = findings.iter().find(|it| it["check"] == "grant").unwrap();
    assert_eq!((&grant["severity"], &grant["about"]), (&json!("error"), &json!(NOTIFIER)));
}

#[tokio::test]
async fn who_may_read_nothing_but_the_function_is_told_every_permission_and_never_that_all_is_fine() {
    let cloud = account();
    let deployment = Deployment::new();
    let config = desk::before(&cloud, move |asked| {
        let is_function = asked.uri.ends_with("/functions/orders/configuration");
        if is_function {
            return deployment.answer(asked);
        }
        let denied = "<Code>AccessDenied</Code><Message>no</Message>";
        let is_json = asked.is_of("lambda") || asked.is_of("sqs");
        let body = match is_json {
            true => json!({ "__type": "AccessDeniedException", "Code": "AccessDeniedException" }).to_string(),
            false if asked.uri.contains(".s3.") => format!("<Error>{denied}</Error>"),
            false => format!("<ErrorResponse><Error>{denied}</Error></ErrorResponse>"),
        };
        Some((403, body))
    });
    let world = World { config: Some(config), ..World::default() };
    let ran = redrivectl_in(world, &["doctor", "--function", "orders", "--json", "--write-test"]).await;
    let answer: Value = serde_json::from_str(&ran.out).unwrap();
    let findings = answer["findings"].as_array().unwrap();
    let is_unknown = |it: &Value| it["severity"] == "cannotTell" || it["check"] == "mapping-missing";
    assert!(findings.iter().all(is_unknown), "{findings:#?}");
    let permissions: BTreeSet<_> = findings
        .iter()
        .filter_map(|it| it["mend"].as_str()?.strip_prefix("give yourself "))
        .map(str::to_owned)
        .collect();
    assert!(permissions.len() >= 11, "{permissions:?}");
    let manual =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/redrivectl.md")).unwrap();
    let chapter = manual.split("### Permissions of the doctor").nth(1).unwrap();
    for permission in permissions {
        assert!(chapter.contains(&format!("`{permission}`")), "{permission}");
    }
}

#[tokio::test]
async fn without_a_function_there_is_nothing_to_look_at() {
    let ran = doctor(&Account::new(), Deployment::new(), &[]).await;
    let said = "redrivectl: which function? Give --stack NAME (or REDRIVE_STACK) or --function NAME\n";
    assert_eq!((ran.code, ran.err.as_str()), (2, said));
    let ran = doctor(&Account::new(), Deployment::new(), &["--function", "oders"]).await;
    assert!(ran.code == 1 && ran.err.starts_with("redrivectl: reading the function oders failed"), "{ran:?}");
}

#[tokio::test]
async fn the_role_is_asked_about_searches_and_the_list_of_orders_too() {
    let mut deployment = Deployment::new();
    deployment.function["Environment"]["Variables"]["REDRIVE_POLICY"] =
        json!(r#"{"default":{"subscription":"discover"}}"#);
    deployment.denied = &["%2A", "*", "graveyard"];
    let ran = doctor(&account(), deployment, &["--stack", "orders"]).await;
    for action in ["sns:ListSubscriptions", "s3:ListBucket"] {
        assert!(ran.out.contains(&format!("Nothing allows {action} ")), "{action}: {}", ran.out);
    }
}

#[tokio::test]
async fn a_stack_that_cannot_be_read_is_told_where_the_function_is_named() {
    let args = ["--function", "orders", "--stack", "bills", "--json"];
    let ran = doctor(&account(), Deployment::new(), &args).await;
    assert!(ran.out.contains("cannotTell") && ran.out.contains("\"stack\""), "{ran:?}");
}

#[tokio::test]
async fn a_subscription_that_shares_the_queue_and_delivers_raw_is_found() {
    let cloud = account();
    cloud.resubscribe(SUBSCRIPTION, "RawMessageDelivery", "true");
    let ran = doctor(&cloud, Deployment::new(), &["--stack", "orders"]).await;
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("1 raw subscription, as") && ran.out.contains("It delivers raw"), "{}", ran.out);
}

#[tokio::test]
async fn help_says_what_the_exit_codes_of_the_doctor_mean() {
    let help = super::redrivectl(&["doctor", "--help"]).await.text();
    for line in ["  0  done: there is no error", "  1  there are errors", "  2  bad usage"] {
        assert!(help.contains(line), "{help}");
    }
}
