//! Reading a pattern. Every fault of it is told, with its path.

use super::address::AddressRange;
use super::decimal::Decimal;
use super::draft::{DraftLeaf, PatternDraft};
use super::json_view::{MatchObject, MatchValue};
use super::kinds::{FieldKind, OPERATORS};
use super::pattern::Pattern;
use super::values::{NumberRange, WantedValue, WantedValues};
use super::wildcard::Wildcard;
use crate::policy::fields::FaultCollector;

/// The largest number of combinations of the alternatives of `$or`.
const MAX_COMBINATIONS: usize = 1_000;

/// The largest number of fields that a pattern has when each combination is written out, which is also how many of
/// them can be looked for in each element of a letter's list.
const MAX_FIELDS: usize = 10_000;

/// The name of a choice between objects.
pub(in crate::policy) const OR: &str = "$or";

/// Reads a pattern over letters, of these fields. Its faults are noted, and what it returns with faults is of no use.
pub(super) fn compile(
    pattern: &MatchValue<'_>,
    fields: FieldKind,
    faults: &FaultCollector,
    path: &str,
) -> Pattern {
    let reader = PatternReader { faults };
    let mut draft = PatternDraft::default();
    match pattern {
        MatchValue::Object(object) if !object.is_empty() => {
            draft = reader.object(object, fields, path, false);
        }
        _ => reader.fault(path, "must be an object with at least one field"),
    }
    let (combinations, fields) = draft.combinations();
    let too_many = if combinations > MAX_COMBINATIONS {
        Some(format!("has more than {MAX_COMBINATIONS} combinations of its alternatives of {OR}"))
    } else if fields > MAX_FIELDS {
        Some(format!("has more than {MAX_FIELDS} fields, with its alternatives of {OR} written out"))
    } else {
        None
    };
    if let Some(problem) = too_many {
        reader.fault(path, problem);
        return Pattern::default();
    }
    // Whether an absent field is looked for in all elements of a list depends on the fields beside it.
    let written_out = draft.has_absent() && draft.has_choice();
    let draft = if written_out { draft.written_out() } else { draft.settled() };
    draft.map_or_else(
        |twice| {
            reader.fault(
                &join(path, &twice),
                "is asked for twice, by a field and by an alternative of $or beside it",
            );
            Pattern::default()
        },
        Pattern::of,
    )
}

/// A reader of a pattern.
struct PatternReader<'f> {
    faults: &'f FaultCollector,
}

impl PatternReader<'_> {
    fn fault(&self, path: &str, problem: impl Into<String>) {
        self.faults.note(path, problem);
    }

    fn object(&self, object: &MatchObject<'_>, kind: FieldKind, path: &str, in_or: bool) -> PatternDraft {
        let mut draft = PatternDraft::default();
        if object.is_empty() {
            self.fault(path, "holds an empty object");
        }
        for (name, value) in object.members() {
            let at = join(path, name);
            if name == OR {
                draft.choices.extend(self.alternatives(value, kind, &at));
            } else if in_or && OPERATORS.contains(&name) {
                self.fault(&at, format!("is an operator's name, which no field in {OR} may have"));
            } else {
                match kind.field(name) {
                    Ok(kind) => {
                        draft.fields.insert(name.to_owned(), self.field(value, kind, &at, in_or));
                    }
                    Err(problem) => self.fault(path, problem),
                }
            }
        }
        draft
    }

    /// Reads the alternatives of `$or`, of which there are two or more.
    fn alternatives(&self, value: &MatchValue<'_>, kind: FieldKind, path: &str) -> Option<Vec<PatternDraft>> {
        let all = if let MatchValue::List(all) = value { all.as_slice() } else { &[] };
        let objects = all
            .iter()
            .map_while(|one| if let MatchValue::Object(object) = one { Some(object) } else { None });
        let objects: Vec<_> = objects.collect();
        if objects.len() < all.len() || all.len() < 2 {
            self.fault(path, "must be a list of two objects or more");
            return None;
        }
        let read = |(n, object): (usize, &&MatchObject<'_>)| {
            self.object(object, kind, &format!("{path}[{n}]"), true)
        };
        Some(objects.iter().enumerate().map(read).collect())
    }

    fn field(&self, value: &MatchValue<'_>, kind: FieldKind, path: &str, in_or: bool) -> PatternDraft {
        match value {
            MatchValue::Object(object) => self.object(object, kind, path, in_or),
            MatchValue::List(list) => {
                PatternDraft { leaf: self.leaf(list, kind, path), ..PatternDraft::default() }
            }
            // A name and longer ones that begin with it and a dot.
            MatchValue::Several(all)
                if all.iter().filter(|one| !matches!(one, MatchValue::Object(_))).count() < 2 =>
            {
                let mut whole = PatternDraft::default();
                for part in all.iter().map(|one| self.field(one, kind, path, in_or)) {
                    whole.leaf = whole.leaf.or(part.leaf);
                    whole.fields.extend(part.fields);
                    whole.choices.extend(part.choices);
                }
                whole
            }
            MatchValue::Several(_) => {
                self.fault(path, "stands there twice");
                PatternDraft::default()
            }
            other => {
                let told = told(other);
                self.fault(path, format!("must be a list of values, such as [{told}], not {told}"));
                PatternDraft::default()
            }
        }
    }

    fn leaf(&self, list: &[MatchValue<'_>], kind: FieldKind, path: &str) -> Option<DraftLeaf> {
        if let Some(problem) = kind.refuses_list() {
            self.fault(path, problem);
            return None;
        }
        if list.is_empty() {
            self.fault(path, "holds an empty list");
        }
        let entries = list.iter().filter_map(|entry| {
            let read = entry_of(entry, kind);
            read.map_err(|problem| self.fault(path, problem)).ok()
        });
        let entries: Vec<_> = entries.collect();
        let absent = entries.contains(&WantedValue::Absent);
        let is_plain = kind.is_plain();
        let values = WantedValues::of(entries, false).into();
        Some(DraftLeaf { values, absent: absent && !is_plain, may_miss: absent && is_plain })
    }
}

