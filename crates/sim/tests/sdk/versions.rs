//! Versions of objects and their locks, through the SDK.

use aws_sdk_s3::error::ProvideErrorMetadata as _;

use super::*;

#[tokio::test(start_paused = true)]
async fn versions_are_listed_by_pages_read_and_deleted_and_the_one_before_becomes_current() {
    let aws = paused();
    aws.act("test", |it, _| {
        it.s3.keep_versions("archive");
        it.s3.page = 2;
    });
    let s3 = aws_sdk_s3::Client::new(&config(aws.connector(&Caller::new("tool"))));
    let put = async |key: &str, body: &'static [u8]| {
        let put = s3.put_object().bucket("archive").key(key).metadata("first", "1");
        put.body(ByteStream::from_static(body)).send().await.unwrap().version_id().unwrap().to_owned()
    };
    let (one, two, other) = (put("a", b"1").await, put("a", b"2").await, put("b", b"3").await);
    let marker = s3.delete_object().bucket("archive").key("b").send().await;
    assert!(marker.is_ok());
    assert!(s3.get_object().bucket("archive").key("b").send().await.is_err());

    let page = s3.list_object_versions().bucket("archive").send().await.unwrap();
    let listed: Vec<_> =
        page.versions().iter().map(|it| (it.version_id().unwrap(), it.is_latest())).collect();
    assert_eq!(listed, [(&*two, Some(true)), (&*one, Some(false))]);
    assert_eq!((page.is_truncated(), page.next_key_marker()), (Some(true), Some("a")));
    let next = s3.list_object_versions().bucket("archive").set_key_marker(page.next_key_marker);
    let page = next.set_version_id_marker(page.next_version_id_marker).send().await.unwrap();
    assert_eq!((page.versions()[0].version_id(), page.delete_markers().len()), (Some(&*other), 1));
    assert_eq!(page.is_truncated(), Some(false));

    let old = s3.get_object().bucket("archive").key("a").version_id(&one).send().await.unwrap();
    assert_eq!(old.metadata().unwrap()["first"], "1");
    assert_eq!(old.body.collect().await.unwrap().to_vec(), b"1");
    s3.delete_object().bucket("archive").key("a").version_id(&two).send().await.unwrap();
    let now = s3.get_object().bucket("archive").key("a").send().await.unwrap();
    assert_eq!(now.version_id(), Some(&*one));
    assert_eq!(now.body.collect().await.unwrap().to_vec(), b"1");
    let gone = s3.get_object().bucket("archive").key("a").version_id(&two).send().await;
    assert_eq!(gone.unwrap_err().into_service_error().code(), Some("NoSuchVersion"));
}

#[tokio::test(start_paused = true)]
async fn a_locked_version_is_deleted_only_in_spite_of_governance() {
    let aws = paused();
    aws.act("test", |it, _| it.s3.lock_new_versions("archive", "GOVERNANCE", 60_000));
    let s3 = aws_sdk_s3::Client::new(&config(aws.connector(&Caller::new("tool"))));
    let put = s3.put_object().bucket("archive").key("a").body(ByteStream::from_static(b"1"));
    let id = put.send().await.unwrap().version_id().unwrap().to_owned();
    let read = s3.get_object().bucket("archive").key("a").send().await.unwrap();
    assert_eq!(read.object_lock_mode().map(aws_sdk_s3::types::ObjectLockMode::as_str), Some("GOVERNANCE"));
    assert!(read.object_lock_retain_until_date().is_some());
    let delete = || s3.delete_object().bucket("archive").key("a").version_id(&id);
    let refused = delete().send().await.unwrap_err().into_service_error();
    assert_eq!(refused.code(), Some("AccessDenied"));
    assert!(refused.message().unwrap().contains("object lock"));
    delete().bypass_governance_retention(true).send().await.unwrap();
    assert!(aws.act("test", |it, _| it.s3.all_versions("archive").iter().all(|(_, all)| all.is_empty())));
}
