//! The document of orders, and the orders that have ended.
//!
//! A change is written on the condition that nobody else has changed the document since it was read; else the
//! document is read again. So two operators at once lose nothing.

use std::time::Duration;

use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::primitives::ByteStream;
use futures_util::stream::{self, StreamExt};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Control, failed};
use crate::console::{Console, Failed};
use sns_redrive::clients::is_absent;
use sns_redrive::policy::{MAX_ORDERS_BYTES, Order, Orders};
use sns_redrive::waiting::{ended_order_key, ended_orders_prefix, orders_key};

/// The number of tries of a change. A try fails only if somebody else wrote in between.
const TRIES: u32 = 10;

/// The wait before a change is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// The number of ended orders that are read at once.
const AHEAD: usize = 16;

/// The time for which an order stays in the document after its end by S3's clock. The function uses Lambda's
/// clock, which may be behind.
const STAYS: SignedDuration = SignedDuration::from_mins(1);

/// The document as it was read.
struct Document {
    orders: Orders,
    /// The version that was read; `None` if there is no document yet.
    etag: Option<String>,
}

/// A change of the document.
pub(crate) enum Change<'a> {
    /// Puts an order before all others.
    Give(&'a Order),
    /// Takes these orders out.
    Release(&'a [String], &'a Release),
}

/// The author and the reason of a release.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Release {
    pub(crate) at: Timestamp,
    pub(crate) by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
}

/// The record of an order that has ended.
#[derive(Debug, Clone, Serialize)]
struct Ended<'a> {
    #[serde(flatten)]
    order: &'a Order,
    /// The end, by time or by a release.
    ended: End,
}

/// The end of an order.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
enum End {
    ByTime { at: Timestamp },
    By(Release),
}

impl Control {
    /// Returns the orders of the document, if there is one. From then on the console's clock is that of S3,
    /// because this machine's clock may differ from the function's.
    pub(crate) async fn orders(&self, console: &mut Console) -> Result<Orders, Failed> {
        let orders = self.read().await?.orders;
        if let Some(date) = self.time.get() {
            console.go_by(date)?;
        }
        Ok(orders)
    }

    /// Reads the orders, and the time by S3's clock. The clock of this machine goes on as it did.
    pub(crate) async fn orders_and_time(&self) -> Result<(Orders, Option<Timestamp>), Failed> {
        let orders = self.read().await?.orders;
        Ok((orders, self.time.get()))
    }

