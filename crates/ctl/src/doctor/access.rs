//! The policy of a queue or a bucket, as far as the doctor understands it. Unknown conditions never count as a yes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// The answer of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PolicyAnswer {
    Yes,
    No,
    /// The policy has conditions that this tool does not know.
    Unclear,
}

/// A sender of messages, as conditions of policies see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageSender<'a> {
    /// The service.
    pub(crate) service: &'a str,
    /// The resource on whose behalf the service acts.
    pub(crate) source: &'a str,
    /// The account of that resource.
    pub(crate) account: &'a str,
}

/// A policy of a resource.
#[derive(Debug)]
pub(crate) struct ResourcePolicy {
    statements: Vec<Value>,
}

impl ResourcePolicy {
    /// Reads a policy. Text that is no policy has no statements.
    pub(crate) fn of(text: &str) -> Self {
        let policy: Value = serde_json::from_str(text).unwrap_or_default();
        let statements = match &policy["Statement"] {
            Value::Array(statements) => statements.clone(),
            Value::Null => Vec::new(),
            statement => vec![statement.clone()],
        };
        Self { statements }
    }

    /// Reports whether a service may do this to a resource on behalf of another resource.
    pub(crate) fn lets(&self, sender: MessageSender<'_>, action: &str, resource: &str) -> PolicyAnswer {
        let with = |effect: &'static str| {
            let of = self.statements.iter().filter(move |statement| statement["Effect"] == effect);
            let concerns = of.map(|statement| concerns(statement, sender, action, resource));
            concerns.fold(PolicyAnswer::No, or)
        };
        match (with("Deny"), with("Allow")) {
            (PolicyAnswer::Yes, _) | (_, PolicyAnswer::No) => PolicyAnswer::No,
            (PolicyAnswer::Unclear, _) | (_, PolicyAnswer::Unclear) => PolicyAnswer::Unclear,
            (PolicyAnswer::No, PolicyAnswer::Yes) => PolicyAnswer::Yes,
        }
    }

    /// Reports whether a statement may deny something to a role: one that is not about TLS, and does not
    /// exempt the role from a denial of sending.
    pub(crate) fn may_deny(&self, role: &str) -> bool {
        let is_tls = |statement: &Value| {
            let tls = json!({ "Bool": { "aws:SecureTransport": "false" } });
            let other = json!({ "Bool": { "aws:SecureTransport": false } });
            statement["Condition"] == tls || statement["Condition"] == other
        };
        let leaves_out =
            |statement: &Value| left_out(statement).is_some_and(|names| names.contains(&role.to_owned()));
        let denials = self.statements.iter().filter(|statement| statement["Effect"] == "Deny");
        denials.into_iter().any(|statement| !is_tls(statement) && !leaves_out(statement))
    }

    /// Reports whether a statement may allow something to a role.
    pub(crate) fn may_allow(&self) -> bool {
        self.statements.iter().any(|statement| {
            statement["Effect"] == "Allow"
                && (statement["Principal"] == "*" || !statement["Principal"]["AWS"].is_null())
        })
    }

    /// Reports whether every denial of sending to a queue exempts a caller. `caller` is the ARN that STS returns.
    pub(crate) fn exempts(&self, caller: &str, queue: &str) -> PolicyAnswer {
        match self.senders(queue) {
            None => PolicyAnswer::Unclear,
            Some(names) if names.iter().any(|name| is_principal_of(name, caller)) => PolicyAnswer::Yes,
            Some(_) => PolicyAnswer::No,
        }
    }

    /// Returns the principals that every denial of sending to a queue exempts; `None` if there is no such denial.
    pub(crate) fn senders(&self, queue: &str) -> Option<Vec<String>> {
        let here = |statement: &&Value| texts(&statement["Resource"]).any(|it| is_like(it, queue));
        let denials: Vec<_> = self.statements.iter().filter(here).filter_map(left_out).collect();
        let is_left_out = |name: &String| {
            denials
                .iter()
                .all(|others| others.iter().any(|pattern| pattern == name || is_like(pattern, name)))
        };
        let names: BTreeSet<_> = denials.iter().flatten().filter(|name| is_left_out(name)).cloned().collect();
        (!denials.is_empty()).then(|| names.into_iter().collect())
    }
}

