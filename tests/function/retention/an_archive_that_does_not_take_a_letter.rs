use super::*;

fn archive_down(world: &FunctionWorld) {
    world.cloud.script(|call| match call.operation.as_str() {
        "PutObject" => SimFault::refuse(503, "SlowDown", "slow"),
        "SendMessageBatch" => SimFault::refuse(503, "ServiceUnavailable", "down"),
        _ => SimFault::Pass,
    });
}

fn attempts(world: &FunctionWorld) -> usize {
    world.cloud.entries("SendMessageBatch").len()
}

/// Otherwise its target gets it with every visibility timeout, some 240 times a day.
#[tokio::test]
async fn is_not_attempted_again_until_the_archive_is_back() {
    let world = failing(&policy(30, 1, &json!({})), "payments-dlq", WEEKS, "30");
    archive_down(&world);
    let post = RecordBuilder::envelope("a").sent(NOW - 30_000);
    let ran = world.run([&post]).await;
    assert_eq!(ran.outcomes(), ["a failed archive"]);
    let line = ran.letter("a");
    assert_eq!(
        [&line["retry.number"], &line["undone.code"], &line["delay_s"]],
        [&json!(1), &json!("SlowDown"), &json!(1)]
    );
    for receive in 2..=5 {
        world.pass(900);
        let ran = world.run([&post.clone().received(receive)]).await;
        assert_eq!(ran.outcomes(), ["a failed archive"]);
        assert_eq!(ran.letter("a")["retry.number"], json!(null), "nothing was attempted");
    }
    assert_eq!(attempts(&world), 1);
    down(&world);
    world.pass(900);
    assert_eq!(world.run([&post.clone().received(6)]).await.outcomes(), ["a archived exhausted"]);
    assert_eq!(attempts(&world), 1);
    let record = archived(&world.cloud).remove(0);
    assert_eq!(record["retry"], json!({ "number": 1, "of": 1 }));
    assert_eq!([&record["error"]["code"], &record["targetArn"]], ["ServiceUnavailable", WORKER]);
    // The archive has the letter. If it came back nevertheless, it would be a letter like any other.
    world.run([&post.received(7)]).await;
    assert_eq!(attempts(&world), 2);
}

#[tokio::test]
async fn is_not_attempted_again_where_its_target_has_refused_it_for_good() {
    let world = failing(&policy(30, 9, &json!({})), "payments-dlq", WEEKS, "30");
    world.cloud.script(|call| match call.operation.as_str() {
        "PutObject" => SimFault::refuse(503, "SlowDown", "slow"),
        "SendMessageBatch" => SimFault::refuse(400, "InvalidMessageContents", "bad"),
        _ => SimFault::Pass,
    });
    for receive in 1..=3 {
        let ran = world.run([&RecordBuilder::envelope("a").sent(NOW - 30_000).received(receive)]).await;
        assert_eq!(ran.outcomes(), ["a failed archive"]);
        world.pass(900);
    }
    assert_eq!(attempts(&world), 1);
}

#[tokio::test]
async fn is_hidden_for_half_of_the_time_that_it_has_left() {
    let world = failing(&policy(30, 1, &json!({})), "payments-dlq", WEEKS, "30");
    archive_down(&world);
    let hidden = async |left: i64| {
        world.run([&RecordBuilder::envelope("a").sent(NOW - (1_209_600 - left) * 1000)]).await;
        world.cloud.hidden()["handle-a"]
    };
    // Each time it is hidden for twice as long, because most failures of an archive pass soon.
    for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] {
        assert_eq!(hidden(86_400).await, seconds);
    }
    for (left, seconds) in [(1_000, 500), (1_000, 500), (9, 4), (1, 1)] {
        assert_eq!(hidden(left).await, seconds, "{left} s left");
    }
}

/// If the others were in flight, they would block the head.
#[tokio::test]
async fn holds_its_group_and_is_the_only_one_of_it_that_is_hidden() {
    let world = failing(&policy(30, 100, &json!({})), "payments-dlq.fifo", "1800", "30");
    archive_down(&world);
    let posts = ["a1", "a2", "b1"].map(|id| in_group(id, &id[..1]).sent(NOW - 1_780_000));
    let ran = world.run(&posts).await;
    assert_eq!(ran.outcomes(), ["a1 failed archive", "a2 failed archive", "b1 failed archive"]);
    assert_eq!(ran.kept, ["a1", "a2", "b1"]);
    let hidden = [("handle-a1", 1), ("handle-a2", 0), ("handle-b1", 1)];
    assert_eq!(world.cloud.hidden(), hidden.map(|(handle, seconds)| (handle.to_owned(), seconds)).into());
}
