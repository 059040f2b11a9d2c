//! Tests that template, docs and code agree: settings and their defaults, calls and grants, alarms and the
//! runbook, versions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use sns_redrive::settings::{Settings, VARIABLES};
use sns_redrive::telemetry::{Run, summarise};

const TEMPLATE: &str = include_str!("../../template.yaml");
const REFERENCE: &str = include_str!("../../docs/reference/settings.md");
const OPERATIONS: &str = include_str!("../../operations.yaml");
const QUEUES: &str = include_str!("../../queues.yaml");
const RUNBOOK: &str = include_str!("../../docs/guide/runbook.md");

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

/// The statements of the function's role, and what each allows.
const STATEMENTS: [(&str, &[&str]); 19] = [
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
    ("ReadOrders", &["s3:GetObject"]),
    ("KnowThatThereAreNoOrders", &["s3:ListBucket"]),
    ("WriteWaitingList", &["s3:PutObject"]),
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
const REPLAY_STATEMENTS: [(&str, &[&str]); 8] = [
    ("WriteLogs", &["logs:CreateLogStream", "logs:PutLogEvents"]),
    ("ListArchiveAndReplays", &["s3:ListBucket"]),
    ("ReadArchive", &["s3:GetObject"]),
    ("KeepReplays", &["s3:GetObject", "s3:PutObject"]),
    ("FillRequeue", &["sqs:SendMessage", "sqs:GetQueueAttributes", "sqs:ListQueueTags"]),
    ("CountWaitingLetters", &["sqs:GetQueueAttributes"]),
    ("AskHowLettersAreRedriven", &["lambda:GetFunctionConfiguration"]),
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

/// Returns the names and values of the function's environment variables in a template.
fn variables_of(template: &'static str) -> BTreeMap<&'static str, &'static str> {
    let (_, rest) =
        template.split_once("        Variables:\n").expect("the template sets environment variables");
    rest.lines()
        .map_while(|line| line.strip_prefix("          "))
        // A value may continue on the line below its name.
        .filter(|line| !line.starts_with(['#', ' ']))
        .map(|line| line.split_once(": ").expect("a name and a value"))
        .collect()
}

/// Returns those of the function's own template.
fn environment() -> BTreeMap<&'static str, &'static str> {
    variables_of(TEMPLATE)
}

/// Returns the default of a parameter of the template.
fn parameter_default(name: &str) -> &'static str {
    let (_, rest) = TEMPLATE.split_once(&format!("\n  {name}:\n")).expect("the template has the parameter");
    let mut lines = rest.lines().take_while(|line| line.starts_with("    "));
    let default = lines.find_map(|line| line.trim().strip_prefix("Default: "));
    default.expect("the parameter has a default").trim_matches('"')
}

#[test]
fn every_variable_of_the_template_is_a_setting() {
    for name in environment().keys().chain(variables_of(OPERATIONS).keys()) {
        assert!(VARIABLES.iter().any(|(known, _)| known == name), "{name} is no setting");
    }
}

/// A copy of a policy or a mode would be outdated when the first stack changes.
#[test]
fn the_replay_function_has_no_mode_and_no_policy_of_its_own() {
    let variables = variables_of(OPERATIONS);
    let function = variables["REDRIVE_FUNCTION"];
    assert_eq!(function, r#"!ImportValue { "Fn::Sub": "${Stack}-FunctionArn" }"#);
    assert!(TEMPLATE.contains(r#"Export: { Name: !Sub "${AWS::StackName}-FunctionArn" }"#));
    // The role may read this function only.
    let (_, granted) = OPERATIONS.split_once("Action: lambda:GetFunctionConfiguration\n").unwrap();
    assert_eq!(granted.lines().next().unwrap().trim(), format!("Resource: {function}"));
    for name in variables.keys() {
        assert!(!name.starts_with("REDRIVE_POLICY") && *name != "REDRIVE_MODE", "{name}");
    }
}

#[test]
fn the_template_sets_what_has_no_default_and_what_only_it_knows() {
    let environment = environment();
    let set = ["ARCHIVE", "MAX_CONCURRENCY", "REDRIVE_MODE", "REDRIVE_POLICY", "METRICS_NAMESPACE"];
    for name in set.into_iter().chain(["CONTROL", "HTTP_TARGETS", "NOTICE_TOPIC_ARN", "WAITING_LIST"]) {
        assert!(environment.contains_key(name), "the template does not set {name}");
    }
}

#[test]
fn defaults_of_the_template_are_those_of_the_code() {
    let default =
        |name: &str| VARIABLES.iter().find(|(known, _)| *known == name).and_then(|(_, default)| *default);
    for (variable, parameter) in [("REDRIVE_MODE", "RedriveMode"), ("METRICS_NAMESPACE", "MetricsNamespace")]
    {
        assert_eq!(environment()[variable], format!("!Ref {parameter}"));
        assert_eq!(Some(parameter_default(parameter)), default(variable), "{variable}");
    }
    assert_eq!(parameter_default("RedrivePolicy"), "", "no policy means the built-in one");
}

#[test]
fn a_function_with_the_variables_of_the_template_starts() {
    let value = |name: &str| match name {
        "ARCHIVE" => Some("s3://a-bucket/dead-letters".to_owned()),
        "MAX_CONCURRENCY" => Some(parameter_default("MaximumConcurrency").to_owned()),
        "REDRIVE_MODE" => Some(parameter_default("RedriveMode").to_owned()),
        "METRICS_NAMESPACE" => Some(parameter_default("MetricsNamespace").to_owned()),
        _ => None,
    };
    Settings::read(value).unwrap();
}

#[test]
fn the_reference_has_a_row_for_every_setting_with_its_default() {
    for (name, default) in VARIABLES {
        let row = REFERENCE.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("the reference has no row for {name}"));
        if let Some(default) = default {
            assert!(row.ends_with(&format!("| `{default}` |")), "{row}");
        }
    }
}

#[test]
fn the_reference_has_a_row_for_every_parameter_of_a_template() {
    let chapters = [
        (TEMPLATE, "\n## Parameters of template.yaml\n"),
        (QUEUES, "\n## Parameters of queues.yaml\n"),
        (OPERATIONS, "\n## Parameters of operations.yaml\n"),
    ];
    for (template, begins) in chapters {
        let chapter = REFERENCE.split_once(begins).expect(begins).1.split("\n## ").next().unwrap();
        let names = chapter.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
        let rows: BTreeSet<_> = names.flat_map(|names| names.split('`').skip(1).step_by(2)).collect();
        let parameters = template.split_once("\nParameters:\n").and_then(|(_, rest)| rest.split_once("\n\n"));
        let names =
            parameters.unwrap().0.lines().filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':'));
        let names: BTreeSet<_> = names.filter(|name| !name.starts_with(' ')).collect();
        assert!(names.len() > 5, "{names:?}");
        assert_eq!(names.difference(&rows).collect::<Vec<_>>(), Vec::<&&str>::new(), "no row in{begins}");
        assert_eq!(
            rows.difference(&names).collect::<Vec<_>>(),
            Vec::<&&str>::new(),
            "no parameter in{begins}"
        );
    }
}

/// Returns the folder of the source.
fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
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
    let (calls, sent) = calls(&source(), &[]);
    assert_eq!(calls.values().sum::<usize>(), sent, "a call that CALLS lacks, among {calls:?}");
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
    let (mut made, _) = calls(&source(), &["replay", "replay_function.rs", "bin"]);
    // Only the replay and the tool list archives.
    let (listed, _) = calls(&source().join("archive"), &[]);
    made.extend(listed);
    no_more_and_no_less(&made, &BY_SERVICES, role_policy());
}

