//! The examples of the help texts run, in an account in which an outage was.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use redrive_support::{RecordBuilder, SUBSCRIPTION, TOPIC, TestAccount, WORKER, stand_in};
use serde_json::json;

use super::attach::attachable;
use super::doctor::well_deployed;
use super::drill::drilled;
use super::fleet::fleet_world;
use super::help::{commands, examples};
use super::look::lookable;
use super::overrides::{override_, put_overrides};
use super::replay::{INDEXED, put_archive, stopped};
use super::stack::{OUTPUTS, formation};
use super::waiting::{letter, lines, list};
use super::{CommandRun, CommandWorld, redrivectl_in};

/// The id of an override in the examples.
const OVERRIDE: &str = "20261101T110500Z-7f3a51c2";

/// The id of a replay in the examples.
const REPLAY: &str = "20261102T093105Z-81c0d4";

/// A folder for the files of an example. Dropping it deletes it.
struct ExampleFolder(PathBuf);

impl ExampleFolder {
    fn new() -> Self {
        static FOLDERS: AtomicUsize = AtomicUsize::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("redrivectl-examples-{}-{number}", std::process::id()));
        std::fs::create_dir_all(path.join("share/man/man1")).unwrap();
        let event = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../events/late-retry.json");
        std::fs::copy(event, path.join("event.json")).unwrap();
        std::fs::write(path.join("policy.json"), "{}").unwrap();
        std::fs::write(path.join("fleet.json"), json!({ "accounts": [{}] }).to_string()).unwrap();
        Self(path)
    }

    /// Returns a word of an example. A name of a file becomes a path in the folder.
    fn word(&self, word: &str) -> String {
        let is_file = [".json", ".jsonl", ".toml", "man1"].iter().any(|end| word.ends_with(end));
        if is_file || word == "." { self.0.join(word).display().to_string() } else { word.to_owned() }
    }
}

impl Drop for ExampleFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns an account with waiting and archived letters, and an override to hold some.
fn outage() -> TestAccount {
    let cloud = TestAccount::new();
    cloud.aws.act("test", |it, _| it.s3.keep_versions("my-bucket"));
    let posts = (0..10).map(|number| RecordBuilder::envelope(&number.to_string())).collect::<Vec<_>>();
    list(&cloud, "2026-11-01T10:00:00Z", &lines(&[letter("w", &json!({}))]));
    put_overrides(&cloud, &[override_(OVERRIDE, "hold", None)]);
    cloud.subscribe(SUBSCRIPTION, TOPIC, "sqs", WORKER);
    put_archive(&cloud, INDEXED, &posts);
    cloud
}

/// Returns a world on this account, in which a person answers every question with yes. The stack is `payments`.
fn world(cloud: &TestAccount) -> CommandWorld {
    let config = stand_in::before(cloud, |asked| {
        // There is no state machine, so the terminal replays.
        let none = || Some((400, json!({ "__type": "StateMachineDoesNotExist" }).to_string()));
        if asked.is_of("states") { none() } else { formation(asked, &OUTPUTS) }
    });
    let (config, input) = (Some(config), b"y\n".to_vec());
    CommandWorld { config, input, answers: true, ticks: true, ..CommandWorld::default() }
}

/// Runs an example whose words are in this account.
async fn in_outage(words: &[String], folder: &ExampleFolder) -> CommandRun {
    let cloud = outage();
    let run = async |words: &[&str]| redrivectl_in(world(&cloud), words).await;
    let mut words = words.to_vec();
    if words.iter().any(|word| word == REPLAY) {
        // A replay that can be shown, stopped and freed.
        let (id, _) = stopped(&cloud).await;
        words.iter_mut().filter(|word| *word == REPLAY).for_each(|word| word.clone_from(&id));
    }
    let letters = folder.0.join("letters.jsonl");
    if words.iter().any(|word| Path::new(word) == letters) {
        let shown = run(&["archive", "show", "--json", "--stack", "payments", "--topic", "payments"]).await;
        std::fs::write(letters, shown.text()).unwrap();
    }
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    redrivectl_in(world(&cloud), &words).await
}

#[tokio::test(start_paused = true)]
async fn every_example_runs() {
    let mut number = 0;
    for (command, tree) in commands() {
        for example in examples(&tree) {
            let folder = ExampleFolder::new();
            let words: Vec<_> = example.iter().map(|word| folder.word(word)).collect();
            // The stack of the tests.
            let words: Vec<_> =
                words.into_iter().map(|word| word.replace("payments-redrive", "payments")).collect();
            let borrowed: Vec<_> = words.iter().map(String::as_str).collect();
            let ran = match command[0].as_str() {
                // Its tests show that it serves until Ctrl-C.
                "serve" => continue,
                "attach" => {
                    let record = folder.word("attach.json");
                    let is_dry = borrowed.contains(&"--dry-run");
                    let record: &[&str] = if is_dry { &[] } else { &["--record", &record] };
                    redrivectl_in(attachable(), &[&borrowed, record].concat()).await
                }
                "doctor" => redrivectl_in(well_deployed(), &borrowed).await,
                "drill" => drilled(&borrowed).await,
                "fleet" => redrivectl_in(fleet_world(), &borrowed).await,
                "look" => redrivectl_in(lookable(), &borrowed).await,
                _ => in_outage(&words, &folder).await,
            };
            // The account has letters that need a person.
            let code = if command[0] == "status" { 7 } else { 0 };
            assert_eq!(ran.code, code, "{example:?}: {ran:?}");
            number += 1;
        }
    }
    assert!(number > 50, "{number}");
}
