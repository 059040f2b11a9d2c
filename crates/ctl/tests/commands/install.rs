//! Version, completion and manual pages.

use std::path::Path;
use std::process::Command;

use super::redrivectl;

#[tokio::test]
async fn the_version_names_the_commit() {
    let said = redrivectl(&["--version"]).await.text();
    let said = said.trim_end().strip_prefix("redrivectl ").unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let Some((version, commit)) = said.split_once(' ') else {
        assert!(!root.join(".git").exists(), "{said}");
        return assert_eq!(said, env!("CARGO_PKG_VERSION"));
    };
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    let commit = commit.strip_prefix('(').and_then(|commit| commit.strip_suffix(')')).unwrap();
    let commit = commit.strip_suffix("-dirty").unwrap_or(commit);
    assert!(commit.len() >= 9 && commit.chars().all(|letter| letter.is_ascii_hexdigit()), "{said}");
    if root.join(".git").exists() && option_env!("COMMIT").is_none() {
        let head = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(root).output().unwrap();
        let head = String::from_utf8(head.stdout).unwrap();
        assert!(head.starts_with(commit), "it was built at another commit than {head}: {said}");
    }
}

#[test]
fn the_guide_and_the_lock_of_the_fuzzers_are_of_this_release() {
    let version = env!("CARGO_PKG_VERSION");
    let read = |path: &str| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        std::fs::read_to_string(root.join(path)).unwrap()
    };
    let guide = read("docs/guide/deploying.md");
    let folders =
        guide.split("sns-redrive/").skip(1).filter(|it| it.starts_with(|c: char| c.is_ascii_digit()));
    let others: Vec<_> = folders.clone().filter(|it| !it.starts_with(version)).collect();
    assert!(folders.count() >= 3 && others.is_empty(), "{others:?}");
    let locked = read("fuzz/Cargo.lock");
    for name in ["redrive-core", "redrive-replay"] {
        assert!(locked.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")), "{name}");
    }
}

#[tokio::test]
async fn shells_complete_commands_and_options() {
    for (shell, word) in
        [("bash", "complete -F _redrivectl"), ("zsh", "#compdef redrivectl"), ("fish", "-c redrivectl")]
    {
        let script = redrivectl(&["completion", shell]).await.text();
        assert!([word, "doctor", "subscription"].iter().all(|word| script.contains(word)), "{shell}");
    }
}

#[tokio::test]
async fn there_is_a_manual_page_for_each_command() {
    let folder = std::env::temp_dir().join(format!("redrivectl-man-{}", std::process::id()));
    let to = folder.to_str().unwrap();
    let ran = redrivectl(&["man", to]).await;
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains(to), "{}", ran.err);
    std::fs::create_dir_all(&folder).unwrap();
    redrivectl(&["man", to]).await.text();
    let page = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert!(page("redrivectl.1").contains("redrivectl"));
    assert!(page("redrivectl-replay.1").contains("threshold"));
    assert!(page("redrivectl-archive-list.1").contains("not\\-replayed"));
    let hold = page("redrivectl-hold.1");
    assert!(["Examples:\n  redrivectl hold", "Exit codes:"].iter().all(|it| hold.contains(it)), "{hold}");
    assert!(page("redrivectl.1").contains("Exit codes:"));
    std::fs::remove_dir_all(&folder).unwrap();
}
