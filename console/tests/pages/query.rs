//! Addresses and parameters.

use proptest::prelude::*;
use redrive_console::{Act, Doing, Field, Filter, On, OneLetter, Page, Query, Range};

fn filters() -> impl Strategy<Value = Filter> {
    let pairs = prop::collection::vec((prop::sample::select(&Field::ALL[..]), any::<String>()), 0..4);
    pairs.prop_map(|pairs| {
        pairs.into_iter().fold(Filter::default(), |filter, (field, value)| filter.with(field, value))
    })
}

fn queries() -> impl Strategy<Value = Query> {
    let by = || prop::sample::select(&Field::ALL[..]);
    let letter = (".{1,30}", prop::option::of(any::<String>()), prop::option::of(any::<String>()));
    let page = prop_oneof![
        Just(Page::Now),
        (by(), filters()).prop_map(|(by, of)| Page::Groups { by, of }),
        filters().prop_map(|of| Page::Group { of }),
        (by(), filters()).prop_map(|(by, of)| Page::Waiting { by, of }),
        letter.prop_map(|(id, key, log_query)| Page::Letter(OneLetter { id, key, log_query })),
    ];
    let moment = |second: i64| jiff::Timestamp::from_second(second).unwrap();
    let range = prop_oneof![
        (1_u32..366 * 1440).prop_map(Range::Past),
        (0_i64..1_700_000_000, 1_i64..86_400 * 366).prop_map(move |(from, length)| Range::between(
            moment(from),
            moment(from + length)
        )
        .unwrap()),
    ];
    (page, range).prop_map(|(page, range)| Query { page, range })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_query_is_read_as_it_was_written(query in queries()) {
        let address = query.to_address();
        let (path, rest) = address.split_once('?').unwrap_or((&address, ""));
        prop_assert_eq!(Query::from_address(path, rest), Ok(query.clone()));
        prop_assert!(address.bytes().all(|byte| byte.is_ascii_graphic()));
        prop_assert_eq!(Query::from_parameters(&query.to_parameters()), Ok(query));
    }

    #[test]
    fn an_action_is_read_as_it_was_written(of in filters(), id in ".{1,30}", doing in prop::sample::select(&Doing::ALL[..])) {
        let on = match doing {
            Doing::Hold | Doing::Retry | Doing::Archive | Doing::Replay => On::Letters { of, since: None },
            Doing::Edit => On::Letter { id },
            Doing::Release => On::Order(id),
            Doing::Stop | Doing::Resume => On::Replay(id),
        };
        let act = Act { doing, on };
        let address = act.to_address();
        prop_assert_eq!(Act::from_address(address.strip_prefix("act?").unwrap()), Ok(act));
    }
}

#[test]
fn bad_queries_are_refused_with_what_is_wrong() {
    for (path, query, problem) in [
        ("admin", "", "there is no page \"admin\"; there are now, groups, group, waiting and letter"),
        ("now", "x=1", "the page has no parameter \"x\""),
        ("groups", "by=body", "by must be topic, subscription, target, error, rule, reason or queue"),
        ("groups", "error=a&error=b", "the parameter \"error\" is given twice"),
        ("letter", "", "the page needs the parameter \"id\""),
    ] {
        assert_eq!(Query::from_address(path, query).unwrap_err().to_string(), problem);
    }
    for range in [
        "range=0h",
        "range=h",
        "range=367d",
        "range=-1h",
        "range=+1h",
        "range=1y",
        "range=99999999999d",
        "from=2026-11-01T00:00:00Z",
        "from=2026-11-01T00:00:00Z&to=2026-11-01T00:00:00Z",
        "from=2020-01-01T00:00:00Z&to=2026-11-01T00:00:00Z",
    ] {
        assert_eq!(Query::from_address("now", range), Err(redrive_console::BadQuery::Range), "{range}");
    }
    assert!(Query::from_address("group", &format!("error={}", "x".repeat(2049))).is_err());
    assert!(Query::from_parameters(&serde_json::json!({ "page": 1 })).is_err());
    assert!(Query::from_parameters(&serde_json::json!([])).is_err());
}

#[test]
fn a_command_names_what_it_can_and_tells_the_rest() {
    let of = Filter::default()
        .with(Field::Topic, "arn:aws:sns:eu-central-1:1:it's")
        .with(Field::Subscription, "s")
        .with(Field::Rule, "r");
    let on = || On::Letters { of: of.clone(), since: None };
    let hold = Act { doing: Doing::Hold, on: on() };
    assert_eq!(
        hold.command(Some("main")),
        r"redrivectl hold --topic 'arn:aws:sns:eu-central-1:1:it'\''s' --subscription s --stack main --why 'WHY'"
    );
    assert_eq!(hold.beyond(), [Field::Rule]);
    let replay = Act { doing: Doing::Replay, on: on() };
    assert_eq!(
        replay.command(None),
        r#"redrivectl replay --topic 'arn:aws:sns:eu-central-1:1:it'\''s' --match '{"subscriptionArn":["s"]}' --why 'WHY'"#
    );
    let all = Act { doing: Doing::Archive, on: On::Letters { of: Filter::default(), since: None } };
    assert_eq!(all.words(), ["archive", "--all"]);
}
