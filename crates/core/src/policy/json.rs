//! A reader of JSON documents that people write.
//!
//! `serde_json` takes the last of two equal keys, so a second `"rules": []` would drop every rule without a
//! word. Here a key that is there twice is a fault with its path. A byte order mark, which some editors write
//! before the text, is passed over. Comments get a message that calls them by their name.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::fields::DocumentFault;

/// The mark that some editors write at the beginning of a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Returns a document without the byte order mark that may stand before it.
#[must_use]
pub fn after_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// Reads a document.
///
/// # Errors
///
/// One fault if the text is not JSON, else each key that is there twice.
pub fn read_json(text: &str) -> Result<Value, Vec<DocumentFault>> {
    let text = after_mark(text);
    let value =
        serde_json::from_str(text).map_err(|error| vec![DocumentFault::new("", problem(text, &error))])?;
    let faults = RefCell::default();
    // A text that could be read once can be read again.
    let _ = DuplicateKeys { path: String::new(), faults: &faults }
        .deserialize(&mut serde_json::Deserializer::from_str(text));
    let faults = faults.into_inner();
    if faults.is_empty() { Ok(value) } else { Err(faults) }
}

fn problem(text: &str, error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    let rest = text.lines().nth(line.saturating_sub(1)).and_then(|line| line.get(column.saturating_sub(1)..));
    if rest.is_some_and(|rest| ["//", "/*", "#"].iter().any(|comment| rest.starts_with(comment))) {
        return format!("not JSON: a comment at line {line} column {column}. Remove it: JSON has none");
    }
    format!("not JSON: {error}")
}

/// Looks for keys that are there twice in a value at this path.
struct DuplicateKeys<'a> {
    path: String,
    faults: &'a RefCell<Vec<DocumentFault>>,
}

impl<'de> DeserializeSeed<'de> for DuplicateKeys<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateKeys<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = if self.path.is_empty() { key.clone() } else { format!("{}.{key}", self.path) };
            if !keys.insert(key) {
                let problem = "is there twice, and only one can count: remove the other";
                self.faults.borrow_mut().push(DocumentFault::new(path.as_str(), problem));
            }
            map.next_value_seed(DuplicateKeys { path, faults: self.faults })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let item =
            |index: usize| DuplicateKeys { path: format!("{}[{index}]", self.path), faults: self.faults };
        let mut index = 0;
        while list.next_element_seed(item(index))?.is_some() {
            index += 1;
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        read_json(text).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_key_that_is_there_twice_is_a_fault_with_its_path() {
        let twice = |path: &str| format!("{path}: is there twice, and only one can count: remove the other");
        assert_eq!(faults(r#"{"rules":[1],"rules":[]}"#), [twice("rules")]);
        let nested = r#"{"rules":[{"match":{"a":["x"],"b":["y"],"a":["z"]}},{"name":"n","\u006eame":"m"}]}"#;
        assert_eq!(faults(nested), [twice("rules[0].match.a"), twice("rules[1].name")]);
        assert_eq!(faults(r#"[[{"a":1,"a":1,"a":null}]]"#), [twice("[0][0].a"), twice("[0][0].a")]);
        assert!(read_json(r#"{"a":{"a":[{"a":1},{"a":1}]},"b":{"a":true,"c":-1,"d":1.5,"e":"x"}}"#).is_ok());
    }

    #[test]
    fn a_byte_order_mark_is_passed_over_at_the_beginning_only() {
        assert_eq!(read_json("\u{feff}{}"), read_json("{}"));
        assert_eq!(faults("{\u{feff}}"), ["not JSON: key must be a string at line 1 column 2"]);
    }

    #[test]
    fn a_comment_is_called_one() {
        let comment = |place: &str| format!("not JSON: a comment at {place}. Remove it: JSON has none");
        assert_eq!(faults("// all rules\n{}"), [comment("line 1 column 1")]);
        assert_eq!(faults("{\n  /* all */ \"rules\": []}"), [comment("line 2 column 3")]);
        assert_eq!(faults("{ \"rules\": [] # all\n}"), [comment("line 1 column 15")]);
        assert_eq!(faults("{} // end"), [comment("line 1 column 4")]);
        assert_eq!(faults("{\"a\": 1,}"), ["not JSON: trailing comma at line 1 column 9"]);
    }
}
