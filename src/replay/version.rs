//! The formats of stored objects. A document of a newer version is refused, and neither overwritten nor
//! misread.

use serde::de::DeserializeOwned;

use super::error::ReplayError;

/// A document with the version of its format.
pub(super) trait Versioned: DeserializeOwned {
    /// The version that this software writes, and the newest that it reads.
    const VERSION: u8;

    /// Returns the document's version.
    fn version(&self) -> u8;
}

/// The reason why a document cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unusable {
    /// A newer version of this software wrote it.
    Newer,
    /// It is not such a document.
    Broken,
}

impl Unusable {
    /// Returns the error about a document with this name.
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
