//! The endpoints of the page *now*: what their letters say of them, and the verdict on all.

use redrive_archive::ArchiveRecord;
use redrive_console::read::{
    Alarm, BoundedCount, ChartSpan, FailingTarget, PresentState, PresentVerdict, TargetState, VerdictLevel,
};
use redrive_core::policy::ArchiveReason::{Exhausted, Expiring, GivenUp, Permanent};
use redrive_core::waiting::{overrides_key, recoveries_key};
use redrive_support::{NOW, RecordBuilder, SimFault, TestAccount, WORKER, at};
use serde_json::json;

use super::{BUCKET, CONTROL, MINUTE, SampleOutcome, archive, end, line, list, page, rows, shown};

/// Returns the name, the state and the words of each endpoint, and the page's text.
async fn targets(cloud: &TestAccount) -> (Vec<[String; 3]>, String) {
    let (_, parsed, text) = page(&shown(cloud), "now").await;
    let cells = |row: &Vec<String>| [0, 1, 2].map(|place| row[place].clone());
    let found = ["1 target", "2 targets"].iter().flat_map(|caption| rows(&parsed, caption));
    (found.map(|row| cells(&row)).collect(), text)
}

/// Writes the ledger of a replay that has sent these records.
fn replayed(cloud: &TestAccount, records: &[ArchiveRecord]) {
    let sent: Vec<_> = records.iter().map(ArchiveRecord::identity).collect();
    let ledger = json!({ "version": 1, "entries": [{ "replay": "one", "sent": sent }] });
    let folder = format!("{BUCKET}/{CONTROL}/replays/queues/queue=payments-dlq/hour=20261101T11");
    cloud.put(&format!("{folder}/000000.json"), &ledger.to_string());
}

/// Neither the number of all nor that of the endpoint counts letters that a replay has sent.
#[tokio::test(start_paused = true)]
async fn letters_that_were_replayed_need_nobody() {
    let cloud = TestAccount::new();
    let failed = |id| SampleOutcome { error: Some("Http503"), target: Some(WORKER), ..end(id, Exhausted) };
    archive(&cloud, 20, &[failed("a"), failed("b")]).await;
    let stored = cloud.objects();
    let lines = stored.values().flat_map(|object| object.lines());
    let records: Vec<ArchiveRecord> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let first = "2 letters of payments-worker need you: it answers 503.";
    let (found, text) = targets(&cloud).await;
    assert!(text.contains(first) && found[0][1] == "archived 20 min ago", "{found:?} {text}");
    // The first is the oldest, and nobody has to do anything about it any more.
    replayed(&cloud, &records[..1]);
    let (found, text) = targets(&cloud).await;
    assert!(
        text.contains("1 letter of payments-worker needs you: ") && found[0][1] == "archived 20 min ago",
        "{found:?} {text}"
    );
    // What mends it is said of a letter that still needs somebody.
    for (id, is_said) in [("a", false), ("b", true)] {
        let (_, _, text) = page(&shown(&cloud), &format!("letter?id={id}")).await;
        assert_eq!(text.contains("What mends it"), is_said, "{text}");
    }
    replayed(&cloud, &records);
    let (found, text) = targets(&cloud).await;
    assert!(text.contains("need you 0") && !text.contains("of payments-worker need"), "{text}");
    assert!(found.iter().all(|row| row[1] == "fine"), "{found:?}");
}

