//! `doctor`: reads a deployment over the wire and reports findings. The checks have tests of their own.

mod deployment;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use redrive_support::stand_in::{self, StandInRequest};
use redrive_support::{
    BILLING, DLQ, NOTIFIER, OTHER_SUBSCRIPTION, REQUEUE, STREAM, SUBSCRIPTION, TOPIC, TestAccount, WORKER,
};
use serde_json::{Value, json};

use self::deployment::{ALARMS, FakeDeployment, OUTPUTS, OtherAnswer, ROLE, account, doctor, ill, summary};
use super::stack::{formation, formation_with};
use super::{CommandRun, CommandWorld, manual, redrivectl_in, shows};

pub(crate) use deployment::{ill_deployment, well_deployed};

#[tokio::test]
async fn a_healthy_deployment_is_read_and_only_those_who_replay_are_named() {
    let cloud = account();
    let ran = doctor(&cloud, FakeDeployment::new(), &["--stack", "payments"]).await;
    let said = "note         payments-requeue\n             Besides the function these principals may send to it, and so \
                wherever the function's role may\n             send: arn:aws:iam::123456789012:role/operator.\n\n\
                Checked payments, 1 dead-letter queue, 3 subscriptions: 1 note.\n";
    assert_eq!(ran, CommandRun { code: 0, out: said.to_owned(), err: String::new() });
    let writes = cloud.journal().into_iter().filter(|call| call.operation == "PutObject").count();
    assert_eq!(writes, 0, "it only reads");
}

#[tokio::test]
async fn a_test_of_conditional_writes_is_made_where_it_is_asked_for() {
    let cloud = account();
    let ran = doctor(&cloud, FakeDeployment::new(), &["--stack", "payments", "--write-test"]).await;
    assert_eq!((ran.code, ran.out.ends_with("3 subscriptions: 1 note.\n")), (0, true), "{ran:?}");
    let writes: Vec<_> = cloud.calls("PutObject").into_iter().map(|call| call.target).collect();
    assert_eq!(writes.len(), 2);
    assert!(writes.iter().all(|it| it.starts_with("my-bucket/dead-letters-control/doctor/")), "{writes:?}");
}

#[tokio::test]
async fn conditional_writes_are_tested_where_the_control_prefix_is_and_nowhere_else() {
    for control in ["s3://elsewhere/payments-control", "off"] {
        let cloud = account();
        let mut deployment = FakeDeployment::new();
        deployment.function["Environment"]["Variables"]["CONTROL"] = json!(control);
        let ran = doctor(&cloud, deployment, &["--stack", "payments", "--write-test", "--json"]).await;
        let writes: Vec<_> = cloud.calls("PutObject").into_iter().map(|call| call.target).collect();
        assert!(writes.iter().all(|it| it.starts_with("elsewhere/payments-control/doctor/")), "{writes:?}");
        assert_eq!(writes.is_empty(), control == "off");
        assert!(control != "off" || ran.out.contains("archive-conditions"), "{}", ran.out);
    }
}

