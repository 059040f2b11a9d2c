//! The function's [`Settings`], read from environment variables once, at cold start.
//!
//! All faults are reported together, each with its variable, and the function refuses to start. So an
//! operator fixes a deployment once, and no letter is handled with half a configuration.

use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;

use jiff::Timestamp;
use redrive_core::arn::{Arn, ArnKind};
pub use redrive_core::batch::OperatingMode;
use redrive_core::endpoint::without_urls;
use redrive_core::policy::{FifoHandling, Policy, Rule, TargetSpec, VISIBILITY_CEILING};

/// The function's settings. `template.yaml` and `docs/reference/settings.md` name the same variables.
#[derive(Debug)]
pub struct Settings {
    /// The policy, from `REDRIVE_POLICY` or `REDRIVE_POLICY_FILE`. The built-in one until that of `policy_at` is read.
    pub policy: Policy,
    /// `REDRIVE_POLICY_URI`.
    pub policy_at: Option<PolicyAt>,
    /// `ARCHIVE`.
    pub archive: ArchiveAt,
    /// `CONTROL`.
    pub control: Option<ControlAt>,
    /// `WAITING_LIST`.
    pub waiting_list: bool,
    /// `REQUEUE_ARN`.
    pub requeue: Option<Arn>,
    /// `REDRIVE_MODE`.
    pub mode: OperatingMode,
    /// `SCHEDULE_FROM`.
    pub schedule_from: Option<Timestamp>,
    /// `REDRIVE_FUNCTION`.
    pub redrive_function: Option<String>,
    /// `METRICS_NAMESPACE`.
    pub metrics_namespace: String,
    /// `QUEUE_METRICS`.
    pub queue_metrics: QueueMetrics,
    /// `AWS_LAMBDA_FUNCTION_NAME`, which Lambda sets. `None` outside Lambda.
    pub function_name: Option<String>,
    /// `AWS_LAMBDA_LOG_LEVEL`, which Lambda sets. Lambda drops log lines below it.
    pub log_level: Option<String>,
    /// `NOTICE_TOPIC_ARN`.
    pub notice_topic: Option<Arn>,
    /// `MAX_CONCURRENCY`.
    pub max_concurrency: u32,
    /// `HTTP_TARGETS`.
    pub http_targets: HttpTargets,
    /// `ALLOW_LOOPBACK_HTTP`.
    pub allow_loopback_http: bool,
    /// `IN_FLIGHT_LIMIT`.
    pub in_flight_limit: u64,
    /// `MAX_HIDE_SECONDS`.
    pub max_hide_seconds: u64,
}

/// The metrics that are written for each queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueMetrics {
    /// The ten that dashboard and console show.
    Essential,
    /// All.
    All,
}

/// The web servers that letters may go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpTargets {
    /// None.
    Off,
    /// Those with public addresses.
    On,
    /// Those with private addresses too, as behind endpoints of a VPC.
    Private,
}

/// The location of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveAt {
    /// `s3://bucket/prefix`.
    S3 {
        /// The bucket.
        bucket: String,
        /// The prefix of every key, which may be empty.
        prefix: String,
    },
    /// The ARN of a queue.
    Queue(Arn),
}

impl Display for ArchiveAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
            Self::Queue(arn) => write!(f, "{arn}"),
        }
    }
}

/// The location of the overrides, the list of waiting letters and the objects of replays: a bucket and the
/// prefix of every key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlAt {
    /// The bucket.
    pub bucket: String,
    /// The prefix, without slashes at its ends.
    pub prefix: String,
}

impl Display for ControlAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

/// The location of a policy in S3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyAt {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
}

impl PolicyAt {
    /// Reads `s3://bucket/key`.
    ///
    /// # Errors
    ///
    /// What is wrong with the text, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = text.strip_prefix("s3://").and_then(|place| place.split_once('/'));
        let is_named = |(bucket, key): &(&str, &str)| is_bucket(bucket) && !key.is_empty();
        let (bucket, key) =
            parts.filter(is_named).ok_or_else(|| format!("must be s3://bucket/key, not {text:?}"))?;
        Ok(Self { bucket: bucket.to_owned(), key: key.to_owned() })
    }
}

impl Display for PolicyAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.key)
    }
}

/// A setting that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {problem}")]
pub struct SettingFault {
    /// The environment variable.
    pub variable: &'static str,
    /// The fault of its value, with the path into it and the limit, if there are any.
    pub problem: String,
}