/// S3 deletes an archived letter at the midnight after its days.
#[tokio::test(start_paused = true)]
async fn it_says_until_when_the_archive_keeps_the_letters_that_need_somebody() {
    let cloud = TestAccount::new();
    archive(&cloud, 20, &[end("a", Exhausted)]).await;
    let said = "archived in this time, not replayed; kept until";
    let (_, text) = targets(&cloud).await;
    assert!(text.contains(&format!("{said} somebody deletes them")), "{text}");
    cloud.expire(BUCKET, "", 90);
    let (_, text) = targets(&cloud).await;
    assert!(text.contains(&format!("{said} 2027-01-31")) && !text.contains("S3 deletes"), "{text}");
    cloud.expire(BUCKET, "dead-letters/", 2);
    let (_, text) = targets(&cloud).await;
    assert!(text.contains(&format!("{said} 2026-11-04")), "{text}");
    assert!(text.contains("1 letter needs you. S3 deletes the first in 2 d."), "{text}");
    // Letters that an operator gave up need nobody, whenever S3 deletes them.
    let cloud = TestAccount::new();
    cloud.expire(BUCKET, "", 2);
    archive(&cloud, 20, &[end("a", GivenUp)]).await;
    let (_, text) = targets(&cloud).await;
    assert!(text.contains("not replayed; kept for 2 days") && !text.contains("S3 deletes"), "{text}");
    cloud.script(|call| match call.operation.as_str() {
        "GetBucketLifecycleConfiguration" => SimFault::refuse(403, "AccessDenied", "no"),
        _ => SimFault::Pass,
    });
    let (_, text) = targets(&cloud).await;
    assert!(
        text.contains("kept for a time that could not be read (s3:GetLifecycleConfiguration: AccessDenied)"),
        "{text}"
    );
    // All letters are seen nevertheless.
    let (answer, ..) = page(&shown(&cloud), "now").await;
    assert!(answer.unread.iter().all(|unread| !unread.contains("Lifecycle")), "{:?}", answer.unread);
}

/// An attempt that was left out, because the endpoint is down, says nothing of why it is.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_was_left_out_is_no_reason() {
    let cloud = TestAccount::new();
    let left_out = line("late", &json!({ "error": "EndpointDown", "since": at(NOW - 10 * MINUTE) }));
    list(&cloud, 5, std::slice::from_ref(&left_out));
    let (found, _) = targets(&cloud).await;
    assert_eq!(found, [["payments-worker SQS queue of payments", "failing for 10 min", ""]]);
    list(&cloud, 4, &[left_out, line("early", &json!({ "error": "Http503" }))]);
    let (found, _) = targets(&cloud).await;
    assert_eq!(
        found,
        [["payments-worker SQS queue of payments", "failing for 3 h", "it answers 503 Http503"]]
    );
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_asks_for_time_is_throttled() {
    for (code, state) in [("Http429", "throttled for 3 h"), ("Http503", "failing for 3 h")] {
        let cloud = TestAccount::new();
        list(&cloud, 5, &[line("a", &json!({ "error": code }))]);
        let (found, text) = targets(&cloud).await;
        assert_eq!(found[0][1], state, "{text}");
        let words = state.split_once(' ').unwrap().0;
        assert!(text.contains(&format!("payments-worker is {words}: it answers")), "{text}");
        // One more request is what it asks not to get.
        let (_, _, group) = page(&shown(&cloud), &format!("group?target={WORKER}")).await;
        for text in [&text, &group] {
            assert_eq!(text.contains("redrivectl retry"), code == "Http503", "{text}");
            assert!(text.contains("redrivectl hold"), "{text}");
        }
        let waits = PresentState {
            targets: vec![FailingTarget { target: None, ..throttled(code) }],
            ..PresentState::default()
        };
        let verdict = PresentVerdict::of(&waits, true, at(NOW));
        let level = if code == "Http429" { VerdictLevel::Watch } else { VerdictLevel::Bad };
        assert_eq!(verdict.level, level, "nobody has to slow it down: {verdict:?}");
        let alarm = Alarm { name: "payments-LettersFailAlarm".to_owned(), says: None, since: None };
        let on = PresentState { alarms: Some(vec![alarm]), ..waits.clone() };
        let says = PresentVerdict::of(&on, true, at(NOW)).says;
        assert_eq!(says.contains("1 alarm is on."), code == "Http429", "{says}");
        let two = PresentState { targets: vec![throttled(code), throttled(code)], ..waits.clone() };
        let says = PresentVerdict::of(&two, true, at(NOW)).says;
        let how = if code == "Http429" { "throttled" } else { "failing" };
        assert!(says.starts_with(&format!("2 targets are {how}.")), "{says}");
        let need_you = BoundedCount { letters: 1, ..BoundedCount::default() };
        assert_eq!(
            PresentVerdict::of(&PresentState { need_you, ..waits }, true, at(NOW)).level,
            VerdictLevel::Bad
        );
    }
}

