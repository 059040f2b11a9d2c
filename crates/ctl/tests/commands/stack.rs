//! `--stack`: the outputs of a stack replace missing options.

use redrive_support::stand_in::{self, StandInRequest};
use redrive_support::{REQUEUE, RecordBuilder, SimFault, TestAccount};
use serde_json::{Value, json};

use super::waiting::{letter, lines, list};
use super::{CommandRun, CommandWorld, TextFile, records, redrivectl_in};

/// The outputs of a stack of `template.yaml` that the tool reads.
pub(crate) const OUTPUTS: [(&str, &str); 3] = [
    ("ArchiveLocation", "s3://my-bucket/dead-letters"),
    ("ControlLocation", "s3://my-bucket/dead-letters-control"),
    ("RequeueArn", REQUEUE),
];

/// Answers for `CloudFormation`: the only stack is `overrides`, with these outputs.
pub(crate) fn formation(asked: &StandInRequest<'_>, outputs: &[(&str, &str)]) -> Option<(u16, String)> {
    formation_with(asked, outputs, "")
}

/// Does the same, with parameters in `CloudFormation`'s form.
pub(crate) fn formation_with(
    asked: &StandInRequest<'_>,
    outputs: &[(&str, &str)],
    parameters: &str,
) -> Option<(u16, String)> {
    if !asked.is_of("cloudformation") {
        return None;
    }
    let name = asked.field("StackName").unwrap();
    if name != "payments" {
        let error =
            format!("<Code>ValidationError</Code><Message>Stack with id {name} does not exist</Message>");
        return Some((
            400,
            format!("<ErrorResponse><Error><Type>Sender</Type>{error}</Error></ErrorResponse>"),
        ));
    }
    let member = |(key, value): &(&str, &str)| {
        format!("<member><OutputKey>{key}</OutputKey><OutputValue>{value}</OutputValue></member>")
    };
    let outputs: String = outputs.iter().map(member).collect();
    let stack = format!(
        "<member><StackName>payments</StackName><CreationTime>2026-10-01T00:00:00Z</CreationTime>\
         <StackStatus>CREATE_COMPLETE</StackStatus><Outputs>{outputs}</Outputs>\
         <Parameters>{parameters}</Parameters></member>"
    );
    let answer = format!(
        "<DescribeStacksResponse xmlns=\"http://cloudformation.amazonaws.com/doc/2010-05-15/\"><DescribeStacksResult>\
         <Stacks>{stack}</Stacks></DescribeStacksResult></DescribeStacksResponse>"
    );
    Some((200, answer))
}

/// Runs a command with the stack `payments`, which has these outputs.
async fn run(
    cloud: &TestAccount,
    outputs: &'static [(&str, &str)],
    world: CommandWorld,
    args: &[&str],
) -> CommandRun {
    let config = Some(stand_in::before(cloud, move |asked| formation(asked, outputs)));
    redrivectl_in(CommandWorld { config, ..world }, args).await
}

fn waits() -> TestAccount {
    let cloud = TestAccount::new();
    list(&cloud, "2026-11-01T10:00:00Z", &lines(&[letter("a", &json!({})), letter("b", &json!({}))]));
    cloud
}

/// Returns variables of another deployment, and the name of this one's stack.
fn variables(name: &str) -> Option<String> {
    let value = match name {
        "REDRIVE_STACK" => "payments",
        "ARCHIVE" => "s3://another/dead",
        "CONTROL" => "s3://another/dead-control",
        "REQUEUE_ARN" => "arn:aws:sqs:eu-central-1:123456789012:another",
        _ => return None,
    };
    Some(value.to_owned())
}

#[tokio::test]
async fn the_stack_says_where_overrides_and_waiting_letters_are() {
    let cloud = waits();
    let written = ["waiting", "--control", "s3://my-bucket/dead-letters-control"];
    let written = run(&cloud, &[], CommandWorld::default(), &written).await.text();
    assert!(written.contains("2 letters"), "{written}");
    let typed = run(&cloud, &OUTPUTS, CommandWorld::default(), &["waiting", "--stack", "payments"]).await;
    let of_variable = CommandWorld { variable: Some(variables), ..CommandWorld::default() };
    let of_variable = run(&cloud, &OUTPUTS, of_variable, &["waiting"]).await;
    assert_eq!([typed.text(), of_variable.text()], [written.clone(), written]);
}

#[tokio::test]
async fn what_is_written_goes_before_what_the_stack_says() {
    let cloud = waits();
    for place in [["--control", "s3://my-bucket/elsewhere"], ["--archive", "s3://my-bucket/elsewhere"]] {
        let args = [&["waiting", "--stack", "payments"][..], &place].concat();
        let ran = run(&cloud, &OUTPUTS, CommandWorld::default(), &args).await.text();
        assert!(!ran.contains("2 letters"), "{ran}");
    }
}

