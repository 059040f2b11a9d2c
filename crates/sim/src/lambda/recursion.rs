//! Lambda's detection of loops, by the lineage in the trace header.

use crate::message::md5_of;

/// The number of runs of a function by one chain of messages after which Lambda stops the chain.
/// <https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html>
pub const MAX_PASSES: u32 = 16;

/// Counts one more pass through a function. Returns the trace header that its run gets, and the number of the
/// pass. A message without a header begins a chain of its own, with a root that `new_root` makes.
pub(crate) fn passed(
    trace: Option<&str>,
    function: &str,
    new_root: impl FnOnce() -> String,
) -> (String, u32) {
    let hash = &md5_of(function.as_bytes())[..8];
    let mut count = 1;
    let mut parts = Vec::new();
    for part in trace.into_iter().flat_map(|trace| trace.split(';')) {
        match part.strip_prefix("Lineage=") {
            Some(lineage) => {
                let ours = lineage.strip_prefix(hash).and_then(|rest| rest.strip_prefix(':'));
                count = ours.and_then(|count| count.parse::<u32>().ok()).unwrap_or(0) + 1;
            }
            None => parts.push(part.to_owned()),
        }
    }
    if parts.is_empty() {
        parts.push(format!("Root={}", new_root()));
    }
    parts.push(format!("Lineage={hash}:{count}"));
    (parts.join(";"), count)
}