/// Returns the principals that a statement exempts, if it denies sending to all others.
fn left_out(statement: &Value) -> Option<Vec<String>> {
    let is_all = statement["Principal"] == "*" || statement["Principal"]["AWS"] == "*";
    let is_sending = texts(&statement["Action"]).any(|action| is_action(action, "sqs:SendMessage"));
    if statement["Effect"] != "Deny" || !is_all || !is_sending {
        return None;
    }
    let conditions = statement["Condition"].as_object()?;
    // Another condition beside it would make the denial narrower, so the exemption would not be exact.
    let (operator, keys) = conditions.iter().next().filter(|_| conditions.len() == 1)?;
    let (key, names) = keys.as_object().filter(|keys| keys.len() == 1)?.iter().next()?;
    let leaves_out =
        ["ArnNotLike", "ArnNotEquals", "StringNotLike", "StringNotEquals"].contains(&operator.as_str());
    (leaves_out && key.eq_ignore_ascii_case("aws:PrincipalArn"))
        .then(|| texts(names).map(str::to_owned).collect())
}

/// Reports whether a pattern of `aws:PrincipalArn` may mean a caller. Of a role's session STS does not tell the role's
/// path, so only account and name of a role are compared.
/// <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html#condition-keys-principalarn>
fn is_principal_of(pattern: &str, caller: &str) -> bool {
    let session = caller.split_once(":assumed-role/").and_then(|(head, session)| {
        let (role, _) = session.split_once('/')?;
        Some((head.replacen(":sts:", ":iam:", 1), role))
    });
    let Some((head, role)) = session else { return is_like(pattern, caller) };
    match pattern.split_once(":role/") {
        Some((of, path)) => is_like(of, &head) && is_like(path.rsplit('/').next().unwrap_or_default(), role),
        None => is_like(pattern, &format!("{head}:role/{role}")),
    }
}

fn or(one: PolicyAnswer, other: PolicyAnswer) -> PolicyAnswer {
    match (one, other) {
        (PolicyAnswer::Yes, _) | (_, PolicyAnswer::Yes) => PolicyAnswer::Yes,
        (PolicyAnswer::No, PolicyAnswer::No) => PolicyAnswer::No,
        _ => PolicyAnswer::Unclear,
    }
}

/// Reports whether a statement applies to this sender, action and resource.
fn concerns(statement: &Value, sender: MessageSender<'_>, action: &str, resource: &str) -> PolicyAnswer {
    let has_not = ["NotPrincipal", "NotAction", "NotResource"].iter().any(|it| !statement[it].is_null());
    if has_not {
        return PolicyAnswer::Unclear;
    }
    let principal = &statement["Principal"];
    let is_sender = principal == "*"
        || texts(&principal["AWS"]).any(|it| it == "*")
        || texts(&principal["Service"]).any(|it| it == sender.service || it == "*");
    let is_action = texts(&statement["Action"]).any(|it| is_action(it, action));
    let is_resource = texts(&statement["Resource"]).any(|it| is_like(it, resource));
    if !(is_sender && is_action && is_resource) {
        return PolicyAnswer::No;
    }
    let conditions = statement["Condition"].as_object().into_iter().flatten();
    let keys = conditions.flat_map(|(operator, keys)| {
        keys.as_object().into_iter().flatten().map(move |(key, values)| (operator.as_str(), key, values))
    });
    let met = keys.map(|(operator, key, values)| holds(operator, key, values, sender));
    met.fold(PolicyAnswer::Yes, |all, one| match (all, one) {
        (PolicyAnswer::No, _) | (_, PolicyAnswer::No) => PolicyAnswer::No,
        (PolicyAnswer::Yes, PolicyAnswer::Yes) => PolicyAnswer::Yes,
        _ => PolicyAnswer::Unclear,
    })
}

/// Reports whether a condition holds.
fn holds(operator: &str, key: &str, values: &Value, sender: MessageSender<'_>) -> PolicyAnswer {
    let operator = operator.strip_suffix("IfExists").unwrap_or(operator);
    let value = match key.to_ascii_lowercase().as_str() {
        "aws:sourcearn" => sender.source,
        "aws:sourceaccount" => sender.account,
        // SNS uses TLS.
        "aws:securetransport" => "true",
        _ => return PolicyAnswer::Unclear,
    };
    let mut wanted = texts(values);
    let is = |holds: bool| if holds { PolicyAnswer::Yes } else { PolicyAnswer::No };
    match operator {
        "ArnEquals" | "ArnLike" => is_arn_like(wanted, value),
        "ArnNotEquals" | "ArnNotLike" => match is_arn_like(wanted, value) {
            PolicyAnswer::Yes => PolicyAnswer::No,
            PolicyAnswer::No => PolicyAnswer::Yes,
            PolicyAnswer::Unclear => PolicyAnswer::Unclear,
        },
        "StringLike" => is(wanted.any(|it| is_like(it, value))),
        "StringNotLike" => is(!wanted.any(|it| is_like(it, value))),
        "StringEquals" => is(wanted.any(|it| it == value)),
        "StringNotEquals" => is(!wanted.any(|it| it == value)),
        "Bool" => {
            is(values.as_bool().map_or_else(|| wanted.any(|it| it == value), |it| it.to_string() == value))
        }
        _ => PolicyAnswer::Unclear,
    }
}

