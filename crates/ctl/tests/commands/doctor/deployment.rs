//! Two deployments for the doctor: one by the template, and one that was partly made by hand.

use aws_config::SdkConfig;
use redrive_support::stand_in::{self, StandInRequest};
use redrive_support::{DLQ, REQUEUE, TOPIC, TestAccount, WORKER};
use serde_json::{Value, json};

use super::super::stack::formation_with;
use super::super::waiting::{letter, lines, list};
use super::super::{CommandRun, CommandWorld, redrivectl_in};

pub(super) const ROLE: &str = "arn:aws:iam::123456789012:role/payments-function";

/// Those who replay.
const OPERATOR: &str = "arn:aws:iam::123456789012:role/operator";

pub(super) const OUTPUTS: [(&str, &str); 2] = [("FunctionName", "payments"), ("DeadLetterQueueArn", DLQ)];

/// The topic for alarms, as a parameter of the stack.
pub(super) const ALARMS: &str = "<member><ParameterKey>AlarmTopicArn</ParameterKey><ParameterValue>\
                      arn:aws:sns:eu-central-1:123456789012:notices</ParameterValue></member>";

/// Another answer than the template's deployment gives.
pub(super) type OtherAnswer = fn(&StandInRequest<'_>) -> Option<(u16, String)>;

/// The deployment in front of the account: the function, its mappings, and the actions denied to its role.
#[derive(Clone)]
pub(super) struct FakeDeployment {
    pub(super) function: Value,
    pub(super) mappings: Value,
    pub(super) recursion: &'static str,
    pub(super) denied: &'static [&'static str],
    /// Answers that differ from those of the template's deployment.
    pub(super) otherwise: OtherAnswer,
}

impl FakeDeployment {
    /// Returns the deployment of the template.
    pub(super) fn new() -> Self {
        let mapping = |source: &str| {
            json!({ "UUID": "0a1b2c3d", "EventSourceArn": source, "State": "Enabled", "BatchSize": 10,
                    "FunctionResponseTypes": ["ReportBatchItemFailures"], "ScalingConfig": { "MaximumConcurrency": 2 } })
        };
        let variables = json!({
            "ARCHIVE": "s3://my-bucket/dead-letters", "CONTROL": "s3://my-bucket/dead-letters-control",
            "REQUEUE_ARN": REQUEUE, "MAX_CONCURRENCY": "2",
        });
        Self {
            function: json!({
                "FunctionName": "payments", "FunctionArn": "arn:aws:lambda:eu-central-1:123456789012:function:payments",
                "Role": ROLE, "Timeout": 30, "MemorySize": 256, "State": "Active", "LastUpdateStatus": "Successful",
                "LoggingConfig": { "LogFormat": "JSON", "ApplicationLogLevel": "INFO" },
                "Environment": { "Variables": variables },
            }),
            mappings: json!([mapping(DLQ), mapping(REQUEUE)]),
            recursion: "Allow",
            denied: &[],
            otherwise: |_| None,
        }
    }