/// The faults of all settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad settings: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct BadSettings(pub Vec<SettingFault>);

impl BadSettings {
    /// Returns both values, or the faults of both.
    ///
    /// # Errors
    ///
    /// [`BadSettings`] with every fault of either.
    pub fn join<A, B>(one: Result<A, Self>, other: Result<B, Self>) -> Result<(A, B), Self> {
        match (one, other) {
            (Ok(one), Ok(other)) => Ok((one, other)),
            (one, other) => {
                Err(Self(one.err().into_iter().chain(other.err()).flat_map(|bad| bad.0).collect()))
            }
        }
    }
}

/// The variable that names a policy in S3.
pub const POLICY_URI: &str = "REDRIVE_POLICY_URI";

/// The variables with their defaults, as the docs and the template give them. `None` if there is no default.
pub const VARIABLES: [(&str, Option<&str>); 18] = [
    ("REDRIVE_POLICY", None),
    ("REDRIVE_POLICY_FILE", None),
    (POLICY_URI, None),
    ("ARCHIVE", None),
    ("CONTROL", None),
    ("WAITING_LIST", Some("on")),
    ("REQUEUE_ARN", None),
    ("REDRIVE_MODE", Some("active")),
    ("SCHEDULE_FROM", None),
    ("REDRIVE_FUNCTION", None),
    ("METRICS_NAMESPACE", Some("SnsRedrive")),
    ("QUEUE_METRICS", Some("essential")),
    ("NOTICE_TOPIC_ARN", None),
    ("MAX_CONCURRENCY", Some("1")),
    ("HTTP_TARGETS", Some("on")),
    ("ALLOW_LOOPBACK_HTTP", Some("false")),
    ("IN_FLIGHT_LIMIT", Some("120000")),
    ("MAX_HIDE_SECONDS", Some("41400")),
];

impl Settings {
    /// Reads the settings. `variable` returns the value of an environment variable. An empty value counts as
    /// missing, because templates cannot leave a variable out easily.
    ///
    /// # Errors
    ///
    /// [`BadSettings`] with every fault.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, BadSettings> {
        let default = |name: &str| {
            let known = VARIABLES.iter().find(|(known, _)| *known == name);
            known.and_then(|(_, default)| *default).map(str::to_owned)
        };
        let given = |name: &str| variable(name).filter(|value| !value.is_empty()).or_else(|| default(name));
        let mut faults = Vec::new();
        let archive = archive(&given);
        let control = control(&given, archive.as_ref().ok());
        let settings = Self {
            policy: note(&mut faults, policy(&given), Policy::built_in()),
            policy_at: note(&mut faults, policy_at(&given), None),
            archive: note(
                &mut faults,
                archive,
                ArchiveAt::S3 { bucket: String::new(), prefix: String::new() },
            ),
            control: note(&mut faults, control, None),
            waiting_list: note(&mut faults, switch(&given, "WAITING_LIST"), true),
            requeue: note(&mut faults, requeue(&given), None),
            mode: note(&mut faults, mode(&given), OperatingMode::Observe),
            schedule_from: note(&mut faults, schedule_from(&given), None),
            redrive_function: note(&mut faults, redrive_function(&given), None),
            metrics_namespace: note(&mut faults, metrics_namespace(&given), String::new()),
            queue_metrics: note(&mut faults, queue_metrics(&given), QueueMetrics::Essential),
            function_name: given("AWS_LAMBDA_FUNCTION_NAME"),
            log_level: given("AWS_LAMBDA_LOG_LEVEL"),
            notice_topic: note(&mut faults, notice_topic(&given), None),
            max_concurrency: note(&mut faults, number(&given, "MAX_CONCURRENCY", 1, 1000), 1),
            http_targets: note(&mut faults, http_targets(&given), HttpTargets::Off),
            allow_loopback_http: note(&mut faults, allow_loopback_http(&given), false),
            in_flight_limit: note(&mut faults, number(&given, "IN_FLIGHT_LIMIT", 10, 10_000_000), 10),
            max_hide_seconds: note(&mut faults, number(&given, "MAX_HIDE_SECONDS", 1, VISIBILITY_CEILING), 1),
        };
        faults.extend(settings.contradictions(&settings.policy));
        if faults.is_empty() { Ok(settings) } else { Err(BadSettings(faults)) }
    }

    /// Takes the policy that was read from `policy_at`.
    ///
    /// # Errors
    ///
    /// [`BadSettings`] if another setting contradicts it. Then nothing changes.
    pub fn take_policy(&mut self, policy: Policy) -> Result<(), BadSettings> {
        let faults = self.contradictions(&policy);
        if !faults.is_empty() {
            return Err(BadSettings(faults));
        }
        (self.policy, self.policy_at) = (policy, None);
        Ok(())
    }

    /// Finds settings that contradict each other, or this policy.
    fn contradictions(&self, policy: &Policy) -> SettingFaults {
        let mut faults = Vec::new();
        let requeue = self.requeue.as_ref();
        if requeue.is_some_and(|requeue| self.archive == ArchiveAt::Queue(requeue.clone())) {
            faults.extend(fault(
                "ARCHIVE",
                "must not be the queue of REQUEUE_ARN, from which the function takes all letters",
            ));
        }
        for rule in policy.all_rules() {
            let Rule { name, .. } = rule;
            if matches!(&rule.target, TargetSpec::Arn(arn) if Some(arn) == requeue) {
                let problem = format!(
                    "must not be the target of rule {name:?}, because the function takes all letters from it"
                );
                faults.extend(fault("REQUEUE_ARN", problem));
            }
            if rule.fifo == FifoHandling::StepAside && !requeue.is_some_and(Arn::is_fifo) {
                let problem =
                    format!("must be a FIFO queue, since rule {name:?} has \"fifo\": \"step-aside\"");
                faults.extend(fault("REQUEUE_ARN", problem));
            }
        }
        faults
    }
}

