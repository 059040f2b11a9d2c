//! The letters that a command line selects, as a pattern.

use serde_json::{Map, Value, json};

use crate::args::Picks;
use crate::console::Failed;
use sns_redrive::arn::Arn;
use sns_redrive::policy::{Fault, read_json, rounds_numbers};

/// Returns the pattern of these options; `None` if they select no letters.
pub(super) fn pattern(picks: &Picks) -> Result<Option<Value>, Failed> {
    let bad = |problem: String| Err(Failed::Input(vec![problem]));
    let mut fields = match picks.pattern.as_deref().map(read_json) {
        None => Map::new(),
        _ if picks.pattern.as_deref().is_some_and(rounds_numbers) => {
            return bad("--match holds a number that would be rounded: write 15 digits at most".to_owned());
        }
        Some(Ok(Value::Object(fields))) => fields,
        Some(Ok(_)) => {
            return bad("--match must be a JSON object, such as {\"topicArn\": [{\"suffix\": \":orders\"}]}"
                .to_owned());
        }
        Some(Err(faults)) => {
            let said = |fault: Fault| {
                if fault.path.is_empty() {
                    format!("--match is {fault}")
                } else {
                    format!("--match: {fault}")
                }
            };
            return Err(Failed::Input(faults.into_iter().map(said).collect()));
        }
    };
    let shortcuts = [
        ("--topic", "topicArn", picks.topic.as_deref().map(named)),
        ("--queue", "queueArn", picks.queue.as_deref().map(named)),
        ("--subscription", "subscriptionArn", picks.subscription.as_deref().map(|arn| json!([arn]))),
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

/// Returns the condition for an ARN, or for any resource with this name.
fn named(text: &str) -> Value {
    if text.parse::<Arn>().is_ok() { json!([text]) } else { json!([{ "suffix": format!(":{text}") }]) }
}
