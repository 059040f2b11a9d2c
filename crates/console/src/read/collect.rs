//! Collects the letters of a page. It counts archived letters by the archive's keys, reads the newest of
//! them, and reads the list of waiting letters.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::Arc;

use jiff::Timestamp;
use redrive_archive::{
    ArchiveSweep, ArchiveWalk, LetterIdentity, Selection, SweepEnd, UnreadItem, WalkItem, WhyUnread,
};
use redrive_aws::control::{ControlObjects, WaitingLine, WaitingList};
use redrive_core::batch::DocumentRead;
use redrive_core::endpoint::TargetName;
use redrive_core::failure::Failure;
use redrive_core::policy::Overrides;
use redrive_core::waiting::{Recoveries, WaitingLetter};
use redrive_replay::{ReplayError, SentLetters, StoredReplays};
use tokio::time::{Instant, timeout_at};

use super::content::ShownContent;
use super::index::{KeyCounts, known_by_keys};
use super::letter_counts::ChartSpan;
use super::letters::{ArchivedLetter, WaitingOne};
use super::time_limits::PageDeadlines;
use crate::account::{BucketPrefix, ConsoleAccount, ConsoleClients};
use crate::query::{Filter, GroupField};
use crate::text::count;

/// The most pages of the archive's listing, a thousand keys each.
const MAX_LISTING_PAGES: u32 = 200;

/// The most archive objects that are read, and the most bytes of them.
pub(super) const MAX_ARCHIVE_OBJECTS: u32 = 96;
pub(super) const MAX_ARCHIVE_BYTES: u64 = 12 * 1024 * 1024;

/// The most letters that are read from these objects.
const MAX_LETTERS_READ: usize = 10_000;

/// The most objects of the list of waiting letters that are read, and the most bytes of them.
const MAX_WAITING_LIST_OBJECTS: u32 = 96;
const MAX_WAITING_LIST_BYTES: u64 = 12 * 1024 * 1024;

/// The most requests for collecting a page's letters: the above, one listing of the queues' folders, and the
/// list of waiting letters.
pub(crate) const REQUESTS: u32 =
    MAX_LISTING_PAGES + 1 + MAX_ARCHIVE_OBJECTS + MAX_LEDGER_REQUESTS + LIST_REQUESTS;

/// The most requests for the ledgers of replays.
const MAX_LEDGER_REQUESTS: u32 = 64;

/// The most requests for the list of waiting letters: its objects, and 17 pages of its listing.
pub(crate) const LIST_REQUESTS: u32 = MAX_WAITING_LIST_OBJECTS + 17;

/// How many of the newest letters a page shows with their content, if it may.
pub(crate) const MAX_EXAMPLES: usize = 12;

/// The letters that match a filter in a time range.
#[derive(Debug)]
pub(crate) struct CollectedLetters {
    /// The counts that the archive's keys give.
    pub(crate) index: KeyCounts,
    /// True if there may be more letters than the counts say.
    pub(crate) more: bool,
    /// How many letters were read and match the filter as far as the keys know. The rest of the filter may
    /// exclude them.
    pub(crate) read: u64,
    /// Those of them that match the whole filter, the newest first.
    pub(crate) archived: Vec<ArchivedLetter>,
    /// The content of the first of these.
    pub(crate) said: Vec<Option<ShownContent>>,
    pub(crate) waiting: Vec<WaitingOne>,
    /// True if more letters may wait.
    pub(crate) more_waiting: bool,
    /// The parts that could not be read, in words.
    pub(crate) unread: Vec<String>,
}

/// Names a part that could not be read, and says why.
pub(crate) fn unread(what: &str, failure: &Failure) -> String {
    let message = failure.message.as_ref().map_or(String::new(), |message| format!(": {message}"));
    format!("{what}: {}{message}", failure.code)
}

/// Names a part that there was no time to read.
pub(crate) fn too_late(what: &str) -> String {
    format!("{what}: not read in time")
}

/// Names objects and lines that could not be read, and the code with which S3 refused one of them.
fn in_part(failed: u64, what: &str, refused: Option<&str>) -> String {
    let refused = refused.map_or(String::new(), |code| format!(" (s3:GetObject: {code})"));
    format!("{failed} of the objects and lines of {what}{refused}")
}

/// Returns the code with which S3 refused an object.
pub(super) fn refusal(bad: &UnreadItem) -> Option<String> {
    match &bad.why {
        WhyUnread::Call(failure) => Some(failure.code.clone()),
        WhyUnread::Late | WhyUnread::Line(_) => None,
    }
}

/// Names the parts of the archive that were passed over: those that could not be read, and objects left out
/// because the page has read its share of bytes. `refused` is the code with which S3 refused one of them.
pub(super) fn passed_over(failed: u64, refused: Option<&str>, left_out: u64) -> impl Iterator<Item = String> {
    let failed = (failed > 0).then(|| in_part(failed, "the archive", refused));
    let mib = MAX_ARCHIVE_BYTES >> 20;
    let left_out = (left_out > 0)
        .then(|| format!("{} of the archive: a page reads {mib} MiB at most", count(left_out, "object")));
    failed.into_iter().chain(left_out)
}

