//! The buckets of the archive and of the control prefix.

use crate::doctor::finding::{Findings, Severity};
use crate::doctor::setup::{Bucket, Effect, LifecycleRule, Setup};
use sns_redrive::settings::ArchiveAt;

/// Days below which somebody who is on holiday finds nothing left to replay.
const SHORT: i32 = 30;

pub(super) fn check(setup: &Setup, findings: &mut Findings) {
    if let Some(bucket) = &setup.archive {
        settings(bucket, "Archived letters are messages whole.", findings);
        let what = "when it forgets archived letters";
        if let Some(rules) = findings.told("archive-lifecycle", &bucket.name, what, &bucket.lifecycle) {
            letters(bucket, rules, findings);
        }
    } else if let Some(ArchiveAt::Queue(queue)) = setup.function.settings().map(|settings| &settings.archive)
    {
        let finding = "The archive is a queue: letters expire there too, and no replay reads it.";
        findings.add(Severity::Note, "archive", queue.resource(), finding, "");
    }
    if let Some(bucket) = &setup.control {
        let is_archive = setup.archive.as_ref().is_some_and(|archive| archive.name == bucket.name);
        if !is_archive {
            settings(bucket, "Orders say what becomes of letters, and lists name them.", findings);
        }
        match &bucket.lifecycle {
            Err(_) if is_archive => {}
            lifecycle => {
                let what = "when it forgets orders and replays";
                if let Some(rules) = findings.told("archive-lifecycle", &bucket.name, what, lifecycle) {
                    control(bucket, rules, findings);
                }
            }
        }
    }
    let of_control = setup.control.as_ref().map_or(setup.function.name.as_str(), |bucket| &bucket.name);
    let what = "whether the bucket of orders keeps conditions";
    if let Some(told) = &setup.conditional
        && let Some(false) = findings.told("archive-conditions", of_control, what, told)
    {
        let finding = "It overwrites an object where If-None-Match says that it must not: replays of two people can send the \
                       same letters, and orders of two people can be lost.";
        findings.add(Severity::Error, "archive-conditions", of_control, finding, "take a bucket of S3");
    }
}

/// How a bucket is set. `holds` is what lies there.
fn settings(bucket: &Bucket, holds: &str, findings: &mut Findings) {
    let name = bucket.name.as_str();
    let what = "whether it is encrypted with a key of your choice";
    if let Some(None) = findings.told("archive-encryption", name, what, &bucket.encryption) {
        let finding = format!("It has no default encryption. {holds}");
        let mend = format!(
            "aws s3api put-bucket-encryption --bucket {name} --server-side-encryption-configuration \
             '{{\"Rules\": [{{\"ApplyServerSideEncryptionByDefault\": {{\"SSEAlgorithm\": \"AES256\"}}}}]}}'"
        );
        findings.add(Severity::Warning, "archive-encryption", name, finding, mend);
    }
    let what = "whether what somebody deletes can come back";
    if let Some(false) = findings.told("archive-versions", name, what, &bucket.is_versioned) {
        let finding = "It keeps no versions: what somebody deletes is gone.";
        let mend = format!(
            "aws s3api put-bucket-versioning --bucket {name} --versioning-configuration Status=Enabled"
        );
        findings.add(Severity::Note, "archive-versions", name, finding, mend);
    }
    if let Some(false) = findings.told("archive-public", name, "whether it can be public", &bucket.is_private)
    {
        let finding = format!(
            "It does not block public access itself. {holds} Whether the account blocks it for all its buckets nobody here \
             can say."
        );
        let mend = format!(
            "aws s3api put-public-access-block --bucket {name} --public-access-block-configuration \
             BlockPublicAcls=true,IgnorePublicAcls=true,BlockPublicPolicy=true,RestrictPublicBuckets=true"
        );
        findings.add(Severity::CannotTell, "archive-public", name, finding, mend);
    }
}

fn see(bucket: &Bucket) -> String {
    format!("aws s3api get-bucket-lifecycle-configuration --bucket {}", bucket.name)
}

/// When archived letters end.
fn letters(bucket: &Bucket, rules: &[LifecycleRule], findings: &mut Findings) {
    let name = bucket.name.as_str();
    let archive =
        if bucket.prefix.is_empty() { "queue=".to_owned() } else { format!("{}/queue=", bucket.prefix) };
    for rule in rules.iter().filter(|rule| touches(rule, &archive)) {
        let days = match &rule.effect {
            Effect::Ends(days) => *days,
            Effect::Freezes(class) => {
                let finding = format!(
                    "Its lifecycle rule {} moves archived letters to {class}: no replay reads one before somebody has restored \
                     its object, which takes hours.",
                    rule.id
                );
                findings.add(Severity::Warning, "archive-frozen", name, finding, see(bucket));
                continue;
            }
        };
        let Some(days) = days else {
            let finding = format!("Its lifecycle rule {} ends archived letters at a date.", rule.id);
            findings.add(Severity::Warning, "archive-lifecycle", name, finding, see(bucket));
            continue;
        };
        let finding = format!("Its lifecycle rule {} forgets archived letters after {days} d.", rule.id);
        let severity = if days < SHORT { Severity::Warning } else { Severity::Note };
        findings.add(severity, "archive-lifecycle", name, finding, see(bucket));
    }
}

/// When what lies below the control prefix ends, or cannot be read any more.
fn control(bucket: &Bucket, rules: &[LifecycleRule], findings: &mut Findings) {
    let (name, control) = (bucket.name.as_str(), bucket.prefix.as_str());
    for (check, key, meaning) in [
        (
            "archive-replays-expire",
            format!("{control}/replays/"),
            "then letters are sent once more that a replay has sent already",
        ),
        ("archive-orders-expire", format!("{control}/orders.json"), "then letters that are held go on"),
    ] {
        for rule in rules.iter().filter(|rule| touches(rule, &key)) {
            let id = &rule.id;
            let (severity, check, finding) = match &rule.effect {
                Effect::Ends(_) => (
                    Severity::Error,
                    check,
                    format!("Its lifecycle rule {id} ends what lies below {key}: {meaning}."),
                ),
                Effect::Freezes(class) => {
                    let finding = format!(
                        "Its lifecycle rule {id} moves what lies below {key} to {class}, where nobody reads it: orders are not \
                         heard then, and replays do not go on. By default S3 moves nothing below 128 KB."
                    );
                    (Severity::Warning, "archive-frozen", finding)
                }
            };
            findings.add(severity, check, name, finding, see(bucket));
        }
    }
    let waiting = format!("{control}/waiting/");
    let ends = |rule: &LifecycleRule| matches!(rule.effect, Effect::Ends(_)) && !rule.is_narrower;
    if !rules.iter().any(|rule| covers(rule, &waiting) && ends(rule)) {
        let finding =
            format!("No lifecycle rule ends the list of waiting letters, {waiting}: it grows, and costs.");
        findings.add(Severity::Note, "archive-waiting-list", name, finding, see(bucket));
    }
}

/// Whether a rule is about all that has a key beginning so.
fn covers(rule: &LifecycleRule, key: &str) -> bool {
    key.starts_with(&rule.prefix)
}

/// Whether a rule is about anything that has a key beginning so.
fn touches(rule: &LifecycleRule, key: &str) -> bool {
    covers(rule, key) || rule.prefix.starts_with(key)
}
