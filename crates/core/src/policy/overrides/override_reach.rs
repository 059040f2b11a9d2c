//! The waiting letters that an override is about, as far as the list of waiting letters tells.
//!
//! A line of the list names a letter's id, queue, topic, subscription and target, and the time when it arrived. Only the
//! function can decide about any other field of a pattern, such as the message, when it receives the letter.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{BadOverrides, Override, Overrides};
use crate::endpoint::TargetName;
use crate::policy::fields::FaultCollector;
use crate::policy::matcher::{FIELDS_OF_LINE, LetterView, MatchValue, Matcher, OR, TARGET};
use crate::waiting::WaitingLetter;

/// An override, for comparison with the lines of waiting letters.
#[derive(Debug)]
pub struct OverrideReach {
    override_: Override,
    matcher: Matcher,
    undecided: Vec<String>,
}

/// The answer whether an override is about a waiting letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReachAnswer {
    /// It is not.
    No,
    /// It may be: the list does not have the fields that decide.
    Maybe,
    /// It is.
    Yes,
}

impl OverrideReach {
    /// Prepares an override.
    ///
    /// # Errors
    ///
    /// [`BadOverrides`] if the override could not stand in a document.
    pub fn of(override_: &Override) -> Result<Self, BadOverrides> {
        Overrides::of(std::slice::from_ref(override_))?;
        let pattern = MatchValue::from(&override_.pattern);
        let matcher = Matcher::of_override(&pattern, &FaultCollector::default(), "match");
        let fields = fields(&override_.pattern).into_iter();
        let undecided = fields.filter(|name| *name != TARGET && !FIELDS_OF_LINE.contains(name));
        let undecided = undecided.map(str::to_owned).collect();
        Ok(Self { override_: override_.clone(), matcher, undecided })
    }

    /// Returns the fields of the pattern that the list does not have.
    #[must_use]
    pub fn undecided(&self) -> &[String] {
        &self.undecided
    }

    /// Returns the targets that the pattern names, if it is about letters of these alone.
    #[must_use]
    pub fn targets(&self) -> Option<Vec<TargetName>> {
        let wanted = self.override_.pattern.get(TARGET)?.as_array()?;
        wanted.iter().map(|one| one.as_str().map(TargetName::read)).collect()
    }

    /// Returns whether the override is about a waiting letter.
    #[must_use]
    pub fn touches(&self, letter: &WaitingLetter) -> ReachAnswer {
        if !self.override_.is_about(letter.since) {
            return ReachAnswer::No;
        }
        let view = LetterView::of_line(letter);
        match (self.matcher.matches(&view, false), self.matcher.matches(&view, true)) {
            (true, _) => ReachAnswer::Yes,
            (false, true) => ReachAnswer::Maybe,
            (false, false) => ReachAnswer::No,
        }
    }
}

/// Returns the names of the fields of a letter that a pattern asks for.
fn fields(pattern: &Value) -> BTreeSet<&str> {
    let members = pattern.as_object().into_iter().flatten();
    let mut names = BTreeSet::new();
    for (name, value) in members {
        match value.as_array().filter(|_| name == OR) {
            Some(choices) => names.extend(choices.iter().flat_map(fields)),
            None => {
                names.insert(name.as_str());
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::policy::OverrideAction;
    use crate::waiting::WaitingRetry;

    const QUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-dlq";
    const REQUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-requeue";
    const TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:payments";

    fn override_(pattern: Value) -> Override {
        Override {
            id: "1".to_owned(),
            action: OverrideAction::Retry,
            pattern,
            arrived_before: None,
            arrived_after: None,
            at: "2026-11-01T12:00:00Z".parse().unwrap(),
            until: None,
            by: "ada".to_owned(),
            why: "mended".to_owned(),
        }
    }

    fn letter() -> WaitingLetter {
        WaitingLetter {
            hidden: None,
            visible: None,
            recovers: false,
            letter_id: "l".to_owned(),
            message_id: "m".to_owned(),
            receipt_handle: "h".to_owned(),
            queue_arn: QUEUE.parse().unwrap(),
            dead_letter_queue_arn: None,
            topic_arn: Some(TOPIC.to_owned()),
            subscription_arn: None,
            target: None,
            rule: "default".to_owned(),
            error: Some("503".to_owned()),
            held_by: None,
            retry: WaitingRetry { number: 3, of: 12 },
            since: "2026-11-01T10:00:00Z".parse().unwrap(),
            due: "2026-11-01T16:00:00Z".parse().unwrap(),
        }
    }

    #[test]
    fn a_line_decides_id_queue_topic_and_subscription_and_nothing_else() {
        for (pattern, touches, undecided) in [
            (json!({ "topicArn": [TOPIC] }), ReachAnswer::Yes, ""),
            (json!({ "letterId": ["l"] }), ReachAnswer::Yes, ""),
            (json!({ "letterId": ["m"] }), ReachAnswer::No, ""),
            (json!({ "letterId": ["l"], "subject": ["urgent"] }), ReachAnswer::Maybe, "subject"),
            (
                json!({ "topicArn": [{ "suffix": ":payments" }], "queueArn": [{ "exists": true }] }),
                ReachAnswer::Yes,
                "",
            ),
            (json!({ "topicArn": [{ "suffix": ":billing" }] }), ReachAnswer::No, ""),
            (json!({ "subscriptionArn": [{ "exists": true }] }), ReachAnswer::No, ""),
            (json!({ "subscriptionArn": [{ "exists": false }] }), ReachAnswer::Yes, ""),
            (json!({ "topicArn": [TOPIC], "subject": ["urgent"] }), ReachAnswer::Maybe, "subject"),
            (
                json!({ "topicArn": [{ "suffix": ":another" }], "subject": ["urgent"] }),
                ReachAnswer::No,
                "subject",
            ),
            (json!({ "error": { "code": ["503"] } }), ReachAnswer::Maybe, "error"),
        ] {
            let reach = OverrideReach::of(&override_(pattern.clone())).unwrap();
            assert_eq!(
                (reach.touches(&letter()), reach.undecided().join(" ").as_str()),
                (touches, undecided),
                "{pattern}"
            );
        }
    }

    #[test]
    fn a_letter_in_the_requeue_counts_by_its_dead_letter_queue() {
        let queue = QUEUE.parse().unwrap();
        let moved = WaitingLetter {
            queue_arn: REQUEUE.parse().unwrap(),
            dead_letter_queue_arn: Some(queue),
            ..letter()
        };
        let reach = OverrideReach::of(&override_(json!({ "queueArn": [QUEUE] }))).unwrap();
        assert_eq!(reach.touches(&moved), ReachAnswer::Yes);
        assert_eq!(reach.touches(&WaitingLetter { dead_letter_queue_arn: None, ..moved }), ReachAnswer::No);
    }

    #[test]
    fn the_time_of_arrival_decides() {
        let arrived = letter().since;
        let before =
            Override { arrived_before: Some(arrived), ..override_(json!({ "subject": ["urgent"] })) };
        let after = Override { arrived_after: Some(arrived), ..override_(json!({ "topicArn": [TOPIC] })) };
        assert_eq!(OverrideReach::of(&before).unwrap().touches(&letter()), ReachAnswer::No);
        assert_eq!(OverrideReach::of(&after).unwrap().touches(&letter()), ReachAnswer::Yes);
    }

    #[test]
    fn a_pattern_that_a_document_could_not_hold_is_refused() {
        assert!(OverrideReach::of(&override_(json!({ "topic": ["x"] }))).is_err());
        assert!(OverrideReach::of(&override_(json!({}))).is_err());
    }
}
