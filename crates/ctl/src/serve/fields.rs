//! The fields of a form, as a browser sends them.

use std::collections::BTreeMap;

use url::form_urlencoded;

/// The texts of a form by the names of their fields.
#[derive(Debug, Clone, Default)]
pub(super) struct FormFields(BTreeMap<String, String>);

impl FormFields {
    /// Reads a form. If two fields have one name, the last counts.
    pub(super) fn read(form: &[u8]) -> Self {
        Self(form_urlencoded::parse(form).into_owned().collect())
    }

    /// Removes a field's text and returns it; `None` if it is blank.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).filter(|text| !text.trim().is_empty())
    }

    /// Returns a field's text; empty if there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Removes a field's text and returns it, even if it is blank.
    pub(super) fn take_whole(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }
}
