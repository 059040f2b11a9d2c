//! The matcher beside a second one, which takes any time it needs.
//!
//! The second one goes the way that `EventBridge`'s documentation and its published matcher describe: every combination
//! of alternatives is a pattern of its own, a letter is the list of its values with their paths and their places in
//! lists, and every way of choosing a value for each field is tried.

use std::collections::BTreeMap;

use super::*;

/// A value that is neither a list nor an object: its path, and its element in each list around it.
struct FoundValue {
    path: String,
    value: Value,
    places: BTreeMap<usize, usize>,
}

/// A pattern without alternatives: the list of each field, by its path.
type NaivePattern = BTreeMap<String, Vec<Value>>;

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Writes out all combinations of alternatives.
fn combinations(pattern: &Value, path: &str) -> Vec<NaivePattern> {
    let mut all = vec![NaivePattern::new()];
    for (name, value) in pattern.as_object().unwrap() {
        let more: Vec<NaivePattern> = match value {
            Value::Array(alternatives) if name == "$or" => {
                alternatives.iter().flat_map(|one| combinations(one, path)).collect()
            }
            Value::Array(list) => vec![NaivePattern::from([(join(path, name), list.clone())])],
            inner => combinations(inner, &join(path, name)),
        };
        all = all
            .iter()
            .flat_map(|one| {
                more.iter().map(move |other| one.clone().into_iter().chain(other.clone()).collect())
            })
            .collect();
    }
    all
}

fn flatten(
    value: &Value,
    path: &str,
    lists: &mut usize,
    places: &BTreeMap<usize, usize>,
    found: &mut Vec<FoundValue>,
) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                flatten(value, &join(path, name), lists, places, found);
            }
        }
        Value::Array(all) => {
            *lists += 1;
            let list = *lists;
            for (element, value) in all.iter().enumerate() {
                let mut places = places.clone();
                // A plain value in a list chooses no element of it.
                if value.is_array() || value.is_object() {
                    places.insert(list, element);
                }
                flatten(value, path, lists, &places, found);
            }
        }
        value => {
            found.push(FoundValue { path: path.to_owned(), value: value.clone(), places: places.clone() });
        }
    }
}

/// Returns the places of both, if they choose no list's element differently.
fn both(one: &BTreeMap<usize, usize>, other: &BTreeMap<usize, usize>) -> Option<BTreeMap<usize, usize>> {
    let fits = other.iter().all(|(list, element)| one.get(list).is_none_or(|chosen| chosen == element));
    fits.then(|| one.iter().chain(other).map(|(list, element)| (*list, *element)).collect())
}

fn takes(entry: &Value, value: &Value) -> bool {
    let text = value.as_str();
    let Some(operator) = entry.as_object() else {
        return match (entry.as_f64(), value.as_f64()) {
            (Some(one), Some(other)) => (one - other).abs() < f64::EPSILON,
            _ => entry == value,
        };
    };
    let (name, argument) = operator.iter().next().unwrap();
    let word = argument.as_str().unwrap_or_default();
    match name.as_str() {
        "exists" => argument == true,
        "prefix" => text.is_some_and(|text| text.starts_with(word)),
        "suffix" => text.is_some_and(|text| text.ends_with(word)),
        "equals-ignore-case" => text.is_some_and(|text| text.to_lowercase() == word.to_lowercase()),
        "anything-but" => !argument.as_array().unwrap().iter().any(|other| takes(other, value)),
        "numeric" => value.as_f64().is_some_and(|number| number < argument[1].as_f64().unwrap()),
        other => panic!("{other}"),
    }
}

/// Goes through the fields in the order of their paths, and tries every value of each.
fn fits(fields: &[(&String, &Vec<Value>)], found: &[FoundValue], chosen: &BTreeMap<usize, usize>) -> bool {
    let Some(((path, list), rest)) = fields.split_first() else { return true };
    let at_path = found.iter().filter(|one| one.path == **path);
    let open: Vec<_> = at_path.filter_map(|one| Some((one, both(chosen, &one.places)?))).collect();
    if open.is_empty() && list.contains(&json!({ "exists": false })) && fits(rest, found, chosen) {
        return true;
    }
    open.into_iter()
        .filter(|(one, _)| list.iter().any(|entry| takes(entry, &one.value)))
        .any(|(_, chosen)| fits(rest, found, &chosen))
}

