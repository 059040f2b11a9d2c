//! `replay --stack` with a state machine: its output and its end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::SdkConfig;
use redrive_replay::ReplayRequest;
use redrive_support::stand_in;
use redrive_support::{BILLING, SimFault, TestAccount};
use serde_json::{Value, json};

use super::overrides::{override_, put_overrides};
use super::stack::{OUTPUTS, archive, formation};
use super::{CommandRun, CommandWorld, redrivectl, redrivectl_in};

const ID: &str = "20261101T120000Z-0a1b2c";
const ARN: &str = "arn:aws:states:eu-central-1:123456789012:execution:payments-replay:e1";
const NEWER: &str =
    "was written by a newer version of this software, and was left as it is: use that version";

/// The answers to each reading of an execution's history, one after the other. The last one repeats.
type HistoryAnswers = Vec<(u16, Value)>;

/// Returns an account with the state machine of `overrides`, whose execution goes on like this.
fn stand_in(cloud: &TestAccount, looks: HistoryAnswers) -> (SdkConfig, Arc<AtomicUsize>, Arc<Mutex<Value>>) {
    let input = Arc::new(Mutex::new(Value::Null));
    let looked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&looked);
    let started = Arc::clone(&input);
    let config = stand_in::before(cloud, move |asked| {
        if !asked.is_of("states") {
            return formation(asked, &OUTPUTS);
        }
        let body: Value = serde_json::from_str(asked.body).unwrap();
        if let Some(machine) = body.get("stateMachineArn") {
            assert_eq!(*machine, "arn:aws:states:eu-central-1:123456789012:stateMachine:payments-replay");
            *started.lock().unwrap() = serde_json::from_str(body["input"].as_str().unwrap()).unwrap();
            return Some((200, json!({ "executionArn": ARN, "startDate": 1.0 }).to_string()));
        }
        assert_eq!((&body["executionArn"], &body["reverseOrder"]), (&json!(ARN), &json!(true)));
        let look = count.fetch_add(1, Ordering::Relaxed);
        let (status, answer) = &looks[look.min(looks.len() - 1)];
        Some((*status, answer.to_string()))
    });
    (config, looked, input)
}

/// An execution with these events, the latest first.
fn history(events: &[Value]) -> (u16, Value) {
    let event = |(number, event): (usize, &Value)| {
        let mut event = event.clone();
        (event["id"], event["timestamp"]) = (json!(100 - number), json!(1.0));
        event
    };
    (200, json!({ "events": events.iter().enumerate().map(event).collect::<Vec<_>>() }))
}

fn exited(kind: &str, output: &Value) -> Value {
    let details = json!({ "name": "Turn", "output": output.to_string() });
    json!({ "type": format!("{kind}StateExited"), "stateExitedEventDetails": details })
}

/// Returns a turn that reports the state of a replay of a thousand letters.
fn turn(status: &str, counts: &Value) -> Value {
    exited("Task", &json!({ "next": "send", "id": ID, "replay": state(status, counts) }))
}

pub(crate) fn state(status: &str, counts: &Value) -> Value {
    let at = "2026-11-01T12:00:00Z";
    let mut state = json!({
        "version": 1, "id": ID, "request": { "all": true }, "by": ARN, "began": at, "takenUp": at, "holder": "h",
        "cutOff": at, "status": status, "letters": 1000, "exact": true, "units": 1, "counts": counts, "step": 1,
        "steps": 2, "place": { "units": 0, "counts": {}, "stage": 0, "stepBegan": at, "sentBefore": 0,
        "refusedBefore": 0, "waitingBefore": 0 },
    });
    if status == "stopped" {
        state["because"] = "jo stopped it".into();
    }
    state
}

fn entered() -> Value {
    json!({ "type": "TaskStateEntered", "stateEnteredEventDetails": { "name": "Turn", "input": "{}" } })
}

fn succeeded() -> Value {
    json!({ "type": "ExecutionSucceeded", "executionSucceededEventDetails": { "output": "{}" } })
}

fn failed(error: &str, message: &str) -> Value {
    let cause = json!({ "errorType": error, "errorMessage": message }).to_string();
    json!({ "type": "ExecutionFailed", "executionFailedEventDetails": { "error": error, "cause": cause } })
}

