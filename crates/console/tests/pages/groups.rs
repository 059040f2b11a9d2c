//! Groups of letters, and one group in detail.

use redrive_console::{
    BodyVisibility, DashboardWidget, Filter, GroupField, PageHost, PageKind, Query, Theme, show,
};
use redrive_core::policy::ArchiveReason::{Exhausted, GivenUp, Refused, Rule};
use redrive_support::{BILLING, SimFault, TOPIC, TestAccount, WORKER};
use serde_json::json;

use super::stand_in::{RecordedRequest, before};
use super::{SampleOutcome, archive, end, group, line, list, page, rows, shown, shown_by};

const OTHER: &str = "arn:aws:sns:eu-central-1:123456789012:invoices";

/// Six archived letters of two topics, and three waiting letters.
async fn outage() -> TestAccount {
    let cloud = TestAccount::new();
    let failed = |id, error| SampleOutcome { error: Some(error), target: Some(WORKER), ..end(id, Exhausted) };
    archive(&cloud, 100, &[failed("a", "503"), failed("b", "503"), failed("c", "Timeout")]).await;
    let other = |id| SampleOutcome {
        post: redrive_support::RecordBuilder::envelope(id).topic(OTHER),
        rule: "slowly",
        ..end(id, Refused)
    };
    archive(&cloud, 20, &[other("d"), other("e")]).await;
    archive(&cloud, 600, &[failed("of-yesterday", "503")]).await;
    let billing =
        json!({ "target": BILLING, "error": "NonExistentQueue", "retry": { "number": 4, "of": 12 } });
    list(&cloud, 30, &[line("w", &json!({})), line("x", &json!({})), line("y", &billing)]);
    cloud.forget();
    cloud
}

#[tokio::test(start_paused = true)]
async fn keys_count_all_letters_by_topic_reason_and_queue() {
    let cloud = outage().await;
    let account = shown(&cloud);
    let (answer, parsed, text) = page(&account, "groups?by=topic").await;
    assert!(
        text.contains("5 archived in this time, 5 not replayed yet; at most 3 wait for a retry."),
        "{text}"
    );
    let found = rows(&parsed, "Letters by topic");
    let short: Vec<_> = found.iter().map(|row| [&*row[0], &*row[1], &*row[5], &*row[6], &*row[3]]).collect();
    // The three waiting letters arrived three hours ago.
    assert_eq!(
        short,
        [
            ["payments", "3", "3", "3 h ago", "100 min ago"],
            ["invoices", "2", "0", "20 min ago", "20 min ago"]
        ]
    );
    assert_eq!(answer.unread, Vec::<String>::new());
    assert_eq!(answer.requests as usize, cloud.journal().len(), "{:?}", cloud.summary());

    let found = rows(&page(&account, "groups?by=reason").await.1, "Letters by reason");
    assert_eq!(
        found.iter().map(|row| [&*row[0], &*row[1]]).collect::<Vec<_>>(),
        [["exhausted", "3"], ["refused", "2"]]
    );
    // The filter may name a topic by its name alone.
    let (_, parsed, text) = page(&account, "groups?by=error&topic=invoices").await;
    assert_eq!(rows(&parsed, "Letters by error")[0][..2], ["(none)", "2"], "{text}");
    let (_, parsed, text) = page(&account, "groups?by=queue&range=12h&reason=exhausted").await;
    assert_eq!(
        rows(&parsed, "Letters by queue")[0][..2],
        ["payments-dlq".to_owned(), "4".to_owned()],
        "{text}"
    );
}

