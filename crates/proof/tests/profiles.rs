//! A test of the release profile's setting for panics.
#![allow(clippy::unwrap_used, reason = "tests")]

/// Returns the lines of a section of the workspace's manifest.
fn section(name: &str) -> Vec<&'static str> {
    let manifest = include_str!("../../../Cargo.toml");
    let lines = manifest.lines().skip_while(|line| *line != format!("[profile.{name}]")).skip(1);
    lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with('#')).collect()
}

/// A panic of the release ends the process, so that Lambda returns the whole batch.
#[test]
fn a_panic_ends_the_process_of_the_release() {
    assert!(section("release").contains(&r#"panic = "abort""#));
}
