//! Templates, docs and code agree: settings and their defaults, parameters, times, versions.

mod alarms;
mod roles;

use std::collections::{BTreeMap, BTreeSet};

use redrive_aws::settings::{Settings, VARIABLES};

const TEMPLATE: &str = include_str!("../../../template.yaml");
const REFERENCE: &str = include_str!("../../../docs/reference/settings.md");
const OPERATIONS: &str = include_str!("../../../operations.yaml");
const QUEUES: &str = include_str!("../../../queues.yaml");

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
    for (variable, parameter) in [
        ("REDRIVE_MODE", "RedriveMode"),
        ("METRICS_NAMESPACE", "MetricsNamespace"),
        ("QUEUE_METRICS", "QueueMetrics"),
    ] {
        assert_eq!(environment()[variable], format!("!Ref {parameter}"));
        assert_eq!(Some(parameter_default(parameter)), default(variable), "{variable}");
    }
    assert_eq!(Some(parameter_default("InFlightLimit")), default("IN_FLIGHT_LIMIT"));
    assert_eq!(parameter_default("RedrivePolicy"), "", "no policy means the built-in one");
}

#[test]
fn a_function_with_the_variables_of_the_template_starts() {
    let value = |name: &str| match name {
        "ARCHIVE" => Some("s3://a-bucket/dead-letters".to_owned()),
        "MAX_CONCURRENCY" => Some(parameter_default("MaximumConcurrency").to_owned()),
        "REDRIVE_MODE" => Some(parameter_default("RedriveMode").to_owned()),
        "METRICS_NAMESPACE" => Some(parameter_default("MetricsNamespace").to_owned()),
        "QUEUE_METRICS" => Some(parameter_default("QueueMetrics").to_owned()),
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

#[test]
fn lambda_does_not_end_the_loop_that_the_function_counts() {
    let (_, function) = TEMPLATE.split_once("\n  RedriveFunction:\n").unwrap();
    let function = function.split("\n\n").next().unwrap();
    let line = "      RecursiveLoop: !If [KnowsRecursiveLoop, Allow, !Ref AWS::NoValue]";
    assert!(function.lines().any(|it| it == line), "{function}");
    assert_eq!(parameter_default("RecursiveLoop"), "allow");
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
fn the_published_version_is_the_crates() {
    assert!(TEMPLATE.contains(&format!("\n    SemanticVersion: {}\n", env!("CARGO_PKG_VERSION"))));
}
