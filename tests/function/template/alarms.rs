//! Alarms, dashboard and queries name what the function writes, and the runbook has an entry for each alarm.

use std::collections::BTreeSet;

use sns_redrive::telemetry::ESSENTIAL_METRICS;

use super::{OPERATIONS, TEMPLATE};

const RUNBOOK: &str = include_str!("../../../docs/guide/runbook.md");

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
        let says = ["*Now*", "*Letters*", "*Waiting*", "as for ["].iter().any(|page| section.contains(page));
        assert!(says, "nothing to click: {section}");
    }
    let verbs = ["list", "show", "stop", "free"].map(|verb| format!("redrivectl replay {verb}"));
    let of_replays = RUNBOOK.split("\n### ").filter(|section| verbs.iter().any(|it| section.contains(it)));
    for section in of_replays {
        assert!(section.contains("*Now*"), "nothing to click: {section}");
    }
}

/// Letters in the requeue hear of an override when their delay ends, which must be while the override is in force, and before
/// the rest is archived.
#[test]
fn the_runbook_waits_for_delayed_letters_before_it_archives_the_rest() {
    let section = RUNBOOK.split("\n### ").find(|section| section.starts_with("Empty the queues\n")).unwrap();
    let minutes = |before: &str| section.split_once(before)?.1.split(['m', ' ']).next()?.parse::<u64>().ok();
    let (in_force, wait) = (minutes("redrivectl retry --all --for "), minutes("Go on "));
    let delay = redrive_core::batch::MAX_DELAY / 60;
    assert!(
        wait > Some(delay) && in_force > wait,
        "{in_force:?}, {wait:?}: letters show after {delay} minutes"
    );
}

/// Returns every text between `before` and `after`.
fn between<'a>(text: &'a str, before: &'a str, after: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(before).skip(1).filter_map(move |rest| Some(rest.split_once(after)?.0))
}

#[test]
fn alarms_and_dashboard_watch_metrics_that_the_function_writes() {
    let alarms = between(TEMPLATE, "Namespace: !Ref MetricsNamespace\n", ", Value:");
    let alarms = alarms.map(|rest| rest.split_once("Dimensions: [{ Name: ").unwrap());
    let alarms: Vec<_> =
        alarms.map(|(name, dimension)| (name.trim().trim_start_matches("MetricName: "), dimension)).collect();
    // The other metrics of a queue are there only with QUEUE_METRICS=all.
    let searched = between(OPERATIONS, r#"{\"${MetricsNamespace}\",Queue} MetricName=\""#, r#"\""#);
    assert_eq!(searched.collect::<BTreeSet<_>>(), ESSENTIAL_METRICS.into());

    // Each metric by function has one alarm.
    let source = include_str!("../../../src/telemetry/metrics.rs");
    let (source, _) = source.split_once("impl Metric {").unwrap();
    let metrics = source.split("Metric::count(\"").skip(1);
    let watched = metrics.filter(|metric| metric.contains(".watched()"));
    let mut written: BTreeSet<_> = watched.map(|metric| metric.split('"').next().unwrap()).collect();
    written.extend(between(source, "Some(\"", "\""));
    // It is the one that is watched whenever it is there.
    written.insert("SecondsToExpiry");
    assert!(alarms.iter().all(|(_, dimension)| *dimension == "FunctionName"), "{alarms:?}");
    let of_function: Vec<_> = alarms.into_iter().map(|(name, _)| name).collect();
    let shown = between(OPERATIONS, r#"["${MetricsNamespace}", ""#, r#"", "FunctionName", "${Function}""#);
    assert!(shown.collect::<BTreeSet<_>>().is_subset(&written));
    assert_eq!(of_function.len(), written.len());
    assert_eq!(of_function.into_iter().collect::<BTreeSet<_>>(), written);
}

/// <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/search-expression-syntax.html>
#[test]
fn no_search_of_the_dashboard_is_too_long_for_cloudwatch() {
    let value = |parameter: &str, name: &str| -> usize {
        let (_, parameter) = OPERATIONS.split_once(&format!("\n  {parameter}:\n")).unwrap();
        let found = parameter.split_once(&format!("    {name}: ")).unwrap().1;
        found.lines().next().unwrap().parse().unwrap()
    };
    // As many queues as the pattern takes, with names as long as fit.
    let (_, rest) = OPERATIONS.split_once("(\\.fifo)?){0,").unwrap();
    let further: usize = rest.split_once('}').unwrap().0.parse().unwrap();
    let length = value("DashboardQueues", "MaxLength");
    let mut queues = vec!["short".to_owned(); further];
    queues.push("l".repeat(length - further * "short,".len()));
    let namespace = "N".repeat(255);
    let searches = between(OPERATIONS, "SEARCH('", "', '");
    let searches = searches.map(|search| {
        let search =
            search.replace("${MetricsNamespace}", &namespace).replace("${Queues}", &queues.join("\" OR \""));
        search.replace('\\', "").chars().count()
    });
    let lengths: Vec<_> = searches.collect();
    assert!(lengths.len() > 10 && queues.len() > 30, "{} {}", lengths.len(), queues.len());
    assert!(lengths.iter().all(|length| (500..=1024).contains(length)), "{lengths:?}");
    // A name with a dot or a hyphen must be in quotes.
    assert!(!OPERATIONS.contains("'{${MetricsNamespace}"), "the namespace is not in quotes");
}

#[test]
fn queries_name_fields_that_the_function_logs() {
    let source = include_str!("../../../src/telemetry/letter.rs");
    let (_, resources) = OPERATIONS.split_once("  OneLetterQuery:\n").unwrap();
    let fields: BTreeSet<_> = resources.split('`').skip(1).step_by(2).collect();
    assert!(fields.len() > 5, "{fields:?}");
    for field in fields {
        assert!(source.contains(&format!("                {field} = ")), "{field} is not logged");
    }
}
