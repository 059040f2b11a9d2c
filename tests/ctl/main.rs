//! The operator's tool, as its user meets it: a command line in; text, JSON and an exit code out.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod archive;
#[path = "../common/mod.rs"]
mod common;
mod explain;
mod plan;
mod records;
#[path = "../support/mod.rs"]
mod support;

use std::cell::RefCell;
use std::io::{Cursor, Write};
use std::path::PathBuf;
use std::rc::Rc;

use serde_json::Value;
use sns_redrive::clients::Clients;
use sns_redrive::clock::Clock;
use sns_redrive::ctl::{Desk, run};

/// What a command line came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) code: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// The one JSON value that was written.
    pub(crate) fn json(&self) -> Value {
        assert_eq!((self.code, self.err.as_str()), (0, ""));
        serde_json::from_str(&self.out).unwrap()
    }

    /// The text of a command that did all that it should.
    pub(crate) fn text(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""));
        self.out
    }
}

/// What a command reads besides its arguments.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) input: Vec<u8>,
    pub(crate) clients: Option<Clients>,
}

/// Runs a command line, without the name of the program, at [`support::NOW`].
pub(crate) async fn redrivectl(args: &[&str]) -> Ran {
    redrivectl_in(World::default(), args).await
}

pub(crate) async fn redrivectl_in(world: World, args: &[&str]) -> Ran {
    let (out, err) = (Page::default(), Page::default());
    let desk = Desk {
        out: Box::new(out.clone()),
        err: Box::new(err.clone()),
        progress: false,
        input: Box::new(Cursor::new(world.input)),
        clock: Clock::from_fn(|| support::at(support::NOW)),
        variable: |_| None,
        clients: world.clients,
    };
    let args = std::iter::once("redrivectl").chain(args.iter().copied());
    let code = run(args.map(Into::into), desk).await;
    Ran { code, out: out.text(), err: err.text() }
}

#[derive(Clone, Default)]
struct Page(Rc<RefCell<Vec<u8>>>);

impl Page {
    fn text(&self) -> String {
        String::from_utf8(self.0.borrow().clone()).unwrap()
    }
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A file with this text, gone when it is dropped.
pub(crate) struct File(PathBuf);

impl File {
    pub(crate) fn of(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("redrivectl-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    pub(crate) fn read(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn a_wrong_command_line_is_bad_usage() {
    let ran = redrivectl(&["plan", "--retenshun", "3d"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("--retention"), "{}", ran.err);
    assert_eq!(redrivectl(&[]).await.code, 2);
}

#[tokio::test]
async fn help_says_what_the_exit_codes_mean() {
    for args in [&["--help"][..], &["plan", "--help"], &["explain", "--help"]] {
        let help = redrivectl(args).await.text();
        for line in ["  0  done", "  1  something failed", "  2  bad usage or bad input"] {
            assert!(help.contains(line), "{args:?}: {help}");
        }
    }
}

#[tokio::test]
async fn files_that_are_missing_or_bad_are_bad_input() {
    let ran = redrivectl(&["plan", "/nowhere/policy.json"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.starts_with("redrivectl: cannot read /nowhere/policy.json: "), "{}", ran.err);

    let file = File::of("faults.json", r#"{"default": {"jitter": 2, "target": "moon"}, "rulse": []}"#);
    let ran = redrivectl(&["plan", file.path()]).await;
    assert_eq!(ran.code, 2);
    assert_eq!(ran.err.lines().count(), 3, "every fault has its line: {}", ran.err);
    assert!(ran.err.contains("default.jitter: must be a number from 0 to 1, not 2"), "{}", ran.err);

    let event = File::of("event.json", r#"{"Records": [{"body": "S3CR3T"}]}"#);
    let ran = redrivectl(&["explain", event.path()]).await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("Records[0].messageId is missing"), "{}", ran.err);
    assert!(!ran.err.contains("S3CR3T"));
}