#[test]
fn the_replay_function_may_do_what_its_code_does_and_nothing_else() {
    let (mut made, _) = calls(&source().join("replay"), &[]);
    // It reads the archive, and sends to the requeue with the code that delivers to queues.
    for (file, call) in [("archive/walk.rs", "get_object"), ("delivery/queue.rs", "send_message_batch")] {
        assert!(
            std::fs::read_to_string(source().join(file)).unwrap().contains(&format!(".{call}()")),
            "{file}"
        );
        made.insert(call, 1);
    }
    let by_services = ["logs:CreateLogStream", "logs:PutLogEvents", "kms:Decrypt", "kms:GenerateDataKey"];
    no_more_and_no_less(&made, &by_services, replay_policy());
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

#[test]
fn lambda_does_not_end_the_loop_that_the_function_counts() {
    let (_, function) = TEMPLATE.split_once("\n  RedriveFunction:\n").unwrap();
    let function = function.split("\n\n").next().unwrap();
    assert!(function.lines().any(|line| line == "      RecursiveLoop: Allow"), "{function}");
}

/// Returns the values that follow from the function's timeout in seconds: a visibility timeout in seconds,
/// and the end of deliveries in milliseconds.
fn of_timeout() -> BTreeMap<u64, (u64, u64)> {
    let (_, rest) = TEMPLATE.split_once("\n  OfTimeout:\n").unwrap();
    let number = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap();
    rest.lines()
        .take_while(|line| line.starts_with("    "))
        .map(|line| line.split_once(": {").unwrap())
        .map(|(timeout, times)| (timeout, times.split_once(',').unwrap()))
        .map(|(timeout, (visibility, deliveries))| {
            (number(timeout), (number(visibility), number(deliveries)))
        })
        .collect()
}

#[test]
fn times_that_follow_from_the_timeout_do() {
    let times = of_timeout();
    assert!(times.contains_key(&parameter_default("FunctionTimeout").parse().unwrap()));
    for (timeout, (visibility, deliveries)) in times {
        assert_eq!(visibility, 6 * timeout);
        // The function divides its time like this: it keeps a fifth, but 10 seconds at most.
        assert_eq!(deliveries, 1000 * (timeout - (timeout / 5).min(10)), "{timeout}");
    }
}

#[test]
fn mappings_take_partial_answers_and_filter_nothing() {
    let mappings = [TEMPLATE, QUEUES].map(|text| text.split("    Type: AWS::Lambda::EventSourceMapping\n"));
    let mappings: Vec<_> = mappings.into_iter().flat_map(|parts| parts.skip(1)).collect();
    assert_eq!(mappings.len(), 3);
    for mapping in mappings {
        let mapping = mapping.split("\n\n").next().unwrap();
        assert!(mapping.contains("FunctionResponseTypes: [ReportBatchItemFailures]"), "{mapping}");
        assert!(!mapping.contains("FilterCriteria"), "{mapping}");
    }
}

#[test]
fn the_runbook_has_a_section_for_every_alarm_and_for_no_other() {
    let lines: Vec<_> = TEMPLATE.lines().collect();
    let alarms: BTreeSet<_> = lines
        .windows(2)
        .filter(|pair| pair[1].contains("Type: AWS::CloudWatch::") && pair[1].ends_with("Alarm"))
        .map(|pair| pair[0].trim().trim_end_matches(':'))
        .collect();
    let sections = RUNBOOK.lines().filter_map(|line| line.strip_prefix("### "));
    let sections: BTreeSet<_> = sections.filter(|section| section.ends_with("Alarm")).collect();
    assert!(alarms.len() > 15, "{alarms:?}");
    assert_eq!(alarms, sections);
    for section in
        RUNBOOK.split("\n### ").filter(|section| sections.contains(section.lines().next().unwrap()))
    {
        // The pages of the console, or the entry that is meant as well.
        let says = ["*Now*", "*Groups*", "*Waiting*", "as for ["].iter().any(|page| section.contains(page));
        assert!(says, "nothing to click: {section}");
    }
    let of_replays = RUNBOOK.split("\n### ").filter(|section| section.contains("redrivectl replays "));
    for section in of_replays {
        assert!(section.contains("*Now*"), "nothing to click: {section}");
    }
}

/// Returns every text between `before` and `after`.
fn between<'a>(text: &'a str, before: &'a str, after: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(before).skip(1).filter_map(move |rest| Some(rest.split_once(after)?.0))
}

