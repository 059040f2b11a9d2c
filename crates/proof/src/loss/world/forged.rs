//! What somebody who can write below `CONTROL` may put there.

use redrive_sim::arn;
use serde_json::{Value, json};

use crate::loss::faults::FaultSite;
use crate::loss::letters::named;

/// A time before and one after every scenario.
const LONG_AGO: &str = "2020-01-01T00:00:00Z";
const FAR_AHEAD: &str = "2999-01-01T00:00:00Z";

/// Returns what is read in the place of the recoveries, or of an object of the list of waiting letters. `times` says how
/// often something forged was read, this one included.
pub(super) fn forged(site: FaultSite, fifo: bool, times: usize) -> String {
    match (site, times % 3) {
        (FaultSite::WaitingLines, _) => lines(fifo),
        (_, 1) => "{".to_owned(),
        (_, 2) => recoveries(fifo, &json!({ "recoveredAt": FAR_AHEAD })),
        _ => recoveries(fifo, &json!({ "recoveredAt": LONG_AGO, "place": "../../no-key" })),
    }
}

fn recoveries(fifo: bool, more: &Value) -> String {
    let mut endpoint =
        json!({ "queue": named("payments-dlq", fifo), "target": worker(fifo), "isDone": true });
    extend(&mut endpoint, more);
    json!({ "version": 1, "endpoints": [endpoint] }).to_string()
}

/// Returns lines of which none is about a letter that waits for its endpoint: the law finds it if one is woken.
fn lines(fifo: bool) -> String {
    let line = |number: usize, more: &Value| {
        let id = format!("forged-{number}");
        let mut line = json!({ "letterId": id, "messageId": id, "receiptHandle": id, "rule": "default",
            "queueArn": arn("sqs", &named("payments-dlq", fifo)), "target": worker(fifo),
            "retry": { "number": 1, "of": 8 }, "since": LONG_AGO, "hidden": LONG_AGO, "due": FAR_AHEAD,
            "recovers": true });
        extend(&mut line, more);
        line.to_string()
    };
    let lines = [
        json!({ "queueArn": arn("sqs", "somebody-elses") }),
        json!({ "target": arn("sqs", &named("payments-raw", fifo)) }),
        json!({ "recovers": false, "heldBy": "rule r" }),
        json!({ "hidden": FAR_AHEAD }),
        json!({ "visible": LONG_AGO }),
        json!({ "due": LONG_AGO }),
        json!({ "retry": "no retry" }),
    ];
    let lines = lines.iter().enumerate().map(|(number, more)| line(number, more));
    lines.chain(["{".to_owned(), "\u{0}\u{202e}".to_owned()]).collect::<Vec<_>>().join("\n")
}

fn worker(fifo: bool) -> String {
    arn("sqs", &named("payments-worker", fifo))
}

fn extend(object: &mut Value, more: &Value) {
    if let (Some(object), Some(more)) = (object.as_object_mut(), more.as_object()) {
        object.extend(more.clone());
    }
}
