//! `redrivectl erase`: erases letters for good.
//!
//! | file | does |
//! |---|---|
//! | `criteria` | tells which letters are meant |
//! | `scan` | finds them in all versions of the archive's objects |
//! | `queued` | gives up those that lie in a queue, so that they are archived |
//! | `letters` | erases them from one object |
//! | `documents` | erases what the control prefix has of them |
//! | `versions` | the calls to S3 |
//! | `report` | the preview, and the record |
//!
//! Running the same command again completes an erasing that was interrupted: each step finds what is left.

mod criteria;
mod documents;
mod letters;
mod queued;
mod report;
mod scan;
mod versions;

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::stream::{self, StreamExt};
use redrive_aws::clients::AwsClients;
use redrive_replay::{ReplayStatus, StoredReplays};

use crate::args;
use crate::aws::AwsAccess;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment, check_interrupt};
use crate::control::{ControlAccess, OverrideChange, ReleaseNote};
use crate::output::CommandResult as _;
use crate::overrides::{OverrideAuthor, OverrideDraft, OverrideRequest, signed};
use crate::progress_line::ProgressLine;
use crate::s3_location::{self, BucketPrefix};
use crate::tables::{bar, count};
use criteria::EraseCriteria;
use documents::{ControlScan, ControlTraces};
use letters::ErasedObject;
use queued::{QueuedLetters, SameOverrides};
use report::{ErasePreview, EraseResult};
use scan::ArchiveScan;
use versions::VersionedBucket;

/// The number of objects that are changed at the same time.
const CONCURRENT_OBJECTS: usize = 16;

/// The number of times that the archive is searched again for what was stored meanwhile.
const MAX_ROUNDS: u32 = 5;

/// An erasing that is under way.
struct LetterEraser<'a> {
    args: &'a args::EraseArgs,
    criteria: EraseCriteria,
    archive: BucketPrefix,
    /// `None` if only the archive is erased from.
    control: Option<BucketPrefix>,
    clients: AwsClients,
    author: OverrideAuthor,
    scan: ArchiveScan,
    /// The replays that ran at the preview or at the end.
    running: BTreeSet<String>,
    /// The failures so far, in words. The rest is erased all the same.
    failed: Vec<String>,
    is_denied: bool,
}

/// Erases letters, or shows what that would do, and prints the record.
pub(crate) async fn run(
    args: &args::EraseArgs,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    let mut eraser = LetterEraser::new(args, console).await?;
    eraser.scan.read(&eraser.criteria, console).await?;
    let same = eraser.same_overrides(console).await?;
    let (give_up, queues) = eraser.give_up(&same, console).await;
    let request = give_up.as_ref().map(OverrideRequest::give_up).transpose()?;
    let draft = match &request {
        Some(request) => Some(request.look(console).await?),
        None => None,
    };
    let traces = eraser.traces(true, console).await?;
    let told = queues.clone();
    let preview = eraser.preview(draft.as_ref(), queues, traces.as_ref(), console);
    if args.sign.dry_run {
        return console.print(&preview, as_json);
    }
    if preview.is_empty() && same.in_force.is_none() && same.ended.is_empty() {
        return nothing(&preview, as_json, console);
    }
    show(&preview.lines(), args.sign.yes, as_json, console)?;
    console.confirm(args.sign.yes, "Erase these letters?")?;
    drop(preview);

    let stop = (console.interrupts)()?;
    check_interrupt(&stop)?;
    let mut result = eraser.erase(draft, &same, &stop, as_json, console).await?;
    result.queues_told = told;
    console.print(&result, as_json)
}

/// Prints that there is nothing to erase.
fn nothing(
    preview: &ErasePreview<'_>,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    if as_json {
        let mut json = preview.json();
        json["dryRun"] = false.into();
        writeln!(console.out, "{json}")?;
    } else {
        write!(console.out, "{}\nNothing to erase.\n", preview.lines())?;
    }
    Ok(preview.finished())
}

/// Shows the preview. Results in JSON are for a script, so the text goes beside them, and only if somebody can answer.
fn show(lines: &str, yes: bool, as_json: bool, console: &mut ToolEnvironment) -> std::io::Result<()> {
    if !as_json {
        writeln!(console.out, "{lines}")?;
        console.out.flush()?;
    } else if !yes && console.answers {
        writeln!(console.err, "{lines}")?;
    }
    Ok(())
}

