//! The search for the rule that a letter falls under: `EventBridge` patterns over a JSON view of the letter.
//!
//! The pattern language is the one that users know from SNS filter policies and `EventBridge` rules; the
//! crate `quamina` compiles all patterns into one automaton, so many rules cost little more than one.
//! Source: <https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-pattern-operators.html>

use std::fmt;

use quamina::{Quamina, QuaminaBuilder, QuaminaError};
use serde_json::{Value, json};

use crate::letter::{Attribute, Attributes, Cause, Letter, MARK_ATTRIBUTE};

/// The fields of the view. A pattern over any other field could never match.
const VIEW: [&str; 10] = [
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

/// The largest number of steps for matching one letter. If several fields of a pattern name lists, every
/// combination of their entries is tried, and after each entry that matches the matcher goes through all
/// values that any pattern names, and searches a long text once more. Without a bound, a small message could
/// keep the function busy until Lambda ends it, and every other letter of its batch with it. A step took 45 ns of
/// a whole processor at most where it was measured, and 1 ns mostly.
const MAX_STEPS: usize = 10_000_000;

/// The same bound for the pattern of one order. All orders together have that of a letter, which is less than a
/// batch has: else a letter of many orders would be put off for ever.
const MAX_STEPS_OF_ORDER: usize = 1_000_000;

/// The largest number of steps for matching the letters of one batch, which can hold some hundred letters that
/// take as many as one may take. A function with 256 MB has a seventh of a processor: ten seconds at most for
/// the rules, and as much for the orders, which are matched once more before a letter goes.
const STEPS_OF_BATCH: usize = 30_000_000;

/// The number of steps that a letter may take whatever the others took: ten thousand such letters, the largest
/// batch, take no longer than those of [`STEPS_OF_BATCH`].
const FREE_STEPS: usize = 3_000;

/// The states at a byte of a text that take as long as a step.
const STATES_OF_STEP: usize = 2;

/// The places in lists of lists that are compared in the time of a step.
const PLACES_OF_STEP: usize = 16;

/// The bytes of a text without `*` in a `wildcard` that cost as much as a `*`.
const BYTES_OF_STATE: usize = 16;

/// Stands for the dots in names: `quamina` takes a dot for the beginning of a nested name.
const DOT: &str = "\u{e000}";

/// A field that every view has and every pattern asks for, the last of all by its name. `quamina` finds a
/// pattern that asks for several absent fields, or for one behind the last that is there, only if another
/// follows that is there.
const LAST: &str = "~";

/// The largest size of the automaton of one field of an order's pattern, in bytes: a list of a thousand short
/// texts. The time for compiling grows with this size.
const MAX_ORDER_BYTES: usize = 1_000_000;

/// The largest number of states of an order's pattern. States multiply if several fields each name values of
/// several kinds.
const MAX_ORDER_STATES: usize = 100;

/// The owner of the patterns that are matched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Of {
    /// A policy, whose patterns are compiled once in the life of an instance.
    #[default]
    Rules,
    /// One order, whose pattern is compiled while letters wait.
    Order,
}

/// Compiled patterns.
#[derive(Default)]
pub(super) struct Matcher {
    of: Of,
    patterns: Option<Quamina<usize>>,
    /// Each pattern by itself, with its rule. Together, `quamina` takes a text for another one that only one of
    /// several patterns takes for the same, as by `equals-ignore-case`.
    alone: Vec<(usize, Quamina<usize>)>,
    /// The paths of the fields that patterns name.
    paths: Vec<Vec<String>>,
    /// The fields of each pattern.
    fields: Vec<Vec<Field>>,
}

/// A field of a pattern.
struct Field {
    /// Its position among the paths.
    path: usize,
    cost: Cost,
}

/// What it costs to match a value against a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cost {
    /// The ways in which one value can match: any exact one, and each operator.
    ways: usize,
    /// The states in which the matcher may be at each byte of a text, if an operator searches the whole text.
    states: usize,
}

/// The values of a letter at the path of a field.
#[derive(Debug, Clone, Copy, Default)]
struct Values {
    count: usize,
    /// The bytes of the texts among them.
    bytes: usize,
    /// The lists that one of them is in, at most.
    depth: usize,
}

impl Values {
    fn and(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            bytes: self.bytes + other.bytes,
            depth: self.depth.max(other.depth),
        }
    }
}

/// A letter as patterns see it.
#[derive(Debug)]
pub(super) struct View {
    value: Value,
    json: String,
}