/// The first line is the answer: what fails, why, and how many letters need a person.
#[tokio::test(start_paused = true)]
async fn now_begins_with_what_fails_and_how_many_letters_need_a_person() {
    let cloud = outage().await;
    let account = shown(&cloud);
    let (_, parsed, text) = page(&account, "now").await;
    assert!(text.contains("2 targets are failing. 5 letters need you."), "{text}");
    assert!(
        text.contains("need you 5 archived in this time, not replayed; kept until somebody deletes them wait for a retry ≤ 3 next in"),
        "{text}"
    );
    let found = rows(&parsed, "3 targets");
    let cells: Vec<_> = found.iter().map(|row| [&*row[0], &*row[1], &*row[2], &*row[3], &*row[4]]).collect();
    assert_eq!(
        cells,
        [
            ["payments-worker SQS queue of payments", "failing for 3 h", "it fails 503", "2", "3"],
            [
                "payments-billing SQS queue of payments",
                "failing for 3 h",
                "the queue does not exist NonExistentQueue",
                "1",
                "0"
            ],
            [
                "letters without an endpoint of invoices",
                "archived 20 min ago",
                "the subscription is gone, or names another dead-letter queue",
                "0",
                "2"
            ],
        ]
    );
    // The page of a target says the same, and what to do, in the order in which one would do it.
    let (_, _, text) = page(&account, &group(&[(GroupField::Target, BILLING)])).await;
    assert!(text.contains("payments-billing is failing: the queue does not exist."), "{text}");
    let steps = ["Mend it. Create the queue again", "Wait. Each letter is retried by its schedule."];
    let places: Vec<_> = steps.iter().map(|step| text.find(step)).collect();
    assert!(places[0].is_some() && places[0] < places[1], "{text}");
}

/// What a rule archives, and what an operator gave up, needs nobody.
#[tokio::test(start_paused = true)]
async fn what_was_archived_on_purpose_needs_nobody() {
    let cloud = TestAccount::new();
    archive(&cloud, 20, &[end("a", Rule), end("b", GivenUp)]).await;
    let (_, _, text) = page(&shown(&cloud), "now").await;
    assert!(text.contains("need you 0 archived") && !text.contains("failing"), "{text}");
}

/// What nobody keeps a list of may wait all the same.
#[tokio::test(start_paused = true)]
async fn nothing_is_called_well_that_nobody_can_see() {
    let account = super::Shown { control: None, archive: None, ..shown(&outage().await) };
    let (_, _, text) = page(&account, "now").await;
    assert!(text.contains("Nobody can see the letters that wait, because no list of them is kept"), "{text}");
    assert!(text.contains("~ 0") && !text.contains("no letter waits"), "{text}");
}

