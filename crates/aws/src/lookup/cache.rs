//! A cache for the answers to look-ups: asked for once, kept for a while, cut off at a deadline.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use redrive_core::batch::RequiredFreshness;
use redrive_core::failure::Failure;
use tokio::time::Instant;

use crate::clients::in_time;
use crate::clock::InstanceClock;

/// The number of calls at the same time. Services allow few look-ups per second.
const CONCURRENT_CALLS: usize = 4;

/// The answers of one kind of look-up.
pub(crate) struct LookupCache<K, V> {
    keeping: CacheLimits,
    clock: InstanceClock,
    kept: Mutex<HashMap<K, CacheEntry<V>>>,
}

/// The limits for keeping answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CacheLimits {
    /// The time for which an answer is valid.
    pub(crate) max_age: Duration,
    /// The pause after a failure in which the same question is not asked again.
    pub(crate) pause: Duration,
    /// The greatest number of keys. The one that becomes invalid first makes room.
    pub(crate) max_kept: usize,
}

/// The result of a look-up without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissedLookup<V> {
    /// The last answer, however old.
    pub(crate) last: Option<V>,
    /// The failure. `None` if no call was made, because the time was over or the pause after a failure goes
    /// on.
    pub(crate) failure: Option<Failure>,
}

struct CacheEntry<V> {
    /// The last answer.
    answer: Option<V>,
    /// `true` if the last call failed.
    failed: bool,
    /// The age of the instance at which to ask again.
    until: Duration,
}

impl<K: Clone + Eq + Hash, V: Clone> LookupCache<K, V> {
    /// Creates an empty cache.
    pub(crate) fn new(keeping: CacheLimits, clock: InstanceClock) -> Self {
        Self { keeping, clock, kept: Mutex::default() }
    }

    /// Looks up each of these keys, several at the same time. It calls `ask` if no answer is kept that
    /// suffices. At `until` all calls are cut off, and no other begins.
    pub(crate) async fn look_up(
        &self,
        keys: impl IntoIterator<Item = K>,
        suffices: RequiredFreshness,
        until: Instant,
        ask: impl AsyncFn(&K) -> Result<V, Failure>,
    ) -> HashMap<K, Result<V, MissedLookup<V>>> {
        let ask = &ask;
        stream::iter(keys)
            .map(|key| async move {
                let answer = self.one(&key, suffices, until, ask).await;
                (key, answer)
            })
            .buffer_unordered(CONCURRENT_CALLS)
            .collect()
            .await
    }

    async fn one(
        &self,
        key: &K,
        suffices: RequiredFreshness,
        until: Instant,
        ask: &impl AsyncFn(&K) -> Result<V, Failure>,
    ) -> Result<V, MissedLookup<V>> {
        let age = self.clock.age();
        let last = match self.kept().get(key) {
            Some(CacheEntry { answer, failed: true, until })
                if age < *until && suffices != RequiredFreshness::Answer =>
            {
                return Err(MissedLookup { last: answer.clone(), failure: None });
            }
            Some(CacheEntry { answer: Some(answer), failed: false, until })
                if age < *until && suffices == RequiredFreshness::Kept =>
            {
                return Ok(answer.clone());
            }
            kept => kept.and_then(|kept| kept.answer.clone()),
        };
        if Instant::now() >= until {
            return Err(MissedLookup { last, failure: None });
        }
        let CacheLimits { max_age, pause, .. } = self.keeping;
        match in_time(until, ask(key)).await {
            Ok(answer) => {
                self.keep(
                    key,
                    CacheEntry { answer: Some(answer.clone()), failed: false, until: age + max_age },
                );
                Ok(answer)
            }
            Err(failure) => {
                if pause > Duration::ZERO {
                    self.keep(key, CacheEntry { answer: last.clone(), failed: true, until: age + pause });
                }
                Err(MissedLookup { last, failure: Some(failure) })
            }
        }
    }

