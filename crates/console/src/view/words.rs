//! The project's own words.

use maud::{Markup, html};

/// The page of the docs, whose table is shown.
const GLOSSARY: &str = include_str!("../../../../docs/reference/glossary.md");

/// Renders the glossary.
#[must_use]
pub fn words() -> Markup {
    html! {
        dl class="rows words" { @for (word, meaning) in rows() { div { dt { (word) } dd { (meaning) } } } }
    }
}

/// Returns the words and what they mean, without links.
fn rows() -> impl Iterator<Item = (String, String)> {
    let rows =
        GLOSSARY.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    rows.filter(|(word, _)| *word != "word").map(|(word, meaning)| (plain(word), plain(meaning)))
}

/// Returns Markdown without links, anchors and quotes of code.
fn plain(markdown: &str) -> String {
    let (mut text, mut rest) = (String::new(), markdown);
    while let Some(place) = rest.find(['[', '<', '`']) {
        text.push_str(&rest[..place]);
        let (mark, after) = rest[place..].split_at(1);
        rest = match mark {
            "[" => {
                let (link, after) = after.split_once("](").unwrap_or((after, ""));
                text.push_str(link);
                after.split_once(')').map_or("", |(_, after)| after)
            }
            "<" => after.split_once('>').map_or("", |(_, after)| after),
            _ => after,
        };
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_glossary_is_shown_without_its_markup() {
        let rows: Vec<_> = rows().collect();
        assert!(rows.len() > 20, "{rows:?}");
        assert!(rows.iter().any(|(word, meaning)| word == "letter" && meaning.contains("queue")), "{rows:?}");
        for (word, meaning) in rows {
            assert!(
                !word.contains(['[', '<', '`']) && !meaning.contains(['[', '<', '`', ']']),
                "{word}: {meaning}"
            );
        }
        assert_eq!(plain("a [b](c.md#d) `e` <a id=\"f\"></a>g"), "a b e g");
    }
}