impl<'a> LetterEraser<'a> {
    async fn new(args: &'a args::EraseArgs, console: &ToolEnvironment) -> Result<Self, CommandFailure> {
        let criteria = EraseCriteria::of(args, console)?;
        let archive = s3_location::archive(&args.place.archive, console)?;
        let control =
            if args.archive_only { None } else { Some(s3_location::replays(&args.place, console)?) };
        // A search may take long, and must not end at a question that nobody can answer.
        console.can_confirm(args.sign.yes || args.sign.dry_run)?;
        let aws = AwsAccess::connect(&args.connection, console).await?;
        let author = signed(&args.sign, &aws.sts()).await?;
        let clients = aws.clients();
        let bucket = VersionedBucket { s3: clients.s3.clone(), bucket: archive.bucket.as_str().into() };
        let scan = ArchiveScan::new(bucket, &archive.prefix, &criteria);
        let (running, failed, is_denied) = (BTreeSet::new(), Vec::new(), false);
        Ok(Self { args, criteria, archive, control, clients, author, scan, running, failed, is_denied })
    }

    fn access(&self) -> Option<ControlAccess> {
        let control = self.control.clone()?;
        Some(ControlAccess::new(self.clients.s3.clone(), control))
    }

    async fn same_overrides(&self, console: &ToolEnvironment) -> Result<SameOverrides, CommandFailure> {
        match (&self.criteria.pattern, self.access()) {
            (Ok(pattern), Some(access)) => queued::same_overrides(pattern, &access, console).await,
            _ => Ok(SameOverrides::default()),
        }
    }

    /// Returns the command line that gives up letters in queues, if some may be there, and what is done about queues, in
    /// words.
    async fn give_up(
        &self,
        same: &SameOverrides,
        console: &mut ToolEnvironment,
    ) -> (Option<args::GiveUp>, String) {
        let Some(control) = &self.control else {
            return (None, "not searched: --archive-only".to_owned());
        };
        if let Err(why) = self.criteria.pattern {
            return (None, format!("not searched: {why}"));
        }
        if let Some(end) = same.over {
            return (
                None,
                format!("archived by an override, which ended at {end}; later ones are not looked for"),
            );
        }
        if let Some(override_) = &same.in_force {
            return (None, format!("the override {} archives them", override_.id));
        }
        if queued::in_queues(&self.clients, console).await == Ok(0) {
            return (None, "none: the function's queues are empty".to_owned());
        }
        (queued::give_up(self.args, &self.criteria, control), "given up first, see below".to_owned())
    }

