//! The redrive policy document: a default, and rules that differ from it.

use serde_json::Value;
use url::Url;

use super::delivery::{DeliveryPolicy, DeliverySpec};
use super::fields::{DocumentFault, DocumentFields, FaultCollector};
use super::json::{after_mark, read_json};
use super::matcher::{MatchValue, Matcher};
use super::rule::{FifoHandling, RecordDelimiter, Rule, RuleAction, SubscriptionSpec, TargetSpec};
use super::rules::Policy;
use super::schedule::Schedule;
use crate::arn::{Arn, ArnKind};
use crate::letter::{OriginClaim, TrustedOrigins};

/// The name of the default in logs and archived records.
pub const DEFAULT_RULE: &str = "default";

/// Everything that is wrong with a policy document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct BadPolicy(pub Vec<DocumentFault>);

impl Policy {
    /// Reads a policy document.
    ///
    /// # Errors
    ///
    /// [`BadPolicy`] with every fault and the path to it.
    pub fn parse(json: &str) -> Result<Self, BadPolicy> {
        let json = after_mark(json);
        let document = read_json(json).map_err(BadPolicy)?;
        let faults = FaultCollector::default();
        let policy = read(&document, MatchValue::read(json).as_ref(), &faults);
        let faults = faults.into_inner();
        if faults.is_empty() { Ok(policy) } else { Err(BadPolicy(faults)) }
    }
}

/// Reads a document. Patterns are read from its text, in which no number is rounded.
fn read(document: &Value, text: Option<&MatchValue<'_>>, faults: &FaultCollector) -> Policy {
    let fields = DocumentFields::new(faults, "", document);
    let mut default = Rule::built_in();
    if let Some(given) = fields.object("default") {
        default = read_rule(&given, &default);
        given.finish();
    }
    let mut rules: Vec<Rule> = Vec::new();
    let mut matcher = Matcher::default();
    for (index, value) in fields.list("rules").unwrap_or_default().iter().enumerate() {
        let given = DocumentFields::new(faults, format!("rules[{index}]"), value);
        let mut rule = read_rule(&given, &default);
        rule.name = read_name(&given, &rules);
        match given.value("match") {
            None => given.note("match", "is missing: a rule without a pattern would never apply"),
            Some(pattern) => {
                let exact = text.and_then(|text| text.at(&["rules", &index.to_string(), "match"]));
                let rounded = exact.is_none().then(|| MatchValue::from(pattern));
                if let Some(pattern) = exact.or(rounded.as_ref()) {
                    matcher.add(index, pattern, faults, &given.path("match"));
                }
            }
        }
        given.finish();
        rules.push(rule);
    }
    let origins = read_origins(&fields, faults);
    fields.finish();
    Policy { default, rules, matcher, origins }
}

/// Reads `{"<ARN of a queue, or *>": ["lambda-async", ...]}`.
fn read_origins(fields: &DocumentFields<'_>, faults: &FaultCollector) -> TrustedOrigins {
    let mut origins = TrustedOrigins::default();
    let Some(value) = fields.value("origins") else { return origins };
    let Some(map) = value.as_object() else {
        fields.note("origins", "must be an object that maps queue ARNs, or *, to lists of origins");
        return origins;
    };
    for (key, list) in map {
        let path = format!("{}.{key}", fields.path("origins"));
        let queue = key.parse::<Arn>().ok().filter(|arn| arn.kind() == ArnKind::Queue);
        if queue.is_none() && key != "*" {
            faults.note(&path, "must be the ARN of a dead-letter queue, or * for every queue");
        }
        let claim =
            |name: &Value| OriginClaim::ALL.into_iter().find(|claim| Some(claim.name()) == name.as_str());
        let claims = list.as_array().and_then(|names| names.iter().map(claim).collect::<Option<Vec<_>>>());
        if let Some(claims) = claims.filter(|claims| !claims.is_empty()) {
            origins.add(queue, claims);
        } else {
            let names = OriginClaim::ALL.map(OriginClaim::name).join(", ");
            faults.note(&path, format!("must be a list of one or more of {names}"));
        }
    }
    origins
}

fn read_name(given: &DocumentFields<'_>, others: &[Rule]) -> String {
    match given.text("name") {
        None if given.value("name").is_none() => {
            given.note("name", "is missing: logs and the archive name the rule");
        }
        None => {}
        Some(name) if name.is_empty() || name.chars().count() > 64 || name == DEFAULT_RULE => {
            given.note("name", "must be 1 to 64 characters long and not \"default\"");
        }
        Some(name) if others.iter().any(|other| other.name == name) => {
            given.note("name", format!("{name:?} is the name of another rule"));
        }
        Some(name) => return name.to_owned(),
    }
    String::new()
}

