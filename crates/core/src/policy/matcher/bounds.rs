//! Bounds of the steps that matching takes, whatever a letter holds.

use serde_json::{Value, json};

use super::compile::compile;
use super::json_view::{MatchObject, MatchValue};
use super::kinds::FieldKind;
use super::pattern::Pattern;
use super::steps;
use crate::policy::fields::FaultCollector;

const MAX_LETTER: usize = 256 * 1024;

fn pattern(of_message: &Value) -> Pattern {
    let faults = FaultCollector::default();
    let pattern =
        compile(&MatchValue::from(&json!({ "message": of_message })), FieldKind::Letter, &faults, "");
    assert_eq!(faults.into_inner(), []);
    pattern
}

/// Returns the number of values in JSON, of lists and objects too.
fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(all) => all.iter().map(size).sum(),
        Value::Object(fields) => fields.values().map(size).sum::<usize>(),
        _ => 0,
    }
}

/// Returns whether a message matches, and the steps that takes.
fn matched(pattern: &Pattern, message: &Value) -> (bool, usize) {
    let letter = MatchObject::of(vec![("message".into(), MatchValue::from(message))]);
    steps::taken();
    (pattern.matches(&letter), steps::taken())
}

/// Returns a list that makes a letter of the largest size together with others.
fn filled(element: &Value, share: usize) -> Value {
    vec![element.clone(); MAX_LETTER / share / (element.to_string().len() + 1)].into()
}

#[test]
fn each_value_of_a_letter_is_beside_one_place_of_a_pattern() {
    let exists = json!([{ "exists": true }]);
    let nested = |depth: usize, inner: Value| {
        (0..depth).fold(inner, |inner, _| json!([{ "a": inner.clone() }, { "a": inner, "b": 1 }]))
    };
    let deep = |depth: usize| (0..depth).fold(json!(["y"]), |inner, _| json!({ "a": inner, "b": [1] }));
    let lists = |element: &Value| json!({ "a": filled(element, 4), "b": filled(element, 4), "c": filled(element, 4), "d": filled(element, 4) });
    for (asked, message) in [
        // Any element of four lists, the last without one.
        (json!({ "a": ["x"], "b": ["x"], "c": ["x"], "d": ["y"] }), lists(&json!("x"))),
        (json!({ "a": exists, "b": exists, "c": exists, "d": [{ "exists": true }, "y"] }), lists(&json!(1))),
        // All fields of an element, of which only the last has all.
        (json!({ "a": { "b": exists, "c": exists } }), json!({ "a": filled(&json!({ "b": 1 }), 1) })),
        (
            json!({ "a": { "b": exists, "c": [{ "exists": false }] } }),
            json!({ "a": filled(&json!({ "b": 1, "c": 1 }), 1) }),
        ),
        (json!({ "a": { "c": [{ "exists": false }] } }), json!({ "a": filled(&json!({ "b": 1 }), 1) })),
        // Lists in lists.
        (deep(12), json!(nested(12, json!("x")))),
        (
            json!({ "a": ["y"] }),
            json!({ "a": (0..100).fold(filled(&json!("x"), 1), |inner, _| json!([inner])) }),
        ),
        // Names with dots.
        (
            json!({ "a": { "b": { "c": ["y"] } } }),
            json!((0..20_000).map(|n| (format!("a.b.c.{n}"), json!(n))).collect::<serde_json::Map<_, _>>()),
        ),
    ] {
        let (_, steps) = matched(&pattern(&asked), &message);
        let most = 3 * (size(&message) + size(&asked));
        assert!(steps <= most, "{asked}: {steps} of {most}");
    }
}