/// One that has asked for time for two minutes is down, as far as the function knows: by the letters of each queue.
#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_down_by_throttles_alone_is_throttled() {
    for (codes, state) in [
        (&["Http429"][..], "throttled for 5 min"),
        (&["Http503"], "down for 5 min"),
        (&["Http429", "Http503"], "down for 5 min"),
        (&["Http503", "Http429"], "down for 5 min"),
        (&["Http429", "Http429"], "throttled for 5 min"),
    ] {
        let cloud = TestAccount::new();
        list(&cloud, 5, &[line("a", &json!({ "error": codes[0] }))]);
        let one = |(place, code): (usize, &&str)| json!({ "queue": format!("queue-{place}"), "target": WORKER, "downSince": at(NOW - 5 * MINUTE), "error": code });
        let endpoints: Vec<_> = codes.iter().enumerate().map(one).collect();
        let document = json!({ "version": 1, "endpoints": endpoints }).to_string();
        cloud.put(&format!("{BUCKET}/{}", recoveries_key(CONTROL)), &document);
        let (found, text) = targets(&cloud).await;
        assert_eq!(found[0][1], state, "{codes:?} {text}");
        assert_eq!(text.contains("redrivectl retry"), state.starts_with("down"), "{text}");
    }
}

/// An endpoint that asks for time comes last, also after letters that have no page of their own.
#[test]
fn what_to_look_at_first_needs_somebody() {
    let of = |name: Option<&str>, need_you, code| FailingTarget {
        target: name.map(str::to_owned),
        need_you,
        ..throttled(code)
    };
    let worst = |targets: &[FailingTarget]| {
        let now = PresentState { targets: targets.to_vec(), ..PresentState::default() };
        now.worst().map(|it| it.target.clone().unwrap())
    };
    let slow = of(Some("slow"), 0, "Http429");
    assert_eq!(worst(std::slice::from_ref(&slow)).as_deref(), Some("slow"));
    assert_eq!(worst(&[slow.clone(), of(Some("gone"), 0, "Http503")]).as_deref(), Some("gone"));
    assert_eq!(worst(&[slow.clone(), of(Some("other"), 1, "Http429")]).as_deref(), Some("other"));
    assert_eq!(worst(&[slow, of(None, 1, "Http503")]), None);
}

/// A quiet page says of which time it is: letters that were archived before may still need somebody.
#[test]
fn nobody_is_needed_of_the_time_that_is_shown() {
    let says = |from, to, is_whole| {
        let span = Some(ChartSpan { from: at(NOW - from * MINUTE), to: at(NOW - to * MINUTE) });
        PresentVerdict::of(&PresentState { span, ..PresentState::default() }, is_whole, at(NOW)).says
    };
    let quiet = "Nothing is failing, and no letter waits. No letter that was archived in";
    assert_eq!(says(180, 0, true), format!("{quiet} the last 3 h needs you."));
    assert_eq!(says(180, 60, true), format!("{quiet} this time needs you."));
    assert!(!says(180, 0, false).contains("needs you"));
}

/// Where older letters may not be counted, nobody says until when they are kept.
#[tokio::test(start_paused = true)]
async fn until_when_letters_are_kept_is_said_only_if_all_are_known() {
    let cloud = TestAccount::new();
    cloud.expire(BUCKET, "", 6);
    archive(&cloud, 20, &[end("a", Exhausted)]).await;
    let (_, text) = targets(&cloud).await;
    assert!(text.contains("kept until 2026-11-08"), "{text}");
    // A key that somebody wrote by hand does not say how many letters its object holds.
    let (key, object) = cloud.objects().into_iter().find(|(key, _)| key.contains("queue=")).unwrap();
    let folder = key.rsplit_once('/').unwrap().0;
    cloud.put(&format!("{folder}/20261101T115000.000Z-by-hand.jsonl"), &object);
    let (_, text) = targets(&cloud).await;
    assert!(text.contains("kept for 6 days"), "{text}");
}

