//! The redrive policy as an object in S3, for policies above what variables hold (`REDRIVE_POLICY_URI`).

use std::fmt::Write;

use aws_sdk_s3::Client;
use redrive_core::failure::{Failure, FailureClass};
use redrive_core::policy::Policy;
use sha2::{Digest, Sha256};

use crate::clients::failure_of_call;
use crate::settings::PolicyAt;

/// The longest policy that is read.
pub const MAX_POLICY_BYTES: usize = 1 << 20;

/// The number of hexadecimal digits of a digest in logs: enough to tell versions apart.
const DIGEST_DIGITS: usize = 16;

/// A policy that was read from S3.
#[derive(Debug)]
pub struct PolicyDocument {
    /// The policy.
    pub policy: Policy,
    /// Its text.
    pub json: String,
    /// The beginning of the SHA-256 of its bytes, in hexadecimal digits.
    pub digest: String,
    /// The version of the object, if the bucket keeps versions.
    pub version: Option<String>,
}

/// The reason why there is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadPolicy {
    /// S3 did not give the object.
    #[error("cannot read the redrive policy {object}: s3:GetObject failed ({})", .failure.told())]
    Call {
        /// The object.
        object: PolicyAt,
        /// The failure.
        failure: Failure,
    },
    /// The object is no policy.
    #[error("the redrive policy {object} is wrong: {faults}")]
    Wrong {
        /// The object.
        object: PolicyAt,
        /// The faults, with their places.
        faults: String,
    },
}

/// Reads the policy at a place.
///
/// # Errors
///
/// [`UnreadPolicy`] if the object cannot be read, or is no policy.
pub async fn read_policy(s3: &Client, object: &PolicyAt) -> Result<PolicyDocument, UnreadPolicy> {
    let unread = |failure| UnreadPolicy::Call { object: object.clone(), failure };
    let wrong = |faults| UnreadPolicy::Wrong { object: object.clone(), faults };
    let too_long = || wrong(format!("it must be at most {MAX_POLICY_BYTES} bytes long"));
    let answer = s3.get_object().bucket(&object.bucket).key(&object.key).send().await;
    let answer = answer.map_err(|error| unread(failure_of_call(&error)))?;
    let length = answer.content_length.and_then(|length| usize::try_from(length).ok());
    if length.is_some_and(|length| length > MAX_POLICY_BYTES) {
        return Err(too_long());
    }
    let version = answer.version_id.clone();
    let unreachable = |_| unread(Failure::ours(FailureClass::Transient, "Unreachable"));
    let bytes = answer.body.collect().await.map_err(unreachable)?.to_vec();
    // An answer need not name its length.
    if bytes.len() > MAX_POLICY_BYTES {
        return Err(too_long());
    }
    let digest = digest(&bytes);
    let json = String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
    let policy = Policy::parse(&json).map_err(|bad| wrong(bad.to_string()))?;
    Ok(PolicyDocument { policy, json, digest, version })
}

/// Returns the digest of a policy, by which its versions can be told apart.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    let mut digits = String::new();
    for byte in Sha256::digest(bytes).iter().take(DIGEST_DIGITS / 2) {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}