    fn keep(&self, key: &K, answer: CacheEntry<V>) {
        let mut kept = self.kept();
        if kept.len() >= self.keeping.max_kept && !kept.contains_key(key) {
            let first = kept.iter().min_by_key(|(_, kept)| kept.until).map(|(key, _)| key.clone());
            first.and_then(|key| kept.remove(&key));
        }
        kept.insert(key.clone(), answer);
    }
}

impl<K, V> LookupCache<K, V> {
    /// Returns the number of keys in the cache.
    pub(crate) fn len(&self) -> usize {
        self.kept().len()
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<K, CacheEntry<V>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, V> Debug for LookupCache<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LookupCache").field("kept", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;
    use redrive_core::failure::FailureClass;

    const KEEPING: CacheLimits =
        CacheLimits { max_age: Duration::from_mins(1), pause: Duration::from_secs(30), max_kept: 2 };

    /// A test bench: a cache, a service that answers with the second of the call or fails, and the calls so
    /// far.
    struct CacheBench {
        cache: LookupCache<&'static str, i64>,
        now: Arc<AtomicI64>,
        fails: bool,
        calls: Mutex<Vec<&'static str>>,
    }

    impl CacheBench {
        fn new(keeping: CacheLimits) -> Self {
            let now = Arc::new(AtomicI64::new(0));
            let told = Arc::clone(&now);
            let wall = move || Timestamp::from_second(told.load(Ordering::Relaxed)).unwrap();
            // Real time does not count.
            let clock = InstanceClock::from_fns(wall, || Duration::ZERO);
            Self { cache: LookupCache::new(keeping, clock), now, fails: false, calls: Mutex::default() }
        }

        fn at(&self, second: i64) -> &Self {
            self.now.store(second, Ordering::Relaxed);
            self
        }

        async fn look_up(
            &self,
            key: &'static str,
            suffices: RequiredFreshness,
            time: Duration,
        ) -> Result<i64, MissedLookup<i64>> {
            let ask = async |key: &&'static str| {
                self.calls.lock().unwrap().push(key);
                let unreachable = || Failure::ours(FailureClass::Transient, "Unreachable");
                if self.fails { Err(unreachable()) } else { Ok(self.now.load(Ordering::Relaxed)) }
            };
            let mut answers = self.cache.look_up([key], suffices, Instant::now() + time, ask).await;
            answers.remove(key).unwrap()
        }

        async fn get(&self, key: &'static str) -> Result<i64, MissedLookup<i64>> {
            self.look_up(key, RequiredFreshness::Kept, Duration::from_secs(9)).await
        }

        async fn again(&self, key: &'static str) -> Result<i64, MissedLookup<i64>> {
            self.look_up(key, RequiredFreshness::New, Duration::from_secs(9)).await
        }

        fn calls(&self) -> usize {
            self.calls.lock().unwrap().len()
        }
    }

    fn missed(last: Option<i64>, code: Option<&str>) -> Result<i64, MissedLookup<i64>> {
        let failure = code.map(|code| Failure::ours(FailureClass::Transient, code));
        Err(MissedLookup { last, failure })
    }

    #[tokio::test]
    async fn an_answer_is_kept_until_it_is_old_or_asked_for_again() {
        let world = CacheBench::new(KEEPING);
        assert_eq!(world.at(0).get("a").await, Ok(0));
        assert_eq!(world.at(59).get("a").await, Ok(0));
        assert_eq!(world.at(60).get("a").await, Ok(60));
        assert_eq!(world.at(61).again("a").await, Ok(61));
        assert_eq!(world.at(120).get("a").await, Ok(61));
    }

