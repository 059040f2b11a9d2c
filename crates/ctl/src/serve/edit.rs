//! Edits a letter's record: turns it into a form, and the form back into a record. The form shows
//! placeholders for masked values, and they get their values back.

use redrive_console::read::ContentMask;
use serde_json::Value;

use super::fields::FormFields;
use crate::tables::harmless;

/// The part of a record that a form edits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EditableRecord {
    pub(super) body: String,
    /// The name, the type and the value of each attribute that is a text and not masked.
    pub(super) attributes: Vec<(String, String, String)>,
}

/// The name of the body's field.
pub(super) const BODY: &str = "body";

/// Returns the name of an attribute's field.
pub(super) fn field_of(attribute: &str) -> String {
    format!("attribute:{attribute}")
}

/// Returns the editable part of a record, with masked values hidden.
///
/// # Errors
///
/// A form would change the body, or the masked values in it cannot be found safely.
pub(super) fn editable(record: &str, mask: ContentMask<'_>) -> Result<EditableRecord, &'static str> {
    let record: Value = serde_json::from_str(record).map_err(|_| "The record cannot be read.")?;
    let message = &record["message"];
    let body = message["body"].as_str().unwrap_or_default();
    if !is_plain(body) {
        return Err(
            "The body has characters that a form of a browser would change or hide. Edit it in a file: the command is below.",
        );
    }
    let MaskedBody { text: body, .. } = hidden(body, mask)?;
    let attributes = message["messageAttributes"].as_object().into_iter().flatten();
    let attributes = attributes.filter_map(|(name, attribute)| {
        let value = attribute["stringValue"].as_str()?;
        let kind = attribute["dataType"].as_str().unwrap_or("String");
        let is_shown = is_plain(name) && is_plain(value) && !mask.hides(name) && mask.text(value) == value;
        is_shown.then(|| (name.clone(), kind.to_owned(), value.to_owned()))
    });
    Ok(EditableRecord { body, attributes: attributes.collect() })
}

/// Returns the record with the form's changes. Parts that are not in the form stay as they are.
///
/// # Errors
///
/// The form is invalid; in words.
pub(super) fn edited(record: &str, mask: ContentMask<'_>, form: &mut FormFields) -> Result<String, String> {
    let mut value: Value =
        serde_json::from_str(record).map_err(|_| "the record cannot be read".to_owned())?;
    let message = &mut value["message"];
    if let Some(body) = form.take_whole(BODY) {
        let hidden = hidden(message["body"].as_str().unwrap_or_default(), mask)?;
        replace(&mut message["body"], &hidden.restored(&body)?);
    }
    for (name, attribute) in message["messageAttributes"].as_object_mut().into_iter().flatten() {
        if let Some(text) = form.take_whole(&field_of(name)) {
            if text.is_empty() {
                return Err(format!("the attribute {} must have a value", harmless(name)));
            }
            replace(&mut attribute["stringValue"], &text);
        }
    }
    Ok(value.to_string())
}

/// A body with placeholders for its masked values.
struct MaskedBody {
    text: String,
    /// The JSON texts that the placeholders stand for, with their quotes.
    literals: Vec<String>,
}

/// Returns the placeholder for a masked value.
fn placeholder(number: usize) -> String {
    format!("\"(masked {number})\"")
}

/// Replaces the masked values in a body. The rest stays the same, byte for byte.
///
/// # Errors
///
/// A masked value cannot be found safely.
fn hidden(body: &str, mask: ContentMask<'_>) -> Result<MaskedBody, &'static str> {
    let plain = || MaskedBody { text: body.to_owned(), literals: Vec::new() };
    if mask.text(body) == body {
        return Ok(plain());
    }
    let value: Value = serde_json::from_str(body).map_err(|_| AMBIGUOUS)?;
    let secrets = mask.secrets(&value);
    let (mut text, mut literals, mut all) = (String::new(), Vec::new(), 0);
    for part in parts(body) {
        let said = says(part);
        all += usize::from(said.is_some());
        if said.is_some_and(|said| secrets.contains(&said)) {
            literals.push(part.to_owned());
            text.push_str(&placeholder(literals.len()));
        } else {
            text.push_str(part);
        }
    }
    // Two cases are refused. If an object has two fields of one name, the parser keeps one, and the other
    // would be shown. If a text holds JSON, its quotes are escaped, and the search above does not find it.
    let left: Value = serde_json::from_str(&text).map_err(|_| AMBIGUOUS)?;
    let is_hidden = mask.secrets(&left).iter().all(|secret| !secrets.contains(secret));
    if all == texts(&value) && is_hidden && !body.contains("(masked ") {
        return Ok(MaskedBody { text, literals });
    }
    Err(AMBIGUOUS)
}

const AMBIGUOUS: &str = "The body has values that are not shown, in places that a form cannot hide. Edit it in a file: the command is below.";

impl MaskedBody {
    /// Puts the masked values back. The operator may delete a placeholder together with its field.
    ///
    /// # Errors
    ///
    /// A placeholder occurs twice or was moved. At another place nothing would mask the value, so a page
    /// could show it.
    fn restored(&self, body: &str) -> Result<String, String> {
        let (before, after) = (serde_json::from_str(&self.text), serde_json::from_str(body));
        let (before, after): (Value, Value) = (before.unwrap_or_default(), after.unwrap_or_default());
        let mut body = body.to_owned();
        for (number, literal) in (1..).zip(&self.literals) {
            let placeholder = placeholder(number);
            let stands = body.matches(&placeholder).count();
            let text = placeholder.trim_matches('"');
            // An escaped placeholder would point to another place than the text that is replaced.
            let texts: Vec<_> =
                parts(&body).into_iter().filter(|part| says(part).as_deref() == Some(text)).collect();
            let is_other = stands != texts.len() || texts.iter().any(|part| *part != placeholder);
            let is_moved = || place_of(text, &before) != place_of(text, &after);
            if stands > 1 || is_other || (stands == 1 && is_moved()) {
                return Err(format!(
                    "{text} stands for a value that is not shown: leave it at its place, once, or take its field away"
                ));
            }
            body = body.replace(&placeholder, literal);
        }
        Ok(body)
    }
}

/// Returns the names and indexes that lead to a text in a value; `None` if the value does not hold it.
fn place_of(text: &str, value: &Value) -> Option<Vec<String>> {
    let below = |(step, value): (String, &Value)| {
        let mut place = place_of(text, value)?;
        place.insert(0, step);
        Some(place)
    };
    match value {
        Value::String(it) => (it == text).then(Vec::new),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).find_map(below),
        Value::Array(items) => {
            items.iter().enumerate().map(|(at, value)| (at.to_string(), value)).find_map(below)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Splits JSON into its texts, with their quotes, and the parts between them.
fn parts(json: &str) -> Vec<&str> {
    let (mut parts, mut from, mut within, mut escaped) = (Vec::new(), 0, false, false);
    for (at, c) in json.char_indices() {
        let is_quote = c == '"' && !escaped;
        escaped = within && c == '\\' && !escaped;
        if !is_quote {
            continue;
        }
        let end = if within { at + 1 } else { at };
        parts.push(&json[from..end]);
        (from, within) = (end, !within);
    }
    parts.push(&json[from..]);
    parts
}

/// Returns what a part of JSON says, if it is a text.
fn says(part: &str) -> Option<String> {
    part.starts_with('"').then(|| serde_json::from_str(part).ok()).flatten()
}

/// Counts the texts of a value, its names among them.
fn texts(value: &Value) -> usize {
    match value {
        Value::String(_) => 1,
        Value::Array(values) => values.iter().map(texts).sum(),
        Value::Object(fields) => fields.values().map(|value| 1 + texts(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Replaces a text by one from a form. Browsers end every line of a form with CR LF, whatever it was before.
/// <https://html.spec.whatwg.org/multipage/form-control-infrastructure.html#constructing-the-form-data-set>
fn replace(old: &mut Value, new: &str) {
    let new = new.replace("\r\n", "\n");
    let had = old.as_str().is_some_and(|old| old.contains("\r\n"));
    // If the old text had CR LF, so does the new one.
    *old = if had { new.replace('\n', "\r\n") } else { new }.into();
}

/// Reports whether a form can show a text and return it unchanged.
fn is_plain(text: &str) -> bool {
    let lines = text.replace("\r\n", "\n");
    // A browser would make one kind of line end out of two.
    let is_mixed = text.contains("\r\n") && lines.matches('\n').count() != text.matches("\r\n").count();
    let visible = lines.replace(['\n', '\t'], " ");
    !is_mixed && harmless(&visible) == visible
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use url::form_urlencoded;

    use super::*;

    fn record(body: &str) -> String {
        let attributes = json!({
            "tenant": { "dataType": "String", "stringValue": "gold" },
            "key": { "dataType": "String", "stringValue": "S3CR3T" },
            "picture": { "dataType": "Binary", "binaryValue": "AAAA" },
        });
        json!({ "message": { "body": body, "messageAttributes": attributes }, "digest": "d" }).to_string()
    }

    fn sent(pairs: &[(&str, &str)]) -> FormFields {
        // Browsers do the same.
        let pairs = pairs.iter().map(|(name, text)| (*name, text.replace('\n', "\r\n")));
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        FormFields::read(form.as_bytes())
    }

    #[test]
    fn what_a_form_does_not_change_stays_byte_for_byte() {
        for body in ["x", "", "a\nb\n", "a\r\nb", "{\n\t\"a\": \"ä€😀\"\n}", "\n first line"] {
            let before = record(body);
            let shown = editable(&before, ContentMask::new(&[])).unwrap();
            let attributes = shown.attributes.iter().map(|(name, _, value)| (field_of(name), value.as_str()));
            let attributes: Vec<_> = attributes.collect();
            let mut pairs: Vec<_> = attributes.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            let shown_body = shown.body.replace("\r\n", "\n");
            pairs.push((BODY, &shown_body));
            assert_eq!(
                edited(&before, ContentMask::new(&[]), &mut sent(&pairs)).unwrap(),
                before,
                "{body:?}"
            );
        }
    }

    #[test]
    fn an_edit_changes_what_it_names_and_masked_values_are_not_shown() {
        let before = record("a\nb");
        let names = ["KEY".to_owned()];
        let mask = ContentMask::new(&names);
        let shown = editable(&before, mask).unwrap();
        assert_eq!(shown.attributes, [("tenant".to_owned(), "String".to_owned(), "gold".to_owned())]);
        let mut form = sent(&[(BODY, "a\nc"), ("attribute:tenant", "silver"), ("attribute:other", "x")]);
        let after: Value = serde_json::from_str(&edited(&before, mask, &mut form).unwrap()).unwrap();
        let mut expected: Value = serde_json::from_str(&before).unwrap();
        expected["message"]["body"] = "a\nc".into();
        expected["message"]["messageAttributes"]["tenant"]["stringValue"] = "silver".into();
        assert_eq!(after, expected);
        assert!(edited(&before, mask, &mut sent(&[("attribute:tenant", "")])).is_err());
    }

    #[test]
    fn a_body_that_a_form_would_change_is_not_edited_there() {
        for body in ["a\r\nb\nc", "a\rb", "a\u{202e}b", "a\u{0}b", "a\u{7f}b"] {
            assert!(editable(&record(body), ContentMask::new(&[])).is_err(), "{body:?}");
        }
    }

    #[test]
    fn what_is_hidden_in_a_body_comes_back_byte_for_byte() {
        let names = ["token".to_owned()];
        let mask = ContentMask::new(&names);
        let link = r#""https:\/\/x\/?Action=Unsubscribe""#;
        let body = format!(
            r#"{{ "Message":  "a \"b\" \\", "UnsubscribeURL": {link}, "MessageAttributes": {{"token": {{"Type":"String","Value":"S3CR3T"}}}} }}"#
        );
        let before = record(&body);
        let shown = editable(&before, mask).unwrap().body;
        assert!(
            !shown.contains("Unsubscribe\"}") && !shown.contains("S3CR3T") && !shown.contains("Action"),
            "{shown}"
        );
        assert!(shown.contains(r#""UnsubscribeURL": "(masked 1)""#), "{shown}");
        assert_eq!(edited(&before, mask, &mut sent(&[(BODY, &shown)])).unwrap(), before);
        let mended = shown.replace("a \\\"b", "c");
        assert_ne!(mended, shown);
        let after: Value =
            serde_json::from_str(&edited(&before, mask, &mut sent(&[(BODY, &mended)])).unwrap()).unwrap();
        assert_eq!(after["message"]["body"], body.replace("a \\\"b", "c"));
    }

    /// In a field that is not masked, the value would be shown.
    #[test]
    fn a_placeholder_counts_once_and_at_its_place() {
        let names = ["token".to_owned()];
        let mask = ContentMask::new(&names);
        let body = r#"{"MessageAttributes": {"token": "S3CR3T"}, "note": "n", "list": [{"UnsubscribeURL": "0THER"}], "deep": {"x": 1}}"#;
        let before = record(body);
        let shown = editable(&before, mask).unwrap().body;
        assert_eq!(shown.matches("(masked ").count(), 2, "{shown}");
        let edit = |body: &str| edited(&before, mask, &mut sent(&[(BODY, body)]));
        for hostile in [
            shown.replace("\"n\"", "\"(masked 1)\""),
            shown.replace("\"token\": \"(masked 1)\"", "\"note\": \"(masked 1)\""),
            shown.replace("{\"x\": 1}", "{\"x\": \"(masked 2)\"}"),
            shown.replace("(masked 1)", "(masked 2)"),
            shown.replace("\"(masked 1)\"", "\"(masked 1)\", \"token\": \"(masked 1)\""),
            shown.replace("[{\"UnsubscribeURL\": \"(masked 2)\"}]", "\"(masked 2)\""),
            r#"{"MessageAttributes": {"token": "\u0028masked 1)"}, "note": "(masked 1)"}"#.to_owned(),
            r#"{"MessageAttributes": {"token": "\u0028masked 1)"}, "note": "a \"(masked 1)"}"#.to_owned(),
            r#"{"MessageAttributes": {"token": "\u0028masked 1)"}, "note": {"(masked 1)": 1}}"#.to_owned(),
            "\"(masked 1)\"".to_owned(),
            "not JSON \"(masked 1)\"".to_owned(),
        ] {
            assert_ne!(hostile, shown);
            let refused = edit(&hostile).unwrap_err();
            assert!(
                refused.contains("leave it at its place, once") && !refused.contains("S3CR3T"),
                "{hostile}"
            );
        }
        for fine in [
            shown.clone(),
            shown.replace("\"n\"", "\"m\""),
            shown.replace("\"token\": \"(masked 1)\"", ""),
            r#"{"deep": {}, "MessageAttributes": {"token": "(masked 1)"}}"#.to_owned(),
        ] {
            let after: Value = serde_json::from_str(&edit(&fine).unwrap()).unwrap();
            let restored = fine.replace("(masked 1)", "S3CR3T").replace("(masked 2)", "0THER");
            assert_eq!(after["message"]["body"], restored);
        }
    }

    #[test]
    fn a_body_whose_hidden_values_cannot_be_told_apart_is_not_edited_there() {
        let inner = json!({ "UnsubscribeURL": "https://x/" }).to_string();
        for body in [
            json!({ "Message": inner }).to_string(),
            r#"{"UnsubscribeURL": "https://first/", "UnsubscribeURL": "https://x/"}"#.to_owned(),
            r#"{"UnsubscribeURL": "https://x/", "Message": "(masked 1)"}"#.to_owned(),
        ] {
            let refused = editable(&record(&body), ContentMask::new(&[]));
            assert!(refused.is_err_and(|why| why.contains("Edit it in a file")), "{body}");
        }
    }
}
