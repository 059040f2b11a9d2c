//! Many letters: each is found, and no version has a byte of it left.

use std::fmt::Write as _;

use redrive_support::{NOW, RecordBuilder, TestAccount, letter, record};

use super::{GOLD, erase, gold, versions_with};

/// The number of letters in an object.
const PER_OBJECT: u64 = 500;

#[tokio::test]
async fn each_of_a_thousand_among_a_hundred_thousand_is_erased() {
    erased_among(100_000).await;
}

#[tokio::test]
#[ignore = "takes minutes and 3 GB of memory; run by hand"]
async fn each_of_a_thousand_among_a_million_is_erased() {
    erased_among(1_000_000).await;
}

async fn erased_among(letters: u64) {
    const PLANTED: u64 = 1_000;
    let cloud = TestAccount::new();
    cloud.aws.act("test", |it, _| it.s3.keep_versions("my-bucket"));
    let line = |post: &RecordBuilder| record(&letter(post), NOW).to_line().unwrap();
    let (other, planted) = (line(&RecordBuilder::envelope("#######")), line(&gold()));
    let id = format!("\"messageId\":\"{}", letter(&gold()).sqs.message_id);
    let objects = letters / PER_OBJECT;
    // They are in every tenth object.
    let of_object = |object: u64| if object % 10 == 3 { PLANTED * 10 / objects } else { 0 };
    let mut planted_so_far = 0;
    for object in 0..objects {
        let mut lines = String::new();
        for number in object * PER_OBJECT..(object + 1) * PER_OBJECT {
            if number % PER_OBJECT < of_object(object) {
                planted_so_far += 1;
                let own = planted.replace(&id, &format!("{id}-planted-{number}"));
                let _ = write!(lines, "{own}");
            } else {
                lines += &other.replace("#######", &format!("{number:07}"));
            }
        }
        let key = format!(
            "dead-letters/queue=payments-dlq/date=2026-11-01/20261101T120000.{object:03}Z-r{object}.2-n{PER_OBJECT}-r0.jsonl"
        );
        cloud.aws.act("test", |it, cx| it.s3.place(("my-bucket", &key), lines.as_bytes(), cx.now));
        // Some of them have an older version.
        if object % 20 == 3 {
            cloud.aws.act("test", |it, cx| it.s3.place(("my-bucket", &key), lines.as_bytes(), cx.now));
        }
    }
    assert_eq!(planted_so_far, PLANTED);
    cloud.forget();

    let record = erase(&cloud, &["--match", GOLD, "--archive-only", "--yes", "--json"]).await.json();
    assert_eq!(record["erased"], PLANTED);
    assert_eq!(versions_with(&cloud, "-planted-"), Vec::<String>::new());
    assert_eq!(versions_with(&cloud, "S3CR3T"), Vec::<String>::new());
    let lines: usize = cloud.objects().values().map(|object| object.lines().count()).sum();
    assert_eq!(lines as u64, letters, "each line is still there");
}
