//! The cuts of hours, as they are kept: read ahead, and several written at once. An archive of a year has tens of thousands.

use std::collections::HashMap;

use futures_util::future::{BoxFuture, FutureExt, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use jiff::ToSpan;
use jiff::civil::DateTime;

use super::cut::Cuts;
use super::error::ReplayError;
use super::store::{AT_ONCE, Condition, Found, Store};
use super::unit::Unit;

/// How the hour of a folder is written.
const HOUR: &str = "%Y%m%dT%H";

/// The cuts of hours.
pub(super) struct KeptCuts<'s> {
    store: &'s Store,
    /// Cuts that were read ahead, by their keys.
    ahead: HashMap<String, Option<Found<Cuts>>>,
    /// How many are read the next time: more the longer an archive is found to be.
    next: usize,
    /// Each tells whether nobody else had written meanwhile.
    writes: FuturesUnordered<BoxFuture<'s, Result<bool, ReplayError>>>,
}

impl<'s> KeptCuts<'s> {
    pub(super) fn new(store: &'s Store) -> Self {
        Self { store, ahead: HashMap::new(), next: 1, writes: FuturesUnordered::new() }
    }

    /// Reads the cut of an hour, and those of the hours after it.
    pub(super) async fn read(&mut self, queue: &str, hour: &str) -> Result<Option<Found<Cuts>>, ReplayError> {
        if let Some(found) = self.ahead.remove(&key(queue, hour)) {
            return Ok(found);
        }
        let hours = hours_from(hour, self.next);
        self.next = AT_ONCE.min(self.next * 2);
        let read = hours.iter().map(|hour| async {
            let key = key(queue, hour);
            Ok((key.clone(), self.store.read::<Cuts>(&key).await?))
        });
        let read: Result<_, ReplayError> = join_all(read).await.into_iter().collect();
        self.ahead = read?;
        Ok(self.ahead.remove(&key(queue, hour)).flatten())
    }

    /// Writes the cut of an hour; whether nobody else has written one of those meanwhile that came before it.
    pub(super) async fn write(
        &mut self,
        (queue, hour): (&str, &str),
        cuts: Cuts,
        etag: Option<String>,
    ) -> Result<bool, ReplayError> {
        let (store, key) = (self.store, key(queue, hour));
        let write = async move {
            let condition = Condition::of(etag.as_deref());
            Ok(store.write(&key, &cuts, condition).await?.is_some())
        };
        self.writes.push(write.boxed());
        let mut is_ours = true;
        while self.writes.len() >= AT_ONCE {
            is_ours &= self.written().await?.unwrap_or(true);
        }
        Ok(is_ours)
    }

    /// Waits until all are written; whether nobody else has written one meanwhile.
    pub(super) async fn all_written(mut self) -> Result<bool, ReplayError> {
        let mut is_ours = true;
        while let Some(written) = self.written().await? {
            is_ours &= written;
        }
        Ok(is_ours)
    }

    async fn written(&mut self) -> Result<Option<bool>, ReplayError> {
        self.writes.next().await.transpose()
    }
}

/// So many hours from one on; a day alone where that is none.
fn hours_from(hour: &str, count: usize) -> Vec<String> {
    let Ok(first) = DateTime::strptime(HOUR, hour) else { return vec![hour.to_owned()] };
    let after = |hours: i64| first.checked_add(hours.hours()).ok();
    (0..).map_while(after).take(count).map(|at| at.strftime(HOUR).to_string()).collect()
}

fn key(queue: &str, hour: &str) -> String {
    format!("{}cuts.json", Unit::folder(queue, hour))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_go_on_over_midnight_and_a_day_is_alone() {
        assert_eq!(hours_from("20261231T22", 3), ["20261231T22", "20261231T23", "20270101T00"]);
        assert_eq!(hours_from("20261231", 3), ["20261231"]);
    }
}
