//! The order of FIFO groups.

use std::collections::BTreeMap;

use super::super::facts::{CallEffect, LetterNumber, LifeEvent, SentPlace, TimedFact};
use super::super::ledger::{Ledger, RequiredOrder};
use super::{Circumstances, JudgedLetter, LettersVerdict, Violation};

/// Judges the order. Within a queue, a letter of a group is neither attempted nor archived while an
/// earlier one of the group lies there that was not delivered, archived or moved. This holds wherever
/// each of them ends.
pub(super) fn judge(ledger: &Ledger, given: &impl Circumstances, verdict: &mut LettersVerdict) {
    // The messages of a group in a queue, in its order.
    let mut groups: BTreeMap<(&str, &str), Vec<_>> = BTreeMap::new();
    for letter in ledger.letters() {
        let Some(group) = letter.plan.group.as_ref() else { continue };
        for fact in letter.facts {
            if let (LifeEvent::Queued { queue, .. }, Some(message)) = (&fact.what, fact.message)
                && letter.has_order(fact, given)
            {
                groups.entry((queue, group)).or_default().push((fact.order, letter, message));
            }
        }
    }
    for ((queue, group), mut messages) in groups {
        messages.sort_unstable_by_key(|(order, ..)| *order);
        // The earlier message that was safe last, and the order of the fact that made it safe.
        let mut ahead: Option<(usize, LetterNumber)> = None;
        for (_, letter, message) in messages {
            let who = letter.who;
            let acted = letter.about(message).find(|fact| match &fact.what {
                LifeEvent::Called => true,
                LifeEvent::Sent { place, effect, .. } => {
                    *place == SentPlace::Target || *effect == CallEffect::Taken
                }
                _ => false,
            });
            if let (Some((safe, next)), Some(acted)) = (ahead, acted)
                && acted.order < safe
                && next != who
            {
                verdict.disorders += 1;
                let what = format!("letter {who} of group {group} has overtaken letter {next} in {queue}");
                let history = [ledger.history(next), ledger.history(who)].concat();
                verdict.violations.push(Violation { what, who: Some(who), history });
            }
            let safe = letter.leaves_its_group(message);
            if ahead.is_none_or(|(last, _)| safe > last) {
                ahead = Some((safe, who));
            }
        }
    }
}

impl JudgedLetter<'_> {
    /// Reports whether it has a promised order in the queue that took it by this fact.
    fn has_order(&self, queued: &TimedFact, given: &impl Circumstances) -> bool {
        match self.plan.order {
            RequiredOrder::Free => false,
            RequiredOrder::OfEachQueue | RequiredOrder::Strict => true,
            // A copy in the dead-letter queue is in no order with the one that stepped aside.
            RequiredOrder::OfTheRequeue => {
                let mut queues =
                    self.facts.iter().filter(|fact| matches!(fact.what, LifeEvent::Queued { .. }));
                queues.next().is_some_and(|first| first.order < queued.order) && !given.have_copied(self)
            }
        }
    }

    /// Returns the order of the fact from which on a message holds up its group no more.
    fn leaves_its_group(&self, message: usize) -> usize {
        let leaves = |fact: &&TimedFact| match &fact.what {
            LifeEvent::Sent { place: SentPlace::Requeue, .. }
                if self.plan.order != RequiredOrder::OfEachQueue =>
            {
                false
            }
            LifeEvent::Expired => true,
            what => what.is_safe(),
        };
        self.about(message).find(leaves).map_or(usize::MAX, |fact| fact.order)
    }
}
