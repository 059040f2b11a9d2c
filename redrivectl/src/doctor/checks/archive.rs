//! The bucket of the archive.

use crate::doctor::finding::{Findings, Severity};
use crate::doctor::setup::{Bucket, Expiry, Setup};
use sns_redrive::settings::ArchiveAt;

/// Days below which somebody who is on holiday finds nothing left to replay.
const SHORT: i32 = 30;

pub(super) fn check(setup: &Setup, findings: &mut Findings) {
    let Some(bucket) = &setup.archive else {
        if let Some(ArchiveAt::Queue(queue)) = setup.function.settings().map(|settings| &settings.archive) {
            let finding = "The archive is a queue: letters expire there too, and no replay reads it.";
            findings.add(Severity::Note, "archive", queue.resource(), finding, "");
        }
        return;
    };
    let name = bucket.name.as_str();
    let what = "whether the archive is encrypted with a key of your choice";
    if let Some(None) = findings.told("archive-encryption", name, what, &bucket.encryption) {
        let finding = "It has no default encryption. Archived letters are messages whole.";
        let mend = format!(
            "aws s3api put-bucket-encryption --bucket {name} --server-side-encryption-configuration \
             '{{\"Rules\": [{{\"ApplyServerSideEncryptionByDefault\": {{\"SSEAlgorithm\": \"AES256\"}}}}]}}'"
        );
        findings.add(Severity::Warning, "archive-encryption", name, finding, mend);
    }
    if let Some(false) =
        findings.told("archive-versions", name, "whether deleted records can come back", &bucket.is_versioned)
    {
        let finding = "It keeps no versions: a record that somebody deletes is gone.";
        let mend = format!(
            "aws s3api put-bucket-versioning --bucket {name} --versioning-configuration Status=Enabled"
        );
        findings.add(Severity::Note, "archive-versions", name, finding, mend);
    }
    if let Some(false) = findings.told("archive-public", name, "whether it can be public", &bucket.is_private)
    {
        let finding = "Its public access is not blocked. Archived letters are messages whole.";
        let mend = format!(
            "aws s3api put-public-access-block --bucket {name} --public-access-block-configuration \
             BlockPublicAcls=true,IgnorePublicAcls=true,BlockPublicPolicy=true,RestrictPublicBuckets=true"
        );
        findings.add(Severity::Warning, "archive-public", name, finding, mend);
    }
    match &bucket.conditional {
        None => {}
        Some(told) => {
            let what = "whether it keeps conditions";
            if let Some(false) = findings.told("archive-conditions", name, what, told) {
                let finding = "It overwrites an object where If-None-Match says that it must not: replays of two people can \
                               send the same letters, and orders of two people can be lost.";
                findings.add(Severity::Error, "archive-conditions", name, finding, "take a bucket of S3");
            }
        }
    }
    if let Some(rules) = findings.told("archive-lifecycle", name, "when it forgets", &bucket.lifecycle) {
        lifecycle(bucket, rules, findings);
    }
}

fn lifecycle(bucket: &Bucket, rules: &[Expiry], findings: &mut Findings) {
    let name = bucket.name.as_str();
    let see = format!("aws s3api get-bucket-lifecycle-configuration --bucket {name}");
    let archive = if bucket.prefix.is_empty() { String::new() } else { format!("{}/", bucket.prefix) };
    for rule in rules.iter().filter(|rule| covers(rule, &archive)) {
        let Some(days) = rule.days else {
            let finding = format!("Its lifecycle rule {} ends archived letters at a date.", rule.id);
            findings.add(Severity::Warning, "archive-lifecycle", name, finding, see.clone());
            continue;
        };
        let finding = format!("Its lifecycle rule {} forgets archived letters after {days} d.", rule.id);
        let severity = if days < SHORT { Severity::Warning } else { Severity::Note };
        findings.add(severity, "archive-lifecycle", name, finding, see.clone());
    }
    let Some(control) = &bucket.control else { return };
    for (what, key, meaning) in [
        (
            "replays",
            format!("{control}/replays/"),
            "then letters are sent once more that a replay has sent already",
        ),
        ("orders", format!("{control}/orders.json"), "then letters that are held go on"),
    ] {
        for rule in rules.iter().filter(|rule| covers(rule, &key)) {
            let finding = format!("Its lifecycle rule {} ends what lies below {key}: {meaning}.", rule.id);
            let check = if what == "replays" { "archive-replays-expire" } else { "archive-orders-expire" };
            findings.add(Severity::Error, check, name, finding, see.clone());
        }
    }
    let waiting = format!("{control}/waiting/");
    if !rules.iter().any(|rule| covers(rule, &waiting) && !rule.is_narrower) {
        let finding =
            format!("No lifecycle rule ends the list of waiting letters, {waiting}: it grows, and costs.");
        findings.add(Severity::Note, "archive-waiting-list", name, finding, see);
    }
}

/// Whether a rule ends what has such a key.
fn covers(rule: &Expiry, key: &str) -> bool {
    key.starts_with(&rule.prefix)
}
