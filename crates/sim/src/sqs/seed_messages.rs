//! Messages that a world puts into a queue in the middle of their lives.

use std::sync::Arc;

use redrive_sim_queue::{SimMessage, SimReceipt};

use super::stored_message::{PresetMessage, SimMessageContent};
use super::{SimQueue, Sqs};
use crate::call_context::SimContext;
use crate::error::Error;
use crate::journal::SimEvent;

impl Sqs {
    /// Puts a message into a queue, received just now by the handle that it has. So handwritten events have
    /// their messages in the queue that they name. It replaces a message that was placed with the same handle
    /// before. No rule for messages is checked.
    pub fn place(
        &mut self,
        cx: &mut SimContext<'_>,
        queue: &str,
        placed: PresetMessage,
    ) -> Result<(), Error> {
        self.find(queue)?.place(cx, placed);
        Ok(())
    }
}

impl SimQueue {
    fn place(&mut self, cx: &mut SimContext<'_>, placed: PresetMessage) {
        let (id, payload): (Arc<str>, _) = (placed.id.into(), Arc::new(placed.payload));
        let handle: Arc<str> = placed.handle.into();
        if let Some(before) = self.aliases.get(&*handle) {
            self.messages.remove(cx.now, before.number);
        }
        let (queue, receive) = (Arc::clone(&self.name), placed.receives);
        cx.log(SimEvent::Sent {
            queue: Arc::clone(&queue),
            id: id.clone(),
            payload: payload.clone(),
            delay: 0,
        });
        cx.log(SimEvent::Received { queue, id: id.clone(), count: receive, handle: handle.clone() });
        let group = payload.group.clone().unwrap_or_default();
        let source = placed.source.map(Arc::from);
        let content = SimMessageContent { id, payload, sender: placed.sender.into(), source };
        let mut message = SimMessage::new(content, group, placed.sent);
        (message.receives, message.first_received) = (receive, Some(placed.first_received));
        let number = self.messages.place(cx.now, message);
        self.aliases.insert(handle.to_string(), SimReceipt { number, receive });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{QueueSettings, ReceiveRequest};
    use super::*;
    use crate::{SimAws, SimClock, SimPayload};

    #[test]
    fn a_message_can_be_placed_in_the_middle_of_its_life() {
        let aws = SimAws::new(SimClock::manual("2026-11-01T12:00:00Z".parse().unwrap()), 7);
        aws.act("test", |it, _| it.sqs.create("dlq", QueueSettings::default()));
        let receive = || {
            aws.act("test", |it, cx| it.sqs.receive_message(cx, "dlq", ReceiveRequest::default())).unwrap()
        };
        let now = aws.clock().millis();
        let placed = PresetMessage {
            id: "m-1".to_owned(),
            handle: "AQEB".to_owned(),
            payload: SimPayload { body: "a".to_owned(), ..SimPayload::default() },
            sender: "AIDAIEXAMPLE".to_owned(),
            sent: now - 86_400_000,
            receives: 4,
            first_received: now - 3_600_000,
            source: Some(crate::arn("sqs", "billing")),
        };
        let again = placed.clone();
        aws.act("test", |it, cx| it.sqs.place(cx, "dlq", placed)).unwrap();
        assert!(receive().is_empty());
        let hide =
            |seconds| aws.act("test", |it, cx| it.sqs.change_message_visibility(cx, "dlq", "AQEB", seconds));
        hide(0).unwrap();
        let received = receive().remove(0);
        assert_eq!((&*received.id, received.receives, received.first_received), ("m-1", 5, now - 3_600_000));
        hide(0).unwrap();
        assert_eq!(
            receive().remove(0).receives,
            6,
            "the placed handle is an old one, and shows it all the same"
        );
        aws.act("test", |it, cx| it.sqs.place(cx, "dlq", again)).unwrap();
        assert_eq!(
            aws.act("test", |it, _| it.sqs.queue("dlq").unwrap().len()),
            1,
            "it took the first one's place"
        );
        hide(0).unwrap();
        assert_eq!(receive().remove(0).receives, 5);
        aws.clock().pass(Duration::from_hours(72));
        assert!(aws.act("test", |it, _| it.sqs.queue("dlq").unwrap().is_empty()));
    }
}