#[tokio::test]
async fn the_manual_shows_what_is_found() {
    let (cloud, deployment) = ill();
    let ran = doctor(&cloud, deployment, &["--stack", "payments"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    assert!(shows(&manual(), &ran.out), "it prints:\n{}", ran.out);
}

#[tokio::test]
async fn scripts_read_the_same_as_json() {
    let (cloud, deployment) = ill();
    let ran = doctor(&cloud, deployment, &["--stack", "payments", "--json"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let answer: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&answer["function"], &answer["queues"]), (&json!("payments"), &json!([DLQ])));
    let findings = answer["findings"].as_array().unwrap();
    let checks: Vec<_> = findings.iter().map(|it| (it["severity"].as_str(), it["check"].as_str())).collect();
    let is_there = |severity, check| checks.contains(&(Some(severity), Some(check)));
    assert!(is_there("error", "queue-policy") && is_there("warning", "letters-expire"), "{checks:?}");
    let grant = findings.iter().find(|it| it["check"] == "grant").unwrap();
    assert_eq!((&grant["severity"], &grant["about"]), (&json!("error"), &json!(NOTIFIER)));
}

/// A denial in AWS's words. It names the one policy to change.
const SENTENCE: &str = "User: arn:aws:iam::123456789012:user/jo is not authorized to perform: ACTION because no \
                        permissions boundary allows the ACTION action";

#[tokio::test]
async fn a_function_that_may_not_be_read_is_told_in_the_words_of_aws() {
    let config = stand_in::before(&TestAccount::new(), |_| {
        let said = SENTENCE.replace("ACTION", "lambda:GetFunctionConfiguration");
        Some((403, json!({ "__type": "AccessDeniedException", "Message": said }).to_string()))
    });
    let world = CommandWorld { config: Some(config), ..CommandWorld::default() };
    let ran = redrivectl_in(world, &["doctor", "--function", "payments"]).await;
    let why = SENTENCE.replace("ACTION", "lambda:GetFunctionConfiguration");
    assert!(ran.code == 6 && ran.err.contains(&format!("(AccessDeniedException: {why})")), "{ran:?}");
}

/// A certain error comes before an unknown answer.
#[tokio::test]
async fn errors_have_the_exit_code_of_errors_also_where_something_could_not_be_seen() {
    let (cloud, mut deployment) = ill();
    deployment.otherwise = |asked| {
        let denied = asked.uri.ends_with("/concurrency");
        denied.then(|| (403, json!({ "__type": "AccessDeniedException" }).to_string()))
    };
    let ran = doctor(&cloud, deployment, &["--function", "payments"]).await;
    let first = "Could not see: function-concurrency. Missing permissions: lambda:GetFunctionConcurrency.\n";
    assert!(ran.code == 1 && ran.out.starts_with(first), "{ran:?}");
}

#[tokio::test]
async fn who_may_read_nothing_but_the_function_is_told_every_permission_and_never_that_all_is_fine() {
    let cloud = account();
    let deployment = FakeDeployment::new();
    let config = stand_in::before(&cloud, move |asked| {
        let is_function = asked.uri.ends_with("/functions/payments/configuration");
        if is_function {
            return deployment.answer(asked);
        }
        let said = SENTENCE.replace("ACTION", "sns:ListSubscriptions");
        let denied = format!("<Code>AccessDenied</Code><Message>{said}</Message>");
        let is_json = asked.is_of("lambda") || asked.is_of("sqs");
        let body = match is_json {
            true => json!({ "__type": "AccessDeniedException", "Code": "AccessDeniedException" }).to_string(),
            false if asked.uri.contains(".s3.") => format!("<Error>{denied}</Error>"),
            false => format!("<ErrorResponse><Error>{denied}</Error></ErrorResponse>"),
        };
        Some((403, body))
    });
    let world = || CommandWorld { config: Some(config.clone()), ..CommandWorld::default() };
    let args = ["doctor", "--function", "payments", "--write-test"];
    let ran = redrivectl_in(world(), &[&args[..], &["--json"]].concat()).await;
    assert_eq!(ran.code, 6, "nobody knows whether all is well: {ran:?}");
    let answer: Value = serde_json::from_str(&ran.out).unwrap();
    let findings = answer["findings"].as_array().unwrap();
    let told: Vec<_> =
        findings.iter().filter(|it| it["severity"] != "cannotTell").map(|it| &it["check"]).collect();
    assert_eq!(told, [] as [&str; 0], "{findings:#?}");
    let permissions: BTreeSet<_> = findings
        .iter()
        .filter_map(|it| it["fix"].as_str()?.strip_prefix("give yourself "))
        .map(str::to_owned)
        .collect();
    let expected = [
        "iam:SimulatePrincipalPolicy",
        "lambda:GetFunctionConcurrency",
        "lambda:GetFunctionRecursionConfig",
        "lambda:ListEventSourceMappings",
        "s3:GetBucketPublicAccessBlock",
        "s3:GetBucketVersioning",
        "s3:GetEncryptionConfiguration",
        "s3:GetLifecycleConfiguration",
        "s3:GetObject",
        "s3:ListBucket",
        "s3:PutObject",
        "sns:ListSubscriptions",
        "sqs:GetQueueAttributes",
    ];
    assert_eq!(permissions, BTreeSet::from(expected.map(str::to_owned)));
    let unseen = answer["unseen"].as_array().unwrap();
    assert!(unseen.iter().all(|it| it["denied"] == true), "{unseen:#?}");
    // The output says first what could not be read, with the same permissions.
    let ran = redrivectl_in(world(), &args).await;
    let (first, _) = ran.out.split_once('\n').unwrap();
    let (checks, missing) = first.split_once(". Missing permissions: ").unwrap();
    assert!(checks.starts_with("Could not see: ") && checks.contains(", mappings, "), "{first}");
    assert_eq!((ran.code, missing), (6, format!("{}.", expected.join(", ")).as_str()));
    let text = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&SENTENCE.replace("ACTION", "sns:ListSubscriptions")), "{text}");
    let manual = manual();
    let chapter = manual.split("### Permissions of the doctor").nth(1).unwrap().split("\n##").next().unwrap();
    for permission in permissions {
        assert!(chapter.contains(&format!("`{permission}`")), "{permission}");
    }
}

