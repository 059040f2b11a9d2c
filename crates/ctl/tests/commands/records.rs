//! Archived records: reading returns what was written, and refuses what is not a record.

use std::collections::BTreeMap;

use proptest::prelude::*;
use redrive_archive::{
    ArchiveRecord, BadRecord, ErasedRecord, RECORD_VERSION, RecordedCause, RecordedError, RecordedRetry,
};
use redrive_core::batch::ArchiveContext;
use redrive_core::endpoint::TargetName;
use redrive_core::letter::{Letter, SqsMessage};
use redrive_core::policy::ArchiveReason;
use redrive_support::{NOW, RecordBuilder, at, holds, letter, letters_of, samples};
use serde_json::{Value, json};

/// Returns the record of a letter.
pub(crate) fn record(letter: &Letter) -> ArchiveRecord {
    let context = ArchiveContext {
        reason: ArchiveReason::Exhausted,
        detail: None,
        rule: "default".to_owned(),
        target: None,
        retry: None,
        failure: None,
        override_id: None,
    };
    ArchiveRecord::of(letter, &context, at(NOW))
}

fn line_of(record: &ArchiveRecord) -> Value {
    serde_json::to_value(record).unwrap()
}

fn read(line: &Value) -> Result<ArchiveRecord, BadRecord> {
    ArchiveRecord::from_line(&line.to_string())
}

/// Returns the message without the parts that are not stored.
fn stored(sqs: &SqsMessage) -> SqsMessage {
    SqsMessage { receipt_handle: String::new(), ..sqs.clone() }
}

#[test]
fn every_sample_comes_back_from_its_record_byte_for_byte() {
    let mut letters = 0;
    for (name, event) in samples() {
        for letter in letters_of(&event) {
            let record = record(&letter);
            let line = record.to_line().unwrap();
            assert_eq!(ArchiveRecord::from_line(&line), Ok(record.clone()), "{name}");
            let message = ArchiveRecord::from_line(&line).unwrap().to_message().unwrap();
            assert!(message == stored(&letter.sqs), "{name}: {}", letter.sqs.message_id);
            assert_eq!(Letter::parse(message.clone()).sqs, message);
            assert_eq!(record.to_letter().unwrap().id, letter.id, "{name}");
            letters += 1;
        }
    }
    assert!(letters > 20);
}

#[test]
fn any_message_comes_back_from_its_record() {
    let text = || ".{0,40}";
    let values = prop_oneof![
        text().prop_map(|text| ("String".to_owned(), text, false)),
        text().prop_map(|text| ("Number.int".to_owned(), text, false)),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| {
            use base64::Engine as _;
            ("Binary.png".to_owned(), base64::engine::general_purpose::STANDARD.encode(bytes), true)
        }),
    ];
    let attributes = prop::collection::btree_map("[a-zA-Z0-9_.-]{1,20}", values, 0..10);
    let system = prop::collection::btree_map("[A-Z][a-zA-Z]{1,20}", ".{0,20}", 0..4);
    holds(2000, &(any::<String>(), attributes, system, 1_u32..1000), |(body, attributes, system, count)| {
        let mut record = RecordBuilder::raw("m1", &body).received(count).record();
        for (name, value) in &system {
            if record["attributes"].get(name).is_none() {
                record["attributes"][name] = json!(value);
            }
        }
        for (name, (kind, value, binary)) in &attributes {
            let field = if *binary { "binaryValue" } else { "stringValue" };
            record["messageAttributes"][name] = json!({ "dataType": kind, field: value });
        }
        let letter = letters_of(&json!({ "Records": [record] })).remove(0);
        let line = self::record(&letter).to_line().unwrap();
        prop_assert_eq!(line.matches('\n').count(), 1);
        let message = ArchiveRecord::from_line(&line).unwrap().to_message().unwrap();
        prop_assert!(message == stored(&letter.sqs));
        Ok(())
    });
}

#[test]
fn fields_of_a_later_minor_change_are_passed_over() {
    let mut line = line_of(&record(&letter(&RecordBuilder::envelope("a"))));
    line["colour"] = json!("red");
    line["message"]["weight"] = json!(3);
    assert!(read(&line).is_ok());
}

