//! `hold`, `retry` and `give-up`: an override is previewed, confirmed and written.

use redrive_core::endpoint::TargetName;
use redrive_support::{CALLER, DLQ, SimFault, TOPIC, TestAccount};
use serde_json::{Value, json};

use super::{ids, interrupted_at, override_, overrides, put_overrides, retry_topic, run, run_in, shown};
use crate::waiting::{letter, lines, list};
use crate::{CommandWorld, redrivectl_in};

#[tokio::test]
async fn a_hold_is_written_with_its_reason_and_the_callers_name() {
    let cloud = TestAccount::new();
    let told =
        run(&cloud, &["hold", "--topic", TOPIC, "--for", "2h", "--why", "the database is down", "--yes"])
            .await;
    let text = told.text();
    let written = overrides(&cloud);
    let id = written[0]["id"].as_str().unwrap();
    assert!(id.starts_with("20261101T120000Z-"), "{id}");
    assert_eq!(
        written,
        [json!({
            "id": id, "do": "hold", "match": { "topicArn": [TOPIC] }, "at": "2026-11-01T12:00:00Z",
            "until": "2026-11-01T14:00:00Z", "by": CALLER, "why": "the database is down",
        })]
    );
    assert_eq!(cloud.calls("PutObject")[0].parameters["if-none-match"], "*");
    assert!(text.contains(&format!("  by           {CALLER} (confirmed by AWS)\n")), "{text}");
    assert!(text.contains("  in force     until 2026-11-01 14:00:00 UTC, 2 h\n"), "{text}");
    let command =
        format!("redrivectl overrides release {id} --control s3://my-bucket/dead-letters-control\n");
    assert!(text.ends_with(&command), "{text}");

    let told = run(&cloud, &["hold", "--all", "--by", "bob", "--why", "b", "--yes", "--json"]).await.json();
    let written = overrides(&cloud);
    assert_eq!(written.len(), 2);
    assert_eq!(written[0], told["override"], "the newest override wins");
    assert_eq!(
        (&written[0]["by"], &told["byChecked"], &written[0]["until"]),
        (&json!("bob"), &json!(false), &Value::Null)
    );
    assert_eq!(written[0]["match"], json!({ "queueArn": [{ "exists": true }] }));
}

#[tokio::test]
async fn the_default_place_follows_from_the_archive() {
    let cloud = TestAccount::new();
    let args = ["hold", "--all", "--why", "w", "--yes", "--archive", "s3://my-bucket/dead-letters"];
    redrivectl_in(CommandWorld::on(&cloud), &args).await.text();
    assert_eq!(ids(&cloud).len(), 1);
    for (args, problem) in [
        (&["overrides"][..], "which stack? Give --stack NAME (or REDRIVE_STACK), or --control (or CONTROL)"),
        (&["overrides", "--archive", "s3://my-bucket"], "the archive has no prefix"),
        (&["overrides", "--archive", DLQ], "--archive (or ARCHIVE) must be s3://bucket/prefix"),
        (&["overrides", "--control", "off"], "CONTROL is off"),
        (&["overrides", "--control", "my-bucket"], "--control (or CONTROL) must be s3://bucket/prefix"),
    ] {
        let told = redrivectl_in(CommandWorld::on(&cloud), args).await;
        assert_eq!((told.code, told.out.as_str()), (2, ""));
        assert!(told.err.starts_with(&format!("redrivectl: {problem}")), "{}", told.err);
    }
}