pub(crate) type SettingFaults = Vec<SettingFault>;

/// Collects faults and continues with a substitute value, so that all faults are found.
pub(crate) fn note<T>(faults: &mut SettingFaults, read: Result<T, SettingFaults>, stand_in: T) -> T {
    read.unwrap_or_else(|found| {
        faults.extend(found);
        stand_in
    })
}

/// Creates a fault. Of a URL in it only its name is left: it may hold a secret, and faults are logged.
pub(crate) fn fault(variable: &'static str, problem: impl Into<String>) -> SettingFaults {
    vec![SettingFault { variable, problem: without_urls(&problem.into()) }]
}

/// The variables that give a policy. Only one of them may be set.
const POLICIES: [&str; 3] = ["REDRIVE_POLICY", "REDRIVE_POLICY_FILE", POLICY_URI];

fn policy(given: &impl Fn(&str) -> Option<String>) -> Result<Policy, SettingFaults> {
    let mut set = POLICIES.into_iter().filter(|name| given(name).is_some());
    if let (Some(first), Some(second)) = (set.next(), set.next()) {
        return Err(fault(second, format!("must not be set together with {first}")));
    }
    let (name, json) = match (given("REDRIVE_POLICY"), given("REDRIVE_POLICY_FILE")) {
        (Some(json), _) => ("REDRIVE_POLICY", json),
        (None, Some(path)) => {
            let name = "REDRIVE_POLICY_FILE";
            let json = std::fs::read_to_string(Path::new(&path))
                .map_err(|error| fault(name, format!("cannot read {path:?}: {error}")))?;
            (name, json)
        }
        (None, None) => return Ok(Policy::built_in()),
    };
    Policy::parse(&json)
        // Its faults name URLs already: a name that is named again is another one.
        .map_err(|bad| {
            bad.0.iter().map(|it| SettingFault { variable: name, problem: it.to_string() }).collect()
        })
}

/// Reads the location of a policy in S3.
fn policy_at(given: &impl Fn(&str) -> Option<String>) -> Result<Option<PolicyAt>, SettingFaults> {
    given(POLICY_URI)
        .map(|text| PolicyAt::parse(&text).map_err(|problem| fault(POLICY_URI, problem)))
        .transpose()
}

fn archive(given: &impl Fn(&str) -> Option<String>) -> Result<ArchiveAt, SettingFaults> {
    const NAME: &str = "ARCHIVE";
    let Some(text) = given(NAME) else {
        return Err(fault(NAME, "is missing: set it to s3://bucket/prefix or the ARN of a queue"));
    };
    if let Some(place) = text.strip_prefix("s3://") {
        return in_bucket(NAME, place).map(|(bucket, prefix)| ArchiveAt::S3 { bucket, prefix });
    }
    queue(&text)
        .map(ArchiveAt::Queue)
        .ok_or_else(|| fault(NAME, format!("must be s3://bucket/prefix or the ARN of a queue, not {text:?}")))
}

