//! The fields of a form, as a browser sends them.

use std::collections::BTreeMap;

use url::form_urlencoded;

/// The texts of a form, by their names.
#[derive(Debug, Default)]
pub(super) struct Fields(BTreeMap<String, String>);

impl Fields {
    /// Reads a form. Of two fields of one name the last counts.
    pub(super) fn read(form: &[u8]) -> Self {
        Self(form_urlencoded::parse(form).into_owned().collect())
    }

    /// Takes a text; an empty one is none.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).filter(|text| !text.trim().is_empty())
    }

    /// Takes a text as it is.
    pub(super) fn take_whole(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }
}