    pub(super) fn answer(&self, asked: &StandInRequest<'_>) -> Option<(u16, String)> {
        if let Some(answer) = (self.otherwise)(asked) {
            return Some(answer);
        }
        if asked.is_of("cloudformation") {
            return Some(summary(asked)).flatten().or_else(|| formation_with(asked, &OUTPUTS, ALARMS));
        }
        if asked.is_of("iam") {
            return Some((200, self.simulation(asked)));
        }
        let listing = "<ListSubscriptionsByTopicResponse><ListSubscriptionsByTopicResult><Subscriptions/>\
                       </ListSubscriptionsByTopicResult></ListSubscriptionsByTopicResponse>";
        if asked.field("Action") == Some("ListSubscriptionsByTopic") {
            return Some((200, listing.to_owned()));
        }
        if asked.is_of("sqs") && asked.body.contains("QueueNamePrefix") {
            return Some((200, json!({}).to_string()));
        }
        let path = asked.uri.split_once(".com/")?.1;
        let answer = if asked.is_of("lambda") {
            match path.split('?').next()? {
                of_function if of_function.ends_with("/policy") => {
                    return Some((404, json!({ "__type": "ResourceNotFoundException" }).to_string()));
                }
                "2015-03-31/functions/payments/configuration" => self.function.clone(),
                "2019-09-30/functions/payments/concurrency" => json!({}),
                "2024-08-31/functions/payments/recursion-config" => {
                    json!({ "RecursiveLoop": self.recursion })
                }
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

    fn simulation(&self, asked: &StandInRequest<'_>) -> String {
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

pub(super) fn summary(asked: &StandInRequest<'_>) -> Option<(u16, String)> {
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
pub(super) fn account() -> TestAccount {
    let cloud = TestAccount::new();
    let lets_in = json!({ "Statement": [
        { "Effect": "Allow", "Principal": { "Service": "sns.amazonaws.com" }, "Action": "sqs:SendMessage",
          "Resource": DLQ, "Condition": { "ArnLike": { "aws:SourceArn": TOPIC } } },
    ] });
    let denies = json!({ "Statement": [
        { "Effect": "Deny", "Principal": "*", "Action": "sqs:SendMessage", "Resource": REQUEUE,
          "Condition": { "ArnNotLike": { "aws:PrincipalArn": [ROLE, OPERATOR] } } },
    ] });
    let moves = json!({ "redrivePermission": "denyAll" }).to_string();
    let common = [("MessageRetentionPeriod", "1209600"), ("VisibilityTimeout", "180")];
    cloud.queue("payments-dlq", &[&common[..], &[("Policy", &lets_in.to_string())]].concat());
    cloud.queue(
        "payments-requeue",
        &[&common[..], &[("Policy", &denies.to_string()), ("RedriveAllowPolicy", &moves)]].concat(),
    );
    let notices = "arn:aws:sns:eu-central-1:123456789012:notices";
    cloud.subscribe(&format!("{notices}:1"), notices, "email", "jo@example.com");
    cloud
}

pub(super) async fn doctor(cloud: &TestAccount, deployment: FakeDeployment, args: &[&str]) -> CommandRun {
    let config = stand_in::before(cloud, move |asked| deployment.answer(asked));
    let world = CommandWorld { config: Some(config), ..CommandWorld::default() };
    redrivectl_in(world, &[&["doctor"], args].concat()).await
}

/// Returns a world with a deployment of the template.
pub(crate) fn well_deployed() -> CommandWorld {
    let deployment = FakeDeployment::new();
    let config = Some(stand_in::before(&account(), move |asked| deployment.answer(asked)));
    CommandWorld { config, ..CommandWorld::default() }
}

/// Returns a deployment that was partly made by hand, with the configuration that reaches it.
pub(crate) fn ill_deployment() -> (TestAccount, SdkConfig) {
    let (cloud, deployment) = ill();
    let config = stand_in::before(&cloud, move |asked| deployment.answer(asked));
    (cloud, config)
}

/// Returns a deployment that was partly made by hand.
pub(super) fn ill() -> (TestAccount, FakeDeployment) {
    let cloud = account();
    cloud.queue("payments-dlq", &[("VisibilityTimeout", "20"), ("MessageRetentionPeriod", "345600")]);
    cloud.subscribe("arn:aws:sns:eu-central-1:123456789012:payments:audit", TOPIC, "sqs", WORKER);
    let mut deployment = FakeDeployment::new();
    deployment.mappings[0]["FunctionResponseTypes"] = json!([]);
    deployment.denied = &["payments-notifier"];
    let override_ = json!({ "version": 1, "overrides": [
        { "id": "20261030T080000Z-5e07b9", "do": "hold", "match": { "queueArn": [DLQ] }, "at": "2026-10-30T08:00:00Z",
          "by": "jo", "why": "billing is down" },
    ] });
    cloud.put("my-bucket/dead-letters-control/overrides.json", &override_.to_string());
    let soon = letter("a", &json!({ "since": "2026-10-28T20:00:00Z" }));
    list(&cloud, "2026-11-01T10:00:00Z", &lines(&[soon]));
    (cloud, deployment)
}
