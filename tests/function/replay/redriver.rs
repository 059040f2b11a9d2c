//! Tests of the function that redrives: a replay goes by its mode and policy, which Lambda reports.

use redrive_sim::lambda::{EnvironmentError, FunctionSettings, SimInvocationResult};
use sns_redrive::replay_function::{ReplayAnswer, ReplayEvent, ReplayFunction};

use super::event::{ACTIVE, first_turn, function, invoke};
use super::*;

const REDRIVER: &str = "arn:aws:lambda:eu-central-1:123456789012:function:sns-redrive";

/// Deploys the function that redrives, with these variables in addition to the required ones.
fn deploy(world: &ArchiveWorld, variables: &[(&str, &str)]) {
    let all = ACTIVE.iter().chain(variables);
    let all = all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    configure(world, FunctionSettings { environment: Ok(all), ..FunctionSettings::default() });
}

fn configure(world: &ArchiveWorld, settings: FunctionSettings) {
    world.aws.act("operator", |it, _| {
        it.lambda.create("sns-redrive", settings, |_| SimInvocationResult::ok("null"));
    });
}

/// Returns three letters without a target by the built-in policy, and the replay function beside the one that
/// redrives.
fn beside(variables: &[(&str, &str)]) -> (ArchiveWorld, ReplayFunction) {
    let world = ArchiveWorld::with_letters(3);
    deploy(&world, variables);
    let replayer = function(&world, &[ACTIVE[0], ACTIVE[1], ("REDRIVE_FUNCTION", REDRIVER)]);
    (world, replayer)
}

fn asked(world: &ArchiveWorld) -> usize {
    world.calls("GetFunctionConfiguration").len()
}

fn go() -> Value {
    json!({ "all": true, "ramp": [100], "rate": 10_000 })
}

fn to_billing() -> String {
    json!({ "default": { "target": BILLING } }).to_string()
}

#[tokio::test(start_paused = true)]
async fn letters_go_by_the_policy_that_the_function_has_when_the_replay_begins() {
    let (world, replayer) = beside(&[]);
    let left_out = invoke(&replayer, &world, 60, json!({ "replay": go() })).await.unwrap();
    assert_eq!(left_out["counts"], json!({ "notReplayable": { "noTarget": 3 } }));
    deploy(&world, &[("REDRIVE_POLICY", &to_billing())]);
    tokio::time::sleep(Duration::from_secs(59)).await;
    let soon = invoke(&replayer, &world, 60, json!({ "replay": go() })).await.unwrap();
    assert_eq!((&soon["counts"], asked(&world)), (&left_out["counts"], 1), "an answer counts for a minute");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let sent = invoke(&replayer, &world, 60, json!({ "replay": go() })).await.unwrap();
    assert_eq!((&sent["counts"], asked(&world)), (&json!({ "sent": 3 }), 2));
}

/// In the requeue no function would receive them.
#[tokio::test(start_paused = true)]
async fn nothing_goes_while_the_function_observes() {
    let observe = [("REDRIVE_MODE", "observe"), ("REDRIVE_POLICY", &*to_billing())];
    let (world, replayer) = beside(&observe);
    let why = format!("bad request: REDRIVE_MODE of {REDRIVER} is observe: only dryRun is possible");
    for event in [json!({ "replay": go() }), first_turn(&go(), 2)] {
        assert_eq!(invoke(&replayer, &world, 60, event).await, Err(why.clone()));
    }
    let mut dry_run = go();
    dry_run["dryRun"] = true.into();
    let counted = invoke(&replayer, &world, 60, json!({ "replay": dry_run })).await.unwrap();
    assert_eq!(counted["counts"], json!({ "sent": 3 }));
    let counted = invoke(&replayer, &world, 60, first_turn(&dry_run, 2)).await.unwrap();
    assert_eq!(counted["replay"]["counts"], json!({ "sent": 3 }));
    assert_eq!((world.objects(CONTROL), world.sent().len()), (vec![], 0));
    // It is noticed at once that the function works again.
    deploy(&world, &observe[1..]);
    let turn = invoke(&replayer, &world, 60, first_turn(&go(), 2)).await.unwrap();
    assert_eq!(turn["next"], "send");
    // A replay under way ends in an error, and continues when the function works again.
    deploy(&world, &observe);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let next = json!({ "turn": { "id": turn["id"], "holder": turn["holder"], "workers": 2 } });
    let resume = json!({ "replay": { "resume": turn["id"] } });
    for event in [next, resume.clone()] {
        assert_eq!(invoke(&replayer, &world, 60, event).await, Err(why.clone()));
    }
    // A stop is also noticed.
    world.replay().kept().stop(turn["id"].as_str().unwrap(), None).await.unwrap();
    let next = json!({ "turn": { "id": turn["id"], "holder": turn["holder"], "workers": 2 } });
    let stopped = invoke(&replayer, &world, 60, next).await.unwrap();
    assert_eq!((&stopped["next"], &stopped["replay"]["status"]), (&json!("end"), &json!("stopped")));
    deploy(&world, &observe[1..]);
    let done = invoke(&replayer, &world, 60, resume).await.unwrap();
    assert_eq!((&done["status"], &done["counts"]), (&json!("done"), &json!({ "sent": 3 })));
}

