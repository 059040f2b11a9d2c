//! `archive diff`: compares edited records with the archive.

use redrive_core::policy::ArchiveReason;
use redrive_support::{NOW, RecordBuilder, TestAccount};
use serde_json::{Value, json};

use super::{CommandRun, CommandWorld, PLACE, archive, bury, redrivectl_in};

/// Two letters as `archive show --json` writes them: an envelope with JSON in it, and a text.
async fn shown() -> (TestAccount, Vec<Value>) {
    let cloud = TestAccount::new();
    let posts = [
        RecordBuilder::envelope("a").message(r#"{"override": 17, "items": [{"price": "x"}, {"price": 2}]}"#),
        RecordBuilder::raw("d", "first line\nsecond line"),
    ];
    bury(&cloud, &posts, ArchiveReason::Exhausted, NOW, "r1").await;
    let text = archive(&cloud, &["show", "--json"]).await.text();
    let shown = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (cloud, shown)
}

async fn diff(cloud: &TestAccount, records: &[Value], args: &[&str]) -> CommandRun {
    let text = records.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    let world = CommandWorld { input: text.into_bytes(), ..CommandWorld::on(cloud) };
    redrivectl_in(world, &[&["archive", "diff", "-", "--archive", PLACE], args].concat()).await
}

#[tokio::test]
async fn nothing_is_shown_of_letters_that_are_as_in_the_archive() {
    let (cloud, shown) = shown().await;
    assert_eq!(diff(&cloud, &shown, &[]).await.text(), "0 letters changed, 2 as in the archive.\n");
}

#[tokio::test]
async fn changes_are_shown_line_by_line_or_as_paths() {
    let (cloud, mut shown) = shown().await;
    let envelope = shown[0]["message"]["body"].as_str().unwrap();
    let edited = envelope.replace(r#"\"price\": \"x\""#, r#"\"price\": 1"#);
    assert_ne!(edited, envelope);
    shown[0]["message"]["body"] = json!(edited);
    shown[1]["message"]["body"] = json!("first line\nanother line\u{1b}[2J");
    shown[1]["message"]["messageAttributes"]["a b"] = json!({ "dataType": "String", "stringValue": "x" });
    let text = diff(&cloud, &shown, &[]).await.text();
    for line in [
        "-            \"price\": \"x\"",
        "+            \"price\": 1",
        "       \"first line\",",
        "-      \"second line\"",
        "+      \"another line\\u001b[2J\"",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(text.ends_with("\n\n2 letters changed, 0 as in the archive.\n"), "{text}");
    let changed = diff(&cloud, &shown, &["--json"]).await.json();
    let paths = |index: usize| changed["letters"][index]["changed"].clone();
    assert_eq!(paths(0), json!(["message.body.Message.items[0].price"]));
    assert_eq!(paths(1), json!(["message.body[1]", "message.messageAttributes[\"a b\"]"]));
    assert_eq!(changed["letters"][1]["key"], shown[1]["key"]);
}

/// White space in JSON is sent as edited, so `diff` must show it.
#[tokio::test]
async fn white_space_alone_is_a_change_of_the_body() {
    let (cloud, mut shown) = shown().await;
    let envelope = shown[0]["message"]["body"].as_str().unwrap();
    shown[0]["message"]["body"] = json!(format!("{envelope} "));
    let changed = diff(&cloud, &shown, &["--json"]).await.json();
    assert_eq!(changed["letters"][0]["changed"], json!(["message.body"]));
    assert_eq!(changed["unchanged"], 1);
}

#[tokio::test]
async fn a_record_that_names_no_letter_of_the_archive_is_told() {
    let (cloud, shown) = shown().await;
    let mut other = shown.clone();
    other[0]["line"] = json!(2);
    let ran = diff(&cloud, &other, &[]).await;
    assert_eq!((ran.code, ran.out.as_str()), (1, "0 letters changed, 1 as in the archive.\n"));
    assert!(
        ran.err.starts_with("redrivectl: line 1: the archive has no such letter at this place"),
        "{}",
        ran.err
    );

    let mut nowhere = shown.clone();
    nowhere[1].as_object_mut().unwrap().remove("key");
    let ran = diff(&cloud, &nowhere, &[]).await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("line 2: key or line is missing"), "{}", ran.err);
}
