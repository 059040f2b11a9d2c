//! The steps of a drill, one after the other.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::commands::{self, RECENT_RECORDS, records, release, selection};
use super::log::LogGroup;
use super::names::ON_THE_WAY;
use super::report::DrillReport;
use super::scene::{ATTRIBUTE, DrillResources};
use crate::args;
use crate::command_tool::{CommandOutput, CommandRunner};
use crate::console::CommandFailure;
use crate::replay::{self, ReplayResult};
use crate::tables::{brief, count};

/// The time between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The longest time in which an interrupt goes unnoticed.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(200);

/// The values of the attribute by which overrides distinguish the messages.
pub(super) const RETRY: &str = "retry";
pub(super) const GIVE_UP: &str = "give-up";

/// The number of messages that are published.
pub(super) const MESSAGES: u64 = 2;

/// The reason why a drill did not finish.
pub(super) enum DrillHalt {
    Interrupted,
    Failed(CommandFailure),
}

/// A running drill.
pub(super) struct RunningDrill<'a> {
    scene: &'a DrillResources,
    tool: &'a CommandRunner,
    log: &'a LogGroup,
    args: &'a args::DrillArgs,
    has_requeue: bool,
    stop: &'a AtomicBool,
    /// The number of letters that may be in a queue of the function.
    pub(super) on_the_way: u64,
    /// The number of records in the archive.
    pub(super) archived: u64,
    /// The number of arrivals, by queue and message id.
    came: BTreeMap<(String, String), u64>,
}

impl<'a> RunningDrill<'a> {
    pub(super) fn new(
        scene: &'a DrillResources,
        tool: &'a CommandRunner,
        log: &'a LogGroup,
        args: &'a args::DrillArgs,
        has_requeue: bool,
        stop: &'a AtomicBool,
    ) -> Self {
        Self { scene, tool, log, args, has_requeue, stop, on_the_way: 0, archived: 0, came: BTreeMap::new() }
    }

    /// Carries out the steps until one of them fails.
    pub(super) async fn tell(&mut self, report: &mut DrillReport<'_>) -> Result<(), DrillHalt> {
        let (broken, healthy) = (self.scene.names.broken(), self.scene.names.healthy());
        let topic = self.scene.names.topic_arn();

        report.begin("create", "create a topic, two queues and two subscriptions".to_owned())?;
        self.make(&[&broken, &healthy]).await?;
        report.end(true, &topic)?;

        report.begin("break", format!("delete the queue {broken}"))?;
        self.goes_on()?;
        self.scene.delete_queue(&broken).await?;
        let deleted = Instant::now();
        report.end(true, "deleted")?;

        report.begin(
            "override",
            "override the function to give up one letter, and to retry the other at once".to_owned(),
        )?;
        let archive = commands::give_up(self.tool, self.picks(GIVE_UP), self.why());
        let archive = self.command(archive).await?;
        let retry = self.retry().await?;
        report.end(true, &format!("gave the overrides {archive} and {retry}"))?;

        report.begin(
            "publish",
            format!("publish two messages, {} after the deletion", brief(self.args.settle.into())),
        )?;
        let settle = Duration::from_secs(self.args.settle.into());
        self.pause(settle.saturating_sub(deleted.elapsed())).await?;
        let since = self.log.now();
        self.scene.note_letters(ON_THE_WAY).await?;
        let to_retry = self.scene.publish(RETRY).await?;
        self.on_the_way += 1;
        let to_archive = self.scene.publish(GIVE_UP).await?;
        self.on_the_way += 1;
        report.end(true, &format!("published {to_retry} to retry, and {to_archive} to archive"))?;

        report.begin("healthy", format!("SNS delivers both to {healthy}"))?;
        self.arrive(&healthy, &[&to_retry, &to_archive]).await?;
        report.end(true, "both arrived")?;

        report.begin("retry", "SNS gives up; the function tries the first letter and fails".to_owned())?;
        let log = self.log;
        let attempt = self.until("a failed attempt in the function's log", async || {
            log.failed_attempt(&to_retry, since).await
        });
        report.end(true, &attempt.await?)?;

        report.begin("archive", "the function archives the second letter, as given-up".to_owned())?;
        let record = self
            .until("the letter in the archive", async || {
                let records = records(self.tool, self.scene, RECENT_RECORDS).await?;
                Ok(records.into_iter().next())
            })
            .await?;
        (self.on_the_way, self.archived) = (self.on_the_way - 1, 1);
        report.end(true, &record.key)?;

        report.begin(
            "repair",
            format!("create the queue {broken} again, and take back the override to give up"),
        )?;
        self.until("SQS to allow the queue to be created again", async || {
            Ok(self.scene.make_queue(&broken).await?.then_some(()))
        })
        .await?;
        self.command(release(self.tool, vec![archive], "the drill goes on", None)).await?;
        report.end(true, "done")?;

        report.begin("deliver", format!("an override to retry brings the first message to {broken}"))?;
        let override_ = self.retry().await?;
        self.arrive(&broken, &[&to_retry]).await?;
        self.on_the_way -= 1;
        report.end(true, &format!("it arrived after the override {override_}"))?;

        let mut expected = vec![(&healthy, &to_retry), (&healthy, &to_archive), (&broken, &to_retry)];
        if self.has_requeue {
            report.begin("replay", format!("a replay of the archived letter brings it to {broken}"))?;
            let replay = self.replay(&topic).await?;
            self.arrive(&broken, &[&to_archive]).await?;
            self.on_the_way -= 1;
            expected.push((&broken, &to_archive));
            report.end(true, &format!("it arrived through the replay {replay}"))?;
        }

        report
            .begin("count", format!("within {} no message arrives again", brief(self.args.watch.into())))?;
        self.watch(&[&broken, &healthy]).await?;
        match self.differs(&expected) {
            None => {
                report
                    .end(true, &format!("{} arrived, each once", count(expected.len() as u64, "message")))?;
            }
            Some(differs) => report.end(false, &differs)?,
        }
        Ok(())
    }

