//! Letters and orders that take long to match.

use serde_json::json;
use support::*;

use super::{due, give, order, world};

/// Else the letters of one publisher would keep every invocation busy for as long as such an order is given.
#[tokio::test]
async fn letters_that_take_long_to_match_against_orders_are_put_off_and_hold_up_nobody() {
    let world = world(&[]);
    give(&world, &[order("archive", &json!({ "match": { "message": { "a": [{ "exists": true }] } } }))]);
    let message = json!({ "a": vec![1; 1_000] }).to_string();
    let long = |number: usize| Post::envelope(&format!("l{number}")).message(&message);
    // Each takes one of the thirty million steps that a batch has.
    let posts: Vec<_> = (0..32).map(long).chain([due()]).collect();
    let ran = world.run(&posts).await;
    let of = |outcome: &str| ran.outcomes().iter().filter(|it| it.ends_with(outcome)).count();
    assert_eq!([of(" archived ordered"), of(" failed out_of_time"), of("a deferred failed")], [30, 2, 1]);
    assert_eq!(world.cloud.hidden()["handle-l31"], 1, "it comes back soon");
    assert_eq!(
        ran.letter("l31")["detail"],
        "no time was left to match its lists: other letters of the batch took it"
    );
    assert_eq!(
        world.run(&[long(30), long(31)]).await.outcomes(),
        ["l30 archived ordered", "l31 archived ordered"]
    );
}

/// Else it would be put off every second until it expires.
#[tokio::test]
async fn a_letter_is_matched_whatever_the_number_of_orders() {
    let world = world(&[]);
    let message = json!({ "a": vec!["x"; 1_000] }).to_string();
    let post = due().message(&message);
    let of_others = |number: usize| {
        order("retry", &json!({ "id": format!("order-{number}"), "match": { "message": { "a": ["y"] } } }))
    };
    let orders: Vec<_> = (0..40).map(of_others).collect();
    give(&world, &orders);
    assert_eq!(world.run([&post]).await.outcomes(), ["a deferred failed"]);
    let hold = order("hold", &json!({ "id": "hold", "match": { "message": { "a": ["y"] } } }));
    give(&world, &[orders, vec![hold]].concat());
    world.pass(3_600);
    let ran = world.run([&post]).await;
    assert_eq!(
        (ran.outcomes(), &ran.letter("a")["order.id"]),
        (vec!["a deferred ordered".to_owned()], &json!("hold"))
    );
}
