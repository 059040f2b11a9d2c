//! The scouts that are under way: letters that come back soon, to find out whether their endpoint is back.

use std::collections::HashMap;
use std::time::Duration;

use crate::endpoint::TargetName;
use crate::policy::SCOUT_SECONDS;

/// One scout for each endpoint, and the ages of the instance when it was sent and when it comes back.
#[derive(Debug, Default)]
pub(super) struct Scouts(HashMap<TargetName, (Duration, Duration)>);

impl Scouts {
    /// Sends one for so many seconds, unless one is under way. Returns whether it is sent.
    pub(super) fn send(&mut self, target: &TargetName, seconds: u64, age: Duration) -> bool {
        if self.0.get(target).is_some_and(|(_, comes)| age < *comes) {
            return false;
        }
        self.0.retain(|_, (_, comes)| age < *comes);
        self.0.insert(target.clone(), (age, age + Duration::from_secs(seconds)));
        true
    }

    /// Forgets the scout of an endpoint that was back at that age of the instance: it may have been woken. When the endpoint is
    /// down again, another letter is to find out when it is back.
    pub(super) fn forget(&mut self, target: &TargetName, back: Duration) {
        if self.0.get(target).is_some_and(|(sent, _)| *sent <= back) {
            self.0.remove(target);
        }
    }
}

/// Returns how long a letter is hidden as a scout, by the number of its receives. It is not always equally long, since otherwise
/// it would miss an endpoint that works for one minute in each ten.
pub(super) fn scout_seconds(receives: u32) -> u64 {
    SCOUT_SECONDS - u64::from(receives) * 41 % 120
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
            scouts.send(&targets[target], 490, Duration::from_secs(second))
        };
        assert!(sends(&mut scouts, 0, 1_000) && sends(&mut scouts, 1, 1_000));
        assert!(!sends(&mut scouts, 0, 1_489) && sends(&mut scouts, 0, 1_490));
        scouts.forget(&targets[0], Duration::from_secs(1_489));
        assert!(!sends(&mut scouts, 0, 1_491), "it was sent after that");
        scouts.forget(&targets[0], Duration::from_secs(1_490));
        assert!(sends(&mut scouts, 0, 1_492));
    }
}