    async fn make(&self, queues: &[&str]) -> Result<(), DrillHalt> {
        self.goes_on()?;
        self.scene.make_topic().await?;
        for queue in queues {
            if !self.scene.make_queue(queue).await? {
                return Err(
                    CommandFailure::Work(format!("SQS is still deleting a queue named {queue}")).into()
                );
            }
        }
        for queue in queues {
            self.scene.subscribe(queue).await?;
        }
        Ok(())
    }

    /// Overrides the function to retry the letters of this drill that are to be retried. Returns the override's id.
    async fn retry(&self) -> Result<String, DrillHalt> {
        self.command(commands::retry(self.tool, self.picks(RETRY), self.why())).await
    }

    /// Returns the letters of this drill with one value of the attribute.
    fn picks(&self, kind: &str) -> args::PatternArgs {
        let pattern =
            json!({ "topicArn": [self.scene.names.topic_arn()], "messageAttributes": { ATTRIBUTE: [kind] } });
        args::PatternArgs { pattern: Some(pattern.to_string()), ..Default::default() }
    }

    fn why(&self) -> String {
        format!("drill {}", self.scene.names.id)
    }

    /// Replays the archived letter. If it was not sent, no letter is on its way.
    async fn replay(&mut self, topic: &str) -> Result<String, DrillHalt> {
        let (problems, args) = (CommandOutput::default(), self.replay_of(topic));
        self.goes_on()?;
        self.on_the_way += 1;
        let mut console = self.tool.console("", &CommandOutput::default(), &problems);
        let ended = Box::pin(replay::run(&args, true, &mut console)).await;
        if matches!(
            ended,
            Err(CommandFailure::Stopped(_) | CommandFailure::Denied(_) | CommandFailure::Input(_))
        ) {
            // Nothing was sent.
            self.on_the_way -= 1;
        }
        let state = match ended? {
            ReplayResult::Ended { state, .. } => Some(state),
            ReplayResult::Detached { state, .. } => state,
        };
        if let Some(state) = state.as_ref().filter(|state| state.counts.sent == 1) {
            return Ok(state.id.clone());
        }
        self.on_the_way -= 1;
        self.goes_on()?;
        let problems = problems.text();
        let because = state.as_ref().and_then(|state| state.because.as_deref()).unwrap_or(problems.trim());
        Err(CommandFailure::Work(format!("the replay sent no letter: {because}")).into())
    }

    /// Returns the options of the replay.
    fn replay_of(&self, topic: &str) -> args::ReplayArgs {
        let pace =
            args::PaceArgs { ramp: Some(vec![100]), settle: Some(0), workers: Some(1), ..Default::default() };
        args::ReplayArgs {
            selection: selection(topic.to_owned(), self.scene, RECENT_RECORDS),
            new: true,
            yes: true,
            why: Some(self.why()),
            pace,
            connection: self.tool.connection(),
            ..Default::default()
        }
    }

