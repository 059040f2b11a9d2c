//! The end of messages: their retention, and the moves to a dead-letter queue.

use super::Sqs;
use crate::call_context::SimContext;
use crate::clock::SimMillis;
use crate::journal::SimEvent;

impl Sqs {
    /// Returns the time when the retention of a message next ends.
    pub(crate) fn next_expiry(&self) -> Option<SimMillis> {
        self.queues.values().filter_map(|queue| queue.messages.next_expiry()).min()
    }

    /// Drops the messages whose retention has ended, in flight or not, each at the time when it ended.
    pub(crate) fn expire(&mut self, cx: &mut SimContext<'_>) {
        for queue in self.queues.values_mut() {
            while let Some((at, _, message)) = queue.messages.expire(cx.now) {
                let event = SimEvent::Expired { queue: queue.name.clone(), id: message.content.id };
                cx.of("sqs", at).log(event);
            }
        }
    }

    /// Moves a message that was received too often to its dead-letter queue. Without that queue the message stays.
    pub(super) fn redrive(&mut self, cx: &mut SimContext<'_>, from: &str, to: &str, number: u64) -> bool {
        if !self.queues.contains_key(to) {
            return false;
        }
        let Some(source) = self.queues.get_mut(from) else { return false };
        let (name, arn) = (source.name.clone(), source.arn());
        let Some(message) = source.messages.remove(cx.now, number) else { return false };
        let Some(target) = self.queues.get_mut(to) else { return false };
        let event = SimEvent::Moved { from: name, to: target.name.clone(), id: message.content.id.clone() };
        cx.of("sqs", cx.now).log(event);
        target.take_moved(cx.now, &arn, message);
        true
    }
}
