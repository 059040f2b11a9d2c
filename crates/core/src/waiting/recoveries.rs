//! The document of recoveries: which endpoints are down, which are back, and how far the list of the letters that wait for
//! them has been woken. All instances of the function share it.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::endpoint::TargetName;

/// The version of the document.
const VERSION: u32 = 1;

/// The greatest size of the document, in bytes.
pub const MAX_RECOVERIES_BYTES: usize = 512 * 1024;

/// The largest number of endpoints in the document. Those that were down first are left out.
const MAX_ENDPOINTS: usize = 500;

/// The time by which the clocks of two instances may differ.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_mins(1);

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
            known.down_since.is_none_or(|at| at <= latest)
                && known.recovered_at.is_none_or(|at| at <= latest)
                && known.place.as_ref().is_none_or(is_key)
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

    /// Returns the endpoint, to change it. One that is unknown is added.
    pub fn add(&mut self, queue: &str, target: &TargetName) -> &mut EndpointRecovery {
        let known = self.0.iter().position(|one| one.queue == queue && one.target == *target);
        let index = known.unwrap_or_else(|| {
            if self.0.len() >= MAX_ENDPOINTS {
                self.0.remove(0);
            }
            self.0.push(EndpointRecovery {
                queue: queue.to_owned(),
                target: target.clone(),
                down_since: None,
                error: None,
                recovered_at: None,
                place: None,
                is_done: false,
            });
            self.0.len() - 1
        });
        &mut self.0[index]
    }

    /// Leaves out endpoints.
    pub fn retain(&mut self, keeps: impl FnMut(&EndpointRecovery) -> bool) {
        self.0.retain(keeps);
    }
}
