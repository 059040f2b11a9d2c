//! Addresses and parameters.

use proptest::prelude::*;
use redrive_console::{
    ActionObject, ActionVerb, BadQuery, Filter, GroupField, OneLetter, PageAction, PageKind, PageRange,
    Query, SortColumn,
};

fn filters() -> impl Strategy<Value = Filter> {
    let pairs = prop::collection::vec((prop::sample::select(&GroupField::ALL[..]), any::<String>()), 0..4);
    pairs.prop_map(|pairs| {
        pairs.into_iter().fold(Filter::default(), |filter, (field, value)| filter.with(field, value))
    })
}

/// The fields to group waiting letters by. The reason is missing: they have none yet.
const WAITING: [GroupField; 6] = [
    GroupField::Topic,
    GroupField::Subscription,
    GroupField::Target,
    GroupField::Error,
    GroupField::Rule,
    GroupField::Queue,
];

fn queries() -> impl Strategy<Value = Query> {
    let by = || prop::sample::select(&GroupField::ALL[..]);
    let letter = (".{1,30}", prop::option::of(any::<String>()), prop::option::of(any::<String>()));
    let page = prop_oneof![
        Just(PageKind::Now),
        Just(PageKind::Words),
        (by(), filters()).prop_map(|(by, of)| PageKind::Groups { by, of }),
        filters().prop_map(|of| PageKind::Group { of }),
        (prop::sample::select(&WAITING[..]), filters()).prop_map(|(by, of)| PageKind::Waiting { by, of }),
        letter.prop_map(|(id, key, log_query)| PageKind::Letter(OneLetter { id, key, log_query })),
        "\\S{0,30}".prop_map(|text| PageKind::Find { text }),
    ];
    let moment = |second: i64| jiff::Timestamp::from_second(second).unwrap();
    let range = prop_oneof![
        (1_u32..366 * 1440).prop_map(PageRange::Past),
        (0_i64..1_700_000_000, 1_i64..86_400 * 366).prop_map(move |(from, length)| PageRange::between(
            moment(from),
            moment(from + length)
        )
        .unwrap()),
    ];
    let sort = prop::option::of(prop::sample::select(&SortColumn::ALL[..]));
    (page, range, sort, any::<bool>()).prop_map(|(page, range, sort, refreshes)| Query {
        page,
        range,
        sort,
        refreshes,
    })
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
    fn an_action_is_read_as_it_was_written(of in filters(), id in ".{1,30}", doing in prop::sample::select(&ActionVerb::ALL[..]), is_one: bool) {
        let at = (doing == ActionVerb::Replay).then(|| "2026-11-01T12:00:00Z".parse().unwrap());
        let on = match doing {
            ActionVerb::Hold | ActionVerb::Retry | ActionVerb::GiveUp if is_one => ActionObject::Waiting { id },
            ActionVerb::Replay if is_one => ActionObject::Archived { id, at },
            ActionVerb::Hold | ActionVerb::Retry | ActionVerb::GiveUp | ActionVerb::Replay => ActionObject::Letters { of, since: at, until: at },
            ActionVerb::Edit => ActionObject::Archived { id, at: None },
            ActionVerb::Release => ActionObject::Override(id),
            ActionVerb::Stop | ActionVerb::Resume => ActionObject::Replay(id),
        };
        let act = PageAction { doing, on };
        let address = act.to_address();
        let read = PageAction::from_address(address.strip_prefix("act?").unwrap());
        if act.names_its_letters() {
            prop_assert_eq!(read, Ok(act));
        } else {
            prop_assert_eq!(read, Err(BadQuery::TooWide));
        }
    }
}

