//! Pages, parsed by a browser's tokenizer.

use std::cell::RefCell;
use std::collections::BTreeMap;

use html5ever::buffer_queue::BufferQueue;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};

/// A page.
#[derive(Debug, Default)]
pub struct ParsedPage {
    /// The elements in their order.
    pub elements: Vec<PageElement>,
    /// The text between them, without the stylesheet and without the widget's calls.
    pub text: String,
}

/// An element.
#[derive(Debug, Default)]
pub struct PageElement {
    pub name: String,
    pub attributes: BTreeMap<String, String>,
    /// The text up to the next tag.
    pub text: String,
}

#[derive(Default)]
struct PageSink(RefCell<ParsedPage>);

/// Reads a page.
#[must_use]
pub fn parse(html: &str) -> ParsedPage {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(html));
    let tokenizer = Tokenizer::new(PageSink::default(), TokenizerOpts::default());
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.0.into_inner()
}

impl TokenSink for PageSink {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        let mut page = self.0.borrow_mut();
        match token {
            Token::TagToken(tag) => return tagged(&mut page, &tag),
            Token::CharacterTokens(text) => {
                let (name, own) = page
                    .elements
                    .last_mut()
                    .map_or((String::new(), None), |element| (element.name.clone(), Some(&mut element.text)));
                if let Some(own) = own {
                    own.push_str(&text);
                }
                if !matches!(&*name, "style" | "cwdb-action") {
                    page.text.push_str(&text);
                }
            }
            // The tokenizer reports a NUL as a token of its own.
            Token::NullCharacterToken => page.text.push('\0'),
            Token::CommentToken(text) => panic!("a comment: {text}"),
            Token::ParseError(_) | Token::DoctypeToken(_) | Token::EOFToken => {}
        }
        TokenSinkResult::Continue
    }
}

fn tagged(page: &mut ParsedPage, tag: &Tag) -> TokenSinkResult<()> {
    let name = tag.name.to_string();
    if tag.kind == TagKind::EndTag {
        // A closing tag starts a pseudo-element, so that the text behind it is not added to the element
        // before.
        page.elements.push(PageElement { name: format!("/{name}"), ..PageElement::default() });
        return TokenSinkResult::Continue;
    }
    let attributes = tag.attrs.iter().map(|it| (it.name.local.to_string(), it.value.to_string()));
    page.elements.push(PageElement {
        name: name.clone(),
        attributes: attributes.collect(),
        text: String::new(),
    });
    match name.as_str() {
        "style" => TokenSinkResult::RawData(RawKind::Rawtext),
        "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
        "script" => TokenSinkResult::RawData(RawKind::ScriptData),
        _ => TokenSinkResult::Continue,
    }
}
