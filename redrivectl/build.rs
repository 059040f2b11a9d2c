//! Tells the tool its version: that of the package, with the commit where git or `COMMIT` says it, and `-dirty` where the
//! sources were changed since.

use std::env;
use std::path::Path;
use std::process::Command;

/// What the tool is made of.
const SOURCES: [&str; 6] = ["src", "Cargo.toml", "../src", "../core", "../Cargo.toml", "../Cargo.lock"];

fn main() {
    println!("cargo::rerun-if-env-changed=COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    // What git writes to with each commit; in a work tree beside the first one it lies elsewhere than below `.git`.
    // A file that is not there counts as changed, each time.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = env::var("COMMIT").ok().or_else(of_git).filter(|commit| !commit.is_empty());
    let version = commit.map_or_else(|| version.clone(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=REDRIVECTL_VERSION={version}");
}

/// The commit that the sources stand at.
fn of_git() -> Option<String> {
    let commit = git(&["rev-parse", "--short=9", "HEAD"])?;
    let changes = git(&[&["status", "--porcelain", "--"][..], &SOURCES].concat())?;
    Some(if changes.is_empty() { commit } else { format!("{commit}-dirty") })
}

/// What git answers.
fn git(args: &[&str]) -> Option<String> {
    let asked = Command::new("git")
        .arg("--no-optional-locks")
        .args(args)
        .output()
        .ok()
        .filter(|asked| asked.status.success())?;
    Some(String::from_utf8(asked.stdout).ok()?.trim().to_owned())
}