#[test]
fn a_line_that_is_no_record_says_what_it_is() {
    let whole = line_of(&record(&letter(&RecordBuilder::envelope("a"))));
    let with = |change: fn(&mut Value)| {
        let mut line = whole.clone();
        change(&mut line);
        read(&line).unwrap_err()
    };
    assert_eq!(with(|line| line["version"] = json!(2)), BadRecord::Version { found: "2".to_owned() });
    assert_eq!(with(|line| line["version"] = json!(300)), BadRecord::Version { found: "300".to_owned() });
    assert_eq!(
        with(|line| *line = json!({ "version": 7, "letter": {} })),
        BadRecord::Version { found: "7".to_owned() },
        "a later form may share nothing with this one"
    );
    assert_eq!(with(|line| *line = json!({ "hello": 1 })), BadRecord::NoVersion);
    assert_eq!(with(|line| *line = json!([1])), BadRecord::NoVersion);
    let form = |problem: &str| BadRecord::Form { problem: problem.to_owned() };
    assert_eq!(
        with(|line| {
            line.as_object_mut().unwrap().remove("queueArn");
        }),
        form("missing field `queueArn`")
    );
    assert_eq!(with(|line| line["archivedAt"] = json!("S3CR3T")), form("archivedAt is not a time"));
    let cut = &whole.to_string()[..100];
    assert_eq!(ArchiveRecord::from_line(cut), Err(BadRecord::NotJson { column: 100 }));
    assert_eq!(
        BadRecord::Version { found: "2".to_owned() }.to_string(),
        format!("has version 2, but this software reads only version {RECORD_VERSION}")
    );
}

#[test]
fn what_is_said_of_a_bad_line_does_not_quote_it() {
    let mut line = line_of(&record(&letter(&RecordBuilder::envelope("a"))));
    line["message"]["attributes"] = json!("S3CR3T");
    let said = read(&line).unwrap_err().to_string();
    assert!(said.starts_with("is not a valid record: a field has another type"), "{said}");
    assert!(!said.contains("S3CR3T"), "{said}");
}

#[test]
fn a_message_that_was_edited_wrongly_is_refused_with_its_field() {
    let post = RecordBuilder::raw("m", "body").attribute("a", "Binary", "AAEC");
    let whole = line_of(&record(&letter(&post)));
    for (field, break_it) in [
        ("messageId", (|message| message["messageId"] = json!("")) as fn(&mut Value)),
        ("SentTimestamp", |message| message["attributes"]["SentTimestamp"] = json!("yesterday")),
        ("ApproximateReceiveCount", |message| message["attributes"]["ApproximateReceiveCount"] = json!("0")),
        ("messageAttributes", |message| message["messageAttributes"]["a"]["binaryValue"] = json!("*")),
        ("messageAttributes", |message| {
            message["messageAttributes"]["a"] = json!({ "dataType": "Binary", "stringValue": "text" });
        }),
        ("messageAttributes", |message| message["messageAttributes"]["b"] = json!({ "dataType": "String" })),
    ] {
        let mut line = whole.clone();
        break_it(&mut line["message"]);
        let refused = read(&line).unwrap().to_message().unwrap_err();
        assert_eq!(refused, BadRecord::Message { field: field.to_owned() });
    }
}

#[test]
fn a_digest_tells_an_edited_message_from_the_original() {
    let message = record(&letter(&RecordBuilder::raw("m", "body").attribute("a", "String", "1"))).message;
    let same = record(&letter(&RecordBuilder::raw("m", "body").attribute("a", "String", "1"))).message;
    let other = record(&letter(&RecordBuilder::raw("m", "body").attribute("a", "String", "2"))).message;
    let body = record(&letter(&RecordBuilder::raw("m", "bodY").attribute("a", "String", "1"))).message;
    assert_eq!(message.digest().unwrap(), same.digest().unwrap());
    assert_ne!(message.digest().unwrap(), other.digest().unwrap());
    assert_ne!(message.digest().unwrap(), body.digest().unwrap());
}

/// The table of docs/guide/sql.md has a column for each field of a record, by name and type.
#[test]
fn the_table_of_the_page_on_sql_has_the_fields_of_a_record() {
    let page = include_str!("../../../../docs/guide/sql.md");
    let (_, table) = page.split_once("CREATE EXTERNAL TABLE dead_letters (").unwrap();
    let (columns, _) = table.split_once("\n)\n").unwrap();
    let columns: String = columns.replace('`', "").split_whitespace().collect::<Vec<_>>().join(" ");
    let mut fields = full_record();
    // The line of an erased letter has one field that no record has.
    let record = ArchiveRecord::from_line(&fields.to_string()).unwrap();
    let erased = ErasedRecord::of(&record, at(NOW)).to_line().unwrap();
    let erased: Value = serde_json::from_str(&erased).unwrap();
    let own: Vec<_> = erased.as_object().unwrap().keys().filter(|name| fields.get(name).is_none()).collect();
    assert_eq!(own, ["erased"]);
    fields["erased"] = erased["erased"].clone();
    assert_eq!(fields_of_type(&columns.replace(", ", ","), ' '), fields_of(&fields));
}

