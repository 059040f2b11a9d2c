use super::*;

#[test]
fn is_told_as_such() {
    let raw = include_str!("../../../events/raw.json");
    let fifo = include_str!("../../../events/fifo.json");
    let mut letters = [bodies(raw), bodies(fifo)].concat();
    for text in [
        "",
        " ",
        "null",
        "[]",
        "{}",
        "7",
        "\"text\"",
        "plain text",
        "{\"Records\":[]}",
        "{\"Records\":7}",
        "{\"Records\":[1]}",
        "{\"Records\":[{}]}",
        "{\"Records\":[{\"Sns\":{}}]}",
        "{\"Sns\":{}}",
    ] {
        letters.push(text.to_owned());
    }
    letters.push(SIGNED[0][..SIGNED[0].len() - 3].to_owned());
    letters.push(format!("{} x", SIGNED[0]));
    for field in ["Signature", "SignatureVersion", "SigningCertURL"] {
        letters.push(with(SIGNED[0], field, None));
        letters.push(with(SIGNED[0], field, Some(Value::Null)));
    }
    let mut two_records = event(SIGNED[0]);
    let record = two_records["Records"][0].clone();
    two_records["Records"].as_array_mut().unwrap().push(record);
    letters.push(two_records.to_string());

    assert!(letters.len() > 20);
    for text in letters {
        assert_eq!(SignedMessage::read(&text), Err(SignatureFault::Unsigned), "{text}");
    }
}