    fn preview<'p>(
        &'p self,
        draft: Option<&OverrideDraft<'_>>,
        queues: String,
        control: Option<&'p ControlTraces>,
        console: &ToolEnvironment,
    ) -> ErasePreview<'p> {
        let found = self.scan.found.values();
        let (others, selected): (Vec<_>, Vec<_>) = found.partition(|object| object.is_other_only);
        ErasePreview {
            which: &self.criteria.words,
            letters: self.scan.letters.len() as u64,
            records: selected.iter().map(|object| object.records).sum(),
            older_records: selected.iter().map(|object| object.older_records).sum(),
            objects: selected.len() as u64,
            other_objects: others.len() as u64,
            days: self.scan.days().into_iter().collect(),
            locked: self.scan.latest_lock(console.clock.now(), self.args.bypass_governance),
            control,
            queues: match draft {
                Some(draft) => queued::listed(draft.preview.touched.yes, draft.preview.touched.maybe),
                None => queues,
            },
            override_: draft.map(|draft| draft.preview.lines()),
            unread: self.scan.unread(),
            is_denied: self.scan.is_denied,
            author: &self.author,
            why: self.args.why.as_deref().unwrap_or_default(),
        }
    }

    /// Takes these overrides back.
    async fn release(&self, ids: &[String], console: &ToolEnvironment) -> Result<(), CommandFailure> {
        let Some(access) = self.access().filter(|_| !ids.is_empty()) else { return Ok(()) };
        let why = Some("the letters are erased".to_owned());
        let note = ReleaseNote { at: console.clock.now(), by: self.author.by.clone(), why };
        access.change(&OverrideChange::Release(ids, &note)).await
    }

    /// Erases what the control prefix has of the letters, or only looks for it.
    async fn traces(
        &mut self,
        looks_only: bool,
        console: &ToolEnvironment,
    ) -> Result<Option<ControlTraces>, CommandFailure> {
        let Some(control) = &self.control else { return Ok(None) };
        let (criteria, found) = (&self.criteria, (&self.scan.places, &self.scan.letters));
        let how = (console.clock.now(), self.args.bypass_governance);
        let scan = ControlScan::new(self.clients.s3.clone(), control, criteria, found, how);
        let mut traces = ControlScan { looks_only, ..scan }.run().await?;
        self.running.extend(self.running(control, console).await?);
        traces.in_use.extend(
            self.running
                .iter()
                .map(|id| format!("replay {id} runs, and may have read letters before they were erased")),
        );
        Ok(Some(traces))
    }

    /// Returns the ids of the replays that run: they have letters in memory, and send them.
    async fn running(
        &self,
        control: &BucketPrefix,
        console: &ToolEnvironment,
    ) -> Result<Vec<String>, CommandFailure> {
        let BucketPrefix { bucket, prefix } = control;
        let s3 = self.clients.s3.clone();
        let replays = StoredReplays::new(s3, bucket, prefix, console.clock.clone(), String::new());
        let all = replays.all().await?.into_iter();
        let running =
            all.filter(|it| it.status == ReplayStatus::Running && it.is_unfinished() && !it.abandoned);
        Ok(running.map(|replay| replay.id).collect())
    }

    async fn erase(
        &mut self,
        draft: Option<OverrideDraft<'_>>,
        same: &SameOverrides,
        stop: &Arc<AtomicBool>,
        as_json: bool,
        console: &mut ToolEnvironment,
    ) -> Result<EraseResult, CommandFailure> {
        let at = console.clock.now();
        let given = match draft {
            Some(draft) => Some(draft.carry_out(as_json, console).await?.override_),
            None => same.in_force.clone(),
        };
        let mut queues: Option<QueuedLetters> = None;
        if let (Some(override_), Some(control)) = (&given, &self.control) {
            let places = (&self.archive, control);
            let wait = self.args.wait;
            queues = Some(queued::settle(override_, places, &self.clients, wait, stop, console).await?);
        }
        let objects = self.erase_all(stop, console).await;
        let interrupted = stop.load(Ordering::Relaxed);
        let mut release = same.ended.clone();
        let is_over = queues.as_ref().is_some_and(QueuedLetters::none_left);
        release.extend(given.filter(|_| is_over).map(|override_| override_.id));
        let mut control = None;
        if !interrupted {
            let released = self.release(&release, console).await;
            self.note(released);
            let traces = self.traces(false, console).await;
            control = self.note(traces).flatten();
        }
        Ok(EraseResult {
            at,
            author: OverrideAuthor { by: self.author.by.clone(), checked: self.author.checked },
            why: self.args.why.clone().unwrap_or_default(),
            objects,
            control,
            queues,
            queues_told: String::new(),
            unread: self.scan.unread(),
            failed: std::mem::take(&mut self.failed),
            is_denied: self.scan.is_denied || self.is_denied,
            interrupted,
        })
    }

    /// Notes a failure, so that the record tells it.
    fn note<T>(&mut self, done: Result<T, CommandFailure>) -> Option<T> {
        match done {
            Ok(done) => Some(done),
            Err(failed) => {
                self.is_denied |= matches!(failed, CommandFailure::Denied(_));
                self.failed.push(failed.to_string());
                None
            }
        }
    }

    /// Erases the letters from the archive, until a search finds no more.
    async fn erase_all(&mut self, stop: &AtomicBool, console: &mut ToolEnvironment) -> Vec<ErasedObject> {
        let mut all: Vec<ErasedObject> = Vec::new();
        for _ in 0..MAX_ROUNDS {
            // The function may have archived more meanwhile. What was written here is read, too.
            let read = self.scan.read(&self.criteria, console).await;
            let keys = self.scan.keys();
            if self.note(read).is_none() || keys.is_empty() || stop.load(Ordering::Relaxed) {
                return all;
            }
            self.scan.found.clear();
            let erased = self.erase_objects(keys, stop, console).await;
            let is_done = erased.iter().all(|object| object.deleted.is_empty());
            all.extend(erased.into_iter().filter(|object| !object.places.is_empty()));
            if is_done {
                return all;
            }
        }
        self.failed.push("more letters kept coming into the archive".to_owned());
        all
    }

    async fn erase_objects(
        &mut self,
        keys: Vec<Arc<str>>,
        stop: &AtomicBool,
        console: &mut ToolEnvironment,
    ) -> Vec<ErasedObject> {
        let (now, all) = (console.clock.now(), keys.len() as u64);
        let mut screen = ProgressLine::new(&mut *console.err, console.progress);
        let (scan, criteria) = (&self.scan, &self.criteria);
        let how = (now, self.args.bypass_governance);
        let keys = stream::iter(keys).take_while(|_| std::future::ready(!stop.load(Ordering::Relaxed)));
        let letters = scan.letters.union(&scan.erased).copied().collect();
        let erase = |key| letters::erase(&scan.bucket, key, criteria, &letters, how);
        let mut objects = keys.map(erase).buffer_unordered(CONCURRENT_OBJECTS);
        let (mut erased, mut failed) = (Vec::new(), Vec::new());
        while let Some(object) = objects.next().await {
            match object {
                Ok(object) => erased.push(object),
                Err(why) => failed.push(why),
            }
            let done = (erased.len() + failed.len()) as u64;
            screen.show(&format!("{} {done} of {} erased", bar(done, all), count(all, "object")));
        }
        drop(objects);
        for why in failed {
            self.note::<()>(Err(why));
        }
        erased
    }
}
