//! The lifecycle rules of a bucket.

use aws_sdk_s3::Client;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::get_bucket_lifecycle_configuration::GetBucketLifecycleConfigurationError;
use redrive_archive::LifecycleRule;

/// Reads the rules in force of a bucket. A bucket without a lifecycle has none.
///
/// # Errors
///
/// The error of S3, `AccessDenied` without `s3:GetLifecycleConfiguration`.
pub async fn lifecycle_rules(
    s3: &Client,
    bucket: &str,
) -> Result<Vec<LifecycleRule>, SdkError<GetBucketLifecycleConfigurationError>> {
    match s3.get_bucket_lifecycle_configuration().bucket(bucket).send().await {
        Ok(read) => Ok(redrive_archive::lifecycle_rules(read.rules())),
        Err(error) if error.code() == Some("NoSuchLifecycleConfiguration") => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
