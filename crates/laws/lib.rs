//! What must hold, whoever tests it.
//!
//! | module | holds for |
//! |---|---|
//! | [`bytes`] | any bytes: the fuzz targets, and the stored inputs of `tests/function/corpus.rs` |

pub mod bytes;
