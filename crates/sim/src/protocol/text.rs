//! Forms and XML.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

/// Decodes percent signs.
pub(super) fn decoded(text: &str) -> String {
    let bytes = percent_decode_str(text).collect();
    String::from_utf8(bytes).unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned())
}

/// Reads a form or a query.
pub(super) fn form(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let plain = |text: &str| {
        if text.contains('+') { decoded(&text.replace('+', " ")) } else { decoded(text) }
    };
    pairs.map(|(name, value)| (plain(name), plain(value))).collect()
}

/// Escapes text for XML.
pub(super) fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\r', "&#xD;")
}

/// Returns an element with text in it.
pub(super) fn element(name: &str, text: &str) -> String {
    format!("<{name}>{}</{name}>", escaped(text))
}
