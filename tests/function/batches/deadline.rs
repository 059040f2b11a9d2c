use super::*;

#[tokio::test(start_paused = true)]
async fn letters_that_there_is_no_time_for_go_back_untouched() {
    let world = FunctionWorld::new(&[]).with_time(Duration::ZERO);
    let ran = world.run(&envelopes(10)).await;
    assert!(ran.outcomes().iter().all(|outcome| outcome.ends_with(" failed out_of_time")));
    assert_eq!(ran.kept.len(), 10);
    assert!(world.cloud.journal().iter().all(|call| call.operation == "GetQueueAttributes"));
    assert_eq!(ran.letter("m0")["retry.number"], json!(null), "no attempt was made");
}

/// All requests that may be under way are under way when the time is over. Their letters are hidden until the
/// next retry; letters that were not begun come back soon.
#[tokio::test(start_paused = true)]
async fn what_was_cut_off_is_hidden_and_what_was_not_begun_comes_back_soon() {
    let world = FunctionWorld::new(&[]).with_time(Duration::from_secs(10));
    world.cloud.reply("SendMessageBatch", SimFault::HangBefore);
    let all = CONCURRENT_REQUESTS + 4;
    let posts: Vec<_> = (0..all)
        .map(|number| {
            let queue = format!("arn:aws:sqs:eu-central-1:123456789012:q{number:03}");
            RecordBuilder::raw(&format!("m{number:03}"), "x").moved_from(&queue)
        })
        .collect();
    let began = Instant::now();
    let ran = world.run(&posts).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let of = |ending: &str| -> Vec<_> {
        ran.outcomes().iter().filter_map(|it| Some(it.strip_suffix(ending)?.to_owned())).collect()
    };
    let cut_off = of(" deferred failed");
    let not_begun = of(" failed out_of_time");
    assert_eq!((cut_off.len(), not_begun.len()), (CONCURRENT_REQUESTS, 4));
    assert_eq!(ran.kept.len(), all);
    let hidden = world.cloud.hidden();
    assert_eq!(hidden.len(), all);
    assert!(not_begun.iter().all(|id| hidden[&format!("handle-{id}")] == 1), "{hidden:?}");
    assert_eq!(ran.letter(&cut_off[0])["error.code"], "DeadlineExceeded");
}

#[tokio::test(start_paused = true)]
async fn the_answer_comes_in_time_though_nothing_answers() {
    let world = FunctionWorld::new(&[]).with_time(Duration::from_secs(2));
    world.cloud.script(|_| SimFault::HangBefore);
    let event = sample("mixed");
    let began = Instant::now();
    let ran = world.run_event(&event).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(ran.kept, ids(&event));
}
