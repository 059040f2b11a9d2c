//! One letter.

use redrive_console::{ConsoleAccount as Shown, Filter, GroupField, OneLetter, PageKind, Query};
use redrive_core::batch::Outcome;
use redrive_core::endpoint::TargetName;
use redrive_core::policy::ArchiveReason::{Exhausted, Permanent};
use redrive_core::policy::{DeferReason, Deferral};
use redrive_core::waiting::{overrides_key, recoveries_key};
use redrive_support::{NOW, RecordBuilder, TestAccount, WORKER, at, letter_id};
use serde_json::{Value, json};

use super::stand_in::{RecordedRequest, before};
use super::{BUCKET, CONTROL, MINUTE, SampleOutcome, archive, end, line, list, page, rows, shown, shown_by};

fn address(id: &str, key: Option<&str>, log_query: Option<&str>) -> String {
    let own = |text: Option<&str>| text.map(str::to_owned);
    Query::of(PageKind::Letter(OneLetter { id: id.to_owned(), key: own(key), log_query: own(log_query) }))
        .to_address()
}

fn field(name: &str, value: &str) -> Value {
    json!({ "field": name, "value": value })
}

/// The letter's log lines: an attempt that failed, three hidings without an attempt, and the end.
fn results(status: &str) -> Vec<u8> {
    let line = |minute: &str, outcome: &str, more: &[(&str, &str)]| {
        let at = format!("2026-11-01 10:{minute}:00.500");
        let mut fields = vec![field("@timestamp", &at), field("outcome", outcome)];
        fields.extend(more.iter().map(|(name, value)| field(name, value)));
        fields
    };
    let failed = [
        ("reason", DeferReason::Failed.name()),
        ("retry.number", "3"),
        ("retry.of", "12"),
        ("target.arn", WORKER),
        ("error.code", "503"),
        ("attempt_ms", "250"),
        ("due", "2026-11-01T10:45:00.910555256Z"),
    ];
    let [hop, early] = [DeferReason::Hop, DeferReason::Early].map(|why| [("reason", why.name())]);
    let deferral = Deferral { hide: 0, due: at(NOW), retry: 3, why: DeferReason::Hop };
    let (deferred, archived) = (Outcome::Deferred(deferral), Outcome::Archived(Exhausted));
    let lines = [
        line("00", deferred.name(), &failed),
        line("10", deferred.name(), &hop),
        line("20", deferred.name(), &early),
        line("30", deferred.name(), &hop),
        line("40", archived.name(), &[("reason", Exhausted.name())]),
    ];
    let lines = if status == "Complete" { json!(lines) } else { json!([]) };
    json!({ "status": status, "results": lines }).to_string().into_bytes()
}

fn with_log(account: Shown) -> Shown {
    Shown { log_group: Some("/sns-redrive/payments-redrive".to_owned()), ..account }
}

/// Lambda and `EventBridge` name the error by which they gave up, SNS names none.
#[tokio::test(start_paused = true)]
async fn the_error_by_which_lambda_gave_up_is_shown() {
    let cloud = TestAccount::new();
    archive(&cloud, 20, &[end("a", Exhausted)]).await;
    archive(&cloud, 30, &[end("b", Permanent)]).await;
    let address = address(&letter_id("a"), None, None);
    let (_, _, before) = page(&shown(&cloud), &address).await;
    assert!(!before.contains("cause"), "{before}");
    let all = Query::of(PageKind::Group { of: Filter::default() }).to_address();
    let (_, parsed, _) = page(&shown(&cloud), &all).await;
    assert!(rows(&parsed, "By cause").is_empty());
    let (key, record) = cloud.objects().into_iter().find(|(_, line)| line.contains(&letter_id("a"))).unwrap();
    let mut record: Value = serde_json::from_str(record.trim()).unwrap();
    record["cause"] = json!({ "code": "Unhandled", "message": "S3CR3T" });
    cloud.put(&key, &(record.to_string() + "\n"));
    let (_, _, text) = page(&shown(&cloud), &address).await;
    assert!(text.contains("cause Unhandled") && !text.contains("S3CR3T"), "{text}");
    let group = Query::of(PageKind::Group { of: Filter::default() }).to_address();
    let (_, parsed, text) = page(&shown(&cloud), &group).await;
    assert!(!text.contains("S3CR3T"));
    assert_eq!(
        rows(&parsed, "By cause").iter().map(|row| row[..2].to_vec()).collect::<Vec<_>>(),
        [["Unhandled", "1"], ["(none)", "1"]]
    );
    let narrow = Query::of(PageKind::Group { of: Filter::default().with(GroupField::Cause, "Unhandled") })
        .to_address();
    let (_, parsed, _) = page(&shown(&cloud), &narrow).await;
    let shared = rows(&parsed, "The same for all");
    assert!(shared.iter().any(|row| row[..3] == ["reason", "exhausted", "1"]), "{shared:?}");
}