/// Reports whether an ARN matches one of these patterns. AWS compares each of the six parts by itself, and no wildcard
/// extends beyond a part. The result for a pattern with fewer parts is not documented.
/// <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html#Conditions_ARN>
fn is_arn_like<'a>(patterns: impl Iterator<Item = &'a str>, arn: &str) -> PolicyAnswer {
    let parts = |arn| <[&str; 6]>::try_from(str::splitn(arn, 6, ':').collect::<Vec<_>>()).ok();
    let one = |pattern| match (parts(pattern), parts(arn)) {
        (Some(pattern), Some(arn)) => {
            let is_like = pattern.iter().zip(arn).all(|(pattern, part)| is_like(pattern, part));
            if is_like { PolicyAnswer::Yes } else { PolicyAnswer::No }
        }
        _ => PolicyAnswer::Unclear,
    };
    patterns.map(one).fold(PolicyAnswer::No, or)
}

/// Returns the texts of a value that is a text or a list of texts.
fn texts(value: &Value) -> impl Iterator<Item = &str> {
    let one = value.as_str().into_iter();
    one.chain(value.as_array().into_iter().flatten().filter_map(Value::as_str))
}

fn is_action(pattern: &str, action: &str) -> bool {
    is_like(&pattern.to_ascii_lowercase(), &action.to_ascii_lowercase())
}

