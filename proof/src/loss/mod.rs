//! Nothing is lost, whatever fails: the function in a world of faults, and the ledger that is kept of
//! every letter.
//!
//! | module | what it holds |
//! |---|---|
//! | [`letters`] | letters of every kind, where they must go, how they must arrive |
//! | [`queue`] | an SQS queue |
//! | [`faults`] | what goes wrong, where, and how often |
//! | [`world`] | AWS around one function |
//! | [`mapping`] | Lambda: event source mappings and their sandboxes |
//! | [`ledger`] | what happened to every letter, and whether it was right |
//! | [`matrix`] | every call that redrives times every fault |
//! | [`replay`] | every call of a replay times every fault |
//! | [`soak`] | many letters under faults by chance |
//! | [`chance`] | numbers from a seed |

pub mod chance;
pub mod faults;
pub mod ledger;
pub mod letters;
pub mod mapping;
pub mod matrix;
pub mod queue;
pub mod replay;
pub mod soak;
pub mod world;
