//! The life of a letter.
pub mod archive;
pub mod arn;
pub mod clients;
pub mod clock;
pub mod failure;
pub mod function;
pub mod letter;
pub mod policy;
pub mod redrive;
pub mod settings;
pub mod target;
pub mod telemetry;
pub mod visibility;
