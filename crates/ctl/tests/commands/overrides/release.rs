//! `overrides release`: takes overrides back.

use redrive_support::{CALLER, DLQ, REQUEUE, SimFault, TOPIC, TestAccount};
use serde_json::json;

use super::{ended, ids, override_, overrides, put_overrides, run, run_in, shown};
use crate::waiting::{letter, lines, list};
use crate::{CommandWorld, redrivectl_in};

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_released_is_kept_with_who_did_it_and_what_it_held_wakes() {
    let cloud = TestAccount::new();
    put_overrides(
        &cloud,
        &[override_("one", "hold", None), override_("two", "retry", Some("2026-11-01T13:00:00Z"))],
    );
    list(&cloud, "2026-11-01T10:59:59Z", &lines(&[letter("waited-before", &json!({}))]));
    list(&cloud, "2026-11-01T11:00:01Z", &lines(&[letter("held", &json!({}))]));
    let told = run(&cloud, &["overrides", "release", "one", "--why", "mended", "--yes"]).await.text();
    assert_eq!(ids(&cloud), ["two"]);
    let mut expected = override_("one", "hold", None);
    expected["ended"] = json!({ "at": "2026-11-01T12:00:00Z", "by": CALLER, "why": "mended" });
    assert_eq!(ended(&cloud, "one"), expected);
    assert_eq!(shown(&cloud), ["handle-S3CR3T-held"]);
    assert!(told.contains("Held: at most 1 letter on the list of waiting letters."), "{told}");
    assert!(told.ends_with("1 letter asked to wake.\n"), "{told}");

    // Releasing an override to retry wakes no letters.
    cloud.forget();
    run(&cloud, &["overrides", "release", "two", "--yes", "--json"]).await.json();
    assert_eq!((ids(&cloud), shown(&cloud)), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_woke_not_all_names_the_command_that_does() {
    let cloud = TestAccount::new();
    let mut hold = override_("one", "hold", None);
    hold["match"] = json!({ "topicArn": [TOPIC, { "suffix": "it's another" }] });
    hold["arrivedBefore"] = "2026-11-01T10:00:00Z".into();
    hold["arrivedAfter"] = "2026-11-01T08:00:00Z".into();
    put_overrides(&cloud, &[hold.clone(), override_("two", "retry", Some("2026-11-01T13:00:00Z"))]);
    let late = letter("late", &json!({ "since": "2026-11-01T10:00:00Z" }));
    list(&cloud, "2026-11-01T11:30:00Z", &lines(&[letter("a", &json!({})), late]));
    cloud.reply("ChangeMessageVisibilityBatch", SimFault::refuse(403, "AccessDenied", "no"));
    let told = run(&cloud, &["overrides", "release", "one", "two", "--why", "it's mended", "--yes"]).await;
    assert_eq!(told.code, 1);
    let hint = told.out.rsplit_once("To wake the rest for an attempt at once: ").unwrap().1;
    // A shell reads the hint.
    let shell = std::process::Command::new("sh").args(["-c", &format!("printf '%s\\n' {hint}")]).output();
    let shell = String::from_utf8(shell.unwrap().stdout).unwrap();
    let words: Vec<_> = shell.lines().chain(["--yes"]).collect();
    assert_eq!(words[0], "redrivectl");

    cloud.forget();
    cloud.script(|_| SimFault::Pass);
    let told = redrivectl_in(CommandWorld::on(&cloud), &words[1..]).await.text();
    assert!(!told.contains("To wake the rest"), "{told}");
    assert_eq!(shown(&cloud), ["handle-S3CR3T-a"]);
    let written = &overrides(&cloud)[0];
    assert_eq!((&written["match"], &written["why"]), (&hold["match"], &json!("it's mended")));
}

#[tokio::test(start_paused = true)]
async fn letters_that_another_hold_holds_sleep_on() {
    let of_queue = |id: &str, action: &str, queue: &str, until: Option<&str>| {
        let mut override_ = override_(id, action, until);
        override_["match"] = json!({ "queueArn": [queue] });
        override_
    };
    let of_subject = |id: &str, action: &str| {
        let mut override_ = override_(id, action, Some("2026-11-01T22:00:00Z"));
        override_["match"] = json!({ "subject": ["urgent"] });
        override_
    };
    let released = override_("one", "hold", None);
    let hold = |until| of_queue("other", "hold", DLQ, until);
    let archive = of_queue("poison", "give-up", DLQ, Some("2026-11-01T22:00:00Z"));
    // The letters sleep until 16:00.
    for (others, woken, asleep) in [
        (&[hold(None)][..], &["handle-S3CR3T-b"][..], 1),
        (&[hold(Some("2026-11-01T16:00:00Z"))], &["handle-S3CR3T-b"], 1),
        // This letter would sleep beyond the end of the other hold.
        (&[hold(Some("2026-11-01T15:00:00Z"))], &["handle-S3CR3T-a", "handle-S3CR3T-b"], 0),
        (&[hold(Some("2026-11-01T11:59:00Z"))], &["handle-S3CR3T-a", "handle-S3CR3T-b"], 0),
        (&[archive.clone(), hold(None)], &["handle-S3CR3T-a", "handle-S3CR3T-b"], 0),
        (&[hold(None), archive], &["handle-S3CR3T-b"], 1),
        // If the list cannot tell whether the other hold matches, the letter wakes.
        (&[of_subject("urgent", "hold")], &["handle-S3CR3T-a", "handle-S3CR3T-b"], 0),
        (&[of_subject("urgent", "retry"), hold(None)], &["handle-S3CR3T-a", "handle-S3CR3T-b"], 0),
    ] {
        let cloud = TestAccount::new();
        put_overrides(&cloud, &[std::slice::from_ref(&released), others].concat());
        let elsewhere = letter("b", &json!({ "queueArn": REQUEUE }));
        let not_held = letter("c", &json!({ "topicArn": format!("{TOPIC}-other") }));
        list(&cloud, "2026-11-01T11:30:00Z", &lines(&[letter("a", &json!({})), elsewhere, not_held]));
        let told = run(&cloud, &["overrides", "release", "one", "--yes"]).await.text();
        assert_eq!(shown(&cloud), woken, "{others:?}");
        assert!(told.contains(&format!("\nHeld: at most {} letter", woken.len())), "{told}");
        let line = "\nStays hidden: 1 letter, which another override still holds.\n";
        assert_eq!(told.contains(line), asleep == 1, "{told}");

        put_overrides(&cloud, &[std::slice::from_ref(&released), others].concat());
        let told = run(&cloud, &["overrides", "release", "one", "--yes", "--dry-run", "--json"]).await.json();
        assert_eq!(told["waiting"]["stillHeld"], asleep, "{others:?}");
    }
    // Releasing both holds wakes all letters.
    let cloud = TestAccount::new();
    put_overrides(&cloud, &[released, hold(None)]);
    list(&cloud, "2026-11-01T11:30:00Z", &lines(&[letter("a", &json!({}))]));
    run(&cloud, &["overrides", "release", "--all", "--yes"]).await.text();
    assert_eq!(shown(&cloud), ["handle-S3CR3T-a"]);
}

#[tokio::test(start_paused = true)]
async fn holds_are_released_by_pattern_or_all_at_once() {
    let cloud = TestAccount::new();
    let mut other = override_("other", "hold", None);
    other["match"] = json!({ "topicArn": [{ "suffix": ":billing" }] });
    let all =
        [override_("one", "hold", None), other, override_("again", "retry", Some("2026-11-01T13:00:00Z"))];
    for (args, left) in [
        (&["--topic", TOPIC][..], &["other", "again"][..]),
        (&["--topic", "billing"], &["one", "again"]),
        (&["--all"], &["again"]),
    ] {
        put_overrides(&cloud, &all);
        run(&cloud, &[&["overrides", "release", "--yes"], args].concat()).await.text();
        assert_eq!(ids(&cloud), left);
    }
    let told = run(&cloud, &["overrides", "release", "--all", "--yes"]).await;
    assert_eq!(
        (told.code, told.err.as_str()),
        (1, "redrivectl: no hold is in force; `redrivectl overrides` lists the overrides\n")
    );
    let told = run(&cloud, &["overrides", "release", "again", "nobody", "--yes"]).await;
    assert_eq!(
        (told.code, told.err.as_str()),
        (2, "redrivectl: there is no override nobody; `redrivectl overrides` lists them\n")
    );
    assert_eq!(ids(&cloud), ["again"]);
}

/// JSON is for a script. A person sees a preview beside it only to answer a question.
#[tokio::test(start_paused = true)]
async fn a_dry_run_for_a_script_shows_no_preview() {
    let cloud = TestAccount::new();
    put_overrides(&cloud, &[override_("one", "hold", None)]);
    let world = CommandWorld { answers: true, ..CommandWorld::on(&cloud) };
    let told = run_in(world, &["overrides", "release", "one", "--dry-run", "--json"]).await.json();
    assert_eq!(told["released"], json!(["one"]));
    let wakes = json!({ "letters": 0, "rate": 500, "beginsAfterSeconds": 20, "takesSeconds": 20 });
    assert_eq!(told["wakes"], wakes, "{told}");
    put_overrides(&cloud, &[override_("again", "retry", None)]);
    let told = run(&cloud, &["overrides", "release", "again", "--dry-run", "--json"]).await.json();
    assert_eq!(told.get("wakes"), None, "a retry keeps no letter back: {told}");
}
