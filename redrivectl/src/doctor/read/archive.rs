//! The buckets of the archive and of the control prefix.

use aws_sdk_s3::Client;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{BucketVersioningStatus, ExpirationStatus, LifecycleRule};

use super::untold;
use crate::console::Console;
use crate::doctor::setup::{Bucket, Encryption, Expiry, Told, Untold};
use sns_redrive::clients::is_condition;
use sns_redrive::settings::{ArchiveAt, Settings};

/// Reads the bucket of the archive, and that of the control prefix; none where there is none.
pub(super) async fn read(s3: &Client, settings: Option<&Settings>) -> (Option<Bucket>, Option<Bucket>) {
    let Some(settings) = settings else { return (None, None) };
    let archive = match &settings.archive {
        ArchiveAt::S3 { bucket: name, prefix } => Some(bucket(s3, name, prefix).await),
        ArchiveAt::Queue(_) => None,
    };
    let control = match (&settings.control, &archive) {
        (None, _) => None,
        (Some(control), Some(archive)) if archive.name == control.bucket => {
            Some(Bucket { prefix: control.prefix.clone(), ..archive.clone() })
        }
        (Some(control), _) => Some(bucket(s3, &control.bucket, &control.prefix).await),
    };
    (archive, control)
}

/// Tests whether the bucket of the control prefix keeps conditions.
pub(super) async fn test(s3: &Client, control: Option<&Bucket>, console: &mut Console) -> Told<bool> {
    match control {
        Some(control) => writes(s3, &control.name, &control.prefix, console).await,
        None => Err(Untold { call: "--write-test", why: "no control prefix is known".to_owned() }),
    }
}

async fn bucket(s3: &Client, name: &str, prefix: &str) -> Bucket {
    Bucket {
        encryption: encryption(s3, name).await,
        is_versioned: s3
            .get_bucket_versioning()
            .bucket(name)
            .send()
            .await
            .map(|it| it.status() == Some(&BucketVersioningStatus::Enabled))
            .map_err(|error| untold("s3:GetBucketVersioning", &error)),
        is_private: private(s3, name).await,
        lifecycle: lifecycle(s3, name).await,
        name: name.to_owned(),
        prefix: prefix.to_owned(),
    }
}

/// An answer that S3 gives as an error where there is none.
fn or_none<T, E: ProvideErrorMetadata>(
    call: &'static str,
    none: &str,
    read: Result<T, SdkError<E>>,
) -> Told<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.code() == Some(none) => Ok(None),
        Err(error) => Err(untold(call, &error)),
    }
}

async fn encryption(s3: &Client, name: &str) -> Told<Option<Encryption>> {
    let read = s3.get_bucket_encryption().bucket(name).send().await;
    let none = "ServerSideEncryptionConfigurationNotFoundError";
    let read = or_none("s3:GetEncryptionConfiguration", none, read)?;
    let rules = read.and_then(|read| read.server_side_encryption_configuration);
    let default = |rule: &aws_sdk_s3::types::ServerSideEncryptionRule| {
        let default = rule.apply_server_side_encryption_by_default()?;
        let algorithm = default.sse_algorithm().as_str().to_owned();
        Some(Encryption { algorithm, key: default.kms_master_key_id().map(str::to_owned) })
    };
    Ok(rules.and_then(|rules| rules.rules().iter().find_map(default)))
}

async fn private(s3: &Client, name: &str) -> Told<bool> {
    let read = s3.get_public_access_block().bucket(name).send().await;
    let read = or_none("s3:GetBucketPublicAccessBlock", "NoSuchPublicAccessBlockConfiguration", read)?;
    let block = read.and_then(|read| read.public_access_block_configuration);
    Ok(block.is_some_and(|it| {
        let blocks =
            [it.block_public_acls, it.ignore_public_acls, it.block_public_policy, it.restrict_public_buckets];
        blocks.iter().all(|block| *block == Some(true))
    }))
}

async fn lifecycle(s3: &Client, name: &str) -> Told<Vec<Expiry>> {
    let read = s3.get_bucket_lifecycle_configuration().bucket(name).send().await;
    let read = or_none("s3:GetLifecycleConfiguration", "NoSuchLifecycleConfiguration", read)?;
    let rules = read.and_then(|read| read.rules).unwrap_or_default();
    Ok(rules.iter().filter_map(expiry).collect())
}

/// A rule that is in force and ends objects; one that ends old versions only does not.
#[allow(deprecated, reason = "rules of old have their prefix there, and templates still write it so")]
fn expiry(rule: &LifecycleRule) -> Option<Expiry> {
    let expiration = rule.expiration().filter(|it| it.days().is_some() || it.date().is_some())?;
    let filter = rule.filter();
    let and = filter.and_then(|filter| filter.and());
    let prefix = rule.prefix().or(filter.and_then(|it| it.prefix())).or(and.and_then(|it| it.prefix()));
    let sizes = filter
        .is_some_and(|it| it.object_size_greater_than().is_some() || it.object_size_less_than().is_some());
    (*rule.status() == ExpirationStatus::Enabled).then(|| Expiry {
        id: rule.id().unwrap_or("(without a name)").to_owned(),
        prefix: prefix.unwrap_or_default().to_owned(),
        is_narrower: and.is_some() || sizes || filter.is_some_and(|it| it.tag().is_some()),
        days: expiration.days(),
    })
}

/// Writes an object twice on the condition that there is none, and removes it. Whether the second write was refused.
async fn writes(s3: &Client, bucket: &str, prefix: &str, console: &mut Console) -> Told<bool> {
    let key = format!("{prefix}/doctor/{}", console.clock.now().as_nanosecond());
    let put = || {
        let put = s3.put_object().bucket(bucket).key(&key).if_none_match("*");
        put.body(ByteStream::from_static(b"A test of conditional writes, by redrivectl doctor.\n")).send()
    };
    put().await.map_err(|error| untold("s3:PutObject", &error))?;
    let again = put().await;
    if let Err(error) = s3.delete_object().bucket(bucket).key(&key).send().await {
        let why = untold("s3:DeleteObject", &error).why;
        // What comes of the test counts more.
        let _ =
            writeln!(console.err, "redrivectl: s3://{bucket}/{key} is left: s3:DeleteObject failed ({why})");
    }
    match again {
        Ok(_) => Ok(false),
        Err(error) if is_condition(&error) => Ok(true),
        Err(error) => Err(untold("s3:PutObject", &error)),
    }
}