#[tokio::test(start_paused = true)]
async fn what_lambda_does_not_tell_is_named_with_the_function_and_what_it_takes() {
    let (world, replayer) = beside(&[]);
    let with = |variables: &[(&str, &str)]| deploy(&world, variables);
    let denied = || {
        let (code, message) = ("AccessDeniedException".to_owned(), "KMS access was denied.".to_owned());
        let environment = Err(EnvironmentError { code, message });
        configure(&world, FunctionSettings { environment, ..FunctionSettings::default() });
    };
    let failed = || {
        let environment = ACTIVE.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let failed = Some("its role cannot be assumed".to_owned());
        configure(
            &world,
            FunctionSettings { environment: Ok(environment), failed, ..FunctionSettings::default() },
        );
    };
    let remove = || world.aws.act("operator", |it, _| it.lambda.remove("sns-redrive"));
    let reading =
        format!("reading the configuration of {REDRIVER} (lambda:GetFunctionConfiguration) failed: ");
    let variables = "(kms:Decrypt on arn:aws:kms:eu-central-1:123456789012:key/0a1b) failed: AccessDeniedException \
         (action_required): KMS access was denied.";
    let requeue = format!("its REQUEUE_ARN is {FIFO_REQUEUE}");
    let cases: [(&dyn Fn(), String); 6] = [
        (&remove, format!("{reading}ResourceNotFoundException (action_required)")),
        (&denied, format!("reading the variables of {REDRIVER} {variables}")),
        (&failed, format!("bad request: {REDRIVER} is Failed (its role cannot be assumed): only dryRun")),
        (
            &|| with(&[("REQUEUE_ARN", FIFO_REQUEUE)]),
            format!("bad request: {REDRIVER} does not take letters from {REQUEUE}: {requeue}"),
        ),
        (
            &|| with(&[("REDRIVE_POLICY", "{")]),
            format!("bad request: {REDRIVER} cannot work: bad settings: REDRIVE_POLICY: not JSON"),
        ),
        (
            &|| configure(&world, FunctionSettings::default()),
            format!("bad request: {REDRIVER} cannot work: bad settings: ARCHIVE: is missing"),
        ),
    ];
    for (set_up, why) in cases {
        set_up();
        for event in [json!({ "replay": go() }), first_turn(&go(), 2)] {
            let error = invoke(&replayer, &world, 60, event).await.unwrap_err();
            assert!(error.starts_with(&why), "{why}: {error}");
        }
    }
    deploy(&world, &[]);
    world.faults(|call| {
        if call.operation == "GetFunctionConfiguration" { SimFault::Denied } else { SimFault::Pass }
    });
    let error = invoke(&replayer, &world, 60, json!({ "replay": go() })).await.unwrap_err();
    assert!(error.starts_with(&format!("{reading}AccessDenied")), "{error}");
    assert_eq!((world.objects(CONTROL), world.sent().len()), (vec![], 0));
}

/// A replay without a policy behaves like redrivectl without one: letters without a target are archived
/// again, and the step is judged by that.
#[tokio::test(start_paused = true)]
async fn a_policy_in_a_file_is_unknown_and_the_log_says_so() {
    let (world, replayer) = beside(&[("REDRIVE_POLICY_FILE", "policy.json")]);
    let (log, guard) = logged(LevelFilter::WARN);
    let answer = invoke(&replayer, &world, 60, json!({ "replay": go() })).await.unwrap();
    drop(guard);
    assert_eq!(answer["counts"], json!({ "sent": 3 }));
    let line: Value = serde_json::from_str(log.text().lines().next().unwrap()).unwrap();
    assert_eq!(line["message"], "policy unknown: the replay also sends letters that may have no target");
    let why =
        format!("REDRIVE_POLICY_FILE of {REDRIVER} is a file of its package, which nobody else can read");
    assert_eq!(line["detail"], why.as_str());
}

