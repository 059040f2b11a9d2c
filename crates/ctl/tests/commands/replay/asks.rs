//! The questions before a replay sends letters, and before one is freed.

use redrive_support::SUBSCRIPTION;

use super::*;
use crate::overrides::{override_, put_overrides};

/// A person who types this.
fn types(answer: &str) -> CommandWorld {
    CommandWorld { answers: true, input: answer.as_bytes().to_vec(), ..CommandWorld::default() }
}

fn sent_nothing(cloud: &TestAccount, ran: &CommandRun) {
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.ends_with("redrivectl: not confirmed: nothing was done\n"), "{}", ran.err);
    assert_eq!((cloud.calls("SendMessageBatch").len(), cloud.calls("PutObject").len()), (0, 0));
}

#[tokio::test]
async fn a_replay_shows_what_it_would_send_and_begins_only_with_yes() {
    for answer in ["\n", "", "n\n", "send\n"] {
        let cloud = archived(&ten());
        let ran = replay_in(types(answer), &cloud, &[]).await;
        sent_nothing(&cloud, &ran);
        assert!(ran.err.starts_with("Send these letters? [y/N] "), "{}", ran.err);
        assert_eq!(
            ran.out,
            format!(
                "Replay: these letters are sent again.\n  selected  at most 25 letters, archived before 2026-11-01 11:59:55 UTC\n{WHICH}\n  to send   at most 10 letters, not checked\n  \
                 steps     1, 5, 20, 100 % of the letters, 10,000 a second; stops if more than 10 % of a step fail\n"
            )
        );
    }
    let cloud = archived(&ten());
    let ran = replay_in(types("y\n"), &cloud, &[]).await;
    assert_eq!((ran.code, sent_ids(&cloud)), (0, ids(&ten())), "{ran:?}");
}

#[tokio::test]
async fn a_script_must_say_yes_and_is_asked_nothing() {
    let cloud = archived(&ten());
    let no_terminal = "redrivectl: there is no terminal for a question: give --yes to continue without one\n";
    for args in
        [&["--all"][..], &["--all", "--new"], &["--all", "--json"], &["--resume", "20261101T120000Z-0d0e0f"]]
    {
        let ran = redrivectl_in(CommandWorld::on(&cloud), &[&["replay"], args, &PLACE].concat()).await;
        assert_eq!((ran.code, ran.err.as_str()), (2, no_terminal), "{args:?}");
    }
    let ran = replays(&cloud, &["free", "20261101T120000Z-0d0e0f"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (2, no_terminal));
    assert_eq!(cloud.summary(), Vec::<String>::new());
    assert_eq!(replay(&cloud, &["--yes"]).await.code, 2, "an option twice");
    replay(&cloud, &[]).await.text();
    assert_eq!(sent_ids(&cloud), ids(&ten()));
}

/// Who reads JSON is a script, but the question is for a person.
#[tokio::test]
async fn with_json_the_summary_stands_beside_the_results() {
    let cloud = archived(&ten());
    let ran = replay_in(types("y\n"), &cloud, &["--json"]).await;
    assert!(ran.err.starts_with("Replay: these letters are sent again.\n  selected  "), "{}", ran.err);
    assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap()["counts"]["sent"], 10);
}

#[tokio::test]
async fn letters_that_are_archived_during_the_question_are_not_sent() {
    let cloud = archived(&ten());
    let world = CommandWorld { thinks: 3_600_000, ..types("y\n") };
    let ran = replay_in(world, &cloud, &["--json"]).await;
    let done: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(done["cutOff"], "2026-11-01T11:59:55Z");
    assert_eq!(done["request"]["cutOff"], "2026-11-01T11:59:55Z");
}