#[tokio::test]
async fn nothing_is_written_without_a_yes() {
    let cloud = TestAccount::new();
    let args = ["hold", "--all", "--why", "w"];
    let told = run(&cloud, &args).await;
    assert_eq!(told.code, 2);
    assert!(
        told.err.ends_with(
            "redrivectl: there is no terminal for a question: give --yes to continue without one\n"
        ),
        "{}",
        told.err
    );
    for (answer, code) in [("n\n", 2), ("\n", 2), ("", 2), ("yes please\n", 2), ("Y\n", 0), ("yes", 0)] {
        let world = CommandWorld { answers: true, input: answer.into(), ..CommandWorld::on(&cloud) };
        let told = run_in(world, &args).await;
        assert_eq!(told.code, code, "{answer:?}");
        assert!(told.err.starts_with("Give this override to hold? [y/N] "), "{}", told.err);
        assert_eq!(cloud.calls("PutObject").len(), usize::from(code == 0), "{answer:?}");
        cloud.forget();
    }
    let told = run(&cloud, &[&args[..], &["--dry-run"]].concat()).await.text();
    assert!(told.ends_with("\nDry run: nothing was written.\n"), "{told}");
    assert_eq!(cloud.calls("PutObject").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn whoever_interrupts_before_it_is_written_has_nothing_written() {
    let cloud = TestAccount::new();
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&[letter("a", &json!({}))]));
    put_overrides(&cloud, &[override_("h1", "hold", None)]);
    cloud.forget();
    let retry = retry_topic();
    for args in
        [&retry[..], &["hold", "--all", "--why", "w", "--yes"], &["overrides", "release", "h1", "--yes"]]
    {
        let told = run_in(interrupted_at(&cloud, "list-type=2"), args).await;
        assert_eq!(told.code, 4, "{args:?}: {told:?}");
        assert!(told.err.ends_with("redrivectl: interrupted; nothing was written\n"), "{told:?}");
        assert_eq!(cloud.calls("PutObject").len(), 0, "{args:?}");
        assert!(!cloud.calls("ListObjectsV2").is_empty(), "{args:?}: it was interrupted late");
        cloud.forget();
    }
}

