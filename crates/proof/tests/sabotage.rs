//! Tests that the patches of `make sabotage` apply, and that each says what it breaks and what must notice.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn patches() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("sabotage");
    let mut patches: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    patches.sort();
    patches
}

#[test]
fn every_patch_applies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    for patch in patches() {
        let check =
            Command::new("git").args(["apply", "--check"]).arg(&patch).current_dir(root).output().unwrap();
        let said = String::from_utf8_lossy(&check.stderr).into_owned();
        assert!(check.status.success(), "{}: {said}", patch.display());
    }
}

#[test]
fn every_patch_says_what_it_breaks_and_what_must_notice() {
    let patches = patches();
    let page = include_str!("../../../docs/proof.md");
    for count in [format!("{} known faults", patches.len()), format!("[{} patches]", patches.len())] {
        assert!(page.contains(&count), "docs/proof.md does not say {count}");
    }
    for patch in patches {
        let text = std::fs::read_to_string(&patch).unwrap();
        let (head, _) = text.split_once("\ndiff --git ").unwrap();
        let (says, proof) = head.split_once("\n\nProof: ").unwrap();
        assert!(says.ends_with('.') && !says.contains('\n'), "{}: {says}", patch.display());
        let kind = proof.split(' ').next().unwrap();
        let known = ["core", "matrix", "replay", "simulation"];
        assert!(known.contains(&kind.trim()), "{}: {proof}", patch.display());
    }
}
