//! Letters that come back soon, to find out whether their endpoint is back.

use std::collections::HashMap;
use std::time::Duration;

use crate::batch::action::InvocationNow;
use crate::batch::pending_letter::Disposition;
use crate::batch::state::Batch;
use crate::endpoint::TargetName;
use crate::policy::{DeferReason, SCOUT_SECONDS};

/// The scouts that are under way: one for each endpoint, and the age of the instance when it comes back.
#[derive(Debug, Default)]
pub(super) struct Scouts(HashMap<TargetName, Duration>);

impl Scouts {
    /// Sends one for so many seconds, unless one is under way. Returns whether it is sent.
    fn send(&mut self, target: &TargetName, seconds: u64, age: Duration) -> bool {
        if self.0.get(target).is_some_and(|comes| age < *comes) {
            return false;
        }
        self.0.retain(|_, comes| age < *comes);
        self.0.insert(target.clone(), age + Duration::from_secs(seconds));
        true
    }

    /// Forgets the scout of an endpoint that was back at that age of the instance: it may have been woken. When the endpoint is
    /// down again, another letter is to find out when it is back.
    pub(super) fn forget(&mut self, target: &TargetName, back: Duration) {
        let sent = |comes: &Duration| comes.saturating_sub(Duration::from_secs(SCOUT_SECONDS));
        if self.0.get(target).is_some_and(|comes| sent(comes) <= back) {
            self.0.remove(target);
        }
    }
}

/// Returns how long a letter is hidden as a scout, by the number of its receives. It is not always equally long, since otherwise
/// it would miss an endpoint that works for one minute in each ten.
fn scout_seconds(receives: u32) -> u64 {
    SCOUT_SECONDS - u64::from(receives) * 41 % 120
}

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
            let may_go = waits && deferral.hide > SCOUT_SECONDS && asked <= SCOUT_SECONDS && !is_in_vain;
            let seconds = scout_seconds(case.letter.sqs.receive_count);
            let may_be_down = is_down || memory.failing.is_relapsing(&target);
            if may_go && may_be_down && memory.scouts.send(&target, seconds, now.age) {
                deferral.hide = seconds;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_scouts_of_a_letter_are_of_different_lengths() {
        let lengths: BTreeSet<_> = (1..=12).map(scout_seconds).collect();
        assert_eq!(lengths.len(), 12);
        assert!(lengths.iter().all(|seconds| (481..=600).contains(seconds)), "{lengths:?}");
    }

    #[test]
    fn each_endpoint_has_one_scout_until_it_comes_back_or_the_endpoint_does() {
        let targets = ["a", "b"].map(|name| TargetName::read(&format!("https://{name}.example/")));
        let mut scouts = Scouts::default();
        let sends = |scouts: &mut Scouts, target: usize, second: u64| {
            scouts.send(&targets[target], 600, Duration::from_secs(second))
        };
        assert!(sends(&mut scouts, 0, 1_000) && sends(&mut scouts, 1, 1_000));
        assert!(!sends(&mut scouts, 0, 1_599) && sends(&mut scouts, 0, 1_600));
        scouts.forget(&targets[0], Duration::from_secs(1_599));
        assert!(!sends(&mut scouts, 0, 1_601), "it was sent after that");
        scouts.forget(&targets[0], Duration::from_secs(1_600));
        assert!(sends(&mut scouts, 0, 1_602));
    }
}
