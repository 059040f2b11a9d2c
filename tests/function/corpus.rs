//! The laws of `fuzz/` hold for the stored inputs that a fuzzer found, and for the samples in `events/`.

use std::path::{Path, PathBuf};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_file()).collect()
}

/// Checks a law on its stored inputs, and prints the name of the file that breaks it.
fn holds(law: &str, check: fn(&[u8])) {
    let corpus = files(&format!("fuzz/corpus/{law}"));
    assert!(corpus.len() >= 10, "{law}: {} files", corpus.len());
    for path in corpus.iter().chain(&files("events")) {
        let data = std::fs::read(path).unwrap();
        let outcome = std::panic::catch_unwind(|| check(&data));
        assert!(outcome.is_ok(), "{law} is broken by {}", path.display());
    }
}

#[test]
fn letters() {
    holds("letters", redrive_laws::bytes::letters::check);
}

#[test]
fn policies() {
    holds("policy", redrive_laws::bytes::policy::check);
}

#[test]
fn attributes() {
    holds("attributes", redrive_laws::bytes::attributes::check);
}

#[test]
fn archive_records() {
    holds("archive_records", redrive_laws::bytes::archive_records::check);
}

#[test]
fn replay_events() {
    holds("replay_event", redrive_laws::bytes::replay_event::check);
}
