//! Each role may do what code and AWS do with it, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{OPERATIONS, QUEUES, TEMPLATE};

/// The calls that the function's code may make, by the SDK's name, and the action that permits each.
/// <https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html>
const CALLS: [(&str, &str); 14] = [
    ("change_message_visibility_batch", "sqs:ChangeMessageVisibility"),
    ("get_function_configuration", "lambda:GetFunctionConfiguration"),
    ("get_object", "s3:GetObject"),
    ("get_queue_attributes", "sqs:GetQueueAttributes"),
    ("get_subscription_attributes", "sns:GetSubscriptionAttributes"),
    ("invoke", "lambda:InvokeFunction"),
    ("list_objects_v2", "s3:ListBucket"),
    ("list_queue_tags", "sqs:ListQueueTags"),
    ("list_subscriptions", "sns:ListSubscriptions"),
    ("publish", "sns:Publish"),
    ("publish_batch", "sns:Publish"),
    ("put_object", "s3:PutObject"),
    ("put_record_batch", "firehose:PutRecordBatch"),
    ("send_message_batch", "sqs:SendMessage"),
];

/// The calls by which `redrivectl` gives overrides and wakes letters, and the action that permits each.
const OPERATOR_CALLS: [(&str, &str); 7] = [
    ("describe_stacks", "cloudformation:DescribeStacks"),
    ("get_object", "s3:GetObject"),
    ("get_queue_attributes", "sqs:GetQueueAttributes"),
    ("get_subscription_attributes", "sns:GetSubscriptionAttributes"),
    ("get_topic_attributes", "sns:GetTopicAttributes"),
    ("list_objects_v2", "s3:ListBucket"),
    ("put_object", "s3:PutObject"),
];

/// The statements of the function's role, and what each allows.
const STATEMENTS: [(&str, &[&str]); 21] = [
    ("WriteLogs", &["logs:CreateLogStream", "logs:PutLogEvents"]),
    (
        "DrainDeadLetterQueue",
        &["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"],
    ),
    (
        "FillAndDrainRequeue",
        &[
            "sqs:SendMessage",
            "sqs:ReceiveMessage",
            "sqs:DeleteMessage",
            "sqs:GetQueueAttributes",
            "sqs:ChangeMessageVisibility",
        ],
    ),
    ("ReadSubscriptions", &["sns:GetSubscriptionAttributes"]),
    ("WriteArchive", &["s3:PutObject"]),
    ("ReadOverrides", &["s3:GetObject"]),
    ("ReadRedrivePolicy", &["s3:GetObject"]),
    ("KnowThatThereAreNoOverrides", &["s3:ListBucket"]),
    ("KeepWaitingList", &["s3:PutObject", "s3:GetObject"]),
    ("KeepRecoveries", &["s3:PutObject", "s3:GetObject"]),
    ("RedeliverToQueues", &["sqs:SendMessage", "sqs:GetQueueAttributes"]),
    ("RedeliverToDrills", &["sqs:SendMessage"]),
    ("RepublishToTopics", &["sns:Publish"]),
    ("TellOfArchivedLetters", &["sns:Publish"]),
    ("InvokeFunctions", &["lambda:InvokeFunction"]),
    ("WriteStreams", &["firehose:PutRecordBatch"]),
    ("FindSubscription", &["sns:ListSubscriptions"]),
    ("UseOwnKey", &["kms:Decrypt", "kms:GenerateDataKey"]),
    ("UseKeysOfTargets", &["kms:Decrypt", "kms:GenerateDataKey"]),
    ("WriteTraces", &["xray:PutTraceSegments", "xray:PutTelemetryRecords"]),
    (
        "AttachToVpc",
        &[
            "ec2:CreateNetworkInterface",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSubnets",
            "ec2:DeleteNetworkInterface",
            "ec2:AssignPrivateIpAddresses",
            "ec2:UnassignPrivateIpAddresses",
        ],
    ),
];

