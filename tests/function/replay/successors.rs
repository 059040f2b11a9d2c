//! Tests of successors: the letters of a subscription that was deleted and made again go only to its
//! successor.

use redrive_support::{
    BILLING_SUBSCRIPTION, FunctionWorld as Redriving, SUBSCRIPTION, SimEntry, TestAccount,
};

use super::rounds::LaneMachine;
use super::*;

const SUCCESSOR: &str = "arn:aws:sns:eu-central-1:123456789012:payments:c1b3d1a5-1f0e-4d0c-9a54-2f6f1c2f7a10";
const NEW_WORKER: &str = "arn:aws:sqs:eu-central-1:123456789012:new-worker";

fn request() -> Value {
    json!({ "select": {}, "subscriptions": { SUBSCRIPTION: SUCCESSOR }, "ramp": [100] })
}

/// Returns two letters of the subscription, among letters of others.
fn letters() -> Vec<RecordBuilder> {
    vec![
        RecordBuilder::envelope("its"),
        RecordBuilder::envelope("of-another").subscription(BILLING_SUBSCRIPTION),
        plain("raw"),
        RecordBuilder::envelope("moved").system("DeadLetterQueueSourceArn", WORKER),
        RecordBuilder::envelope("its-too"),
    ]
}

/// Returns the letters in the requeue by id, with their targets.
fn targets(world: &ArchiveWorld) -> BTreeMap<String, Option<String>> {
    let target = |payload: &Arc<SimPayload>| {
        let mark = mark_of(payload);
        let id = mark["id"].as_str().unwrap().split('/').next().unwrap();
        (id.replace("sns-", ""), mark["to"].as_str().map(str::to_owned))
    };
    world.sent().iter().map(target).collect()
}

fn its_letters() -> BTreeMap<String, Option<String>> {
    ["its", "its-too"].map(|id| (id.to_owned(), Some(SUCCESSOR.to_owned()))).into()
}

#[tokio::test(start_paused = true)]
async fn its_letters_alone_are_selected_and_go_to_its_successor() {
    let world = ArchiveWorld::new();
    world.archive("a", &letters());
    let operator = TestObserver::default();
    let counted = world.replay().dry_run(&wish(request()), &ReplaySource::Archive, None, &operator).await;
    assert_eq!(counted.unwrap().counts.sent, 2);
    let done = world.run(request()).await.unwrap();
    assert_eq!((done.counts.sent, done.status), (2, ReplayStatus::Done));
    assert_eq!(targets(&world), its_letters());
}

#[tokio::test(start_paused = true)]
async fn other_limits_of_the_selection_hold_as_well() {
    let world = ArchiveWorld::new();
    world.archive("a", &letters());
    let mut request = request();
    request["select"] = json!({ "match": { "message": ["message of its-too"] } });
    assert_eq!(world.run(request).await.unwrap().counts.sent, 1);
    assert_eq!(targets(&world).into_keys().collect::<Vec<_>>(), ["its-too"]);
}

#[tokio::test(start_paused = true)]
async fn a_state_machine_and_whoever_goes_on_send_them_there_too() {
    let world = ArchiveWorld::new();
    for (name, post) in ["a", "b", "c", "d", "e"].iter().zip(letters()) {
        world.archive(name, &[post]);
    }
    let done = LaneMachine::new(&world, 3).begin(request()).await.unwrap();
    assert_eq!((done.counts.sent, done.status), (2, ReplayStatus::Done));
    assert_eq!(targets(&world), its_letters());

    let world = ArchiveWorld::new();
    world.archive("a", &letters());
    let mut slow = request();
    slow["rate"] = 1.into();
    let operator = TestObserver { stop_at: Some(1), ..TestObserver::default() };
    let paused = world.run_by(&operator, slow).await.unwrap();
    assert_eq!(paused.status, ReplayStatus::Running);
    let resumed = world.resume(&paused.id).await.unwrap();
    assert_eq!((resumed.counts.sent, resumed.status), (2, ReplayStatus::Done));
    assert_eq!(targets(&world), its_letters());
}

#[tokio::test(start_paused = true)]
async fn of_records_that_are_given_only_its_letters_go_there_and_the_others_as_ever() {
    let world = ArchiveWorld::new();
    world.archive("a", &letters());
    let given = letters().iter().map(|post| Ok((record_at(post, NOW), false))).collect();
    let mut request = request();
    request.as_object_mut().unwrap().remove("select");
    let request = ReplayRequest { all: false, ..wish(request) };
    let operator = TestObserver::default();
    let done =
        world.replay().run(&begins(&request), &ReplaySource::Input(given), None, &operator).await.unwrap();
    assert_eq!(done.counts.sent, 5);
    let mut expected = its_letters();
    expected.extend(["of-another", "moved", "raw"].map(|id| (id.to_owned(), None)));
    assert_eq!(targets(&world), expected);
}

/// A replay of the same letters to their old subscription is a different one.
#[tokio::test(start_paused = true)]
async fn a_replay_to_a_successor_is_told_from_others() {
    let world = ArchiveWorld::new();
    world.archive("a", &letters());
    let operator = TestObserver { stop_at: Some(1), ..TestObserver::default() };
    let mut slow = request();
    slow["rate"] = 1.into();
    world.run_by(&operator, slow).await.unwrap();
    let replay = world.replay();
    let unfinished =
        async |request| replay.kept().unfinished(&wish(request), &ReplaySource::Archive).await.unwrap().len();
    assert_eq!(unfinished(request()).await, 1);
    assert_eq!(unfinished(json!({ "select": {} })).await, 0);
}

