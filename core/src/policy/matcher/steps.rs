//! The steps that matching takes, and how many letters and batches may take.

use serde_json::Value;

use super::{Matcher, View};

/// The largest number of steps for matching one letter. If several fields of a pattern name lists, every
/// combination of their entries is tried, and after each entry that matches the matcher goes through all
/// values that any pattern names, and searches a long text once more. Without a bound, a small message could
/// keep the function busy until Lambda ends it, and every other letter of its batch with it. A step took 45 ns of
/// a whole processor at most where it was measured, and 1 ns mostly.
pub(super) const MAX_STEPS: usize = 10_000_000;

/// The same bound for the pattern of one order. All orders together have that of a letter, which is less than a
/// batch has: else a letter of many orders would be put off for ever.
pub(super) const MAX_STEPS_OF_ORDER: usize = 1_000_000;

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

/// A field of a pattern.
pub(super) struct Field {
    /// Its position among the paths.
    pub(super) path: usize,
    pub(super) cost: Cost,
}

/// What it costs to match a value against a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
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
    pub(in crate::policy) fn of_letter(&mut self) -> StepsOfLetter<'_> {
        StepsOfLetter { most: MAX_STEPS, free: FREE_STEPS, batch: self }
    }
}

/// The steps that are left for matching a letter: some of its own, then those that it shares with others.
pub(in crate::policy) struct StepsOfLetter<'b> {
    /// The steps that it may still take in all.
    pub(super) most: usize,
    free: usize,
    batch: &'b mut MatchingSteps,
}

impl StepsOfLetter<'_> {
    /// Takes steps. Returns `false` if too few are left.
    pub(super) fn take(&mut self, steps: usize) -> bool {
        let from = if steps <= self.free { &mut self.free } else { &mut self.batch.0 };
        let left = from.checked_sub(steps);
        *from = left.unwrap_or(*from);
        left.is_some()
    }
}

impl Matcher {
    /// Returns the steps that a view's lists add to matching it, at most. The matcher also tries the first fields
    /// of a combination whose other fields do not match, and each way in which a value matches.
    pub(super) fn steps(&self, view: &View) -> usize {
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
}

/// Returns the paths of a pattern's fields, each with what it costs.
pub(super) fn fields_of(pattern: &Value) -> Vec<(Vec<String>, Cost)> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
