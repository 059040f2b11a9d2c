//! Tests of the plan: the units that hold a selection. A letter never changes its unit.

use super::*;

/// Letters that are archived in the hour being replayed are added to existing units or to new ones.
#[tokio::test(start_paused = true)]
async fn letters_that_come_late_go_and_those_that_were_sent_do_not_go_again() {
    let world = ArchiveWorld::new();
    let request = json!({ "ramp": [100] });
    let object = |minute: usize, letters: std::ops::Range<usize>| {
        let key = format!("{ARCHIVE}/queue=payments-dlq/date=2026-11-01/20261101T12{minute:02}00Z-r.jsonl");
        world.put(&key, &letters.map(|n| line(&plain(&n.to_string()))).collect::<String>(), NOW);
    };
    object(10, 0..400);
    object(20, 400..800);
    object(30, 800..1200);
    assert_eq!(world.run(request.clone()).await.unwrap().counts.sent, 1200);
    // The new objects are before, between and after the existing ones.
    object(5, 1200..1700);
    object(15, 1700..2500);
    object(40, 2500..2600);
    let done = world.run(request.clone()).await.unwrap();
    assert_eq!((done.counts.sent, done.counts.already_replayed), (1400, 1200));
    // A lifecycle rule, or the erasure of somebody's letters, deletes an object.
    world.remove(&format!("{ARCHIVE}/queue=payments-dlq/date=2026-11-01/20261101T122000Z-r.jsonl"));
    let done = world.run(request).await.unwrap();
    assert_eq!((done.counts.sent, done.counts.already_replayed), (0, 2200));
    assert_eq!(world.numbers(), numbers(0..2600));
}