/// Runs `replay --all --stack payments` with further arguments. Also returns how often it read the history.
async fn replay(world: CommandWorld, looks: HistoryAnswers, args: &[&str]) -> (CommandRun, usize) {
    let (config, looked, _) = stand_in(&archive(), looks);
    let args = [&["replay", "--all", "--yes", "--stack", "payments"], args].concat();
    let ran = redrivectl_in(CommandWorld { config: Some(config), ..world }, &args).await;
    (ran, looked.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn a_replay_of_the_state_machine_is_named_and_followed_to_its_end() {
    let looks = || {
        let settling = turn("settling", &json!({ "sent": 10 }));
        vec![
            history(&[entered()]),
            history(&[entered(), settling.clone()]),
            history(&[settling]),
            // The latest turn counts. Two states have passed it on.
            history(&[
                succeeded(),
                exited("Succeed", &json!({ "replay": state("done", &json!({ "sent": 1000 })) })),
                turn("done", &json!({ "sent": 1000 })),
                turn("running", &json!({ "sent": 10 })),
            ]),
        ]
    };
    let named = format!(
        "redrivectl: the state machine runs the replay {ID}; to stop it: redrivectl replay stop {ID} --stack payments\n"
    );
    let (ran, looked) = replay(CommandWorld::default(), looks(), &[]).await;
    assert_eq!((ran.code, ran.err.as_str(), looked), (0, named.as_str(), 4));
    assert_eq!(
        ran.out,
        format!(
            "Replay {ID}: done.\n  selected   1,000 letters, archived before 2026-11-01 12:00:00 UTC\n  \
             which      the whole archive\n  sent       1,000 letters\n  execution  {ARN}\n"
        )
    );
    let (ran, _) = replay(CommandWorld::default(), looks(), &["--json"]).await;
    let told = ran.json();
    assert_eq!(
        (&told["id"], &told["status"], &told["counts"]["sent"], &told["executionArn"]),
        (&json!(ID), &json!("done"), &json!(1000), &json!(ARN))
    );
    let (ran, _) =
        replay(CommandWorld { lines: true, ticks: true, ..CommandWorld::default() }, looks(), &[]).await;
    assert!(ran.err.starts_with(&named), "{}", ran.err);
    assert!(ran.err.contains("\nredrivectl: 10 of 1,000 letters, "), "{}", ran.err);
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_the_exit_code_of_a_replay_that_the_terminal_drives() {
    let ended = |replay: Value| history(&[succeeded(), replay]);
    let running = turn("running", &json!({ "sent": 10 }));
    let busy = exited("Task", &json!({ "next": "end", "status": "busy", "because": "other is at work" }));
    let go_on = format!("to continue: redrivectl replay --resume {ID} --stack payments");
    let arn_aborted = format!("{ARN} was aborted");
    for (look, code, kind, said) in [
        (ended(turn("done", &json!({ "sent": 9, "unreadable": 1 }))), 3, "", "unreadable"),
        (ended(turn("stopped", &json!({ "sent": 9 }))), 4, "", "jo stopped it"),
        (ended(busy.clone()), 5, "busy", "other is at work"),
        (history(&[succeeded(), busy, running.clone()]), 5, "busy", "other is at work"),
        (history(&[failed("ReplayDenied", "no right")]), 6, "denied", "the execution failed: no right"),
        (history(&[failed("ReplayRequest", "bad wish")]), 2, "input", "the execution failed: bad wish"),
        (history(&[failed("ReplayFailed", "SlowDown")]), 1, "failed", "the execution failed: SlowDown"),
        (history(&[failed("Lambda.Unknown", "died")]), 1, "failed", "the execution failed: died"),
        // The replay has begun, so it exists, whatever its function reports later.
        (history(&[failed("ReplayRequest", "observes"), running.clone()]), 1, "failed", &go_on),
        (history(&[json!({ "type": "ExecutionAborted" })]), 4, "stopped", &arn_aborted),
        (history(&[json!({ "type": "ExecutionTimedOut" }), running.clone()]), 4, "stopped", &go_on),
        ((400, json!({ "__type": "AccessDeniedException", "message": "no" })), 6, "denied", "replay goes on"),
        ((400, json!({ "__type": "ExecutionDoesNotExist", "message": "no" })), 1, "failed", "replay goes on"),
    ] {
        let (ran, _) = replay(CommandWorld::default(), vec![look.clone()], &["--json"]).await;
        let told: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((ran.code, told["kind"].as_str().unwrap_or_default()), (code, kind), "{look:?}: {ran:?}");
        assert!(ran.out.contains(said), "{look:?}: {ran:?}");
        let (ran, _) = replay(CommandWorld::default(), vec![look], &[]).await;
        assert_eq!(ran.code, code);
        assert!(format!("{}{}", ran.out, ran.err).contains(said), "{ran:?}");
    }
    let newer = exited("Task", &json!({ "replay": { "version": 2, "id": ID } }));
    let (ran, _) = replay(CommandWorld::default(), vec![history(&[newer])], &[]).await;
    assert_eq!(ran.code, 1);
    assert!(ran.err.starts_with(&format!("redrivectl: {ARN} {NEWER}\n")), "{}", ran.err);
}

#[tokio::test(start_paused = true)]
async fn ctrl_c_ends_the_looking_on_and_not_the_replay() {
    let interrupted = Arc::new(AtomicBool::new(false));
    let world = CommandWorld { interrupted: Arc::clone(&interrupted), ..CommandWorld::default() };
    let looks = vec![history(&[entered(), turn("running", &json!({ "sent": 10 }))])];
    let presses = async {
        tokio::time::sleep(Duration::from_secs(9)).await;
        interrupted.store(true, Ordering::Relaxed);
    };
    let ((ran, looked), ()) = tokio::join!(replay(world, looks, &[]), presses);
    let said = format!(
        "redrivectl: the state machine runs the replay {ID}; to stop it: redrivectl replay stop {ID} --stack payments\n\
         redrivectl: interrupted\n\
         redrivectl: the replay goes on; to see its state: redrivectl replay show {ID} --stack payments\n\
         redrivectl: to stop it: redrivectl replay stop {ID} --stack payments\n"
    );
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str(), looked), (4, "", said.as_str(), 5));
}

#[tokio::test(start_paused = true)]
async fn ctrl_c_before_it_is_started_starts_nothing() {
    let interrupted = Arc::new(AtomicBool::new(false));
    let (config, looked, input) = stand_in(&archive(), vec![history(&[entered()])]);
    let world = CommandWorld {
        interrupted: Arc::clone(&interrupted),
        config: Some(config),
        ..CommandWorld::default()
    };
    interrupted.store(true, Ordering::Relaxed);
    let ran = redrivectl_in(world, &["replay", "--all", "--yes", "--stack", "payments"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (4, "redrivectl: interrupted; nothing was written\n"));
    assert_eq!((&*input.lock().unwrap(), looked.load(Ordering::Relaxed)), (&Value::Null, 0));
}

#[tokio::test(start_paused = true)]
async fn whoever_detaches_is_told_the_id_and_goes() {
    let looks = || {
        vec![
            history(&[entered()]),
            history(&[entered(), turn("running", &json!({ "sent": 0 }))]),
            history(&[succeeded(), turn("done", &json!({ "sent": 1000 }))]),
        ]
    };
    let (ran, looked) = replay(CommandWorld::default(), looks(), &["--detach"]).await;
    let said = format!(
        "Replay {ID}: the state machine runs it.\n  execution  {ARN}\n\n\
         To see its state: redrivectl replay show {ID} --stack payments\n\
         To stop it: redrivectl replay stop {ID} --stack payments\n"
    );
    assert_eq!((ran.text().as_str(), looked), (said.as_str(), 2));
    let (ran, _) = replay(CommandWorld::default(), looks(), &["--detach", "--json"]).await;
    assert_eq!(ran.json(), json!({ "executionArn": ARN, "id": ID }));
    // A refused request begins no replay.
    let refused = vec![history(&[failed("ReplayRequest", "bad wish")])];
    assert_eq!(replay(CommandWorld::default(), refused, &["--detach"]).await.0.code, 2);
    // The caller may start a replay but not read the execution.
    let denied = vec![(400, json!({ "__type": "AccessDeniedException", "message": "no" }))];
    let (ran, _) = replay(CommandWorld::default(), denied, &["--detach", "--json"]).await;
    assert_eq!((ran.code, ran.out), (0, format!("{}\n", json!({ "executionArn": ARN, "id": null }))));
    assert!(ran.err.contains("states:GetExecutionHistory"), "{}", ran.err);
    let ran = redrivectl(&["replay", "--all", "--detach"]).await;
    assert_eq!(ran.code, 2);
    assert!(ran.err.starts_with("redrivectl: --detach needs a state machine: give --stack"), "{}", ran.err);
}

#[tokio::test]
async fn a_terminal_replays_where_there_is_no_state_machine_or_what_none_takes() {
    let cloud = archive();
    let replay = async |exists: bool, args: &[&str]| {
        let config = stand_in::before(&cloud, move |asked| {
            if !asked.is_of("states") {
                return formation(asked, &OUTPUTS);
            }
            assert!(!exists, "nobody asks for it");
            Some((400, json!({ "__type": "StateMachineDoesNotExist", "message": "none" }).to_string()))
        });
        let all = ["replay", "--all", "--yes", "--settle", "0", "--ramp", "100", "--stack", "payments"];
        redrivectl_in(
            CommandWorld { config: Some(config), ..CommandWorld::default() },
            &[&all, args].concat(),
        )
        .await
    };
    // The state machine has its own value for each of these options, or cannot use it.
    for here in [
        &["--dry-run"][..],
        &["--workers", "2", "--dry-run"],
        &["--archive", "s3://my-bucket/none", "--control", "s3://my-bucket/none-control"],
    ] {
        let ran = replay(true, here).await;
        assert!(ran.code == 0 && ran.out.starts_with("Replay "), "{here:?}: {ran:?}");
    }
    let none = "redrivectl: the state machine payments-replay does not exist";
    let ran = replay(false, &["--detach"]).await;
    let way_out = "Deploy operations.yaml, or leave out --detach";
    let said = format!("{none}, but --detach needs it: nothing was done. {way_out}\n");
    assert_eq!((ran.code, ran.err), (2, said));
    let ran = replay(false, &[]).await;
    assert!(
        ran.code == 0
            && ran.err.starts_with(&format!("{none}, so this terminal replays\n"))
            && ran.out.contains("sent      1 letter\n"),
        "{ran:?}"
    );
    let ran = replay(false, &["--by", "jo"]).await;
    assert!(
        ran.code == 0 && ran.err.is_empty(),
        "an override for this terminal asks for no state machine: {ran:?}"
    );
}

/// AWS does not tell callers without permission whether the state machine exists.
#[tokio::test]
async fn who_may_not_start_the_state_machine_is_told_what_it_takes_and_of_the_way_without_it() {
    let cloud = archive();
    let config = stand_in::before(&cloud, |asked| {
        if !asked.is_of("states") {
            return formation(asked, &OUTPUTS);
        }
        Some((400, json!({ "__type": "AccessDeniedException", "message": "no" }).to_string()))
    });
    let replay = async |args: &[&str]| {
        let world = CommandWorld { config: Some(config.clone()), ..CommandWorld::default() };
        redrivectl_in(
            world,
            &[&["replay", "--all", "--yes", "--settle", "0", "--stack", "payments"], args].concat(),
        )
        .await
    };
    let denied = "(states:StartExecution) failed: AccessDeniedException (action_required): no";
    let ran = replay(&[]).await;
    let said = format!("payments-replay {denied}. To replay from this terminal, add --workers 4\n");
    assert!(ran.code == 6 && ran.err.ends_with(&said), "{ran:?}");
    let ran = replay(&["--workers", "4"]).await;
    assert!(ran.code == 0 && ran.out.contains("sent      1 letter\n"), "{ran:?}");
}

/// The question is the same as for a replay in the terminal.
#[tokio::test(start_paused = true)]
async fn whoever_starts_it_is_asked_what_a_replay_by_the_terminal_asks() {
    const OLD: &str = "20261031T120000Z-0d0e0f";
    let cloud = archive();
    let mut other = state("stopped", &json!({ "sent": 10 }));
    other["id"] = OLD.into();
    other["request"] =
        serde_json::to_value(ReplayRequest::from_json(json!({ "all": true })).unwrap()).unwrap();
    let key = format!("my-bucket/dead-letters-control/replays/{OLD}/replay.json");
    cloud.put(&key, &other.to_string());
    // Returns how the command ends, and the input of the state machine.
    let replay = async |answer: Option<&str>, args: &[&str]| {
        let looks = vec![history(&[succeeded(), turn("done", &json!({ "sent": 1000 }))])];
        let (config, _, input) = stand_in(&cloud, looks);
        let input_of_world = answer.unwrap_or_default().as_bytes().to_vec();
        let config = Some(config);
        let world = CommandWorld {
            config,
            answers: answer.is_some(),
            input: input_of_world,
            ..CommandWorld::default()
        };
        let ran = redrivectl_in(world, &[&["replay", "--stack", "payments"], args].concat()).await;
        let given = input.lock().unwrap()["replay"].clone();
        (ran, given)
    };
    let unfinished = format!("redrivectl: replay {OLD} of the same letters is unfinished (stopped): ");
    for (answer, resumes) in [("continue\n", Some(true)), ("new\n", Some(false)), ("\n", None), ("y\n", None)]
    {
        let (ran, given) = replay(Some(answer), &["--all"]).await;
        assert!(
            ran.err.starts_with(&unfinished) && ran.err.contains("; anything else does nothing: "),
            "{ran:?}"
        );
        assert_eq!(ran.code, if resumes.is_some() { 0 } else { 2 }, "{ran:?}");
        assert_eq!(given.is_object().then(|| given["resume"] == OLD), resumes, "{given}");
        assert!(ran.out.starts_with("Replay: these letters are sent again.\n  selected  "), "{ran:?}");
    }
    // A script answers with --yes, and gets a note.
    let (ran, given) = replay(None, &["--all", "--yes"]).await;
    let command = format!("redrivectl replay --resume {OLD} --stack payments");
    let said = format!("this command begins a new replay; to continue the other one: {command}\n");
    assert!(ran.code == 0 && ran.err.contains(&said), "{ran:?}");
    assert_eq!(given["all"], true);
    let (ran, given) = replay(None, &["--all"]).await;
    assert!(ran.code == 2 && given.is_null() && ran.err.contains("give --yes"), "{ran:?}");
    // With --new there is one question.
    for (answer, code) in [("y\n", 0), ("\n", 2)] {
        let (ran, given) = replay(Some(answer), &["--all", "--new"]).await;
        assert!(ran.code == code && !ran.err.contains(OLD), "{ran:?}");
        assert_eq!(given.is_object(), code == 0);
        let (ran, given) = replay(Some(answer), &["--resume", OLD]).await;
        assert!(ran.code == code && ran.err.starts_with("Continue it? [y/N] "), "{ran:?}");
        assert_eq!(given["resume"] == OLD, code == 0);
    }
    // Without permission to read archive and replays, the question comes without their numbers.
    cloud.script(|call| if call.operation == "ListObjectsV2" { SimFault::Denied } else { SimFault::Pass });
    let (ran, given) = replay(Some("y\n"), &["--all"]).await;
    assert!(ran.code == 0 && !ran.err.contains(OLD) && given["all"] == true, "{ran:?}");
    let (first, rest) = ran.out.split_once('\n').unwrap();
    assert!(first.starts_with("Replay: the letters could not be counted: "), "{ran:?}");
    let steps = "1, 5, 20, 100 % of the letters, 100 a second; stops if more than 10 % of a step fail\n";
    assert!(rest.starts_with(&format!("  which  the whole archive\n  steps  {steps}")), "{ran:?}");
    // An override that holds the letters can be read.
    let mut hold = override_("one", "hold", None);
    hold["match"] = json!({ "queueArn": [{ "exists": true }] });
    put_overrides(&cloud, &[hold]);
    let (ran, _) = replay(Some("n\n"), &["--topic", "payments", "--to", BILLING]).await;
    for says in
        ["topic payments\n", &format!("to     {BILLING}\n"), "held by the override one (down), as soon as"]
    {
        assert!(ran.out.contains(says), "{says}: {ran:?}");
    }
}
