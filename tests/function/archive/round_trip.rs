use super::*;

#[tokio::test]
async fn every_sample_can_be_rebuilt_from_its_record() {
    for (name, event) in samples() {
        let cloud = TestAccount::new();
        let letters = letters_of(&event);
        assert_eq!(store(&in_s3(&cloud), &letters).await, vec![Ok(()); letters.len()], "{name}");
        let lines = lines(&cloud);
        assert_eq!(lines.len(), letters.len());
        for (line, mut letter) in lines.iter().zip(letters) {
            "another".clone_into(&mut letter.sqs.receipt_handle);
            assert_eq!(rebuilt(line), letter, "{name}");
        }
    }
}

/// A record leaves out only the receipt handle, the checksums, and lists that SQS never fills.
#[tokio::test]
async fn the_message_of_a_record_is_lambdas_own_record() {
    for (name, event) in samples() {
        let cloud = TestAccount::new();
        store(&in_s3(&cloud), &letters_of(&event)).await;
        for (line, record) in lines(&cloud).iter().zip(event["Records"].as_array().unwrap()) {
            let mut record = record.clone();
            let fields = record.as_object_mut().unwrap();
            for left_out in ["receiptHandle", "md5OfBody", "md5OfMessageAttributes"] {
                fields.remove(left_out);
            }
            for attribute in record["messageAttributes"].as_object_mut().unwrap().values_mut() {
                let attribute = attribute.as_object_mut().unwrap();
                attribute.remove("stringListValues");
                attribute.remove("binaryListValues");
            }
            assert_eq!(line["message"], record, "{name}");
        }
    }
}

fn any_attribute() -> impl Strategy<Value = (String, String)> {
    prop_oneof![
        ("(String|Number|String\\.Array|Number\\.int)", any::<String>()),
        (
            "(Binary|Binary\\.png)",
            // Base64 of any bytes whose number is a multiple of three.
            proptest::collection::vec("[A-Za-z0-9+/]{4}", 0..8).prop_map(|parts| parts.concat())
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_message_can_be_rebuilt_from_its_record(
        body in any::<String>(),
        attributes in proptest::collection::btree_map("[A-Za-z0-9_.-]{1,20}", any_attribute(), 0..10),
        system in proptest::collection::btree_map("[A-Z][A-Za-z]{1,20}", any::<String>(), 0..4),
    ) {
        let mut post = RecordBuilder::raw("r", &body);
        for (name, (kind, value)) in &attributes {
            post = post.attribute(name, kind, value);
        }
        for (name, value) in &system {
            post = post.system(&format!("X{name}"), value);
        }
        let mut letter = letter(&post);
        let record = record(&letter, NOW).to_line().unwrap();
        prop_assert_eq!(record.matches('\n').count(), 1);
        prop_assert!(!record.contains("handle-r"));
        "another".clone_into(&mut letter.sqs.receipt_handle);
        prop_assert_eq!(rebuilt(&serde_json::from_str(&record).unwrap()), letter);
    }
}
