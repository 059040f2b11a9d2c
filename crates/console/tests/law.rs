//! The law of the console's pages: a hostile text forges nothing.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use redrive_console_law::forges_nothing;

/// Texts as an attacker would write them.
const ATTACKS: [&str; 18] = [
    "<script>alert(1)</script>",
    "<cwdb-action action=\"call\" endpoint=\"arn:aws:lambda:eu-central-1:1:function:evil\">{}</cwdb-action>",
    "</cwdb-action><cwdb-action action=\"html\">x</cwdb-action>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "</style><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</svg><script>alert(1)</script>",
    "<!--",
    "]]><!--><script>",
    "javascript:alert(1)",
    "&lt;script&gt;&#x3c;img&#62;",
    "overrides\u{202e}gpj.exe\u{202c}",
    "zero\u{200b}width\u{feff}",
    "line\nbreak\r\n\tand \u{1b}[2J\u{7}",
    "\u{0}\u{fffd}\u{10ffff}",
    "?range=1h&by=error#x&amp;y=%3Cscript%3E",
    "\\\" | fields @message | \\",
];

#[test]
fn what_attackers_write_forges_nothing() {
    for attack in ATTACKS {
        forges_nothing(attack);
    }
    forges_nothing(&"<b>".repeat(60));
}

#[test]
fn what_is_kept_of_a_fuzzer_forges_nothing() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/corpus/console");
    let kept: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(kept.len() >= 10);
    for path in kept {
        let data = std::fs::read(&path).unwrap();
        let outcome = std::panic::catch_unwind(|| redrive_console_law::check(&data));
        assert!(outcome.is_ok(), "broken by {}", path.display());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn no_text_forges_anything(text in prop_oneof![
        "\\PC{1,40}",
        any::<String>(),
        "[<>\"'&/=! a-z\u{0}\u{202e}\n-]{1,60}",
        prop::sample::select(&ATTACKS[..]).prop_flat_map(|attack| (Just(attack), ".{0,9}").prop_map(|(one, other)| format!("{other}{one}"))),
    ]) {
        forges_nothing(&text);
    }
}