    /// Changes the document, and removes orders that ended some time ago.
    pub(crate) async fn change(&self, change: &Change<'_>) -> Result<(), Failed> {
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(PAUSE * attempt).await;
            }
            let Document { orders, etag } = self.read().await?;
            // The answer to an earlier try was lost: the order is written already.
            if matches!(change, Change::Give(order) if orders.all().iter().any(|other| other.id == order.id))
            {
                return Ok(());
            }
            let released = match change {
                Change::Give(_) => None,
                Change::Release(ids, release) => Some((*ids, *release)),
            };
            // This machine's clock may be wrong, and would then remove an order that is still in force.
            let until = self.time.get().and_then(|now| now.checked_sub(STAYS).ok()).unwrap_or(Timestamp::MIN);
            let (ended, mut stay) = sorted(orders.all(), released, until);
            if let Change::Give(order) = change {
                stay.insert(0, (*order).clone());
            } else if ended.is_empty() {
                return Ok(());
            }
            let changed = Orders::of(&stay).map_err(|bad| {
                Failed::Work(format!(
                    "the document of orders would become invalid: {bad}\nrelease orders that are no longer needed"
                ))
            })?;
            let mut kept_by_others = Vec::new();
            for ended in &ended {
                if !self.keep(ended, true).await? {
                    kept_by_others.push(ended);
                }
            }
            if self.write(&changed, etag.as_deref()).await? {
                // The orders were in the document until now, so an earlier record of them does not count.
                for ended in kept_by_others {
                    self.keep(ended, false).await?;
                }
                return Ok(());
            }
        }
        let problem = format!(
            "nothing was changed: others changed the orders at the same time, {TRIES} times in a row; try again"
        );
        Err(Failed::Work(problem))
    }

    /// Returns the orders that have ended, as JSON: first those still in this document, then the records, the
    /// newest first.
    pub(crate) async fn ended(&self, orders: &Orders, now: Timestamp) -> Result<Vec<Value>, Failed> {
        let (ended, _) = sorted(orders.all(), None, now);
        let mut all: Vec<_> = ended.iter().map(|ended| json!(ended)).collect();
        // A release that was cut off has already written the record.
        let is_there = |kept: &Value| orders.all().iter().any(|order| kept["id"] == *order.id);
        all.extend(self.kept().await?.into_iter().filter(|kept| !is_there(kept)));
        Ok(all)
    }

    async fn kept(&self) -> Result<Vec<Value>, Failed> {
        let prefix = ended_orders_prefix(&self.prefix);
        let mut pages =
            self.s3.list_objects_v2().bucket(&self.bucket).prefix(&prefix).into_paginator().send();
        let mut keys = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| failed("cannot list the ended orders", &error))?;
            keys.extend(page.contents().iter().filter_map(|object| object.key().map(str::to_owned)));
        }
        // Ids begin with the time of the order.
        keys.reverse();
        let read = stream::iter(keys).map(|key| async move {
            let bytes = self.get(&key).await?.map_or_else(Vec::new, |(bytes, _)| bytes);
            // An object that is not a valid record is shown as far as it can be read.
            Ok::<_, Failed>(serde_json::from_slice(&bytes).unwrap_or(Value::Null))
        });
        let all: Vec<_> = read.buffered(AHEAD).collect().await;
        let all: Result<Vec<Value>, Failed> = all.into_iter().collect();
        Ok(all?.into_iter().filter(Value::is_object).collect())
    }

    async fn read(&self) -> Result<Document, Failed> {
        let key = orders_key(&self.prefix);
        let Some((bytes, etag)) = self.get(&key).await? else {
            return Ok(Document { orders: Orders::default(), etag: None });
        };
        let orders = Orders::parse(&bytes).map_err(|bad| {
            Failed::Work(format!(
                "s3://{}/{key} is not a document of orders that this version of redrivectl can read; it was not \
                 changed:\n{bad}",
                self.bucket
            ))
        })?;
        Ok(Document { orders, etag })
    }

    /// Returns an object with its `ETag`, if it exists.
    async fn get(&self, key: &str) -> Result<Option<(Vec<u8>, Option<String>)>, Failed> {
        let what = format!("cannot read s3://{}/{key}", self.bucket);
        let call = self.s3.get_object().bucket(&self.bucket).key(key);
        let answer = match call.customize().interceptor(self.time.clone()).send().await {
            Ok(answer) => answer,
            Err(error) => {
                let is_absent = is_absent(&self.s3, &self.bucket, key, &error).await;
                return if is_absent { Ok(None) } else { Err(failed(&what, &error)) };
            }
        };
        let most = i64::try_from(MAX_ORDERS_BYTES).unwrap_or(i64::MAX);
        if answer.content_length().is_some_and(|length| length > most) {
            return Err(Failed::Work(format!("{what}: it is larger than {MAX_ORDERS_BYTES} bytes")));
        }
        let etag = answer.e_tag().map(str::to_owned);
        let body = answer.body.collect().await.map_err(|error| Failed::Work(format!("{what}: {error}")))?;
        Ok(Some((body.to_vec(), etag)))
    }

    /// Writes the document. Returns false if somebody else has written it since it was read.
    async fn write(&self, orders: &Orders, etag: Option<&str>) -> Result<bool, Failed> {
        let put = self.s3.put_object().bucket(&self.bucket).key(orders_key(&self.prefix));
        let put = match etag {
            Some(etag) => put.if_match(etag),
            None => put.if_none_match("*"),
        };
        let body = ByteStream::from(orders.to_json().into_bytes());
        match put.content_type("application/json").body(body).send().await {
            Ok(_) => Ok(true),
            Err(error) if is_condition(&error) => Ok(false),
            Err(error) => Err(failed("cannot write the orders", &error)),
        }
    }

    /// Writes the record of an ended order, with `only_first` only if there is none. Returns whether it did.
    async fn keep(&self, ended: &Ended<'_>, only_first: bool) -> Result<bool, Failed> {
        let record = serde_json::to_vec(ended).map_err(|error| Failed::Work(error.to_string()))?;
        let key = ended_order_key(&self.prefix, &ended.order.id);
        let put = self.s3.put_object().bucket(&self.bucket).key(key);
        let put = put.set_if_none_match(only_first.then(|| "*".to_owned()));
        match put.content_type("application/json").body(ByteStream::from(record)).send().await {
            Ok(_) => Ok(true),
            Err(error) if only_first && is_condition(&error) => Ok(false),
            Err(error) => Err(failed("cannot write the record of an ended order", &error)),
        }
    }
}

/// Reports whether a condition failed (412), somebody else is writing (409), or the object is gone (404).
fn is_condition<E: ProvideErrorMetadata>(error: &aws_sdk_s3::error::SdkError<E>) -> bool {
    let status = error.raw_response().map(|raw| raw.status().as_u16());
    matches!(status, Some(404 | 409 | 412)) && error.code() != Some("NoSuchBucket")
}

/// Returns the orders that ended by time until then, or that are released now, and all others.
fn sorted<'o>(
    orders: &'o [Order],
    released: Option<(&[String], &Release)>,
    until: Timestamp,
) -> (Vec<Ended<'o>>, Vec<Order>) {
    let (mut ended, mut stay) = (Vec::new(), Vec::new());
    for order in orders {
        let release = released.filter(|(ids, _)| ids.contains(&order.id)).map(|(_, release)| release.clone());
        let by_time = || order.end().filter(|at| *at <= until).map(|at| End::ByTime { at });
        match release.map(End::By).or_else(by_time) {
            Some(end) => ended.push(Ended { order, ended: end }),
            None => stay.push(order.clone()),
        }
    }
    (ended, stay)
}
