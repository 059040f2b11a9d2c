//! The page *now*.

use aws_smithy_cbor::{Decoder, Encoder};
use aws_smithy_types::DateTime;
use redrive_console::{DoctorProgress, LocalConsole, PageFinding, PageHost, PageKind, Query, show};
use redrive_core::endpoint::TargetName;
use redrive_core::waiting::{overrides_key, recoveries_key};
use redrive_support::{NOW, TestAccount, at};
use serde_json::{Value, json};

use super::stand_in::{RecordedRequest, before};
use super::{BUCKET, CONTROL, MINUTE, line, list, local, page, rows, shown_by};

/// Returns an answer with these values, by the metrics' ids.
fn metrics(results: &[(&str, &[(i64, f64)])]) -> Vec<u8> {
    let mut cbor = Encoder::new(Vec::new());
    cbor.map(1).str("MetricDataResults").array(results.len());
    for (id, values) in results {
        cbor.map(3).str("Id").str(id).str("Timestamps").array(values.len());
        for (minutes_ago, _) in *values {
            cbor.timestamp(&DateTime::from_secs((NOW - minutes_ago * MINUTE) / 1000));
        }
        cbor.str("Values").array(values.len());
        for (_, value) in *values {
            cbor.double(*value);
        }
    }
    cbor.into_writer()
}

fn alarms(names: &[&str]) -> Vec<u8> {
    let mut cbor = Encoder::new(Vec::new());
    let (composite, plain): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| name.contains("InDanger"));
    cbor.map(2);
    for (kind, names) in [("CompositeAlarms", composite), ("MetricAlarms", plain)] {
        cbor.str(kind).array(names.len());
        for name in names {
            cbor.map(4).str("AlarmName").str(name).str("AlarmDescription").str("letters are given up");
            // CloudWatch updated the alarm's reason later.
            for (what, minutes) in [("StateTransitionedTimestamp", 5), ("StateUpdatedTimestamp", 1)] {
                cbor.str(what).timestamp(&DateTime::from_secs((NOW - minutes * MINUTE) / 1000));
            }
        }
    }
    cbor.into_writer()
}

fn answers(asked: &RecordedRequest) -> Option<(u16, Vec<u8>)> {
    let has = |text: &[u8]| asked.body.windows(text.len()).any(|it| it == text);
    match &*asked.operation {
        // The series over time hold older values. The page must show the last ones from the other call.
        "GetMetricData" if has(b"m0_0") => Some((
            200,
            metrics(&[
                ("m0_0", &[(170, 4.0), (10, 3.0)]),
                ("m0_1", &[(10, 2.0)]),
                ("m0_3", &[(10, 1_200.0), (40, 5_000.0)]),
                ("m0_4", &[(100, 9.0)]),
            ]),
        )),
        "GetMetricData" => Some((
            200,
            metrics(&[
                ("m0_3", &[(10, 1_200.0), (3, 1_100.0)]),
                ("m0_5", &[(3, 7_200.0)]),
                // Later the function received other letters, which have more time left.
                ("expiry", &[(12, 87_120.0), (3, 900_000.0)]),
            ]),
        )),
        // CloudWatch leaves out composite alarms unless the request names their type.
        "DescribeAlarms" if !has(b"CompositeAlarm") => Some((200, alarms(&[]))),
        "DescribeAlarms" => Some((
            200,
            alarms(&[
                "payments-redrive-UndeliveredAlarm",
                "payments-redrive-staging-UndeliveredAlarm-1ABC",
                "payments-redrive-queues-silent-payments-dlq",
                "payments-redrive-more-queues-silent-payments-dlq",
                "payments-redrive-queues-in-flight-a-dlq-that-is-not-shown",
                "payments-redrive-staging-queues-silent-invoices-dlq",
                "payments-redrive-LettersInDangerAlarm",
                "payments-redrive-operations-ReplayFailsAlarm-7X",
            ]),
        )),
        "configuration" => Some((200, b"{}".to_vec())),
        _ => None,
    }
}

