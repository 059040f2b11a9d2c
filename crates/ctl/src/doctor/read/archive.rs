//! The buckets of the archive and of the control prefix.

use aws_sdk_s3::Client;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{self, BucketVersioningStatus, ExpirationStatus, TransitionStorageClass};
use redrive_aws::clients::is_condition;
use redrive_aws::settings::{ArchiveAt, Settings};

use super::error::read_error;
use crate::console::ToolEnvironment;
use crate::doctor::setup::{
    BucketEncryption, DeployedBucket, LifecycleEffect, LifecycleRule, ReadError, ReadResult,
};

/// The storage classes whose objects must be restored, which takes hours, before they can be read.
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/restoring-objects.html>
const FROZEN_CLASSES: [TransitionStorageClass; 2] =
    [TransitionStorageClass::Glacier, TransitionStorageClass::DeepArchive];

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
        lifecycle: lifecycle(s3, name).await,
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
    let default = |rule: &types::ServerSideEncryptionRule| {
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

async fn lifecycle(s3: &Client, name: &str) -> ReadResult<Vec<LifecycleRule>> {
    let read = s3.get_bucket_lifecycle_configuration().bucket(name).send().await;
    let read = or_none("s3:GetLifecycleConfiguration", "NoSuchLifecycleConfiguration", read)?;
    let rules = read.and_then(|read| read.rules).unwrap_or_default();
    Ok(rules.iter().flat_map(effects).collect())
}

/// Returns the effects of a rule that is in force, except those on old versions.
#[allow(deprecated, reason = "older rules have their prefix there, and templates still write it so")]
fn effects(rule: &types::LifecycleRule) -> Vec<LifecycleRule> {
    if *rule.status() != ExpirationStatus::Enabled {
        return Vec::new();
    }
    let filter = rule.filter();
    let and = filter.and_then(|filter| filter.and());
    let prefix = rule.prefix().or(filter.and_then(|it| it.prefix())).or(and.and_then(|it| it.prefix()));
    let sizes = filter
        .is_some_and(|it| it.object_size_greater_than().is_some() || it.object_size_less_than().is_some());
    let does = |effect| LifecycleRule {
        id: rule.id().unwrap_or("(without a name)").to_owned(),
        prefix: prefix.unwrap_or_default().to_owned(),
        is_narrower: and.is_some() || sizes || filter.is_some_and(|it| it.tag().is_some()),
        effect,
    };
    let ends = rule.expiration().filter(|it| it.days().is_some() || it.date().is_some());
    let ends = ends.map(|it| does(LifecycleEffect::Ends(it.days())));
    let classes = rule.transitions().iter().filter_map(types::Transition::storage_class);
    let freezes = classes.filter(|class| FROZEN_CLASSES.contains(class));
    ends.into_iter()
        .chain(freezes.map(|class| does(LifecycleEffect::Freezes(class.as_str().to_owned()))))
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_ends_and_moves_objects_does_both() {
        let rule = |status: &str| {
            let expiration = types::LifecycleExpiration::builder().days(90).build();
            let moves =
                |class: &str| types::Transition::builder().days(1).storage_class(class.into()).build();
            let rule =
                types::LifecycleRule::builder().id("cold").status(status.into()).expiration(expiration);
            let rule = rule.transitions(moves("STANDARD_IA")).transitions(moves("DEEP_ARCHIVE"));
            let filter = types::LifecycleRuleFilter::builder().prefix("dead-letters/").build();
            effects(&rule.filter(filter).build().unwrap())
        };
        let does: Vec<_> = rule("Enabled").into_iter().map(|it| (it.prefix, it.effect)).collect();
        let prefix = || "dead-letters/".to_owned();
        let freezes = LifecycleEffect::Freezes("DEEP_ARCHIVE".to_owned());
        assert_eq!(does, [(prefix(), LifecycleEffect::Ends(Some(90))), (prefix(), freezes)]);
        assert!(rule("Disabled").is_empty());
    }
}
