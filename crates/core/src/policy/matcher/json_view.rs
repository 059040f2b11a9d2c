//! JSON as patterns see it.
//!
//! Numbers keep their text, since an `f64` would round an id of twenty digits. `EventBridge` takes a dot in a name for
//! the beginning of a nested one, in patterns and events alike, so `{"a.b": 1}` and `{"a": {"b": 1}}` are read as the
//! same.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::Value;

use super::decimal::Decimal;

/// The deepest nesting that is read, as in `serde_json`.
const MAX_DEPTH: usize = 127;

/// A value of a pattern or of a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::policy) enum MatchValue<'a> {
    Null,
    Bool(bool),
    /// A number, as it was written.
    Number(Cow<'a, str>),
    Text(Cow<'a, str>),
    List(Vec<MatchValue<'a>>),
    Object(MatchObject<'a>),
    /// The values of several members that have the same path: one object at most, which holds the members of
    /// all objects, and the others.
    Several(Vec<MatchValue<'a>>),
}

/// The members of an object, sorted by name. No name occurs twice or has a dot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::policy) struct MatchObject<'a>(Vec<MatchMember<'a>>);

type MatchMember<'a> = (Cow<'a, str>, MatchValue<'a>);

impl<'a> MatchValue<'a> {
    /// Reads a JSON text. It returns `None` for any other text, and for one that is nested too deeply.
    pub(in crate::policy) fn read(json: &'a str) -> Option<Self> {
        serde_json::from_str::<IgnoredAny>(json).ok()?;
        JsonReader { json, at: 0 }.value(MAX_DEPTH)
    }

    /// Reports whether the numbers in it are those of the same value, in which they may have been rounded.
    pub(in crate::policy) fn is_kept_by(&self, other: &MatchValue<'_>) -> bool {
        match (self, other) {
            (Self::Number(one), MatchValue::Number(other)) => Decimal::of(one) == Decimal::of(other),
            (Self::List(all), MatchValue::List(others))
            | (Self::Several(all), MatchValue::Several(others)) => {
                all.iter().zip(others).all(|(one, other)| one.is_kept_by(other))
            }
            (Self::Object(all), MatchValue::Object(others)) => {
                all.members().zip(others.members()).all(|((_, one), (_, other))| one.is_kept_by(other))
            }
            _ => true,
        }
    }

    /// Returns the member of a document at a path of names and of positions in lists.
    pub(in crate::policy) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |seen, step| match seen {
            Self::Object(object) => object.get(step),
            Self::List(all) => all.get(step.parse::<usize>().ok()?),
            _ => None,
        })
    }
}

impl From<&Value> for MatchValue<'_> {
    /// What is nested too deeply is null, which is no pattern.
    fn from(value: &Value) -> Self {
        Self::of(value, MAX_DEPTH)
    }
}

impl MatchValue<'_> {
    fn of(value: &Value, depth: usize) -> Self {
        match (value, depth.checked_sub(1)) {
            (Value::Bool(is), _) => Self::Bool(*is),
            (Value::Number(number), _) => Self::Number(number.to_string().into()),
            (Value::String(text), _) => Self::Text(text.clone().into()),
            (Value::Array(all), Some(depth)) => {
                Self::List(all.iter().map(|value| Self::of(value, depth)).collect())
            }
            (Value::Object(fields), Some(depth)) => {
                let members = fields.iter().map(|(name, value)| {
                    (name.clone().into(), Self::of(value, depth.saturating_sub(dots(name))))
                });
                Self::Object(MatchObject::within(members.collect(), depth))
            }
            (Value::Null | Value::Array(_) | Value::Object(_), _) => Self::Null,
        }
    }
}

impl<'a> MatchObject<'a> {
    /// Creates an object of members in any order, whose names may have dots.
    pub(super) fn of(members: Vec<MatchMember<'a>>) -> Self {
        Self::within(members, MAX_DEPTH)
    }

    /// Creates an object of members. Below `depth` dots stay in names: no pattern reaches so deep.
    fn within(mut members: Vec<MatchMember<'a>>, depth: usize) -> Self {
        let has_dot = |name: &str| depth > 0 && name.contains('.');
        let has_dots = members.iter().any(|(name, _)| has_dot(name));
        if has_dots {
            for (name, value) in &mut members {
                if has_dot(name)
                    && let (head, Some(rest)) = split(std::mem::take(name))
                {
                    let below = MatchObject(vec![(rest, std::mem::replace(value, MatchValue::Null))]);
                    (*name, *value) = (head, MatchValue::Object(below));
                }
            }
        }
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        // A text of one megabyte can have as many objects, and room for further members would be most of them.
        if !has_dots && members.is_sorted_by(|(one, _), (next, _)| one < next) {
            members.shrink_to_fit();
            return Self(members);
        }
        let names = members.chunk_by(|(one, _), (next, _)| one == next).count();
        let mut all: Vec<MatchMember<'a>> = Vec::with_capacity(names);
        let mut members = members.into_iter().peekable();
        while let Some((name, value)) = members.next() {
            let mut values = vec![value];
            while let Some((_, value)) = members.next_if(|(next, _)| *next == name) {
                values.push(value);
            }
            all.push((name, together(values, depth.saturating_sub(1))));
        }
        Self(all)
    }