/// One 429 among other failures does not mean that nobody is needed.
#[tokio::test(start_paused = true)]
async fn an_endpoint_asks_for_time_only_if_every_letter_says_so() {
    for (codes, is_throttled) in [(["Http429", "Http429"], true), (["Http503", "Http429"], false)] {
        let cloud = TestAccount::new();
        let [one, other] = codes.map(|code| json!({ "error": code }));
        list(&cloud, 5, &[line("a", &one), line("b", &other)]);
        let (found, text) = targets(&cloud).await;
        assert_eq!(found[0][1].starts_with("throttled"), is_throttled, "{text}");
    }
}

/// The time until which letters are kept is that of those that need somebody.
#[tokio::test(start_paused = true)]
async fn what_was_replayed_is_kept_no_longer_for_anybody() {
    let cloud = TestAccount::new();
    cloud.expire(BUCKET, "", 6);
    archive(&cloud, 5 * 24 * 60, &[end("a", Exhausted)]).await;
    let stored = cloud.objects();
    let lines = stored.values().flat_map(|object| object.lines());
    let first: Vec<ArchiveRecord> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    archive(&cloud, 20, &[end("b", Exhausted)]).await;
    let text = async || page(&shown(&cloud), "now?range=14d").await.2;
    let before = text().await;
    assert!(
        before.contains("kept until 2026-11-03") && before.contains("S3 deletes the first in 36 h."),
        "{before}"
    );
    let sent: Vec<_> = first.iter().map(ArchiveRecord::identity).collect();
    let ledger = json!({ "version": 1, "entries": [{ "replay": "one", "sent": sent }] });
    let folder = format!("{BUCKET}/{CONTROL}/replays/queues/queue=payments-dlq/hour=20261027T12");
    cloud.put(&format!("{folder}/000000.json"), &ledger.to_string());
    let after = text().await;
    assert!(after.contains("kept until 2026-11-08"), "{after}");
}

/// Returns an endpoint that has failed for an hour, and asks for time by a 429.
fn throttled(code: &str) -> FailingTarget {
    let since = at(NOW - 60 * MINUTE);
    let state = if code == "Http429" { TargetState::Throttles(since) } else { TargetState::Fails(since) };
    FailingTarget { state, waiting: 1, ..FailingTarget::default() }
}

/// Where nobody can see whether letters wait or are archived, nothing is called well.
#[test]
fn what_nobody_can_see_is_watched() {
    let verdict = |blind: &[&'static str], is_whole| {
        let now = PresentState { blind: blind.to_vec(), ..PresentState::default() };
        let verdict = PresentVerdict::of(&now, is_whole, at(NOW));
        (verdict.level, verdict.says)
    };
    let fine = "Nothing is failing, and no letter waits.";
    assert_eq!(verdict(&[], true), (VerdictLevel::Fine, fine.to_owned()));
    for (level, says) in [verdict(&["archived letters"], true), verdict(&[], false)] {
        assert_eq!(level, VerdictLevel::Watch, "{says}");
        assert!(says.starts_with("No failure is seen, but not everything could be read."), "{says}");
    }
}