/// What stands in the place of an erased letter is no record, and says so.
#[test]
fn the_line_of_an_erased_letter_is_told_from_a_broken_one() {
    let record = record(&letter(&RecordBuilder::envelope("a")));
    let line = ErasedRecord::of(&record, at(NOW)).to_line().unwrap();
    assert!(!line.contains(&record.letter_id) && !line.contains("messageId"), "{line}");
    let Err(BadRecord::Erased(erased)) = ArchiveRecord::from_line(&line) else { panic!("{line}") };
    assert_eq!(erased.to_line().unwrap(), line);
    assert_eq!(erased.erased.letter, record.identity());
    let newer = line.replace("\"version\":1", "\"version\":2");
    assert!(matches!(ArchiveRecord::from_line(&newer), Err(BadRecord::Version { .. })), "{newer}");
}

/// Returns a record with a value in each field.
fn full_record() -> Value {
    let arn = |name: &str| format!("arn:aws:sns:eu-central-1:123456789012:{name}").parse().unwrap();
    let post =
        RecordBuilder::raw("m", "x").attribute("text", "String", "x").attribute("bytes", "Binary", "AAEC");
    let mut record = record(&letter(&post));
    record.detail = Some("in words".to_owned());
    (record.topic_arn, record.subscription_arn) = (Some(arn("payments")), Some(arn("payments:1")));
    (record.target_arn, record.target_url) =
        (Some(arn("billing")), Some(TargetName::read("https://example.com")));
    record.retry = Some(RecordedRetry { number: 1, of: 2, early: true });
    let (code, message) = ("AccessDenied".to_owned(), Some("no".to_owned()));
    record.error =
        Some(RecordedError { code: code.clone(), class: "permanent".to_owned(), message: message.clone() });
    record.override_id = Some("override".to_owned());
    record.cause = Some(RecordedCause { code: Some(code), message });
    record.record = Some("{}".to_owned());
    // A new field breaks this pattern, so that it gets a value above.
    let ArchiveRecord {
        version: _,
        archived_at: _,
        reason: _,
        detail: Some(_),
        queue_arn: _,
        dead_letter_queue_arn: _,
        letter_id: _,
        origin: _,
        topic_arn: Some(_),
        subscription_arn: Some(_),
        rule: _,
        target_arn: Some(_),
        target_url: Some(_),
        retry: Some(_),
        error: Some(_),
        override_id: Some(_),
        cause: Some(_),
        message: _,
        record: Some(_),
    } = &record
    else {
        panic!("{record:?}")
    };
    line_of(&record)
}

/// Returns the fields of a JSON object with Hive's names for their types, in lower case.
fn fields_of(object: &Value) -> BTreeMap<String, String> {
    let fields = object.as_object().unwrap().iter();
    fields.map(|(name, value)| (name.to_lowercase(), type_of(name, value))).collect()
}

fn type_of(name: &str, value: &Value) -> String {
    let struct_of = |fields: BTreeMap<String, String>| {
        let fields: Vec<_> = fields.iter().map(|(name, kind)| format!("{name}:{kind}")).collect();
        format!("struct<{}>", fields.join(","))
    };
    match (name, value) {
        ("attributes", _) => "map<string,string>".to_owned(),
        ("messageAttributes", Value::Object(values)) => {
            // Together the values have every field that a value can have.
            let fields = values.values().flat_map(fields_of).collect();
            format!("map<string,{}>", struct_of(fields))
        }
        (_, Value::Object(_)) => struct_of(fields_of(value)),
        (_, Value::Number(_)) => "int".to_owned(),
        (_, Value::Bool(_)) => "boolean".to_owned(),
        _ => "string".to_owned(),
    }
}

/// Returns the fields of a Hive list, `name type,name type`. The fields of structs are sorted by name.
fn fields_of_type(list: &str, separator: char) -> BTreeMap<String, String> {
    let (mut depth, mut start, mut fields) = (0, 0, Vec::new());
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth -= 1,
            b',' if depth == 0 => {
                fields.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    fields.push(&list[start..]);
    let named = fields.into_iter().map(|field| field.trim().split_once(separator).unwrap());
    named.map(|(name, kind)| (name.to_owned(), sorted(kind.trim()))).collect()
}

fn sorted(kind: &str) -> String {
    let inner = |prefix| kind.strip_prefix(prefix).and_then(|rest| rest.strip_suffix('>'));
    if let Some(fields) = inner("struct<") {
        let fields = fields_of_type(fields, ':');
        let fields: Vec<_> = fields.iter().map(|(name, kind)| format!("{name}:{kind}")).collect();
        format!("struct<{}>", fields.join(","))
    } else if let Some(value) = inner("map<string,") {
        format!("map<string,{}>", sorted(value))
    } else {
        kind.to_owned()
    }
}