impl View {
    /// Returns the letter with the fields that these patterns need.
    pub(super) fn of(letter: &Letter, patterns: &[&Matcher]) -> Self {
        let about = |field: &str| patterns.iter().any(|matcher| matcher.names(field));
        Self::from(view(letter, about))
    }
}

impl From<Value> for View {
    fn from(mut value: Value) -> Self {
        rename(&mut value);
        if let Some(fields) = value.as_object_mut() {
            fields.insert(LAST.to_owned(), true.into());
        }
        Self { json: value.to_string(), value }
    }
}

/// A letter that cannot be matched against the patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", Self::DETAIL)]
pub struct Unmatchable;

/// The steps that are left for matching the letters of a batch.
#[derive(Debug)]
pub struct MatchingSteps(usize);

impl Default for MatchingSteps {
    fn default() -> Self {
        Self(STEPS_OF_BATCH)
    }
}

impl MatchingSteps {
    /// Returns any number of steps, for letters that were matched before.
    pub(crate) fn any() -> Self {
        Self(usize::MAX)
    }

    /// Begins with a letter.
    pub(super) fn of_letter(&mut self) -> StepsOfLetter<'_> {
        StepsOfLetter { most: MAX_STEPS, free: FREE_STEPS, batch: self }
    }
}

/// The steps that are left for matching a letter: some of its own, then those that it shares with others.
pub(super) struct StepsOfLetter<'b> {
    /// The steps that it may still take in all.
    most: usize,
    free: usize,
    batch: &'b mut MatchingSteps,
}

impl StepsOfLetter<'_> {
    /// Takes steps. Returns `false` if too few are left.
    fn take(&mut self, steps: usize) -> bool {
        let from = if steps <= self.free { &mut self.free } else { &mut self.batch.0 };
        let left = from.checked_sub(steps);
        *from = left.unwrap_or(*from);
        left.is_some()
    }
}

impl Unmatchable {
    /// The reason, in words.
    pub(super) const DETAIL: &str = "the letter's lists are too long to match them against a pattern";
}

impl Of {
    fn quamina(self) -> Result<Quamina<usize>, QuaminaError> {
        match self {
            Self::Rules => Ok(Quamina::new()),
            Self::Order => QuaminaBuilder::new()
                .with_arena_byte_budget(MAX_ORDER_BYTES)
                .with_max_states_per_pattern(MAX_ORDER_STATES)
                .build(),
        }
    }

    fn max_steps(self) -> usize {
        match self {
            Self::Rules => MAX_STEPS,
            Self::Order => MAX_STEPS_OF_ORDER,
        }
    }
}

impl Matcher {
    /// Creates a matcher without patterns.
    pub(super) fn new(of: Of) -> Self {
        Self { of, ..Self::default() }
    }

    /// Adds the pattern of a rule. An error says in words what is wrong with the pattern.
    pub(super) fn add(&mut self, rule: usize, pattern: &Value) -> Result<(), String> {
        let Some(fields) = pattern.as_object().filter(|fields| !fields.is_empty()) else {
            return Err("must be an object with at least one field".to_owned());
        };
        if let Some(unknown) = fields.keys().find(|key| !VIEW.contains(&key.as_str())) {
            return Err(format!("has no field {unknown:?}; fields of a letter are {}", VIEW.join(", ")));
        }
        if let Some(mistake) = mistake(pattern) {
            return Err(mistake.to_owned());
        }
        let bad = |error: QuaminaError| match error {
            QuaminaError::PatternTooComplex(why) => format!("is too large for a pattern: {why}"),
            error => format!("is not a pattern: {error}"),
        };
        let mut pattern = pattern.clone();
        rename(&mut pattern);
        let mut fields = fields_of(&pattern);
        // A field is matched before those whose paths follow, so only lists in earlier ones repeat its work.
        fields.sort_by_cached_key(|(path, _)| path.join("\n"));
        if let Some(fields) = pattern.as_object_mut() {
            fields.insert(LAST.to_owned(), json!([{ "exists": true }]));
        }
        let pattern = pattern.to_string();
        let mut patterns = self.patterns.take().map_or_else(|| self.of.quamina(), Ok).map_err(bad)?;
        let added = patterns.add_pattern(rule, &pattern);
        self.patterns = Some(patterns);
        added.map_err(bad)?;
        // An order's is alone in its matcher, and is compiled while letters wait.
        if self.of == Of::Rules {
            let mut alone = self.of.quamina().map_err(bad)?;
            alone.add_pattern(rule, &pattern).map_err(bad)?;
            self.alone.push((rule, alone));
        }
        let position = |(path, cost): (Vec<String>, Cost)| {
            let known = self.paths.iter().position(|known| *known == path);
            let path = known.unwrap_or_else(|| {
                self.paths.push(path);
                self.paths.len() - 1
            });
            Field { path, cost }
        };
        self.fields.push(fields.into_iter().map(position).collect());
        Ok(())
    }