/// Collects the letters that match a filter in a time range.
pub(crate) async fn collect(
    account: &ConsoleAccount,
    clients: &ConsoleClients,
    of: &Filter,
    span: &ChartSpan,
    times: PageDeadlines,
) -> CollectedLetters {
    let mut index = KeyCounts::default();
    let (swept, waiting) = tokio::join!(
        sweep(account, clients, of, span, times.listed, &mut index),
        read_waiting(account, clients, of, account.clock.now(), times.listed)
    );
    let mut unread = Vec::new();
    let more = match swept {
        Ok(swept) => swept == SweepEnd::Cut,
        Err(why) => {
            unread.push(why);
            true
        }
    };
    let WaitingListPart { letters, more: more_waiting, unread: of_list } = waiting;
    unread.extend(of_list);
    let waiting = letters
        .into_iter()
        .filter(|letter| !letter.claimed && of.takes(|field| letter.fields.get(field)))
        .collect();
    let mut collected = CollectedLetters {
        index,
        more,
        read: 0,
        archived: Vec::new(),
        said: Vec::new(),
        waiting,
        more_waiting,
        unread,
    };
    if let Some(archive) = &account.archive {
        let mut read = Vec::new();
        // `read` fills the page as it goes, so a timeout loses only what was not read yet.
        let reads = collected.read(archive, account, clients, of, span, &mut read);
        if timeout_at(times.end, reads).await.is_err() {
            collected.unread.push(too_late("some objects of the archive"));
        }
        let asks = collected.ask_for_replays(account, clients, read);
        match timeout_at(times.end, asks).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                collected
                    .unread
                    .push(format!("whether replays have sent the letters that were read: {error}"));
            }
            Err(_) => collected.unread.push(too_late("whether replays have sent the letters that were read")),
        }
    }
    // The list keeps a letter until it was due, even if it was archived earlier.
    let gone: HashSet<_> = collected.archived.iter().map(|letter| letter.message_id.as_str()).collect();
    collected.waiting.retain(|letter| !gone.contains(letter.message_id.as_str()));
    let newest = |letter: &ArchivedLetter| std::cmp::Reverse(letter.archived);
    // Only the letters without content are sorted. The others were read in the order of time, and `said` has
    // the same order.
    collected.archived[collected.said.len()..].sort_by_key(newest);
    collected
}

pub(super) async fn sweep(
    account: &ConsoleAccount,
    clients: &ConsoleClients,
    of: &Filter,
    span: &ChartSpan,
    until: Instant,
    index: &mut KeyCounts,
) -> Result<SweepEnd, String> {
    let Some(archive) = &account.archive else { return Ok(SweepEnd::Whole) };
    let BucketPrefix { bucket, prefix } = archive;
    let sweep =
        ArchiveSweep::new(clients.s3.clone(), bucket, prefix, (span.from, span.to), MAX_LISTING_PAGES);
    let queue = of.get(GroupField::Queue);
    let each = |object| index.add(&object, of, span, MAX_ARCHIVE_OBJECTS as usize);
    let swept = timeout_at(until, sweep.run(queue, each)).await;
    let what = "the listing of the archive";
    swept.map_err(|_| too_late(what))?.map_err(|failure| unread(what, &failure))
}

impl CollectedLetters {
    /// Reads letters from the newest objects.
    async fn read(
        &mut self,
        archive: &BucketPrefix,
        account: &ConsoleAccount,
        clients: &ConsoleClients,
        of: &Filter,
        span: &ChartSpan,
        ids: &mut Vec<(Arc<str>, LetterIdentity, usize)>,
    ) {
        let selection = Selection::default();
        let (objects, left_out) = self.index.to_read(MAX_ARCHIVE_OBJECTS as usize, MAX_ARCHIVE_BYTES);
        let mut walk = ArchiveWalk::over(clients.s3.clone(), &archive.bucket, objects, &selection);
        let mut known = HashSet::new();
        let keys = known_by_keys(of);
        let (mut failed, mut refused) = (0_u64, None);
        while let Some(found) = walk.next().await {
            match found {
                WalkItem::Letter(found) => {
                    let letter = ArchivedLetter::from(&*found);
                    let is_in_range = (span.from..span.to).contains(&letter.archived);
                    let is_told = is_in_range && keys.takes(|field| letter.fields.get(field));
                    // Two objects may hold the same letter: the function archives it again if SQS delivers it
                    // twice.
                    if !is_told || !known.insert(found.record.identity()) {
                        continue;
                    }
                    self.read += 1;
                    if of.takes(|field| letter.fields.get(field)) {
                        if self.said.len() < MAX_EXAMPLES {
                            self.said.push(ShownContent::of(&found.record, &account.bodies));
                        }
                        ids.push((Arc::clone(&found.key), found.record.identity(), self.archived.len()));
                        self.archived.push(letter);
                    }
                }
                WalkItem::Erased(_) => {}
                WalkItem::Unread(bad) if bad.why.is_gone() => {}
                WalkItem::Unread(bad) => {
                    failed += 1;
                    refused = refused.or_else(|| refusal(&bad));
                }
            }
            if self.archived.len() >= MAX_LETTERS_READ {
                break;
            }
        }
        self.unread.extend(passed_over(failed, refused.as_deref(), left_out));
    }
}