#[tokio::test]
async fn after_an_interruption_each_way_has_a_name_and_enter_does_nothing() {
    for (answer, id_is, code) in [
        ("continue\n", Some(true), 0),
        ("new\n", Some(false), 0),
        ("\n", None, 2),
        ("y\n", None, 2),
        ("yes\n", None, 2),
        ("n\n", None, 2),
        ("nothing\n", None, 2),
    ] {
        let cloud = archived(&ten());
        let (id, _) = stopped(&cloud).await;
        cloud.forget();
        let ran = replay_in(types(answer), &cloud, &["--ramp", "8,100"]).await;
        assert_eq!(ran.code, code, "{answer:?}: {ran:?}");
        assert!(
            ran.err.contains(&format!("replay {id} of the same letters is unfinished (stopped)")),
            "{}",
            ran.err
        );
        let question = format!(
            "Type continue to go on with replay {id} (stopped); new to begin a new replay; anything else does nothing: "
        );
        assert!(ran.err.contains(&question), "{}", ran.err);
        assert!(ran.out.contains("  passed over  2 letters, replayed already\n"), "{}", ran.out);
        if let Some(id_is) = id_is {
            assert_eq!(ran.out.contains(&format!("Replay {id}: done.")), id_is, "{}", ran.out);
            assert_eq!(sent_ids(&cloud).len(), 8, "each letter once");
        } else {
            sent_nothing(&cloud, &ran);
        }
    }
}

#[tokio::test]
async fn whoever_continues_a_replay_sees_it_and_says_yes() {
    for (answer, code) in [("y\n", 0), ("\n", 2)] {
        let cloud = archived(&ten());
        let (id, _) = stopped(&cloud).await;
        cloud.forget();
        let ran = replay_in(types(answer), &cloud, &["--resume", &id]).await;
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(ran.out.starts_with(&format!("Replay {id}: stopped in step 1 of 2.\n")), "{}", ran.out);
        assert!(ran.err.starts_with("Continue it? [y/N] "), "{}", ran.err);
        if code == 2 {
            sent_nothing(&cloud, &ran);
        }
    }
}

/// Somebody else may be at work on it in another terminal.
#[tokio::test]
async fn a_replay_that_may_run_is_not_taken_over_unasked() {
    let cloud = archived(&ten());
    let (id, _) = stopped(&cloud).await;
    let key = format!("my-bucket/dead-letters-control/replays/{id}/replay.json");
    let mut state: Value = serde_json::from_str(&cloud.objects()[&key]).unwrap();
    state["status"] = "running".into();
    cloud.put(&key, &state.to_string());
    cloud.forget();
    let ran = replay_in(types("\n"), &cloud, &["--resume", &id]).await;
    sent_nothing(&cloud, &ran);
    assert!(ran.err.contains("it is taken over from the process that runs it"), "{}", ran.err);
    let ran = replay_in(types("\n"), &cloud, &["--ramp", "8,100"]).await;
    sent_nothing(&cloud, &ran);
    assert!(
        ran.err.contains("(running), which is taken over from the process that may still run it; new to"),
        "{}",
        ran.err
    );
}

#[tokio::test]
async fn free_shows_the_replay_and_asks() {
    let cloud = archived(&ten());
    let (id, _) = stopped(&cloud).await;
    let free = async |answer: &str| {
        let world = CommandWorld { config: CommandWorld::on(&cloud).config, ..types(answer) };
        redrivectl_in(world, &[&["replay", "free", &id], &PLACE[..2]].concat()).await
    };
    cloud.forget();
    let ran = free("\n").await;
    sent_nothing(&cloud, &ran);
    assert!(ran.out.starts_with(&format!("Replay {id}: stopped in step 1 of 2.\n")), "{}", ran.out);
    assert!(ran.err.contains("subscribers can get them twice. [y/N] "), "{}", ran.err);
    let ran = free("y\n").await;
    assert!(ran.code == 0 && ran.out.contains("\n  freed     2026-11-01 12:00:00 UTC"), "{ran:?}");
}

