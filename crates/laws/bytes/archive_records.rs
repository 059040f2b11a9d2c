//! A law: every bad line of an archive is reported on its own, and a record that is read once is written and
//! read the same.

use redrive_archive::ArchiveRecord;

use super::assert_same;

/// Checks the law. The bytes are a line of an archive.
pub fn check(data: &[u8]) {
    let Ok(line) = std::str::from_utf8(data) else { return };
    let record = match ArchiveRecord::from_line(line) {
        Ok(record) => record,
        Err(bad) => return quotes_nothing(&bad.to_string(), line),
    };
    let written = record.to_line().unwrap();
    assert!(written.ends_with('\n') && written.matches('\n').count() == 1, "a record is one line");
    let read = ArchiveRecord::from_line(&written).unwrap();
    assert!(read == record, "a record reads back as written");
    assert!(read.identity() == record.identity() && read.archived() == record.archived());
    assert_eq!(read.message.digest().unwrap(), record.message.digest().unwrap());
    let summary: serde_json::Value = serde_json::from_str(&record.to_summary()).unwrap();
    assert!(["message", "record"].map(|name| summary.get(name)) == [None; 2], "a summary holds no message");
    match (record.to_message(), record.to_letter()) {
        (Ok(message), Ok(letter)) => {
            assert!(letter.sqs == message, "a letter keeps its message whole");
            assert!(message.receipt_handle.is_empty() && !message.message_id.is_empty());
            assert!(message.body == record.message.body, "the body changed");
            assert!(message.system == record.message.attributes, "the system attributes changed");
            assert!(
                message.attributes.keys().eq(record.message.message_attributes.keys()),
                "an attribute is gone"
            );
            assert_same(&read.to_letter().unwrap(), &letter);
        }
        (Err(bad), Err(same)) => {
            assert_eq!(bad, same);
            quotes_nothing(&bad.to_string(), line);
        }
        (message, letter) => panic!("{:?}, but {:?}", message.err(), letter.err()),
    }
}

/// Asserts that the report about a bad line never quotes it, because the line may hold a message.
fn quotes_nothing(said: &str, line: &str) {
    /// The words that the report may use, besides numbers.
    const WORDS: &str = "is not valid of a field UTF-8 JSON column longer than record can be \
        an archive: it has no version holds letter function could not its as came but this software reads only unknown missing another type time usable value or \
        archivedAt reason queueArn deadLetterQueueArn letterId origin rule message messageId body attributes messageAttributes \
        eventSource eventSourceARN awsRegion number code class dataType receiptHandle \
        ApproximateReceiveCount SentTimestamp ApproximateFirstReceiveTimestamp";
    let word = |c: char| !(c.is_alphanumeric() || c == '-' || c == '_');
    let known = |text: &&str| WORDS.split(word).any(|word| word == *text) || text.parse::<u64>().is_ok();
    let strange = said.split(word).filter(|text| !text.is_empty()).find(|text| !known(text));
    assert!(strange.is_none(), "{said:?} says {strange:?} of {} bytes", line.len());
}