/// A thousand lanes begin at the same time, and Lambda answers 15 such calls a second.
#[tokio::test(start_paused = true)]
async fn lanes_are_told_the_policy_by_their_turn_and_ask_nobody() {
    for (variables, counts) in [
        (&[][..], json!({ "notReplayable": { "noTarget": 3 } })),
        (&[("REDRIVE_POLICY", &*to_billing())], json!({ "sent": 3 })),
        (&[("REDRIVE_POLICY_FILE", "policy.json")], json!({ "sent": 3 })),
    ] {
        let (world, replayer) = beside(variables);
        let turn = invoke(&replayer, &world, 60, first_turn(&go(), 2)).await.unwrap();
        assert_eq!(asked(&world), 1);
        tokio::time::sleep(Duration::from_mins(2)).await;
        let (_, lanes) = world.objects(turn["key"].as_str().unwrap()).remove(0);
        for lane in lanes.lines() {
            let lane = serde_json::from_str(lane).unwrap();
            let deadline = (world.aws.clock().millis() + 60_000).try_into().unwrap();
            let answer = replayer.answer(ReplayEvent::Lane(lane), "req-2", deadline).await.unwrap();
            assert!(matches!(answer, ReplayAnswer::Lane { sent: Some(_), trouble: None }), "{answer:?}");
        }
        assert_eq!(asked(&world), 1);
        let next = json!({ "turn": { "id": turn["id"], "holder": turn["holder"], "workers": 2 } });
        let turn = invoke(&replayer, &world, 60, next).await.unwrap();
        assert_eq!((&turn["next"], &turn["replay"]["counts"]), (&json!("end"), &counts));
    }
}

/// The policy may be longer than what a line for each of a thousand lanes should hold.
#[tokio::test(start_paused = true)]
async fn a_policy_in_s3_is_read_by_the_turn_and_by_each_lane() {
    let uri = "s3://my-bucket/policies/payments.json";
    let (world, replayer) = beside(&[("REDRIVE_POLICY_URI", uri)]);
    let reading = format!("reading the policy {uri} (s3:GetObject)");
    let error = invoke(&replayer, &world, 60, json!({ "replay": go() })).await.unwrap_err();
    assert!(error.starts_with(&reading), "{error}");
    world.put("policies/payments.json", r#"{"rulse": []}"#, NOW);
    let error = invoke(&replayer, &world, 60, json!({ "replay": go() })).await.unwrap_err();
    assert!(error.contains("cannot work: the redrive policy"), "{error}");
    assert_eq!((world.objects(CONTROL), world.sent().len()), (vec![], 0));

    world.put("policies/payments.json", &to_billing(), NOW);
    let turn = invoke(&replayer, &world, 60, first_turn(&go(), 2)).await.unwrap();
    let (_, lanes) = world.objects(turn["key"].as_str().unwrap()).remove(0);
    for line in lanes.lines() {
        let lane: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&lane["policyAt"], lane.get("policy")), (&json!(uri), None));
        let deadline = (world.aws.clock().millis() + 60_000).try_into().unwrap();
        let lane = ReplayEvent::Lane(serde_json::from_value(lane).unwrap());
        let answer = replayer.answer(lane, "req-2", deadline).await.unwrap();
        assert!(matches!(answer, ReplayAnswer::Lane { sent: Some(_), trouble: None }), "{answer:?}");
    }
    assert_eq!(world.sent().len(), 3, "without the policy they would have no target");
}

#[tokio::test(start_paused = true)]
async fn an_answer_counts_for_a_minute_though_the_wall_clock_is_set_back() {
    let (world, _) = beside(&[]);
    let back = Arc::new(AtomicI64::new(0));
    let (told, clock) = (Arc::clone(&back), world.aws.clock().clone());
    let wall = move || at(clock.now().as_millisecond() - told.load(Ordering::Relaxed));
    let given = [ACTIVE[0], ACTIVE[1], ("REDRIVE_FUNCTION", REDRIVER)];
    let variable =
        |name: &str| given.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned());
    let settings = redrive_aws::settings::Settings::read(variable).unwrap();
    let clients = world.clients(&Caller::new("function"));
    let replayer = ReplayFunction::new(settings, clients, InstanceClock::from_fn(wall));
    invoke(&replayer, &world, 60, json!({ "replay": go() })).await.unwrap();
    back.store(3_600_000, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_mins(1)).await;
    invoke(&replayer, &world, 60, json!({ "replay": go() })).await.unwrap();
    assert_eq!(asked(&world), 2);
}
