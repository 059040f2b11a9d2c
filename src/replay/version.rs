//! The formats of what replays keep: what a newer version has written is refused, neither overwritten nor misread.

use serde::de::DeserializeOwned;

use super::error::ReplayError;

/// A document with the version of its format.
pub(super) trait Versioned: DeserializeOwned {
    /// The version that is written, and the newest that is read.
    const VERSION: u8;

    /// The document's.
    fn version(&self) -> u8;
}

/// Why a document cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unusable {
    /// A newer version of this software wrote it.
    Newer,
    /// It is none of these documents.
    Broken,
}

impl Unusable {
    /// The error about a document of this name.
    pub(super) fn of(self, name: String) -> ReplayError {
        match self {
            Self::Newer => ReplayError::Newer(name),
            Self::Broken => ReplayError::Broken(name),
        }
    }
}

/// Reads a document.
pub(super) fn read<T: Versioned>(text: &str) -> Result<T, Unusable> {
    #[derive(serde::Deserialize)]
    struct Version {
        version: u64,
    }
    let Version { version } = serde_json::from_str(text).map_err(|_| Unusable::Broken)?;
    if version > u64::from(T::VERSION) {
        return Err(Unusable::Newer);
    }
    serde_json::from_str::<T>(text).ok().filter(|read| read.version() > 0).ok_or(Unusable::Broken)
}
