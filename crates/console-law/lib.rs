//! The law of the console's pages: no text forges anything.
//!
//! A letter's id, its topic, its error and every other field hold text that strangers wrote. Whatever they
//! write, a page must have the same elements and attributes as with a harmless text, its links must lead to
//! the right places, and it must hold no invisible character. Tests and a fuzz target check this.
#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "only tests use it"
)]

mod data;
mod parse;

use std::collections::BTreeMap;
use std::sync::LazyLock;

pub use data::{account, pages};
pub use parse::{PageElement, ParsedPage, parse};
use redrive_console::{DashboardWidget, LocalConsole, PageAction, PageHost, Query, Theme};
use regex_syntax::hir::{Class, ClassUnicode, HirKind};

/// Returns every kind of door that changes how a page looks.
#[must_use]
pub fn doors(text: &str) -> Vec<PageHost> {
    let doctor = Some(data::doctor(text));
    let endpoint = "arn:aws:lambda:eu-central-1:123456789012:function:console".to_owned();
    vec![
        PageHost::Local(LocalConsole { operates: false, doctor: doctor.clone() }),
        PageHost::Local(LocalConsole { operates: true, doctor }),
        PageHost::Widget(DashboardWidget { endpoint: endpoint.clone(), theme: Theme::Light }),
        PageHost::Widget(DashboardWidget { endpoint, theme: Theme::Dark }),
    ]
}

/// Every page with a harmless text, door by door: the pages to compare with.
static HARMLESS: LazyLock<Vec<Vec<ParsedPage>>> = LazyLock::new(|| {
    let text = "abc";
    let parsed = |door: &PageHost| pages(text, door).iter().map(|(_, page)| parse(page)).collect();
    doors(text).iter().map(parsed).collect()
});

/// Checks the law for arbitrary bytes.
pub fn check(bytes: &[u8]) {
    forges_nothing(&String::from_utf8_lossy(bytes));
}

/// Checks the law: renders every page through every door with this text in every field.
pub fn forges_nothing(text: &str) {
    // An empty text is a letter without a value. Its page has other elements, and may have them.
    if text.is_empty() {
        return;
    }
    for (door, expected) in doors(text).iter().zip(&*HARMLESS) {
        for ((name, page), expected) in pages(text, door).into_iter().zip(expected) {
            let page = parse(&page);
            same_skeleton(&name, &page, expected);
            links_lead_where_they_should(&name, &page, text);
            let hidden = page.text.chars().find(|c| *c != '\n' && is_hidden(*c));
            assert_eq!(hidden, None, "{name} shows a character that nobody sees, of {text:?}");
        }
    }
}

fn same_skeleton(name: &str, page: &ParsedPage, expected: &ParsedPage) {
    let skeleton = |page: &ParsedPage| -> Vec<(String, Vec<String>)> {
        let names = |element: &PageElement| element.attributes.keys().cloned().collect();
        page.elements.iter().map(|element| (element.name.clone(), names(element))).collect()
    };
    let (found, wanted) = (skeleton(page), skeleton(expected));
    let first = found.iter().zip(&wanted).position(|(one, other)| one != other);
    assert!(
        found == wanted,
        "{name}: other elements than with a harmless text, from {:?} on: {:?}, {:?}",
        first,
        first.map(|at| &found[at]),
        first.map(|at| &wanted[at])
    );
    // Apart from addresses, texts for people, and what somebody searched for, every attribute's value is fixed.
    let ours = |attributes: &BTreeMap<String, String>| -> Vec<(String, String)> {
        let is_search = attributes.get("id").is_some_and(|id| id == "search");
        let ours = attributes.iter().filter(|(name, _)| match name.as_str() {
            "href" | "aria-label" | "title" => false,
            "value" => !is_search,
            _ => true,
        });
        ours.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    for (one, other) in page.elements.iter().zip(&expected.elements) {
        assert_eq!(ours(&one.attributes), ours(&other.attributes), "{name}: <{}>", one.name);
    }
    // One more line in a command block would be one more command. The body of a letter may have several
    // lines.
    let lines = |page: &ParsedPage| -> Vec<usize> {
        let is_body = |pre: &PageElement| pre.attributes.get("class").is_some_and(|class| class == "said");
        let pairs = page.elements.windows(2).filter(|pair| pair[1].name == "code" && !is_body(&pair[0]));
        pairs.map(|pair| pair[1].text.lines().count()).collect()
    };
    assert_eq!(lines(page), lines(expected), "{name}: lines of commands");
    for element in &page.elements {
        assert!(!matches!(&*element.name, "script" | "iframe" | "object" | "embed" | "img"), "{name}");
        // The only form is the search, which leads to a page.
        let is_search = |attributes: &BTreeMap<String, String>| {
            ["action", "method"].map(|name| attributes.get(name).map(String::as_str))
                == [Some("find"), Some("get")]
        };
        assert!(element.name != "form" || is_search(&element.attributes), "{name}");
        assert!(!element.attributes.keys().any(|name| name.starts_with("on") || name == "style"), "{name}");
    }
}

/// Checks that each link leads to a page, an action or AWS's own console, and that each call of the widget
/// asks for a page.
fn links_lead_where_they_should(name: &str, page: &ParsedPage, text: &str) {
    for element in &page.elements {
        if let Some(href) = element.attributes.get("href") {
            let (path, query) = href.split_once('?').unwrap_or((href, ""));
            let is_known = match path {
                "now" | "groups" | "group" | "waiting" | "letter" | "find" | "words" => {
                    Query::from_address(path, query).is_ok()
                }
                "act" => PageAction::from_address(query).is_ok(),
                // The list of actions, at a door that acts.
                "jobs" => query.is_empty(),
                _ => href.starts_with("https://eu-central-1.console.aws.amazon.com/") || href == "#content",
            };
            // The console refuses addresses with texts this long.
            assert!(is_known || text.len() > 2048, "{name}: {href}");
        }
        if element.name == "cwdb-action" {
            let parameters = serde_json::from_str(&element.text).expect("parameters are JSON");
            assert!(Query::from_parameters(&parameters).is_ok() || text.len() > 2048, "{name}: {parameters}");
        }
    }
}

/// The invisible characters, by Unicode's tables.
static HIDDEN: LazyLock<ClassUnicode> = LazyLock::new(|| {
    let class = r"[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Default_Ignorable_Code_Point}]";
    match regex_syntax::parse(class).unwrap().into_kind() {
        HirKind::Class(Class::Unicode(class)) => class,
        other => panic!("{other:?}"),
    }
});

fn is_hidden(c: char) -> bool {
    HIDDEN.iter().any(|range| (range.start()..=range.end()).contains(&c))
}