#[tokio::test(start_paused = true)]
async fn a_life_is_put_together_from_archive_and_log() {
    let cloud = TestAccount::new();
    archive(
        &cloud,
        20,
        &[
            SampleOutcome { error: Some("503"), target: Some(WORKER), ..end("a", Exhausted) },
            end("b", Exhausted),
        ],
    )
    .await;
    let (config, asked) = before(&cloud, |asked: &RecordedRequest| match &*asked.operation {
        "StartQuery" => Some((200, br#"{"queryId":"q-1"}"#.to_vec())),
        "GetQueryResults" => Some((200, results("Complete"))),
        _ => None,
    });
    let account = with_log(shown_by(&config));
    let (answer, _, text) = page(&account, &address(&letter_id("a"), None, None)).await;
    assert_eq!(answer.unread, Vec::<String>::new());
    for says in [
        "2026-11-01 10:00:00 retry 3 of 12 to payments-worker failed: it fails (503), in 250 ms; due again 2026-11-01 10:45:00".to_owned(),
        "2026-11-01 10:10:00 hidden again 3 times, without an attempt".to_owned(),
        "2026-11-01 10:40:00 archived: exhausted".to_owned(),
        "arrived in its queue".to_owned(),
    ] {
        assert!(text.contains(&says), "{says}: {text}");
    }
    assert_eq!(text.matches("archived: exhausted").count(), 1, "the log tells of it already");
    // The command names SQS's message id, since a stranger can repeat the letter's own id. It also names the
    // time of the archive, so that nobody must read the whole archive for it.
    for replay in [
        "redrivectl archive show --json --since 2026-11-01T11:40:00Z --until 2026-11-01T11:40:01Z a --stack payments-redrive > letter.jsonl",
        "redrivectl replay --from letter.jsonl --stack payments-redrive --why 'WHY' --dry-run",
    ] {
        assert!(text.contains(replay), "{text}");
    }
    let started = asked.lock().unwrap().iter().find(|asked| asked.operation == "StartQuery").unwrap().clone();
    let started: Value = serde_json::from_slice(&started.body).unwrap();
    assert_eq!(started["logGroupName"], "/sns-redrive/payments-redrive");
    assert!(
        started["queryString"].as_str().unwrap().contains(&format!("`letter.id` = \"{}\"", letter_id("a")))
    );
    assert!(text.contains("Attempts before 2026-11-01 08:00:00 were not searched. Search 14 days"), "{text}");
    // The page also finds a letter by its message id.
    assert!(page(&account, &address("b", None, None)).await.2.contains(&letter_id("b")));
}

#[tokio::test(start_paused = true)]
async fn the_name_of_a_url_in_the_log_is_the_target() {
    let name = TargetName::read("https://hooks.example.com/S3CR3T");
    let line = [
        field("@timestamp", "2026-11-01 10:00:00.500"),
        field("outcome", "delivered"),
        field("target.url", name.as_str()),
    ];
    let results = json!({ "status": "Complete", "results": [line] }).to_string().into_bytes();
    let cloud = TestAccount::new();
    archive(&cloud, 20, &[end("a", Exhausted)]).await;
    let (config, _) = before(&cloud, move |asked: &RecordedRequest| match &*asked.operation {
        "StartQuery" => Some((200, br#"{"queryId":"q-1"}"#.to_vec())),
        "GetQueryResults" => Some((200, results.clone())),
        _ => None,
    });
    let account = with_log(shown_by(&config));
    let (_, _, text) = page(&account, &address(&letter_id("a"), None, None)).await;
    assert!(text.contains(&format!("to {name}")), "{text}");
}

/// A stranger can repeat a letter's id, and in the requeue the same letter is another message.
#[tokio::test(start_paused = true)]
async fn lives_of_several_messages_of_one_id_do_not_look_like_one() {
    let line = |minute: &str, outcome: &str, message: &str| {
        let at = format!("2026-11-01 10:{minute}:00.500");
        let mut line =
            vec![field("@timestamp", &at), field("outcome", outcome), field("sqs.message_id", message)];
        line.extend((outcome == "deferred").then(|| field("reason", DeferReason::Hop.name())));
        line
    };
    let lines = [
        ("00", "deferred", "m1"),
        ("10", "deferred", "m1"),
        ("20", "deferred", "m2"),
        ("30", "delivered", "m2"),
    ];
    let lines = lines.map(|(minute, outcome, message)| line(minute, outcome, message));
    let results = json!({ "status": "Complete", "results": lines }).to_string().into_bytes();
    let (config, _) = before(&TestAccount::new(), move |asked: &RecordedRequest| match &*asked.operation {
        "StartQuery" => Some((200, br#"{"queryId":"q-1"}"#.to_vec())),
        "GetQueryResults" => Some((200, results.clone())),
        _ => None,
    });
    let (_, _, text) = page(&with_log(shown_by(&config)), "letter?id=letter-a").await;
    for says in [
        "10:00:00 hidden again 2 times, without an attempt, SQS message m1",
        "10:20:00 deferred: hop, SQS message m2",
        "10:30:00 delivered, SQS message m2",
    ] {
        assert!(text.contains(says), "{says}: {text}");
    }
}

/// A stranger who repeats a letter's id cannot hide the letter's line.
#[tokio::test(start_paused = true)]
async fn a_letter_on_the_list_may_have_left_its_queue_as_its_log_says() {
    let after = async |outcome: &str, message: &str| {
        let cloud = TestAccount::new();
        list(&cloud, 30, &[line("a", &json!({}))]);
        let fields = [
            field("@timestamp", "2026-11-01 11:50:00.500"),
            field("outcome", outcome),
            field("sqs.message_id", message),
        ];
        let results = json!({ "status": "Complete", "results": [fields] }).to_string().into_bytes();
        let (config, _) = before(&cloud, move |asked: &RecordedRequest| match &*asked.operation {
            "StartQuery" => Some((200, br#"{"queryId":"q-1"}"#.to_vec())),
            "GetQueryResults" => Some((200, results.clone())),
            _ => None,
        });
        page(&with_log(shown_by(&config)), &address("letter-a", None, None)).await.2
    };
    for (outcome, message, has_left) in [
        ("delivered", "a", true),
        ("archived", "a", true),
        ("requeued", "a", true),
        ("deferred", "a", false),
        ("delivered", "another", false),
    ] {
        let text = after(outcome, message).await;
        assert!(text.contains("retry 9 of 12 is due"), "{text}");
        let says = "is due, unless it has left its queue, as the log says";
        assert_eq!(text.contains(says), has_left, "{outcome} {message}: {text}");
        assert_eq!(
            text.contains("Letter letter-a waits for retry"),
            !has_left,
            "{outcome} {message}: {text}"
        );
    }
}

/// Like the local stack's log service: it returns every line of the log, and no parsed fields.
#[tokio::test(start_paused = true)]
async fn a_life_is_read_from_the_lines_themselves_where_the_log_has_no_fields() {
    let line = |minute: u32, message: &str| {
        json!([
            field("@timestamp", &format!("2026-11-01 10:{minute}:00.500")),
            field("@message", message),
            field("outcome", "")
        ])
    };
    let about = |id: &str, outcome: &str| {
        json!({ "message": "letter", "letter.id": id, "sqs.message_id": "m", "outcome": outcome, "reason": "failed", "retry.number": 3,
                "retry.of": 12, "error.code": "503" })
    };
    let lines = [
        line(10, &about("mine", "deferred").to_string()),
        line(20, &about("another", "archived").to_string()),
        line(30, "START RequestId: 1"),
        line(40, r#"{"message":"batch","letter.id":"mine"}"#),
    ];
    let results = json!({ "status": "Complete", "results": lines }).to_string().into_bytes();
    let (config, _) = before(&TestAccount::new(), move |asked: &RecordedRequest| match &*asked.operation {
        "StartQuery" => Some((200, br#"{"queryId":"q-1"}"#.to_vec())),
        "GetQueryResults" => Some((200, results.clone())),
        _ => None,
    });
    let (_, _, text) = page(&with_log(shown_by(&config)), &address("mine", None, None)).await;
    assert!(text.contains("2026-11-01 10:10:00 retry 3 of 12 failed: it fails (503)"), "{text}");
    for other in ["10:20", "10:30", "10:40"] {
        assert!(!text.contains(&format!("2026-11-01 {other}")), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_that_is_not_at_its_end_is_gone_on_with_and_not_begun_anew() {
    let cloud = TestAccount::new();
    let (config, asked) = before(&cloud, |asked: &RecordedRequest| match &*asked.operation {
        "StartQuery" => Some((200, br#"{"queryId":"q-7"}"#.to_vec())),
        "GetQueryResults" => Some((200, results("Running"))),
        _ => None,
    });
    let account = with_log(shown_by(&config));
    let began = tokio::time::Instant::now();
    let (_, parsed, text) = page(&account, &address("a", None, None)).await;
    let took = began.elapsed();
    assert!(took <= std::time::Duration::from_millis(2_100), "{took:?}");
    assert!(
        text.contains("The log is still being searched, so attempts are missing here. Look again"),
        "{text}"
    );
    let hrefs = parsed.elements.iter().filter_map(|element| element.attributes.get("href"));
    let again = hrefs.clone().find(|href| href.contains("log=q-7")).unwrap().clone();
    page(&account, &again).await;
    let begun = asked.lock().unwrap().iter().filter(|asked| asked.operation == "StartQuery").count();
    assert_eq!(begun, 1);
}

#[tokio::test(start_paused = true)]
async fn an_object_is_read_only_below_the_archive() {
    let cloud = TestAccount::new();
    archive(
        &cloud,
        60 * 24 * 3,
        &[SampleOutcome { post: RecordBuilder::envelope("a"), ..end("a", Exhausted) }],
    )
    .await;
    let key = cloud.objects().into_keys().next().unwrap();
    let key = key.strip_prefix(&format!("{BUCKET}/")).unwrap().to_owned();
    let account = shown(&cloud);
    assert!(
        page(&account, &address(&letter_id("a"), Some(&key), None)).await.2.contains("archived: exhausted")
    );
    cloud.put(&format!("{BUCKET}/elsewhere/queue=q/x.jsonl"), cloud.objects().values().next().unwrap());
    cloud.forget();
    for key in ["elsewhere/queue=q/x.jsonl", "dead-letters-control/replays/x.json", "dead-letters/../x", ""] {
        let (answer, _, text) = page(&account, &address(&letter_id("a"), Some(key), None)).await;
        assert_eq!(
            answer.unread,
            ["the object that the address names: it does not belong to the archive"],
            "{text}"
        );
    }
    let read = cloud.calls("GetObject");
    let of_page = [recoveries_key(CONTROL), overrides_key(CONTROL)].map(|key| format!("{BUCKET}/{key}"));
    assert!(read.iter().all(|call| of_page.contains(&call.target)), "{read:?}");
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_waits_is_found_on_the_list() {
    let cloud = TestAccount::new();
    list(&cloud, 30, &[line("a", &json!({}))]);
    let (answer, _, text) = page(&shown(&cloud), &address("letter-a", None, None)).await;
    assert!(text.contains("2026-11-01 13:00:00 retry 9 of 12 is due"), "{text}");
    assert!(!answer.html.contains("S3CR3T"));
    for doing in ["hold", "retry", "give-up"] {
        let command = format!(
            r#"redrivectl {doing} --match '{{"letterId":["letter-a"]}}' --stack payments-redrive --why 'WHY'"#
        );
        assert!(text.contains(&command), "{command}: {text}");
    }
    assert!(!text.contains("redrivectl replay"), "it is not archived: {text}");
    // The page also finds a letter by its message id. An override still names the letter's own id.
    let (_, _, text) = page(&shown(&cloud), &address("a", None, None)).await;
    assert!(text.contains(r#"redrivectl hold --match '{"letterId":["letter-a"]}'"#), "{text}");
    let (_, _, text) = page(&shown(&cloud), &address("nobody", None, None)).await;
    assert!(!text.contains("What you can do"), "{text}");
    assert!(text.contains("redrivectl archive show --json nobody --stack payments-redrive"), "{text}");
}

/// What is offered is what helps: a held letter is released, one that is asked to wait is not tried at once, and what is mended
/// needs no mending.
#[tokio::test(start_paused = true)]
async fn a_letter_that_waits_has_what_helps_it() {
    let one = |id: &str, ends: i64| {
        json!({ "id": id, "do": "hold", "match": { "origin": ["sns"] }, "at": at(NOW - 50 * MINUTE),
            "until": at(NOW + ends * MINUTE), "by": "ada", "why": "an update" })
    };
    let of = async |but: Value, recovered: &[(&str, i64)]| {
        let cloud = TestAccount::new();
        list(&cloud, 30, &[line("a", &but)]);
        let overrides = json!({ "version": 1, "overrides": [one("o1", 5), one("o2", -5)] });
        cloud.put(&format!("{BUCKET}/{}", overrides_key(CONTROL)), &overrides.to_string());
        let endpoint = |(queue, minutes): &(&str, i64)| {
            let (field, minutes) =
                if *minutes < 0 { ("downSince", -minutes) } else { ("recoveredAt", *minutes) };
            json!({ "queue": queue, "target": WORKER, field: at(NOW - minutes * MINUTE) })
        };
        let endpoints: Vec<_> = recovered.iter().map(endpoint).collect();
        let document = json!({ "version": 1, "endpoints": endpoints }).to_string();
        cloud.put(&format!("{BUCKET}/{}", recoveries_key(CONTROL)), &document);
        page(&shown(&cloud), &address("letter-a", None, None)).await.2
    };
    let has = |text: &str, verbs: [bool; 4]| {
        let commands = ["hold", "retry", "give-up", "overrides release o1"];
        let found = commands.map(|verb| text.contains(&format!("redrivectl {verb} ")));
        assert_eq!(found, verbs, "{text}");
    };
    let (all, release) = ([true, true, true, false], [false, false, true, true]);
    has(&of(json!({}), &[]).await, all);
    has(&of(json!({ "heldBy": "override o1" }), &[]).await, release);
    // The list has a letter until it is due, also one of a hold that has ended or was released.
    has(&of(json!({ "heldBy": "override o2" }), &[]).await, all);
    has(&of(json!({ "heldBy": "override o3" }), &[]).await, all);
    has(&of(json!({ "heldBy": "rule slow" }), &[]).await, all);
    has(&of(json!({ "error": "Http429" }), &[]).await, [true, false, true, false]);
    let hidden =
        |recovers: bool| json!({ "error": "Http503", "recovers": recovers, "hidden": at(NOW - 20 * MINUTE) });
    let again = "Its endpoint took letters again";
    for (recovers, recovered, is_back) in [
        (true, &[][..], false),
        (true, &[("payments-dlq", 25)], false),
        (true, &[("payments-dlq", 10)], true),
        (false, &[("payments-dlq", 10)], true),
        // By the letters of another queue it is down.
        (true, &[("payments-dlq", 10), ("other-dlq", -5)], false),
    ] {
        let text = of(hidden(recovers), recovered).await;
        assert_eq!((text.contains("What mends it"), text.contains(again)), (!is_back, is_back), "{text}");
        assert_eq!(text.contains("the function wakes this one"), is_back && recovers, "{text}");
    }
}

/// Content that was refused is refused again, also by an endpoint that was down in the meantime.
#[tokio::test(start_paused = true)]
async fn what_mends_a_refused_letter_is_not_that_its_endpoint_is_back() {
    for (reason, mends) in [(Permanent, true), (Exhausted, false)] {
        let cloud = TestAccount::new();
        let refused =
            SampleOutcome { error: Some("InvalidMessageContents"), target: Some(WORKER), ..end("a", reason) };
        archive(&cloud, 20, &[refused]).await;
        let endpoint =
            json!({ "queue": "payments-dlq", "target": WORKER, "recoveredAt": at(NOW - 5 * MINUTE) });
        let document = json!({ "version": 1, "endpoints": [endpoint] }).to_string();
        cloud.put(&format!("{BUCKET}/{}", recoveries_key(CONTROL)), &document);
        let (_, _, text) = page(&shown(&cloud), "letter?id=a").await;
        assert_eq!(text.contains("What mends it: Replay the letter with an edited body"), mends, "{text}");
        assert_eq!(text.contains("Its endpoint took letters again 5 min ago"), !mends, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_longer_than_a_page_reads_is_named_where_the_letter_is_not_found() {
    let cloud = TestAccount::new();
    list(&cloud, 300, &[line("a", &json!({}))]);
    let (config, _) = before(&cloud, |_| None);
    let account = shown_by(&config);
    let said = async || page(&account, "letter?id=letter-a").await.0.unread;
    let cut = "older entries of the list of waiting letters: it is longer than a page can read";
    assert!(!said().await.iter().any(|it| it == cut));
    for minutes in 1..100 {
        list(&cloud, minutes, &[line("b", &json!({}))]);
    }
    assert!(said().await.iter().any(|it| it == cut), "{:?}", said().await);
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_was_found_is_shown_though_nobody_knows_whether_it_was_replayed() {
    let cloud = TestAccount::new();
    archive(&cloud, 20, &[end("a", Exhausted)]).await;
    // The ledgers of replays do not answer in time.
    cloud.script(|call| {
        let waits = u64::from(call.summary().contains("replays"));
        redrive_support::SimFault::Pass.after(std::time::Duration::from_mins(waits))
    });
    let (answer, _, text) = page(&shown(&cloud), &address(&letter_id("a"), None, None)).await;
    assert!(text.contains("archived: exhausted"), "{text}");
    assert_eq!(answer.unread, ["whether a replay has sent it: not read in time"], "{text}");
}