    /// Returns the first rule whose pattern matches.
    pub(super) fn first(&self, letter: &Letter) -> Result<Option<usize>, Unmatchable> {
        Ok(self.matching_view(&View::of(letter, &[self]))?.into_iter().min())
    }

    /// Returns the first rule whose pattern matches, or `None` if too few steps are left.
    pub(super) fn first_within(
        &self,
        letter: &Letter,
        left: &mut MatchingSteps,
    ) -> Option<Result<Option<usize>, Unmatchable>> {
        let found = self.matching_within(&View::of(letter, &[self]), &mut left.of_letter())?;
        Some(found.map(|found| found.into_iter().min()))
    }

    /// Returns all rules whose pattern matches a view, or `None` if too few steps are left.
    pub(super) fn matching_within(
        &self,
        view: &View,
        left: &mut StepsOfLetter<'_>,
    ) -> Option<Result<Vec<usize>, Unmatchable>> {
        let steps = self.steps(view);
        let Some(most) = left.most.checked_sub(steps).filter(|_| steps <= self.of.max_steps()) else {
            return Some(Err(Unmatchable));
        };
        left.most = most;
        left.take(steps).then(|| self.matching(view))
    }

    /// Returns all rules whose pattern matches a view.
    pub(super) fn matching_view(&self, view: &View) -> Result<Vec<usize>, Unmatchable> {
        if self.steps(view) > self.of.max_steps() {
            return Err(Unmatchable);
        }
        self.matching(view)
    }

    /// Returns all rules whose pattern matches a view, however many steps that takes.
    fn matching(&self, view: &View) -> Result<Vec<usize>, Unmatchable> {
        let Some(patterns) = &self.patterns else { return Ok(Vec::new()) };
        let view = view.json.as_bytes();
        let mut found = patterns.matches_for_event(view).map_err(|_| Unmatchable)?;
        if !found.is_empty() && self.alone.len() > 1 {
            let alone = self.alone.iter().filter(|(rule, _)| found.contains(rule));
            let sure = alone.filter_map(|(rule, alone)| match alone.has_matches(view) {
                Ok(matches) => matches.then_some(Ok(*rule)),
                Err(_) => Some(Err(Unmatchable)),
            });
            found = sure.collect::<Result<_, _>>()?;
        }
        Ok(found)
    }

    /// Returns the steps that a view's lists add to matching it, at most. The matcher also tries the first fields
    /// of a combination whose other fields do not match, and each way in which a value matches.
    fn steps(&self, view: &View) -> usize {
        let found: Vec<_> = self.paths.iter().map(|path| values(&view.value, path)).collect();
        let together = found.iter().copied().fold(Values::default(), Values::and);
        let pairs = together.count.saturating_mul((together.depth * together.depth / PLACES_OF_STEP).max(1));
        let mut steps = 0_usize;
        for fields in &self.fields {
            // The combinations of values, and those of a letter without lists, up to a field.
            let (mut tried, mut once) = (1_usize, 1_usize);
            for Field { path, cost } in fields {
                let states = found[*path].bytes.saturating_mul(cost.states);
                steps = steps.saturating_add((tried - once).saturating_mul(states) / STATES_OF_STEP);
                tried = tried.saturating_mul(found[*path].count.max(1)).saturating_mul(cost.ways);
                once = once.saturating_mul(cost.ways);
            }
            let combinations = (tried - once).saturating_mul(fields.len());
            steps = steps.saturating_add(combinations.saturating_mul(pairs));
        }
        steps
    }

    /// Reports whether a pattern names a field. Most name no message, which may be large and would be parsed
    /// and written for nothing.
    fn names(&self, field: &str) -> bool {
        let mut named = self.paths.iter().filter_map(|path| path.first());
        named.any(|name| name == field)
    }
}

/// Takes the dots out of all names.
fn rename(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.keys().any(|name| name.contains('.')) {
                let renamed = std::mem::take(fields).into_iter();
                *fields = renamed.map(|(name, value)| (name.replace('.', DOT), value)).collect();
            }
            fields.values_mut().for_each(rename);
        }
        Value::Array(values) => values.iter_mut().for_each(rename),
        _ => {}
    }
}

