//! The function that retries letters must not link the console.

use std::collections::BTreeSet;
use std::process::Command;

/// Returns the packages that a package is linked with.
fn linked_with(package: &str) -> BTreeSet<String> {
    let words = ["tree", "--edges", "normal,build", "--prefix", "none", "--locked", "--offline", "--package"];
    let told = Command::new(env!("CARGO"))
        .args(words)
        .arg(package)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let told = String::from_utf8(told.stdout).unwrap();
    told.lines().filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
}

#[test]
fn the_function_that_retries_has_no_console_in_it() {
    let is_console = |name: &String| ["redrive-console", "maud"].contains(&name.as_str());
    let function = linked_with("sns-redrive");
    assert!(function.contains("tokio"), "{function:?}");
    assert!(!function.iter().any(is_console), "{function:?}");
    // A control: the tool links the console, and the test sees that.
    assert_eq!(linked_with("redrive-ctl").iter().filter(|name| is_console(name)).count(), 2);
}
