//! Removes what a drill has created: overrides, records in the archive, subscriptions, queues, and last the
//! topic, by whose tag the rest can be found again.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use aws_sdk_s3::error::ProvideErrorMetadata;
use redrive_core::waiting::{LISTED_ABOVE, ended_override_key};
use serde_json::Value;
use tokio::time::Instant;

use super::commands::{self, RECENT_RECORDS, records, release};
use super::names::SETTLED;
use super::report::DrillReport;
use super::scene::{DrillResources, failed};
use super::story::{DrillHalt, until};
use crate::args;
use crate::command_tool::CommandRunner;
use crate::console::{CommandEnd, CommandFailure};
use crate::overrides;
use crate::s3_location::BucketPrefix;
use crate::tables::{brief, count};

/// The seconds to wait for letters on their way: the longest time that a letter may stay hidden without an
/// override that wakes it, and a minute for the event source mapping.
const LETTER_WAIT_SECONDS: u64 = LISTED_ABOVE + 60;

/// The age up to which records of earlier drills are searched.
const ALL_RECORDS: args::TimeArg = args::TimeArg::Ago(90 * 24 * 3600);

/// The words of S3 for an object under a retention.
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lock.html>
const OBJECT_LOCK_WORDS: &str = "object lock";

/// The removal of one drill's resources.
pub(super) struct DrillCleanup<'a> {
    pub(super) scene: &'a DrillResources,
    pub(super) tool: CommandRunner,
    pub(super) s3: aws_sdk_s3::Client,
    /// The place of the records, or why it is unknown.
    pub(super) archive: Result<BucketPrefix, String>,
    /// The place of the overrides, or why it is unknown.
    pub(super) control: Result<BucketPrefix, String>,
    pub(super) hearing: OverrideObedience,
}

/// The answer whether the function obeys an override to give letters up.
#[derive(Debug, Clone)]
pub(super) enum OverrideObedience {
    Hears,
    /// It would obey if it were deployed differently.
    Idle(String),
    /// It will never obey.
    Deaf(String),
}

/// The letters to wait for before their topic is deleted.
#[derive(Debug, Clone, Copy)]
pub(super) struct AwaitedLetters {
    /// The number of letters that will be in the archive, or in the queue that was broken.
    pub(super) letters: u64,
    /// True if this number must arrive. Else some may have arrived before.
    pub(super) is_exact: bool,
}

/// The resources that are left, and why.
#[derive(Debug, Default)]
pub(super) struct CleanupResult {
    pub(super) left: Vec<String>,
    /// True if `--clean` may be able to remove the rest later.
    again: bool,
}

/// A text on what was removed, and what cannot be removed.
type RemovalResult = (Option<String>, Vec<String>);

impl CleanupResult {
    /// Prints what was removed, or notes why it was not.
    fn note<T: Display>(
        &mut self,
        what: &str,
        done: Result<Option<T>, CommandFailure>,
        report: &mut DrillReport<'_>,
    ) {
        match done {
            Ok(None) => {}
            Ok(Some(done)) => report.say(&format!("removed: {done}")),
            Err(why) => {
                self.again = true;
                self.stays(format!("{what}: {why}"), report);
            }
        }
    }

    /// Does the same if some of it cannot be removed.
    fn note_all(
        &mut self,
        what: &str,
        done: Result<RemovalResult, CommandFailure>,
        report: &mut DrillReport<'_>,
    ) {
        let (taken, stay) = match done {
            Ok((taken, stay)) => (Ok(taken), stay),
            Err(failed) => (Err(failed), Vec::new()),
        };
        self.note(what, taken, report);
        for left in stay {
            self.stays(left, report);
        }
    }

    /// Prints and notes what is left.
    fn stays(&mut self, left: String, report: &mut DrillReport<'_>) {
        report.say(&format!("left: {left}"));
        self.left.push(left);
    }
}

