use super::*;

/// Republishing makes letters that share one id, but each is a letter of its own.
#[tokio::test]
async fn letters_of_one_id_do_not_swallow_each_other() {
    let world = world_with(&policy(), FIFO_REQUEUE, "0", &[]);
    down(&world);
    let mark = json!({ "v": 2, "spent": 0, "id": "letter-1", "first": NOW, "gen": 0 });
    let ran = world.run(&["a1", "a2"].map(|id| post(id, "a").mark(&mark))).await;
    assert_eq!(ran.outcomes(), ["a1 requeued failed", "a2 requeued failed"]);
    let ids: Vec<_> = sent_to_requeue(&world).into_iter().map(|entry| entry.deduplication).collect();
    assert_ne!(ids[0], ids[1]);
    // The same message, moved again after a crash, has the same id.
    world.cloud.forget();
    world.run([&post("a1", "a").mark(&mark).received(2)]).await;
    assert_eq!(sent_to_requeue(&world)[0].deduplication, ids[0]);
}

#[tokio::test(start_paused = true)]
async fn a_requeue_that_does_not_answer_is_asked_once_an_invocation() {
    let world = world_with(&policy(), FIFO_REQUEUE, "0", &[]).with_time(std::time::Duration::from_secs(4));
    world.cloud.script(|call| match call.target.as_str() {
        "payments-requeue.fifo" if call.operation == "SendMessageBatch" => SimFault::HangBefore,
        "payments-worker.fifo" => {
            SimFault::except(call, "message of x", EntryFault::service("InternalError", "oh"))
        }
        _ => SimFault::Pass,
    });
    // The heads fail in the first and in the second round.
    let posts = [post("x", "a"), post("b1", "b"), post("y", "b").message("message of x")];
    let ran = world.run(&posts).await;
    assert_eq!(ran.outcomes(), ["x deferred failed", "b1 delivered", "y deferred failed"]);
    let tries =
        world.cloud.calls("SendMessageBatch").into_iter().filter(|call| call.target.contains("requeue"));
    assert_eq!(tries.count(), 1);
}

fn policy() -> Value {
    let mut policy = six_hours();
    policy["default"]["fifo"] = json!("step-aside");
    policy
}

fn post(id: &str, group: &str) -> RecordBuilder {
    RecordBuilder::envelope(id).topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION).queue(FIFO_DLQ).group(group)
}

/// Makes a subscriber refuse this one message.
fn poisoned_by(world: &FunctionWorld, id: &'static str) {
    world.cloud.script(move |call| match call.target.as_str() {
        "payments-worker.fifo" => {
            SimFault::except(call, &format!("message of {id}"), EntryFault::service("InternalError", "oh"))
        }
        _ => SimFault::Pass,
    });
}

#[tokio::test]
async fn a_failing_head_moves_to_the_requeue_and_its_group_goes_on() {
    let world = world_with(&policy(), FIFO_REQUEUE, "0", &[]);
    poisoned_by(&world, "a1");
    let ran = world.run(&[post("a1", "a"), post("a2", "a"), post("b1", "b")]).await;
    assert_eq!(ran.outcomes(), ["a1 requeued failed", "a2 delivered", "b1 delivered"]);
    assert_eq!(ran.kept, [""; 0]);
    let [entry] = &sent_to_requeue(&world)[..] else { panic!("one message") };
    assert_eq!((entry.group.as_deref(), entry.delay), (Some("a"), None));
    assert_eq!(entry.deduplication.as_ref().unwrap().len(), 43);
    let mark = mark_of(entry);
    assert_eq!(
        (&mark["spent"], &mark["due"], &mark["dlq"]),
        (&json!(1), &json!(NOW + 21_600_000), &json!(FIFO_DLQ))
    );
    // The head was sent before the letter behind it.
    let order: Vec<_> = world.cloud.calls("SendMessageBatch").into_iter().map(|call| call.target).collect();
    assert_eq!(order, ["payments-worker.fifo", "payments-requeue.fifo", "payments-worker.fifo"]);
}

#[tokio::test]
async fn a_head_that_the_requeue_does_not_take_blocks_its_group() {
    let world = world_with(&policy(), FIFO_REQUEUE, "0", &[]);
    world.cloud.reply("SendMessageBatch", SimFault::refuse(503, "ServiceUnavailable", "oh"));
    let ran = world.run(&[post("a1", "a"), post("a2", "a")]).await;
    assert_eq!(ran.outcomes(), ["a1 deferred failed", "a2 held"]);
}

#[tokio::test]
async fn a_head_before_its_time_has_not_failed_and_blocks() {
    let mut policy = policy();
    policy["default"]["deliveryPolicy"]["healthyRetryPolicy"]["numNoDelayRetries"] = json!(0);
    let world = world_with(&policy, FIFO_REQUEUE, "0", &[]);
    let ran = world.run(&[post("a1", "a"), post("a2", "a")]).await;
    assert_eq!(ran.outcomes(), ["a1 deferred early", "a2 held"]);
}

#[tokio::test]
async fn in_the_requeue_a_failing_head_blocks_so_that_order_is_kept_there() {
    let world = world_with(&policy(), FIFO_REQUEUE, "0", &[]);
    down(&world);
    let mark = |id: &str| json!({ "v": 2, "spent": 1, "id": letter_id(id), "first": NOW, "gen": 0, "dlq": FIFO_DLQ, "due": NOW });
    let posts = ["a1", "a2"].map(|id| post(id, "a").sqs_mark(&mark(id)).queue(FIFO_REQUEUE));
    let ran = world.run(&posts).await;
    assert_eq!(ran.outcomes(), ["a1 deferred failed", "a2 held"]);
    assert_eq!(ran.letter("a1")["retry.number"], 2);
    assert_eq!(sent_to_requeue(&world), []);
}

#[tokio::test]
async fn without_the_rule_the_head_blocks() {
    let world = world_with(&six_hours(), FIFO_REQUEUE, "0", &[]);
    poisoned_by(&world, "a1");
    let ran = world.run(&[post("a1", "a"), post("a2", "a")]).await;
    assert_eq!(ran.outcomes(), ["a1 deferred failed", "a2 held"]);
}
