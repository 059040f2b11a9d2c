//! The document of recoveries: which endpoints are down, which are back, and how far the list of the letters that wait for
//! them has been woken. All instances of the function share it.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::WaitingLetter;
use crate::endpoint::TargetName;

/// The version of the document.
const VERSION: u32 = 1;

/// The greatest size of the document, in bytes.
pub const MAX_RECOVERIES_BYTES: usize = 512 * 1024;

/// The largest number of endpoints in the document. Those that were back first are left out, then those that were down first.
const MAX_ENDPOINTS: usize = 500;

/// The time by which the clocks of two instances may differ.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_mins(1);

/// The shortest time between two notices that one endpoint is down, over all instances.
const BETWEEN_NOTICES: SignedDuration = SignedDuration::from_mins(15);

/// The longest place, in bytes.
const MAX_PLACE: usize = 600;

/// The endpoints that are down or were lately.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recoveries(Vec<EndpointRecovery>);

/// One endpoint, and the letters that wait for it in one queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointRecovery {
    /// The name of the queue.
    pub queue: String,
    /// The endpoint.
    pub target: TargetName,
    /// The time of the first failure since it last accepted a letter, while it is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_since: Option<Timestamp>,
    /// The code of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The time when it accepted a letter again. Letters that were listed before are woken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered_at: Option<Timestamp>,
    /// The last key of the list, below the queue's prefix, whose letters were claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// True if every letter that was listed before `recovered_at` is claimed.
    #[serde(default)]
    pub is_done: bool,
    /// The time when the topic of notices was last told that the endpoint is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_down: Option<Timestamp>,
    /// The time when it was last told that the endpoint is back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_recovered: Option<Timestamp>,
}

/// The document as it is written.
#[derive(Debug, Serialize, Deserialize)]
struct RecoveriesDocument {
    version: u32,
    endpoints: Vec<EndpointRecovery>,
}

/// The reason why the document cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRecoveries {
    /// It is larger than anything that the function writes.
    #[error("it is longer than {MAX_RECOVERIES_BYTES} bytes")]
    TooLong,
    /// It is no such document.
    #[error("line {0}, column {1}: it is not what the function writes")]
    Broken(usize, usize),
    /// A newer version of the function has written it.
    #[error("its version is {0}, not {VERSION}")]
    Version(u32),
}

impl Recoveries {
    /// Reads the document.
    ///
    /// # Errors
    ///
    /// [`BadRecoveries`] if it is not what the function writes.
    pub fn parse(json: &[u8]) -> Result<Self, BadRecoveries> {
        if json.len() > MAX_RECOVERIES_BYTES {
            return Err(BadRecoveries::TooLong);
        }
        let document: RecoveriesDocument = serde_json::from_slice(json)
            .map_err(|error| BadRecoveries::Broken(error.line(), error.column()))?;
        if document.version != VERSION {
            return Err(BadRecoveries::Version(document.version));
        }
        let mut endpoints = document.endpoints;
        endpoints.truncate(MAX_ENDPOINTS);
        Ok(Self(endpoints))
    }

    /// Leaves out what nobody can have written until now: a time that lies ahead, or a place that is no key.
    pub fn retain_possible(&mut self, now: Timestamp) {
        let latest = now.saturating_add(CLOCKS_DIFFER).unwrap_or(Timestamp::MAX);
        let is_key = |place: &String| {
            place.len() <= MAX_PLACE
                && place.starts_with("hour=")
                && place.bytes().all(|byte| byte.is_ascii_graphic())
        };
        self.0.retain(|known| {
            let times = [known.down_since, known.recovered_at, known.told_down, known.told_recovered];
            times.into_iter().flatten().all(|at| at <= latest) && known.place.as_ref().is_none_or(is_key)
        });
    }

