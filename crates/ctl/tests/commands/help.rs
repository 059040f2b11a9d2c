//! The help texts: the first page, the examples and the order of options.

use std::collections::BTreeSet;

use clap::Command;
use redrive_ctl::command_tree;

use super::redrivectl;

/// Returns every command with its words, those with verbs too.
pub(crate) fn commands() -> Vec<(Vec<String>, Command)> {
    fn below(words: &[String], command: &Command, all: &mut Vec<(Vec<String>, Command)>) {
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            let words = [words, &[sub.get_name().to_owned()]].concat();
            below(&words, sub, all);
            all.push((words, sub.clone()));
        }
    }
    let mut all = Vec::new();
    let mut tree = command_tree();
    tree.build();
    below(&[], &tree, &mut all);
    all
}

/// Returns the examples of a command, split into words, without the program.
pub(crate) fn examples(command: &Command) -> Vec<Vec<String>> {
    let text = command.get_before_help().unwrap_or_else(|| panic!("{} has no examples", command.get_name()));
    let text = text.to_string();
    let lines = text.strip_prefix("Examples:\n").unwrap().lines();
    let words = lines.map(|line| shlex::split(line.strip_prefix("  redrivectl ").unwrap()).unwrap());
    words.collect()
}

async fn help_of(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(String::as_str).chain(["--help"]).collect();
    redrivectl(&words).await.text()
}

#[tokio::test]
async fn the_first_page_fits_one_screen() {
    let page = redrivectl(&["--help"]).await.text();
    assert!(page.lines().count() <= 24, "{page}");
    let widest = page.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 80, "{widest}: {page}");
    assert_eq!(page, redrivectl(&["help"]).await.text());
    assert_eq!(page, redrivectl(&["-h"]).await.text());
}

#[tokio::test]
async fn the_first_page_names_every_command_once_and_no_other() {
    let page = redrivectl(&["--help"]).await.text();
    let rows = page.lines().skip_while(|line| !line.is_empty()).skip(1).take_while(|line| !line.is_empty());
    // A group's name stands before its first command.
    let rows: Vec<_> =
        rows.map(|line| (line[..9].trim(), line[9..].split_whitespace().next().unwrap())).collect();
    let mut shown: Vec<_> = rows.iter().map(|(_, name)| *name).collect();
    shown.sort_unstable();
    let tree = command_tree();
    let mut known: Vec<_> = tree.get_subcommands().map(Command::get_name).collect();
    known.sort_unstable();
    assert_eq!(shown, known);
    let groups: Vec<_> = rows.iter().map(|(group, _)| *group).filter(|group| !group.is_empty()).collect();
    assert_eq!(groups, ["outage", "look", "act", "set up"]);
}

#[tokio::test]
async fn the_help_of_each_command_begins_with_two_examples_of_it() {
    let commands = commands();
    assert!(commands.len() > 25, "{}", commands.len());
    for (words, command) in commands {
        let examples = examples(&command);
        assert_eq!(examples.len(), 2, "{words:?}");
        assert_ne!(examples[0], examples[1], "{words:?}");
        for example in &examples {
            assert!(example.starts_with(&words), "{words:?}: {example:?}");
            let line = std::iter::once("redrivectl").chain(example.iter().map(String::as_str));
            let parsed = command_tree().try_get_matches_from(line);
            assert!(parsed.is_ok(), "{example:?}: {}", parsed.unwrap_err());
        }
        let help = help_of(&words).await;
        // As one line each: a line that was wrapped cannot be pasted.
        let text = command.get_before_help().unwrap().to_string();
        assert!(help.starts_with(&format!("{text}\n\n")) && help.contains("\n\nUsage: "), "{help}");
    }
}

/// Options that only tests and experts need.
const ADVANCED: [&str; 9] = [
    "archive",
    "control",
    "discovered",
    "overrides",
    "requeue",
    "settle",
    "source-max-receives",
    "threshold",
    "workers",
];

#[tokio::test]
async fn options_for_experts_come_last_but_for_those_of_the_connection() {
    let mut found = BTreeSet::new();
    for (words, command) in commands() {
        let mut headings = Vec::new();
        for option in command.get_arguments() {
            let (heading, long) = (option.get_help_heading(), option.get_long().unwrap_or_default());
            let is_advanced = heading == Some("Advanced");
            assert_eq!(ADVANCED.contains(&long), is_advanced, "{words:?} --{long}");
            assert!(!option.is_hide_set(), "{words:?} --{long}");
            if is_advanced {
                found.insert(long.to_owned());
            }
            if let Some(heading) = heading.filter(|it| !headings.contains(&(*it).to_owned())) {
                headings.push(heading.to_owned());
            }
        }
        let last = ["Advanced", "AWS"].map(str::to_owned);
        let last: Vec<_> = last.into_iter().filter(|it| headings.contains(it)).collect();
        assert!(headings.ends_with(&last), "{words:?}: {headings:?}");
        let help = help_of(&words).await;
        assert_eq!(help.contains("\nAdvanced:\n"), headings.contains(&"Advanced".to_owned()), "{words:?}");
    }
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ADVANCED);
}

#[tokio::test]
async fn help_says_what_the_exit_codes_mean() {
    for (words, _) in commands() {
        let help = help_of(&words).await;
        for code in ["\nExit codes:\n  0  ", "\n  1  ", "\n  2  "] {
            assert!(help.contains(code), "{words:?}: {help}");
        }
    }
}
