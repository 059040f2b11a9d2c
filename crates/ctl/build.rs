//! Sets the version of the tool: that of the package, with the commit from git or `COMMIT`, and `-dirty` if
//! the sources were changed since.

use std::env;
use std::path::Path;
use std::process::Command;

/// The sources of the tool.
const SOURCES: [&str; 6] =
    ["src", "Cargo.toml", "../../src", "../core", "../../Cargo.toml", "../../Cargo.lock"];

fn main() {
    println!("cargo::rerun-if-env-changed=COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    // Git appends to this file with each commit; further work trees have it outside of `.git`. Cargo takes a
    // missing file for changed, each time.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = env::var("COMMIT").ok().or_else(of_git).filter(|commit| !commit.is_empty());
    let version = commit.map_or_else(|| version.clone(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=REDRIVECTL_VERSION={version}");
}

/// Returns the commit of the sources.
fn of_git() -> Option<String> {
    let commit = git(&["rev-parse", "--short=9", "HEAD"])?;
    let changes = git(&[&["status", "--porcelain", "--"][..], &SOURCES].concat())?;
    Some(if changes.is_empty() { commit } else { format!("{commit}-dirty") })
}

/// Returns the output of a git command.
fn git(args: &[&str]) -> Option<String> {
    let asked = Command::new("git")
        .arg("--no-optional-locks")
        .args(args)
        .output()
        .ok()
        .filter(|asked| asked.status.success())?;
    Some(String::from_utf8(asked.stdout).ok()?.trim().to_owned())
}