/// Reads an entry of a field's list.
fn entry_of(entry: &MatchValue<'_>, kind: FieldKind) -> Result<WantedValue, String> {
    let checked = |wanted: WantedValue| kind.refuses(&wanted, &told(entry)).map_or(Ok(wanted), Err);
    let operator = match entry {
        MatchValue::Object(operator) => operator,
        MatchValue::List(_) | MatchValue::Several(_) => return Err("holds a list in a list".to_owned()),
        value => return checked(value_of(value)),
    };
    let mut members = operator.members();
    let (Some((name, argument)), None) = (members.next(), members.next()) else {
        return Err(
            "holds an object in a list that is not exactly one operator, such as {\"prefix\": \"overrides\"}"
                .to_owned(),
        );
    };
    let bad = |problem: &str| format!("{name} {problem}");
    let wanted = match (name, argument) {
        ("exists", MatchValue::Bool(exists)) => {
            Ok(if *exists { WantedValue::Exists } else { WantedValue::Absent })
        }
        ("exists", other) => Err(format!("must be true or false, not {}", told(other))),
        ("numeric", MatchValue::List(terms)) => range_of(terms).map(WantedValue::Numeric),
        ("numeric", other) => {
            Err(format!("must be a list such as [\">\", 5, \"<=\", 10], not {}", told(other)))
        }
        ("anything-but", argument) => return excluded(argument, kind).map_err(|problem| bad(&problem)),
        ("prefix" | "suffix", MatchValue::Object(_)) => case_of(name, argument),
        (name, MatchValue::Text(text)) => text_operator(name, text),
        (name, other) if OPERATORS.contains(&name) => Err(format!("must be a text, not {}", told(other))),
        _ => Err(unknown()),
    };
    checked(wanted.map_err(|problem| bad(&problem))?)
}

fn unknown() -> String {
    format!("is no operator; operators are {}", OPERATORS.join(", "))
}

fn value_of(value: &MatchValue<'_>) -> WantedValue {
    match value {
        MatchValue::Bool(is) => WantedValue::Bool(*is),
        MatchValue::Number(number) => WantedValue::Number(Decimal::of(number)),
        MatchValue::Text(text) => WantedValue::Text(text.to_string()),
        _ => WantedValue::Null,
    }
}

/// Reads an operator whose argument is a text.
fn text_operator(name: &str, text: &str) -> Result<WantedValue, String> {
    let owned = text.to_owned();
    Ok(match name {
        "exactly" => WantedValue::Text(owned),
        "prefix" => WantedValue::Prefix(owned),
        "suffix" => WantedValue::Suffix(owned),
        "equals-ignore-case" => WantedValue::EqualsIgnoreCase(owned),
        "wildcard" => WantedValue::Wildcard(Wildcard::of(text)?),
        "cidr" => match AddressRange::of(text) {
            Some(network) => WantedValue::Cidr(network),
            None => return Err(format!("must be a range such as \"10.0.0.0/24\", not {text:?}")),
        },
        _ => return Err(unknown()),
    })
}