#[tokio::test]
async fn without_a_function_there_is_nothing_to_look_at() {
    let ran = doctor(&TestAccount::new(), FakeDeployment::new(), &[]).await;
    let said = "redrivectl: no function is named: give --stack NAME (or REDRIVE_STACK) or --function NAME\n";
    assert_eq!((ran.code, ran.err.as_str()), (2, said));
    let ran = doctor(&TestAccount::new(), FakeDeployment::new(), &["--function", "oders"]).await;
    assert!(ran.code == 1 && ran.err.starts_with("redrivectl: cannot read the function oders"), "{ran:?}");
}

#[tokio::test]
async fn the_role_is_asked_about_searches_and_the_list_of_overrides_too() {
    let mut deployment = FakeDeployment::new();
    deployment.function["Environment"]["Variables"]["REDRIVE_POLICY"] =
        json!(r#"{"default":{"subscription":"discover"}}"#);
    deployment.denied = &["%2A", "*", "my-bucket"];
    let ran = doctor(&account(), deployment, &["--stack", "payments"]).await;
    for action in ["sns:ListSubscriptions", "s3:ListBucket"] {
        assert!(
            ran.out.contains(&format!("No policy allows the function's role {action}, ")),
            "{action}: {}",
            ran.out
        );
    }
}

/// Returns the actions of the statements of the function's role, by name, as the template has them.
fn statements() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let template = include_str!("../../../../template.yaml");
    let (_, role) = template.split_once("\n  RedriveFunctionRole:\n").unwrap();
    let (policies, _) = role.split_once("\n\n  #").unwrap();
    let statement = |text: &'static str| {
        let (_, actions) = text.split_once("Action:").unwrap();
        let mut lines = actions.lines();
        let first = lines.next().unwrap().trim().trim_matches(['[', ']']);
        let listed = lines.map_while(|line| line.trim().strip_prefix("- "));
        let all = first.split(", ").filter(|it| !it.is_empty()).chain(listed);
        (text.lines().next().unwrap(), all.collect())
    };
    policies.split("- Sid: ").skip(1).map(statement).collect()
}