/// Where a single override holds letters, its row releases it, and its group says so, though nobody knows their endpoint.
#[tokio::test(start_paused = true)]
async fn a_hold_is_released_where_its_letters_are_shown() {
    let cloud = TestAccount::new();
    let held = json!({ "heldBy": "override o1", "target": null });
    list(&cloud, 5, &[line("a", &held), line("b", &held)]);
    let release = "redrivectl overrides release o1";
    let overrides = |until| {
        let one = |id: &str| {
            json!({ "id": id, "do": "hold", "match": { "origin": ["sns"] }, "at": at(NOW - 10 * MINUTE),
            "until": at(NOW + until * MINUTE), "by": "ada", "why": "an update" })
        };
        json!({ "version": 1, "overrides": [one("o2"), one("o1")] }).to_string()
    };
    // The list has a letter until it is due, also one of a hold that has ended.
    cloud.put(&format!("{BUCKET}/{}", overrides_key(CONTROL)), &overrides(-1));
    let (_, parsed, _) = page(&shown(&cloud), "now").await;
    assert_eq!(rows(&parsed, "1 target").remove(0).last().unwrap(), "");
    cloud.put(&format!("{BUCKET}/{}", overrides_key(CONTROL)), &overrides(5));
    let (_, parsed, text) = page(&shown(&cloud), "now").await;
    let row = rows(&parsed, "1 target").remove(0);
    assert_eq!(row[0], "letters without an endpoint of payments");
    assert!(row[1] == "held" && row.last().unwrap().contains(release), "{row:?}");
    assert!(text.contains("held ≤ 2"), "{text}");
    let (_, _, text) = page(&shown(&cloud), "group?target=&topic=payments").await;
    assert!(text.contains("Letters without an endpoint are held."), "{text}");
    assert!(text.contains("At most 2 letters are held. The page Now says by whom and why"), "{text}");
    assert!(text.contains("wait for a retry 0") && text.contains("held ≤ 2"), "{text}");
    let (_, _, text) = page(&shown(&cloud), "group?topic=payments").await;
    assert!(text.contains("wait for a retry 0") && text.contains("held ≤ 2"), "{text}");
    let (_, _, text) = page(&shown(&cloud), "letter?id=letter-a").await;
    assert!(
        text.contains("nothing is tried while override o1 holds it") && !text.contains("is due"),
        "{text}"
    );
    // Two of them have no common end.
    list(&cloud, 4, &[line("c", &json!({ "heldBy": "override o2", "target": null }))]);
    let (_, parsed, _) = page(&shown(&cloud), "now").await;
    assert!(!rows(&parsed, "1 target").remove(0).last().unwrap().contains("release"));
}

/// A verdict on one endpoint is about all letters that need somebody, and the tab's title has it.
#[tokio::test(start_paused = true)]
async fn the_one_endpoint_whose_letters_need_somebody_is_named_with_what_it_says() {
    let failed =
        |id, reason| SampleOutcome { error: Some("Http503"), target: Some(WORKER), ..end(id, reason) };
    let cloud = TestAccount::new();
    archive(&cloud, 20, &[failed("a", Exhausted)]).await;
    let (_, text) = targets(&cloud).await;
    assert!(text.starts_with("1 letter of payments-worker needs you: it answers 503."), "{text}");
    // Of these nobody knows the endpoint: the page reads their key alone.
    let key =
        "my-bucket/dead-letters/queue=payments-dlq/date=2026-11-01/20261101T110000.000Z-r.2-n40-r0.jsonl";
    cloud.put(key, "");
    let (_, text) = targets(&cloud).await;
    assert!(text.contains("41 letters need you."), "{text}");
    let cloud = TestAccount::new();
    archive(&cloud, 20, &[failed("a", Expiring)]).await;
    let (_, text) = targets(&cloud).await;
    let says = "it answers 503, and the dead-letter queue's retention was about to end.";
    assert!(text.contains(says), "{text}");
}

/// What came before, and was replayed, does not date what needs somebody now.
#[tokio::test(start_paused = true)]
async fn the_first_that_needs_somebody_is_none_of_those_that_were_replayed() {
    let cloud = TestAccount::new();
    let of = |id, sent| SampleOutcome {
        error: Some("Http503"),
        target: Some(WORKER),
        post: RecordBuilder::envelope(id).sent(sent),
        ..end(id, Exhausted)
    };
    archive(&cloud, 20, &[of("old", NOW - 170 * MINUTE), of("new", NOW - 40 * MINUTE)]).await;
    let stored = cloud.objects();
    let lines = stored.values().flat_map(|object| object.lines());
    let records: Vec<ArchiveRecord> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let (_, text) = targets(&cloud).await;
    assert!(text.contains("The first came 2 h 50 min ago"), "{text}");
    replayed(&cloud, &records[..1]);
    let (_, text) = targets(&cloud).await;
    assert!(text.contains("The first came 40 min ago"), "{text}");
}