/// Returns the paths of a pattern's fields, each with what it costs.
fn fields_of(pattern: &Value) -> Vec<(Vec<String>, Cost)> {
    match pattern {
        Value::Object(fields) => {
            let below = |(name, value): (&String, &Value)| {
                let name = name.clone();
                let path = move |rest: Vec<String>| std::iter::once(name.clone()).chain(rest).collect();
                fields_of(value).into_iter().map(move |(rest, cost)| (path(rest), cost))
            };
            fields.iter().flat_map(below).collect()
        }
        Value::Array(values) => {
            let operators = values.iter().filter(|value| value.is_object()).count();
            let ways = operators + usize::from(operators < values.len());
            vec![(Vec::new(), Cost { ways, states: values.iter().map(states).sum() })]
        }
        _ => vec![(Vec::new(), Cost { ways: 1, states: 0 })],
    }
}

/// Returns the states in which the matcher may be at each byte of a text. Only two operators search all of a
/// text; the others end where it differs.
fn states(operator: &Value) -> usize {
    let text = |name: &str| operator.get(name).and_then(Value::as_str);
    let wildcard = |text: &str| text.matches('*').count() + text.len() / BYTES_OF_STATE;
    text("wildcard").map_or(0, wildcard) + text("regexp").map_or(0, states_of_regexp)
}

/// Returns the states of a `regexp`: one for each byte, and for each repetition of `{2,5}`. Groups may stand in
/// others, so their repetitions multiply.
fn states_of_regexp(text: &str) -> usize {
    let (mut states, mut times) = (text.len(), 1_usize);
    for (at, _) in text.match_indices('{') {
        let numbers = text[at + 1..].split('}').next().unwrap_or_default();
        let most = numbers.split(',').filter_map(|number| number.parse::<usize>().ok()).max().unwrap_or(1);
        if text[..at].ends_with(')') {
            times = times.saturating_mul(most.max(1));
        } else {
            states = states.saturating_add(most);
        }
    }
    states.saturating_mul(times)
}

/// Counts the values at a path. It looks through lists, as the matcher does.
fn values(value: &Value, path: &[String]) -> Values {
    match (value, path) {
        (Value::Array(all), _) => {
            let all = all.iter().map(|value| values(value, path)).fold(Values::default(), Values::and);
            Values { depth: all.depth + 1, ..all }
        }
        (Value::Object(fields), [name, rest @ ..]) => {
            fields.get(name).map_or(Values::default(), |value| values(value, rest))
        }
        (_, []) => Values { count: 1, bytes: value.as_str().map_or(0, str::len), depth: 0 },
        (_, _) => Values::default(),
    }
}

/// Returns the letter as patterns see it, with the fields that they are `about`. Fields that the letter does
/// not have are absent.
fn view(letter: &Letter, about: impl Fn(&str) -> bool) -> Value {
    let sns = letter.notification.as_ref();
    let attributes = sns.map_or(&letter.sqs.attributes, |sns| &sns.attributes);
    let value = |field: &str| match field {
        "origin" => Some(letter.origin.name().into()),
        "letterId" => Some(letter.id.as_str().into()),
        "queueArn" => Some(letter.dead_letter_queue().as_str().into()),
        "topicArn" => Some(letter.topic()?.as_str().into()),
        "subscriptionArn" => Some(letter.subscription()?.as_str().into()),
        "subject" => Some(sns?.subject.as_deref()?.into()),
        "messageAttributes" => Some(seen_attributes(attributes)),
        "message" => {
            let message = letter.message();
            Some(serde_json::from_str(&message).unwrap_or_else(|_| message.into()))
        }
        "retry" => Some(letter.earlier().into()),
        "error" => letter.cause.as_ref().map(error),
        _ => None,
    };
    let fields = VIEW.into_iter().filter(|field| about(field));
    Value::Object(fields.filter_map(|field| Some((field.to_owned(), value(field)?))).collect())
}

/// Returns the attributes without our mark, which comes and goes while the rule of a letter must not change.
fn seen_attributes(attributes: &Attributes) -> Value {
    let others = attributes.iter().filter(|(name, _)| *name != MARK_ATTRIBUTE);
    Value::Object(others.filter_map(|(name, value)| Some((name.clone(), seen(value)?))).collect())
}

/// Returns the original error. The parts that it does not have are absent.
fn error(cause: &Cause) -> Value {
    let parts = [("code", &cause.code), ("message", &cause.message)];
    let known = parts.into_iter().filter_map(|(name, part)| Some((name.to_owned(), part.as_deref()?.into())));
    Value::Object(known.collect())
}