/// If the doctor did not ask about a permission, nobody would miss it until the function does.
#[tokio::test]
async fn the_role_is_asked_about_every_permission_that_the_template_gives_it() {
    const NOTICES: &str = "arn:aws:sns:eu-central-1:123456789012:notices";
    let (cloud, mut deployment) = (account(), FakeDeployment::new());
    cloud.subscribe_endpoint(OTHER_SUBSCRIPTION, TOPIC, "firehose", STREAM, DLQ);
    let rule = json!({ "name": "all", "match": { "subject": ["all"] }, "target": "topic" });
    let policy = json!({ "default": { "subscription": "discover" }, "rules": [rule] });
    let variables = &mut deployment.function["Environment"]["Variables"];
    variables["REDRIVE_POLICY_URI"] = "s3://my-bucket/policy.json".into();
    cloud.put("my-bucket/policy.json", &policy.to_string());
    variables["NOTICE_TOPIC_ARN"] = NOTICES.into();
    let asked: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>> = Arc::default();
    let noted = Arc::clone(&asked);
    let config = stand_in::before(&cloud, move |asked| {
        if asked.is_of("iam") {
            let plain = |text: &str| {
                text.replace("%3A", ":").replace("%2F", "/").replace("%2A", "*").replace("%3D", "=")
            };
            let actions = (1..).map_while(|number| asked.field(&format!("ActionNames.member.{number}")));
            let resource = plain(asked.field("ResourceArns.member.1").unwrap());
            noted.lock().unwrap().entry(resource).or_default().extend(actions.map(plain));
        }
        deployment.answer(asked)
    });
    let world = CommandWorld { config: Some(config), ..CommandWorld::default() };
    redrivectl_in(world, &["doctor", "--stack", "payments"]).await;
    let mut left = asked.lock().unwrap().clone();
    // Not asked: permissions that Lambda uses with the role, those of the drill, and those for keys, because
    // each queue names its own key.
    let unasked =
        ["AttachToVpc", "RedeliverToDrills", "UseKeysOfTargets", "UseOwnKey", "WriteLogs", "WriteTraces"];
    let resources = [
        ("DrainDeadLetterQueue", DLQ),
        ("FillAndDrainRequeue", REQUEUE),
        ("FindSubscription", "*"),
        ("InvokeFunctions", NOTIFIER),
        ("KeepRecoveries", "arn:aws:s3:::my-bucket/dead-letters-control/recoveries.json"),
        ("KeepWaitingList", "arn:aws:s3:::my-bucket/dead-letters-control/waiting/letters"),
        ("KnowThatThereAreNoOverrides", "arn:aws:s3:::my-bucket"),
        ("ReadOverrides", "arn:aws:s3:::my-bucket/dead-letters-control/overrides.json"),
        ("ReadRedrivePolicy", "arn:aws:s3:::my-bucket/policy.json"),
        ("ReadSubscriptions", "*"),
        ("RedeliverToQueues", WORKER),
        ("RepublishToTopics", TOPIC),
        ("TellOfArchivedLetters", NOTICES),
        ("WriteArchive", "arn:aws:s3:::my-bucket/dead-letters/queue="),
        ("WriteStreams", STREAM),
    ];
    let statements = statements();
    assert_eq!(
        statements.keys().copied().collect::<BTreeSet<_>>(),
        unasked.into_iter().chain(resources.map(|(name, _)| name)).collect(),
    );
    for (name, resource) in resources {
        for action in &statements[name] {
            let is_asked = left.get_mut(resource).is_some_and(|actions| actions.remove(*action));
            assert!(is_asked, "{name}: {action} of {resource}, asked: {:?}", asked.lock().unwrap());
        }
    }
    left.retain(|_, actions| !actions.is_empty());
    assert_eq!(
        left.into_iter().filter(|(resource, _)| resource != BILLING).collect::<Vec<_>>(),
        [],
        "what the role does not have"
    );
}

#[tokio::test]
async fn a_stack_that_cannot_be_read_is_told_where_the_function_is_named() {
    let args = ["--function", "payments", "--stack", "bills", "--json"];
    let ran = doctor(&account(), FakeDeployment::new(), &args).await;
    assert!(ran.out.contains("cannotTell") && ran.out.contains("\"stack\""), "{ran:?}");
}

#[tokio::test]
async fn a_subscription_that_shares_the_queue_and_delivers_raw_is_found() {
    let cloud = account();
    cloud.resubscribe(SUBSCRIPTION, "RawMessageDelivery", "true");
    let ran = doctor(&cloud, FakeDeployment::new(), &["--stack", "payments"]).await;
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("shares it") && ran.out.contains("It delivers raw"), "{}", ran.out);
}

