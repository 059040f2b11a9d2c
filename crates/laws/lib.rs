//! The laws: what must hold in every test and proof.
//!
//! | module | holds for |
//! |---|---|
//! | [`bytes`] | any bytes: the fuzz targets, and the stored inputs of `tests/function/corpus.rs` |
//! | [`letters`] | every letter in an account: random worlds, the fault matrix, the soak |
//! | [`replays`] | every replay in an account: its fault matrix, its soaks, its brake |

pub mod bytes;
pub mod letters;
pub mod replays;