#[test]
fn alarms_and_dashboard_watch_metrics_that_the_function_writes() {
    let queue = "arn:aws:sqs:eu-central-1:123456789012:orders-dlq".parse().unwrap();
    let now = "2026-11-01T12:00:00Z".parse().unwrap();
    let run = Run {
        queue: &queue,
        function_name: None,
        in_flight: 0,
        orders_unread: false,
        list_failed: false,
        request_id: "id",
        began: now,
        now,
        notices_failed: Some(0),
    };
    let line = summarise(&[], run).to_line("SnsRedrive");
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    // It is written only if there are letters, so a batch without any has none.
    let mut written = BTreeSet::from(["SecondsToExpiry"]);
    let metrics = line["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().unwrap();
    written.extend(metrics.iter().map(|metric| metric["Name"].as_str().unwrap()));

    let alarms = between(TEMPLATE, "Namespace: !Ref MetricsNamespace\n", ", Value:");
    let alarms = alarms.map(|rest| rest.split_once("Dimensions: [{ Name: ").unwrap());
    let alarms: Vec<_> =
        alarms.map(|(name, dimension)| (name.trim().trim_start_matches("MetricName: "), dimension)).collect();
    let of_queue = alarms.iter().filter(|(_, dimension)| *dimension == "Queue").map(|(name, _)| *name);
    let searched = between(OPERATIONS, r#"{${MetricsNamespace},Queue} MetricName=\""#, r#"\""#);
    let watched: BTreeSet<_> = of_queue.chain(searched).collect();
    assert!(watched.len() > 20, "{watched:?}");
    assert_eq!(watched.difference(&written).collect::<Vec<_>>(), Vec::<&&str>::new());

    // Each metric by function has one alarm.
    let source = include_str!("../../src/telemetry/metrics.rs");
    let (source, _) = source.split_once("impl Metric {").unwrap();
    let metrics = source.split("Metric::count(\"").skip(1);
    let watched = metrics.filter(|metric| metric.contains(".watched()"));
    let mut written: BTreeSet<_> = watched.map(|metric| metric.split('"').next().unwrap()).collect();
    written.extend(between(source, "Some(\"", "\""));
    // It is the one that is watched whenever it is there.
    written.insert("SecondsToExpiry");
    let of_function: Vec<_> =
        alarms.iter().filter(|(_, dimension)| *dimension == "FunctionName").map(|(name, _)| *name).collect();
    assert_eq!(of_function.len(), written.len());
    assert_eq!(of_function.into_iter().collect::<BTreeSet<_>>(), written);
}

#[test]
fn queries_name_fields_that_the_function_logs() {
    let source = include_str!("../../src/telemetry/letter.rs");
    let (_, resources) = OPERATIONS.split_once("  OneLetterQuery:\n").unwrap();
    let fields: BTreeSet<_> = resources.split('`').skip(1).step_by(2).collect();
    assert!(fields.len() > 5, "{fields:?}");
    for field in fields {
        assert!(source.contains(&format!("                {field} = ")), "{field} is not logged");
    }
}

#[test]
fn the_published_version_is_the_crates() {
    assert!(TEMPLATE.contains(&format!("\n    SemanticVersion: {}\n", env!("CARGO_PKG_VERSION"))));
}