    pub(super) fn get(&self, name: &str) -> Option<&MatchValue<'a>> {
        let found = self.0.binary_search_by(|(other, _)| other.as_ref().cmp(name)).ok()?;
        self.0.get(found).map(|(_, value)| value)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = (&str, &MatchValue<'a>)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn dots(name: &str) -> usize {
    name.bytes().filter(|byte| *byte == b'.').count()
}

/// Splits a name at its first dot.
fn split(name: Cow<'_, str>) -> (Cow<'_, str>, Option<Cow<'_, str>>) {
    match name {
        Cow::Borrowed(name) => match name.split_once('.') {
            Some((head, rest)) => (head.into(), Some(rest.into())),
            None => (name.into(), None),
        },
        Cow::Owned(name) => match name.split_once('.') {
            Some((head, rest)) => (head.to_owned().into(), Some(rest.to_owned().into())),
            None => (name.into(), None),
        },
    }
}

/// Puts the values of members of the same path together.
fn together(values: Vec<MatchValue<'_>>, depth: usize) -> MatchValue<'_> {
    let (mut members, mut others, mut has_object) = (Vec::new(), Vec::new(), false);
    let flat = |value| if let MatchValue::Several(all) = value { all } else { vec![value] };
    for value in values.into_iter().flat_map(flat) {
        match value {
            MatchValue::Object(MatchObject(more)) => {
                has_object = true;
                members.extend(more);
            }
            other => others.push(other),
        }
    }
    if has_object {
        others.push(MatchValue::Object(MatchObject::within(members, depth)));
    }
    match (others.pop(), others.is_empty()) {
        (Some(only), true) => only,
        (last, _) => MatchValue::Several(others.into_iter().chain(last).collect()),
    }
}

/// A reader of a text that is known to be JSON.
struct JsonReader<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> JsonReader<'a> {
    /// Reads the next value, nested `depth` levels at most.
    fn value(&mut self, depth: usize) -> Option<MatchValue<'a>> {
        match self.next()? {
            b'{' => self.object(depth.checked_sub(1)?),
            b'[' => self.list(depth.checked_sub(1)?),
            b'"' => self.text().map(MatchValue::Text),
            _ => match self.word()? {
                "null" => Some(MatchValue::Null),
                "true" => Some(MatchValue::Bool(true)),
                "false" => Some(MatchValue::Bool(false)),
                number => Some(MatchValue::Number(number.into())),
            },
        }
    }

