//! The letters that replays have sent, for readers of the archive.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use redrive_archive::{ArchiveObject, LetterIdentity, LocatedRecord};

use super::error::ReplayError;
use super::ledger::UnitLedger;
use super::replay_store::CONCURRENT_DOCUMENTS;
use super::replays::StoredReplays;
use super::unit::Unit;

/// The letters that replays have sent. It holds those of one hour of a queue at a time.
#[derive(Debug)]
pub struct SentLetters {
    replays: StoredReplays,
    /// The key of the object that was last asked about.
    key: Arc<str>,
    /// Its queue.
    queue: String,
    /// The folders of that queue's hours that a replay has touched.
    hours: HashSet<String>,
    /// The folder of the object's hour.
    hour: String,
    /// The letters of that hour, each with the id of the latest replay that has sent it.
    letters: HashMap<LetterIdentity, Arc<str>>,
}

impl SentLetters {
    /// Creates the lookup for the replays of one place.
    #[must_use]
    pub fn new(replays: StoredReplays) -> Self {
        Self {
            replays,
            key: "".into(),
            queue: String::new(),
            hours: HashSet::new(),
            hour: String::new(),
            letters: HashMap::new(),
        }
    }

    /// Reports whether some replay has sent a letter, as [`SentLetters::by`] does.
    ///
    /// # Errors
    ///
    /// [`ReplayError`].
    pub async fn has(&mut self, letter: &LocatedRecord) -> Result<bool, ReplayError> {
        Ok(self.by(letter).await?.is_some())
    }

    /// Returns the id of the latest replay that has sent a letter. A letter that a replay may have sent, without knowing it,
    /// counts as not sent. Each ledger is read once if the letters come in the order of the archive.
    ///
    /// # Errors
    ///
    /// [`ReplayError`].
    pub async fn by(&mut self, letter: &LocatedRecord) -> Result<Option<&str>, ReplayError> {
        self.of(&letter.key, letter.record.identity()).await
    }

    /// Returns the id of the latest replay that has sent a letter, which lies in the object with this key.
    ///
    /// # Errors
    ///
    /// [`ReplayError`].
    pub async fn of(&mut self, key: &Arc<str>, letter: LetterIdentity) -> Result<Option<&str>, ReplayError> {
        if *key != self.key {
            let object = ArchiveObject::new(Arc::clone(key), 0, None);
            self.look(object.queue(), &object.hour()).await?;
            self.key = object.key;
        }
        Ok(self.letters.get(&letter).map(|replay| &**replay))
    }

    async fn look(&mut self, queue: &str, hour: &str) -> Result<(), ReplayError> {
        let store = &self.replays.store;
        if self.queue != queue {
            let folders = store.list(&Unit::queue_folder(queue), Some("/")).await?;
            (self.queue, self.hours) = (queue.to_owned(), folders.into_iter().collect());
        }
        let folder = Unit::folder(queue, hour);
        if self.hour == folder {
            return Ok(());
        }
        let mut letters: HashMap<LetterIdentity, Arc<str>> = HashMap::new();
        if self.hours.contains(&folder) {
            let keys = store.list(&folder, None).await?.into_iter();
            let keys = keys.filter(|key| Unit::number_of(key).is_some());
            let mut ledgers = stream::iter(keys)
                .map(|key| async move { store.read::<UnitLedger>(&key).await })
                .buffer_unordered(CONCURRENT_DOCUMENTS);
            while let Some(ledger) = ledgers.next().await {
                let Some(found) = ledger? else { continue };
                for (replay, sent) in found.document.sent_by() {
                    let replay: Arc<str> = replay.into();
                    for letter in sent {
                        let latest = letters.entry(*letter).or_insert_with(|| Arc::clone(&replay));
                        // Ids begin with the time.
                        if replay > *latest {
                            latest.clone_from(&replay);
                        }
                    }
                }
            }
        }
        (self.hour, self.letters) = (folder, letters);
        Ok(())
    }
}