#[tokio::test]
async fn only_a_filter_policy_on_attributes_can_drop_the_mark() {
    let cloud = account();
    cloud.resubscribe(SUBSCRIPTION, "FilterPolicy", r#"{"sns-redrive":[{"exists":false}]}"#);
    let found = findings(&cloud, FakeDeployment::new(), &["--stack", "payments"]).await;
    assert_eq!(checks(&found), [("warning", "subscription-filter")], "{found:#?}");
    cloud.resubscribe(SUBSCRIPTION, "FilterPolicyScope", "MessageBody");
    let found = findings(&cloud, FakeDeployment::new(), &["--stack", "payments"]).await;
    assert_eq!(checks(&found), [], "{found:#?}");
}

#[tokio::test]
async fn without_a_list_of_waiting_letters_nobody_can_say_whether_they_expire() {
    for (name, value) in [("WAITING_LIST", "off"), ("CONTROL", "off")] {
        let mut deployment = FakeDeployment::new();
        deployment.function["Environment"]["Variables"][name] = json!(value);
        let found = findings(&account(), deployment, &["--stack", "payments"]).await;
        assert_eq!(checks(&found), [("cannotTell", "letters-expire")], "{name}: {found:#?}");
    }
}

#[tokio::test]
async fn help_says_what_the_exit_codes_of_the_doctor_mean() {
    let help = super::redrivectl(&["doctor", "--help"]).await.text();
    for line in ["  0  no errors found", "  1  errors found", "  2  bad usage"] {
        assert!(help.contains(line), "{help}");
    }
}

/// The findings of a deployment, as JSON, without the note about those who replay, which every healthy one has.
async fn findings(cloud: &TestAccount, deployment: FakeDeployment, args: &[&str]) -> Vec<Value> {
    let ran = doctor(cloud, deployment, &[args, &["--json"]].concat()).await;
    let answer: Value = serde_json::from_str(&ran.out).unwrap();
    let findings = answer["findings"].as_array().unwrap().iter();
    findings
        .filter(|it| (&it["severity"], &it["check"]) != (&json!("note"), &json!("requeue-senders")))
        .cloned()
        .collect()
}

fn checks(findings: &[Value]) -> Vec<(&str, &str)> {
    findings.iter().map(|it| (it["severity"].as_str().unwrap(), it["check"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn the_stack_of_another_function_tells_nothing_of_this_one() {
    let mut deployment = FakeDeployment::new();
    deployment.function["FunctionName"] = json!("bills");
    deployment.function["Environment"]["Variables"]["REQUEUE_ARN"] = json!("");
    deployment.mappings[0]["EventSourceArn"] = json!(WORKER);
    deployment.mappings = json!([deployment.mappings[0]]);
    let args = ["--function", "payments", "--stack", "payments"];
    let found = findings(&account(), deployment.clone(), &args).await;
    let of_stack: Vec<_> = found.iter().filter(|it| it["check"] == "stack").collect();
    assert_eq!(of_stack.len(), 1, "{found:#?}");
    assert!(
        of_stack[0]["says"]
            .as_str()
            .unwrap()
            .starts_with("The stack payments belongs to the function payments.")
    );
    assert!(
        !found.iter().any(|it| it["about"] == "payments-dlq" || it["check"] == "mapping-missing"),
        "{found:#?}"
    );
    deployment.function["FunctionName"] = json!("payments");
    let found = findings(&account(), deployment, &args).await;
    assert!(checks(&found).contains(&("error", "mapping-missing")), "its own stack does: {found:#?}");
}

#[tokio::test]
async fn filters_that_are_encrypted_are_asked_for() {
    const ONE: &str = "event-source-mappings/0a1b2c3d";
    let key = "arn:aws:kms:eu-central-1:123456789012:key/filters";
    let mut deployment = FakeDeployment::new();
    deployment.mappings[0]["KMSKeyArn"] = json!(key);
    let filter = |asked: &StandInRequest<'_>| {
        let filters = json!({ "UUID": "0a1b2c3d", "FilterCriteria": { "Filters": [{ "Pattern": "{}" }] } });
        asked.uri.ends_with(ONE).then(|| (200, filters.to_string()))
    };
    let no_key = |asked: &StandInRequest<'_>| {
        let error = json!({ "ErrorCode": "KMSAccessDeniedException", "Message": "no" });
        asked
            .uri
            .ends_with(ONE)
            .then(|| (200, json!({ "UUID": "0a1b2c3d", "FilterCriteriaError": error }).to_string()))
    };
    let none = |asked: &StandInRequest<'_>| {
        asked.uri.ends_with(ONE).then(|| (200, json!({ "UUID": "0a1b2c3d" }).to_string()))
    };
    let cases: [(OtherAnswer, &[(&str, &str)]); 3] = [
        (filter, &[("error", "mapping-filters")]),
        (no_key, &[("cannotTell", "mapping-filters")]),
        (none, &[]),
    ];
    for (otherwise, expected) in cases {
        let deployment = FakeDeployment { otherwise, ..deployment.clone() };
        let found = findings(&account(), deployment, &["--stack", "payments"]).await;
        assert_eq!(checks(&found), expected, "{found:#?}");
    }
}

#[tokio::test]
async fn code_that_an_update_of_the_stack_left_where_it_was_is_found() {
    let described = |asked: &StandInRequest<'_>| {
        if !asked.is_of("cloudformation") {
            return None;
        }
        let declared = "<Parameters><member><ParameterKey>CodePrefix</ParameterKey><DefaultValue>sns-redrive/9.9.9\
                        </DefaultValue></member></Parameters><Metadata>";
        let given = "<member><ParameterKey>CodePrefix</ParameterKey><ParameterValue>sns-redrive/0.0.9\
                     </ParameterValue></member>";
        let (status, answer) =
            summary(asked).or_else(|| formation_with(asked, &OUTPUTS, &format!("{ALARMS}{given}")))?;
        Some((status, answer.replace("<Metadata>", declared)))
    };
    let deployment = FakeDeployment { otherwise: described, ..FakeDeployment::new() };
    let found = findings(&account(), deployment, &["--stack", "payments"]).await;
    assert_eq!(checks(&found), [("warning", "function-version")], "{found:#?}");
    assert!(found[0]["says"].as_str().unwrap().starts_with("Its code has version 0.0.9"));
}

#[tokio::test]
async fn an_archive_that_is_a_queue_is_asked_about_too() {
    let archive = "arn:aws:sqs:eu-central-1:123456789012:payments-archive";
    let cloud = account();
    cloud.queue("payments-archive", &[("KmsMasterKeyId", "1234")]);
    let mut deployment = FakeDeployment::new();
    deployment.function["Environment"]["Variables"]["ARCHIVE"] = json!(archive);
    deployment.denied = &["payments-archive"];
    let found = findings(&cloud, deployment, &["--stack", "payments"]).await;
    let grants: Vec<_> = found.iter().filter(|it| it["check"] == "grant").collect();
    let denied = grants.iter().find(|it| it["about"] == archive).unwrap();
    assert_eq!(denied["severity"], "error");
    assert!(!denied["fix"].as_str().unwrap().contains("TargetQueueArns"), "{denied}");
    assert!(grants.iter().any(|it| it["about"].as_str().unwrap().ends_with("key/1234")), "{grants:#?}");
}

#[tokio::test]
async fn the_own_policy_of_a_function_may_let_the_role_in() {
    let lets = |asked: &StandInRequest<'_>| {
        let policy = json!({ "Statement": [{ "Effect": "Allow", "Principal": { "AWS": ROLE },
                                             "Action": "lambda:InvokeFunction", "Resource": "*" }] });
        let answer = json!({ "Policy": policy.to_string() }).to_string();
        (asked.is_of("lambda") && asked.uri.ends_with("/policy")).then_some((200, answer))
    };
    let cases: [(OtherAnswer, &str); 2] = [(lets, "cannotTell"), (|_| None, "error")];
    for (otherwise, severity) in cases {
        let deployment =
            FakeDeployment { denied: &["payments-notifier"], otherwise, ..FakeDeployment::new() };
        let found = findings(&account(), deployment, &["--stack", "payments"]).await;
        assert_eq!(checks(&found), [(severity, "grant")], "{found:#?}");
    }
}

