//! The words of the command line: a noun and a verb, each once.

use redrive_support::{RecordBuilder, TestAccount};

use super::replay::{PLACE, archived};
use super::{CommandWorld, redrivectl, redrivectl_in};

/// The first line has the id of a replay, which differs.
fn after_first_line(text: &str) -> &str {
    text.split_once('\n').unwrap().1
}

#[tokio::test]
async fn a_noun_alone_does_what_its_first_verb_does() {
    let cloud = archived(&[RecordBuilder::envelope("a")]);
    let run = async |words: &[&str], rest: &[&str]| {
        redrivectl_in(CommandWorld::on(&cloud), &[words, rest].concat()).await.text()
    };
    let rest = [&["--all", "--dry-run"][..], &PLACE].concat();
    let (alone, started) = (run(&["replay"], &rest).await, run(&["replay", "start"], &rest).await);
    assert!(alone.starts_with("Replay ") && alone.contains("1 letter"), "{alone}");
    assert_eq!(after_first_line(&alone), after_first_line(&started));

    let rest = ["--control", "s3://my-bucket/dead-letters-control"];
    let (alone, listed) = (run(&["overrides"], &rest).await, run(&["overrides", "list"], &rest).await);
    assert_eq!([alone.as_str(), &listed], ["No override is in force.\n"; 2]);
}

#[tokio::test]
async fn options_of_the_noun_do_not_go_with_another_verb() {
    for args in [&["replay", "--all", "list"][..], &["overrides", "--ended", "release", "one"]] {
        let ran = redrivectl(args).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}: {}", ran.err);
        assert!(ran.err.contains("cannot be used with"), "{args:?}: {}", ran.err);
    }
}

#[tokio::test]
async fn there_is_no_second_word_for_the_same() {
    for old in ["release", "replays"] {
        let ran = redrivectl_in(CommandWorld::on(&TestAccount::new()), &[old]).await;
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains("unrecognized subcommand"), "{}", ran.err);
    }
}