    #[tokio::test]
    async fn a_failure_keeps_the_last_answer_and_nobody_asks_for_a_while() {
        let mut world = CacheBench::new(KEEPING);
        assert_eq!(world.at(0).get("a").await, Ok(0));
        world.fails = true;
        assert_eq!(world.at(60).get("a").await, missed(Some(0), Some("Unreachable")));
        assert_eq!(world.at(89).get("a").await, missed(Some(0), None));
        assert_eq!(world.at(89).again("a").await, missed(Some(0), None));
        assert_eq!(world.calls(), 2);
        let insisted = world.at(89).look_up("a", RequiredFreshness::Answer, Duration::from_secs(9)).await;
        assert_eq!((insisted, world.calls()), (missed(Some(0), Some("Unreachable")), 3));
        assert_eq!(world.at(118).get("a").await, missed(Some(0), None));
        assert_eq!(world.at(119).get("a").await, missed(Some(0), Some("Unreachable")));
        world.fails = false;
        assert_eq!(world.at(149).get("a").await, Ok(149));
    }

    #[tokio::test]
    async fn without_a_pause_a_failure_is_not_kept() {
        let mut world = CacheBench::new(CacheLimits { pause: Duration::ZERO, ..KEEPING });
        world.fails = true;
        assert_eq!(world.get("a").await, missed(None, Some("Unreachable")));
        assert_eq!(world.get("a").await, missed(None, Some("Unreachable")));
        assert_eq!(world.calls(), 2);
    }

    #[tokio::test]
    async fn nobody_asks_when_the_time_is_over() {
        let world = CacheBench::new(KEEPING);
        assert_eq!(
            world.at(0).look_up("a", RequiredFreshness::Kept, Duration::ZERO).await,
            missed(None, None)
        );
        assert_eq!((world.get("a").await, world.calls()), (Ok(0), 1));
        assert_eq!(
            world.at(60).look_up("a", RequiredFreshness::Kept, Duration::ZERO).await,
            missed(Some(0), None)
        );
    }

    #[tokio::test]
    async fn a_call_is_given_up_at_the_deadline() {
        let world = CacheBench::new(KEEPING);
        let until = Instant::now() + Duration::from_millis(5);
        let answers = world
            .cache
            .look_up(["a"], RequiredFreshness::Kept, until, async |_| std::future::pending().await)
            .await;
        assert_eq!(answers["a"], missed(None, Some("DeadlineExceeded")));
    }

    #[tokio::test]
    async fn the_key_whose_time_ends_first_makes_room() {
        let world = CacheBench::new(KEEPING);
        for (second, key) in [(0, "a"), (1, "b"), (2, "a"), (3, "b"), (4, "c")] {
            assert!(world.at(second).get(key).await.is_ok());
        }
        assert_eq!(*world.calls.lock().unwrap(), ["a", "b", "c"]);
        assert_eq!((world.at(5).get("b").await, world.get("a").await), (Ok(1), Ok(5)));
    }

    #[tokio::test]
    async fn an_answer_is_kept_no_longer_though_the_wall_clock_is_set_back() {
        let [wall, ticks] = [3_600, 0].map(|second| Arc::new(AtomicI64::new(second)));
        let (told, told_ticks) = (Arc::clone(&wall), Arc::clone(&ticks));
        let clock = InstanceClock::from_fns(
            move || Timestamp::from_second(told.load(Ordering::Relaxed)).unwrap(),
            move || Duration::from_secs(told_ticks.load(Ordering::Relaxed).unsigned_abs()),
        );
        let cache: LookupCache<&'static str, i64> = LookupCache::new(KEEPING, clock);
        let mut answers = Vec::new();
        for (second, tick) in [(3_600, 0), (0, 59), (1, 60)] {
            wall.store(second, Ordering::Relaxed);
            ticks.store(tick, Ordering::Relaxed);
            let until = Instant::now() + Duration::from_secs(9);
            let answer = cache.look_up(["a"], RequiredFreshness::Kept, until, async |_| Ok(tick)).await;
            answers.push(answer["a"].clone());
        }
        assert_eq!(answers, [Ok(0), Ok(0), Ok(60)]);
    }
}
