//! The formats of stored objects. A document of a newer version is refused, and neither overwritten nor
//! misread.

use serde::de::DeserializeOwned;

use super::error::ReplayError;

/// A document with the version of its format.
pub(super) trait VersionedDocument: DeserializeOwned {
    /// The version that this software writes, and the newest that it reads.
    const VERSION: u8;

    /// Returns the document's version.
    fn version(&self) -> u8;
}

/// The reason why a document cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UnusableDocument {
    /// A newer version of this software wrote it.
    Newer,
    /// It is not such a document.
    Broken,
}

impl UnusableDocument {
    /// Returns the error about a document with this name.
    pub(super) fn of(self, name: String) -> ReplayError {
        match self {
            Self::Newer => ReplayError::Newer(name),
            Self::Broken => ReplayError::Broken(name),
        }
    }
}

/// Reads a document.
pub(super) fn read<T: VersionedDocument>(text: &str) -> Result<T, UnusableDocument> {
    #[derive(serde::Deserialize)]
    struct DocumentVersion {
        version: u64,
    }
    let DocumentVersion { version } = serde_json::from_str(text).map_err(|_| UnusableDocument::Broken)?;
    if version > u64::from(T::VERSION) {
        return Err(UnusableDocument::Newer);
    }
    serde_json::from_str::<T>(text).ok().filter(|read| read.version() > 0).ok_or(UnusableDocument::Broken)
}