#[tokio::test]
async fn a_requeue_that_the_stack_left_behind_with_letters_is_found() {
    let left = |asked: &StandInRequest<'_>| {
        let url = "https://sqs.eu-central-1.amazonaws.com/123456789012/payments-RequeueQueue-old";
        if asked.is_of("sqs") && asked.body.contains("payments-RequeueQueue\"") {
            return Some((200, json!({ "QueueUrls": [url] }).to_string()));
        }
        if asked.is_of("lambda") && asked.uri.contains("EventSourceArn=") {
            return Some((200, json!({ "EventSourceMappings": [] }).to_string()));
        }
        let counts = json!({ "Attributes": { "ApproximateNumberOfMessagesNotVisible": "2" } });
        asked.body.contains("payments-RequeueQueue-old").then(|| (200, counts.to_string()))
    };
    let deployment = FakeDeployment { otherwise: left, ..FakeDeployment::new() };
    let found = findings(&account(), deployment, &["--stack", "payments"]).await;
    assert_eq!(checks(&found), [("error", "queue-left-behind")], "{found:#?}");
    assert_eq!(found[0]["about"], "payments-RequeueQueue-old");
}

#[tokio::test]
async fn a_queue_that_was_taken_off_while_a_subscription_names_it_is_found() {
    let feeds = |asked: &StandInRequest<'_>| {
        // A page may be empty though another follows.
        let feeds = if asked.uri.contains("Marker=") {
            json!({ "EventSourceMappings": [{ "UUID": "1" }] })
        } else {
            json!({ "EventSourceMappings": [], "NextMarker": "more" })
        };
        let is_of_queue = asked.is_of("lambda") && asked.uri.contains("EventSourceArn=");
        is_of_queue.then(|| (200, feeds.to_string()))
    };
    let none = |asked: &StandInRequest<'_>| {
        let is_of_queue = asked.is_of("lambda") && asked.uri.contains("EventSourceArn=");
        is_of_queue.then(|| (200, json!({ "EventSourceMappings": [] }).to_string()))
    };
    let cloud = account();
    let bills = "arn:aws:sns:eu-central-1:123456789012:payments:bills";
    cloud.queue("bills-dlq", &[]);
    cloud.subscribe(bills, TOPIC, "sqs", WORKER);
    let named = json!({ "deadLetterTargetArn": "arn:aws:sqs:eu-central-1:123456789012:bills-dlq" });
    cloud.resubscribe(bills, "RedrivePolicy", &named.to_string());
    let cases: [(OtherAnswer, &[(&str, &str)]); 2] =
        [(feeds, &[]), (none, &[("warning", "queue-undrained")])];
    for (otherwise, expected) in cases {
        let deployment = FakeDeployment { otherwise, ..FakeDeployment::new() };
        let found = findings(&cloud, deployment, &["--stack", "payments"]).await;
        assert_eq!(checks(&found), expected, "{found:#?}");
    }
}