#[tokio::test]
async fn bad_overrides_are_bad_input_and_name_the_option() {
    let cloud = TestAccount::new();
    for (args, problem) in [
        (
            &["hold", "--why", "w"][..],
            "no letters are selected: give --match, --topic, --subscription, --queue, --target or --all",
        ),
        (&["hold", "--match", "{", "--why", "w"], "--match is not JSON"),
        (&["hold", "--match", "[]", "--why", "w"], "--match must be a JSON object"),
        (&["hold", "--match", r#"{"topic": ["x"]}"#, "--why", "w"], "--match has no field \"topic\""),
        (
            &["hold", "--match", r#"{"topicArn": ["payments"]}"#, "--why", "w"],
            "--match topicArn: is the ARN of a topic, so \"payments\" can match nothing: write {\"suffix\": \":payments\"} for a name",
        ),
        (
            &["hold", "--match", r#"{"topicArn": {"suffix": [":payments"]}}"#, "--why", "w"],
            "--match topicArn: holds suffix where a list belongs",
        ),
        (
            &["hold", "--match", r#"{"message": {"id": [12345678901234567890123]}}"#, "--why", "w"],
            "--match holds a number that would be rounded",
        ),
        (
            &["hold", "--topic", "a", "--match", r#"{"topicArn": ["x"]}"#, "--why", "w"],
            "--topic and --match both give topicArn",
        ),
        (
            &["hold", "--topic", "arn:aws:sqs:eu-central-1:123456789012:payments", "--why", "w"],
            "--match topicArn: is the ARN of a topic",
        ),
        (
            &["hold", "--topic", "arn:aws:sns:eu-central-1:12345:payments", "--why", "w"],
            "--topic must be an ARN with an account of 12 digits",
        ),
        (&["hold", "--topic", "sns:payments", "--why", "w"], "--match topicArn: is the ARN of a topic"),
        (&["hold", "--queue", TOPIC, "--why", "w"], "--match queueArn: is the ARN of a queue"),
        (
            &["hold", "--subscription", TOPIC, "--why", "w"],
            "--match subscriptionArn: is the ARN of a subscription",
        ),
        (&["hold", "--topic", "or ders", "--why", "w"], "--topic must be an ARN with"),
        (&["hold", "--queue", "*", "--why", "w"], "--queue must be an ARN with"),
        (&["hold", "--all", "--why", ""], "--why must be a text of 1 to 1000 characters"),
        (&["give-up", "--all", "--why", "w", "--future"], "limit it with --for or --until"),
        (&["hold", "--all"], "--why <TEXT>"),
        (&["hold", "--all", "--topic", "x", "--why", "w"], "cannot be used with"),
        (&["overrides", "release"], "required"),
    ] {
        let told = run(&cloud, &[args, &["--yes"]].concat()).await;
        assert_eq!((told.code, told.out.as_str()), (2, ""), "{args:?}");
        assert!(told.err.contains(problem), "{args:?}: {}", told.err);
    }
    assert_eq!(cloud.journal().len(), 0, "nothing was called");
    let told =
        run(&cloud, &["hold", "--all", "--why", "w", "--yes", "--until", "2026-11-01T11:00:00Z"]).await;
    assert_eq!((told.code, told.out.as_str()), (2, ""));
    assert_eq!(told.err, "redrivectl: --until must be in the future\n");
    assert_eq!(cloud.calls("PutObject").len(), 0);
}

#[tokio::test]
async fn the_times_of_an_override_are_those_of_s3() {
    let minutes = |minutes: i64| minutes * 60_000;
    for (later, says) in [
        (
            minutes(5),
            "redrivectl: this machine's clock is 5 min ahead of the clock of S3; times below are those of S3\n",
        ),
        (
            -minutes(5),
            "redrivectl: this machine's clock is 5 min behind the clock of S3; times below are those of S3\n",
        ),
        (30_000, ""),
    ] {
        for there in [&[][..], &[override_("old", "hold", None)]] {
            let cloud = TestAccount::new();
            if !there.is_empty() {
                put_overrides(&cloud, there);
            }
            let ahead = || CommandWorld { later, ..CommandWorld::on(&cloud) };
            let hold = ["hold", "--all", "--why", "w", "--yes", "--for", "2h"];
            let told = run_in(ahead(), &hold).await;
            assert_eq!((told.code, told.err.as_str()), (0, says));
            let seconds = |field: &str| {
                let time: jiff::Timestamp = overrides(&cloud)[0][field].as_str().unwrap().parse().unwrap();
                time.as_second() - redrive_support::NOW / 1000
            };
            assert_eq!((seconds("at"), seconds("until")), (0, 7200), "{later}");
            // By S3's clock, which counts, the override has not ended.
            let hold = ["hold", "--all", "--why", "w", "--yes", "--until", "2026-11-01T12:03:00Z"];
            assert_eq!(run_in(ahead(), &hold).await.code, 0);
            let archive = ["give-up", "--all", "--why", "w", "--dry-run", "--json"];
            let told: Value = serde_json::from_str(&run_in(ahead(), &archive).await.out).unwrap();
            let before = told["override"]["arrivedBefore"].as_str().unwrap().to_owned();
            assert!(["2026-11-01T12:00:00Z", "2026-11-01T12:00:01Z"].contains(&before.as_str()), "{before}");
            let told = run_in(ahead(), &["overrides", "release", "--all", "--yes", "--dry-run"]).await;
            assert_eq!((told.code, told.err.as_str()), (0, says));
        }
    }
}

#[tokio::test]
async fn an_answer_without_a_date_leaves_the_machines_clock() {
    let cloud = TestAccount::new();
    cloud.reply("GetObject", SimFault::refuse(404, "NoSuchKey", "none"));
    let ahead = CommandWorld { later: 300_000, ..CommandWorld::on(&cloud) };
    run_in(ahead, &["hold", "--all", "--why", "w", "--yes"]).await.text();
    assert_eq!(overrides(&cloud)[0]["at"], "2026-11-01T12:05:00Z");
}

#[tokio::test]
async fn the_preview_counts_what_waits_and_says_what_the_list_does_not_tell() {
    let cloud = TestAccount::new();
    let other = |id: &str| json!({ "topicArn": format!("{TOPIC}-other"), "messageId": id });
    let letters = [
        letter("a", &json!({})),
        letter("b", &json!({})),
        letter("other", &other("other")),
        letter("came-back", &json!({ "due": "2026-11-01T11:59:59Z" })),
    ];
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&letters));
    // A second line of one letter, a line that cannot be read, and an hour before the last twelve.
    list(&cloud, "2026-11-01T11:30:00Z", &format!("{}not a line\n", lines(&[letter("a", &json!({}))])));
    list(&cloud, "2026-10-31T23:10:00Z", &lines(&[letter("old", &json!({}))]));

    let told = run(&cloud, &["retry", "--topic", TOPIC, "--why", "w", "--dry-run"]).await;
    assert_eq!(told.code, 1, "a part of the list could not be read");
    assert!(
        told.out.contains("  affects      at most 2 letters on the list of waiting letters\n"),
        "{}",
        told.out
    );
    assert!(told.out.contains("  not read     1 part of the list\n"), "{}", told.out);
    assert!(!told.out.contains("may affect") && !told.out.contains("wins over"), "{}", told.out);
    put_overrides(&cloud, &[override_("one", "hold", None), override_("over", "retry", None)]);

    let pattern = r#"{"topicArn": [{"suffix": ":payments"}], "message": {"tenant": ["gold"]}}"#;
    let told = run(&cloud, &["retry", "--match", pattern, "--why", "w", "--dry-run"]).await;
    assert!(told.out.contains("  affects      at most 0 letters"), "{}", told.out);
    assert!(told.out.contains("  wins over    1 override in force\n"), "{}", told.out);
    assert!(
        told.out.contains("  may affect   2 letters more: the list does not have message\n"),
        "{}",
        told.out
    );
    assert_eq!(cloud.calls("PutObject").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_archive_override_is_about_letters_that_are_there_unless_it_says_otherwise() {
    let cloud = TestAccount::new();
    let letters = [letter("a", &json!({})), letter("new", &json!({ "since": "2026-11-01T12:00:00Z" }))];
    list(&cloud, "2026-11-01T12:00:00Z", &lines(&letters));
    let args = ["give-up", "--topic", "payments", "--why", "poison", "--yes"];
    run(&cloud, &args).await.text();
    let written = &overrides(&cloud)[0];
    assert_eq!(written["do"], "give-up");
    assert_eq!(written["match"], json!({ "topicArn": [{ "suffix": ":payments" }] }));
    assert_eq!(written["arrivedBefore"], "2026-11-01T12:00:00Z");
    assert_eq!(written["until"], "2026-11-02T00:00:00Z");
    assert_eq!(shown(&cloud), ["handle-S3CR3T-a"]);

    let later = CommandWorld { later: 300, ..CommandWorld::on(&cloud) };
    run_in(later, &args).await.text();
    let written = &overrides(&cloud)[0];
    assert_eq!([&written["at"], &written["arrivedBefore"]], ["2026-11-01T12:00:00Z", "2026-11-01T12:00:01Z"]);

    run(&cloud, &[&args[..], &["--future", "--for", "30m"]].concat()).await.text();
    let written = &overrides(&cloud)[0];
    assert_eq!(
        (&written["arrivedBefore"], &written["until"]),
        (&Value::Null, &json!("2026-11-01T12:30:00Z"))
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_confirmed_is_what_is_overridden() {
    let cloud = TestAccount::new();
    let letters = [letter("a", &json!({})), letter("new", &json!({ "since": "2026-11-01T12:03:00Z" }))];
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&letters));
    let thinking =
        || CommandWorld { answers: true, input: "y".into(), thinks: 300_000, ..CommandWorld::on(&cloud) };
    let args = ["give-up", "--topic", "payments", "--why", "poison"];
    let told = run_in(thinking(), &args).await;
    assert!(told.out.contains("  arrived      before 2026-11-01 12:00:00 UTC\n"), "{}", told.out);
    assert!(told.out.contains("  affects      at most 1 letter on the list"), "{}", told.out);
    let written = &overrides(&cloud)[0];
    // The override matches the letters of the preview, but its time in force begins when it is written.
    assert_eq!(
        [&written["arrivedBefore"], &written["at"], &written["until"]],
        ["2026-11-01T12:00:00Z", "2026-11-01T12:05:00Z", "2026-11-02T00:05:00Z"]
    );
    assert_eq!(shown(&cloud), ["handle-S3CR3T-a"]);

    let args = ["retry", "--all", "--why", "w", "--arrived-after", "1h", "--arrived-before", "30m"];
    run_in(thinking(), &args).await;
    let written = &overrides(&cloud)[0];
    assert_eq!(
        [&written["arrivedAfter"], &written["arrivedBefore"]],
        ["2026-11-01T11:00:00Z", "2026-11-01T11:30:00Z"]
    );

    // The override's end has come meanwhile.
    cloud.forget();
    let args = ["retry", "--all", "--why", "w", "--until", "2026-11-01T12:04:00Z"];
    let told = run_in(thinking(), &args).await;
    assert_eq!((told.code, cloud.calls("PutObject").len()), (2, 0));
    assert!(told.err.ends_with("redrivectl: --until must be in the future\n"), "{}", told.err);
}

#[tokio::test]
async fn what_an_override_selects_is_told_in_words_where_it_has_names() {
    let cloud = TestAccount::new();
    let which = async |args: &[&str]| {
        let told = run(&cloud, &[&["hold", "--why", "w", "--dry-run"], args].concat()).await.text();
        told.lines().find_map(|line| line.strip_prefix("  which        ").map(str::to_owned))
    };
    assert_eq!(which(&["--all"]).await.as_deref(), Some("every letter"));
    let both = format!("queue payments-dlq, topic {TOPIC}");
    assert_eq!(which(&["--topic", TOPIC, "--queue", "payments-dlq"]).await, Some(both));
    let hook = TargetName::read("https://hooks.example/secret");
    let target = which(&["--target", "https://hooks.example/secret"]).await;
    assert_eq!(target, Some(format!("target {hook}")), "the path can be a secret");
    assert_eq!(which(&["--target", hook.as_str()]).await, target);
    assert_eq!(which(&["--target", "payments-worker"]).await.as_deref(), Some("target payments-worker"));
    let pattern = r#"{"topicArn": [{"suffix": ":payments"}], "retry": [1]}"#;
    assert_eq!(which(&["--match", pattern]).await, None, "the pattern alone says it");
}

/// An override for a misspelt topic would be valid, and do nothing.
#[tokio::test(start_paused = true)]
async fn what_nobody_knows_is_told_and_becomes_an_override_only_with_a_second_word() {
    let queue = "arn:aws:sqs:eu-central-1:123456789012:ordres-dlq";
    let elsewhere = "arn:aws:sns:eu-central-1:210987654321:payments";
    let subscription = format!("{TOPIC}:00000000-0000-4000-8000-000000000000");
    for (option, text, what) in [
        ("--topic", "ordres", "topic"),
        ("--topic", elsewhere, "topic"),
        ("--queue", "ordres-dlq", "queue"),
        ("--queue", queue, "queue"),
        ("--subscription", &*subscription, "subscription"),
        ("--target", queue, "target"),
    ] {
        let cloud = TestAccount::new();
        let args = ["hold", option, text, "--why", "w"];
        let told = format!("the {what} {text}");
        let row =
            format!("  unknown      {told}: neither SNS, SQS nor the list of waiting letters knows it\n");
        let ran = run(&cloud, &[&args[..], &["--yes"]].concat()).await;
        let refused = format!(
            "redrivectl: neither SNS, SQS nor the list of waiting letters knows {told}: correct the name, or give --anyway\n"
        );
        assert_eq!((ran.code, ran.err.as_str()), (2, refused.as_str()));
        assert!(ran.out.contains(&row), "{}", ran.out);
        assert_eq!(cloud.calls("PutObject").len(), 0);
        let dry = run(&cloud, &[&args[..], &["--dry-run", "--json"]].concat()).await.json();
        assert_eq!(dry["unknown"], json!([told]));
        // A yes to the question confirms the unknown name. Where no question is asked, `--anyway` does.
        let world = CommandWorld { answers: true, input: "y\n".into(), ..CommandWorld::on(&cloud) };
        let ran = run_in(world, &args).await;
        assert!(ran.code == 0 && ran.out.contains(&row), "{ran:?}");
        cloud.forget();
        run(&cloud, &[&args[..], &["--yes", "--anyway"]].concat()).await.text();
        let asked = ["GetTopicAttributes", "GetSubscriptionAttributes", "GetQueueAttributes"];
        assert!(asked.iter().all(|call| cloud.calls(call).is_empty()));
        assert_eq!(overrides(&cloud).len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn what_sns_or_sqs_or_the_list_knows_needs_no_second_word() {
    for (option, text) in [
        ("--topic", TOPIC),
        ("--topic", "payments"),
        ("--queue", DLQ),
        ("--queue", "payments-dlq"),
        ("--subscription", redrive_support::SUBSCRIPTION),
        ("--target", redrive_support::WORKER),
    ] {
        let cloud = TestAccount::new();
        let text = run(&cloud, &["hold", option, text, "--why", "w", "--yes"]).await.text();
        assert!(!text.contains("unknown") && !text.contains("not checked"), "{text}");
    }
    // Letters of a topic in another account wait.
    let cloud = TestAccount::new();
    let elsewhere = "arn:aws:sns:eu-central-1:210987654321:payments";
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&[letter("a", &json!({ "topicArn": elsewhere }))]));
    cloud.forget();
    let text = run(&cloud, &["hold", "--topic", elsewhere, "--why", "w", "--yes"]).await.text();
    assert!(!text.contains("unknown") && cloud.calls("GetTopicAttributes").is_empty(), "{text}");
}

/// Nobody can be asked about a function or a web server.
#[tokio::test]
async fn a_target_to_which_no_letter_on_the_list_goes_is_told() {
    let cloud = TestAccount::new();
    let hook = TargetName::read("https://hooks.example/secret");
    let hold = async |target: &str| run(&cloud, &["hold", "--target", target, "--why", "w", "--yes"]).await;
    for target in ["payments-notifier", redrive_support::NOTIFIER, hook.as_str()] {
        let text = hold(target).await.text();
        let row = format!(
            "  not checked  whether there is the target {target}: no letter on the list of waiting letters goes there\n"
        );
        assert!(text.contains(&row), "{text}");
    }
    let stream = "arn:aws:firehose:eu-central-1:123456789012:deliverystream/payments-audit";
    let of_stream = letter("b", &json!({ "target": stream }));
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&[letter("a", &json!({ "target": hook })), of_stream]));
    let text = hold("payments-audit").await.text();
    assert!(text.contains("target payments-audit\n") && text.contains("at most 1 letter"), "{text}");
    let text = hold("https://hooks.example/secret").await.text();
    assert!(!text.contains("not checked") && text.contains("at most 1 letter"), "{text}");
    assert_eq!(overrides(&cloud)[0]["match"], json!({ "target": [hook] }));
    for target in ["", "two words", "payments:worker"] {
        let ran = hold(target).await;
        let told = "redrivectl: --target must be an ARN, a URL, a URL's name as in logs, or the name of";
        assert!(ran.code == 2 && ran.err.starts_with(told), "{ran:?}");
    }
}

/// An operator who may not ask SNS and SQS must still be able to hold letters in an outage.
#[tokio::test]
async fn what_nobody_may_ask_about_is_told_and_stops_no_override() {
    let cloud = TestAccount::new();
    cloud.reply("GetTopicAttributes", SimFault::refuse(403, "AuthorizationError", "no"));
    let text = run(&cloud, &["hold", "--topic", "ordres", "--why", "w", "--yes"]).await.text();
    let row = "  not checked  whether there is the topic ordres: sns:GetTopicAttributes failed: AuthorizationError: no\n";
    assert!(text.contains(row), "{text}");
    assert_eq!(overrides(&cloud).len(), 1);
}

#[tokio::test]
async fn who_the_caller_is_must_be_known() {
    let cloud = TestAccount::new();
    cloud.reply("GetCallerIdentity", SimFault::ConnectTimeout);
    let told = run(&cloud, &["hold", "--all", "--why", "w", "--yes"]).await;
    assert_eq!((told.code, told.out.as_str()), (1, ""));
    assert_eq!(
        told.err,
        "redrivectl: cannot ask AWS who you are (sts:GetCallerIdentity failed: Timeout); give --by NAME\n"
    );
    run(&cloud, &["hold", "--all", "--why", "w", "--yes", "--by", "ada"]).await.text();
}

#[tokio::test]
async fn a_command_that_is_named_finds_the_same_by_the_same_options() {
    let cloud = TestAccount::new();
    let args =
        ["hold", "--all", "--why", "down", "--yes", "--profile", "the ops", "--region", "eu-central-1"];
    let told = run(&cloud, &args).await.text();
    let hint = told.rsplit_once("To end the hold and wake its letters: ").unwrap().1;
    assert!(hint.ends_with(" --profile 'the ops' --region eu-central-1\n"), "{hint}");
    // A shell reads the hint.
    let shell = std::process::Command::new("sh").args(["-c", &format!("printf '%s\\n' {hint}")]).output();
    let shell = String::from_utf8(shell.unwrap().stdout).unwrap();
    let words: Vec<_> = shell.lines().skip(1).chain(["--yes"]).collect();
    redrivectl_in(CommandWorld::on(&cloud), &words).await.text();
    assert_eq!(ids(&cloud), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_for_a_script_says_what_is_woken() {
    let cloud = TestAccount::new();
    list(&cloud, "2026-11-01T11:00:00Z", &lines(&[letter("a", &json!({})), letter("b", &json!({}))]));
    let dry = ["--all", "--why", "w", "--dry-run", "--json"];
    let told = async |args: &[&str]| run(&cloud, &[args, &dry].concat()).await.json();
    let wakes = json!({ "letters": 2, "rate": 1, "beginsAfterSeconds": 20, "takesSeconds": 22 });
    let short = told(&["retry", "--rate", "1", "--for", "21s"]).await;
    assert_eq!((&short["wakes"], &short["tooShort"]), (&wakes, &json!(true)), "{short}");
    let long = told(&["give-up", "--rate", "1", "--for", "22s"]).await;
    assert_eq!((&long["wakes"], &long["tooShort"]), (&wakes, &json!(false)), "{long}");
    let hold = told(&["hold", "--for", "1s"]).await;
    assert_eq!((hold.get("wakes"), hold.get("tooShort")), (None, None), "{hold}");
}

/// A good name, an operator or an alternative must not hide a typing error.
#[tokio::test]
async fn a_typing_error_is_told_wherever_it_stands_in_a_pattern() {
    for pattern in [
        json!({ "topicArn": [{ "exactly": "arn:aws:sns:eu-central-1:123456789012:ordres" }] }),
        json!({ "topicArn": [TOPIC, "arn:aws:sns:eu-central-1:123456789012:ordres"] }),
        json!({ "$or": [{ "topicArn": [{ "suffix": ":ordres" }] }, { "topicArn": [TOPIC] }] }),
    ] {
        for is_listed in [false, true] {
            let cloud = TestAccount::new();
            if is_listed {
                let waits = letter("a", &json!({ "topicArn": TOPIC }));
                list(&cloud, "2026-11-01T11:00:00Z", &lines(&[waits]));
            }
            let ran = run(&cloud, &["hold", "--match", &pattern.to_string(), "--why", "w", "--yes"]).await;
            assert_eq!((ran.code, cloud.calls("PutObject").len()), (2, 0), "{pattern}: {ran:?}");
            assert!(ran.err.contains("ordres: correct the name, or give --anyway"), "{ran:?}");
        }
    }
}
