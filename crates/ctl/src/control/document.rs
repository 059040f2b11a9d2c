//! The document of overrides, and the overrides that have ended.
//!
//! A change is written on the condition that nobody else has changed the document since it was read; else the
//! document is read again. So two operators at once lose nothing.

use std::time::Duration;

use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::primitives::ByteStream;
use futures_util::stream::{self, StreamExt};
use jiff::{SignedDuration, Timestamp};
use redrive_aws::clients::is_absent;
use redrive_core::policy::{MAX_OVERRIDES_BYTES, Override, Overrides};
use redrive_core::waiting::{ended_override_key, ended_overrides_prefix, overrides_key};
use serde::Serialize;
use serde_json::{Value, json};

use super::{ControlAccess, failed};
use crate::console::{CommandFailure, ToolEnvironment};

/// The number of tries of a change. A try fails only if somebody else wrote in between.
const TRIES: u32 = 10;

/// The wait before a change is tried again.
const CONFLICT_WAIT: Duration = Duration::from_millis(200);

/// The number of ended overrides that are read at once.
const CONCURRENT_READS: usize = 16;

/// The time for which an override stays in the document after its end by S3's clock. The function uses Lambda's
/// clock, which may be behind.
const ENDED_STAY: SignedDuration = SignedDuration::from_mins(1);

/// The document as it was read.
struct ControlDocument {
    overrides: Overrides,
    /// The version that was read; `None` if there is no document yet.
    etag: Option<String>,
}

/// A change of the document.
pub(crate) enum OverrideChange<'a> {
    /// Puts an override before all others.
    Give(&'a Override),
    /// Takes these overrides out.
    Release(&'a [String], &'a ReleaseNote),
}

/// The author and the reason of a release.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ReleaseNote {
    pub(crate) at: Timestamp,
    pub(crate) by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
}

/// The record of an override that has ended.
#[derive(Debug, Clone, Serialize)]
struct EndedOverride<'a> {
    #[serde(flatten)]
    override_: &'a Override,
    /// The end, by time or by a release.
    ended: OverrideEnd,
}

/// The end of an override.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
enum OverrideEnd {
    ByTime { at: Timestamp },
    By(ReleaseNote),
}

impl ControlAccess {
    /// Returns the overrides of the document, if there is one. From then on the environment's clock is that of S3,
    /// because this machine's clock may differ from the function's.
    pub(crate) async fn overrides(&self, console: &mut ToolEnvironment) -> Result<Overrides, CommandFailure> {
        let overrides = self.read().await?.overrides;
        if let Some(date) = self.time.get() {
            console.go_by(date)?;
        }
        Ok(overrides)
    }

    /// Reads the overrides, and the time by S3's clock. The clock of this machine goes on as it did.
    pub(crate) async fn overrides_and_time(&self) -> Result<(Overrides, Option<Timestamp>), CommandFailure> {
        let overrides = self.read().await?.overrides;
        Ok((overrides, self.time.get()))
    }

