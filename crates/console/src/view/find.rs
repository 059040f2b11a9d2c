//! The result of a search.

use maud::{Markup, html};

use super::elements::{ViewContext, column, number, section, table, when};
use crate::query::{Filter, OneLetter, PageKind};
use crate::read::SearchResult;
use crate::text::{harmless, label, thousands};

/// Renders the result of a search for a text.
#[must_use]
pub fn find(found: &SearchResult, text: &str, view: &ViewContext<'_>) -> Markup {
    let SearchResult { archived, waiting, values, is_part, more } = found;
    let one = |id: &str, key: Option<String>| OneLetter { id: id.to_owned(), key, log_query: None };
    html! {
        (view.ranges())
        @if text.is_empty() {
            p { "Type a part of a letter's id, of SQS's message id, or of the name of a topic, a queue or a target." }
        } @else {
            p { "Looked for " strong { (harmless(text)) } @if *is_part { " among the newest letters of this time" } "." }
            @if archived.is_empty() && waiting.is_empty() && values.is_empty() {
                p class="none" { "Nothing was found. An older letter is found by its whole id: "
                    (view.to("look in the whole time range", PageKind::Letter(one(text, None)))) "."
                }
            }
        }
        @if !values.is_empty() {
            (section("groups", "Groups", &table(
                "Groups that were found",
                &html! { "By the letters that were read" },
                &html! { (column("name")) (column("is a")) (number("letters")) },
                &html! { @for (field, value, letters) in values {
                    tr {
                        th scope="row" class="value" { (view.named(value, PageKind::Group { of: Filter::default().with(*field, value.as_str()) })) }
                        td { (field.name()) }
                        td class="number" { (thousands(*letters)) }
                    }
                } },
            )))
        }
        @if !waiting.is_empty() || !archived.is_empty() {
            (section("letters", "Letters", &table(
                "Letters that were found",
                &html! { "Letters" },
                &html! { (column("letter")) (column("state")) (column("topic")) (column("target")) },
                &html! {
                    @for letter in waiting { tr {
                        th scope="row" class="value" { (view.letter(&letter.id, one(&letter.id, None))) }
                        td { "waits, due " (when(letter.due, view.now)) }
                        td class="value" { (letter.fields.topic.as_deref().map_or(String::new(), label)) }
                        td class="value" { (letter.fields.target.as_deref().map_or(String::new(), label)) }
                    } }
                    @for letter in archived { tr {
                        th scope="row" class="value" { (view.letter(&letter.id, one(&letter.message_id, Some(letter.key.clone())))) }
                        td { "archived " (when(letter.archived, view.now)) }
                        td class="value" { (letter.fields.topic.as_deref().map_or(String::new(), label)) }
                        td class="value" { (letter.fields.target.as_deref().map_or(String::new(), label)) }
                    } }
                },
            )))
        }
        @if *more { p class="note" { "There is more. Type more of the name or the id." } }
    }
}
