//! The console's pages show commands, which must be valid commands of this tool.

use redrive_console::{Act, Doing, Field, Filter, On};
use redrive_support::{Account, REQUEUE, SUBSCRIPTION, TOPIC, WORKER};

use super::redrivectl_in;
use crate::World;

/// A filter by each field, by none, and by several.
fn filters() -> Vec<Filter> {
    let values = [
        (Field::Topic, TOPIC),
        (Field::Subscription, SUBSCRIPTION),
        (Field::Target, WORKER),
        (Field::Error, "-503"),
        (Field::Rule, "default"),
        (Field::Reason, "exhausted"),
        (Field::Queue, "payments-dlq"),
    ];
    let one = values
        .iter()
        .flat_map(|(field, value)| [*value, ""].map(|value| Filter::default().with(*field, value)));
    let all = values.iter().fold(Filter::default(), |of, (field, value)| of.with(*field, *value));
    one.chain([Filter::default(), all]).collect()
}

#[tokio::test]
async fn every_command_about_a_group_is_understood() {
    let cloud = Account::new();
    let control = ["--control", "s3://my-bucket/dead-letters-control"];
    let archive = ["--archive", "s3://my-bucket/dead-letters", "--requeue", REQUEUE];
    let mut ran = 0;
    for of in filters() {
        for doing in [Doing::Hold, Doing::Retry, Doing::GiveUp, Doing::Replay] {
            let times = [None, "2026-11-01T09:00:00Z".parse().ok()];
            let times = if doing == Doing::Replay { &times[..] } else { &times[..1] };
            for since in times {
                let until = since.and(redrive_support::at(redrive_support::NOW).into());
                let on = On::Letters { of: of.clone(), since: *since, until };
                let act = Act { doing, on };
                if !act.names_its_letters() {
                    continue;
                }
                let mut words = act.words();
                words.extend(["--why", "w", "--dry-run"].map(str::to_owned));
                words.extend(control.map(str::to_owned));
                if doing == Doing::Replay {
                    words.extend(archive.map(str::to_owned));
                }
                let words: Vec<_> = words.iter().map(String::as_str).collect();
                let told = redrivectl_in(World::on(&cloud), &words).await;
                assert_eq!((told.code, &*told.err), (0, ""), "{words:?}: {}", told.out);
                ran += 1;
            }
        }
    }
    assert!(ran > 40, "{ran}");
}

#[tokio::test]
async fn every_command_about_one_waiting_letter_is_understood() {
    for doing in [Doing::Hold, Doing::Retry, Doing::GiveUp] {
        let mut words = Act { doing, on: On::Waiting { id: "-a \"b".to_owned() } }.words();
        words.extend(["--why", "w", "--dry-run", "--control", "s3://my-bucket/c"].map(str::to_owned));
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let told = redrivectl_in(World::on(&Account::new()), &words).await;
        assert_eq!((told.code, &*told.err), (0, ""), "{words:?}: {}", told.out);
        assert!(told.out.contains(r#"{"letterId":["-a \"b"]}"#), "{}", told.out);
    }
}

#[tokio::test]
async fn every_command_about_one_thing_is_understood() {
    let id = || "-a b".to_owned();
    for (doing, on) in [
        (Doing::Edit, On::Archived { id: id(), at: None }),
        (Doing::Replay, On::Archived { id: id(), at: Some("2026-11-01T12:00:00Z".parse().unwrap()) }),
        (Doing::Release, On::Override("20261101T120000Z-1".to_owned())),
        (Doing::Stop, On::Replay("20261101T120000Z-1".to_owned())),
        (Doing::Resume, On::Replay("20261101T120000Z-1".to_owned())),
    ] {
        let words = Act { doing, on }.words();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        // Without a place the tool asks for one. By then it has accepted the line.
        let told = redrivectl_in(World::on(&Account::new()), &words).await;
        assert!(
            [" is missing", " is unknown"].iter().any(|said| told.err.contains(said)),
            "{words:?}: {}",
            told.err
        );
    }
}