/// It is typed where the answer would be.
#[tokio::test]
async fn records_of_standard_input_leave_no_room_for_an_answer() {
    let cloud = archived(&ten());
    let ran = replay_in(types("{}\n"), &cloud, &["--from", "-"]).await;
    assert_eq!((ran.code, cloud.summary()), (2, Vec::new()));
    assert!(ran.err.contains("cannot answer the question as well: give a file, or --yes"), "{}", ran.err);
}

/// The words of a summary name what was selected, with the zone of each time.
#[tokio::test]
async fn what_is_selected_is_told_in_words() {
    let cloud = archived(&ten());
    let which = async |args: &[&str]| {
        let ran = replay_in(types("\n"), &cloud, args).await;
        let which = ran.out.lines().find_map(|line| line.strip_prefix("  which     ").map(str::to_owned));
        which.unwrap_or_else(|| panic!("{ran:?}"))
    };
    assert_eq!(
        which(&[
            "--since",
            "2026-10-30T23:59+01:00",
            "--until",
            "2026-11-01",
            "--topic",
            "payments",
            "--topic",
            "stock"
        ])
        .await,
        "topic payments or stock; archived 2026-10-30 22:59:00 UTC or later; archived before 2026-11-01 00:00:00 UTC"
    );
    assert_eq!(
        which(&["--queue", "payments-dlq", "--reason", "exhausted", "--error", "503", "--again"]).await,
        "queue payments-dlq; reason exhausted; error 503; also those that were replayed already"
    );
    assert_eq!(which(&["--match", "{\"retry\": [1]}"]).await, "match {\"retry\":[1]}");
    assert_eq!(which(&[]).await, "the whole archive");
    let records = TextFile::of("which.jsonl", &line(&RecordBuilder::envelope("1")));
    assert_eq!(which(&["--from", records.path()]).await, "the records that were given");
    for time in ["--since", "--until", "--cut-off"] {
        let ran = replay_in(types("y\n"), &cloud, &[time, "2026-10-31T23:59"]).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        assert!(ran.err.contains("has no zone: it must be a time with its zone"), "{}", ran.err);
    }
}