impl CollectedLetters {
    /// Finds out which of these letters a replay has sent. Each comes with its object's key, its id and its
    /// index.
    async fn ask_for_replays(
        &mut self,
        account: &ConsoleAccount,
        clients: &ConsoleClients,
        mut letters: Vec<(Arc<str>, LetterIdentity, usize)>,
    ) -> Result<(), ReplayError> {
        let Some(BucketPrefix { bucket, prefix }) = &account.control else { return Ok(()) };
        let replays =
            StoredReplays::new(clients.s3.clone(), bucket, prefix, account.clock.clone(), String::new());
        let mut sent = SentLetters::new(replays);
        // Letters of one queue and hour share their ledgers, so sorting saves requests.
        letters.sort();
        for (key, letter, place) in letters {
            let is_sent = sent.of(&key, letter).await?.is_some();
            self.archived.get_mut(place).into_iter().for_each(|letter| letter.replayed = Some(is_sent));
        }
        Ok(())
    }
}

/// The part of the list of waiting letters that was read.
#[derive(Debug, Default)]
pub(crate) struct WaitingListPart {
    /// The waiting letters, in the order in which they are due.
    pub(crate) letters: Vec<WaitingOne>,
    /// True if more letters may wait.
    pub(crate) more: bool,
    /// The parts that could not be read, in words.
    pub(crate) unread: Vec<String>,
}

/// Reads the list of waiting letters: those of one target, if the filter asks for one.
pub(crate) async fn read_waiting(
    account: &ConsoleAccount,
    clients: &ConsoleClients,
    of: &Filter,
    now: Timestamp,
    until: Instant,
) -> WaitingListPart {
    let Some(control) = control(account, clients) else { return WaitingListPart::default() };
    let what = "the list of waiting letters";
    let mut list = WaitingList::default();
    let keep = |_, letter: WaitingLetter| WaitingOne::from(letter);
    let target = of.get(GroupField::Target).map(|target| [TargetName::read(target)]);
    let targets = target.as_ref().map(<[_; 1]>::as_slice);
    let most = (MAX_WAITING_LIST_OBJECTS as usize, MAX_WAITING_LIST_BYTES);
    let read = timeout_at(until, Box::pin(list.read_newest(&control, now, targets, most, keep))).await;
    let mut missing = Vec::new();
    match read {
        Ok(Ok(())) => {}
        Ok(Err(failure)) => missing.push(unread(what, &failure)),
        // The page shows what was read before the time was over.
        Err(_) => missing.push(too_late(&format!("a part of {what}"))),
    }
    if list.unread() > 0 {
        missing.push(in_part(list.unread(), what, list.refused()));
    }
    if list.left_out() > 0 {
        missing.push(format!("older entries of {what}: it is longer than a page can read"));
    }
    let one = |line: &WaitingLine<WaitingOne>| WaitingOne { claimed: line.claimed, ..line.kept.clone() };
    let mut letters: Vec<_> = list.due_after(now).map(one).collect();
    letters.sort_by(|one, other| (one.due, &one.id).cmp(&(other.due, &other.id)));
    WaitingListPart { letters, more: !missing.is_empty(), unread: missing }
}

/// Reads the overrides. Without a document there are none.
pub(crate) async fn read_overrides(
    account: &ConsoleAccount,
    clients: &ConsoleClients,
    until: Instant,
) -> Result<Overrides, String> {
    let Some(control) = control(account, clients) else { return Ok(Overrides::default()) };
    read_as(control.read_overrides(None, until).await, Overrides::parse, "the overrides")
}

/// Reads which endpoints are down, and which are back. Without a document there are none.
pub(crate) async fn read_recoveries(
    account: &ConsoleAccount,
    clients: &ConsoleClients,
    until: Instant,
) -> Result<Recoveries, String> {
    let Some(control) = control(account, clients) else { return Ok(Recoveries::default()) };
    read_as(
        control.read_recoveries(None, until).await,
        Recoveries::parse,
        "the endpoints that are down or back",
    )
}

/// Reads a document of what is told.
fn read_as<T: Default, E: Display>(
    read: Result<DocumentRead, Failure>,
    parse: impl FnOnce(&[u8]) -> Result<T, E>,
    what: &str,
) -> Result<T, String> {
    match read.map_err(|failure| unread(what, &failure))? {
        DocumentRead::Document { json, .. } => parse(&json).map_err(|bad| format!("{what}: {bad}")),
        DocumentRead::None | DocumentRead::NotModified => Ok(T::default()),
    }
}

/// Returns the place of the overrides and of the list of waiting letters.
fn control(account: &ConsoleAccount, clients: &ConsoleClients) -> Option<ControlObjects> {
    let BucketPrefix { bucket, prefix } = account.control.as_ref()?;
    let prefix = prefix.trim_matches('/').to_owned();
    Some(ControlObjects { s3: clients.s3.clone(), bucket: bucket.clone(), prefix })
}