/// Otherwise letters that were replayed with the other records would be sent again.
#[tokio::test]
async fn the_records_of_another_archives_replays_are_not_looked_for_at_the_stacks_place() {
    let run = async |args: &[&str]| {
        let all = ["replay", "--all", "--dry-run", "--stack", "payments"];
        run(&waits(), &OUTPUTS, CommandWorld::default(), &[&all, args].concat()).await
    };
    let ran = run(&["--archive", "s3://my-bucket/old"]).await;
    let said = "redrivectl: --archive is not the archive of the function: what was replayed from it is recorded below its own \
                control prefix, by default s3://my-bucket/old-control. Give that as --control\n";
    assert_eq!((ran.code, ran.err.as_str()), (2, said));
    let old = ["--archive", "s3://my-bucket/old", "--control", "s3://my-bucket/old-control"];
    for args in [&old[..], &["--archive", "s3://my-bucket/dead-letters"]] {
        let ran = run(args).await;
        assert!(ran.code == 0 && ran.out.starts_with("Replay "), "{ran:?}");
    }
}

#[tokio::test]
async fn a_missing_output_is_named_with_what_would_do_instead() {
    let said = async |args: &[&str]| {
        let ran =
            run(&waits(), &OUTPUTS[..1], CommandWorld::default(), &[args, &["--stack", "payments"]].concat())
                .await;
        (ran.code, ran.err)
    };
    let missing = |output, option| {
        let text = "redrivectl: the stack payments has no output ";
        let or = match output {
            "RequeueArn" => ", or was deployed with Requeue=off",
            "ControlLocation" => ", or was deployed with Overrides=off",
            _ => "",
        };
        (2, format!("{text}{output}: it is not a stack of template.yaml{or}; give {option}\n"))
    };
    assert_eq!(said(&["overrides"]).await, missing("ControlLocation", "--control"));
    assert_eq!(said(&["replay", "list"]).await, missing("ControlLocation", "--control"));
    let control = ["replay", "--all", "--dry-run", "--control", "s3://my-bucket/dead-letters-control"];
    assert_eq!(said(&control).await, missing("RequeueArn", "--requeue"));
}

#[tokio::test]
async fn a_stack_that_cannot_be_read_matters_to_who_needs_it() {
    let cloud = waits();
    let ran = run(&cloud, &OUTPUTS, CommandWorld::default(), &["waiting", "--stack", "oders"]).await;
    let said = "redrivectl: cannot read the stack oders: cloudformation:DescribeStacks failed (ValidationError): \
                Stack with id oders does not exist\n";
    assert_eq!((ran.code, ran.err.as_str()), (1, said));
    let control = ["waiting", "--stack", "oders", "--control", "s3://my-bucket/dead-letters-control"];
    run(&cloud, &OUTPUTS, CommandWorld::default(), &control).await.text();
}

/// Returns an archive with one letter.
pub(crate) fn archive() -> TestAccount {
    let cloud = TestAccount::new();
    let mut record = records::record(&redrive_support::letter(&RecordBuilder::envelope("1")));
    "2026-10-31T12:00:00Z".clone_into(&mut record.archived_at);
    let key = "dead-letters/queue=payments-dlq/date=2026-10-31/20261031T120000.000Z-r1.2-n1-r0.jsonl";
    let line = record.to_line().unwrap();
    cloud.put_at(&format!("my-bucket/{key}"), &line, "2026-10-31T12:00:00.000Z");
    for queue in ["payments-requeue", "payments-dlq"] {
        cloud.drained(queue);
    }
    cloud
}

#[tokio::test]
async fn a_terminal_replays_with_what_the_stack_says() {
    let cloud = archive();
    let listed = run(&cloud, &OUTPUTS, CommandWorld::default(), &["archive", "list", "--stack", "payments"])
        .await
        .text();
    assert!(listed.contains("1 letter"), "{listed}");
    // The variables belong to another deployment. The stack takes precedence.
    let world = CommandWorld { variable: Some(variables), ..CommandWorld::default() };
    let dry = ["replay", "--all", "--dry-run", "--json"];
    let state = run(&cloud, &OUTPUTS, world, &dry).await.json();
    assert_eq!((&state["letters"], &state["status"]), (&json!(1), &json!("dryRun")));
}

