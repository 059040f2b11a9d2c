//! Objects that do not exist.

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

/// Reports whether a reading failed because there is no object of this key.
///
/// S3 denies access to an object that does not exist to those who may not list the bucket. Whether they may if their
/// permission is for some prefixes only, AWS does not say, so if access is denied a listing of the key decides.
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html>
pub async fn is_absent<E: ProvideErrorMetadata>(
    s3: &aws_sdk_s3::Client,
    bucket: &str,
    key: &str,
    error: &SdkError<E, HttpResponse>,
) -> bool {
    if error.code() == Some("NoSuchKey") {
        return true;
    }
    if error.raw_response().is_none_or(|raw| raw.status().as_u16() != 403) {
        return false;
    }
    // Of the keys that begin with this one, this one comes first.
    let list = s3.list_objects_v2().bucket(bucket).prefix(key).max_keys(1);
    // Boxed, because a future of the SDK is large and deadlines move it.
    let page = Box::pin(list.send()).await;
    page.is_ok_and(|page| page.contents().iter().all(|object| object.key() != Some(key)))
}
