//! Collects the letters that a page is about: counted by the keys of the archive, read from its newest objects, and from the
//! list of waiting letters.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use sns_redrive::archive::{Found, Identity, Selection, Walk};
use sns_redrive::batch::OrdersRead;
use sns_redrive::control::{Control, WaitingList};
use sns_redrive::failure::Failure;
use sns_redrive::policy::Orders;
use sns_redrive::replay::{ReplayError, Replays, Sent};
use sns_redrive::waiting::WaitingLetter;
use tokio::time::{Instant, timeout_at};

use super::index::{Index, known_by_keys};
use super::letters::{ArchivedLetter, WaitingOne};
use super::said::Said;
use super::sweep::{Sweep, Swept};
use super::tally::Span;
use super::times::Times;
use crate::account::{Account, Clients, Place};
use crate::query::{Field, Filter};
use crate::text::count;

/// Pages of a listing that are asked for.
const PAGES: u32 = 200;

/// Objects of the archive that are read, and their bytes.
pub(super) const OBJECTS: u32 = 96;
pub(super) const BYTES: u64 = 12 * 1024 * 1024;

/// Letters that are read from them.
const LETTERS: usize = 10_000;

/// Objects of the list of waiting letters that are read, and their bytes.
const LISTS: u32 = 96;
const LIST_BYTES: u64 = 12 * 1024 * 1024;

/// Requests that collecting takes at most. Beside the above: a listing of queues for both, and 16 pages of the list.
pub(crate) const REQUESTS: u32 = PAGES + 1 + OBJECTS + LEDGERS + LIST_REQUESTS;

/// Requests for the ledgers of replays.
const LEDGERS: u32 = 64;

/// Requests that the list of waiting letters takes at most.
pub(crate) const LIST_REQUESTS: u32 = LISTS + 17;

/// Letters whose words are kept, where they may be shown.
pub(crate) const EXAMPLES: usize = 12;

/// The letters of a filter and a time range.
#[derive(Debug)]
pub(crate) struct Collected {
    /// The counts by the keys of the archive.
    pub(crate) index: Index,
    /// True if there may be more letters than they tell.
    pub(crate) more: bool,
    /// Letters that were read and have what the keys tell of the filter, whatever the rest of it says.
    pub(crate) read: u64,
    /// The letters of the filter among them, the newest first.
    pub(crate) archived: Vec<ArchivedLetter>,
    /// The content of the first of them.
    pub(crate) said: Vec<Option<Said>>,
    /// Letters that wait.
    pub(crate) waiting: Vec<WaitingOne>,
    /// True if more may wait.
    pub(crate) more_waiting: bool,
    /// Parts that could not be read, in words.
    pub(crate) unread: Vec<String>,
}

/// Says what could not be read, and why.
pub(crate) fn unread(what: &str, failure: &Failure) -> String {
    let message = failure.message.as_ref().map_or(String::new(), |message| format!(": {message}"));
    format!("{what}: {}{message}", failure.code)
}

/// The same, where there was no time for it.
pub(crate) fn too_late(what: &str) -> String {
    format!("{what}: not read in time")
}

/// Says which parts of the archive were not looked into: those that could not be read, and objects that were left out since
/// the page reads no more bytes.
pub(super) fn passed_over(failed: u64, left_out: u64) -> impl Iterator<Item = String> {
    let failed = (failed > 0).then(|| format!("{failed} objects or lines of the archive"));
    let mib = BYTES >> 20;
    let left_out = (left_out > 0)
        .then(|| format!("{} of the archive: a page reads {mib} MiB at most", count(left_out, "object")));
    failed.into_iter().chain(left_out)
}

/// Collects the letters of a filter and a time range.
pub(crate) async fn collect(
    account: &Account,
    clients: &Clients,
    of: &Filter,
    span: &Span,
    times: Times,
) -> Collected {
    let mut index = Index::default();
    let (swept, waiting) = tokio::join!(
        sweep(account, clients, of, span, times.listed, &mut index),
        read_waiting(account, clients, account.clock.now(), times.listed)
    );
    let mut unread = Vec::new();
    let more = match swept {
        Ok(swept) => swept == Swept::Cut,
        Err(why) => {
            unread.push(why);
            true
        }
    };
    let Listed { letters, more: more_waiting, unread: of_list } = waiting;
    unread.extend(of_list);
    let waiting = letters.into_iter().filter(|letter| of.takes(|field| letter.fields.get(field)));
    let waiting = waiting.collect();
    let mut collected = Collected {
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
        let reads = collected.read(archive, account, clients, of, span, &mut read);
        if timeout_at(times.end, reads).await.is_err() {
            collected.unread.push(too_late("some objects of the archive"));
        }
        let asks = collected.ask_for_replays(account, clients, read);
        match timeout_at(times.end, asks).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                collected.unread.push(format!("whether replays have sent all that was read: {error}"));
            }
            Err(_) => collected.unread.push(too_late("whether replays have sent all that was read")),
        }
    }
    let newest = |letter: &ArchivedLetter| std::cmp::Reverse(letter.archived);
    // What letters say was kept in the order in which they were read, which is that of time already.
    collected.archived[collected.said.len()..].sort_by_key(newest);
    collected
}