/// Reads a rule. The fields that it leaves out come from `base`; its delivery policy replaces the base's as a
/// whole.
fn read_rule(given: &DocumentFields<'_>, base: &Rule) -> Rule {
    let actions =
        [("redrive", RuleAction::Redrive), ("archive", RuleAction::Archive), ("hold", RuleAction::Hold)];
    let fifo = [("block", FifoHandling::Block), ("step-aside", FifoHandling::StepAside)];
    let delimiters = [("newline", RecordDelimiter::Newline), ("none", RecordDelimiter::None)];
    Rule {
        name: base.name.clone(),
        action: given.choice("action", &actions).unwrap_or(base.action),
        target: read_target(given).unwrap_or_else(|| base.target.clone()),
        delivery: DeliverySpec::read(given).unwrap_or_else(|| base.delivery.clone()),
        jitter: read_jitter(given).unwrap_or(base.jitter),
        allow_targets: read_allow_targets(given).or_else(|| base.allow_targets.clone()),
        retry_permanent: given.flag("retryPermanent").unwrap_or(base.retry_permanent),
        subscription: read_subscription(given).unwrap_or_else(|| base.subscription.clone()),
        verify_signature: given.flag("verifySignature").unwrap_or(base.verify_signature),
        fifo: given.choice("fifo", &fifo).unwrap_or(base.fifo),
        record_delimiter: given.choice("recordDelimiter", &delimiters).unwrap_or(base.record_delimiter),
    }
}

fn read_target(given: &DocumentFields<'_>) -> Option<TargetSpec> {
    let text = given.text("target")?;
    let spec = match text {
        "origin" => TargetSpec::Origin,
        "subscription" => TargetSpec::Subscription,
        "source" => TargetSpec::Source,
        "topic" => TargetSpec::Topic,
        _ => match text.parse::<Arn>() {
            Ok(arn) if matches!(arn.kind(), ArnKind::Topic | ArnKind::Queue | ArnKind::Function) => {
                TargetSpec::Arn(arn)
            }
            _ => {
                let problem =
                    "must be origin, subscription, source, topic, or the ARN of a topic, queue or function";
                given.note("target", format!("{problem}, not {text:?}"));
                return None;
            }
        },
    };
    Some(spec)
}

fn read_jitter(given: &DocumentFields<'_>) -> Option<f64> {
    let value = given.value("jitter")?;
    let jitter = value.as_f64().filter(|share| (0.0..=1.0).contains(share));
    if jitter.is_none() {
        given.note("jitter", format!("must be a number from 0 to 1, not {value}"));
    }
    jitter
}

fn read_allow_targets(given: &DocumentFields<'_>) -> Option<Vec<String>> {
    let list = given.list("allowTargets")?;
    let is_target = |text: &&str| {
        let url = |url: Url| matches!(url.scheme(), "http" | "https") && url.query().is_none();
        text.parse::<Arn>().is_ok() || Url::parse(text).is_ok_and(url)
    };
    let targets: Vec<_> =
        list.iter().filter_map(Value::as_str).filter(is_target).map(str::to_owned).collect();
    if targets.len() < list.len() {
        given.note("allowTargets", "must hold only ARNs and http or https URLs without a query");
    }
    Some(targets)
}

fn read_subscription(given: &DocumentFields<'_>) -> Option<SubscriptionSpec> {
    let text = given.text("subscription")?;
    if text == "discover" {
        return Some(SubscriptionSpec::Discover);
    }
    let arn = text.parse::<Arn>().ok().filter(|arn| arn.kind() == ArnKind::Subscription);
    if arn.is_none() {
        given.note("subscription", format!("must be the ARN of a subscription, or discover, not {text:?}"));
    }
    arn.map(SubscriptionSpec::Named)
}

impl Rule {
    /// Returns the built-in default of the contract.
    pub(super) fn built_in() -> Self {
        Self {
            name: DEFAULT_RULE.to_owned(),
            action: RuleAction::Redrive,
            target: TargetSpec::Origin,
            delivery: DeliverySpec::Inline(DeliveryPolicy::of(Schedule::BUILT_IN)),
            jitter: 0.1,
            allow_targets: None,
            retry_permanent: false,
            subscription: SubscriptionSpec::None,
            verify_signature: false,
            fifo: FifoHandling::Block,
            record_delimiter: RecordDelimiter::Newline,
        }
    }
}
