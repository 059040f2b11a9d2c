//! The rate of deliveries towards one endpoint.
//!
//! Each delivery gets a turn. The time between turns follows from the rate. There is no burst: an endpoint
//! that just came back is called at the rate that its owner named, from the first letter on. The rate is
//! shared evenly by the instances of the function that may run at once, since they do not know of each other.

use std::collections::HashMap;
use std::time::Duration;

use crate::endpoint::Endpoint;

/// The largest number of endpoints that are remembered. Those whose turns are over are forgotten first.
const MAX_KEPT: usize = 1_000;

/// The longest time that a letter is put off. Then it asks again, since other instances may have time for it,
/// or fewer letters are left. Coming back costs a receive, and so perhaps a retry: with a shorter time, a
/// letter of a short schedule would have no retry left.
const MAX_PUT_OFF: Duration = Duration::from_hours(1);

/// The turns at endpoints, by the age of the instance.
#[derive(Debug, Clone)]
pub(super) struct Throttle {
    instances: u32,
    next: HashMap<Endpoint, Duration>,
    /// The next turn for a letter that is put off, if some are.
    later: HashMap<Endpoint, Duration>,
}

impl Throttle {
    pub(super) fn new(instances: u32) -> Self {
        Self { instances: instances.max(1), next: HashMap::new(), later: HashMap::new() }
    }

    /// Returns the next turn at an endpoint of this rate, and takes it if it is not after `until`. Each
    /// letter that comes too late gets a turn of its own to come back at, within an hour.
    pub(super) fn turn(
        &mut self,
        endpoint: &Endpoint,
        rate: u32,
        now: Duration,
        until: Duration,
    ) -> EndpointTurn {
        let turn = self.next.get(endpoint).copied().map_or(now, |turn| turn.max(now));
        let wait = Duration::from_secs(self.instances.into()) / rate.max(1);
        for turns in [&mut self.next, &mut self.later] {
            if turns.len() >= MAX_KEPT {
                turns.retain(|_, turn| *turn > now);
            }
        }
        if turn > until {
            let latest = now + MAX_PUT_OFF;
            let later = self.later.get(endpoint).map_or(turn, |later| turn.max(*later)).min(latest);
            self.later.insert(endpoint.clone(), later + wait);
            return EndpointTurn::Later(later);
        }
        self.next.insert(endpoint.clone(), turn + wait);
        EndpointTurn::Taken(turn)
    }

    /// Returns how many letters may go in one request: no more than one second's share of an instance.
    pub(super) fn at_once(&self, rate: u32) -> usize {
        usize::try_from(rate / self.instances).unwrap_or(usize::MAX).max(1)
    }
}

/// A turn at an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndpointTurn {
    /// The letter may go at this time.
    Taken(Duration),
    /// There is no turn in time. The next would be then.
    Later(Duration),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn millis(age: Duration) -> u64 {
        age.as_millis().try_into().unwrap()
    }

    fn queue(name: &str) -> Endpoint {
        Endpoint::Queue(format!("arn:aws:sqs:eu-central-1:123456789012:{name}").parse().unwrap())
    }

    /// Returns the turns of `count` letters for one endpoint.
    fn turns(
        throttle: &mut Throttle,
        name: &str,
        rate: u32,
        now: u64,
        until: u64,
        count: usize,
    ) -> Vec<EndpointTurn> {
        (0..count).map(|_| throttle.turn(&queue(name), rate, at(now), at(until))).collect()
    }

    #[test]
    fn turns_lie_apart_by_the_share_of_one_instance() {
        let expected =
            [EndpointTurn::Taken(at(1000)), EndpointTurn::Taken(at(1500)), EndpointTurn::Taken(at(2000))];
        assert_eq!(turns(&mut Throttle::new(2), "a", 4, 1000, 2000, 3), expected);
    }

    #[test]
    fn what_comes_too_late_has_a_turn_of_its_own_that_is_not_taken() {
        let mut throttle = Throttle::new(1);
        let expected =
            [EndpointTurn::Taken(at(0)), EndpointTurn::Later(at(1000)), EndpointTurn::Later(at(2000))];
        assert_eq!(turns(&mut throttle, "a", 1, 0, 500, 3), expected);
        assert_eq!(turns(&mut throttle, "a", 1, 100, 600, 1), [EndpointTurn::Later(at(3000))]);
        assert_eq!(turns(&mut throttle, "a", 1, 1000, 1500, 1), [EndpointTurn::Taken(at(1000))]);
    }

    /// Sends so many letters that are all there at once, in batches of ten, at one letter a second. Returns
    /// the longest time that one was put off, the time that all took, both in seconds, and the number of
    /// receives.
    fn work_off(throttle: &mut Throttle, letters: u64) -> (u64, u64, usize) {
        let mut waiting: std::collections::BTreeSet<(u64, u64)> = (0..letters).map(|n| (0, n)).collect();
        let (mut now, mut longest, mut receives) = (0, 0, 0);
        while let Some((first, _)) = waiting.first().copied() {
            now = first.max(now);
            let batch: Vec<_> = waiting.iter().take_while(|(at, _)| *at <= now).take(10).copied().collect();
            let mut end = now;
            for letter in batch {
                waiting.remove(&letter);
                receives += 1;
                match throttle.turn(&queue("a"), 1, at(now), at(now + 1_500)) {
                    EndpointTurn::Taken(turn) => end = end.max(millis(turn)),
                    EndpointTurn::Later(turn) => {
                        longest = longest.max(millis(turn) - now);
                        waiting.insert((millis(turn), letter.1));
                    }
                }
            }
            now = end + 10;
        }
        (longest / 1_000, now / 1_000, receives)
    }

    #[test]
    fn a_letter_is_put_off_for_an_hour_at_most_and_the_rate_is_used_to_the_full() {
        for (letters, most, receives) in [(100, 100, 2), (2_000, 2_000, 2), (10_000, 3_600, 3)] {
            let (longest, took, received) = work_off(&mut Throttle::new(1), letters);
            assert!(longest <= most, "{letters}: {longest} s");
            assert!(took <= letters, "{letters}: {took} s");
            assert!(received <= usize::try_from(letters * receives).unwrap(), "{letters}: {received}");
        }
    }

    #[test]
    fn endpoints_do_not_wait_for_each_other() {
        let mut throttle = Throttle::new(1);
        assert_eq!(turns(&mut throttle, "a", 1, 0, 9, 1), [EndpointTurn::Taken(at(0))]);
        assert_eq!(turns(&mut throttle, "b", 1, 0, 9, 1), [EndpointTurn::Taken(at(0))]);
    }

    #[test]
    fn one_request_holds_a_second_of_letters_at_most() {
        assert_eq!([1, 4, 100].map(|rate| Throttle::new(2).at_once(rate)), [1, 2, 50]);
    }
}
