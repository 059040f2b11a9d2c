//! The work on one unit: what of it is to be sent, and the sending, with its ledger before and after.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use jiff::SignedDuration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::control::{Control, NAP, Pace};
use super::error::ReplayError;
use super::given::Records;
use super::kept::key_of;
use super::ledger::{Entry, Known, Ledger};
use super::letter::{At, NotReplayable, Replayable};
use super::letters::{Config, Judged};
use super::plan::Unit;
use super::request::Request;
use super::requeue::{Answers, Of};
use super::run::Replay;
use super::state::{Counts, State};
use super::store::{Condition, Found};
use crate::archive::{Found as Walked, Holds, Identity, Selection, Unread, Walk, WhyUnread};
use crate::failure::{Failure, FailureClass};
use crate::policy::Policy;

/// Letters that are sent between two writes of a ledger: what a crash can repeat.
const MAX_BATCH: usize = 1000;

/// The same towards a FIFO queue, where a group's letters go one after the other.
const MAX_FIFO_BATCH: usize = 100;

/// Bytes of the same.
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// How long a claim holds that is not renewed.
const LEASE: SignedDuration = SignedDuration::from_secs(60);

/// How old a claim may be when letters are sent under it: they are through before it ends.
const FRESH: Duration = Duration::from_secs(20);

/// How long a worker waits for another that is alive.
const PATIENCE: Duration = Duration::from_mins(3);

/// Between two looks at another's claim.
const LOOK: Duration = Duration::from_secs(5);

/// Ledgers of an hour that are read at once.
const LEDGERS_AT_ONCE: usize = 16;

/// Times in a row that the requeue may take no letter of a batch.
const TRIES: u32 = 3;

/// What every worker of a replay works with.
pub(super) struct Bench<'r> {
    pub(super) replay: &'r Replay,
    pub(super) id: &'r str,
    pub(super) request: &'r Request,
    pub(super) selection: &'r Selection,
    pub(super) policy: Option<&'r Policy>,
    /// Records of each unit that were given; none where the archive is read.
    pub(super) given: Option<&'r HashMap<String, Records>>,
    pub(super) pace: &'r Pace,
    /// Letters that may still go before it is looked at what came back.
    pub(super) budget: &'r AtomicU64,
    pub(super) control: &'r dyn Control,
    /// Tells this worker from others.
    pub(super) token: &'r str,
    /// Other replays, by id: whether their letters in doubt were freed.
    pub(super) freed: Mutex<HashMap<String, bool>>,
}

/// A unit as it was read.
pub(super) struct Read {
    ledger: Ledger,
    etag: Option<String>,
    freed: HashSet<String>,
    /// None where the replay is through with it.
    records: Option<Records>,
    counts: Counts,
}

/// What came of the work on a unit.
#[derive(Debug)]
pub(super) struct Worked {
    /// What came of the unit so far, in this replay.
    pub(super) counts: Counts,
    /// Letters of it that were sent just now.
    pub(super) sent: u64,
    pub(super) end: End,
}

/// Letters of an hour that were met: what a crash of the function has archived twice goes once.
#[derive(Debug, Default)]
pub(super) struct Met {
    /// How many are remembered at least.
    most: usize,
    /// The latest letters.
    new: HashMap<Identity, Place>,
    /// Those before them. What came still earlier is forgotten, so that memory stays bounded.
    old: HashMap<Identity, Place>,
}

/// Letters of hours that all workers together remember, at least.
const REMEMBERED: usize = 250_000;

/// Where a letter was met.
#[derive(Debug, Clone, Copy)]
struct Place {
    unit: usize,
    /// Whether some replay has sent it.
    sent: bool,
}

/// What a unit holds for a replay.
struct Sorted {
    to_send: VecDeque<Replayable>,
    counts: Counts,
    /// Its letters.
    met: HashSet<Identity>,
    /// Letters that were sent as they lie in another unit of the hour.
    doubles: Vec<Identity>,
}