#[tokio::test]
async fn commands_name_the_profile_and_the_region_that_were_given() {
    let (cloud, deployment) = ill();
    let args = ["--stack", "payments", "--profile", "the ops", "--region", "eu-central-1"];
    let found = findings(&cloud, deployment, &args).await;
    let mends = found.iter().filter_map(|it| it["fix"].as_str());
    let (of_aws_cli, others): (Vec<_>, Vec<_>) = mends.partition(|mend| mend.starts_with("aws "));
    let options = " --profile 'the ops' --region eu-central-1";
    assert!(of_aws_cli.len() > 3 && of_aws_cli.iter().all(|mend| mend.ends_with(options)), "{of_aws_cli:?}");
    let (own, others): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|mend| mend.starts_with("redrivectl "));
    let own_options = format!(" --stack payments{options}");
    assert!(own.len() == 2 && own.iter().all(|mend| mend.ends_with(&own_options)), "{own:?}");
    assert!(!others.is_empty() && others.iter().all(|mend| !mend.contains("--profile")), "{others:?}");
}

#[tokio::test(start_paused = true)]
async fn own_commands_work_as_they_are_told() {
    for args in [["--stack", "payments"], ["--function", "payments"]] {
        let (cloud, mut deployment) = ill();
        deployment.function["Environment"]["Variables"]["CONTROL"] =
            json!("s3://my-bucket/dead-letters-control");
        deployment.otherwise = |asked| {
            let outputs =
                [OUTPUTS[0], OUTPUTS[1], ("ControlLocation", "s3://my-bucket/dead-letters-control")];
            asked.body.contains("DescribeStacks").then(|| formation(asked, &outputs)).flatten()
        };
        let found = findings(&cloud, deployment.clone(), &args).await;
        let mends: Vec<_> =
            found.iter().filter_map(|it| it["fix"].as_str()?.strip_prefix("redrivectl ")).collect();
        assert_eq!(mends.len(), 2, "{found:#?}");
        for words in mends {
            let deployment = deployment.clone();
            let config = stand_in::before(&cloud, move |asked| deployment.answer(asked));
            let is_override = words.starts_with("overrides release");
            let words = words.split(' ').chain(is_override.then_some("--yes"));
            let ran = redrivectl_in(
                CommandWorld { config: Some(config), ..CommandWorld::default() },
                &words.collect::<Vec<_>>(),
            )
            .await;
            assert_eq!(ran.code, 0, "{ran:?}");
        }
    }
    let policy = findings(
        &account(),
        FakeDeployment { function: in_file(), ..FakeDeployment::new() },
        &["--stack", "payments"],
    )
    .await;
    assert_eq!(policy[0]["fix"], "redrivectl plan policy.json", "it calls nobody: {policy:#?}");
}