/// Splits a location into a bucket and a prefix without slashes at its ends.
fn in_bucket(name: &'static str, place: &str) -> Result<(String, String), SettingFaults> {
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    if is_bucket(bucket) {
        return Ok((bucket.to_owned(), prefix.trim_matches('/').to_owned()));
    }
    Err(fault(name, format!("{bucket:?} is not a bucket name, which is 3 to 63 of a-z, 0-9, dot and hyphen")))
}

/// Reports whether a bucket may have this name.
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html>
fn is_bucket(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
    (3..=63).contains(&name.len()) && name.chars().all(allowed)
}

/// Reads the location for overrides. It is beside the archive, so that permission to write one does not include
/// the other.
fn control(
    given: &impl Fn(&str) -> Option<String>,
    archive: Option<&ArchiveAt>,
) -> Result<Option<ControlAt>, SettingFaults> {
    const NAME: &str = "CONTROL";
    let archive = match archive {
        Some(ArchiveAt::S3 { bucket, prefix }) => Some((bucket, prefix)),
        Some(ArchiveAt::Queue(_)) | None => None,
    };
    let Some(text) = given(NAME) else {
        let beside = |(bucket, prefix): (&String, &String)| {
            // An archive that fills its whole bucket leaves no room beside it.
            (!prefix.is_empty())
                .then(|| ControlAt { bucket: bucket.clone(), prefix: format!("{prefix}-control") })
        };
        return Ok(archive.and_then(beside));
    };
    if text == "off" {
        return Ok(None);
    }
    let Some(place) = text.strip_prefix("s3://") else {
        return Err(fault(NAME, format!("must be s3://bucket/prefix or off, not {text:?}")));
    };
    let (bucket, prefix) = in_bucket(NAME, place)?;
    let within = |one: &str, other: &str| {
        other.is_empty()
            || one.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if archive.is_some_and(|(in_bucket, beside)| {
        *in_bucket == bucket && (within(&prefix, beside) || within(beside, &prefix))
    }) {
        let problem = format!(
            "must be neither inside ARCHIVE nor around it, to keep their permissions apart; it is {text:?}"
        );
        return Err(fault(NAME, problem));
    }
    Ok(Some(ControlAt { bucket, prefix }))
}

fn switch(given: &impl Fn(&str) -> Option<String>, name: &'static str) -> Result<bool, SettingFaults> {
    match given(name).as_deref() {
        Some("on") => Ok(true),
        Some("off") => Ok(false),
        other => Err(fault(name, format!("must be on or off, not {:?}", other.unwrap_or_default()))),
    }
}

fn http_targets(given: &impl Fn(&str) -> Option<String>) -> Result<HttpTargets, SettingFaults> {
    const NAME: &str = "HTTP_TARGETS";
    match given(NAME).as_deref() {
        Some("on") => Ok(HttpTargets::On),
        Some("off") => Ok(HttpTargets::Off),
        Some("private") => Ok(HttpTargets::Private),
        other => Err(fault(NAME, format!("must be on, off or private, not {:?}", other.unwrap_or_default()))),
    }
}

fn requeue(given: &impl Fn(&str) -> Option<String>) -> Result<Option<Arn>, SettingFaults> {
    const NAME: &str = "REQUEUE_ARN";
    let Some(text) = given(NAME) else { return Ok(None) };
    let requeue =
        queue(&text).ok_or_else(|| fault(NAME, format!("must be the ARN of a queue, not {text:?}")))?;
    Ok(Some(requeue))
}

fn queue(text: &str) -> Option<Arn> {
    text.parse::<Arn>().ok().filter(|arn| arn.kind() == ArnKind::Queue)
}

fn mode(given: &impl Fn(&str) -> Option<String>) -> Result<OperatingMode, SettingFaults> {
    match given("REDRIVE_MODE").as_deref() {
        Some("active") => Ok(OperatingMode::Active),
        Some("observe") => Ok(OperatingMode::Observe),
        other => Err(fault(
            "REDRIVE_MODE",
            format!("must be active or observe, not {:?}", other.unwrap_or_default()),
        )),
    }
}

/// Reads the time from which schedules count.
fn schedule_from(given: &impl Fn(&str) -> Option<String>) -> Result<Option<Timestamp>, SettingFaults> {
    const NAME: &str = "SCHEDULE_FROM";
    let Some(text) = given(NAME) else { return Ok(None) };
    let problem =
        || format!("must be a time of RFC 3339 with its offset, such as 2026-11-01T12:00:00Z, not {text:?}");
    // The parser takes a zone in brackets too, which RFC 3339 does not have.
    let time = text.parse().ok().filter(|_| !text.contains('['));
    time.map(Some).ok_or_else(|| fault(NAME, problem()))
}

/// Reads the function whose mode and policy count for replays. No policy may be given as well.
fn redrive_function(given: &impl Fn(&str) -> Option<String>) -> Result<Option<String>, SettingFaults> {
    const NAME: &str = "REDRIVE_FUNCTION";
    let Some(text) = given(NAME) else { return Ok(None) };
    for policy in POLICIES {
        if given(policy).is_some() {
            return Err(fault(
                NAME,
                format!(
                    "must not be set together with {policy}: the replay uses the policy of that function"
                ),
            ));
        }
    }
    let is_arn = text.parse::<Arn>().is_ok_and(|arn| arn.kind() == ArnKind::Function);
    // <https://docs.aws.amazon.com/lambda/latest/api/API_GetFunctionConfiguration.html>
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if is_arn || (text.len() <= 64 && text.chars().all(allowed)) {
        return Ok(Some(text));
    }
    Err(fault(NAME, format!("must be the name or the ARN of a function, not {text:?}")))
}

fn metrics_namespace(given: &impl Fn(&str) -> Option<String>) -> Result<String, SettingFaults> {
    const NAME: &str = "METRICS_NAMESPACE";
    let namespace = given(NAME).unwrap_or_default();
    // <https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricData.html>,
    // <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_concepts.html#Namespace>
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-/#: ".contains(c);
    let begins_well = !namespace.starts_with("AWS/") && !namespace.starts_with(':');
    if namespace.len() > 255
        || !namespace.chars().all(allowed)
        || !begins_well
        || namespace.trim_matches(' ').is_empty()
    {
        let limit = "must be at most 255 letters, digits, spaces and . _ - / # : with something else than \
                     spaces, and without AWS/ or : at the beginning";
        return Err(fault(NAME, format!("{limit}, not {namespace:?}")));
    }
    Ok(namespace)
}

fn queue_metrics(given: &impl Fn(&str) -> Option<String>) -> Result<QueueMetrics, SettingFaults> {
    const NAME: &str = "QUEUE_METRICS";
    match given(NAME).as_deref() {
        Some("essential") => Ok(QueueMetrics::Essential),
        Some("all") => Ok(QueueMetrics::All),
        other => Err(fault(NAME, format!("must be essential or all, not {:?}", other.unwrap_or_default()))),
    }
}

/// Reads the topic for notices. A FIFO topic cannot have people as subscribers, and would need a group and an
/// id for each notice.
fn notice_topic(given: &impl Fn(&str) -> Option<String>) -> Result<Option<Arn>, SettingFaults> {
    const NAME: &str = "NOTICE_TOPIC_ARN";
    let Some(text) = given(NAME) else { return Ok(None) };
    let topic = text.parse::<Arn>().ok().filter(|arn| arn.kind() == ArnKind::Topic && !arn.is_fifo());
    let problem = || fault(NAME, format!("must be the ARN of a standard topic, not {text:?}"));
    topic.ok_or_else(problem).map(Some)
}

/// Reads a whole number within limits.
/// <https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html#events-sqs-max-concurrency>
fn number<N>(
    given: &impl Fn(&str) -> Option<String>,
    name: &'static str,
    least: N,
    most: N,
) -> Result<N, SettingFaults>
where
    N: FromStr + PartialOrd + Display + Copy,
{
    let text = given(name).unwrap_or_default();
    let number = text.parse().ok().filter(|number| *number >= least && *number <= most);
    number.ok_or_else(|| fault(name, format!("must be a whole number from {least} to {most}, not {text:?}")))
}

fn allow_loopback_http(given: &impl Fn(&str) -> Option<String>) -> Result<bool, SettingFaults> {
    match given("ALLOW_LOOPBACK_HTTP").as_deref() {
        Some("false") => Ok(false),
        Some("true") => Ok(true),
        other => {
            let other = other.unwrap_or_default();
            Err(fault("ALLOW_LOOPBACK_HTTP", format!("must be true or false, not {other:?}")))
        }
    }
}

#[cfg(test)]
mod tests;