/// A link of letters without an endpoint leads to all of them: those without a topic, too.
#[tokio::test(start_paused = true)]
async fn letters_without_an_endpoint_are_narrowed_to_a_topic_only_if_all_have_it() {
    let link = async |cloud: &TestAccount| {
        let (answer, ..) = page(&shown(cloud), "now").await;
        answer.html.contains("group?topic=") || answer.html.contains("topic=payments")
    };
    let cloud = TestAccount::new();
    let held = json!({ "heldBy": "rule r", "target": null });
    list(&cloud, 5, &[line("a", &held)]);
    assert!(link(&cloud).await);
    list(&cloud, 4, &[line("b", &json!({ "heldBy": "rule r", "target": null, "topicArn": null }))]);
    assert!(!link(&cloud).await);
}

/// Where only some were refused, a plain replay is right for the others.
#[tokio::test(start_paused = true)]
async fn one_refused_letter_does_not_stand_for_all() {
    let of = |id, reason| SampleOutcome { error: Some("Http503"), target: Some(WORKER), ..end(id, reason) };
    let cloud = TestAccount::new();
    archive(&cloud, 20, &[of("a", Exhausted), of("b", Permanent)]).await;
    let (_, _, text) = page(&shown(&cloud), &format!("group?target={WORKER}")).await;
    assert!(text.contains("archived, when it works again"), "{text}");
    assert!(!text.contains("by themselves"), "archived letters do not: {text}");
}

/// An endpoint that took letters again after the last one was archived: nothing has to be guessed.
#[tokio::test(start_paused = true)]
async fn archived_letters_of_an_endpoint_that_is_back_say_so() {
    let cloud = TestAccount::new();
    let failed = SampleOutcome { error: Some("Http503"), target: Some(WORKER), ..end("a", Exhausted) };
    archive(&cloud, 20, &[failed]).await;
    let group = format!("group?target={WORKER}");
    let (_, _, text) = page(&shown(&cloud), &group).await;
    assert!(
        text.contains(
            "The last was archived 20 min ago , at 11:40 UTC. Nothing says whether it works by now."
        ),
        "{text}"
    );
    let endpoint = json!({ "queue": "payments-dlq", "target": WORKER, "recoveredAt": at(NOW - 5 * MINUTE), "isDone": true });
    let document = json!({ "version": 1, "endpoints": [endpoint] }).to_string();
    cloud.put(&format!("{BUCKET}/{}", recoveries_key(CONTROL)), &document);
    let (_, _, text) = page(&shown(&cloud), &group).await;
    assert!(text.contains("It took letters again 5 min ago"), "{text}");
}

/// The same content would be refused again: an edit comes first.
#[tokio::test(start_paused = true)]
async fn a_refused_letter_is_edited_before_it_is_replayed() {
    let refused = |reason| SampleOutcome {
        error: Some("InvalidMessageContents"),
        target: Some(WORKER),
        ..end("a", reason)
    };
    for (reason, first, when) in [
        (Permanent, "What you can do Edit and replay redrivectl", "archived, after an edit"),
        (Exhausted, "What you can do Replay redrivectl", "archived, when it works again"),
    ] {
        let cloud = TestAccount::new();
        archive(&cloud, 20, &[refused(reason)]).await;
        let (_, _, text) = page(&shown(&cloud), "letter?id=a").await;
        assert!(text.contains(first), "{text}");
        assert!(text.contains("What mends it: Replay the letter with an edited body"), "{text}");
        let (_, _, text) = page(&shown(&cloud), &format!("group?target={WORKER}")).await;
        assert!(text.contains(when), "{text}");
        assert_eq!(text.contains("redrivectl replay"), reason == Exhausted, "{text}");
    }
}