impl DrillCleanup<'_> {
    /// Removes everything. A failure does not prevent the rest. Letters on their way are archived first. The
    /// topic is deleted when nothing is left that could be removed later.
    pub(super) async fn run(
        &self,
        awaited: Option<AwaitedLetters>,
        report: &mut DrillReport<'_>,
    ) -> CleanupResult {
        let mut swept = CleanupResult::default();
        if let Some(awaited) = awaited {
            self.letters(awaited, &mut swept, report).await;
        }
        let are_settled = !swept.again;
        match &self.control {
            Ok(control) => swept.note_all("overrides", self.overrides(control).await, report),
            Err(why) => swept.stays(format!("overrides: {why}"), report),
        }
        match &self.archive {
            Ok(archive) => swept.note_all("records in the archive", self.records(archive).await, report),
            Err(why) => swept.stays(format!("records in the archive: {why}"), report),
        }
        let topic = self.scene.names.topic();
        let ended = self.scene.unsubscribe().await;
        let some = |number: u64| (number > 0).then(|| count(number, "subscription"));
        swept.note("subscriptions", ended.map(some), report);
        let names = &self.scene.names;
        for queue in [names.broken(), names.healthy(), names.asked(), names.asked_in_order()] {
            let deleted = self.scene.delete_queue(&queue).await;
            let some = |was_there: bool| was_there.then(|| format!("the queue {queue}"));
            swept.note(&queue, deleted.map(some), report);
        }
        if swept.again {
            report.say(&format!("left: the topic {topic}, because --clean finds the rest by it"));
            if are_settled {
                // Without this --clean would wait for letters that do not arrive.
                let _ = self.scene.note_letters(SETTLED).await;
            }
        } else {
            let deleted = self.scene.delete_topic().await;
            swept.note(&topic, deleted.map(|()| Some(format!("the topic {topic}"))), report);
        }
        swept
    }

    /// Has letters on their way archived, or notes why that is impossible.
    async fn letters(
        &self,
        awaited: AwaitedLetters,
        swept: &mut CleanupResult,
        report: &mut DrillReport<'_>,
    ) {
        const WHAT: &str = "letters on their way";
        match &self.hearing {
            OverrideObedience::Hears => {
                let waits = brief(LETTER_WAIT_SECONDS);
                report.say(&format!("letters may be on their way; archiving them first takes up to {waits}"));
                let done = self.archive_rest(awaited).await;
                swept.note(WHAT, done.map(|()| None::<&str>), report);
            }
            OverrideObedience::Idle(why) => {
                swept.note(WHAT, Err::<Option<&str>, _>(CommandFailure::Work(why.clone())), report);
            }
            OverrideObedience::Deaf(why) => {
                let then = "if the function gets them later, it archives them as refused";
                swept.stays(format!("{WHAT}: {why}; {then}"), report);
            }
        }
    }

    /// Has the function archive letters on their way, and waits until they are in the archive, or have
    /// arrived in the queue that was broken.
    async fn archive_rest(&self, awaited: AwaitedLetters) -> Result<(), CommandFailure> {
        let (topic, broken) = (self.scene.names.topic_arn(), self.scene.names.broken());
        let why = format!("drill {} ends", self.scene.names.id);
        let picks = args::PatternArgs { topic: Some(topic), ..Default::default() };
        commands::give_up(&self.tool, picks, why).await?;
        let (never, mut came) = (AtomicBool::new(false), 0);
        let end = Instant::now() + Duration::from_secs(LETTER_WAIT_SECONDS);
        // If the wait ends without a failure, that must be noticed before the time is over.
        let within = if awaited.is_exact { LETTER_WAIT_SECONDS } else { 2 * LETTER_WAIT_SECONDS };
        let waited = until(within, &never, "letters of the drill in the archive", async || {
            came += self.scene.take(&broken).await?.len() as u64;
            let records = records(&self.tool, self.scene, RECENT_RECORDS).await?.len() as u64;
            let is_over = !awaited.is_exact && Instant::now() >= end;
            Ok((is_over || records + came >= awaited.letters).then_some(()))
        });
        match waited.await {
            Ok(()) | Err(DrillHalt::Interrupted) => Ok(()),
            Err(DrillHalt::Failed(failed)) => Err(failed),
        }
    }

    /// Takes back the overrides for the drill's topic, and deletes their records.
    async fn overrides(&self, control: &BucketPrefix) -> Result<RemovalResult, CommandFailure> {
        let topic = self.scene.names.topic_arn();
        let is_of_drill = |pattern: &Value| pattern["topicArn"][0] == topic.as_str();
        // The stack does not name their place after it was deployed with Overrides=off.
        let place = Some(format!("s3://{}/{}", control.bucket, control.prefix));
        let shown = |ended| args::ShowOverrides {
            ended,
            place: args::ControlPlace { control: place.clone(), archive: None },
            connection: self.tool.connection(),
        };
        let args = shown(false);
        let in_force = self.tool.run("payments", async |console| {
            Ok((overrides::in_force(&args, console).await?, CommandEnd::Whole))
        });
        let in_force = in_force.await?.into_iter().filter(|override_| is_of_drill(&override_.pattern));
        let in_force: Vec<_> = in_force.map(|override_| override_.id).collect();
        if !in_force.is_empty() {
            release(&self.tool, in_force, "the drill ends", place.clone()).await?;
        }
        let args = shown(true);
        let ended = self.tool.run("payments", async |console| {
            Ok((overrides::ended(&args, console).await?, CommandEnd::Whole))
        });
        let ended = ended.await?.into_iter().filter(|override_| is_of_drill(&override_["match"]));
        let ended: Vec<_> =
            ended.filter_map(|override_| override_["id"].as_str().map(str::to_owned)).collect();
        let (mut taken, mut stay) = (0, Vec::new());
        for id in &ended {
            let key = ended_override_key(&control.prefix, id);
            if self.forget(&control.bucket, &key).await? {
                taken += 1;
            } else {
                stay.push(locked(&control.bucket, &key));
            }
        }
        Ok(((taken > 0).then(|| count(taken, "override")), stay))
    }

    /// Deletes the objects of the archive that have only letters of the drill.
    async fn records(&self, archive: &BucketPrefix) -> Result<RemovalResult, CommandFailure> {
        let topic = self.scene.names.topic_arn();
        let records = records(&self.tool, self.scene, ALL_RECORDS).await?;
        let mut objects = BTreeMap::<_, u64>::new();
        for record in &records {
            *objects.entry(&*record.key).or_default() += 1;
        }
        let (mut taken, mut stay) = (0, Vec::new());
        for (key, lines) in objects {
            if !self.is_all_of(&topic, &archive.bucket, key).await? {
                stay.push(format!(
                    "s3://{}/{key}: it also has letters that are not of the drill",
                    archive.bucket
                ));
            } else if self.forget(&archive.bucket, key).await? {
                taken += lines;
            } else {
                stay.push(locked(&archive.bucket, key));
            }
        }
        Ok(((taken > 0).then(|| format!("{} in the archive", count(taken, "record"))), stay))
    }

    /// Reports whether every line of an object of the archive is about the drill's topic.
    async fn is_all_of(&self, topic: &str, bucket: &str, key: &str) -> Result<bool, CommandFailure> {
        let object = self.s3.get_object().bucket(bucket).key(key).send().await;
        let object = object.map_err(|error| failed("s3:GetObject", &error))?;
        let bytes =
            object.body.collect().await.map_err(|error| CommandFailure::Work(error.to_string()))?.to_vec();
        let mut lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        let of_drill = |line: &[u8]| {
            serde_json::from_slice::<Value>(line).is_ok_and(|record| record["topicArn"] == topic)
        };
        Ok(lines.all(of_drill))
    }

    /// Deletes every version of an object. Returns false if S3 Object Lock keeps one.
    async fn forget(&self, bucket: &str, key: &str) -> Result<bool, CommandFailure> {
        let listed = self.s3.list_object_versions().bucket(bucket).prefix(key).send().await;
        let listed = listed.map_err(|error| failed("s3:ListObjectVersions", &error))?;
        let versions = listed.versions().iter().map(|it| (it.key(), it.version_id()));
        let markers = listed.delete_markers().iter().map(|it| (it.key(), it.version_id()));
        let mut is_gone = true;
        for (_, version) in versions.chain(markers).filter(|(of, _)| *of == Some(key)) {
            let delete = self.s3.delete_object().bucket(bucket).key(key);
            match delete.set_version_id(version.map(str::to_owned)).send().await {
                Ok(_) => {}
                Err(error) if says_lock(error.message()) => is_gone = false,
                Err(error) => return Err(failed(format!("s3:DeleteObject of s3://{bucket}/{key}"), &error)),
            }
        }
        Ok(is_gone)
    }
}

fn says_lock(message: Option<&str>) -> bool {
    message.is_some_and(|message| message.to_ascii_lowercase().contains(OBJECT_LOCK_WORDS))
}

fn locked(bucket: &str, key: &str) -> String {
    format!("s3://{bucket}/{key}: S3 Object Lock keeps it until its retention ends")
}
