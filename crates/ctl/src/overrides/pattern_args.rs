//! The letters that a command line selects, as a pattern.

use redrive_core::arn::Arn;
use redrive_core::endpoint::TargetName;
use redrive_core::policy::{DocumentFault, read_json, rounds_numbers};
use serde_json::{Map, Value, json};

use crate::args::PatternArgs;
use crate::console::CommandFailure;

/// Returns the pattern of these options; `None` if they select no letters.
pub(super) fn pattern(picks: &PatternArgs) -> Result<Option<Value>, CommandFailure> {
    let bad = |problem: String| Err(CommandFailure::Input(vec![problem]));
    let mut fields = match picks.pattern.as_deref().map(read_json) {
        None => Map::new(),
        _ if picks.pattern.as_deref().is_some_and(rounds_numbers) => {
            return bad("--match holds a number that would be rounded: write 15 digits at most".to_owned());
        }
        Some(Ok(Value::Object(fields))) => fields,
        Some(Ok(_)) => {
            return bad(
                "--match must be a JSON object, such as {\"topicArn\": [{\"suffix\": \":payments\"}]}"
                    .to_owned(),
            );
        }
        Some(Err(faults)) => {
            let said = |fault: DocumentFault| {
                if fault.path.is_empty() {
                    format!("--match is {fault}")
                } else {
                    format!("--match: {fault}")
                }
            };
            return Err(CommandFailure::Input(faults.into_iter().map(said).collect()));
        }
    };
    let names =
        [("--topic", &picks.topic), ("--queue", &picks.queue), ("--subscription", &picks.subscription)];
    for (option, text) in names {
        if text.as_ref().is_some_and(|text| !is_name(text)) {
            return bad(format!(
                "{option} must be an ARN with an account of 12 digits, or a name of letters, digits, hyphens, underscores and .fifo"
            ));
        }
    }
    let target = picks.target.as_deref().map(target).transpose()?;
    let shortcuts = [
        ("--topic", "topicArn", picks.topic.as_deref().map(named)),
        ("--queue", "queueArn", picks.queue.as_deref().map(named)),
        ("--subscription", "subscriptionArn", picks.subscription.as_deref().map(|arn| json!([arn]))),
        ("--target", "target", target),
        ("--all", "queueArn", picks.all.then(|| every()["queueArn"].take())),
    ];
    for (option, field, value) in shortcuts {
        let Some(value) = value else { continue };
        if fields.insert(field.to_owned(), value).is_some() {
            return bad(format!("{option} and --match both give {field}: leave out one of them"));
        }
    }
    Ok((!fields.is_empty()).then_some(Value::Object(fields)))
}

/// Returns the pattern that matches every letter.
pub(super) fn every() -> Value {
    json!({ "queueArn": [{ "exists": true }] })
}

/// Returns the condition for an ARN, or for any resource with this name. A text with colons is taken for an
/// ARN. The check of the override refuses it if it is not an ARN of the right service.
pub(crate) fn named(text: &str) -> Value {
    if text.contains(':') { json!([text]) } else { json!([{ "suffix": format!(":{text}") }]) }
}

/// Returns the condition for a target. Of a URL only its name is kept, since its path can be a secret.
pub(crate) fn target(text: &str) -> Result<Value, CommandFailure> {
    if !text.contains(':') && is_name(text) {
        // The ARN of a stream has its name after a slash.
        return Ok(json!([{ "suffix": format!(":{text}") }, { "suffix": format!("/{text}") }]));
    }
    let name = TargetName::read(text);
    if name.as_str().parse::<Arn>().is_err() && !TargetName::is_of_url(name.as_str()) {
        let problem = "--target must be an ARN, a URL, a URL's name as in logs, or the name of a queue, topic, function or stream";
        return Err(CommandFailure::Input(vec![problem.to_owned()]));
    }
    Ok(json!([name]))
}

/// Reports whether a resource can have this name or ARN. A text with colons that is not an ARN passes here
/// and is refused with the override.
/// <https://docs.aws.amazon.com/sns/latest/api/API_CreateTopic.html>
fn is_name(text: &str) -> bool {
    if text.contains(':') {
        let is_account = |account: &str| account.len() == 12 && account.bytes().all(|it| it.is_ascii_digit());
        return text.parse::<Arn>().map_or(true, |arn| is_account(arn.account()));
    }
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}