/// Letters that a hold keeps are sent and get no attempt, which a person and a script have to know.
#[tokio::test]
async fn letters_that_an_override_will_hold_are_said_to_be_held_before_and_after() {
    let topic = json!({ "topicArn": [redrive_support::TOPIC] });
    let every = json!({ "queueArn": [{ "exists": true }] });
    for (pattern, args, held) in [
        (&every, &[][..], "held by the override one (down)"),
        (&topic, &["--topic", redrive_support::TOPIC], "held by the override one (down)"),
        (&topic, &["--topic", "payments"], "may be held by the override one"),
        (
            &topic,
            &["--match", r#"{"topicArn":["arn:aws:sns:eu-central-1:123456789012:payments"]}"#],
            "held by the override one (down)",
        ),
        (&topic, &["--topic", "arn:aws:sns:eu-central-1:123456789012:bills"], ""),
        (&topic, &[], "may be held by the override one"),
    ] {
        let cloud = archived(&ten());
        let mut hold = override_("one", "hold", None);
        (hold["match"], hold["why"]) = (pattern.clone(), "down".into());
        put_overrides(&cloud, &[hold]);
        let is_sure = !held.starts_with("may");
        let told = |json: &Value| {
            let it = (!held.is_empty()).then(|| json!({ "by": ["one"], "atMost": !is_sure }));
            assert_eq!(json.get("held"), it.as_ref(), "{pattern} {args:?}");
        };
        let says = |text: &str, words: &str| {
            let row = text.lines().find(|line| line.trim_start().starts_with("held "));
            assert_eq!(
                row.map(|row| row.trim_start()[4..].trim()),
                (!held.is_empty()).then_some(words),
                "{text}"
            );
        };
        let before = format!("{held}, as soon as they are sent");
        let counted = replay_in(CommandWorld::default(), &cloud, &[args, &["--dry-run"]].concat()).await;
        says(&counted.out, &before);
        let counted =
            replay_in(CommandWorld::default(), &cloud, &[args, &["--dry-run", "--json"]].concat()).await;
        told(&serde_json::from_str(&counted.out).unwrap());
        let asked = replay_in(types("n\n"), &cloud, args).await;
        says(&asked.out, &before);
        if held.is_empty() {
            continue;
        }
        let done = replay_in(CommandWorld::default(), &cloud, args).await;
        says(&done.out, held);
        assert_eq!((done.code, sent_ids(&cloud)), (0, ids(&ten())));
        let done = replay_in(CommandWorld::default(), &cloud, &[args, &["--json", "--again"]].concat()).await;
        told(&serde_json::from_str(&done.out).unwrap());
    }
}

/// The first override that is about a letter counts, whatever it does.
#[tokio::test]
async fn a_hold_after_an_override_that_may_be_about_some_of_the_letters_may_hold_them() {
    let some = json!({ "subscriptionArn": [SUBSCRIPTION] });
    let every = json!({ "queueArn": [{ "exists": true }] });
    for (first, second, says) in [
        (("retry", &some), ("hold", &every), "may be held by the override two"),
        (("give-up", &some), ("hold", &every), "may be held by the override two"),
        (("hold", &some), ("hold", &every), "may be held by the override one or two"),
        (("hold", &every), ("retry", &some), "held by the override one (down)"),
        (("retry", &every), ("hold", &every), ""),
    ] {
        let cloud = archived(&ten());
        let given = |id: &str, (does, pattern): (&str, &Value)| {
            let mut override_ = override_(id, does, Some("2026-11-01T23:00:00Z"));
            (override_["match"], override_["why"]) = (pattern.clone(), "down".into());
            override_
        };
        put_overrides(&cloud, &[given("one", first), given("two", second)]);
        let counted = replay(&cloud, &["--dry-run"]).await.text();
        let held = counted.lines().find_map(|line| line.trim_start().strip_prefix("held "));
        let expected = if says.is_empty() { None } else { Some(format!("{says}, as soon as they are sent")) };
        assert_eq!(held.map(str::trim), expected.as_deref(), "{first:?} {second:?}: {counted}");
    }
}

/// A stopped replay that goes on says it as well, and records that were given are known to the letter.
#[tokio::test]
async fn a_replay_that_goes_on_and_given_records_are_said_to_be_held() {
    let cloud = archived(&ten());
    let (id, _) = stopped(&cloud).await;
    let mut hold = override_("one", "hold", None);
    hold["match"] = json!({ "queueArn": [{ "exists": true }] });
    put_overrides(&cloud, &[hold.clone()]);
    let asked = replay_in(types("n\n"), &cloud, &["--resume", &id]).await;
    assert!(asked.out.contains("held by the override one ("), "{}", asked.out);

    let cloud = archived(&ten());
    let given = TextFile::of("given.jsonl", &(line(&ten()[0]) + "\n"));
    for (letter, held) in [(&ids(&ten())[0], true), (&ids(&ten())[1], false)] {
        hold["match"] = json!({ "letterId": [letter] });
        put_overrides(&cloud, &[hold.clone()]);
        let ran = replay(&cloud, &["--from", given.path(), "--dry-run", "--again"]).await;
        assert_eq!(ran.out.contains("held by the override one ("), held, "{letter}: {ran:?}");
        assert!(!ran.out.contains("may be held"), "{}", ran.out);
    }
}

/// A role that may replay and not read the overrides is told that nobody knows.
#[tokio::test]
async fn overrides_that_cannot_be_read_are_said_to_be_unknown() {
    let cloud = archived(&ten());
    cloud.script(
        |call| if call.target.ends_with("/overrides.json") { SimFault::Denied } else { SimFault::Pass },
    );
    let ran = replay(&cloud, &["--dry-run"]).await;
    assert!(
        ran.err.contains("redrivectl: whether an override holds these letters is unknown: "),
        "{}",
        ran.err
    );
    assert_eq!(ran.code, 0, "{ran:?}");
}