/// Older letters, which were not read, may have failed otherwise: they are replayed without an edit.
#[tokio::test(start_paused = true)]
async fn refused_letters_that_were_read_do_not_stand_for_those_that_were_not() {
    for (objects, is_replayed) in [(3, false), (120, true)] {
        let cloud = TestAccount::new();
        for minutes in 1..=objects {
            let id = format!("letter-{minutes}");
            let error = Some("InvalidMessageContents");
            let refused = SampleOutcome { error, target: Some(WORKER), ..end(&id, Permanent) };
            archive(&cloud, minutes, &[refused]).await;
        }
        let (_, _, text) = page(&shown(&cloud), &format!("group?target={WORKER}")).await;
        assert_eq!(text.contains("redrivectl replay"), is_replayed, "{objects}: {text}");
    }
}

/// Denied objects of the archive are named with what denied them.
#[tokio::test(start_paused = true)]
async fn what_s3_refuses_of_the_archive_is_said() {
    let cloud = TestAccount::new();
    archive(&cloud, 20, &[end("a", Exhausted)]).await;
    cloud.script(|call| match &*call.operation {
        "GetObject" if call.target.contains("date=") => SimFault::refuse(403, "AccessDenied", "no"),
        _ => SimFault::Pass,
    });
    let refused = "1 of the objects and lines of the archive (s3:GetObject: AccessDenied)";
    for address in ["now", "letter?id=a"] {
        let (answer, _, text) = page(&shown(&cloud), address).await;
        assert!(answer.unread.iter().any(|unread| unread == refused), "{address}: {text}");
    }
}

/// Letters that only need a replay have it in their row.
#[tokio::test(start_paused = true)]
async fn archived_letters_are_replayed_from_their_row() {
    let cloud = TestAccount::new();
    let failed = SampleOutcome { error: Some("Http503"), target: Some(WORKER), ..end("a", Exhausted) };
    archive(&cloud, 20, &[failed]).await;
    let (_, parsed, _) = page(&shown(&cloud), "now").await;
    let does = rows(&parsed, "1 target").remove(0).pop().unwrap();
    let replay = format!("redrivectl replay --target {WORKER} --since 2026-11-01T09:00:00Z");
    assert!(does.contains(&replay), "{does}");
}

/// What an endpoint failed with before it was back is over. Letters that failed since are said.
#[tokio::test(start_paused = true)]
async fn letters_that_fail_after_their_endpoint_is_back_are_said() {
    for (hidden, says) in [(10, ""), (2, "1 letter failed since: it answers 503 Http503")] {
        let cloud = TestAccount::new();
        let endpoint =
            json!({ "queue": "payments-dlq", "target": WORKER, "recoveredAt": at(NOW - 5 * MINUTE) });
        let document = json!({ "version": 1, "endpoints": [endpoint] }).to_string();
        cloud.put(&format!("{BUCKET}/{}", recoveries_key(CONTROL)), &document);
        list(&cloud, 1, &[line("a", &json!({ "error": "Http503", "hidden": at(NOW - hidden * MINUTE) }))]);
        let (found, text) = targets(&cloud).await;
        assert_eq!(found[0][1..], ["back, letters flow 5 min ago", says], "{text}");
        let verdict = "payments-worker is back, but 1 letter failed since: it answers 503.";
        assert_eq!(text.contains(verdict), !says.is_empty(), "{text}");
    }
}

/// An alarm that is on says nothing of letters, so the verdict goes on.
#[test]
fn held_letters_are_said_beside_an_alarm() {
    let verdict = |alarms: Vec<Alarm>| {
        let held = BoundedCount { letters: 1, ..BoundedCount::default() };
        let now = PresentState { alarms: Some(alarms), held, ..PresentState::default() };
        PresentVerdict::of(&now, true, at(NOW)).says
    };
    let alarm = Alarm { name: "payments-FunctionSlowAlarm".to_owned(), says: None, since: None };
    assert_eq!(verdict(vec![alarm]), "1 alarm is on. 1 letter is held.");
    assert_eq!(verdict(Vec::new()), "Nothing is failing. 1 letter is held.");
}
