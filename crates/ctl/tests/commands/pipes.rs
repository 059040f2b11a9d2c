//! The end of a command when nobody reads its output: `| head -1`, `| true`, `> /dev/full`.

use std::io::{Read, pipe};
use std::process::{Command, Stdio};
use std::time::Duration;

use redrive_support::{RecordBuilder, SimClock, TOPIC, TestAccount};

use super::overrides::{has_document, overrides, put_overrides};
use super::waiting::{letter, lines, list};
use super::{CommandWorld, TextFile, redrivectl_in, replay};

const CONTROL: [&str; 2] = ["--control", "s3://my-bucket/dead-letters-control"];
const ARCHIVE: [&str; 2] = ["--archive", "s3://my-bucket/dead-letters"];

/// Returns a stream without a reader.
fn closed() -> Stdio {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    writer.into()
}

/// Returns the built program on this account.
fn program(url: &str, args: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_redrivectl"));
    program.args(args).env_clear().env("HOME", "/nowhere").env("AWS_EC2_METADATA_DISABLED", "true");
    program.envs([("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "secret")]);
    program.envs([("AWS_REGION", "eu-central-1"), ("AWS_ENDPOINT_URL", url)]);
    program.stdin(Stdio::null());
    program
}

fn hold() -> [&'static str; 7] {
    ["hold", "--topic", TOPIC, "--why", "w", "--by", "ada"]
}

#[test]
fn an_override_is_written_whoever_reads_of_it() {
    let cloud = TestAccount::with_clock(SimClock::real());
    let server = cloud.listen();
    let args = [&hold()[..], &["--yes"], &CONTROL].concat();
    for json in [&[][..], &["--json"]] {
        let mut hold = program(&server.url(), &[&args, json].concat());
        let ran = hold.stdout(closed()).stderr(closed()).status().unwrap();
        assert_eq!(ran.code(), Some(0));
    }
    assert_eq!(overrides(&cloud).len(), 2);

    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran = program(&server.url(), &args).stdout(full).output().unwrap();
    let err = String::from_utf8(ran.stderr).unwrap();
    assert_eq!((ran.status.code(), overrides(&cloud).len()), (Some(1), 3), "{err}");
    assert!(err.contains("redrivectl: cannot write the output: No space left on device"), "{err}");
}

#[test]
fn a_command_that_only_shows_has_nothing_left_to_do() {
    let cloud = TestAccount::with_clock(SimClock::real());
    put_overrides(&cloud, &[]);
    let server = cloud.listen();
    let chart = TextFile::of("pipe.svg", "");
    for args in [
        &["plan"][..],
        &["plan", "--svg", chart.path()],
        &["completion", "bash"],
        &[&["overrides"], &CONTROL[..]].concat(),
        &[&["waiting"], &CONTROL[..]].concat(),
        &[&["archive", "list"], &ARCHIVE[..]].concat(),
    ] {
        let ran = program(&server.url(), args).stdout(closed()).output().unwrap();
        let err = String::from_utf8(ran.stderr).unwrap();
        assert_eq!((ran.status.code(), err.as_str()), (Some(0), ""), "{args:?}");
    }
    assert!(!chart.read().is_empty(), "the chart is written, whoever reads the table");
    // The error must not be lost with the output.
    cloud.put("my-bucket/dead-letters-control/overrides.json", "{");
    let overrides = [&["overrides"], &CONTROL[..]].concat();
    let ran = program(&server.url(), &overrides).stdout(closed()).stderr(closed()).status().unwrap();
    assert_eq!(ran.code(), Some(1));
}

#[tokio::test(start_paused = true)]
async fn letters_are_woken_whoever_reads_of_it() {
    for lines_read in [0, 1] {
        let cloud = TestAccount::new();
        let line = letter("a", &serde_json::json!({}));
        list(&cloud, "2026-11-01T11:00:00Z", &lines(&[line]));
        let args = [&["retry", "--topic", TOPIC, "--why", "w", "--yes"], &CONTROL[..]].concat();
        let world = CommandWorld { read_until: Some(lines_read), ..CommandWorld::on(&cloud) };
        let ran = redrivectl_in(world, &args).await;
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
        assert_eq!(cloud.calls("ChangeMessageVisibilityBatch").len(), 1, "{ran:?}");
    }
}

#[tokio::test]
async fn a_question_about_what_nobody_has_seen_is_not_asked() {
    let cloud = TestAccount::new();
    let world = CommandWorld {
        read_until: Some(0),
        answers: true,
        input: b"y\n".to_vec(),
        ..CommandWorld::on(&cloud)
    };
    let ran = redrivectl_in(world, &[&hold()[..], &CONTROL].concat()).await;
    assert_eq!(ran.code, 2, "{ran:?}");
    let says = "so nobody has seen what would be done: nothing was done\n";
    assert!(
        ran.err.starts_with("redrivectl: cannot write the output: ") && ran.err.ends_with(says),
        "{ran:?}"
    );
    assert!(!has_document(&cloud));
}

/// In `replay | tee log`, Ctrl-C also ends `tee`.
#[test]
fn a_replay_that_is_interrupted_says_so_by_its_exit_code_without_a_reader_too() {
    let cloud = TestAccount::with_clock(SimClock::real());
    let posts: Vec<_> = (0..10).map(|number| RecordBuilder::envelope(&number.to_string())).collect();
    replay::put_archive(&cloud, replay::INDEXED, &posts);
    let server = cloud.listen();
    let args = [
        &["replay", "--all", "--yes", "--ramp", "50,100", "--settle", "1h", "--by", "ada"],
        &replay::PLACE[..],
    ];
    let mut replay = program(&server.url(), &args.concat());
    let mut replay = replay.stdout(closed()).stderr(Stdio::piped()).spawn().unwrap();
    let began = std::time::Instant::now();
    while cloud.calls("SendMessageBatch").is_empty() && began.elapsed() < Duration::from_mins(1) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let killed = Command::new("kill").args(["-INT", &replay.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let code = replay.wait().unwrap().code();
    let mut err = String::new();
    replay.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(code, Some(4), "{err}");
    assert!(err.ends_with("5 of 10 letters sent: interrupted\n"), "progress ends with the result: {err}");
}