/// How the work on a unit ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// Nothing is left of it.
    Done,
    /// As many letters went as the stage allows.
    Enough,
    /// As many letters went as may before it is looked at what came back.
    Paused,
    /// Another replay has worked on it since it was read.
    Changed,
    /// It was told to stop.
    Interrupted,
    /// The requeue takes no letters.
    Failed(String),
}

impl Bench<'_> {
    /// Reads a unit: first its ledger, then its letters.
    pub(super) async fn read(&self, unit: &Unit) -> Result<Option<Read>, ReplayError> {
        let Some((ledger, etag)) = self.ledger(unit).await? else { return Ok(None) };
        let freed = self.freed_of(&ledger).await?;
        let mut read = Read { ledger, etag, freed, records: None, counts: Counts::default() };
        if read.ledger.entry(self.id).is_some_and(|entry| entry.done.is_some()) {
            return Ok(Some(read));
        }
        let records = match self.given {
            Some(given) => given.get(&unit.key()).cloned().unwrap_or_default(),
            None => self.records(unit, &mut read.counts).await?,
        };
        read.records = Some(records);
        Ok(Some(read))
    }

    /// The ledger of a unit on which nobody is at work; none where it must stop before.
    async fn ledger(&self, unit: &Unit) -> Result<Option<(Ledger, Option<String>)>, ReplayError> {
        let began = Instant::now();
        loop {
            let found = self.replay.kept.store.read::<Ledger>(&unit.key()).await?;
            let Some(Found { document: ledger, etag, age }) = found else {
                return Ok(Some((Ledger::new(), None)));
            };
            let claim = ledger.claim.as_ref().filter(|claim| claim.worker != self.token && age < LEASE);
            let Some(claim) = claim else { return Ok(Some((ledger, Some(etag)))) };
            if began.elapsed() >= PATIENCE {
                return Err(ReplayError::Busy(claim.replay.clone()));
            }
            let look = Instant::now() + LOOK;
            while Instant::now() < look {
                if self.control.stop() {
                    return Ok(None);
                }
                sleep(NAP).await;
            }
        }
    }

    /// The other replays of a ledger whose letters in doubt were freed.
    async fn freed_of(&self, ledger: &Ledger) -> Result<HashSet<String>, ReplayError> {
        let mut all = HashSet::new();
        for other in ledger.in_doubt_of(self.id) {
            let mut known = self.freed.lock().await;
            let is_freed = if let Some(is_freed) = known.get(other) {
                *is_freed
            } else {
                let state = self.replay.kept.store.read::<State>(&key_of(other)).await?;
                let is_freed = state.is_some_and(|state| state.document.freed.is_some());
                known.insert(other.to_owned(), is_freed);
                is_freed
            };
            if is_freed {
                all.insert(other.to_owned());
            }
        }
        Ok(all)
    }

    /// The records of a unit that belong to the selection.
    async fn records(&self, unit: &Unit, counts: &mut Counts) -> Result<Records, ReplayError> {
        let folder = format!("{}{}", self.replay.folder(), unit.objects());
        // What the names of an hour begin with; those of a day without times may begin with anything.
        let hour = if unit.hour.len() > 8 { unit.hour.as_str() } else { "" };
        let first = unit.range.first.as_deref().unwrap_or(hour);
        let before = unit.range.before.clone().unwrap_or_else(|| format!("{hour}~"));
        let mut listing = self.replay.listing(&format!("{folder}{first}"), &format!("{folder}{before}"));
        let mut objects = Vec::new();
        while let Some(object) = listing.next().await {
            let object = object.map_err(unread)?;
            if unit.holds(&object) && self.selection.holds(&object) != Holds::None {
                objects.push(object);
            }
        }
        let mut walk = Walk::over(self.replay.s3.clone(), &self.replay.bucket, objects, self.selection);
        let mut records = Vec::new();
        while let Some(found) = walk.next().await {
            match found {
                Walked::Letter(archived) => {
                    let at = At { key: archived.key.to_string(), line: Some(archived.line) };
                    records.push((at, archived.record, false));
                }
                Walked::Unread(Unread { key, line, why: WhyUnread::Line(why) }) => {
                    counts.unreadable += 1;
                    self.control.left_out(&At { key: key.to_string(), line }, &why.to_string());
                }
                // It was deleted since it was listed, as a lifecycle rule does.
                Walked::Unread(Unread { why: WhyUnread::Call(failure), .. })
                    if failure.code == "NoSuchKey" => {}
                // It will not be readable in a minute either, and must not hold up the others.
                Walked::Unread(Unread { key, line, why: why @ WhyUnread::Call(_) }) if why.is_lasting() => {
                    counts.unreadable += 1;
                    self.control.left_out(&At { key: key.to_string(), line }, &why.to_string());
                }
                Walked::Unread(failed) => return Err(unread(failed)),
            }
        }
        Ok(records)
    }

    /// Sends what is left of a unit, `most` letters of it in all. `met` are the letters of its hour that were met before.
    pub(super) async fn work(
        &self,
        unit: &Unit,
        read: Read,
        most: Option<u64>,
        met: &mut Met,
    ) -> Result<Worked, ReplayError> {
        let Read { mut ledger, mut etag, freed, records, counts } = read;
        let own = ledger.entry(self.id).cloned().unwrap_or_default();
        let Some(records) = records else {
            self.remember(unit, &ledger, met);
            return Ok(Worked { counts: own.done.unwrap_or_default(), sent: 0, end: End::Done });
        };
        let known = ledger.known(self.id, self.request.again, &freed);
        let sorted = self.sort(unit, records, counts, &known, &own, met);
        let Sorted { to_send: mut waiting, mut counts, met: of_unit, doubles } = sorted;
        let room = most.map_or(usize::MAX, |most| {
            usize::try_from(most.saturating_sub(own.handled())).unwrap_or(usize::MAX)
        });
        let mut end = if waiting.len() > room { End::Enough } else { End::Done };
        waiting.truncate(room);

        let is_touched = !waiting.is_empty() || !doubles.is_empty() || own != Entry::default();
        let (mut trouble, mut is_ours) = (0, false);
        while !waiting.is_empty() {
            let batch = self.next_batch(&mut waiting);
            if batch.is_empty() {
                end = End::Paused;
                break;
            }
            if !self.pace.turn(batch.len() as u64, || self.control.stop()).await {
                end = End::Interrupted;
                break;
            }
            let identities = batch.iter().map(|replayable| replayable.identity).collect();
            ledger.entry_mut(self.id).begin(identities);
            for attempt in 1.. {
                // Some clocks stand still while a machine sleeps, and it may have lost its claim meanwhile.
                let (began, wall) = (Instant::now(), self.replay.kept.clock.now());
                ledger.claim(self.id, self.token);
                match self.write(unit, &ledger, etag.as_deref()).await? {
                    Some(written) => etag = Some(written),
                    None if is_ours => return Err(ReplayError::TakenUp(self.id.to_owned())),
                    None => return Ok(Worked { counts, sent: 0, end: End::Changed }),
                }
                is_ours = true;
                let took = self.replay.kept.clock.now().duration_since(wall);
                if began.elapsed() <= FRESH && took.unsigned_abs() <= FRESH {
                    break;
                }
                if attempt == TRIES {
                    let slow = Failure::ours(FailureClass::Transient, "DeadlineExceeded");
                    return Err(ReplayError::failed(format!("writing {}", unit.key()), slow));
                }
            }
            let of = Of { id: self.id, request: self.request };
            let answers = self.replay.requeue.send(batch, of, self.replay.kept.clock.now()).await;
            let handled = ledger.entry_mut(self.id).handled();
            let failure = self.note(ledger.entry_mut(self.id), answers, &mut waiting);
            if ledger.entry_mut(self.id).handled() > handled {
                trouble = 0;
            }
            let Some(failure) = failure else { continue };
            trouble += 1;
            if trouble >= TRIES {
                let (code, class) = (&failure.code, failure.class.name());
                end = End::Failed(format!("the requeue does not take letters: {code} ({class})"));
                break;
            }
            sleep(Duration::from_secs(u64::from(trouble))).await;
        }

        let entry = ledger.entry_mut(self.id);
        counts.sent = entry.sent.len() as u64;
        counts.refused = entry.refused.len() as u64;
        counts.repeated = entry.repeated;
        entry.doubles.extend(doubles);
        entry.doubles.sort_unstable();
        entry.doubles.dedup();
        if is_touched {
            entry.done = (end == End::Done).then(|| counts.clone());
            ledger.claim = None;
            if self.write(unit, &ledger, etag.as_deref()).await?.is_none() {
                let taken_up = || ReplayError::TakenUp(self.id.to_owned());
                return if is_ours {
                    Err(taken_up())
                } else {
                    Ok(Worked { counts, sent: 0, end: End::Changed })
                };
            }
        }
        met.add(unit.number, false, of_unit);
        self.remember(unit, &ledger, met);
        let sent = counts.sent.saturating_sub(own.sent.len() as u64);
        Ok(Worked { counts, sent, end })
    }

    /// Counts what a replay would send of a unit.
    pub(super) fn count(&self, unit: &Unit, read: Read, met: &mut Met) -> Counts {
        let Read { ledger, freed, records, counts, .. } = read;
        let known = ledger.known(self.id, self.request.again, &freed);
        let own = ledger.entry(self.id).cloned().unwrap_or_default();
        let sorted = self.sort(unit, records.unwrap_or_default(), counts, &known, &own, met);
        met.add(unit.number, false, sorted.met);
        self.remember(unit, &ledger, met);
        Counts { sent: sorted.to_send.len() as u64, ..sorted.counts }
    }

    /// Reads what is known of the letters of a whole hour, whichever replay it was: a letter that was archived twice may
    /// have been sent as it lies in another unit.
    pub(super) async fn met_in(&self, hour: &Unit) -> Result<Met, ReplayError> {
        let folder = Unit::folder(&hour.queue, &hour.hour);
        let store = &self.replay.kept.store;
        let keys = store.list(&folder, None).await?.into_iter();
        let keys = keys.filter_map(|key| Some((Unit::number_of(&key)?, key)));
        let mut ledgers =
            stream::iter(keys)
                .map(|(number, key)| async move {
                    Ok::<_, ReplayError>((number, store.read::<Ledger>(&key).await?))
                })
                .buffered(LEDGERS_AT_ONCE);
        let mut met = Met::new(self.replay.workers);
        while let Some(ledger) = ledgers.next().await {
            if let (number, Some(found)) = ledger? {
                met.add(number, true, found.document.sent(self.own_only()).copied());
            }
        }
        Ok(met)
    }

    /// Notes which letters of a unit were sent.
    fn remember(&self, unit: &Unit, ledger: &Ledger, met: &mut Met) {
        met.add(unit.number, true, ledger.sent(self.own_only()).copied());
    }

    /// The replay whose sending alone counts: where letters go again, it is this one.
    fn own_only(&self) -> Option<&str> {
        self.request.again.then_some(self.id)
    }

    /// Sorts out what is to be sent of a unit. The rest is counted, and told the first time.
    fn sort(
        &self,
        unit: &Unit,
        records: Records,
        counts: Counts,
        known: &HashMap<Identity, Known>,
        own: &Entry,
        met: &Met,
    ) -> Sorted {
        let config = Config { request: self.request, requeue: &self.replay.requeue.arn, policy: self.policy };
        let is_first = *own == Entry::default();
        let own: HashSet<_> = own.sent.iter().chain(&own.refused).copied().collect();
        let mut sorted =
            Sorted { to_send: VecDeque::new(), counts, met: HashSet::new(), doubles: Vec::new() };
        for (at, record, edited) in records {
            let identity = record.identity();
            let elsewhere = met.elsewhere(unit.number, &identity);
            if elsewhere.is_some() || !sorted.met.insert(identity) {
                sorted.counts.doubles += 1;
                if elsewhere == Some(true) {
                    sorted.doubles.push(identity);
                }
                continue;
            }
            let why = match known.get(&identity) {
                Some(Known::Done) => {
                    sorted.counts.already_replayed += u64::from(!own.contains(&identity));
                    continue;
                }
                Some(Known::InDoubt) => Judged::NotReplayable(NotReplayable::InDoubt),
                Some(Known::Again) | None => config.judge(at.clone(), &record, edited),
            };
            let why = match why {
                Judged::Replayable(replayable) => {
                    sorted.to_send.push_back(*replayable);
                    continue;
                }
                Judged::NotReplayable(why) => {
                    *sorted.counts.not_replayable.entry(why.name().to_owned()).or_default() += 1;
                    why.why().to_owned()
                }
                Judged::Bad(bad) => {
                    sorted.counts.unreadable += 1;
                    bad.to_string()
                }
            };
            if is_first {
                self.control.left_out(&at, &why);
            }
        }
        sorted
    }

    fn next_batch(&self, waiting: &mut VecDeque<Replayable>) -> Vec<Replayable> {
        let most = if self.replay.requeue.arn.is_fifo() { MAX_FIFO_BATCH } else { MAX_BATCH };
        // Not more than go in a second, so that it can be stopped.
        let most = most.min(self.request.rate.try_into().unwrap_or(usize::MAX)).max(1);
        let most = most.min(usize::try_from(self.budget.load(Ordering::Relaxed)).unwrap_or(usize::MAX));
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < most
            && bytes < MAX_BATCH_BYTES
            && let Some(replayable) = waiting.pop_front()
        {
            bytes += replayable.letter.sqs.body.len();
            batch.push(replayable);
        }
        // Nobody else looks between these two.
        self.budget.fetch_sub(batch.len() as u64, Ordering::Relaxed);
        batch
    }

    /// Notes what became of a batch; the answer is why some of it must go once more.
    fn note(
        &self,
        entry: &mut Entry,
        answers: Answers,
        waiting: &mut VecDeque<Replayable>,
    ) -> Option<Failure> {
        let Answers { sent, refused, left, failure } = answers;
        for (replayable, failure) in &refused {
            self.control.left_out(&replayable.at, &format!("refused by SQS: {}", failure.code));
        }
        let sent: Vec<_> = sent.iter().map(|replayable| replayable.identity).collect();
        let refused: Vec<_> = refused.iter().map(|(replayable, _)| replayable.identity).collect();
        let not_sent = left.iter().filter(|(_, doubtful)| !doubtful);
        let not_sent: Vec<_> = not_sent.map(|(replayable, _)| replayable.identity).collect();
        entry.end(&sent, &refused, &not_sent);
        for (replayable, _) in left.into_iter().rev() {
            waiting.push_front(replayable);
        }
        failure
    }

    /// Writes a ledger over the one of this `ETag`; answers its own, or none where another was there.
    async fn write(
        &self,
        unit: &Unit,
        ledger: &Ledger,
        etag: Option<&str>,
    ) -> Result<Option<String>, ReplayError> {
        self.replay.kept.store.write(&unit.key(), ledger, Condition::of(etag)).await
    }
}

impl Met {
    /// Remembers letters of an hour, for one of so many workers.
    pub(super) fn new(workers: usize) -> Self {
        Self { most: REMEMBERED / workers.max(1), ..Self::default() }
    }

    /// Adds letters of a unit.
    fn add(&mut self, unit: usize, sent: bool, letters: impl IntoIterator<Item = Identity>) {
        for letter in letters {
            if self.new.len() >= self.most {
                self.old = std::mem::take(&mut self.new);
            }
            let place = self.new.entry(letter).or_insert(Place { unit, sent });
            place.sent |= sent;
        }
    }

    /// Whether a letter was met in another unit, and whether it was sent there.
    fn elsewhere(&self, unit: usize, letter: &Identity) -> Option<bool> {
        let place = self.new.get(letter).or_else(|| self.old.get(letter))?;
        (place.unit != unit).then_some(place.sent)
    }
}

pub(super) fn unread(unread: Unread) -> ReplayError {
    let failure = match unread.why {
        WhyUnread::Call(failure) => failure,
        WhyUnread::Line(_) => Failure::ours(FailureClass::Transient, "Unreadable"),
    };
    ReplayError::failed(format!("reading {}", unread.key), failure)
}