    /// Returns the document as it is written.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let document = RecoveriesDocument { version: VERSION, endpoints: self.0.clone() };
        serde_json::to_vec(&document).unwrap_or_default()
    }

    /// Returns the endpoints, in the order in which they went down.
    pub fn iter(&self) -> impl Iterator<Item = &EndpointRecovery> {
        self.0.iter()
    }

    /// Returns the endpoints, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut EndpointRecovery> {
        self.0.iter_mut()
    }

    /// Returns the endpoint, for the letters of one queue.
    #[must_use]
    pub fn of(&self, queue: &str, target: &TargetName) -> Option<&EndpointRecovery> {
        self.0.iter().find(|one| one.queue == queue && one.target == *target)
    }

    /// Reports whether a line has been claimed, since its endpoint is back: its letter was woken or is about to be, unless the instance ended. `key` is
    /// that of its object, below the prefix of its queue.
    #[must_use]
    pub fn has_claimed(&self, key: &str, line: &WaitingLetter) -> bool {
        let known = line.target.as_ref().and_then(|target| self.of(line.queue_arn.resource(), target));
        known.is_some_and(|known| {
            line.recovers
                && line.hidden <= known.recovered_at
                && known.place.as_deref().is_some_and(|place| key <= place)
        })
    }

    /// Returns the endpoint, to change it. One that is unknown is added.
    pub fn add(&mut self, queue: &str, target: &TargetName) -> &mut EndpointRecovery {
        let known = self.0.iter().position(|one| one.queue == queue && one.target == *target);
        let index = known.unwrap_or_else(|| {
            if self.0.len() >= MAX_ENDPOINTS {
                let is_finished = |one: &EndpointRecovery| one.is_done && one.down_since.is_none();
                self.0.remove(self.0.iter().position(is_finished).unwrap_or(0));
            }
            self.0.push(EndpointRecovery {
                queue: queue.to_owned(),
                target: target.clone(),
                down_since: None,
                error: None,
                recovered_at: None,
                place: None,
                is_done: false,
                told_down: None,
                told_recovered: None,
            });
            self.0.len() - 1
        });
        &mut self.0[index]
    }

    /// Takes note that it is told now that an endpoint is down, and returns since when it is. Returns `None` if nothing is to
    /// be told: this is told already, or was within a quarter of an hour.
    pub fn tell_down(&mut self, target: &TargetName, now: Timestamp) -> Option<Timestamp> {
        let since = self.of_target(target).filter_map(|known| known.down_since).min()?;
        let (down, recovered) = self.told(target);
        let is_soon = |down| now.duration_since(down) < BETWEEN_NOTICES;
        if down > recovered || down.is_some_and(is_soon) {
            return None;
        }
        self.of_target_mut(target).for_each(|known| known.told_down = Some(now));
        Some(since).max(recovered)
    }

    /// Takes note that it is told now that an endpoint is back which was down since then, and returns since when it was.
    /// Returns `None` if nothing is to be told: the last that was told is not that it is down.
    pub fn tell_recovered(
        &mut self,
        target: &TargetName,
        down_since: Timestamp,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let (down, recovered) = self.told(target);
        if down <= recovered {
            return None;
        }
        self.of_target_mut(target).for_each(|known| known.told_recovered = Some(now));
        Some(down_since).max(recovered)
    }

    /// Returns the times when it was last told that an endpoint is down, and that it is back.
    #[must_use]
    pub fn told(&self, target: &TargetName) -> (Option<Timestamp>, Option<Timestamp>) {
        let down = self.of_target(target).filter_map(|known| known.told_down).max();
        (down, self.of_target(target).filter_map(|known| known.told_recovered).max())
    }

    fn of_target(&self, target: &TargetName) -> impl Iterator<Item = &EndpointRecovery> {
        self.0.iter().filter(move |known| known.target == *target)
    }

    fn of_target_mut(&mut self, target: &TargetName) -> impl Iterator<Item = &mut EndpointRecovery> {
        self.0.iter_mut().filter(move |known| known.target == *target)
    }

    /// Leaves out endpoints.
    pub fn retain(&mut self, keeps: impl FnMut(&EndpointRecovery) -> bool) {
        self.0.retain(keeps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute)
    }

    fn target() -> TargetName {
        TargetName::read("arn:aws:sqs:eu-central-1:123456789012:worker")
    }

    /// Returns a document in which the endpoint is down since this minute, for the letters of a queue.
    fn down(document: &mut Recoveries, queue: &str, minute: i64) {
        let known = document.add(queue, &target());
        known.down_since = Some(at(minute));
    }

    #[test]
    fn an_outage_is_told_once_and_another_a_quarter_of_an_hour_later() {
        let mut document = Recoveries::default();
        assert_eq!(document.tell_down(&target(), at(2)), None, "it is not down");
        down(&mut document, "dlq", 0);
        assert_eq!(document.tell_down(&target(), at(2)), Some(at(0)));
        assert_eq!(document.tell_down(&target(), at(200)), None, "it is told of this outage");

        let mut document = Recoveries::default();
        down(&mut document, "dlq", 0);
        document.tell_down(&target(), at(2));
        document.tell_recovered(&target(), at(0), at(4));
        down(&mut document, "dlq", 5);
        assert_eq!(document.tell_down(&target(), at(16)), None);
        let other = TargetName::read("https://a.example/");
        document.add("dlq", &other).down_since = Some(at(5));
        assert_eq!(document.tell_down(&other, at(16)), Some(at(5)), "another endpoint");
        assert_eq!(document.tell_down(&target(), at(17)), Some(at(5)), "it is still down");
    }

    #[test]
    fn a_recovery_is_told_once_after_each_outage_that_was_told() {
        let mut document = Recoveries::default();
        down(&mut document, "dlq", 0);
        assert_eq!(
            document.tell_recovered(&target(), at(0), at(1)),
            None,
            "nobody was told that it was down"
        );
        document.tell_down(&target(), at(2));
        assert_eq!(document.tell_recovered(&target(), at(0), at(4)), Some(at(0)));
        assert_eq!(document.tell_recovered(&target(), at(0), at(5)), None);
        assert_eq!(document.tell_recovered(&target(), at(5), at(60)), None, "this outage was not told");
        // An instance that has not seen the recovery says that the endpoint is down since before it.
        assert_eq!(document.tell_down(&target(), at(72)), Some(at(4)));
        assert_eq!(document.tell_recovered(&target(), at(0), at(73)), Some(at(4)));
    }

    /// The queue and the requeue have the same endpoints.
    #[test]
    fn an_endpoint_is_told_once_for_all_queues() {
        let mut document = Recoveries::default();
        down(&mut document, "dlq", 1);
        down(&mut document, "requeue", 3);
        assert_eq!(document.tell_down(&target(), at(5)), Some(at(1)), "the earlier time");
        assert_eq!(document.tell_down(&target(), at(25)), None);
        document.retain(|known| known.queue == "requeue");
        assert_eq!(document.tell_down(&target(), at(25)), None, "each entry knows");
        assert_eq!(document.tell_recovered(&target(), at(1), at(26)), Some(at(1)));
    }

    #[test]
    fn endpoints_that_were_back_make_room_before_those_that_are_down() {
        let mut document = Recoveries::default();
        let name = |number: usize| TargetName::read(&format!("https://{number}.example/"));
        for number in 0..MAX_ENDPOINTS {
            let known = document.add("dlq", &name(number));
            if number == 7 {
                known.is_done = true;
            } else {
                known.down_since = Some(at(0));
            }
        }
        document.add("dlq", &name(1_000)).down_since = Some(at(1));
        assert_eq!([0, 7].map(|number| document.of("dlq", &name(number)).is_some()), [true, false]);
        document.add("dlq", &name(1_001));
        assert_eq!(document.of("dlq", &name(0)), None, "all others are down");
        assert_eq!(document.iter().count(), MAX_ENDPOINTS);
    }

    #[test]
    fn what_was_told_is_read_again_unless_nobody_can_have_told_it_yet() {
        let mut document = Recoveries::default();
        down(&mut document, "dlq", 0);
        document.tell_down(&target(), at(2));
        document.tell_recovered(&target(), at(0), at(4));
        let mut read = Recoveries::parse(&document.to_json()).unwrap();
        assert_eq!(read, document);
        read.retain_possible(at(3));
        assert_eq!(read, document, "clocks differ");
        read.retain_possible(at(2));
        assert_eq!(read.iter().count(), 0);
    }
}