/// The statements of the replay function's role, and what each allows.
const REPLAY_STATEMENTS: [(&str, &[&str]); 9] = [
    ("WriteLogs", &["logs:CreateLogStream", "logs:PutLogEvents"]),
    ("ListArchiveAndReplays", &["s3:ListBucket"]),
    ("ReadArchive", &["s3:GetObject"]),
    ("KeepReplays", &["s3:GetObject", "s3:PutObject"]),
    ("FillRequeue", &["sqs:SendMessage", "sqs:GetQueueAttributes", "sqs:ListQueueTags"]),
    ("CountWaitingLetters", &["sqs:GetQueueAttributes"]),
    ("AskHowLettersAreRedriven", &["lambda:GetFunctionConfiguration"]),
    ("ReadRedrivePolicy", &["s3:GetObject"]),
    ("UseOwnKeys", &["kms:Decrypt", "kms:GenerateDataKey"]),
];

/// The actions that AWS itself takes with the function's role.
const BY_SERVICES: [&str; 14] = [
    // Lambda: the log.
    "logs:CreateLogStream",
    "logs:PutLogEvents",
    // Lambda: the event source mappings.
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    // SQS, SNS and S3: encrypted queues, topics and buckets.
    "kms:Decrypt",
    "kms:GenerateDataKey",
    // Lambda: tracing.
    "xray:PutTraceSegments",
    "xray:PutTelemetryRecords",
    // Lambda: the network interfaces of a function in a VPC.
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
];

/// Returns the folder of the function's own source.
fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Returns the folder of a crate's source.
fn source_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(name).join("src")
}

/// Returns the calls in a part of the source, and how often a call is sent. `left_out` are folders and files
/// that do not belong to that part.
fn calls(directory: &Path, left_out: &[&str]) -> (BTreeMap<&'static str, usize>, usize) {
    let (mut found, mut sent) = (BTreeMap::new(), 0);
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if left_out.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        if path.is_dir() {
            let (inner, more) = calls(&path, left_out);
            for (call, times) in inner {
                *found.entry(call).or_default() += times;
            }
            sent += more;
            continue;
        }
        let source = std::fs::read_to_string(path).unwrap();
        let source = source.split("\n#[cfg(test)]\n").next().unwrap();
        for (call, _) in CALLS {
            let times = source.matches(&format!(".{call}()")).count();
            if times > 0 {
                *found.entry(call).or_default() += times;
            }
        }
        // A paginator makes the call too, and sends it once for each page. A call within the function's own
        // region is sent as it is; another is sent with the region of its queue or topic.
        sent += source.matches(".send()").count()
            - source.matches("match elsewhere(").count()
            - source.matches("match (elsewhere(").count();
    }
    (found, sent)
}

/// Returns the policy of a role, line by line.
fn policy_of(template: &'static str, role: &str) -> Vec<&'static str> {
    let (_, role) = template.split_once(&format!("\n  {role}:\n")).expect("the template has the role");
    let (_, policies) = role.split_once("\n      Policies:\n").expect("the role has policies");
    policies.split("\n\n  #").next().unwrap().lines().collect()
}

/// Returns the policy of the function's role.
fn role_policy() -> Vec<&'static str> {
    policy_of(TEMPLATE, "RedriveFunctionRole")
}

/// Returns the policy of the replay function's role.
fn replay_policy() -> Vec<&'static str> {
    policy_of(OPERATIONS, "ReplayFunctionRole")
}

