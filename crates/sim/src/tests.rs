//! Tests of each limit of S3 and Firehose, with the page that it comes from.

use crate::s3::{MAX_KEYS, PutCondition, SimListRequest};
use crate::{Error, MAX_RECORD_BYTES, MAX_RECORDS, SimAws, SimClock, SimEntry};

fn aws() -> SimAws {
    let aws = SimAws::new(SimClock::manual("2026-11-01T12:00:00Z".parse().unwrap()), 7);
    aws.act("test", |it, _| {
        it.s3.create("archive");
        it.firehose.create("payments");
    });
    aws
}

fn put(aws: &SimAws, key: &str, body: &str, condition: PutCondition<'_>) -> Result<String, Error> {
    let body = body.as_bytes().to_vec();
    aws.act("test", |it, cx| it.s3.put_object(cx, ("archive", key), body, condition, None))
}

/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html>
#[test]
fn a_write_may_have_a_condition() {
    let aws = aws();
    assert_eq!(put(&aws, "a", "1", PutCondition::Tag("\"x\"")).unwrap_err().status, 404);
    let first = put(&aws, "a", "1", PutCondition::Absent).unwrap();
    assert_eq!(first, "\"c4ca4238a0b923820dcc509a6f75849b\"", "the tag is the MD5");
    assert_eq!(put(&aws, "a", "2", PutCondition::Absent).unwrap_err().status, 412);
    assert_eq!(put(&aws, "a", "2", PutCondition::Tag("\"x\"")).unwrap_err().code, "PreconditionFailed");
    let second = put(&aws, "a", "2", PutCondition::Tag(&first)).unwrap();
    assert_eq!(put(&aws, "a", "3", PutCondition::Tag(&first)).unwrap_err().status, 412);
    aws.act("test", |it, _| {
        assert_eq!(it.s3.get_object(("archive", "a"), None).unwrap().bytes, b"2");
        assert_eq!(it.s3.get_object(("archive", "a"), Some(&second)).unwrap_err().status, 304);
        assert_eq!(it.s3.get_object(("archive", "b"), None).unwrap_err().code, "NoSuchKey");
        assert_eq!(it.s3.get_object(("none", "b"), None).unwrap_err().code, "NoSuchBucket");
        it.s3.denies_missing = true;
        assert_eq!(it.s3.get_object(("archive", "b"), None).unwrap_err().status, 403);
        assert_eq!(it.s3.get_object(("archive", "a"), None).unwrap().bytes, b"2");
    });
}

/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html>
#[test]
fn a_key_has_1024_bytes() {
    let aws = aws();
    put(&aws, &"k".repeat(1024), "1", PutCondition::None).unwrap();
    assert_eq!(put(&aws, &"k".repeat(1025), "1", PutCondition::None).unwrap_err().code, "KeyTooLongError");
}

/// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html>
#[test]
fn a_listing_has_pages_and_common_prefixes() {
    let aws = aws();
    for number in 0..2_001 {
        put(&aws, &format!("p/{number:04}"), "", PutCondition::None).unwrap();
    }
    put(&aws, "p/x/1", "", PutCondition::None).unwrap();
    put(&aws, "p/x/2", "", PutCondition::None).unwrap();
    put(&aws, "q", "", PutCondition::None).unwrap();
    let list =
        |list: SimListRequest<'_>| aws.act("test", |it, _| it.s3.list_objects("archive", list)).unwrap();
    let (mut after, mut sizes) = (None, Vec::new());
    loop {
        let page =
            list(SimListRequest { prefix: "p/", after: after.as_deref(), ..SimListRequest::default() });
        sizes.push(page.objects.len());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(sizes, [MAX_KEYS, MAX_KEYS, 3]);
    let page = list(SimListRequest { delimiter: Some("/"), ..SimListRequest::default() });
    assert_eq!((page.prefixes, page.objects[0].0.as_str()), (vec!["p/".to_owned()], "q"));
    // A page that ends with a common prefix continues after all of its keys.
    let first = list(SimListRequest { delimiter: Some("/"), max_keys: Some(1), ..SimListRequest::default() });
    assert_eq!(first.next.as_deref(), Some("p/"));
    let second =
        list(SimListRequest { delimiter: Some("/"), after: Some("p/"), ..SimListRequest::default() });
    assert_eq!((second.prefixes.len(), second.objects.len(), second.next), (0, 1, None));
    let after = list(SimListRequest { prefix: "p/", after: Some("p/1999"), ..SimListRequest::default() });
    assert_eq!(after.objects.len(), 3);
}

/// <https://docs.aws.amazon.com/firehose/latest/APIReference/API_PutRecordBatch.html>
#[test]
fn a_request_has_500_records_and_4_mebibytes() {
    let aws = aws();
    let put = |stream: &str, records: &[SimEntry]| {
        aws.act("test", |it, cx| it.firehose.put_record_batch(cx, stream, records)).map(|it| it.len())
    };
    let records = |count: usize, bytes: usize| vec![SimEntry::new("", "x".repeat(bytes)); count];
    assert_eq!(put("payments", &records(MAX_RECORDS, 1)), Ok(500));
    assert_eq!(put("payments", &records(MAX_RECORDS + 1, 1)).unwrap_err().code, "ValidationException");
    assert_eq!(put("payments", &records(0, 1)).unwrap_err().code, "ValidationException");
    assert_eq!(put("payments", &records(4, MAX_RECORD_BYTES)), Ok(4));
    put("payments", &records(1, MAX_RECORD_BYTES + 1)).unwrap_err();
    assert_eq!(put("payments", &records(8, 512 * 1024)), Ok(8));
    assert_eq!(put("payments", &records(9, 512 * 1024)).unwrap_err().code, "InvalidArgumentException");
    assert_eq!(put("none", &records(1, 1)).unwrap_err().code, "ResourceNotFoundException");
}