    /// Does the work of a command of the tool.
    async fn command<T>(
        &self,
        work: impl Future<Output = Result<T, CommandFailure>>,
    ) -> Result<T, DrillHalt> {
        self.goes_on()?;
        let done = work.await;
        self.goes_on()?;
        Ok(done?)
    }

    /// Waits until these messages have arrived in a queue.
    async fn arrive(&mut self, queue: &str, ids: &[&str]) -> Result<(), DrillHalt> {
        let (scene, args, stop) = (self.scene, self.args, self.stop);
        let came = &mut self.came;
        let what = format!("{} in {queue}", count(ids.len() as u64, "message"));
        until(args.within, stop, &what, async || {
            take(scene, queue, came).await?;
            let has = |id: &&str| came.contains_key(&(queue.to_owned(), (*id).to_owned()));
            Ok(ids.iter().all(has).then_some(()))
        })
        .await
    }

    /// Receives what else arrives in these queues for a while.
    async fn watch(&mut self, queues: &[&str]) -> Result<(), DrillHalt> {
        let end = Instant::now() + Duration::from_secs(self.args.watch.into());
        loop {
            for queue in queues {
                take(self.scene, queue, &mut self.came).await?;
            }
            if Instant::now() >= end {
                return Ok(());
            }
            self.pause(POLL_INTERVAL.min(end - Instant::now())).await?;
        }
    }

    /// Returns the deviations from one arrival each; `None` if all is as expected.
    fn differs(&self, expected: &[(&String, &String)]) -> Option<String> {
        let is_expected = |queue: &String, id: &String| expected.contains(&(queue, id));
        let more = self.came.iter().filter(|((queue, id), times)| **times != 1 || !is_expected(queue, id));
        let more = more
            .map(|((queue, id), times)| format!("{id} arrived {} in {queue}", self::count(*times, "time")));
        let missing =
            expected.iter().filter(|(queue, id)| !self.came.contains_key(&((*queue).clone(), (*id).clone())));
        let missing = missing.map(|(queue, id)| format!("{id} did not arrive in {queue}"));
        let differs: Vec<_> = more.chain(missing).collect();
        (!differs.is_empty()).then(|| differs.join("; "))
    }

    fn goes_on(&self) -> Result<(), DrillHalt> {
        if self.stop.load(Ordering::Relaxed) { Err(DrillHalt::Interrupted) } else { Ok(()) }
    }

    async fn pause(&self, time: Duration) -> Result<(), DrillHalt> {
        pause(time, self.stop).await
    }

    async fn until<T>(
        &self,
        what: &str,
        check: impl AsyncFnMut() -> Result<Option<T>, CommandFailure>,
    ) -> Result<T, DrillHalt> {
        until(self.args.within, self.stop, what, check).await
    }
}

async fn take(
    scene: &DrillResources,
    queue: &str,
    came: &mut BTreeMap<(String, String), u64>,
) -> Result<(), CommandFailure> {
    for id in scene.take(queue).await? {
        *came.entry((queue.to_owned(), id)).or_default() += 1;
    }
    Ok(())
}

/// Checks a condition until it is met, for `within` seconds.
pub(super) async fn until<T>(
    within: u64,
    stop: &AtomicBool,
    what: &str,
    mut check: impl AsyncFnMut() -> Result<Option<T>, CommandFailure>,
) -> Result<T, DrillHalt> {
    let end = Instant::now() + Duration::from_secs(within);
    loop {
        if let Some(found) = check().await? {
            return Ok(found);
        }
        if Instant::now() >= end {
            let waited = brief(within);
            return Err(CommandFailure::Work(format!(
                "waited {waited} for {what}, in vain; redrivectl doctor may show why, --within waits longer"
            ))
            .into());
        }
        pause(POLL_INTERVAL, stop).await?;
    }
}

async fn pause(time: Duration, stop: &AtomicBool) -> Result<(), DrillHalt> {
    let end = Instant::now() + time;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(DrillHalt::Interrupted);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        sleep(left.min(INTERRUPT_INTERVAL)).await;
    }
}

impl From<CommandFailure> for DrillHalt {
    fn from(failed: CommandFailure) -> Self {
        match failed {
            CommandFailure::Stopped(_) => Self::Interrupted,
            failed => Self::Failed(failed),
        }
    }
}

impl From<std::io::Error> for DrillHalt {
    fn from(error: std::io::Error) -> Self {
        // Ctrl-C in `redrivectl drill | tee log` ends tee, too, and may be noticed here first.
        if error.kind() == ErrorKind::BrokenPipe { Self::Interrupted } else { Self::Failed(error.into()) }
    }
}