/// Returns the name of a statement if this line of the policy begins one.
fn sid(line: &'static str) -> Option<&'static str> {
    line.trim().strip_prefix("- Sid: ")
}

/// Returns the actions that a policy allows, by statement.
fn grants(lines: Vec<&'static str>) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut grants: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let mut statement = None;
    let mut lines = lines.into_iter().peekable();
    while let Some(line) = lines.next() {
        statement = sid(line).or(statement);
        let Some(action) = line.trim().strip_prefix("Action:") else { continue };
        let actions = grants.entry(statement.expect("an action has a statement")).or_default();
        actions
            .extend(action.trim().trim_matches(['[', ']']).split(", ").filter(|action| !action.is_empty()));
        while let Some(action) = lines.next_if(|line| line.trim().starts_with("- ")) {
            actions.insert(action.trim().trim_start_matches("- "));
        }
    }
    grants
}

#[test]
fn every_call_of_the_code_is_one_that_this_test_knows() {
    for folder in [source(), source_of("aws"), source_of("archive"), source_of("replay")] {
        let (calls, sent) = calls(&folder, &[]);
        assert_eq!(calls.values().sum::<usize>(), sent, "a call that CALLS lacks, among {calls:?}");
    }
}

/// Asserts that a role may do exactly what the code and AWS do with it.
fn no_more_and_no_less(
    calls: &BTreeMap<&str, usize>,
    by_services: &[&'static str],
    policy: Vec<&'static str>,
) {
    let made = CALLS.iter().filter(|(call, _)| calls.contains_key(call)).map(|(_, action)| *action);
    let needed: BTreeSet<_> = made.chain(by_services.iter().copied()).collect();
    let grants: BTreeSet<_> = grants(policy).into_values().flatten().collect();
    assert_eq!(needed.difference(&grants).collect::<Vec<_>>(), Vec::<&&str>::new(), "not granted");
    assert_eq!(grants.difference(&needed).collect::<Vec<_>>(), Vec::<&&str>::new(), "granted for nothing");
}

#[test]
fn the_role_may_do_what_the_code_and_aws_do_with_it_and_nothing_else() {
    let (mut made, _) = calls(&source(), &["replay_function.rs", "bin"]);
    for name in ["aws", "archive"] {
        made.extend(calls(&source_of(name), &[]).0);
    }
    no_more_and_no_less(&made, &BY_SERVICES, role_policy());
}

#[test]
fn the_replay_function_may_do_what_its_code_does_and_nothing_else() {
    let (mut made, _) = calls(&source_of("replay"), &[]);
    // It reads the archive, and sends to the requeue with the code that delivers to queues.
    for (name, file, call) in
        [("archive", "bucket.rs", "get_object"), ("aws", "delivery/queue.rs", "send_message_batch")]
    {
        let code = std::fs::read_to_string(source_of(name).join(file)).unwrap();
        assert!(code.contains(&format!(".{call}()")), "{file}");
        made.insert(call, 1);
    }
    let by_services = ["logs:CreateLogStream", "logs:PutLogEvents", "kms:Decrypt", "kms:GenerateDataKey"];
    no_more_and_no_less(&made, &by_services, replay_policy());
}

/// Returns the policy of operators, line by line.
fn operator_policy() -> Vec<&'static str> {
    let (_, policy) = TEMPLATE.split_once("\n  OperatorPolicy:\n").unwrap();
    policy.split("\n\n  #").next().unwrap().lines().collect()
}

#[test]
fn an_operator_may_do_what_giving_overrides_takes_and_nothing_else() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut made, mut sent) = (BTreeSet::new(), 0);
    let folders = ["crates/ctl/src/overrides", "crates/ctl/src/control"];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.push(root.join("crates/ctl/src/describe.rs"));
    let mut known = 0;
    for file in files {
        let source = std::fs::read_to_string(file).unwrap();
        sent += source.matches(".send()").count();
        for (call, action) in OPERATOR_CALLS {
            let times = source.matches(&format!(".{call}()")).count();
            known += times;
            made.extend((times > 0).then_some(action));
        }
    }
    assert_eq!(known, sent, "a call that OPERATOR_CALLS lacks");
    // It wakes letters with the code that hides them. The key of the bucket is used by S3.
    let wakes = std::fs::read_to_string(root.join("crates/ctl/src/overrides/wake.rs")).unwrap();
    assert!(wakes.contains("use redrive_aws::delivery::{HideRequest, hide};"));
    made.extend(["sqs:ChangeMessageVisibility", "kms:Decrypt", "kms:GenerateDataKey"]);
    let granted: BTreeSet<_> = grants(operator_policy()).into_values().flatten().collect();
    assert_eq!(granted, made);
}