/// Returns the function without the old subscription, at `START`.
fn function(policy: &Value) -> Redriving {
    let account = TestAccount::new();
    account.unsubscribe(SUBSCRIPTION);
    account.queue("new-worker", &[]);
    let policy = policy.to_string();
    let world = Redriving::on(account, &[("REQUEUE_ARN", REQUEUE), ("REDRIVE_POLICY", &policy)]);
    world.set_now(NOW);
    world
}

/// Lets a letter be archived as refused and replayed. Returns the letter that the function then receives.
async fn refused_and_replayed(function: &Redriving, post: &RecordBuilder) -> RecordBuilder {
    let ran = function.run([post]).await;
    assert_eq!(ran.outcomes(), [format!("{} archived refused", post.id)]);
    let (place, lines) = function.cloud.objects().pop_first().unwrap();
    let archive = ArchiveWorld::new();
    archive.put(place.strip_prefix("my-bucket/").unwrap(), &lines, NOW);
    assert_eq!(archive.run(request()).await.unwrap().counts.sent, 1);
    let payload = archive.sent().remove(0);
    let mut moved = RecordBuilder::raw("moved", &payload.body).queue(REQUEUE).sent(START);
    for (name, attribute) in &payload.attributes {
        moved = moved.attribute(name, &attribute.kind, &attribute.value.text());
    }
    function.set_now(START + 60_000);
    function.cloud.forget();
    moved
}

fn bodies(entries: &[SimEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.body.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_was_refused_is_redelivered_to_the_new_subscription_and_to_nobody_else() {
    for policy in [json!({}), json!({ "default": { "target": "topic" } })] {
        let function = function(&policy);
        let post = RecordBuilder::envelope("a");
        let moved = refused_and_replayed(&function, &post).await;
        function.cloud.subscribe_endpoint(SUCCESSOR, TOPIC, "sqs", NEW_WORKER, DLQ);
        assert_eq!(function.run([&moved]).await.outcomes(), ["moved delivered"]);
        let sent = function.cloud.messages("new-worker");
        assert_eq!(bodies(&sent), [post.body()]);
        let calls = function.cloud.summary();
        let sends: Vec<_> =
            calls.iter().filter(|call| call.contains("Send") || call.contains("Publish")).collect();
        assert_eq!(sends, ["SendMessageBatch new-worker 1"]);
        let asked = function.cloud.calls("GetSubscriptionAttributes");
        assert_eq!(asked.iter().map(|call| call.target.as_str()).collect::<Vec<_>>(), [SUCCESSOR]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_successor_is_checked_with_sns_like_any_subscription() {
    const OTHER_DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:other-dlq";
    const INVOICES: &str = "arn:aws:sns:eu-central-1:123456789012:invoices";
    for (topic, dlq, detail) in [
        (TOPIC, None, "the subscription does not exist"),
        (INVOICES, Some(DLQ), "the subscription belongs to another topic"),
        (TOPIC, Some(OTHER_DLQ), crate::OF_OTHER_QUEUE),
    ] {
        let function = function(&json!({}));
        let moved = refused_and_replayed(&function, &RecordBuilder::envelope("a")).await;
        if let Some(dlq) = dlq {
            function.cloud.subscribe_endpoint(SUCCESSOR, topic, "sqs", NEW_WORKER, dlq);
        }
        let ran = function.run([&moved]).await;
        let line = ran.letter("moved");
        let expected = [json!("archived"), json!("refused"), json!(detail)];
        assert_eq!([&line["outcome"], &line["reason"], &line["detail"]], expected.each_ref());
        assert_eq!(function.cloud.calls("SendMessageBatch"), []);
    }
}

/// Anybody may send to a dead-letter queue, but only a replay names successors.
#[tokio::test(start_paused = true)]
async fn the_same_mark_in_a_dead_letter_queue_names_no_successor() {
    let function = function(&json!({}));
    let moved = refused_and_replayed(&function, &RecordBuilder::envelope("a")).await;
    function.cloud.subscribe_endpoint(SUCCESSOR, TOPIC, "sqs", NEW_WORKER, DLQ);
    assert_eq!(function.run([&moved.queue(DLQ)]).await.outcomes(), ["moved archived refused"]);
    assert_eq!(function.cloud.calls("SendMessageBatch"), []);
}

/// A request names subscriptions of one topic, but anyone who may write to the requeue could write another mark.
#[tokio::test(start_paused = true)]
async fn a_letter_that_names_a_subscription_of_another_topic_is_refused_before_sns_is_asked() {
    let function = function(&json!({}));
    function.cloud.subscribe_endpoint(SUCCESSOR, TOPIC, "sqs", NEW_WORKER, DLQ);
    let invoices = "arn:aws:sns:eu-central-1:123456789012:invoices:0a1b";
    let mark = json!({ "v": 2, "spent": 0, "id": "a", "first": NOW, "gen": 1, "dlq": DLQ, "to": SUCCESSOR });
    let post = RecordBuilder::envelope("a").subscription(invoices).queue(REQUEUE).sqs_mark(&mark);
    let ran = function.run([&post]).await;
    let detail = "the subscription belongs to another topic";
    assert_eq!(
        (ran.outcomes(), &ran.letter("a")["detail"]),
        (vec!["a archived refused".to_owned()], &json!(detail))
    );
    let calls =
        ["GetSubscriptionAttributes", "SendMessageBatch"].map(|operation| function.cloud.calls(operation));
    assert_eq!(calls, [vec![], vec![]]);
}
