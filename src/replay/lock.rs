//! One replay at a time: an object that says who replays, and until when.
//!
//! It is written only under a condition, so of two that reach for it one gets it. It must be renewed; what a
//! crash leaves behind ends by itself. Freeing it writes it once more, so nobody needs the permission to delete.
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html>

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::error::{ReplayError, failed};
use super::store::{Condition, Store};
use crate::clock::Clock;

/// How long a lock holds without being renewed.
const LEASE: SignedDuration = SignedDuration::from_secs(30);

/// What a lock has left at least when [`Lock::keep`] has looked at it.
const LEAST_LEFT: SignedDuration = SignedDuration::from_secs(20);

const KEY: &str = "lock.json";

/// The format that this version writes.
const VERSION: u8 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Wire {
    version: u8,
    /// Who it is, in words.
    owner: String,
    /// Tells two of the same owner apart.
    token: String,
    until: Timestamp,
}

/// A lock that is held.
#[derive(Debug)]
pub(super) struct Lock<'a> {
    store: &'a Store,
    clock: &'a Clock,
    owner: &'a str,
    token: String,
    etag: String,
    until: Timestamp,
}

impl<'a> Lock<'a> {
    /// Takes the lock, if nobody has it or its time is over.
    pub(super) async fn take(
        store: &'a Store,
        clock: &'a Clock,
        owner: &'a str,
    ) -> Result<Self, ReplayError> {
        // The keys of a hasher are the one source of randomness in the standard library.
        let token = format!("{:016x}", RandomState::new().build_hasher().finish());
        let mut lock = Self { store, clock, owner, token, etag: String::new(), until: Timestamp::MIN };
        if lock.put(Condition::Absent, LEASE).await? {
            return Ok(lock);
        }
        let soon = || plus(clock.now(), LEASE);
        let there = store.get(KEY).await.map_err(failed("reading the lock"))?;
        let Some(there) = there else { return Err(ReplayError::Busy(soon())) };
        // A lock that cannot be read belongs to nobody any more.
        let until = serde_json::from_str::<Wire>(&there.text).map_or(Timestamp::MIN, |wire| wire.until);
        if until > clock.now() {
            return Err(ReplayError::Busy(until));
        }
        if lock.put(Condition::Is(&there.etag), LEASE).await? {
            return Ok(lock);
        }
        Err(ReplayError::Busy(soon()))
    }

    /// Renews the lock where its time gets short: afterwards there is enough for a batch.
    ///
    /// # Errors
    ///
    /// [`ReplayError::LockLost`] where somebody else has it, or S3 took too long. Nothing may be sent then.
    pub(super) async fn keep(&mut self) -> Result<(), ReplayError> {
        if self.left() >= LEAST_LEFT {
            return Ok(());
        }
        let etag = std::mem::take(&mut self.etag);
        let renewed = self.put(Condition::Is(&etag), LEASE).await?;
        if renewed && self.left() >= LEAST_LEFT { Ok(()) } else { Err(ReplayError::LockLost) }
    }

    /// Gives the lock back. If this fails, it ends by itself.
    pub(super) async fn release(mut self) {
        let etag = std::mem::take(&mut self.etag);
        let _ = self.put(Condition::Is(&etag), SignedDuration::ZERO).await;
    }

    fn left(&self) -> SignedDuration {
        self.until.duration_since(self.clock.now())
    }

    async fn put(&mut self, condition: Condition<'_>, lease: SignedDuration) -> Result<bool, ReplayError> {
        let until = plus(self.clock.now(), lease);
        let wire = Wire { version: VERSION, owner: self.owner.to_owned(), token: self.token.clone(), until };
        let written = self.store.put_if(KEY, &wire, condition).await.map_err(failed("writing the lock"))?;
        let taken = written.is_some();
        if let Some(etag) = written {
            (self.etag, self.until) = (etag, until);
        }
        Ok(taken)
    }
}

fn plus(at: Timestamp, time: SignedDuration) -> Timestamp {
    at.saturating_add(time).unwrap_or(Timestamp::MAX)
}
