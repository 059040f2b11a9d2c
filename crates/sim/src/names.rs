//! The account and its names.

/// The account.
pub const ACCOUNT: &str = "123456789012";

/// The region.
pub const REGION: &str = "eu-central-1";

/// Returns an ARN in the account: `arn("sqs", "payments-dlq")`, `arn("lambda", "function:payments-notifier")`.
#[must_use]
pub fn arn(service: &str, name: &str) -> String {
    format!("arn:aws:{service}:{REGION}:{ACCOUNT}:{name}")
}