/// Reads the argument of `prefix` and `suffix` that is an operator.
fn case_of(name: &str, argument: &MatchValue<'_>) -> Result<WantedValue, String> {
    let inner = if let MatchValue::Object(object) = argument { only(object) } else { None };
    match (name, inner) {
        ("prefix", Some(("equals-ignore-case", MatchValue::Text(text)))) => {
            Ok(WantedValue::PrefixOfAnyCase(text.to_string()))
        }
        (_, Some(("equals-ignore-case", MatchValue::Text(text)))) => {
            Ok(WantedValue::SuffixOfAnyCase(text.to_string()))
        }
        _ => Err("must be a text, or {\"equals-ignore-case\": \"text\"}".to_owned()),
    }
}

fn only<'o>(object: &'o MatchObject<'_>) -> Option<(&'o str, &'o MatchValue<'o>)> {
    let mut members = object.members();
    members.next().filter(|_| members.next().is_none())
}

/// Returns the elements of a list, or a value as the only one.
fn elements<'s, 'a>(value: &'s MatchValue<'a>) -> &'s [MatchValue<'a>] {
    if let MatchValue::List(all) = value { all } else { std::slice::from_ref(value) }
}

/// Reads the argument of `anything-but`.
fn excluded(argument: &MatchValue<'_>, kind: FieldKind) -> Result<WantedValue, String> {
    let (name, values) = match argument {
        MatchValue::Object(operator) => match only(operator) {
            Some((name @ ("prefix" | "suffix" | "equals-ignore-case" | "wildcard"), inner)) => {
                (Some(name), elements(inner))
            }
            _ => return Err("takes prefix, suffix, equals-ignore-case or wildcard as an operator".to_owned()),
        },
        argument => (None, elements(argument)),
    };
    let read = |value: &MatchValue<'_>| -> Result<WantedValue, String> {
        let wanted = match (name, value) {
            (Some("prefix" | "suffix"), MatchValue::Text(text)) if text.is_empty() => {
                return Err("excludes everything: its text is empty".to_owned());
            }
            (Some(name), MatchValue::Text(text)) => {
                text_operator(name, text).map_err(|problem| format!("{name} {problem}"))?
            }
            (None, MatchValue::Text(_) | MatchValue::Number(_)) => value_of(value),
            (Some(name), other) => {
                return Err(format!("{name} must be a text or a list of texts, not {}", told(other)));
            }
            (None, other) => {
                return Err(format!("must be a text, a number, or a list of either, not {}", told(other)));
            }
        };
        let told = name.map_or_else(|| told(value), |name| format!("{name} {}", told(value)));
        kind.refuses(&wanted, &told)
            .map_or(Ok(wanted), |problem| Err(format!("names what the field never is: it {problem}")))
    };
    let wanted = values.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let numbers = wanted.iter().filter(|wanted| matches!(wanted, WantedValue::Number(_))).count();
    if wanted.is_empty() || (numbers > 0 && numbers < wanted.len()) {
        return Err("must be a text, a number, or a list of either, without mixing them".to_owned());
    }
    Ok(WantedValue::AnythingBut(WantedValues::of(wanted, true)))
}

/// Reads the argument of `numeric`.
fn range_of(terms: &[MatchValue<'_>]) -> Result<NumberRange, String> {
    let form =
        "must be one of =, <, <=, >, >= and a number, or > or >= and a number, then < or <= and a number";
    let mut range = NumberRange::default();
    for (n, term) in terms.chunks(2).enumerate() {
        let [MatchValue::Text(sign), MatchValue::Number(number)] = term else { return Err(form.to_owned()) };
        let number = Decimal::of(number);
        match (n, sign.as_ref()) {
            (0, "=") if terms.len() == 2 => {
                range = NumberRange { low: Some((number.clone(), true)), high: Some((number, true)) };
            }
            (0, ">" | ">=") => range.low = Some((number, sign == ">=")),
            (0, "<" | "<=") if terms.len() == 2 => range.high = Some((number, sign == "<=")),
            (1, "<" | "<=") => range.high = Some((number, sign == "<=")),
            _ => return Err(form.to_owned()),
        }
    }
    match terms {
        [] => Err(form.to_owned()),
        _ if range.is_empty() => {
            Err("excludes every number: its first one must be below its second".to_owned())
        }
        _ => Ok(range),
    }
}

/// Returns a value for an error message.
fn told(value: &MatchValue<'_>) -> String {
    match value {
        MatchValue::Null => "null".to_owned(),
        MatchValue::Bool(is) => is.to_string(),
        MatchValue::Number(number) => number.to_string(),
        MatchValue::Text(text) => format!("{text:?}"),
        MatchValue::List(all) if all.len() <= 4 => {
            format!("[{}]", all.iter().map(told).collect::<Vec<_>>().join(", "))
        }
        MatchValue::List(_) | MatchValue::Several(_) => "a list".to_owned(),
        MatchValue::Object(object) => match only(object) {
            Some((name, argument)) if OPERATORS.contains(&name) => format!("{name} {}", told(argument)),
            _ => "an object".to_owned(),
        },
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