/// The one that went down last is first. What lies ahead was written by somebody else.
#[tokio::test(start_paused = true)]
async fn endpoints_that_are_down_or_back_are_shown() {
    let cloud = TestAccount::new();
    let [down, back, flows, hook] =
        ["payments-billing", "payments-worker", "payments-ledger", "x"].map(|name| {
            let arn = format!("arn:aws:sqs:eu-central-1:123456789012:{name}");
            TargetName::read(if name == "x" { "https://hooks.example/S3CR3T" } else { &arn })
        });
    let endpoint = |target: &TargetName, more: Value| {
        let mut endpoint = json!({ "queue": "payments-dlq", "target": target, "error": "Http503" });
        endpoint.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        endpoint
    };
    let endpoints = [
        endpoint(&back, json!({ "recoveredAt": "2026-11-01T11:50:00Z", "isDone": true })),
        endpoint(&flows, json!({ "recoveredAt": "2026-11-01T11:59:00Z" })),
        endpoint(&down, json!({ "downSince": "2026-11-01T11:00:00Z" })),
        endpoint(
            &hook,
            json!({ "downSince": "2026-11-01T11:30:00Z", "recoveredAt": "2026-11-01T09:00:00Z" }),
        ),
        endpoint(&down, json!({ "downSince": "2026-11-01T23:00:00Z" })),
    ];
    let document = json!({ "version": 1, "endpoints": endpoints }).to_string();
    cloud.put(&format!("{BUCKET}/{}", recoveries_key(CONTROL)), &document);
    let (config, _) = before(&cloud, answers);
    let (answer, parsed, text) = page(&shown_by(&config), "now").await;
    assert_eq!(answer.unread, Vec::<String>::new());
    let found = rows(&parsed, "4 targets");
    let found: Vec<_> = found.iter().map(|row| [&*row[0], &*row[1], &*row[2]]).collect();
    let digest = hook.as_str().rsplit('#').next().unwrap();
    let expected = [
        ["payments-billing SQS queue", "down for 60 min", "it answers 503 Http503"],
        [&format!("hooks.example HTTPS endpoint #{digest}"), "down for 30 min", "it answers 503 Http503"],
        ["payments-ledger SQS queue", "back, letters flow 60 s ago", ""],
        ["payments-worker SQS queue", "back 10 min ago", ""],
    ];
    assert_eq!(found, expected);
    assert!(text.contains("2 targets are failing. Since 60 min ago , at 11:00 UTC. What to do"), "{text}");
    assert!(!answer.html.contains("S3CR3T"), "{text}");
    cloud.put(&format!("{BUCKET}/{}", recoveries_key(CONTROL)), "no document");
    let (answer, _, text) = page(&shown_by(&config), "now").await;
    assert!(answer.unread[0].starts_with("the endpoints that are down or back: line 1"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn metrics_overrides_replays_and_alarms_are_shown() {
    let cloud = TestAccount::new();
    let override_ = |id: &str, until: &str| {
        json!({ "id": id, "do": "hold", "match": { "subject": ["t"] }, "at": "2026-11-01T11:00:00Z", "until": until,
            "by": "ada", "why": "the endpoint is down" })
    };
    let mut overrides = [
        override_("in-force", "2026-11-01T13:00:00Z"),
        override_("ended", "2026-11-01T11:30:00Z"),
        override_("later", "2026-11-01T15:00:00Z"),
    ];
    overrides[2]["at"] = json!("2026-11-01T14:00:00Z");
    overrides[0]["arrivedBefore"] = json!("2026-11-01T11:00:00Z");
    let document = json!({ "version": 1, "overrides": overrides }).to_string();
    cloud.put(&format!("{BUCKET}/{}", overrides_key(CONTROL)), &document);
    let state = |id: &str, status: &str| {
        json!({ "version": 1, "id": id, "request": {}, "by": "grace", "began": at(NOW), "takenUp": at(NOW),
            "holder": "h", "cutOff": at(NOW), "status": status, "letters": 200, "exact": true, "units": 1,
            "counts": { "sent": 50 }, "step": 1, "steps": 4, "place": { "units": 0, "counts": {}, "stage": 0,
            "stepBegan": at(NOW), "sentBefore": 0, "refusedBefore": 0, "waitingBefore": 0 } })
    };
    for number in 0..12 {
        let id = format!("20261101T1100{number:02}Z");
        let status = if number == 11 { "running" } else { "done" };
        cloud.put(&format!("{BUCKET}/{CONTROL}/replays/{id}/replay.json"), &state(&id, status).to_string());
    }
    let (config, asked) = before(&cloud, answers);
    let function = "arn:aws:lambda:eu-central-1:123456789012:function:sns-redrive";
    let account = super::Shown { function: Some(function.to_owned()), ..shown_by(&config) };
    let (answer, parsed, text) = page(&account, "now").await;
    assert_eq!(answer.unread, Vec::<String>::new());
    let queues = rows(&parsed, "Letters in this time");
    assert_eq!(queues, [["payments-dlq", "7", "2", "0", "1,100", "-", "2 h"]]);
    assert!(text.contains("until the first expires 24 h of those received lately"), "{text}");
    let overrides = rows(&parsed, "1 override in force, 1 to begin later");
    assert_eq!(&*overrides[1][2], "in 3 h begins in 2 h");
    let letters = r#"{"subject":["t"]} arrived before 2026-11-01 11:00:00"#;
    assert_eq!(
        overrides[0][..4],
        ["hold in-force", letters, "in 60 min given 60 min ago", "the endpoint is down by ada"],
        "{overrides:?}"
    );
    assert!(text.contains("held 0 ends in 60 min, by ada"), "{text}");
    assert!(text.contains("6 alarms are on. Since 5 min ago"), "{text}");
    let replays = rows(&parsed, "The latest");
    assert_eq!(replays.len(), 8, "the newest few");
    assert_eq!(replays[0][..3], ["running 20261101T110011Z", "25 %", "50 of 200"]);
    assert!(
        replays[0]
            .last()
            .unwrap()
            .contains("redrivectl replay stop 20261101T110011Z --stack payments-redrive")
    );
    assert!(text.contains("UndeliveredAlarm 5 min ago letters are given up"), "{text}");
    let found: Vec<_> = rows(&parsed, "6 alarms").into_iter().map(|row| row[0].clone()).collect();
    let expected = [
        "LettersInDangerAlarm",
        "UndeliveredAlarm",
        "queues-silent-payments-dlq",
        "more-queues-silent-payments-dlq",
        "queues-in-flight-a-dlq-that-is-not-shown",
        "operations-ReplayFailsAlarm",
    ];
    assert_eq!(found, expected);
    // The last values come from the last quarter of an hour, one a minute.
    let last = asked.lock().unwrap().iter().rfind(|it| it.operation == "GetMetricData").unwrap().clone();
    let holds = |bytes: &[u8]| last.body.windows(bytes.len()).any(|it| it == bytes);
    let mut times = Encoder::new(Vec::new());
    times.str("StartTime").timestamp(&DateTime::from_secs((NOW - 15 * MINUTE) / 1000));
    assert!(holds(&times.into_writer()), "{:?}", last.body);
    let mut period = Encoder::new(Vec::new());
    period.str("Period").integer(60);
    assert!(holds(&period.into_writer()) && !holds(b"m0_0"));
    let mut name = Encoder::new(Vec::new());
    name.str("Value").str("sns-redrive");
    assert!(holds(&name.into_writer()), "a metric by function");
    let requests = asked.lock().unwrap().len() + cloud.journal().len();
    assert_eq!(answer.requests as usize, requests);
    assert!(answer.requests <= answer.limit);
}

#[tokio::test(start_paused = true)]
async fn what_the_doctor_finds_is_shown_where_the_door_has_asked_it() {
    let (config, _) = before(&TestAccount::new(), answers);
    let account = shown_by(&config);
    let finding = PageFinding {
        severity: "error".to_owned(),
        check: "mapping".to_owned(),
        about: "payments-dlq".to_owned(),
        says: "nothing reads the queue".to_owned(),
        fix: Some("aws lambda update-event-source-mapping".to_owned()),
    };
    let door = PageHost::Local(LocalConsole {
        operates: true,
        doctor: Some(DoctorProgress::Found { at: at(NOW), findings: vec![finding] }),
    });
    let answer = show(&Query::of(PageKind::Now), &account, &door).await;
    assert!(answer.html.contains("nothing reads the queue"));
    let without = show(&Query::of(PageKind::Now), &account, &local()).await;
    assert!(!without.html.contains("doctor"));
    let endpoint = "arn:aws:lambda:eu-central-1:123456789012:function:console".to_owned();
    let widget =
        PageHost::Widget(redrive_console::DashboardWidget { endpoint, theme: redrive_console::Theme::Dark });
    let note = "names.";
    assert!(!show(&Query::of(PageKind::Now), &account, &widget).await.html.contains(note));
    let bare = redrive_console::ConsoleAccount { queues: Vec::new(), ..account };
    assert!(
        show(&Query::of(PageKind::Now), &bare, &widget)
            .await
            .html
            .contains("parameter DashboardQueues names.")
    );
}

/// Metrics come minutes after the letters. Until then a zero would contradict what the page knows.
#[tokio::test(start_paused = true)]
async fn metrics_that_are_not_there_yet_are_no_zeros() {
    let cloud = TestAccount::new();
    let (config, _) = before(&cloud, |asked| match &*asked.operation {
        "DescribeAlarms" => Some((200, alarms(&[]))),
        "GetMetricData" => Some((200, metrics(&[]))),
        _ => None,
    });
    let (_, _, text) = page(&shown_by(&config), "now").await;
    assert!(text.contains("delivered by retries 0 in this time; 0 came"), "{text}");
    list(&cloud, 5, &[line("a", &json!({ "error": "Http503", "since": at(NOW - 200 * MINUTE) }))]);
    let (_, _, text) = page(&shown_by(&config), "now").await;
    assert!(
        text.contains("delivered by retries 0 in this time; 0 came"),
        "it came more than three hours ago: {text}"
    );
    list(&cloud, 4, &[line("b", &json!({ "error": "Http503", "since": at(NOW - 10 * MINUTE) }))]);
    let (_, _, text) = page(&shown_by(&config), "now").await;
    assert!(text.contains("delivered by retries - no metric of this time is there yet"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_page_without_metrics_says_so_and_shows_the_rest() {
    let (config, _) = before(&TestAccount::new(), |asked| match &*asked.operation {
        "DescribeAlarms" => Some((200, alarms(&[]))),
        "GetMetricData" => Some((500, Vec::new())),
        _ => None,
    });
    let (answer, _, text) = page(&shown_by(&config), "now").await;
    assert!(answer.unread[0].starts_with("the metrics (cloudwatch:GetMetricData): "), "{:?}", answer.unread);
    assert!(text.contains("No override is in force, and no replay is kept."), "{text}");
    assert!(!text.contains("Alarms that are on"), "no alarm is on: {text}");
    assert!(text.contains("No failure is seen, but not everything could be read."), "{text}");
}

#[tokio::test(start_paused = true)]
async fn what_is_left_out_is_said() {
    let cloud = TestAccount::new();
    cloud.put(&format!("{BUCKET}/{CONTROL}/replays/20261101T110000Z/replay.json"), "{}");
    let (config, _) = before(&cloud, |asked| match &*asked.operation {
        "DescribeAlarms" => {
            let mut cbor = Encoder::new(Vec::new());
            cbor.map(2).str("MetricAlarms").array(0).str("NextToken").str("next");
            Some((200, cbor.into_writer()))
        }
        "GetMetricData" => Some((200, metrics(&[]))),
        _ => None,
    });
    let (answer, _, _) = page(&shown_by(&config), "now").await;
    assert_eq!(answer.unread.len(), 2, "{:?}", answer.unread);
    assert!(answer.unread[0].starts_with("the replay 20261101T110000Z: "), "{:?}", answer.unread);
    assert_eq!(answer.unread[1], "alarms beyond the first 100 of this prefix");
}

/// Returns the rows of the latest replays. Each is a running replay with these changes.
async fn replays(changes: &[serde_json::Value]) -> (Vec<Vec<String>>, String) {
    let cloud = TestAccount::new();
    for (number, change) in changes.iter().enumerate() {
        let id = format!("20261101T1100{:02}Z", 59 - number);
        let mut state = json!({ "version": 1, "id": id, "request": {}, "by": "grace", "began": at(NOW), "takenUp": at(NOW),
            "holder": "h", "cutOff": at(NOW), "status": "running", "letters": 250, "exact": false, "units": 1,
            "counts": { "sent": 10 }, "step": 1, "steps": 4, "place": { "units": 0, "counts": {}, "stage": 0,
            "stepBegan": at(NOW), "sentBefore": 0, "refusedBefore": 0, "waitingBefore": 0 } });
        change.as_object().unwrap().iter().for_each(|(name, value)| state[name] = value.clone());
        cloud.put(&format!("{BUCKET}/{CONTROL}/replays/{id}/replay.json"), &state.to_string());
    }
    let (config, _) = before(&cloud, answers);
    let (_, parsed, text) = page(&shown_by(&config), "now").await;
    (rows(&parsed, "The latest"), text)
}

#[tokio::test(start_paused = true)]
async fn a_replay_is_measured_only_against_a_number_that_is_exact() {
    let exact = json!({ "exact": true, "letters": 40 });
    let done = json!({ "status": "done" });
    let less = json!({ "status": "done", "exact": true, "letters": 40 });
    // Letters that it will not send are behind it too.
    let passed_over =
        json!({ "exact": true, "letters": 40, "counts": { "sent": 10, "refused": 2, "alreadyReplayed": 8 } });
    let (found, text) = replays(&[json!({}), exact, done, less, passed_over]).await;
    let cells: Vec<_> =
        found.iter().map(|row| [row[0].split(' ').next().unwrap(), &*row[1], &*row[2]]).collect();
    let expected = [
        ["running", "-", "10 of at most 250"],
        ["running", "25 %", "10 of 40"],
        ["done", "complete", "10 of at most 250"],
        ["done", "complete", "10 of 40"],
        ["running", "50 %", "10 of 40"],
    ];
    assert_eq!(cells, expected);
    assert!(!text.contains(" 4 %"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_replay_that_is_unfinished_can_be_resumed_unless_it_was_given_its_letters() {
    let given = |status: &str| json!({ "status": status, "given": "digest", "exact": true });
    let of = |status: &str| json!({ "status": status });
    let states =
        [of("running"), of("settling"), of("stopped"), of("done"), given("stopped"), given("running")];
    let (found, text) = replays(&states).await;
    let offers = |row: &Vec<String>| {
        let cell = row.last().unwrap();
        ["replay stop", "replay --resume", "begin a new replay"].map(|what| cell.contains(what))
    };
    let offered: Vec<_> = found.iter().map(offers).collect();
    let [stop, resume, anew] = [0, 1, 2];
    let only = |wanted: &[usize]| [0, 1, 2].map(|it| wanted.contains(&it));
    let expected = [
        only(&[stop, resume]),
        only(&[stop, resume]),
        only(&[resume]),
        only(&[]),
        only(&[anew]),
        only(&[stop, anew]),
    ];
    assert_eq!(offered, expected, "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_requeue_has_no_page_of_letters() {
    let (config, _) = before(&TestAccount::new(), answers);
    let requeue: redrive_core::arn::Arn = redrive_support::REQUEUE.parse().unwrap();
    let mut account = shown_by(&config);
    account.queues.push(requeue.clone());
    account.requeue = Some(requeue.clone());
    let (answer, parsed, _) = page(&account, "now").await;
    let name = format!("{} (requeue)", requeue.resource());
    assert!(rows(&parsed, "Letters in this time").iter().any(|row| row[0] == name));
    assert!(answer.html.contains("queue=payments-dlq"), "{}", answer.html);
    assert!(!answer.html.contains(&format!("queue={}", requeue.resource())), "{}", answer.html);
}

#[tokio::test(start_paused = true)]
async fn metrics_that_are_cut_are_said_to_be() {
    let cut = |asked: &RecordedRequest| {
        let mut cbor = Encoder::new(Vec::new());
        cbor.map(2).str("MetricDataResults").array(0).str("NextToken").str("more");
        (asked.operation == "GetMetricData").then(|| (200, cbor.into_writer()))
    };
    let (config, _) = before(&TestAccount::new(), cut);
    let (answer, _, text) = page(&shown_by(&config), "now").await;
    let says = "some data points of the metrics: CloudWatch did not give all of them";
    assert!(answer.unread.iter().any(|it| it == says), "{text}");
}

#[tokio::test(start_paused = true)]
async fn data_points_are_asked_for_as_long_as_cloudwatch_keeps_them() {
    let period = async |from: &str, to: &str| {
        let (config, asked) = before(&TestAccount::new(), answers);
        page(&shown_by(&config), &format!("now?from={from}&to={to}")).await;
        let asked = asked.lock().unwrap();
        let over_time = asked.iter().find(|it| it.body.windows(4).any(|part| part == b"m0_0")).unwrap();
        let mut key = Encoder::new(Vec::new());
        key.str("Period");
        let key = key.into_writer();
        let place = over_time.body.windows(key.len()).position(|part| part == key).unwrap();
        Decoder::new(&over_time.body[place + key.len()..]).integer().unwrap()
    };
    assert_eq!(period("2026-11-01T06:00:00Z", "2026-11-01T07:00:00Z").await, 180);
    assert_eq!(period("2026-10-10T06:00:00Z", "2026-10-10T07:00:00Z").await, 300, "three weeks ago");
    assert_eq!(period("2026-08-10T06:00:00Z", "2026-08-10T07:00:00Z").await, 3_600, "twelve weeks ago");
}