#[test]
fn bad_queries_are_refused_with_what_is_wrong() {
    for (path, query, problem) in [
        (
            "admin",
            "",
            "there is no page \"admin\"; there are now, groups, group, waiting, letter, find and words",
        ),
        ("now", "x=1", "the page has no parameter \"x\""),
        ("groups", "by=body", "by must be topic, subscription, target, error, cause, rule, reason or queue"),
        ("waiting", "by=reason", "the list of letters that wait has no reason: by must be another field"),
        ("waiting", "by=cause", "the list of letters that wait has no cause: by must be another field"),
        ("groups", "error=a&error=b", "the parameter \"error\" is given twice"),
        ("groups", "sort=size", "sort must be name, waiting, archived, need or since"),
        ("now", "refresh=1", "refresh must be on, or be left out"),
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
        .with(GroupField::Topic, "arn:aws:sns:eu-central-1:1:it's")
        .with(GroupField::Subscription, "s")
        .with(GroupField::Rule, "r");
    let on = || ActionObject::Letters { of: of.clone(), since: None, until: None };
    let hold = PageAction { doing: ActionVerb::Hold, on: on() };
    assert_eq!(
        hold.command(Some("main")),
        r"redrivectl hold --topic 'arn:aws:sns:eu-central-1:1:it'\''s' --subscription s --stack main --why 'WHY'"
    );
    assert_eq!(hold.beyond(), [GroupField::Rule]);
    let replay = PageAction { doing: ActionVerb::Replay, on: on() };
    assert_eq!(
        replay.command(None),
        r#"redrivectl replay --topic 'arn:aws:sns:eu-central-1:1:it'\''s' --match '{"subscriptionArn":["s"]}' --why 'WHY'"#
    );
    let all = PageAction {
        doing: ActionVerb::GiveUp,
        on: ActionObject::Letters { of: Filter::default(), since: None, until: None },
    };
    assert_eq!(all.words(), ["give-up", "--all"]);
}

#[test]
fn what_a_command_cannot_name_never_becomes_every_letter() {
    let fields = [GroupField::Error, GroupField::Cause, GroupField::Rule, GroupField::Reason];
    let since = "2026-11-01T09:00:00Z".parse().ok();
    for doing in [ActionVerb::Hold, ActionVerb::Retry, ActionVerb::GiveUp, ActionVerb::Replay] {
        for value in ["x", ""] {
            for field in GroupField::ALL {
                let is_named = match doing {
                    ActionVerb::Replay => !matches!(field, GroupField::Rule | GroupField::Cause),
                    _ => !fields.contains(&field),
                } && (!value.is_empty()
                    || matches!(field, GroupField::Topic | GroupField::Subscription));
                let since = since.filter(|_| doing == ActionVerb::Replay);
                let of = Filter::default().with(field, value);
                let act = PageAction { doing, on: ActionObject::Letters { of, since, until: None } };
                assert_eq!(act.names_its_letters(), is_named, "{act:?}");
                assert!(!act.words().contains(&"--all".to_owned()), "{:?}", act.words());
                let read = PageAction::from_address(act.to_address().strip_prefix("act?").unwrap());
                assert_eq!(read.is_ok(), is_named, "{read:?}");
            }
        }
    }
}

#[test]
fn no_value_adds_a_line_or_an_option_to_a_command() {
    let of = Filter::default()
        .with(GroupField::Target, "-x")
        .with(GroupField::Error, "a\nredrivectl hold --all # | b");
    let (since, until) = ("2026-11-01T09:00:00Z".parse().ok(), "2026-11-01T10:00:00Z".parse().ok());
    let replay = PageAction { doing: ActionVerb::Replay, on: ActionObject::Letters { of, since, until } };
    assert_eq!(
        replay.trial(Some("s")),
        "redrivectl replay --target=-x --error 'a\u{fffd}redrivectl hold --all # | b' --since 2026-11-01T09:00:00Z \
         --until 2026-11-01T10:00:00Z --stack s --why 'WHY' --dry-run"
    );
    let one =
        |doing, id: &str| PageAction { doing, on: ActionObject::Archived { id: id.to_owned(), at: None } };
    assert_eq!(
        one(ActionVerb::Replay, "-i\n").trial(Some("s")),
        "redrivectl archive show --json --stack s -- '-i\u{fffd}' > letter.jsonl\nredrivectl replay --from letter.jsonl --stack s --why 'WHY' --dry-run"
    );
    assert_eq!(one(ActionVerb::Edit, "a\nb").trial(None).lines().count(), 3);
    assert_eq!(one(ActionVerb::Replay, "a\nb").to_file(None).unwrap().lines().count(), 1);
    assert!(!one(ActionVerb::Replay, "i").command(None).contains("--dry-run"));
    let waits =
        |id: &str| PageAction { doing: ActionVerb::Retry, on: ActionObject::Waiting { id: id.to_owned() } };
    assert_eq!(
        waits("-i\n' --all").command(Some("s")),
        r#"redrivectl retry --match '{"letterId":["-i\n'\'' --all"]}' --stack s --why 'WHY'"#
    );
}

#[test]
fn an_empty_id_does_not_stand_for_all_letters() {
    for doing in ["hold", "retry", "give-up", "replay", "edit", "stop", "resume"] {
        let read = PageAction::from_address(&format!("do={doing}&id="));
        assert_eq!(read, Err(BadQuery::Missing("id")), "{doing}");
    }
}
