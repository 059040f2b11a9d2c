//! What a drill is going to do, make and cost, before it begins.

use super::names::Names;
use super::report::rows;
use crate::args;
use crate::text::brief;

/// The time that the orders take to be heard, and the function to retry, in seconds, about.
const BESIDES: u64 = 120;

/// The plan in words.
pub(super) fn text(names: &Names, stack: &str, queue: &str, replays: bool, args: &args::Drill) -> String {
    let Names { id, .. } = names;
    let (topic, broken, healthy) = (names.topic(), names.broken(), names.healthy());
    let replay =
        if replays { ", and replays the other" } else { "; replays nothing, since the stack has no requeue" };
    let takes = u64::from(args.settle) + u64::from(args.watch) + BESIDES;
    let after = if args.keep {
        format!("leaves everything; redrivectl drill --clean --stack {stack} takes it away")
    } else {
        "takes all of it away, also after Ctrl-C: its records in the archive and its orders too".to_owned()
    };
    let lines = [
        ("makes", format!("the topic {topic}, the queues {broken} and {healthy}, a subscription of each; their dead letters go to {queue}")),
        ("does", format!(
            "deletes {broken}, publishes two messages, sees the function retry one and archive the other, makes the queue \
             again, sees the one arrive{replay}"
        )),
        ("orders", "archive, and retry twice, of this topic alone, for half an hour. The rest is your own policy's: with the \
                    built-in one the first retry is made at once, the second a minute later".to_owned()),
        ("takes", format!("about {}", brief(takes))),
        ("costs", "less than 0.01 USD: some hundred requests to SQS, SNS and S3".to_owned()),
        ("alarms", "DeadLettersArriveAlarm, LettersArriveAlarm and ActionRequiredAlarm go off, as far as the stack has them; a \
                    notice of the archived letter goes out where it has a topic for that".to_owned()),
        ("ends", after),
    ];
    format!("Drill {id} of the stack {stack}.\n{}", rows(&lines))
}
