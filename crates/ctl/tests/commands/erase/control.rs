//! What the control prefix has of letters: lines of the list, overrides that have ended, replays.

use redrive_support::{DLQ, TestAccount, letter};
use serde_json::{Value, json};

use super::{GOLD, archived, erase, gold, versions_with};
use crate::{CommandWorld, redrivectl_in, waiting};

/// A selection that no override could have, so that no queue is searched.
const SELECTED: [&str; 5] = ["--match", GOLD, "--since", "2026-10-01", "--yes"];

const OVERRIDES: &str = "my-bucket/dead-letters-control/overrides";

fn line_of_gold() -> Value {
    let of_gold = letter(&gold());
    let ids =
        json!({ "letterId": of_gold.id.as_str(), "messageId": of_gold.sqs.message_id, "queueArn": DLQ });
    waiting::letter("gold", &ids)
}

fn lists(cloud: &TestAccount) -> Vec<String> {
    let objects = cloud.objects().into_iter();
    objects.filter(|(key, _)| key.contains("/waiting/")).map(|(_, object)| object).collect()
}

#[tokio::test]
async fn lines_of_the_list_lose_ids_and_handles_and_keep_their_place() {
    let cloud = archived().await;
    let other = waiting::letter("other", &json!({}));
    let lines = waiting::lines(&[other.clone(), line_of_gold(), other.clone()]);
    waiting::list(&cloud, "2026-11-01T10:00:00Z", &lines);
    let ran = erase(&cloud, &SELECTED).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("  list       1 line of the list of waiting letters\n"), "{}", ran.out);
    assert!(
        ran.out.contains("\nErased 1 line of the list of waiting letters; redacted 0 documents.\n"),
        "{}",
        ran.out
    );
    let of_gold = letter(&gold());
    for text in [of_gold.id.as_str(), &of_gold.sqs.message_id, "handle-S3CR3T-gold"] {
        assert_eq!(versions_with(&cloud, text), Vec::<String>::new(), "{text}");
    }
    let list: Vec<Value> = lists(&cloud)[0].lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&list[0], &list[2], list.len()), (&other, &other, 3));
    assert_eq!((&list[1]["messageId"], &list[1]["receiptHandle"]), (&json!("erased"), &json!("")));
    let place = ["waiting", "--control", "s3://my-bucket/dead-letters-control"];
    let counted = redrivectl_in(CommandWorld::on(&cloud), &place).await.text();
    assert!(counted.contains("At most 1 letter waits"), "a line in the past does not count: {counted}");
}

#[tokio::test]
async fn ended_overrides_and_their_old_versions_lose_what_names_the_person() {
    let cloud = archived().await;
    let named = json!({ "message": { "customer": ["4711"] }, "topicArn": [{ "suffix": ":payments" }] });
    let override_ = |id: &str, pattern: &Value, why: &str| json!({ "id": id, "do": "hold", "match": pattern, "at": "2026-11-01T11:00:00Z", "by": "ada", "why": why });
    let none = json!({ "message": { "customer": ["47112"] } });
    let document = |overrides: &[Value]| json!({ "version": 1, "overrides": overrides }).to_string();
    cloud.put(&format!("{OVERRIDES}.json"), &document(&[override_("a", &named, "w")]));
    cloud.put(&format!("{OVERRIDES}.json"), &document(&[override_("b", &none, "w")]));
    cloud.put(&format!("{OVERRIDES}/a.json"), &override_("a", &named, "mail of customer 4711").to_string());
    cloud.put(&format!("{OVERRIDES}/c.json"), &override_("c", &none, "4711 letters").to_string());
    let pattern = r#"{"message": {"customer": ["4711"]}}"#;
    let ran = erase(&cloud, &["--match", pattern, "--since", "2026-10-01", "--yes"]).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("dead-letters-control/overrides/a.json names the content\n"), "{}", ran.out);
    assert_eq!(versions_with(&cloud, "\"4711\""), Vec::<String>::new());
    let ended: Value = serde_json::from_str(&cloud.objects()[&format!("{OVERRIDES}/a.json")]).unwrap();
    assert_eq!(
        ended["match"],
        json!({ "message": { "customer": ["(erased)"] }, "topicArn": [{ "suffix": ":payments" }] })
    );
    assert_eq!((&ended["by"], &ended["id"]), (&json!("ada"), &json!("a")));
    assert_eq!(versions_with(&cloud, "47112").len(), 2, "others are left alone");
}

#[tokio::test]
async fn an_override_in_force_that_names_the_person_stays_and_is_told() {
    let cloud = archived().await;
    let override_ = json!({
        "id": "h1", "do": "hold", "match": { "messageAttributes": { "tenant": ["gold"] } },
        "at": "2026-11-01T11:00:00Z", "by": "ada", "why": "w",
    });
    let document = json!({ "version": 1, "overrides": [override_] }).to_string();
    cloud.put(&format!("{OVERRIDES}.json"), &document);
    let ran = erase(&cloud, &SELECTED).await;
    assert_eq!(ran.code, 3, "{}", ran.err);
    let said = "an override in force names the content: release it";
    assert!(ran.out.contains(&format!("\nLeft: {said}.\n")), "{}", ran.out);
    let again = erase(&cloud, &SELECTED).await;
    assert!(again.out.contains(said) && again.out.ends_with("\nNothing to erase.\n"), "{}", again.out);
    assert_eq!(again.code, 3, "it is still there: {}", again.out);
    assert_eq!(cloud.objects()[&format!("{OVERRIDES}.json")], document);
}