/// A policy in S3 is read, and one that is not there stops the function.
#[tokio::test]
async fn a_policy_in_s3_is_read_and_one_that_is_not_there_is_an_error() {
    let mut deployment = FakeDeployment::new();
    deployment.function["Environment"]["Variables"]["REDRIVE_POLICY_URI"] =
        json!("s3://my-bucket/policies/p.json");
    let found = async |cloud: &TestAccount, deployment: FakeDeployment| {
        let ran = doctor(cloud, deployment, &["--stack", "payments", "--json"]).await;
        let answer: Value = serde_json::from_str(&ran.out).unwrap();
        let findings = answer["findings"].as_array().unwrap().clone();
        findings
            .into_iter()
            .filter(|it| it["check"] == "function-policy" || it["check"] == "grant")
            .collect::<Vec<_>>()
    };
    let cloud = account();
    let missing = found(&cloud, deployment.clone()).await;
    assert_eq!((missing.len(), &missing[0]["severity"]), (1, &json!("error")), "{missing:#?}");
    let says = missing[0]["says"].as_str().unwrap();
    assert!(
        says.starts_with(
            "It touches no letter: cannot read the redrive policy s3://my-bucket/policies/p.json"
        ),
        "{says}"
    );
    cloud.put("my-bucket/policies/p.json", r#"{"rulse": []}"#);
    let wrong = found(&cloud, deployment.clone()).await;
    assert!(wrong[0]["says"].as_str().unwrap().contains("is wrong: rulse"), "{wrong:#?}");
    cloud.put("my-bucket/policies/p.json", r#"{"default": {"target": "topic"}}"#);
    assert_eq!(found(&cloud, deployment.clone()).await, [] as [Value; 0]);
    deployment.denied = &["policies%2Fp.json"];
    let denied = found(&cloud, deployment).await;
    assert!(denied[0]["says"].as_str().unwrap().contains("to read its redrive policy"), "{denied:#?}");
}

/// The function, with its policy in a file.
fn in_file() -> Value {
    let mut function = FakeDeployment::new().function;
    function["Environment"]["Variables"]["REDRIVE_POLICY_FILE"] = json!("policy.json");
    function
}
