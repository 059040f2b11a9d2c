//! `overrides`, and the manual's examples of all these commands.

use redrive_support::{CALLER, EntryFault, SimFault, TOPIC, TestAccount};
use serde_json::json;

use super::{CONTROL, override_, put_overrides, run};
use crate::waiting::{letter, lines, list};
use crate::{manual, shows};

#[tokio::test(start_paused = true)]
async fn overrides_are_shown_while_they_are_in_force_and_after() {
    let cloud = TestAccount::new();
    assert_eq!(run(&cloud, &["overrides"]).await.text(), "No override is in force.\n");
    assert_eq!(run(&cloud, &["overrides", "--ended"]).await.text(), "No override has ended.\n");
    put_overrides(&cloud, &[override_("one", "hold", None), override_("over", "retry", None)]);
    assert_eq!(
        run(&cloud, &["overrides"]).await.text(),
        format!(
            "override  do    match                  {pad}in force              by   why\n\
             one       hold  {{\"topicArn\":[\"{TOPIC}\"]}}  until it is released  ada  down\n",
            pad = " ".repeat(TOPIC.len() - 4),
        )
    );
    let text = run(&cloud, &["overrides", "--ended"]).await.text();
    assert!(text.contains("\nover      retry  ") && !text.contains("\none "), "not kept yet: {text}");
    let json = run(&cloud, &["overrides", "--json"]).await.json();
    assert_eq!(json, json!({ "overrides": [override_("one", "hold", None)] }));

    run(&cloud, &["overrides", "release", "one", "--by", "bob", "--why", "mended", "--yes"]).await;
    let text = run(&cloud, &["overrides", "--ended"]).await.text();
    assert!(
        text.contains("2026-11-01 11:00:00 to 2026-11-01 12:00:00 UTC by bob: mended  ada  down\n"),
        "{text}"
    );
    assert!(text.contains("2026-11-01 11:00:00 to 2026-11-01 11:15:00 UTC "), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_manual_shows_what_they_print() {
    let cloud = TestAccount::new();
    let due = |number: u32| json!({ "due": format!("2026-11-01T{:02}:{:02}:41Z", 12 + number % 9, 2 + number % 50) });
    let waiting: Vec<_> = (0..2315).map(|number| letter(&format!("m{number}"), &due(number))).collect();
    list(&cloud, "2026-11-01T11:20:00Z", &lines(&waiting));
    let (billing, of_billing) =
        ("arn:aws:sqs:eu-central-1:123456789012:payments-billing", format!("{TOPIC}:632be099"));
    let others =
        json!({ "target": billing, "topicArn": format!("{TOPIC}-bills"), "subscriptionArn": of_billing });
    let others: Vec<_> = (0..18).map(|number| letter(&format!("b{number}"), &others)).collect();
    list(&cloud, "2026-11-01T11:40:00Z", &lines(&others));
    let held = |id: &str, until: &str| {
        let mut override_ = override_(id, "hold", Some(until));
        override_["by"] = CALLER.into();
        override_["match"] = json!({ "topicArn": [{ "suffix": ":payments" }] });
        override_["why"] = "the database is restored".into();
        override_
    };
    cloud.script(|call| {
        let stale = EntryFault::sender("ReceiptHandleIsInvalid", "expired");
        let moved_on = |handle: &String| (1..=6).any(|number| handle.ends_with(&format!("-m7{number}")));
        let entries = call.entries.iter().enumerate();
        let fates = entries.filter(|(_, entry)| entry.handle.as_ref().is_some_and(moved_on));
        SimFault::Entries(fates.map(|(index, _)| (index, stale.clone())).collect())
    });
    let manual = manual();
    let args = ["waiting", "--by", "target"];
    let told = run(&cloud, &args).await.text();
    assert!(shows(&manual, &told), "it prints:\n{told}");
    let args = ["retry", "--topic", "payments", "--why", "the worker is back", "--yes"];
    let told = run(&cloud, &args).await.text();
    // The id of an override ends with a random part.
    let named = |word: &str| word.starts_with("20261101T120000Z-").then(|| word[..25].to_owned());
    let id = told.split_whitespace().find_map(named).unwrap();
    let told = told.replace(&id, "20261101T120000Z-7f3a51c2");
    // The manual's commands use variables for the place.
    let told = told.replace(&format!(" {}", CONTROL.join(" ")), "");
    assert!(shows(&manual, &told), "it prints:\n{told}");

    put_overrides(&cloud, &[held("20261101T110500Z-7f3a51c2", "2026-11-01T13:05:00Z")]);
    let args = ["overrides", "release", "20261101T110500Z-7f3a51c2", "--why", "done sooner", "--yes"];
    let told = run(&cloud, &args).await.text();
    let of_release = "\
Release:
20261101T110500Z-7f3a51c2  hold  {\"topicArn\":[{\"suffix\":\":payments\"}]}  until 2026-11-01 13:05:00 UTC, 1.1 h  \
arn:aws:sts::123456789012:assumed-role/operator/ada  the database is restored

Held: at most 2,315 letters on the list of waiting letters. Wakes hidden letters, beginning 20 s after the override, 500 a second; takes about 25 s.
By: arn:aws:sts::123456789012:assumed-role/operator/ada (confirmed by AWS)

Released 1 override; the function obeys within 15 seconds.
2,309 letters asked to wake; 6 already received again or gone.
";
    assert_eq!(told, of_release);
}