/// A unit that is planned twice would be worked on twice, and its letters counted twice.
#[tokio::test(start_paused = true)]
async fn names_without_a_time_between_those_of_hours_belong_to_one_unit_of_the_day() {
    let world = ArchiveWorld::new();
    let names = ["100000Z-a", "1001-any", "100200Z-b", "1003-any", "110000Z-c", "1101-any", "110200Z-d"];
    for (letter, name) in names.into_iter().enumerate() {
        let key = format!("{ARCHIVE}/queue=payments-dlq/date=2026-10-31/20261031T{name}.jsonl");
        world.put(&key, &line(&plain(&letter.to_string())), NOW);
    }
    let done = world.run(json!({ "ramp": [100] })).await.unwrap();
    let counts = &done.counts;
    assert_eq!((done.units, counts.sent, counts.repeated, counts.already_replayed), (3, 7, 0, 0));
    assert_eq!(world.numbers(), numbers(0..7));
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_part_of_another_place_names_no_replay() {
    let world = ArchiveWorld::with_letters(1);
    let done = world.run(json!({ "ramp": [100] })).await.unwrap();
    let root = "dead-letters-control/replays";
    let (_, state) = world.objects(&format!("{root}/{}/replay.json", done.id)).remove(0);
    for id in ["a/b", "..", "a b", ""] {
        world.put(&format!("{root}/{id}/replay.json"), &state, NOW);
        let failed = world.resume(id).await.unwrap_err();
        assert!(matches!(failed, ReplayError::Unknown(_)), "{id}: {failed}");
    }
}

/// The list of selected letters must be complete, or the ramp would be calculated from a part of it.
#[tokio::test(start_paused = true)]
async fn a_listing_that_fails_aborts_and_nothing_is_sent() {
    for nth in 0..2 {
        let world = ArchiveWorld::with_letters(30);
        world.archive("b", &[plain("98")]);
        world.aws.act("operator", |services, _| services.s3.page = 1);
        let lists = AtomicUsize::new(0);
        world.faults(move |call| {
            let is_list = call.operation == "ListObjectsV2" && call.target.contains("queue=payments-dlq/");
            let fails = is_list && lists.fetch_add(1, Ordering::Relaxed) == nth;
            if fails { SimFault::Unavailable } else { SimFault::Pass }
        });
        let failed = world.run(json!({})).await.unwrap_err().to_string();
        assert!(
            failed.starts_with("listing dead-letters/queue=payments-dlq/ failed: ServiceUnavailable"),
            "{failed}"
        );
        assert_eq!(world.sent().len(), 0);
    }
}

/// In a long outage most letters are archived from the requeue.
#[tokio::test(start_paused = true)]
async fn a_queue_means_letters_of_that_dead_letter_queue_wherever_they_lay() {
    let world = ArchiveWorld::new();
    let mark = json!({ "v": 2, "spent": 3, "id": "b", "first": 7, "gen": 0, "passes": 1, "dlq": DLQ });
    let requeued = plain("out of the requeue").queue(REQUEUE).sqs_mark(&mark);
    world.archive("a", &[plain("out of the queue"), requeued.clone()]);
    let key = format!("{ARCHIVE}/queue=payments-billing/date=2026-11-01/20261101T120000Z-r.jsonl");
    world.put(&key, &line(&plain("another's").queue(BILLING)), NOW);
    for select in [
        json!({ "queue": "payments-dlq" }),
        json!({ "queue": DLQ }),
        json!({ "match": { "queueArn": [DLQ] } }),
    ] {
        let request = wish(json!({ "select": select, "dryRun": true }));
        let counted =
            world.replay().dry_run(&request, &ReplaySource::Archive, None, &TestObserver::default()).await;
        assert_eq!(counted.unwrap().counts.sent, 2, "{select}");
    }
    world.run(json!({ "select": { "queue": "payments-dlq" } })).await.unwrap();
    let bodies: BTreeSet<_> = world.bodies().into_iter().collect();
    assert_eq!(bodies, ["out of the queue", "out of the requeue"].map(str::to_owned).into());
}

/// Ten million letters are counted from the keys of their objects.
#[tokio::test(start_paused = true)]
async fn a_dry_run_reads_nothing_that_the_index_tells() {
    let world = ArchiveWorld::new();
    for object in 0..30 {
        let index = if object % 3 == 0 { "2-n50-r0.exhausted.none.50" } else { "2-n50-r0.refused.none.50" };
        let key = format!(
            "{ARCHIVE}/queue=payments-dlq/date=2026-11-01/20261101T12{object:02}00.000Z-r.{index}.jsonl"
        );
        world.put(&key, "what is in it is not read", NOW);
    }
    let request = wish(json!({ "select": { "reasons": ["exhausted"] }, "dryRun": true }));
    let counted = world
        .replay()
        .dry_run(&request, &ReplaySource::Archive, None, &TestObserver::default())
        .await
        .unwrap();
    assert_eq!((counted.status, counted.counts.sent, counted.exact), (ReplayStatus::DryRun, 500, true));
    assert_eq!(world.calls("PutObject").len(), 0);
    let read = world.calls("GetObject").iter().filter(|call| call.target.contains("date=")).count();
    assert_eq!((read, counted.at_most), (0, true), "nobody has checked these");
}

/// A policy names targets for some letters only, so that the number in the index is no promise.
#[tokio::test(start_paused = true)]
async fn a_dry_run_says_what_goes_then_or_that_it_did_not_check() {
    let policy = Policy::built_in();
    for (units, checks) in [(1, true), (51, false)] {
        let world = ArchiveWorld::new();
        for hour in 0..units {
            world.put_hour(hour, &line(&plain(&hour.to_string())));
        }
        let count = async |request: Value, policy: Option<&Policy>| {
            let request = wish(request);
            world
                .replay()
                .dry_run(&request, &ReplaySource::Archive, policy, &TestObserver::default())
                .await
                .unwrap()
        };
        let counted = count(json!({ "dryRun": true }), Some(&policy)).await;
        let letters = units as u64;
        let sends = if checks { 0 } else { letters };
        assert_eq!((counted.counts.sent, counted.at_most), (sends, !checks), "{:?}", counted.counts);
        let counted = count(json!({ "dryRun": true }), None).await;
        assert_eq!((counted.counts.sent, counted.at_most), (letters, true), "who does not know the policy");
        let counted = count(json!({ "dryRun": true, "to": WORKER }), None).await;
        assert_eq!((counted.counts.sent, counted.at_most), (letters, !checks), "the replay names the target");
        let request = wish(json!({ "ramp": [100] }));
        let done = world
            .replay()
            .run(&begins(&request), &ReplaySource::Archive, Some(&policy), &TestObserver::default())
            .await;
        let done = done.unwrap();
        assert_eq!((done.counts.sent, done.counts.not_replayable["noTarget"]), (0, letters));
        assert!(!done.at_most);
    }
}

/// Letters of a FIFO queue cannot go through a standard requeue, whatever the index says.
#[tokio::test(start_paused = true)]
async fn a_dry_run_checks_the_kind_of_the_requeue_however_many_letters_there_are() {
    for hours in [1, 60] {
        let world = ArchiveWorld::new();
        for hour in 0..hours {
            let (day, of_day) = (1 + hour / 24, hour % 24);
            let name = format!("202610{day:02}T{of_day:02}0000Z-a.2-n1-r0.jsonl");
            let key = format!("{ARCHIVE}/queue=payments-dlq.fifo/date=2026-10-{day:02}/{name}");
            world.put(&key, &line(&plain(&hour.to_string()).queue(FIFO_DLQ)), NOW);
        }
        let request = wish(json!({ "dryRun": true }));
        let counted = world
            .replay()
            .dry_run(&request, &ReplaySource::Archive, None, &TestObserver::default())
            .await
            .unwrap();
        assert_eq!(counted.counts.sent, 0);
        assert_eq!(counted.counts.not_replayable, [("otherKind".to_owned(), hours)].into());
    }
}

/// A function may run for fifteen minutes. In that time it must plan an archive of years, or a day with
/// millions of objects.
#[tokio::test(start_paused = true)]
async fn days_are_listed_side_by_side_and_the_hours_of_a_day_that_holds_much() {
    for (days, of_an_hour, page, at_most) in [(60, 1, 10, 16), (1, 120, 40, 4)] {
        let world = ArchiveWorld::new();
        for (day, hour) in (0..days).flat_map(|day| (0..24).map(move |hour| (day, hour))) {
            let (month, day) = (9 + day / 30, 1 + day % 30);
            for object in 0..of_an_hour {
                let name =
                    format!("2026{month:02}{day:02}T{hour:02}{:02}00.000Z-r{object}.2-n5-r0", object % 60);
                let key = format!("{ARCHIVE}/queue=payments-dlq/date=2026-{month:02}-{day:02}/{name}.jsonl");
                world.put(&key, "what is in it is not read", NOW);
            }
        }
        world.aws.act("operator", |services, _| services.s3.page = page);
        // One after the other these would be 60 times 24 cuts and as many lists of ledgers, or 97 pages.
        world.faults(|_| SimFault::Slow(Duration::from_millis(100), Box::new(SimFault::Pass)));
        let began = tokio::time::Instant::now();
        let request = wish(json!({ "dryRun": true }));
        let counted = world
            .replay()
            .dry_run(&request, &ReplaySource::Archive, None, &TestObserver::default())
            .await
            .unwrap();
        let took = began.elapsed().as_secs();
        assert_eq!(counted.counts.sent, days * 24 * of_an_hour * 5);
        assert!(took <= at_most, "{days} days with {of_an_hour} objects an hour took {took} s");
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_day_that_holds_much_only_the_hours_of_the_selection_are_listed() {
    let world = ArchiveWorld::new();
    for object in 0..4800 {
        let (hour, of_hour) = (object % 24, object / 24);
        let name = format!("20261031T{hour:02}0000.000Z-r{of_hour:03}.2-n5-r0");
        let key = format!("{ARCHIVE}/queue=payments-dlq/date=2026-10-31/{name}.jsonl");
        world.put(&key, "what is in it is not read", NOW);
    }
    let select = json!({ "from": "2026-10-31T11:00:00Z", "to": "2026-10-31T12:59:59Z" });
    let request = wish(json!({ "dryRun": true, "select": select }));
    let counted =
        world.replay().dry_run(&request, &ReplaySource::Archive, None, &TestObserver::default()).await;
    assert_eq!(counted.unwrap().letters, 2 * 200 * 5);
    let lists = world.calls("ListObjectsV2");
    let listed = lists.iter().filter(|call| call.target.contains("queue=payments-dlq")).count();
    assert!(listed < 12, "{listed} lists");
}

/// Objects that somebody else named belong to no hour, and are cut for their whole day.
#[tokio::test(start_paused = true)]
async fn a_day_that_holds_much_may_hold_names_without_a_time() {
    for stranger in ["0", "20261031T12", "20261031T1230-not-a-time", "zzz"] {
        let world = ArchiveWorld::new();
        for object in 0..1100 {
            let hour = object % 24;
            let key = format!(
                "{ARCHIVE}/queue=payments-dlq/date=2026-10-31/20261031T{hour:02}0000.000Z-{object}.2-n1-r0.jsonl"
            );
            world.put(&key, "what is in it is not read", NOW);
        }
        for of_stranger in 0..3 {
            let key = format!("{ARCHIVE}/queue=payments-dlq/date=2026-10-31/{stranger}-{of_stranger}.jsonl");
            world.put(&key, &line(&plain(&of_stranger.to_string())), NOW);
        }
        let request = wish(json!({ "dryRun": true }));
        let counted = world
            .replay()
            .dry_run(&request, &ReplaySource::Archive, None, &TestObserver::default())
            .await
            .unwrap();
        assert_eq!((counted.counts.sent, counted.units), (1103, 25), "{stranger}");
    }
}

/// A crash of the function archived a letter twice, in objects of two units.
#[tokio::test(start_paused = true)]
async fn a_letter_that_lies_in_two_units_of_an_hour_goes_once_for_ever() {
    let world = ArchiveWorld::new();
    let object = |minute: usize, letters: std::ops::Range<usize>| {
        let archived = NOW + i64::try_from(minute).unwrap() * 60_000;
        let key = format!("{ARCHIVE}/queue=payments-dlq/date=2026-11-01/20261101T12{minute:02}00Z-r.jsonl");
        let lines = letters.map(|n| record_at(&plain(&n.to_string()), archived).to_line().unwrap());
        world.put(&key, &lines.collect::<String>(), archived);
    };
    object(0, 0..900);
    object(10, 850..1700);
    object(20, 1690..1700);
    let done = world.run(json!({ "ramp": [3, 60, 100], "settleSeconds": 0 })).await.unwrap();
    assert_eq!((done.counts.sent, done.counts.doubles), (1700, 60));
    assert_eq!(world.numbers(), numbers(0..1700));
    // This also holds if only the second of the two is selected.
    for from in ["2026-11-01T12:10:00Z", "2026-11-01T12:20:00Z"] {
        let again = world.run(json!({ "select": { "from": from } })).await.unwrap();
        assert_eq!(again.counts.sent, 0, "{from}");
    }
    assert_eq!(world.sent().len(), 1700);
}

/// A dense hour has more letters than are remembered. If a crash of the function archives a letter twice, the
/// first is in the unit before, or not far from it.
#[tokio::test(start_paused = true)]
async fn of_a_dense_hour_the_nearest_letters_are_remembered() {
    // Forty letters are remembered each time. There are 37 in a unit, because they are large.
    let world = ArchiveWorld { workers: 250_000 / 40, ..ArchiveWorld::new() };
    let body = "x".repeat(100_000);
    let objects = |objects: std::ops::Range<usize>, first: Option<&str>| {
        for object in objects {
            let ids =
                (0..37).map(|n| first.filter(|_| n == 0).map_or(format!("{object}-{n}"), str::to_owned));
            let lines: String = ids.map(|id| line(&RecordBuilder::raw(&id, &body))).collect();
            world.put(&indexed(&format!("{object:02}"), 37), &lines, NOW);
        }
    };
    objects(0..4, None);
    objects(4..5, Some("twice"));
    let request = json!({ "ramp": [100], "rate": 100_000, "threshold": 100 });
    assert_eq!(world.run(request.clone()).await.unwrap().counts.sent, 5 * 37);
    objects(5..6, Some("twice"));
    let done = world.run(request).await.unwrap();
    assert_eq!((done.counts.sent, done.counts.doubles), (36, 1));
}

/// This also holds if one replay sent one of them, and another selects the other.
#[tokio::test(start_paused = true)]
async fn a_letter_that_lies_in_two_units_goes_once_whichever_of_them_is_selected_first() {
    for (first, then) in [("00", "10"), ("10", "00")] {
        let world = ArchiveWorld::new();
        for minute in [0, 10] {
            let archived = NOW + minute * 60_000;
            let key =
                format!("{ARCHIVE}/queue=payments-dlq/date=2026-11-01/20261101T12{minute:02}00Z-r.jsonl");
            let ids = (0..1500).map(|n| if n == 0 { 0 } else { n + minute * 1000 });
            let lines = ids.map(|n| record_at(&plain(&n.to_string()), archived).to_line().unwrap());
            world.put(&key, &lines.collect::<String>(), archived);
        }
        let of_minute = |minute: &str| {
            let from = format!("2026-11-01T12:{minute}:00Z");
            let to = format!("2026-11-01T12:{minute}:59Z");
            json!({ "ramp": [100], "select": { "from": from, "to": to } })
        };
        assert_eq!(world.run(of_minute(first)).await.unwrap().counts.sent, 1500);
        let done = world.run(of_minute(then)).await.unwrap();
        assert_eq!((done.counts.sent, done.counts.doubles), (1499, 1), "{first} first");
        // A replay of both with `again` sends each once.
        let again = world.run(json!({ "ramp": [100], "again": true })).await.unwrap();
        assert_eq!((again.counts.sent, again.counts.doubles), (2999, 1));
    }
}

/// Otherwise all letters before the first selection would fall into one unit, which is held in memory.
#[tokio::test(start_paused = true)]
async fn a_unit_stays_bounded_whatever_part_of_its_hour_is_selected_first() {
    let world = ArchiveWorld::new();
    for minute in 0..30 {
        let key = format!(
            "{ARCHIVE}/queue=payments-dlq/date=2026-11-01/20261101T12{minute:02}00.000Z-r.2-n100-r0.jsonl"
        );
        let lines = (0..100).map(|n| {
            let archived = NOW + minute * 60_000;
            record_at(&plain(&(minute * 100 + n).to_string()), archived).to_line().unwrap()
        });
        world.put(&key, &lines.collect::<String>(), NOW + minute * 60_000);
    }
    let late = json!({ "ramp": [100], "select": { "from": "2026-11-01T12:25:00Z" } });
    assert_eq!(world.run(late).await.unwrap().counts.sent, 500);
    let all = world.run(json!({ "ramp": [100] })).await.unwrap();
    assert_eq!((all.units, all.counts.sent, all.counts.already_replayed), (3, 2500, 500));
}

/// An archive of years has tens of thousands of hours, each with its own cut.
#[tokio::test(start_paused = true)]
async fn the_cuts_of_many_hours_are_read_and_written_several_at_once() {
    let world = ArchiveWorld::new();
    for hour in 0..240 {
        let (day, hour) = (1 + hour / 24, hour % 24);
        let key = format!(
            "{ARCHIVE}/queue=payments-dlq/date=2026-10-{day:02}/202610{day:02}T{hour:02}0000Z-a.2-n1-r0.jsonl"
        );
        world.put(&key, &line(&plain(&format!("{day}-{hour}"))), NOW);
    }
    world.faults(|_| SimFault::Pass.after(Duration::from_millis(10)));
    for expected in [240, 0] {
        let began = tokio::time::Instant::now();
        let begin = redrive_replay::EventRequest::Begin(Box::new(wish(json!({ "ramp": [100] }))));
        let turn = world.replay().first_turn(&begin, 5, None, &TestObserver::default()).await.unwrap();
        assert_eq!(turn.replay.units, 240);
        // One after the other they would take 2.4 s to read, and as long to write.
        assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
        let written =
            world.calls("PutObject").iter().filter(|call| call.summary().contains("cuts.json")).count();
        assert_eq!(written, 240, "{expected} more");
    }
}
