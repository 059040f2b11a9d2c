//! Version, completion and manual pages.

use super::redrivectl;

#[tokio::test]
async fn the_version_names_the_commit() {
    let said = redrivectl(&["--version"]).await.text();
    let said = said.trim_end().strip_prefix("redrivectl ").unwrap();
    let (version, commit) = said.split_once(' ').unwrap_or((said, "(0123456789)"));
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    let commit = commit.strip_prefix('(').and_then(|commit| commit.strip_suffix(')')).unwrap();
    assert!(commit.len() >= 9 && commit.chars().all(|letter| letter.is_ascii_hexdigit()), "{said}");
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
    std::fs::remove_dir_all(&folder).unwrap();
}