/// In the requeue of a function that only observes, letters would wait in vain.
#[tokio::test]
async fn a_terminal_asks_the_function_of_the_stack_whether_it_is_at_work_and_by_which_policy() {
    const FUNCTION: &str = "arn:aws:lambda:eu-central-1:123456789012:function:payments";
    const WITH_FUNCTION: [(&str, &str); 4] = [OUTPUTS[0], OUTPUTS[1], OUTPUTS[2], ("FunctionArn", FUNCTION)];
    let nowhere = json!({ "default": { "target": "source" } }).to_string();
    let settings = |mode: &str, policy: &str, requeue: &str| {
        let variables = json!({
            "REDRIVE_MODE": mode, "REDRIVE_POLICY": policy, "REQUEUE_ARN": requeue,
            "ARCHIVE": "s3://my-bucket/dead-letters",
        });
        (200, json!({ "Environment": { "Variables": variables } }).to_string())
    };
    let replay_in = async |world: CommandWorld, answer: (u16, String), args: &[&str]| {
        let cloud = archive();
        let config = stand_in::before(&cloud, move |asked| {
            let is_asked = asked.is_of("lambda") && asked.uri.ends_with("/configuration");
            if is_asked { Some(answer.clone()) } else { formation(asked, &WITH_FUNCTION) }
        });
        let world = CommandWorld { config: Some(config), ..world };
        let args =
            [&["replay", "--all", "--stack", "payments", "--by", "jo", "--ramp", "100"], args].concat();
        (redrivectl_in(world, &args).await, cloud.calls("SendMessageBatch").len())
    };
    let replay = async |answer: (u16, String), args: &[&str]| {
        replay_in(CommandWorld::default(), answer, &[&["--yes"], args].concat()).await
    };
    let observes = settings("observe", "", REQUEUE);
    let (ran, sent) = replay(observes.clone(), &[]).await;
    let said = format!("redrivectl: REDRIVE_MODE of {FUNCTION} is observe: only dryRun is possible\n");
    assert_eq!((ran.code, &ran.err, sent), (2, &said, 0));
    // Nobody is asked about a replay that is not possible.
    let asked = CommandWorld { answers: true, input: b"y\n".to_vec(), ..CommandWorld::default() };
    let (ran, _) = replay_in(asked, observes.clone(), &[]).await;
    assert_eq!((ran.code, ran.out.as_str(), ran.err), (2, "", said));
    // What is only counted needs nobody, but it is said, and of another requeue the function says nothing.
    let (ran, _) = replay(observes.clone(), &["--dry-run"]).await;
    let said = format!(
        "redrivectl: REDRIVE_MODE of {FUNCTION} is observe: no replay is possible, and it would take none of these letters\n"
    );
    assert_eq!((ran.code, ran.err), (0, said));
    assert_eq!(replay(observes, &["--requeue", REQUEUE]).await.0.code, 0);
    let (ran, _) = replay(settings("active", "", "arn:aws:sqs:eu-central-1:123456789012:another"), &[]).await;
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("does not take letters from"), "{}", ran.err);
    // The function's policy counts, unless another one is given.
    let (ran, sent) = replay(settings("active", &nowhere, REQUEUE), &[]).await;
    assert_eq!((ran.code, ran.out.contains("1 letter: noTarget"), sent), (3, true, 0), "{ran:?}");
    let policy = TextFile::of("stack-policy.json", "{}");
    let (ran, sent) = replay(settings("active", &nowhere, REQUEUE), &["--policy", policy.path()]).await;
    assert_eq!((ran.code, sent), (0, 1), "{ran:?}");
    // Without permission to ask the function, the tool says so and replays.
    let denied = (403, json!({ "Message": "no", "__type": "AccessDeniedException" }).to_string());
    let (ran, sent) = replay(denied, &[]).await;
    let said = "redrivectl: cannot check the function's mode and policy, so the replay goes on without them: reading";
    assert!(ran.err.starts_with(said), "{}", ran.err);
    assert_eq!((ran.code, sent), (0, 1));
}

#[tokio::test]
async fn what_aws_denies_of_the_stack_or_of_the_caller_has_the_code_of_what_is_denied() {
    let cloud = archive();
    cloud
        .script(|call| if call.operation == "GetCallerIdentity" { SimFault::Denied } else { SimFault::Pass });
    let run = async |denies_stack: bool, args: &[&str]| {
        let config = stand_in::before(&cloud, move |asked| {
            let error = "<Error><Type>Sender</Type><Code>AccessDenied</Code><Message>no</Message></Error>";
            let denied = (403, format!("<ErrorResponse>{error}</ErrorResponse>"));
            if denies_stack && asked.is_of("cloudformation") {
                Some(denied)
            } else {
                formation(asked, &OUTPUTS)
            }
        });
        let args = [args, &["--stack", "payments", "--json"]].concat();
        let ran =
            redrivectl_in(CommandWorld { config: Some(config), ..CommandWorld::default() }, &args).await;
        let error: Value = serde_json::from_str(&ran.out).unwrap();
        (ran.code, error["kind"].as_str().unwrap().to_owned(), error["error"].as_str().unwrap().to_owned())
    };
    let stack = "cannot read the stack payments: cloudformation:DescribeStacks failed (AccessDenied): no";
    let account = "asking AWS for the account (sts:GetCallerIdentity) failed: AccessDenied (action_required): User is not \
                   authorized to perform this action.";
    for (denies_stack, args, code, kind, why) in [
        (true, &["replay", "--all", "--dry-run"][..], 6, "denied", stack),
        (true, &["replay", "list"], 6, "denied", stack),
        (false, &["replay", "--all", "--yes"], 6, "denied", account),
        // The other commands do not distinguish this error.
        (true, &["waiting"], 1, "failed", stack),
    ] {
        assert_eq!(run(denies_stack, args).await, (code, kind.to_owned(), why.to_owned()), "{args:?}");
    }
}
