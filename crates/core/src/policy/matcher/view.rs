//! The letter as patterns see it.

use std::cell::OnceCell;

use super::draft::TARGET;
use super::json_view::{MatchObject, MatchValue};
use super::pattern::MemberLookup;
use crate::letter::{Letter, LetterCause, MARK_ATTRIBUTE, MessageAttribute, MessageAttributes};
use crate::policy::letter_target::LetterTarget;
use crate::waiting::WaitingLetter;

/// The fields of the view. A pattern over any other field could never match.
pub(super) const VIEW: [&str; 11] = [
    TARGET,
    "origin",
    "letterId",
    "queueArn",
    "topicArn",
    "subscriptionArn",
    "subject",
    "messageAttributes",
    "message",
    "retry",
    "error",
];

/// A letter as patterns see it. A field is read when a pattern asks for it, once.
#[derive(Debug)]
pub(in crate::policy) struct LetterView<'l> {
    of: ViewSource<'l>,
    fields: [OnceCell<Option<MatchValue<'l>>>; VIEW.len()],
}

/// The fields that a line of the list of waiting letters has. It has the target too, if that was known.
pub(in crate::policy) const FIELDS_OF_LINE: [&str; 4] =
    ["letterId", "queueArn", "topicArn", "subscriptionArn"];

#[derive(Debug)]
enum ViewSource<'l> {
    Letter { letter: &'l Letter, message: Option<&'l str>, target: &'l LetterTarget },
    Line(&'l WaitingLetter),
}

/// A view whose unknown fields all fit, or all do not.
#[derive(Debug)]
pub(super) struct AssumingView<'v, 'l> {
    pub(super) view: &'v LetterView<'l>,
    /// True if they fit.
    pub(super) unknown_fits: bool,
}

impl<'l> LetterView<'l> {
    /// Returns the view of a letter, with its message and its target if a pattern is about them.
    pub(in crate::policy) fn of(
        letter: &'l Letter,
        message: Option<&'l str>,
        target: &'l LetterTarget,
    ) -> Self {
        Self { of: ViewSource::Letter { letter, message, target }, fields: Default::default() }
    }

    /// Returns the view of a waiting letter, with the fields of its line.
    pub(in crate::policy) fn of_line(line: &'l WaitingLetter) -> Self {
        Self { of: ViewSource::Line(line), fields: Default::default() }
    }

    /// Reports whether the letter has a field of which nothing is known here.
    fn is_unknown(&self, name: &str) -> bool {
        match self.of {
            ViewSource::Letter { target, .. } => name == TARGET && *target == LetterTarget::Unknown,
            ViewSource::Line(line) => match name {
                TARGET => line.target.is_none(),
                name => !FIELDS_OF_LINE.contains(&name),
            },
        }
    }
}

impl MemberLookup for AssumingView<'_, '_> {
    fn member(&self, name: &str) -> Option<&MatchValue<'_>> {
        self.view.member(name)
    }

    fn assumed(&self, name: &str) -> Option<bool> {
        self.view.is_unknown(name).then_some(self.unknown_fits)
    }
}

impl LetterView<'_> {
    fn member(&self, name: &str) -> Option<&MatchValue<'_>> {
        let field = VIEW.iter().position(|field| *field == name)?;
        let read = || match self.of {
            ViewSource::Letter { target, .. } if name == TARGET => target.name().map(text),
            ViewSource::Letter { letter, message, .. } => field_of(letter, message, name),
            ViewSource::Line(line) => field_of_line(line, name),
        };
        self.fields.get(field)?.get_or_init(read).as_ref()
    }
}

fn field_of_line<'l>(line: &'l WaitingLetter, name: &str) -> Option<MatchValue<'l>> {
    match name {
        "letterId" => Some(text(&line.letter_id)),
        "queueArn" => Some(text(line.dead_letter_queue_arn.as_ref().unwrap_or(&line.queue_arn).as_str())),
        "topicArn" => line.topic_arn.as_deref().map(text),
        "subscriptionArn" => line.subscription_arn.as_deref().map(text),
        TARGET => line.target.as_ref().map(|target| text(target.as_str())),
        _ => None,
    }
}

/// Returns a field, if the letter has it.
fn field_of<'l>(letter: &'l Letter, message: Option<&'l str>, name: &str) -> Option<MatchValue<'l>> {
    let sns = letter.notification.as_ref();
    match name {
        "origin" => Some(text(letter.origin.name())),
        "letterId" => Some(text(letter.id.as_str())),
        "queueArn" => Some(text(letter.dead_letter_queue().as_str())),
        "topicArn" => Some(text(letter.topic()?.as_str())),
        "subscriptionArn" => Some(text(letter.subscription()?.as_str())),
        "subject" => Some(text(sns?.subject.as_deref()?)),
        "messageAttributes" => Some(attributes(sns.map_or(&letter.sqs.attributes, |sns| &sns.attributes))),
        "message" => message.map(|message| MatchValue::read(message).unwrap_or_else(|| text(message))),
        "retry" => Some(MatchValue::Number(letter.earlier().to_string().into())),
        "error" => letter.cause.as_ref().map(error),
        _ => None,
    }
}

fn text(text: &str) -> MatchValue<'_> {
    MatchValue::Text(text.into())
}

/// Returns the attributes without our mark, which comes and goes while the rule of a letter must not change.
fn attributes(attributes: &MessageAttributes) -> MatchValue<'_> {
    let others = attributes.iter().filter(|(name, _)| *name != MARK_ATTRIBUTE);
    let seen = others.filter_map(|(name, value)| Some((name.as_str().into(), attribute(value)?)));
    MatchValue::Object(MatchObject::of(seen.collect()))
}

/// Returns an attribute's value as SNS filter policies see it. Binary values cannot be matched.
fn attribute(attribute: &MessageAttribute) -> Option<MatchValue<'_>> {
    let value = attribute.text()?;
    let parsed = match attribute.data_type.as_str() {
        "Number" | "String.Array" => MatchValue::read(value),
        _ => None,
    };
    Some(parsed.unwrap_or_else(|| text(value)))
}

/// Returns the original error. The parts that it does not have are absent.
fn error(cause: &LetterCause) -> MatchValue<'_> {
    let parts = [("code", &cause.code), ("message", &cause.message)];
    let known = parts.into_iter().filter_map(|(name, part)| Some((name.into(), text(part.as_deref()?))));
    MatchValue::Object(MatchObject::of(known.collect()))
}