/// Finds a mistake that `EventBridge` refuses and the matcher would ignore: a rule that names no topic by
/// mistake would apply to all of them.
fn mistake(pattern: &Value) -> Option<&'static str> {
    match pattern {
        Value::Object(fields) if fields.is_empty() => Some("holds an empty object"),
        Value::Object(fields) => fields.values().find_map(mistake),
        Value::Array(values) if values.is_empty() => Some("holds an empty list"),
        // The matcher would look at one of them only.
        Value::Array(values) if values.len() > 1 && values.iter().any(|value| value.get("exists").is_some()) => {
            Some("holds exists beside others in a list: write a rule for each")
        }
        Value::Array(values) => values.iter().find_map(|value| match value {
            Value::Array(_) => Some("holds a list in a list"),
            Value::Object(operator) if operator.len() != 1 => {
                Some("holds an object in a list that is not exactly one operator, such as {\"prefix\": \"orders\"}")
            }
            Value::Object(operator) if ["regex", "shellstyle"].iter().any(|name| operator.contains_key(*name)) => {
                Some("holds an operator that is not supported: use regexp for regex, and wildcard for shellstyle")
            }
            Value::Object(operator) => {
                let empty = |values: &Value| values.as_array().is_some_and(Vec::is_empty);
                operator.values().any(empty).then_some("holds an operator without values")
            }
            _ => None,
        }),
        _ => None,
    }
}

/// Returns an attribute's value as SNS filter policies see it. Binary values cannot be matched.
fn seen(attribute: &Attribute) -> Option<Value> {
    let text = attribute.text()?;
    let parsed = match attribute.data_type.as_str() {
        "Number" | "String.Array" => serde_json::from_str(text).ok(),
        _ => None,
    };
    Some(parsed.unwrap_or_else(|| Value::from(text)))
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.patterns.as_ref().map_or(0, Quamina::pattern_count);
        write!(f, "Matcher of {count} patterns")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_no_pattern_is_about_is_not_written_out() {
        let mut matcher = Matcher::default();
        matcher.add(0, &json!({ "topicArn": ["x"] })).unwrap();
        matcher.add(1, &json!({ "error": { "code": ["200"] } })).unwrap();
        let named: Vec<_> = VIEW.into_iter().filter(|field| matcher.names(field)).collect();
        assert_eq!(named, ["topicArn", "error"]);
    }

    #[test]
    fn a_view_takes_the_steps_that_its_lists_add() {
        let steps = |pattern: &Value, message: &Value| {
            let mut matcher = Matcher::default();
            matcher.add(0, &json!({ "message": pattern })).unwrap();
            matcher.steps(&View::from(json!({ "message": message })))
        };
        let searched = json!({ "a": ["x", { "prefix": "q" }], "b": [{ "wildcard": "*y*" }] });
        let [short, long] = [10, 20].map(|bytes| "y".repeat(bytes));
        assert_eq!(steps(&searched, &json!({ "a": "x", "b": long })), 0, "there is no list");
        // 9 more values, each before 10 values.
        assert_eq!(steps(&json!({ "a": ["x"] }), &json!({ "a": vec![1; 10] })), 9 * 10);
        // 30 bytes are searched in 2 states, 4 times more: 120 steps. 10 more combinations of 2 fields, each
        // before 5 values: 100 steps.
        assert_eq!(steps(&searched, &json!({ "a": ["x", "q", "z"], "b": [short, long] })), 120 + 100);
    }

    #[test]
    fn a_repetition_has_as_many_states_as_it_is_long() {
        for (regexp, states) in [("abc", 3), ("a{5}", 4 + 5), ("a{2,5}", 6 + 5), ("(a{2}){3}", (9 + 2) * 3)] {
            assert_eq!(states_of_regexp(regexp), states, "{regexp}");
        }
    }

    #[test]
    fn a_letter_takes_its_own_steps_before_those_of_its_batch() {
        let mut batch = MatchingSteps(10);
        for _ in 0..2 {
            assert!(batch.of_letter().take(FREE_STEPS));
        }
        let mut letter = batch.of_letter();
        assert_eq!(
            [FREE_STEPS, 1, 10, 9, 1].map(|steps| letter.take(steps)),
            [true, true, false, true, false]
        );
        assert!(MatchingSteps::any().of_letter().take(STEPS_OF_BATCH + 1));
    }
}
