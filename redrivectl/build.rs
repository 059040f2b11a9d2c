//! Tells the tool its version: that of the package, with the commit where git or `COMMIT` says it.

use std::env;
use std::path::Path;
use std::process::Command;

/// What git writes to with each commit.
const HEAD: &str = "../.git/logs/HEAD";

fn main() {
    println!("cargo::rerun-if-env-changed=COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    // A file that is not there counts as changed, each time.
    if Path::new(HEAD).exists() {
        println!("cargo::rerun-if-changed={HEAD}");
    }
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = env::var("COMMIT").ok().or_else(of_git).filter(|commit| !commit.is_empty());
    let version = commit.map_or_else(|| version.clone(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=REDRIVECTL_VERSION={version}");
}

/// The commit that the sources stand at.
fn of_git() -> Option<String> {
    let asked = Command::new("git").args(["rev-parse", "--short=9", "HEAD"]).output().ok()?;
    let commit = String::from_utf8(asked.stdout).ok()?;
    asked.status.success().then(|| commit.trim().to_owned())
}