    /// Changes the document, and removes overrides that ended some time ago.
    pub(crate) async fn change(&self, change: &OverrideChange<'_>) -> Result<(), CommandFailure> {
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(CONFLICT_WAIT * attempt).await;
            }
            let ControlDocument { overrides, etag } = self.read().await?;
            // The answer to an earlier try was lost: the override is written already.
            if matches!(change, OverrideChange::Give(override_) if overrides.all().iter().any(|other| other.id == override_.id))
            {
                return Ok(());
            }
            let released = match change {
                OverrideChange::Give(_) => None,
                OverrideChange::Release(ids, release) => Some((*ids, *release)),
            };
            // This machine's clock may be wrong, and would then remove an override that is still in force.
            let until =
                self.time.get().and_then(|now| now.checked_sub(ENDED_STAY).ok()).unwrap_or(Timestamp::MIN);
            let (ended, mut stay) = sorted(overrides.all(), released, until);
            if let OverrideChange::Give(override_) = change {
                stay.insert(0, (*override_).clone());
            } else if ended.is_empty() {
                return Ok(());
            }
            let changed = Overrides::of(&stay).map_err(|bad| {
                CommandFailure::Work(format!(
                    "the document of overrides would become invalid: {bad}\nrelease overrides that are no longer needed"
                ))
            })?;
            let mut kept_by_others = Vec::new();
            for ended in &ended {
                if !self.keep(ended, true).await? {
                    kept_by_others.push(ended);
                }
            }
            if self.write(&changed, etag.as_deref()).await? {
                // The overrides were in the document until now, so an earlier record of them does not count.
                for ended in kept_by_others {
                    self.keep(ended, false).await?;
                }
                return Ok(());
            }
        }
        let problem = format!(
            "nothing was changed: others changed the overrides at the same time, {TRIES} times in a row; try again"
        );
        Err(CommandFailure::Work(problem))
    }

    /// Returns the overrides that have ended, as JSON: first those still in this document, then the records, the
    /// newest first.
    pub(crate) async fn ended(
        &self,
        overrides: &Overrides,
        now: Timestamp,
    ) -> Result<Vec<Value>, CommandFailure> {
        let (ended, _) = sorted(overrides.all(), None, now);
        let mut all: Vec<_> = ended.iter().map(|ended| json!(ended)).collect();
        // A release that was cut off has already written the record.
        let is_there = |kept: &Value| overrides.all().iter().any(|override_| kept["id"] == *override_.id);
        all.extend(self.kept().await?.into_iter().filter(|kept| !is_there(kept)));
        Ok(all)
    }

    async fn kept(&self) -> Result<Vec<Value>, CommandFailure> {
        let prefix = ended_overrides_prefix(&self.prefix);
        let mut pages =
            self.s3.list_objects_v2().bucket(&self.bucket).prefix(&prefix).into_paginator().send();
        let mut keys = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| failed("cannot list the ended overrides", &error))?;
            keys.extend(page.contents().iter().filter_map(|object| object.key().map(str::to_owned)));
        }
        // Ids begin with the time of the override.
        keys.reverse();
        let read = stream::iter(keys).map(|key| async move {
            let bytes = self.get(&key).await?.map_or_else(Vec::new, |(bytes, _)| bytes);
            // An object that is not a valid record is shown as far as it can be read.
            Ok::<_, CommandFailure>(serde_json::from_slice(&bytes).unwrap_or(Value::Null))
        });
        let all: Vec<_> = read.buffered(CONCURRENT_READS).collect().await;
        let all: Result<Vec<Value>, CommandFailure> = all.into_iter().collect();
        Ok(all?.into_iter().filter(Value::is_object).collect())
    }

    async fn read(&self) -> Result<ControlDocument, CommandFailure> {
        let key = overrides_key(&self.prefix);
        let Some((bytes, etag)) = self.get(&key).await? else {
            return Ok(ControlDocument { overrides: Overrides::default(), etag: None });
        };
        let overrides = Overrides::parse(&bytes).map_err(|bad| {
            CommandFailure::Work(format!(
                "s3://{}/{key} is not a document of overrides that this version of redrivectl can read; it was not \
                 changed:\n{bad}",
                self.bucket
            ))
        })?;
        Ok(ControlDocument { overrides, etag })
    }

    /// Returns an object with its `ETag`, if it exists.
    async fn get(&self, key: &str) -> Result<Option<(Vec<u8>, Option<String>)>, CommandFailure> {
        let what = format!("cannot read s3://{}/{key}", self.bucket);
        let call = self.s3.get_object().bucket(&self.bucket).key(key);
        let answer = match call.customize().interceptor(self.time.clone()).send().await {
            Ok(answer) => answer,
            Err(error) => {
                let is_absent = is_absent(&self.s3, &self.bucket, key, &error).await;
                return if is_absent { Ok(None) } else { Err(failed(&what, &error)) };
            }
        };
        let most = i64::try_from(MAX_OVERRIDES_BYTES).unwrap_or(i64::MAX);
        if answer.content_length().is_some_and(|length| length > most) {
            return Err(CommandFailure::Work(format!(
                "{what}: it is larger than {MAX_OVERRIDES_BYTES} bytes"
            )));
        }
        let etag = answer.e_tag().map(str::to_owned);
        let body =
            answer.body.collect().await.map_err(|error| CommandFailure::Work(format!("{what}: {error}")))?;
        Ok(Some((body.to_vec(), etag)))
    }

    /// Writes the document. Returns false if somebody else has written it since it was read.
    async fn write(&self, overrides: &Overrides, etag: Option<&str>) -> Result<bool, CommandFailure> {
        let put = self.s3.put_object().bucket(&self.bucket).key(overrides_key(&self.prefix));
        let put = match etag {
            Some(etag) => put.if_match(etag),
            None => put.if_none_match("*"),
        };
        let body = ByteStream::from(overrides.to_json().into_bytes());
        match put.content_type("application/json").body(body).send().await {
            Ok(_) => Ok(true),
            Err(error) if is_condition(&error) => Ok(false),
            Err(error) => Err(failed("cannot write the overrides", &error)),
        }
    }

    /// Writes the record of an ended override, with `only_first` only if there is none. Returns whether it did.
    async fn keep(&self, ended: &EndedOverride<'_>, only_first: bool) -> Result<bool, CommandFailure> {
        let record = serde_json::to_vec(ended).map_err(|error| CommandFailure::Work(error.to_string()))?;
        let key = ended_override_key(&self.prefix, &ended.override_.id);
        let put = self.s3.put_object().bucket(&self.bucket).key(key);
        let put = put.set_if_none_match(only_first.then(|| "*".to_owned()));
        match put.content_type("application/json").body(ByteStream::from(record)).send().await {
            Ok(_) => Ok(true),
            Err(error) if only_first && is_condition(&error) => Ok(false),
            Err(error) => Err(failed("cannot write the record of an ended override", &error)),
        }
    }
}

/// Reports whether a condition failed (412), somebody else is writing (409), or the object is gone (404).
fn is_condition<E: ProvideErrorMetadata>(error: &aws_sdk_s3::error::SdkError<E>) -> bool {
    let status = error.raw_response().map(|raw| raw.status().as_u16());
    matches!(status, Some(404 | 409 | 412)) && error.code() != Some("NoSuchBucket")
}

/// Returns the overrides that ended by time until then, or that are released now, and all others.
fn sorted<'o>(
    overrides: &'o [Override],
    released: Option<(&[String], &ReleaseNote)>,
    until: Timestamp,
) -> (Vec<EndedOverride<'o>>, Vec<Override>) {
    let (mut ended, mut stay) = (Vec::new(), Vec::new());
    for override_ in overrides {
        let release =
            released.filter(|(ids, _)| ids.contains(&override_.id)).map(|(_, release)| release.clone());
        let by_time = || override_.end().filter(|at| *at <= until).map(|at| OverrideEnd::ByTime { at });
        match release.map(OverrideEnd::By).or_else(by_time) {
            Some(end) => ended.push(EndedOverride { override_, ended: end }),
            None => stay.push(override_.clone()),
        }
    }
    (ended, stay)
}
