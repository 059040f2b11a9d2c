//! The order of FIFO groups.

use std::collections::BTreeMap;

use super::Ledger;
use super::facts::{Effect, Place, What, Who};
use super::verdict::{Verdict, Violation};

impl Ledger {
    /// Judges the order. Within a queue, a letter of a group is neither attempted nor archived while an
    /// earlier one of the group lies there that was not delivered, archived or moved. This holds wherever
    /// each of them ends.
    pub(super) fn judge_override(&self, verdict: &mut Verdict) {
        // The messages of a group in a queue, in its order.
        let mut groups: BTreeMap<(&str, &str), Vec<_>> = BTreeMap::new();
        for (who, plan) in self.plans.iter().enumerate() {
            let Some(group) = plan.group.as_ref().filter(|_| plan.overridden) else { continue };
            for fact in &self.facts[who] {
                if let What::Queued { queue, .. } = &fact.what {
                    groups.entry((queue, group)).or_default().push((fact.order, who, fact.message));
                }
            }
        }
        for ((queue, group), mut messages) in groups {
            messages.sort_unstable();
            // The earlier message that was safe last, and the order of the fact that made it safe.
            let mut ahead: Option<(usize, Who)> = None;
            for (_, who, message) in messages {
                let facts = || self.facts[who].iter().filter(|fact| fact.message == message);
                let acted = facts().find(|fact| match &fact.what {
                    What::Sent { place, effect, .. } => *place == Place::Target || *effect == Effect::Taken,
                    _ => false,
                });
                if let (Some((safe, next)), Some(acted)) = (ahead, acted)
                    && acted.order < safe
                {
                    verdict.disorders += 1;
                    let what =
                        format!("letter {who} of group {group} has overtaken letter {next} in {queue}");
                    let history = [self.history(next), self.history(who)].concat();
                    verdict.violations.push(Violation { what, who: Some(who), history });
                }
                let safe = facts().find(|fact| fact.is_safe()).map_or(usize::MAX, |fact| fact.order);
                if ahead.is_none_or(|(last, _)| safe > last) {
                    ahead = Some((safe, who));
                }
            }
        }
    }
}