/// Names of which one sorts between another and its own fields.
const NAMES: [&str; 3] = ["a", "b", "a-"];

fn events() -> impl Strategy<Value = Value> {
    let values =
        [json!(1), json!(2), json!("x"), json!("X"), json!("xy"), json!(""), json!(null), json!(true)];
    let leaf = prop::sample::select(values.to_vec());
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            2 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => prop::collection::btree_map(prop::sample::select(NAMES.to_vec()), inner.clone(), 0..4)
                .prop_map(|map| json!(map)),
            // Names with dots, and nothing else that begins with the same name.
            1 => prop::collection::btree_map(prop::sample::select(vec!["a.b", "a.c", "b.a.b"]), inner, 0..3)
                .prop_map(|map| json!(map)),
        ]
    })
}

fn patterns() -> impl Strategy<Value = Value> {
    let entries = [
        json!(1),
        json!("x"),
        json!("xy"),
        json!(""),
        json!(null),
        json!(true),
        json!({ "exists": true }),
        json!({ "exists": false }),
        json!({ "exists": false }),
        json!({ "prefix": "x" }),
        json!({ "suffix": "y" }),
        json!({ "equals-ignore-case": "x" }),
        json!({ "anything-but": ["x", ""] }),
        json!({ "anything-but": [1] }),
        json!({ "numeric": ["<", 2] }),
    ];
    let list = prop::collection::vec(prop::sample::select(entries.to_vec()), 1..5).prop_map(Value::from);
    list.prop_recursive(3, 12, 2, |inner| {
        let name = prop::sample::select(vec!["a", "b", "a-", "a.b", "b.a"]);
        let object = prop::collection::btree_map(name, inner, 1..3).prop_map(|map| json!(map));
        let alternatives = prop::collection::vec(object.clone(), 2..4);
        prop_oneof![
            3 => object.clone(),
            1 => (object, alternatives).prop_map(|(mut object, alternatives)| {
                let objects: Vec<_> = alternatives.into_iter().filter(Value::is_object).collect();
                if objects.len() > 1 {
                    object["$or"] = objects.into();
                }
                object
            }),
        ]
    })
}

#[test]
fn the_matcher_means_what_a_matcher_that_tries_everything_means() {
    let counts = std::cell::RefCell::new([0_u32; 3]);
    holds(8_000, &(patterns(), events()), |(pattern, event)| {
        if !pattern.is_object() {
            return Ok(());
        }
        let document = json!({ "rules": [{ "name": "r", "match": { "message": pattern } }] });
        // A field that is asked for twice is refused.
        let Ok(policy) = Policy::parse(&document.to_string()) else {
            counts.borrow_mut()[2] += 1;
            return Ok(());
        };
        let patterns = combinations(&pattern, "message");
        // Whether a field that may be absent chooses an element depends on the letter, and is left open here.
        let absent = json!({ "exists": false });
        let is_open = |fields: &NaivePattern| {
            let absent: Vec<_> = fields.values().filter(|list| list.contains(&absent)).collect();
            absent.len() > 1
                && absent.iter().any(|list| list.iter().any(|entry| *entry != json!({ "exists": false })))
        };
        if patterns.iter().any(is_open) {
            return Ok(());
        }
        let mut found = Vec::new();
        flatten(&event, "message", &mut 0, &BTreeMap::new(), &mut found);
        let expected =
            patterns.iter().any(|fields| fits(&fields.iter().collect::<Vec<_>>(), &found, &BTreeMap::new()));
        counts.borrow_mut()[usize::from(expected)] += 1;
        let rule = policy.rule_for(&letter(&record(&event.to_string()))).name.clone();
        prop_assert_eq!(rule == "r", expected, "{} {}", pattern, event);
        Ok(())
    });
    let [others, matching, refused] = counts.into_inner();
    assert!(matching > 500 && others > 500 && refused < 4_000, "{matching} {others} {refused}");
}
