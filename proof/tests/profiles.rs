//! What the release's profile says of panics.
#![allow(clippy::unwrap_used, reason = "tests")]

/// The lines of a section of the workspace's manifest.
fn section(name: &str) -> Vec<&'static str> {
    let manifest = include_str!("../../Cargo.toml");
    let lines = manifest.lines().skip_while(|line| *line != format!("[profile.{name}]")).skip(1);
    lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with('#')).collect()
}

/// Nothing in the function can be made to panic from outside, so the matrix aborts it at the places where it might. A
/// panic is no more than that only if it ends the process: Lambda then returns the whole batch.
#[test]
fn a_panic_ends_the_process_of_the_release_and_of_what_the_matrices_run() {
    assert!(section("release").contains(&r#"panic = "abort""#));
    let proof = section("proof");
    assert!(proof.contains(&r#"inherits = "release""#));
    for setting in ["panic", "debug-assertions", "overflow-checks"] {
        assert!(!proof.iter().any(|line| line.starts_with(setting)), "{setting} is the release's");
    }
}
