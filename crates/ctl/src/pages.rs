//! Tests the examples on the documentation's pages: the program that would read each example must accept it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use clap::error::ErrorKind;
use redrive_core::policy::Policy;
use redrive_replay::EventRequest;
use serde_json::{Value, json};

use crate::args::Cli;
use crate::fleet::FleetFile;

/// The languages of code on the pages, and what tests each one.
const LANGUAGES: [&str; 7] = [
    "sh", "json", // here
    "sql",  // tests/stack/test_sql.py
    "ts", "hcl",  // .ci/guide/check.py
    "text", // pictures and output: the tests of the commands compare some
    "yaml",
];

/// A block of code on a page.
struct CodeBlock {
    page: String,
    language: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Returns the pages with their texts.
fn pages() -> Vec<(String, String)> {
    let folders = ["", "docs", "docs/guide", "docs/reference", "events"];
    let files = folders.iter().flat_map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let paths =
        files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|it| it == "md"));
    let pages: Vec<_> =
        paths.map(|path| (path.display().to_string(), fs::read_to_string(&path).unwrap())).collect();
    assert!(pages.len() > 20, "{}", pages.len());
    pages
}

fn blocks() -> Vec<CodeBlock> {
    let mut blocks = Vec::new();
    for (page, text) in pages() {
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(language) = line.trim_start().strip_prefix("```") else { continue };
            let block: Vec<_> = lines.by_ref().take_while(|line| line.trim_start() != "```").collect();
            blocks.push(CodeBlock {
                page: page.clone(),
                language: language.to_owned(),
                text: block.join("\n"),
            });
        }
    }
    blocks
}

/// Returns the commands in the blocks of shell code, split into words.
fn commands() -> Vec<(String, Vec<String>)> {
    let shell = blocks().into_iter().filter(|block| block.language == "sh");
    shell
        .flat_map(|block| {
            let text = block.text.replace("\\\n", " ");
            let simple =
                text.lines().flat_map(|line| line.split(" | ").map(str::to_owned).collect::<Vec<_>>());
            let words = simple.filter_map(|command| shlex::split(&command));
            words.map(|words| (block.page.clone(), words)).collect::<Vec<_>>()
        })
        .filter(|(_, words)| !words.is_empty())
        .collect()
}

/// Returns the commands in the pages' text: inline code that begins with this program.
fn in_text(program: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for (page, text) in pages() {
        let mut is_code = false;
        let prose: Vec<_> = text
            .lines()
            .filter(|line| {
                let is_fence = line.trim_start().starts_with("```");
                is_code ^= is_fence;
                !is_code && !is_fence
            })
            .collect();
        for code in prose.join(" ").split('`').skip(1).step_by(2) {
            let words = shlex::split(code).unwrap_or_default();
            if words.first().is_some_and(|word| word.rsplit('/').next() == Some(program)) {
                found.push((page.clone(), words));
            }
        }
    }
    found
}

#[test]
fn every_block_of_code_says_its_language() {
    for block in blocks() {
        assert!(
            LANGUAGES.contains(&&*block.language),
            "{}: ```{}\n{}",
            block.page,
            block.language,
            block.text
        );
    }
}

#[test]
fn every_example_in_json_is_taken() {
    let examples: Vec<_> = blocks().into_iter().filter(|block| block.language == "json").collect();
    assert!(examples.len() > 8, "{}", examples.len());
    for CodeBlock { page, text, .. } in examples {
        let json: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{page}: {error}\n{text}"));
        let has = |names: &[&str]| names.iter().any(|name| json.get(name).is_some());
        let policy =
            |policy: &str| drop(Policy::parse(policy).unwrap_or_else(|bad| panic!("{page}: {bad}\n{text}")));
        if has(&["default", "origins", "rules"]) {
            policy(&text);
        } else if has(&["replay"]) {
            let replay = json["replay"].clone();
            EventRequest::from_json(replay).unwrap_or_else(|faults| panic!("{page}: {faults:?}\n{text}"));
        } else if has(&["Statement", "Effect"]) {
            let statements = json["Statement"].as_array().cloned().unwrap_or_else(|| vec![json.clone()]);
            for statement in statements {
                for name in ["Sid", "Effect", "Action", "Resource"] {
                    assert!(statement.get(name).is_some(), "{page}: no {name}\n{text}");
                }
            }
        } else if has(&["accounts"]) {
            serde_json::from_str::<FleetFile>(&text).unwrap_or_else(|bad| panic!("{page}: {bad}\n{text}"));
        } else if has(&["kind"]) {
            // A filter policy over the attributes of notices.
            let attributes = ["kind", "topicArn", "target"];
            let mut names = json.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
            assert!(names.all(|name| attributes.contains(&name)), "{page}: {text}");
        } else {
            // Every other JSON object is a pattern.
            policy(&json!({ "rules": [{ "name": "a", "match": json, "action": "hold" }] }).to_string());
        }
    }
}

#[test]
fn every_block_of_shell_code_is_one() {
    for CodeBlock { page, text, .. } in blocks().into_iter().filter(|block| block.language == "sh") {
        let checked = Command::new("bash").args(["-n", "-c", &text]).output().unwrap();
        assert!(checked.status.success(), "{page}: {}\n{text}", String::from_utf8_lossy(&checked.stderr));
    }
    let called: BTreeSet<_> = commands().into_iter().map(|(_, words)| words[0].clone()).collect();
    assert!(["redrivectl", "make", "aws"].iter().all(|program| called.contains(*program)), "{called:?}");
}

#[test]
fn every_command_of_the_tool_is_one() {
    let (mut number, is_tool) = (0, |words: &[String]| words[0].rsplit('/').next() == Some("redrivectl"));
    let blocks = commands().into_iter().filter(|(_, words)| is_tool(words)).map(|it| (it, true));
    let text = in_text("redrivectl").into_iter().filter(|(_, words)| words.len() > 1).map(|it| (it, false));
    for ((page, words), is_whole) in blocks.chain(text) {
        // A placeholder for a command, or an operator of the shell.
        if words[1] == "COMMAND" {
            continue;
        }
        let end = words.iter().position(|word| word.starts_with(['>', '|'])).unwrap_or(words.len());
        number += 1;
        let Err(error) = Cli::try_parse_from(&words[..end]) else { continue };
        let is_fine = match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
            // A sentence may leave out options that its reader knows.
            ErrorKind::MissingRequiredArgument | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                !is_whole
            }
            _ => false,
        };
        assert!(is_fine, "{page}: {}\n{error}", words.join(" "));
    }
    assert!(number > 60, "{number}");
}

#[test]
fn every_target_of_make_is_one() {
    let mut makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    for file in fs::read_dir(root().join(".ci")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|it| it == "mk") {
            makefile += &fs::read_to_string(path).unwrap();
        }
    }
    let targets: BTreeSet<_> =
        makefile.lines().filter_map(|line| line.split_once(':')).map(|it| it.0).collect();
    let called = commands().into_iter().chain(in_text("make")).filter(|(_, words)| words[0] == "make");
    let mut number = 0;
    for (page, words) in called {
        for target in words[1..].iter().filter(|word| !word.contains('=')) {
            assert!(targets.contains(&**target), "{page}: {}", words.join(" "));
            number += 1;
        }
    }
    assert!(number > 20, "{number}");
}
