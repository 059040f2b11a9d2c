//! The pure part: a message of the queue becomes a letter, and the policy decides.
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

fn main() {
    divan::main();
}
