//! Which letter of a batch is sent as a scout.

use super::scouts::scout_seconds;
use crate::batch::action::InvocationNow;
use crate::batch::pending_letter::Disposition;
use crate::batch::state::Batch;
use crate::policy::{DeferReason, SCOUT_SECONDS};

impl Batch<'_> {
    /// Lets one letter of each endpoint that is down, or was back and fails again, come back soon.
    pub(in crate::batch) fn send_scouts(&mut self, now: InvocationNow) {
        if !self.config.waiting_list {
            return;
        }
        let memory = &mut self.memory.recovery;
        for &index in &self.round {
            let case = &mut self.cases[index];
            let is_in_vain = case.comes_in_vain();
            let (Disposition::Defer(deferral), Some(target)) = (&mut case.disposition, &case.target) else {
                continue;
            };
            let target = target.name();
            let is_down = memory.known.is_down(&target) || memory.failing.down_since(&target).is_some();
            let waits = matches!(deferral.why, DeferReason::Failed | DeferReason::EndpointDown);
            let asked = case.failure.as_ref().and_then(|failure| failure.retry_after).unwrap_or(0);
            let seconds = scout_seconds(case.letter.sqs.receive_count);
            let may_go = waits && deferral.hide > SCOUT_SECONDS && asked <= seconds && !is_in_vain;
            let may_be_down = is_down || memory.failing.is_relapsing(&target);
            if may_go && may_be_down && memory.scouts.send(&target, seconds, now.age) {
                deferral.hide = seconds;
            }
        }
    }
}
