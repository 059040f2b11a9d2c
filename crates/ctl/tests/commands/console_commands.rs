//! The console's pages show commands, which must be valid commands of this tool.

use redrive_console::{ActionObject, ActionVerb, Filter, GroupField, PageAction};
use redrive_support::{REQUEUE, SUBSCRIPTION, TOPIC, TestAccount, WORKER};

use super::redrivectl_in;
use crate::CommandWorld;

/// A filter by each field, by none, and by several.
fn filters() -> Vec<Filter> {
    let values = [
        (GroupField::Topic, TOPIC),
        (GroupField::Subscription, SUBSCRIPTION),
        (GroupField::Target, WORKER),
        (GroupField::Error, "-503"),
        (GroupField::Rule, "default"),
        (GroupField::Reason, "exhausted"),
        (GroupField::Queue, "payments-dlq"),
    ];
    let one = values
        .iter()
        .flat_map(|(field, value)| [*value, ""].map(|value| Filter::default().with(*field, value)));
    let all = values.iter().fold(Filter::default(), |of, (field, value)| of.with(*field, *value));
    one.chain([Filter::default(), all]).collect()
}

#[tokio::test]
async fn every_command_about_a_group_is_understood() {
    let cloud = TestAccount::new();
    let control = ["--control", "s3://my-bucket/dead-letters-control"];
    let archive = ["--archive", "s3://my-bucket/dead-letters", "--requeue", REQUEUE];
    let mut ran = 0;
    for of in filters() {
        for doing in [ActionVerb::Hold, ActionVerb::Retry, ActionVerb::GiveUp, ActionVerb::Replay] {
            let times = [None, "2026-11-01T09:00:00Z".parse().ok()];
            let times = if doing == ActionVerb::Replay { &times[..] } else { &times[..1] };
            for since in times {
                let until = since.and(redrive_support::at(redrive_support::NOW).into());
                let on = ActionObject::Letters { of: of.clone(), since: *since, until };
                let act = PageAction { doing, on };
                if !act.names_its_letters() {
                    continue;
                }
                let mut words = act.words();
                words.extend(["--why", "w", "--dry-run"].map(str::to_owned));
                words.extend(control.map(str::to_owned));
                if doing == ActionVerb::Replay {
                    words.extend(archive.map(str::to_owned));
                }
                let words: Vec<_> = words.iter().map(String::as_str).collect();
                let told = redrivectl_in(CommandWorld::on(&cloud), &words).await;
                assert_eq!((told.code, &*told.err), (0, ""), "{words:?}: {}", told.out);
                ran += 1;
            }
        }
    }
    assert!(ran > 40, "{ran}");
}

#[tokio::test]
async fn every_command_about_one_waiting_letter_is_understood() {
    for doing in [ActionVerb::Hold, ActionVerb::Retry, ActionVerb::GiveUp] {
        let mut words = PageAction { doing, on: ActionObject::Waiting { id: "-a \"b".to_owned() } }.words();
        words.extend(["--why", "w", "--dry-run", "--control", "s3://my-bucket/c"].map(str::to_owned));
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let told = redrivectl_in(CommandWorld::on(&TestAccount::new()), &words).await;
        assert_eq!((told.code, &*told.err), (0, ""), "{words:?}: {}", told.out);
        assert!(told.out.contains(r#"{"letterId":["-a \"b"]}"#), "{}", told.out);
    }
}

#[tokio::test]
async fn every_command_about_one_thing_is_understood() {
    let id = || "-a b".to_owned();
    for (doing, on) in [
        (ActionVerb::Edit, ActionObject::Archived { id: id(), at: None }),
        (
            ActionVerb::Replay,
            ActionObject::Archived { id: id(), at: Some("2026-11-01T12:00:00Z".parse().unwrap()) },
        ),
        (ActionVerb::Release, ActionObject::Override("20261101T120000Z-1".to_owned())),
        (ActionVerb::Stop, ActionObject::Replay("20261101T120000Z-1".to_owned())),
        (ActionVerb::Resume, ActionObject::Replay("20261101T120000Z-1".to_owned())),
    ] {
        let words = PageAction { doing, on }.words();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        // Without a place the tool asks for one. By then it has accepted the line.
        let told = redrivectl_in(CommandWorld::on(&TestAccount::new()), &words).await;
        assert!(
            [" is missing", "which stack?"].iter().any(|said| told.err.contains(said)),
            "{words:?}: {}",
            told.err
        );
    }
}
