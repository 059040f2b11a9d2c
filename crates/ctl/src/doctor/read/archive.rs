//! The buckets of the archive and of the control prefix.

use aws_sdk_s3::Client;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{BucketVersioningStatus, ServerSideEncryptionRule};
use redrive_aws::clients::is_condition;
use redrive_aws::settings::{ArchiveAt, Settings};
use redrive_console::read::lifecycle_rules;

use super::error::read_error;
use crate::console::ToolEnvironment;
use crate::doctor::setup::{BucketEncryption, DeployedBucket, ReadError, ReadResult};

/// Reads the buckets of the archive and of the control prefix, if they exist.
pub(super) async fn read(
    s3: &Client,
    settings: Option<&Settings>,
) -> (Option<DeployedBucket>, Option<DeployedBucket>) {
    let Some(settings) = settings else { return (None, None) };
    let archive = match &settings.archive {
        ArchiveAt::S3 { bucket: name, prefix } => Some(bucket(s3, name, prefix).await),
        ArchiveAt::Queue(_) => None,
    };
    let control = match (&settings.control, &archive) {
        (None, _) => None,
        (Some(control), Some(archive)) if archive.name == control.bucket => {
            Some(DeployedBucket { prefix: control.prefix.clone(), ..archive.clone() })
        }
        (Some(control), _) => Some(bucket(s3, &control.bucket, &control.prefix).await),
    };
    (archive, control)
}

/// Tests whether the bucket of the control prefix supports conditional writes.
pub(super) async fn test(
    s3: &Client,
    control: Option<&DeployedBucket>,
    console: &mut ToolEnvironment,
) -> ReadResult<bool> {
    match control {
        Some(control) => writes(s3, &control.name, &control.prefix, console).await,
        None => Err(ReadError::new("--write-test", "no control prefix is known")),
    }
}

async fn bucket(s3: &Client, name: &str, prefix: &str) -> DeployedBucket {
    DeployedBucket {
        encryption: encryption(s3, name).await,
        is_versioned: s3
            .get_bucket_versioning()
            .bucket(name)
            .send()
            .await
            .map(|it| it.status() == Some(&BucketVersioningStatus::Enabled))
            .map_err(|error| read_error("s3:GetBucketVersioning", &error)),
        is_private: private(s3, name).await,
        lifecycle: lifecycle_rules(s3, name)
            .await
            .map_err(|error| read_error("s3:GetLifecycleConfiguration", &error)),
        name: name.to_owned(),
        prefix: prefix.to_owned(),
    }
}

/// Returns `None` for the error by which S3 says that the bucket has no such configuration.
fn or_none<T, E: ProvideErrorMetadata>(
    call: &'static str,
    none: &str,
    read: Result<T, SdkError<E>>,
) -> ReadResult<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.code() == Some(none) => Ok(None),
        Err(error) => Err(read_error(call, &error)),
    }
}

async fn encryption(s3: &Client, name: &str) -> ReadResult<Option<BucketEncryption>> {
    let read = s3.get_bucket_encryption().bucket(name).send().await;
    let none = "ServerSideEncryptionConfigurationNotFoundError";
    let read = or_none("s3:GetEncryptionConfiguration", none, read)?;
    let rules = read.and_then(|read| read.server_side_encryption_configuration);
    let default = |rule: &ServerSideEncryptionRule| {
        let default = rule.apply_server_side_encryption_by_default()?;
        let algorithm = default.sse_algorithm().as_str().to_owned();
        Some(BucketEncryption { algorithm, key: default.kms_master_key_id().map(str::to_owned) })
    };
    Ok(rules.and_then(|rules| rules.rules().iter().find_map(default)))
}

async fn private(s3: &Client, name: &str) -> ReadResult<bool> {
    let read = s3.get_public_access_block().bucket(name).send().await;
    let read = or_none("s3:GetBucketPublicAccessBlock", "NoSuchPublicAccessBlockConfiguration", read)?;
    let block = read.and_then(|read| read.public_access_block_configuration);
    Ok(block.is_some_and(|it| {
        let blocks =
            [it.block_public_acls, it.ignore_public_acls, it.block_public_policy, it.restrict_public_buckets];
        blocks.iter().all(|block| *block == Some(true))
    }))
}

/// Writes an object twice on the condition that it does not exist, and removes it. Returns whether the second write was
/// refused.
async fn writes(s3: &Client, bucket: &str, prefix: &str, console: &mut ToolEnvironment) -> ReadResult<bool> {
    let key = format!("{prefix}/doctor/{}", console.clock.now().as_nanosecond());
    let put = || {
        let put = s3.put_object().bucket(bucket).key(&key).if_none_match("*");
        put.body(ByteStream::from_static(b"A test of conditional writes, by redrivectl doctor.\n")).send()
    };
    put().await.map_err(|error| read_error("s3:PutObject", &error))?;
    let again = put().await;
    if let Err(error) = s3.delete_object().bucket(bucket).key(&key).send().await {
        let why = read_error("s3:DeleteObject", &error).reason();
        // The result of the test matters more.
        let _ = writeln!(
            console.err,
            "redrivectl: cannot remove the test object s3://{bucket}/{key}: s3:DeleteObject failed ({why})"
        );
    }
    match again {
        Ok(_) => Ok(false),
        Err(error) if is_condition(&error) => Ok(true),
        Err(error) => Err(read_error("s3:PutObject", &error)),
    }
}
