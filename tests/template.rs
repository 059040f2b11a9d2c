//! Template, README and code name the same settings with the same defaults.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::collections::BTreeMap;

use sns_redrive::settings::{Settings, VARIABLES};

const TEMPLATE: &str = include_str!("../template.yaml");
const README: &str = include_str!("../README.md");

/// Names and values of the function's environment variables in the template.
fn environment() -> BTreeMap<&'static str, &'static str> {
    let (_, rest) =
        TEMPLATE.split_once("        Variables:\n").expect("the template sets environment variables");
    rest.lines()
        .take_while(|line| line.starts_with("          "))
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(": ").expect("a name and a value"))
        .collect()
}

/// The default of a parameter of the template.
fn parameter_default(name: &str) -> &'static str {
    let (_, rest) = TEMPLATE.split_once(&format!("\n  {name}:\n")).expect("the template has the parameter");
    let mut lines = rest.lines().take_while(|line| line.starts_with("    "));
    let default = lines.find_map(|line| line.trim().strip_prefix("Default: "));
    default.expect("the parameter has a default").trim_matches('"')
}

#[test]
fn every_variable_of_the_template_is_a_setting() {
    for name in environment().keys() {
        assert!(VARIABLES.iter().any(|(known, _)| known == name), "{name} is no setting");
    }
}

#[test]
fn the_template_sets_what_has_no_default_and_what_only_it_knows() {
    let environment = environment();
    for name in ["ARCHIVE", "MAX_CONCURRENCY", "REDRIVE_MODE", "REDRIVE_POLICY", "METRICS_NAMESPACE"] {
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
fn the_readme_has_a_row_for_every_setting_with_its_default() {
    for (name, default) in VARIABLES {
        let row = README.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("README has no row for {name}"));
        if let Some(default) = default {
            assert!(row.ends_with(&format!("| `{default}` |")), "{row}");
        }
    }
}