#[test]
fn each_statement_allows_what_it_is_for() {
    for (statements, policy) in [(&STATEMENTS[..], role_policy()), (&REPLAY_STATEMENTS[..], replay_policy())]
    {
        let expected: BTreeMap<_, BTreeSet<_>> =
            statements.iter().map(|(sid, actions)| (*sid, actions.iter().copied().collect())).collect();
        assert_eq!(grants(policy), expected);
    }
}

/// S3 lets who may list below a prefix know whether a key below it exists: <https://github.com/ceph/s3-tests/pull/741>.
#[test]
fn no_condition_lets_a_request_without_its_key_pass() {
    for template in [TEMPLATE, OPERATIONS, QUEUES] {
        assert!(!template.contains("IfExists:"));
    }
}

/// The function does the same with every queue as with the first.
#[test]
fn further_queues_are_granted_what_the_first_is() {
    let (_, statements) = QUEUES.split_once("        Statement:\n").unwrap();
    let found = grants(statements.split("\n\n").next().unwrap().lines().collect());
    let first = &grants(role_policy())["DrainDeadLetterQueue"];
    assert_eq!(
        found,
        BTreeMap::from([
            ("DrainDeadLetterQueues", first.clone()),
            ("UseKeysOfQueues", BTreeSet::from(["kms:Decrypt"])),
        ])
    );
}

#[test]
fn every_statement_says_which_call_needs_it() {
    let lines = [role_policy(), replay_policy()].concat();
    let statements = lines.iter().enumerate().filter_map(|(number, line)| Some((number, sid(line)?)));
    let mut seen = 0;
    for (number, name) in statements {
        seen += 1;
        // Above it are the !If that contains it, and its condition.
        let condition = |line: &str| {
            let word = line.strip_prefix("- ").unwrap_or_default();
            word == "!If" || (!word.is_empty() && word.chars().all(char::is_alphanumeric))
        };
        let above = lines[..number].iter().rev().map(|line| line.trim()).find(|line| !condition(line));
        assert!(above.is_some_and(|line| line.starts_with('#')), "no comment above {name}, but {above:?}");
    }
    assert_eq!(seen, STATEMENTS.len() + REPLAY_STATEMENTS.len());
}

/// Letters wait in both queues: an override to retry that wakes only one of them leaves the others hidden for hours.
#[test]
fn operators_may_wake_and_count_the_letters_of_every_queue() {
    let (_, policy) = TEMPLATE.split_once("\n  OperatorPolicy:\n").unwrap();
    let (_, statement) = policy.split_once("- Sid: WakeLetters\n").unwrap();
    let statement = statement.split("- Sid: ").next().unwrap();
    let (_, further) = QUEUES.split_once("\n  WakePolicy:\n").unwrap();
    let (_, of_others) = further.split_once("- Sid: WakeLetters\n").unwrap();
    for of in [statement, of_others.split("\n\n").next().unwrap()] {
        let actions = of.lines().find_map(|line| line.trim().strip_prefix("Action: "));
        assert_eq!(actions, Some("[sqs:ChangeMessageVisibility, sqs:GetQueueAttributes]"));
        assert!(of.contains("Effect: Allow"));
    }
    for queue in
        ["!GetAtt DeadLetterQueue.Arn", "!Ref ExistingDeadLetterQueueArn", "!GetAtt RequeueQueue.Arn"]
    {
        assert!(statement.contains(queue), "{queue}");
    }
    assert!(of_others.contains("Resource: !Ref DeadLetterQueueArns"));
}