/// The list keeps a letter until it was due. One that was archived meanwhile fails nobody's endpoint.
#[tokio::test(start_paused = true)]
async fn a_letter_that_was_archived_does_not_wait() {
    let cloud = TestAccount::new();
    list(&cloud, 30, &[line("a", &json!({}))]);
    archive(&cloud, 20, &[end("a", GivenUp)]).await;
    let account = shown(&cloud);
    let (_, _, text) = page(&account, "now").await;
    assert!(text.contains("wait for a retry 0") && !text.contains("failing"), "{text}");
    let (_, _, text) = page(&account, "letter?id=a").await;
    assert!(text.contains("Letter a was archived: given up by an operator."), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_search_finds_letters_and_groups_by_a_part_of_their_names() {
    let cloud = outage().await;
    let account = shown(&cloud);
    let found = async |text: &str| {
        let (_, parsed, said) = page(&account, &format!("find?text={text}")).await;
        let groups = rows(&parsed, "By the letters that were read");
        let letters = rows(&parsed, "Letters");
        (
            groups.into_iter().map(|row| row[0].clone()).collect::<Vec<_>>(),
            letters.into_iter().map(|row| row[0].clone()).collect::<Vec<_>>(),
            said,
        )
    };
    let (groups, letters, _) = found("BILL").await;
    assert_eq!((groups, letters.len()), (vec!["payments-billing SQS queue".to_owned()], 0));
    let (groups, _, _) = found("invoices").await;
    assert_eq!(groups, ["invoices SNS topic"]);
    let (groups, letters, _) = found("letter-w").await;
    assert_eq!((groups.len(), letters), (0, vec!["letter-w".to_owned()]));
    // An account in an ARN finds nothing.
    let (groups, letters, said) = found("123456789012").await;
    assert!(groups.is_empty() && letters.is_empty() && said.contains("Nothing was found."), "{said}");
    let (_, _, said) = found("").await;
    assert!(said.contains("Type a part of"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_table_is_sorted_by_the_column_that_was_clicked() {
    let cloud = outage().await;
    let account = shown(&cloud);
    let names = async |sort: &str| {
        let (_, parsed, _) = page(&account, &format!("groups?by=topic{sort}")).await;
        let names: Vec<_> = rows(&parsed, "Letters by topic").into_iter().map(|row| row[0].clone()).collect();
        let links = parsed.elements.iter().filter_map(|it| it.attributes.get("href").cloned());
        (names, links.filter(|href| href.contains("sort=")).collect::<Vec<_>>())
    };
    let (own, links) = names("").await;
    assert_eq!((own, links.len()), (vec!["payments".to_owned(), "invoices".to_owned()], 5));
    assert!(links[0].starts_with("groups?by=topic&range=3h&sort=name"), "{links:?}");
    assert_eq!(names("&sort=name").await.0, ["invoices", "payments"]);
    assert_eq!(names("&sort=waiting").await.0, ["payments", "invoices"]);
    assert_eq!(names("&sort=since").await.0, ["payments", "invoices"]);
}

/// Three letters in one part of the time and two in another: the bars of a table share one scale.
#[tokio::test(start_paused = true)]
async fn bars_of_one_table_share_one_scale() {
    let (answer, _, _) = page(&shown(&outage().await), "groups?by=topic").await;
    let bars = answer.html.split("<rect ").skip(1);
    let heights: Vec<u64> = bars
        .map(|bar| bar.split_once("height=\"").unwrap().1.split_once('"').unwrap().0.parse().unwrap())
        .collect();
    assert_eq!(heights, [17, 12]);
}

/// The archive's keys hold only a topic's name. A stranger may have a topic with the same name in another
/// account.
#[tokio::test(start_paused = true)]
async fn a_topic_of_the_same_name_elsewhere_takes_no_letters_of_another() {
    let cloud = TestAccount::new();
    let stranger = "arn:aws:sns:eu-central-1:666666666666:payments";
    archive(
        &cloud,
        100,
        &[SampleOutcome {
            post: redrive_support::RecordBuilder::envelope("s").topic(stranger),
            ..end("s", Refused)
        }],
    )
    .await;
    let ours: Vec<_> = (0..5).map(|number| end(["a", "b", "c", "d", "e"][number], Exhausted)).collect();
    archive(&cloud, 20, &ours).await;
    let account = shown(&cloud);
    let (_, parsed, _) = page(&account, "groups?by=topic").await;
    let found = rows(&parsed, "Letters by topic");
    assert_eq!(found.iter().map(|row| [&*row[0], &*row[1]]).collect::<Vec<_>>(), [["payments", "6"]]);
    for (topic, letters) in [("payments", "6"), (stranger, "1"), (TOPIC, "5")] {
        let (_, _, text) = page(&account, &group(&[(GroupField::Topic, topic)])).await;
        assert!(
            text.contains(&format!(" {letters} archived, none waits, of topic payments.")),
            "{topic}: {text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_said_to_be_empty_that_could_not_be_read() {
    let cloud = TestAccount::new();
    cloud.script(|_| SimFault::refuse(403, "AccessDenied", "no"));
    for (address, empty) in
        [("groups", "No letter was archived"), ("now", "No replay is kept"), ("now", "No override is in")]
    {
        let (answer, _, text) = page(&shown(&cloud), address).await;
        assert!(!answer.unread.is_empty() && !text.contains(empty), "{text}");
    }
    let cloud = outage().await;
    cloud.script(|call| {
        let is_record = call.operation == "GetObject" && call.target.contains("/queue=");
        if is_record { SimFault::refuse(403, "AccessDenied", "no") } else { SimFault::Pass }
    });
    let (_, _, text) = page(&shown(&cloud), "groups?by=error&range=3h").await;
    assert!(text.contains("No letter was found, but not all could be read."), "{text}");
    let nowhere = super::Shown { control: None, archive: None, ..shown(&TestAccount::new()) };
    for (address, empty) in [("now", "No replay is kept"), ("groups", "No letter was archived")] {
        assert!(!page(&nowhere, address).await.2.contains(empty), "{address}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_keys_do_not_tell_is_counted_among_the_letters_that_were_read() {
    let cloud = outage().await;
    let account = shown(&cloud);
    let (_, parsed, text) = page(&account, "groups?by=error").await;
    assert!(text.contains("the page read the newest 5 letters of 5, and counts only these."), "{text}");
    let found = rows(&parsed, "Letters by error");
    let short: Vec<_> = found.iter().map(|row| [&*row[0], &*row[1], &*row[5]]).collect();
    let expected =
        [["503", "2", "2"], ["(none)", "2", "0"], ["NonExistentQueue", "0", "1"], ["Timeout", "1", "0"]];
    assert_eq!(short, expected);
    for (by, of_read) in
        [("error", true), ("target", true), ("subscription", true), ("rule", true), ("topic", false)]
    {
        let (_, _, text) = page(&account, &format!("groups?by={by}")).await;
        let says = format!("Letters by {by}, of the newest that were read.");
        assert_eq!(text.contains(&says), of_read, "{by}: {text}");
    }
    let href =
        parsed.elements.iter().find_map(|it| it.attributes.get("href").filter(|it| it.starts_with("group?")));
    assert_eq!(href.unwrap(), "group?error=503&range=3h");
}

#[tokio::test(start_paused = true)]
async fn keys_without_an_index_do_not_count_and_their_letters_are_read() {
    let cloud = TestAccount::new();
    let record = |id, minutes_ago: i64| {
        let letter = redrive_support::letter(&redrive_support::RecordBuilder::envelope(id));
        redrive_support::record(&letter, redrive_support::NOW - minutes_ago * super::MINUTE)
            .to_line()
            .unwrap()
    };
    let key = "my-bucket/dead-letters/queue=payments-dlq/date=2026-11-01/20261101T110000Z-r.jsonl";
    // A letter of last night in the same object, put there by hand.
    cloud.put(key, &(record("a", 60) + &record("b", 600)));
    let (_, parsed, text) = page(&shown(&cloud), "groups?by=rule").await;
    assert_eq!(rows(&parsed, "Letters by rule")[0][..2], ["default".to_owned(), "1".to_owned()], "{text}");
    assert!(text.contains("The keys of 1 object do not say how many letters they hold"), "{text}");
    assert!(text.contains("0 or more archived in this time"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_group_shows_its_letters_their_schedule_and_what_can_be_done() {
    let cloud = outage().await;
    cloud.function("redrive", |_| redrive_support::FunctionRan::ok("null"));
    let (answer, parsed, text) =
        page(&shown(&cloud), &group(&[(GroupField::Topic, TOPIC), (GroupField::Error, "503")])).await;
    // What all have is one table, and not one for each field.
    let shared = rows(&parsed, "The same for all");
    assert!(
        shared.contains(&["target", "payments-worker SQS queue", "2", "2"].map(str::to_owned).to_vec()),
        "{shared:?}"
    );
    assert!(shared.contains(&["reason", "exhausted", "2", "0"].map(str::to_owned).to_vec()), "{shared:?}");
    assert!(rows(&parsed, "By target").is_empty());
    let ids: Vec<_> =
        rows(&parsed, "The newest that were read").into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(ids, ["a", "b"], "SNS's ids of the messages, which are short here");
    assert_eq!(rows(&parsed, "The next of them").len(), 2);
    assert!(
        text.contains(&format!("redrivectl hold --topic {TOPIC} --stack payments-redrive --why 'WHY'")),
        "{text}"
    );
    let replay = format!(
        "redrivectl replay --topic {TOPIC} --error 503 --since 2026-11-01T09:00:00Z --stack payments-redrive --why 'WHY' --dry-run"
    );
    assert!(text.contains(&replay), "{text}");
    assert!(!text.contains("--until"), "{text}");
    assert!(text.contains("An override cannot name the error: it applies to letters with any value there."));
    assert!(text.contains("| filter `error.code` = \"503\""));
    assert!(!answer.html.contains("S3CR3T") && !answer.html.contains("Unsubscribe"), "a secret");
    assert!(!text.contains("message of a"), "a body is shown without a setting");
}

#[tokio::test(start_paused = true)]
async fn no_override_is_offered_that_would_be_for_every_letter() {
    let cloud = outage().await;
    let account = shown(&cloud);
    let address = group(&[(GroupField::Error, "503")]);
    for address in [&*address, "waiting?by=target&error=503"] {
        let (_, _, text) = page(&account, address).await;
        assert!(text.contains("An override cannot name these letters"), "{text}");
        assert!(!text.contains("redrivectl hold") && !text.contains("--all"), "{text}");
    }
    let (_, _, text) = page(&account, &group(&[(GroupField::Target, WORKER)])).await;
    for act in ["hold", "retry", "give-up"] {
        let command = format!("redrivectl {act} --target {WORKER} --stack payments-redrive --why 'WHY'");
        assert!(text.contains(&command), "{text}");
    }
    let ended = "from=2026-11-01T09:00:00Z&to=2026-11-01T11:00:00Z";
    let (_, _, text) = page(&account, &format!("group?target={WORKER}&{ended}")).await;
    let times = "--since 2026-11-01T09:00:00Z --until 2026-11-01T11:00:00Z";
    assert!(text.contains(&format!("redrivectl replay --target {WORKER} {times} ")), "{text}");
}

#[tokio::test(start_paused = true)]
async fn bodies_are_shown_by_a_setting_without_what_is_masked() {
    let cloud = TestAccount::new();
    let post = redrive_support::RecordBuilder::envelope("a")
        .sns_attribute("token", "String", "S3CR3T")
        .attribute("Kind", "String", "PAID")
        .attribute("Token", "String", "S3CR3T");
    archive(&cloud, 5, &[SampleOutcome { post, ..end("a", Exhausted) }]).await;
    let account = redrive_console::ConsoleAccount {
        bodies: BodyVisibility::Shown { masked: vec!["TOKEN".to_owned()] },
        ..shown(&cloud)
    };
    let (answer, _, text) = page(&account, &group(&[(GroupField::Reason, "exhausted")])).await;
    assert!(text.contains("message of a") && text.contains("PAID"), "{text}");
    assert!(!answer.html.contains("S3CR3T") && !answer.html.contains("Unsubscribe&"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_said_and_the_rest_is_shown() {
    let cloud = outage().await;
    cloud.script(|call| match (&*call.operation, call.summary().contains("waiting")) {
        ("ListObjectsV2", false) => SimFault::refuse(403, "AccessDenied", "no"),
        _ => SimFault::Pass,
    });
    let (answer, parsed, text) = page(&shown(&cloud), "groups?by=topic").await;
    assert_eq!(answer.unread, ["the listing of the archive: AccessDenied: no"]);
    assert!(
        text.contains("Not everything could be read. Missing: the listing of the archive: AccessDenied: no"),
        "{text}"
    );
    assert!(text.contains("0 or more archived in this time"), "{text}");
    assert_eq!(rows(&parsed, "Letters by topic").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_widget_calls_itself_and_has_no_address() {
    let cloud = outage().await;
    let endpoint = "arn:aws:lambda:eu-central-1:123456789012:function:console".to_owned();
    let door = PageHost::Widget(DashboardWidget { endpoint: endpoint.clone(), theme: Theme::Dark });
    let query = Query::of(PageKind::Groups { by: GroupField::Reason, of: Filter::default() });
    let answer = show(&query, &shown(&cloud), &door).await;
    let parsed = redrive_console_law::parse(&answer.html);
    assert!(parsed.elements.iter().all(|element| !element.attributes.contains_key("href")));
    let calls: Vec<_> = parsed.elements.iter().filter(|element| element.name == "cwdb-action").collect();
    assert!(calls.iter().all(|call| call.attributes["endpoint"] == endpoint));
    // No link offers another range, since the dashboard's own would take precedence.
    assert!(calls.iter().all(|call| call.text.contains("\"range\":\"3h\"")), "{calls:?}");
    assert!(answer.html.contains("Time, by the dashboard: "));
    let group = calls.iter().find(|call| call.text.contains("exhausted")).unwrap();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&group.text).unwrap(),
        json!({ "page": "group", "reason": "exhausted", "range": "3h" })
    );
    assert!(answer.html.contains("redrive widget dark"));
}

#[tokio::test(start_paused = true)]
async fn a_field_that_keys_do_not_tell_is_counted_with_what_was_not_read() {
    let cloud = TestAccount::new();
    let failed = |error: &'static str, id: &str| SampleOutcome {
        error: Some(error),
        target: Some(WORKER),
        ..end(id, Exhausted)
    };
    // The archive has more objects than a page reads, and one letter in ten has this error.
    for minute in 1..=150 {
        let error = if minute % 10 == 0 { "503" } else { "Timeout" };
        archive(&cloud, minute, &[failed(error, &format!("m{minute}"))]).await;
    }
    let account = shown(&cloud);
    let (_, parsed, text) = page(&account, "groups?by=target&error=503").await;
    assert!(text.contains("9 or more archived in this time"), "{text}");
    assert!(
        text.contains(
            "the page read the newest 96 letters of 150, and counts only these. Letters that were not read"
        ),
        "{text}"
    );
    assert_eq!(rows(&parsed, "Letters by target")[0][..2], ["payments-worker SQS queue", "9"]);
    let (_, _, text) = page(&account, &group(&[(GroupField::Error, "503")])).await;
    assert!(text.contains("At least 9 archived, none waits, of error 503."), "{text}");
    assert!(text.contains("not replayed yet 9 of 9 read of 9 or more archived"), "{text}");
    assert!(
        text.contains(
            "Counted among the newest 9 archived letters of this group, which were read, and at most 0 waiting letters"
        ),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn letters_whose_topic_and_reason_no_key_tells_are_in_no_count_of_these() {
    let cloud = outage().await;
    let key =
        "my-bucket/dead-letters/queue=payments-dlq/date=2026-11-01/20261101T110000.000Z-r.2-n40-r0.jsonl";
    cloud.put(key, "");
    let account = shown(&cloud);
    let (_, _, text) = page(&account, "groups?by=topic").await;
    assert!(text.contains("45 archived in this time"), "{text}");
    let (_, _, text) = page(&account, "groups?by=topic&reason=refused").await;
    assert!(text.contains("any reason 2 or more archived in this time"), "{text}");
    assert!(text.contains("40 letters are in objects with too many topics for their keys"), "{text}");
    // The keys name the queue of every letter.
    let (_, parsed, text) = page(&account, "groups?by=queue").await;
    assert_eq!(rows(&parsed, "Letters by queue")[0][..2], ["payments-dlq", "45"], "{text}");
    assert!(!text.contains("too many topics"), "{text}");
    let (_, parsed, _) = page(&account, "groups?by=reason").await;
    let found = rows(&parsed, "Letters by reason");
    assert_eq!(found[0][..2], ["(not told by the keys)", "40"], "{found:?}");
    let (_, _, text) = page(&account, &group(&[(GroupField::Queue, "payments-dlq")])).await;
    assert!(text.contains("45 archived, at most 3 wait, of queue payments-dlq."), "{text}");
    assert!(text.contains("not replayed yet 5 of 5 read of 45 archived"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_log_query_of_a_queue_says_that_it_leaves_out_the_requeue() {
    let cloud = outage().await;
    let says = "letters in the requeue";
    let mut account = shown(&cloud);
    let of_queue = group(&[(GroupField::Queue, "payments-dlq")]);
    let (_, _, text) = page(&account, &of_queue).await;
    assert!(!text.contains(says), "there is none: {text}");
    account.requeue = Some(redrive_support::REQUEUE.parse().unwrap());
    let (_, _, text) = page(&account, &of_queue).await;
    assert!(text.contains(says), "{text}");
    let (_, _, text) = page(&account, &group(&[(GroupField::Error, "503")])).await;
    assert!(!text.contains(says), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_schedule_is_that_of_the_rule_and_says_what_it_assumes() {
    let cloud = outage().await;
    list(&cloud, 20, &[line("z", &json!({ "rule": "slowly", "retry": { "number": 2, "of": 3 } }))]);
    let policy = json!({ "rules": [
        { "name": "slowly", "match": { "origin": ["sns"] }, "deliveryPolicy": "from-subscription" },
        { "name": "never", "match": { "origin": ["sns"] }, "action": "archive" },
        { "name": "held", "match": { "origin": ["sns"] }, "action": "hold" },
    ] });
    let (config, _) = before(&cloud, move |asked: &RecordedRequest| {
        let variables = json!({ "ARCHIVE": "s3://archive/letters", "REDRIVE_POLICY": policy.to_string() });
        let answer = json!({ "Environment": { "Variables": variables } }).to_string();
        (asked.operation == "configuration").then(|| (200, answer.into_bytes()))
    });
    let account =
        redrive_console::ConsoleAccount { function: Some("redrive".to_owned()), ..shown_by(&config) };
    let of = async |rule: &str| page(&account, &group(&[(GroupField::Rule, rule)])).await.2;
    let text = of("slowly").await;
    assert!(text.contains("The letters that wait are at retry 2."), "{text}");
    assert!(text.contains("It assumes that the queue keeps letters for 14 days"), "{text}");
    assert!(text.contains("of each subscription's own delivery policy"), "{text}");
    assert!(of("never").await.contains("Rule never: archived at once, no retry."));
    assert!(
        of("held")
            .await
            .contains("Rule held: hidden until shortly before the queue would drop it, no retry.")
    );
    // Eight more retries, each a tenth earlier at most. The end of a subscription's own schedule is not known.
    let end = "if all fail, the first is archived in";
    let (_, _, text) = page(&account, &group(&[(GroupField::Target, BILLING)])).await;
    assert!(text.contains(&format!("next in 60 min; {end} 20 h 24 min at the earliest")), "{text}");
    for address in [&*group(&[(GroupField::Target, WORKER)]), "now"] {
        let (_, _, text) = page(&account, address).await;
        assert!(text.contains("next in 60 min") && !text.contains(end), "{text}");
    }
    // Where no rule takes a subscription's own, all of them count.
    let cloud = outage().await;
    let (config, _) = before(&cloud, |asked: &RecordedRequest| {
        let answer =
            json!({ "Environment": { "Variables": { "ARCHIVE": "s3://archive/letters" } } }).to_string();
        (asked.operation == "configuration").then(|| (200, answer.into_bytes()))
    });
    let known = redrive_console::ConsoleAccount { function: Some("redrive".to_owned()), ..shown_by(&config) };
    let (_, _, text) = page(&known, "now").await;
    assert!(text.contains(&format!("next in 60 min; {end} 17 h 12 min at the earliest")), "{text}");
    // The letters fall under several rules: the page shows the schedule of most, and the position on that
    // one.
    let (_, _, text) = page(&account, "group?topic=payments").await;
    assert!(
        text.contains("Rule default: ") && text.contains("The letters that wait are at retries 4 to 9."),
        "{text}"
    );
}