#[test]
fn twice_the_letter_or_twice_the_pattern_takes_twice_the_steps() {
    let wildcards =
        |count: usize| (0..count).map(|n| json!({ "wildcard": format!("*a*b*{n}*") })).collect::<Vec<_>>();
    let excluded = |count: usize| json!({ "anything-but": { "wildcard": (0..count).map(|n| format!("*{n}*")).collect::<Vec<_>>() } });
    let alternatives =
        |count: usize| (0..count).map(|n| json!({ "b": [n], "c": [{ "exists": true }] })).collect::<Vec<_>>();
    #[expect(clippy::type_complexity, reason = "a name, and what makes the letter and the pattern of a size")]
    let cases: [(&str, fn(usize) -> Value, &dyn Fn(usize) -> Value); 4] = [
        ("wildcards", |n| json!({ "a": vec!["abababababababab"; n] }), &|n| json!({ "a": wildcards(n) })),
        (
            "anything-but",
            |n| json!({ "a": vec!["abababababababab"; n] }),
            &|n| json!({ "a": [excluded(n)], "z": ["x"] }),
        ),
        (
            "alternatives",
            |n| json!({ "a": vec![json!({ "b": "x", "c": [1, 2, 3] }); n] }),
            &|n| json!({ "a": { "$or": alternatives(n) } }),
        ),
        (
            "alternatives above the list",
            |n| json!({ "a": vec![json!({ "b": "x", "c": [1, 2, 3] }); n] }),
            &|n| json!({ "$or": alternatives(n).into_iter().map(|one| json!({ "a": one })).collect::<Vec<_>>() }),
        ),
    ];
    for (name, message, asked) in cases {
        let steps =
            |letter: usize, of_pattern: usize| matched(&pattern(&asked(of_pattern)), &message(letter)).1;
        let once = steps(1_000, 50);
        for (twice, what) in [(steps(2_000, 50), "letter"), (steps(1_000, 100), "pattern")] {
            assert!(twice <= 2 * once + 100, "{name}, {what}: {once}, {twice}");
        }
        let most = 2 * size(&message(1_000)) * size(&asked(50));
        assert!(once <= most, "{name}: {once} of {most}");
    }
}

/// Fields, alternatives and wildcards at once, against the largest letter.
#[test]
fn the_worst_pattern_takes_no_more_steps_than_it_has_parts_beside_each_value() {
    let wildcards: Vec<_> = (0..40).map(|n| json!({ "wildcard": format!("*{n}*x*{n}*") })).collect();
    let one =
        |n: usize| json!({ format!("f{n}"): wildcards, "t": wildcards, "absent": [{ "exists": false }] });
    let asked = json!({ "items": { "$or": (0..20).map(one).collect::<Vec<_>>() }, "tags": wildcards });
    let item = json!({ "t": "xxxxxxxx", "f1": ["0x0", "xx"], "f2": "1", "tags": ["a", "b"] });
    let message = json!({ "items": filled(&item, 2), "tags": filled(&json!("xx"), 2) });
    let (matches, steps) = matched(&pattern(&asked), &message);
    let most = size(&asked) * size(&message) / 20;
    assert!(!matches && steps <= most, "{steps} of {most}");
}

/// No list is on the way to the subject, so nothing is written out for it.
#[test]
fn alternatives_are_not_written_out_for_a_field_of_the_letter_itself() {
    let field = |n: usize| format!("f{n}");
    let choices = (0..5).map(|n| (field(n), json!({ "$or": [{ "a": ["x"] }, { "b": ["x"] }] })));
    let of_message = json!(choices.collect::<serde_json::Map<_, _>>());
    let faults = FaultCollector::default();
    let asked = json!({ "subject": [{ "exists": false }], "message": of_message });
    let pattern = compile(&MatchValue::from(&asked), FieldKind::Letter, &faults, "");
    assert_eq!(faults.into_inner(), []);
    let elements = |last: &Value| {
        let others = std::iter::repeat_n(json!({ "a": "y", "b": "y" }), 1_000);
        others.chain(std::iter::once(last.clone())).collect::<Vec<_>>()
    };
    let good = |n: usize| (field(n), json!(elements(&json!({ "b": "x" }))));
    let message = json!((0..4).map(good).collect::<serde_json::Map<_, _>>());
    let (_, steps) = matched(&pattern, &message);
    assert!(steps <= 3 * (size(&message) + size(&asked)), "{steps}");
}