pub(super) async fn sweep(
    account: &Account,
    clients: &Clients,
    of: &Filter,
    span: &Span,
    until: Instant,
    index: &mut Index,
) -> Result<Swept, String> {
    let Some(archive) = &account.archive else { return Ok(Swept::Whole) };
    let queue = of.get(Field::Queue);
    let range = (span.from, span.to);
    let sweep = Sweep { s3: &clients.s3, archive, queue, range, pages: PAGES };
    let swept = timeout_at(until, sweep.run(|object| index.add(&object, of, span, OBJECTS as usize))).await;
    let what = "the listing of the archive";
    swept.map_err(|_| too_late(what))?.map_err(|failure| unread(what, &failure))
}

impl Collected {
    /// Reads letters of the newest objects.
    async fn read(
        &mut self,
        archive: &Place,
        account: &Account,
        clients: &Clients,
        of: &Filter,
        span: &Span,
        ids: &mut Vec<(Arc<str>, Identity, usize)>,
    ) {
        let selection = Selection::default();
        let (objects, left_out) = self.index.to_read(OBJECTS as usize, BYTES);
        let mut walk = Walk::over(clients.s3.clone(), &archive.bucket, objects, &selection);
        let mut known = HashSet::new();
        let keys = known_by_keys(of);
        let mut failed = 0_u64;
        while let Some(found) = walk.next().await {
            match found {
                Found::Letter(found) => {
                    let letter = ArchivedLetter::from(&*found);
                    let is_in_range = (span.from..span.to).contains(&letter.archived);
                    let is_told = is_in_range && keys.takes(|field| letter.fields.get(field));
                    if !is_told || !known.insert(found.record.identity()) {
                        continue;
                    }
                    self.read += 1;
                    if of.takes(|field| letter.fields.get(field)) {
                        if self.said.len() < EXAMPLES {
                            self.said.push(Said::of(&found.record, &account.bodies));
                        }
                        ids.push((Arc::clone(&found.key), found.record.identity(), self.archived.len()));
                        self.archived.push(letter);
                    }
                }
                Found::Unread(bad) if bad.why.is_gone() => {}
                Found::Unread(_) => failed += 1,
            }
            if self.archived.len() >= LETTERS {
                break;
            }
        }
        self.unread.extend(passed_over(failed, left_out));
    }
}

impl Collected {
    /// Finds out which of the letters that were read a replay has sent: their objects' keys, their ids, and their places.
    async fn ask_for_replays(
        &mut self,
        account: &Account,
        clients: &Clients,
        mut letters: Vec<(Arc<str>, Identity, usize)>,
    ) -> Result<(), ReplayError> {
        let Some(Place { bucket, prefix }) = &account.control else { return Ok(()) };
        let replays = Replays::new(clients.s3.clone(), bucket, prefix, account.clock.clone(), String::new());
        let mut sent = Sent::new(replays);
        // Those of one hour of a queue have the same ledgers.
        letters.sort();
        for (key, letter, place) in letters {
            let is_sent = sent.of(&key, letter).await?.is_some();
            self.archived.get_mut(place).into_iter().for_each(|letter| letter.replayed = Some(is_sent));
        }
        Ok(())
    }
}

/// The list of waiting letters, as far as it was read.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// The letters that wait, the next first.
    pub(crate) letters: Vec<WaitingOne>,
    /// True if more may wait.
    pub(crate) more: bool,
    /// What could not be read, in words.
    pub(crate) unread: Vec<String>,
}

/// Reads the letters that wait.
pub(crate) async fn read_waiting(
    account: &Account,
    clients: &Clients,
    now: Timestamp,
    until: Instant,
) -> Listed {
    let Some(control) = control(account, clients) else { return Listed::default() };
    let what = "the list of waiting letters";
    let mut list = WaitingList::default();
    let keep = |_, letter: WaitingLetter| WaitingOne::from(letter);
    let read = timeout_at(until, list.read_newest(&control, now, (LISTS as usize, LIST_BYTES), keep)).await;
    let mut missing = Vec::new();
    match read {
        Ok(Ok(())) => {}
        Ok(Err(failure)) => missing.push(unread(what, &failure)),
        // What was read until then is shown.
        Err(_) => missing.push(too_late(&format!("a part of {what}"))),
    }
    if list.unread() > 0 {
        missing.push(format!("{} objects or lines of {what}", list.unread()));
    }
    if list.left_out() > 0 {
        missing.push(format!("older entries of {what}, which is longer than a page reads"));
    }
    let mut letters: Vec<_> = list.due_after(now).map(|line| line.kept.clone()).collect();
    letters.sort_by(|one, other| (one.due, &one.id).cmp(&(other.due, &other.id)));
    Listed { letters, more: !missing.is_empty(), unread: missing }
}

/// Reads the orders; none where there is no document.
pub(crate) async fn read_orders(
    account: &Account,
    clients: &Clients,
    until: Instant,
) -> Result<Orders, String> {
    let Some(control) = control(account, clients) else { return Ok(Orders::default()) };
    let what = "the orders";
    match control.read_orders(None, until).await.map_err(|failure| unread(what, &failure))? {
        OrdersRead::Document { json, .. } => Orders::parse(&json).map_err(|bad| format!("{what}: {bad}")),
        OrdersRead::None | OrdersRead::NotModified => Ok(Orders::default()),
    }
}

/// Returns the place of orders and of the list of waiting letters.
fn control(account: &Account, clients: &Clients) -> Option<Control> {
    let Place { bucket, prefix } = account.control.as_ref()?;
    let prefix = prefix.trim_matches('/').to_owned();
    Some(Control { s3: clients.s3.clone(), bucket: bucket.clone(), prefix })
}
