//! The content of a letter.

use maud::{Markup, html};

use crate::read::ShownContent;
use crate::text::harmless;

/// Shows the content of a letter.
pub(super) fn said(said: &ShownContent) -> Markup {
    // The body keeps its line breaks. All other invisible characters are made visible.
    let lines: Vec<_> = said.body.lines().map(harmless).collect();
    html! {
        pre class="said" { code { (lines.join("\n")) } }
        @if said.is_cut { p class="note" { "The body is longer: this is its beginning." } }
        @if !said.attributes.is_empty() {
            table {
                caption { "Its message attributes" }
                thead { tr { th scope="col" { "name" } th scope="col" { "value" } } }
                tbody { @for (name, value) in &said.attributes {
                    tr { th scope="row" class="value" { (harmless(name)) } td class="value" { (harmless(value)) } }
                } }
            }
        }
    }
}
