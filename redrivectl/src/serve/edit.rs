//! Editing: a letter's record in a form, and back.

use serde_json::Value;

use super::fields::Fields;
use crate::text::harmless;

/// What a form shows of a record, and takes back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Editable {
    pub(super) body: String,
    /// The name, the type and the value of each attribute that is a text and is shown.
    pub(super) attributes: Vec<(String, String, String)>,
}

/// The field of the body.
pub(super) const BODY: &str = "body";

/// Returns the name of the field of an attribute.
pub(super) fn field_of(attribute: &str) -> String {
    format!("attribute:{attribute}")
}

/// Takes from a record what may be edited; `masked` are names of attributes whose values nobody is shown.
///
/// # Errors
///
/// A form would change the body by itself.
pub(super) fn editable(record: &str, masked: &[String]) -> Result<Editable, &'static str> {
    let record: Value = serde_json::from_str(record).map_err(|_| "The record cannot be read.")?;
    let message = &record["message"];
    let body = message["body"].as_str().unwrap_or_default();
    if !is_plain(body) {
        return Err(
            "The body has characters that a form of a browser would change or hide. Edit it in a file: the command is below.",
        );
    }
    let is_masked = |name: &str| masked.iter().any(|masked| masked.eq_ignore_ascii_case(name));
    let attributes = message["messageAttributes"].as_object().into_iter().flatten();
    let attributes = attributes.filter_map(|(name, attribute)| {
        let value = attribute["stringValue"].as_str()?;
        let kind = attribute["dataType"].as_str().unwrap_or("String");
        let is_shown = is_plain(name) && is_plain(value) && !is_masked(name);
        is_shown.then(|| (name.clone(), kind.to_owned(), value.to_owned()))
    });
    Ok(Editable { body: body.to_owned(), attributes: attributes.collect() })
}

/// Returns the record with what the form says. What the form does not name stays.
///
/// # Errors
///
/// In words.
pub(super) fn edited(record: &str, form: &mut Fields) -> Result<String, String> {
    let mut value: Value =
        serde_json::from_str(record).map_err(|_| "the record cannot be read".to_owned())?;
    let message = &mut value["message"];
    if let Some(body) = form.take_whole(BODY) {
        replace(&mut message["body"], &body);
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

/// Sets a text that came from a form, where every line ends with CR LF, whatever stood there before.
/// <https://html.spec.whatwg.org/multipage/form-control-infrastructure.html#constructing-the-form-data-set>
fn replace(old: &mut Value, new: &str) {
    let new = new.replace("\r\n", "\n");
    let had = old.as_str().is_some_and(|old| old.contains("\r\n"));
    *old = if had { new.replace('\n', "\r\n") } else { new }.into();
}

/// Whether a form shows a text as it is, and gives it back as it was.
fn is_plain(text: &str) -> bool {
    let lines = text.replace("\r\n", "\n");
    // Line ends of two kinds would become one.
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

    fn sent(pairs: &[(&str, &str)]) -> Fields {
        // As a browser does.
        let pairs = pairs.iter().map(|(name, text)| (*name, text.replace('\n', "\r\n")));
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        Fields::read(form.as_bytes())
    }

    #[test]
    fn what_a_form_does_not_change_stays_byte_for_byte() {
        for body in ["x", "", "a\nb\n", "a\r\nb", "{\n\t\"a\": \"ä€😀\"\n}", "\n first line"] {
            let before = record(body);
            let shown = editable(&before, &[]).unwrap();
            let attributes = shown.attributes.iter().map(|(name, _, value)| (field_of(name), value.as_str()));
            let attributes: Vec<_> = attributes.collect();
            let mut pairs: Vec<_> = attributes.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            let shown_body = shown.body.replace("\r\n", "\n");
            pairs.push((BODY, &shown_body));
            assert_eq!(edited(&before, &mut sent(&pairs)).unwrap(), before, "{body:?}");
        }
    }

    #[test]
    fn an_edit_changes_what_it_names_and_masked_values_are_not_shown() {
        let before = record("a\nb");
        let shown = editable(&before, &["KEY".to_owned()]).unwrap();
        assert_eq!(shown.attributes, [("tenant".to_owned(), "String".to_owned(), "gold".to_owned())]);
        let mut form = sent(&[(BODY, "a\nc"), ("attribute:tenant", "silver"), ("attribute:other", "x")]);
        let after: Value = serde_json::from_str(&edited(&before, &mut form).unwrap()).unwrap();
        let mut expected: Value = serde_json::from_str(&before).unwrap();
        expected["message"]["body"] = "a\nc".into();
        expected["message"]["messageAttributes"]["tenant"]["stringValue"] = "silver".into();
        assert_eq!(after, expected);
        assert!(edited(&before, &mut sent(&[("attribute:tenant", "")])).is_err());
    }

    #[test]
    fn a_body_that_a_form_would_change_is_not_edited_there() {
        for body in ["a\r\nb\nc", "a\rb", "a\u{202e}b", "a\u{0}b", "a\u{7f}b"] {
            assert!(editable(&record(body), &[]).is_err(), "{body:?}");
        }
    }
}
