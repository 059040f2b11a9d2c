use super::*;

fn edited<const COUNT: usize>(ids: [&str; COUNT]) -> Vec<Input> {
    let edit = |id: &str| {
        let mut record = record_at(&plain(id), NOW);
        record.message.body = format!("{id}, edited");
        Ok((record, true))
    };
    ids.map(edit).into()
}

#[tokio::test]
async fn an_edited_letter_goes_as_it_is_now_and_its_mark_says_so() {
    let console = Console::new();
    let mut given = edited(["a"]);
    given.push(Ok((record_at(&plain("b"), NOW), false)));
    given.push(Err("is not JSON".to_owned()));
    let operator = console.operator();
    let done = console.replay().run(&wish(json!({})), &Source::Input(given), None, &operator).await.unwrap();
    assert_eq!((done.sent, done.counts.unreadable), (2, 1));
    assert_eq!(console.bodies(), ["a, edited", "b"]);
    let marks: Vec<_> = console.sent().iter().map(|entry| mark_of(entry)["edited"].clone()).collect();
    assert_eq!(marks, [json!(true), Value::Null]);
    assert_eq!(operator.left_out.into_inner().unwrap(), ["line 3 is not JSON"]);
}

#[tokio::test]
async fn never_both_in_either_order() {
    let console = Console::with_letters(2);
    console.run_given(edited(["0"]), json!({})).await.unwrap();
    let done = console.run(json!({})).await.unwrap();
    assert_eq!((done.sent, done.counts.already_replayed), (1, 1));
    let done = console.run_given(edited(["1", "2", "2"]), json!({})).await.unwrap();
    assert_eq!((done.sent, done.counts.already_replayed, done.counts.doubles), (1, 1, 1));
    assert_eq!(console.bodies(), ["0, edited", "1", "2, edited"]);
}

#[tokio::test]
async fn they_are_not_selected_from() {
    for request in [json!({ "select": { "origins": ["raw"] } }), json!({ "cutOff": "2026-11-01T12:00:00Z" })]
    {
        let console = Console::new();
        let refused = console.run_given(edited(["a"]), request).await.unwrap_err().to_string();
        let expected = "bad request: select, cutOff: choose letters of the archive, but records are given";
        assert_eq!((refused.as_str(), console.cloud.journal().len()), (expected, 0));
    }
}