    fn object(&mut self, depth: usize) -> Option<MatchValue<'a>> {
        let mut members = Vec::new();
        self.at += 1;
        while self.next()? != b'}' {
            let name = self.text()?;
            // Each dot is a level too: the whole is no deeper than any other document.
            let below = depth.saturating_sub(dots(&name));
            members.push((name, self.value(below)?));
        }
        self.at += 1;
        Some(MatchValue::Object(MatchObject::within(members, depth)))
    }

    fn list(&mut self, depth: usize) -> Option<MatchValue<'a>> {
        let mut values = Vec::new();
        self.at += 1;
        while self.next()? != b']' {
            values.push(self.value(depth)?);
        }
        self.at += 1;
        Some(MatchValue::List(values))
    }

    /// Returns the next byte that means something. Where commas and colons stand is known already.
    fn next(&mut self) -> Option<u8> {
        loop {
            let byte = *self.json.as_bytes().get(self.at)?;
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    fn word(&mut self) -> Option<&'a str> {
        let rest = self.json.get(self.at..)?;
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let length = rest.bytes().take_while(is_part).count();
        self.at += length;
        rest.get(..length).filter(|word| !word.is_empty())
    }

    /// Reads a text. A half of a surrogate pair is none.
    fn text(&mut self) -> Option<Cow<'a, str>> {
        let rest = self.json.get(self.at..)?;
        let (mut length, mut is_plain) = (1, true);
        loop {
            match rest.as_bytes().get(length)? {
                b'"' => break,
                b'\\' => (length, is_plain) = (length + 2, false),
                _ => length += 1,
            }
        }
        self.at += length + 1;
        if is_plain {
            return rest.get(1..length).map(Cow::Borrowed);
        }
        serde_json::from_str::<String>(rest.get(..=length)?).ok().map(Cow::Owned)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redrive_testing::holds;

    use super::*;

    fn shown(seen: &MatchValue<'_>) -> String {
        match seen {
            MatchValue::Null => "null".to_owned(),
            MatchValue::Bool(is) => is.to_string(),
            MatchValue::Number(number) => number.to_string(),
            MatchValue::Text(text) => format!("{text:?}"),
            MatchValue::List(all) => format!("[{}]", all.iter().map(shown).collect::<Vec<_>>().join(",")),
            MatchValue::Several(all) => format!("<{}>", all.iter().map(shown).collect::<Vec<_>>().join(",")),
            MatchValue::Object(object) => {
                let members = object.members().map(|(name, value)| format!("{name}:{}", shown(value)));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }
        }
    }

    /// A letter of the greatest size must fit into the function's memory, whatever its names look like.
    #[test]
    fn objects_have_no_room_for_more_members_than_they_have() {
        fn is_tight(seen: &MatchValue<'_>) -> bool {
            match seen {
                MatchValue::Object(MatchObject(members)) => {
                    members.capacity() == members.len() && members.iter().all(|(_, value)| is_tight(value))
                }
                MatchValue::List(all) | MatchValue::Several(all) => all.iter().all(is_tight),
                _ => true,
            }
        }
        let dots = ".".repeat(120);
        for json in [
            format!(r#"{{"1{dots}":1,"2{dots}":1,"3{dots}":1}}"#),
            format!(r#"{{"a{dots}":1,"a{dots}b":{{"c":1}},"a":{{"":{{"x":1}}}}}}"#),
            r#"[{"a":1},{"b":{"c":{}}},{"c":1,"b":2,"a":3}]"#.to_owned(),
        ] {
            assert!(is_tight(&MatchValue::read(&json).unwrap()), "{json}");
        }
    }

    #[test]
    fn a_text_is_read_with_its_numbers_as_they_were_written() {
        for (json, expected) in [
            (" [ 1.50e+3 , -0, 12345678901234567890123 ] ", "[1.50e+3,-0,12345678901234567890123]"),
            (r#"{"b":"\u00e9\"\\","a":[null,true,{"c":false}]}"#, r#"{a:[null,true,{c:false}],b:"é\"\\"}"#),
            (r#"{"":{"":1}}"#, "{:{:1}}"),
            ("[[],{}]", "[[],{}]"),
        ] {
            assert_eq!(MatchValue::read(json).map(|seen| shown(&seen)).as_deref(), Some(expected), "{json}");
        }
    }

    #[test]
    fn members_of_the_same_path_are_one_member() {
        for (json, expected) in [
            (r#"{"a.b":1}"#, "{a:{b:1}}"),
            (r#"{"a.b":1,"a.c":2,"a":{"d":3}}"#, "{a:{b:1,c:2,d:3}}"),
            (r#"{"a.b.c":1,"a.b":{"d":2},"a":{"b.e":3}}"#, "{a:{b:{c:1,d:2,e:3}}}"),
            (r#"{"a":1,"a.b":2}"#, "{a:<1,{b:2}>}"),
            (r#"{"a":[1],"a":2,"a":{"b":3}}"#, "{a:<[1],2,{b:3}>}"),
            (r#"{"a":{"b":1,"b.c":2},"a.b.d":3}"#, "{a:{b:<1,{c:2,d:3}>}}"),
            (r#"{"a..b":1,"a":{"":{"c":2}}}"#, "{a:{:{b:1,c:2}}}"),
            (r#"{"a\u002eb":1}"#, "{a:{b:1}}"),
        ] {
            assert_eq!(MatchValue::read(json).map(|seen| shown(&seen)).as_deref(), Some(expected), "{json}");
        }
    }

    #[test]
    fn a_text_is_json_where_serde_json_says_so() {
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(MatchValue::read(&deep(127)).is_some() && MatchValue::read(&deep(128)).is_none());
        for text in ["", "{", "nul", "[1,]", "1 2", "\"\\ud800\"", "{\"a\":}", "01", "+1", "\u{0}"] {
            assert_eq!(MatchValue::read(text), None, "{text:?}");
        }
        assert!(
            MatchValue::read(&format!("{{\"{}\":1}}", ".".repeat(200_000))).is_some(),
            "dots are no nesting"
        );
        let text = prop::collection::vec(
            prop::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"", "\\", "a.b", "1", "e", "-", "null", " ", "é",
            ]),
            0..12,
        );
        holds(4_000, &text, |parts| {
            let text = parts.concat();
            let is_json = serde_json::from_str::<Value>(&text).is_ok();
            prop_assert_eq!(MatchValue::read(&text).is_some(), is_json, "{}", text);
            Ok(())
        });
    }
}