/// Reports whether a text matches a pattern, in which `*` is any text and `?` any character.
fn is_like(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t, mut back) = (0, 0, None);
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                back = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => (p, t) = (p + 1, t + 1),
            _ => {
                let Some((star, from)) = back else { return false };
                back = Some((star, from + 1));
                (p, t) = (star + 1, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:payments";
    const QUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-dlq";

    fn lets(statements: &Value) -> PolicyAnswer {
        let sender = MessageSender { service: "sns.amazonaws.com", source: TOPIC, account: "123456789012" };
        ResourcePolicy::of(&json!({ "Statement": statements }).to_string()).lets(
            sender,
            "sqs:SendMessage",
            QUEUE,
        )
    }

    fn allow(condition: &Value) -> Value {
        json!({ "Effect": "Allow", "Principal": { "Service": "sns.amazonaws.com" }, "Action": "SQS:SendMessage",
                "Resource": QUEUE, "Condition": condition })
    }

    #[test]
    fn what_is_allowed_is_allowed_for_the_topics_that_it_names() {
        for (condition, access) in [
            (json!({ "ArnLike": { "aws:SourceArn": [TOPIC] } }), PolicyAnswer::Yes),
            (
                json!({ "ArnEquals": { "AWS:SourceArn": "arn:aws:sns:*:123456789012:paym?nts" } }),
                PolicyAnswer::Yes,
            ),
            (json!({ "ArnLike": { "aws:SourceArn": ["arn:aws:sns:*:*:bills"] } }), PolicyAnswer::No),
            (json!({ "StringEquals": { "aws:SourceAccount": "123456789012" } }), PolicyAnswer::Yes),
            (json!({ "StringEquals": { "aws:SourceAccount": "210987654321" } }), PolicyAnswer::No),
            (json!({ "StringEquals": { "aws:SourceOrgID": "o-1" } }), PolicyAnswer::Unclear),
            (json!({ "Bool": { "aws:SecureTransport": "true" } }), PolicyAnswer::Yes),
            (json!({ "ArnLike": { "aws:SourceArn": "arn:aws:sns:*:*" } }), PolicyAnswer::Unclear),
            (json!({ "ArnLike": { "aws:SourceArn": ["arn:aws:s*:payments", TOPIC] } }), PolicyAnswer::Yes),
            (json!({ "ArnNotLike": { "aws:SourceArn": "arn:aws:s*:payments" } }), PolicyAnswer::Unclear),
            (json!({ "StringLike": { "aws:SourceArn": "arn:aws:s*:payments" } }), PolicyAnswer::Yes),
        ] {
            assert_eq!(lets(&json!([allow(&condition)])), access, "{condition}");
        }
        assert_eq!(lets(&json!([])), PolicyAnswer::No);
        assert_eq!(lets(&allow(&json!({}))), PolicyAnswer::Yes, "one statement need not be in a list");
    }

    #[test]
    fn a_denial_wins_and_one_that_is_unclear_makes_all_unclear() {
        let deny = |condition: Value| json!({ "Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Resource": "*", "Condition": condition });
        let tls = deny(json!({ "Bool": { "aws:SecureTransport": "false" } }));
        assert_eq!(lets(&json!([allow(&json!({})), tls])), PolicyAnswer::Yes);
        let topics = deny(json!({ "ArnNotLike": { "aws:SourceArn": "arn:aws:sns:*:*:bills" } }));
        assert_eq!(lets(&json!([allow(&json!({})), topics])), PolicyAnswer::No);
        let org = deny(json!({ "StringNotEquals": { "aws:PrincipalOrgID": "o-1" } }));
        assert_eq!(lets(&json!([allow(&json!({})), org])), PolicyAnswer::Unclear);
    }

    #[test]
    fn who_a_denial_leaves_out_is_known_where_nothing_makes_it_narrower() {
        let senders = |condition: Value| {
            let deny = json!({ "Effect": "Deny", "Principal": "*", "Action": "sqs:SendMessage",
                               "Resource": QUEUE, "Condition": condition });
            ResourcePolicy::of(&json!({ "Statement": [deny] }).to_string()).senders(QUEUE)
        };
        let function = "arn:aws:iam::123456789012:role/function";
        let named = json!({ "aws:PrincipalArn": function });
        assert_eq!(senders(json!({ "ArnNotLike": named.clone() })), Some(vec![function.to_owned()]));
        let narrower = json!({ "ArnNotLike": named, "StringEquals": { "aws:PrincipalAccount": "1" } });
        assert_eq!(senders(narrower), None);
        assert_eq!(senders(json!({})), None);
    }

    #[test]
    fn a_caller_is_exempt_by_the_role_of_its_session() {
        let asked = |but: &[&str], caller: &str| {
            let deny = json!({ "Effect": "Deny", "Principal": "*", "Action": "sqs:SendMessage", "Resource": QUEUE,
                               "Condition": { "ArnNotLike": { "aws:PrincipalArn": but } } });
            ResourcePolicy::of(&json!({ "Statement": [deny] }).to_string()).exempts(caller, QUEUE)
        };
        let session = "arn:aws:sts::123456789012:assumed-role/operator/ada";
        let sso = "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Operator_0a1b2c3d4e5f6a7b/ada";
        let user = "arn:aws:iam::123456789012:user/ada";
        for (pattern, caller, is_exempt) in [
            ("arn:aws:iam::123456789012:role/operator", session, true),
            ("arn:aws:iam::123456789012:role/teams/payments/operator", session, true),
            ("arn:aws:iam::123456789012:role/*", session, true),
            ("*", session, true),
            ("arn:aws:iam::123456789012:role/operators", session, false),
            ("arn:aws:iam::999999999999:role/operator", session, false),
            ("arn:aws:iam::123456789012:user/operator", session, false),
            (
                "arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/*AWSReservedSSO_Operator_*",
                sso,
                true,
            ),
            (
                "arn:aws:iam::123456789012:role/aws-reserved/sso.amazonaws.com/*AWSReservedSSO_Reader_*",
                sso,
                false,
            ),
            (user, user, true),
            ("arn:aws:iam::123456789012:role/ada", user, false),
        ] {
            let answer = if is_exempt { PolicyAnswer::Yes } else { PolicyAnswer::No };
            assert_eq!(
                asked(&["arn:aws:iam::123456789012:role/function", pattern], caller),
                answer,
                "{pattern}"
            );
        }
        assert_eq!(ResourcePolicy::of("{}").exempts(user, QUEUE), PolicyAnswer::Unclear);
    }

    #[test]
    fn a_sender_is_left_out_by_every_denial_of_the_queue() {
        let deny = |resource: &str, but: &[&str]| {
            json!({ "Effect": "Deny", "Principal": "*", "Action": "sqs:SendMessage", "Resource": resource,
                    "Condition": { "ArnNotLike": { "aws:PrincipalArn": but } } })
        };
        let senders = |statements: &[Value]| {
            ResourcePolicy::of(&json!({ "Statement": statements }).to_string()).senders(QUEUE)
        };
        let [all, one, other] =
            ["role/*", "role/one", "role/other"].map(|it| format!("arn:aws:iam::123456789012:{it}"));
        assert_eq!(senders(&[deny("arn:aws:sqs:eu-central-1:123456789012:bills-dlq", &[&one])]), None);
        let both = [deny(QUEUE, &[&one, &other]), deny("*", &[&other])];
        assert_eq!(senders(&both), Some(vec![other.clone()]));
        let by_pattern = [deny(QUEUE, &[&all]), deny(QUEUE, &[&one])];
        assert_eq!(senders(&by_pattern), Some(vec![one]));
    }
}
