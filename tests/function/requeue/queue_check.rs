//! Faults of a queue are reported with its first batch, and only once.

use super::*;

fn found(ran: &TestInvocation) -> Vec<String> {
    let lines = ran.log.iter().filter(|line| line["message"] == "queue misconfigured");
    lines.map(|line| line["detail"].as_str().unwrap().to_owned()).collect()
}

/// Returns the findings for a queue with these attributes.
async fn with(attributes: &[(&str, &str)], settings: &[(&str, &str)]) -> Vec<String> {
    let cloud = TestAccount::new();
    let usual = [("MessageRetentionPeriod", TWO_WEEKS), ("VisibilityTimeout", "180")];
    let all: Vec<_> = usual.into_iter().chain(attributes.iter().copied()).collect();
    cloud.queue("payments-dlq", &all);
    let world = FunctionWorld::on(cloud, settings);
    let first = found(&world.run([&RecordBuilder::envelope("a")]).await);
    assert_eq!(found(&world.run([&RecordBuilder::envelope("b")]).await), [""; 0], "said once");
    first
}

#[tokio::test]
async fn nothing_is_found_where_all_is_well() {
    assert_eq!(with(&[], &[("REQUEUE_ARN", REQUEUE)]).await, [""; 0]);
}

#[tokio::test]
async fn a_schedule_that_the_retention_cuts_off() {
    let expected = "rule default: only 9 of its 12 retries fit into the queue's retention of 14400 s. Raise the \
                    retention, or shorten the schedule";
    assert_eq!(with(&[("MessageRetentionPeriod", "14400")], &[]).await, [expected]);
}

#[tokio::test(start_paused = true)]
async fn a_visibility_timeout_shorter_than_the_functions_timeout() {
    let [finding] = &with(&[("VisibilityTimeout", "20")], &[]).await[..] else { panic!("one finding") };
    assert!(
        finding
            .starts_with("its visibility timeout of 20 s is shorter than the function's timeout (over 30 s)"),
        "{finding}"
    );
    assert_eq!(with(&[("VisibilityTimeout", "30")], &[]).await, [""; 0]);
}

#[tokio::test]
async fn a_redrive_policy_of_its_own() {
    let policy = format!(r#"{{"deadLetterTargetArn":"{BILLING}","maxReceiveCount":5}}"#);
    let expected =
        "it has a RedrivePolicy: SQS moves its letters to another queue after 5 receives. Remove it";
    assert_eq!(with(&[("RedrivePolicy", &policy)], &[]).await, [expected]);
}

#[tokio::test]
async fn an_archive_that_is_the_queue_itself() {
    let expected = "it is also the archive: its letters cannot be archived. Set ARCHIVE to another place";
    assert_eq!(with(&[], &[("ARCHIVE", DLQ)]).await, [expected]);
}

#[tokio::test]
async fn a_requeue_that_is_a_dead_letter_queue() {
    let expected = "it is the requeue, but others send to it too. Set REQUEUE_ARN to a queue of its own";
    assert_eq!(with(&[], &[("REQUEUE_ARN", DLQ)]).await, [expected]);
}

#[tokio::test]
async fn a_requeue_that_anybody_sends_to_besides() {
    let world = world("0");
    let mark = json!({ "v": 2, "spent": 0, "id": "letter-1", "first": NOW, "gen": 0, "dlq": DLQ });
    let ran = world
        .run(&[
            RecordBuilder::envelope("a").sqs_mark(&mark).queue(REQUEUE),
            RecordBuilder::envelope("b").queue(REQUEUE),
        ])
        .await;
    let expected = "it is the requeue, but others send to it too. Set REQUEUE_ARN to a queue of its own";
    assert_eq!(found(&ran), [expected]);
}

#[tokio::test]
async fn a_fifo_queue_with_a_requeue_that_is_none() {
    let world = world("0");
    let post = RecordBuilder::envelope("a").topic(FIFO_TOPIC).subscription(FIFO_SUBSCRIPTION);
    let ran = world.run([&post.queue(FIFO_DLQ).group("g")]).await;
    let expected = "it is a FIFO queue but the requeue is not, so letters cannot move there. \
                    Set REQUEUE_ARN to a FIFO one";
    assert_eq!(found(&ran), [expected]);
}

#[tokio::test]
async fn a_requeue_of_another_kind() {
    let expected = "it is a standard queue but the requeue is not, so letters cannot move there. \
                    Set REQUEUE_ARN to a standard one";
    assert_eq!(with(&[], &[("REQUEUE_ARN", FIFO_REQUEUE)]).await, [expected]);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_does_not_tell_is_looked_at_later() {
    let world = FunctionWorld::new(&[("ARCHIVE", DLQ)]);
    world.cloud.reply("GetQueueAttributes", SimFault::refuse(403, "AccessDenied", "no"));
    assert_eq!(found(&world.run([&RecordBuilder::envelope("a")]).await), [""; 0]);
    world.cloud.script(|_| SimFault::Pass);
    world.pass(30);
    assert_eq!(found(&world.run([&RecordBuilder::envelope("a")]).await).len(), 1);
}
