//! The buckets of the archive and of the control prefix.

use redrive_archive::{LifecycleEffect, LifecycleRule, queues_folder};
use redrive_aws::settings::ArchiveAt;

use crate::doctor::finding::{CheckFindings, Severity, aws};
use crate::doctor::setup::{DeployedBucket, DeploymentFacts};

/// The number of days below which letters may be gone before somebody returns from a holiday to replay them.
const SHORT_RETENTION_DAYS: i32 = 30;

pub(super) fn check(setup: &DeploymentFacts, findings: &mut CheckFindings) {
    if let Some(bucket) = &setup.archive {
        settings(bucket, "Archived letters contain whole messages.", findings);
        let what = "when archived letters are deleted";
        if let Some(rules) = findings.known("archive-lifecycle", &bucket.name, what, &bucket.lifecycle) {
            letters(bucket, rules, findings);
        }
    } else if let Some(ArchiveAt::Queue(queue)) = setup.function.settings().map(|settings| &settings.archive)
    {
        let finding = "The archive is a queue: letters expire there too, and cannot be replayed from it.";
        findings.add(Severity::Note, "archive", queue.resource(), finding, "");
    }
    if let Some(bucket) = &setup.control {
        let is_archive = setup.archive.as_ref().is_some_and(|archive| archive.name == bucket.name);
        if !is_archive {
            settings(bucket, "Overrides control what happens to letters, and lists name them.", findings);
        }
        match &bucket.lifecycle {
            Err(_) if is_archive => {}
            lifecycle => {
                let what = "when overrides and replays are deleted";
                if let Some(rules) = findings.known("archive-lifecycle", &bucket.name, what, lifecycle) {
                    control(bucket, rules, findings);
                }
            }
        }
    }
    let of_control = setup.control.as_ref().map_or(setup.function.name.as_str(), |bucket| &bucket.name);
    let what = "whether the bucket of overrides supports conditional writes";
    if let Some(read) = &setup.conditional
        && let Some(false) = findings.known("archive-conditions", of_control, what, read)
    {
        let finding = "It ignores If-None-Match and overwrites objects: two people's replays can send the same \
                       letters twice, and two people's overrides can overwrite each other.";
        findings.add(Severity::Error, "archive-conditions", of_control, finding, "use a bucket of Amazon S3");
    }
}

/// Checks the settings of a bucket. `holds` says what it stores.
fn settings(bucket: &DeployedBucket, holds: &str, findings: &mut CheckFindings) {
    let name = bucket.name.as_str();
    let what = "whether it has a default encryption";
    if let Some(None) = findings.known("archive-encryption", name, what, &bucket.encryption) {
        let finding = format!("It has no default encryption. {holds}");
        let rules = r#"{"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}"#;
        let fix = s3api(bucket, "put-bucket-encryption", &["--server-side-encryption-configuration", rules]);
        findings.add(Severity::Warning, "archive-encryption", name, finding, fix);
    }
    let what = "whether deleted objects can be restored";
    if let Some(false) = findings.known("archive-versions", name, what, &bucket.is_versioned) {
        let finding = "It keeps no versions: deleted objects cannot be restored.";
        let fix = s3api(bucket, "put-bucket-versioning", &["--versioning-configuration", "Status=Enabled"]);
        findings.add(Severity::Note, "archive-versions", name, finding, fix);
    }
    if let Some(false) =
        findings.known("archive-public", name, "whether it can be public", &bucket.is_private)
    {
        let finding = format!(
            "It does not block public access itself. {holds} This tool cannot see whether the account blocks public \
             access for all its buckets."
        );
        let blocks =
            "BlockPublicAcls=true,IgnorePublicAcls=true,BlockPublicPolicy=true,RestrictPublicBuckets=true";
        let fix = s3api(bucket, "put-public-access-block", &["--public-access-block-configuration", blocks]);
        findings.add(Severity::CannotTell, "archive-public", name, finding, fix);
    }
}

fn see(bucket: &DeployedBucket) -> String {
    s3api(bucket, "get-bucket-lifecycle-configuration", &[])
}

/// Returns the command of an operation on a bucket.
fn s3api(bucket: &DeployedBucket, operation: &str, options: &[&str]) -> String {
    aws(&[&["s3api", operation, "--bucket", &bucket.name], options].concat())
}

/// Checks the lifecycle rules for archived letters.
fn letters(bucket: &DeployedBucket, rules: &[LifecycleRule], findings: &mut CheckFindings) {
    let name = bucket.name.as_str();
    let archive = queues_folder(&bucket.prefix);
    for rule in rules.iter().filter(|rule| rule.touches(&archive)) {
        let days = match &rule.effect {
            LifecycleEffect::Ends(days) => *days,
            LifecycleEffect::Freezes(class) => {
                let finding = format!(
                    "Its lifecycle rule {} moves archived letters to {class}: they cannot be replayed before \
                     somebody restores their objects, which takes hours.",
                    rule.id
                );
                findings.add(Severity::Warning, "archive-frozen", name, finding, see(bucket));
                continue;
            }
        };
        let Some(days) = days else {
            let finding = format!("Its lifecycle rule {} deletes archived letters at a date.", rule.id);
            findings.add(Severity::Warning, "archive-lifecycle", name, finding, see(bucket));
            continue;
        };
        let finding = format!("Its lifecycle rule {} deletes archived letters after {days} d.", rule.id);
        let severity = if days < SHORT_RETENTION_DAYS { Severity::Warning } else { Severity::Note };
        findings.add(severity, "archive-lifecycle", name, finding, see(bucket));
    }
}

/// Checks the lifecycle rules for objects below the control prefix.
fn control(bucket: &DeployedBucket, rules: &[LifecycleRule], findings: &mut CheckFindings) {
    let (name, control) = (bucket.name.as_str(), bucket.prefix.as_str());
    for (check, key, meaning) in [
        (
            "archive-replays-expire",
            format!("{control}/replays/"),
            "then replays send letters again that were replayed already",
        ),
        (
            "archive-overrides-expire",
            format!("{control}/overrides.json"),
            "then held letters are tried again",
        ),
    ] {
        for rule in rules.iter().filter(|rule| rule.touches(&key)) {
            let id = &rule.id;
            let (severity, check, finding) = match &rule.effect {
                LifecycleEffect::Ends(_) if rule.is_narrower => (
                    Severity::CannotTell,
                    check,
                    format!(
                        "Its lifecycle rule {id} deletes objects below {key} if they match its filter: {meaning}."
                    ),
                ),
                LifecycleEffect::Ends(_) => (
                    Severity::Error,
                    check,
                    format!("Its lifecycle rule {id} deletes objects below {key}: {meaning}."),
                ),
                LifecycleEffect::Freezes(class) => {
                    let finding = format!(
                        "Its lifecycle rule {id} moves objects below {key} to {class}, where nobody can read them: then the \
                         function obeys no overrides, and replays cannot continue. By default S3 moves no object below 128 KB."
                    );
                    (Severity::Warning, "archive-frozen", finding)
                }
            };
            findings.add(severity, check, name, finding, see(bucket));
        }
    }
    let waiting = format!("{control}/waiting/");
    let ends = |rule: &LifecycleRule| matches!(rule.effect, LifecycleEffect::Ends(_)) && !rule.is_narrower;
    if !rules.iter().any(|rule| rule.covers(&waiting) && ends(rule)) {
        let finding = format!(
            "No lifecycle rule deletes the list of waiting letters, {waiting}: it grows, and so does its cost."
        );
        findings.add(Severity::Note, "archive-waiting-list", name, finding, see(bucket));
    }
}
