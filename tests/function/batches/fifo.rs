//! P6: order within a group.

use super::*;

/// Returns letters `<group><number>` of a FIFO dead-letter queue.
fn group(ids: &[&str]) -> Vec<RecordBuilder> {
    let post = |id: &&str| {
        RecordBuilder::envelope(id)
            .topic(FIFO_TOPIC)
            .subscription(FIFO_SUBSCRIPTION)
            .queue(FIFO_DLQ)
            .group(&id[..1])
    };
    ids.iter().map(post).collect()
}

const SIX: [&str; 6] = ["a1", "b1", "a2", "a3", "b2", "c1"];

/// Returns the messages of each request, in order.
fn requests(world: &FunctionWorld) -> Vec<Vec<String>> {
    let name = |entry: &SimEntry| {
        let id = SIX.iter().find(|id| entry.body.contains(&format!("message of {id}")));
        (*id.unwrap()).to_owned()
    };
    world.cloud.calls("SendMessageBatch").iter().map(|call| call.entries.iter().map(name).collect()).collect()
}

async fn run(world: &FunctionWorld) -> TestInvocation {
    world.run(&group(&SIX)).await
}

fn fail(world: &FunctionWorld, id: &'static str, disposition: EntryFault) {
    world.cloud.script(move |call| match call.operation.as_str() {
        "SendMessageBatch" => SimFault::except(call, &format!("message of {id}"), disposition.clone()),
        _ => SimFault::Pass,
    });
}

const LATER: EntryFault = EntryFault::service("InternalError", "");

#[tokio::test]
async fn letters_of_a_group_go_one_after_the_other_and_groups_side_by_side() {
    let world = FunctionWorld::new(&[]);
    let ran = run(&world).await;
    assert_eq!(requests(&world), [vec!["a1", "b1", "c1"], vec!["a2", "b2"], vec!["a3"]]);
    assert_eq!(ran.kept, [""; 0]);
}

#[tokio::test]
async fn a_head_that_fails_holds_its_group_and_no_other() {
    let world = FunctionWorld::new(&[]);
    fail(&world, "a1", LATER);
    let ran = run(&world).await;
    assert_eq!(
        ran.outcomes(),
        ["a1 deferred failed", "b1 delivered", "a2 held", "a3 held", "b2 delivered", "c1 delivered"]
    );
    assert_eq!(ran.kept, ["a1", "a2", "a3"]);
    assert_eq!(requests(&world), [vec!["a1", "b1", "c1"], vec!["b2"]]);
    let hidden = world.cloud.hidden();
    assert!((54..=60).contains(&hidden["handle-a1"]));
    // Held letters are shown again at once: in flight they would block the group's head when it is due.
    assert_eq!((hidden["handle-a2"], hidden["handle-a3"], hidden.len()), (0, 0, 3));
    assert_eq!(world.cloud.calls("ChangeMessageVisibilityBatch").len(), 1);
}

#[tokio::test]
async fn a_letter_in_the_middle_that_fails_holds_those_behind_it() {
    let world = FunctionWorld::new(&[]);
    fail(&world, "a2", LATER);
    let ran = run(&world).await;
    assert_eq!(
        ran.outcomes(),
        ["a1 delivered", "b1 delivered", "a2 deferred failed", "a3 held", "b2 delivered", "c1 delivered"]
    );
    assert_eq!(ran.kept, ["a2", "a3"]);
}

/// Only the end of the batch shows whether the archive takes it, so the group waits for the next receive.
#[tokio::test]
async fn a_head_that_is_archived_holds_its_group_for_this_time() {
    for archive_fails in [false, true] {
        let world = FunctionWorld::new(&[]);
        world.cloud.script(move |call| match call.operation.as_str() {
            "SendMessageBatch" => {
                SimFault::except(call, "message of a1", EntryFault::sender("InvalidMessageContents", ""))
            }
            "PutObject" if archive_fails => SimFault::ResetBefore,
            _ => SimFault::Pass,
        });
        let ran = run(&world).await;
        let (a1, kept) = if archive_fails {
            ("a1 failed archive", vec!["a1", "a2", "a3"])
        } else {
            ("a1 archived permanent", vec!["a2", "a3"])
        };
        assert_eq!(
            ran.outcomes(),
            [a1, "b1 delivered", "a2 held", "a3 held", "b2 delivered", "c1 delivered"]
        );
        assert_eq!(ran.kept, kept);
    }
}

#[tokio::test]
async fn a_head_that_is_not_due_yet_holds_its_group() {
    let world = FunctionWorld::new(&[]);
    let mut posts = group(&SIX);
    posts[0] = posts[0].clone().mark(&mark(3, "a1", NOW));
    let ran = world.run(&posts).await;
    assert_eq!(
        ran.outcomes(),
        ["a1 deferred early", "b1 delivered", "a2 held", "a3 held", "b2 delivered", "c1 delivered"]
    );
}

#[tokio::test]
async fn a_head_that_cannot_be_hidden_holds_its_group_all_the_same() {
    let world = FunctionWorld::new(&[]);
    world.cloud.script(|call| match call.operation.as_str() {
        "SendMessageBatch" => SimFault::except(call, "message of a1", LATER),
        "ChangeMessageVisibilityBatch" => SimFault::ResetBefore,
        _ => SimFault::Pass,
    });
    let ran = run(&world).await;
    assert_eq!(
        ran.outcomes(),
        ["a1 failed hide", "b1 delivered", "a2 held", "a3 held", "b2 delivered", "c1 delivered"]
    );
    assert_eq!(ran.kept, ["a1", "a2", "a3"]);
}

#[tokio::test(start_paused = true)]
async fn a_head_whose_time_ran_out_holds_its_group() {
    let world = FunctionWorld::new(&[]).with_time(Duration::ZERO);
    let ran = run(&world).await;
    assert_eq!(
        ran.outcomes(),
        [
            "a1 failed out_of_time",
            "b1 failed out_of_time",
            "a2 held",
            "a3 held",
            "b2 held",
            "c1 failed out_of_time"
        ]
    );
    assert_eq!(ran.kept, SIX);
}

/// On standard queues a group is a fair share, not an order.
#[tokio::test]
async fn groups_of_a_standard_queue_hold_nobody() {
    let world = FunctionWorld::new(&[]);
    fail(&world, "a1", LATER);
    let posts = ["a1", "a2", "a3"].map(|id| RecordBuilder::envelope(id).group("a"));
    let ran = world.run(&posts).await;
    assert_eq!(ran.outcomes(), ["a1 deferred failed", "a2 delivered", "a3 delivered"]);
    assert_eq!(world.cloud.calls("SendMessageBatch").len(), 1);
}

#[tokio::test]
async fn towards_a_fifo_topic_too() {
    let world = FunctionWorld::with_policy(&default(&json!({ "target": "topic" })));
    let ran = run(&world).await;
    assert_eq!(ran.kept, [""; 0]);
    let bodies: Vec<Vec<_>> = world
        .cloud
        .calls("PublishBatch")
        .iter()
        .map(|call| call.entries.iter().map(|entry| entry.body.clone()).collect())
        .collect();
    let expected = [vec!["a1", "b1", "c1"], vec!["a2", "b2"], vec!["a3"]];
    assert_eq!(
        bodies,
        expected.map(|ids| ids.iter().map(|id| format!("message of {id}")).collect::<Vec<_>>())
    );
}
