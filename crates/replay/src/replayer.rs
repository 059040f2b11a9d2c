//! The parts of a replay that all of its modules share.

use aws_sdk_sqs::config::retry::RetryConfig;
use redrive_archive::{ArchiveListing, ArchiveObject, ArchiveWalk, Selection, keys_of};
use redrive_aws::clients::AwsClients;
use redrive_aws::clock::InstanceClock;
use redrive_aws::delivery::{AddressReach, Dispatcher};
use redrive_core::arn::Arn;
use redrive_core::policy::Policy;
use redrive_core::shell::command_line;

use super::control::ReplayControl;
use super::error::ReplayError;
use super::letters::ReplaySource;
use super::redriver::{PolicyOfLanes, RedriverState};
use super::replay_state::ReplayState;
use super::replays::StoredReplays;
use super::request::ReplayRequest;
use super::requeue::{REQUEUE_TAG, RequeueSender};

/// The parts of a replay.
#[derive(Debug, Clone)]
pub struct ReplayEnvironment {
    /// The AWS clients.
    pub clients: AwsClients,
    /// The archive's bucket.
    pub bucket: String,
    /// The archive's prefix.
    pub prefix: String,
    /// The bucket in which replays store their state.
    pub control_bucket: String,
    /// The prefix in that bucket, which is also that of overrides.
    pub control_prefix: String,
    /// The requeue.
    pub requeue: Arn,
    /// The clock.
    pub clock: InstanceClock,
    /// The name of the caller.
    pub by: String,
    /// The number of units worked on at the same time, at least 1.
    pub workers: usize,
}

/// A replayer for the letters of one archive.
#[derive(Debug)]
pub struct ArchiveReplayer {
    pub(super) s3: aws_sdk_s3::Client,
    pub(super) bucket: String,
    pub(super) prefix: String,
    pub(super) kept: StoredReplays,
    pub(super) requeue: RequeueSender,
    pub(super) workers: usize,
    /// The reason why no function works on letters in the requeue, if none does.
    idle: Option<String>,
    /// The policy that lanes get.
    pub(super) policy_of_lanes: PolicyOfLanes,
}

/// The inputs of a replay's run.
#[derive(Clone, Copy)]
pub(super) struct ReplayInputs<'a> {
    pub(super) source: &'a ReplaySource,
    pub(super) policy: Option<&'a Policy>,
    pub(super) control: &'a dyn ReplayControl,
}

impl ArchiveReplayer {
    /// Connects the parts.
    #[must_use]
    pub fn new(parts: ReplayEnvironment) -> Self {
        let ReplayEnvironment {
            clients,
            bucket,
            prefix,
            control_bucket,
            control_prefix,
            requeue,
            clock,
            by,
            workers,
        } = parts;
        // Workers send again by themselves, and count what may be there twice. The SDK would not tell of its own
        // repetitions.
        let once = clients.sqs.config().to_builder().retry_config(RetryConfig::disabled()).build();
        let once = AwsClients { sqs: aws_sdk_sqs::Client::from_conf(once), ..clients.clone() };
        let dispatcher = Dispatcher::new(&once, AddressReach::Public, clock.clone());
        let kept = StoredReplays::new(clients.s3.clone(), &control_bucket, &control_prefix, clock, by);
        let requeue = RequeueSender { sqs: clients.sqs, dispatcher, arn: requeue };
        let prefix = prefix.trim_matches('/').to_owned();
        let workers = workers.max(1);
        Self {
            s3: clients.s3,
            bucket,
            prefix,
            kept,
            requeue,
            workers,
            idle: None,
            policy_of_lanes: PolicyOfLanes::Unknown,
        }
    }

    /// Returns the replay for this function: it sends only if the function works on the letters, by the
    /// function's policy.
    #[must_use]
    pub fn beside(self, redriving: &RedriverState) -> Self {
        Self { idle: redriving.idle.clone(), policy_of_lanes: redriving.for_lanes.clone(), ..self }
    }

    /// Returns an error if no function would work on the letters. A dry run needs none.
    pub(super) fn check_is_worked_on(&self, request: &ReplayRequest) -> Result<(), ReplayError> {
        match &self.idle {
            Some(why) if !request.dry_run => {
                Err(ReplayError::Request(vec![format!("{why}: only dryRun is possible")]))
            }
            _ => Ok(()),
        }
    }

    /// Reports whether letters are sent in the order in which they were archived. A dry run has no order.
    pub(super) fn keeps_order(&self, request: &ReplayRequest) -> bool {
        self.requeue.arn.is_fifo() && !request.dry_run
    }

    /// Returns the stored replays.
    #[must_use]
    pub fn kept(&self) -> &StoredReplays {
        &self.kept
    }

    /// Checks by its tag that the requeue is one. Any other queue would take every letter and deliver none.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Request`] if the queue lacks the tag, [`ReplayError::Failed`] if its tags cannot be
    /// read.
    pub async fn check_requeue(&self) -> Result<(), ReplayError> {
        let failed = |failure| ReplayError::failed("reading the tags of the requeue", failure);
        if self.requeue.is_tagged().await.map_err(failed)? {
            return Ok(());
        }
        let (tag, url) = (format!("{}={}", REQUEUE_TAG.0, REQUEUE_TAG.1), self.requeue.arn.queue_url());
        let command = command_line(["aws", "sqs", "tag-queue", "--queue-url", &url, "--tags", &tag]);
        Err(ReplayError::Request(vec![format!(
            "{} has no tag {tag}, so it may not be the function's requeue. If it is, tag it: {command}",
            self.requeue.arn
        )]))
    }

    /// Returns the common beginning of the keys in a queue's folder whose letters were archived at a time,
    /// `yyyymmddThh...`.
    pub(super) fn keys(&self, queue: &str, time: &str) -> String {
        keys_of(&self.prefix, queue, time, time)
    }

    /// Lists the objects of the archive from the key `first` up to, but without, the key `before`, or to the
    /// end of the queue.
    pub(super) fn listing(&self, first: &str, before: Option<&str>) -> ArchiveListing {
        ArchiveListing::between(self.s3.clone(), &self.bucket, &self.prefix, first, before)
    }

    /// Lists the objects of the archive whose keys begin with `key`.
    pub(super) fn begin_so(&self, key: &str) -> ArchiveListing {
        self.listing(key, Some(&format!("{key}~")))
    }

    /// Reads objects of the archive, in this order.
    pub(super) fn walk<'s>(&self, objects: Vec<ArchiveObject>, selection: &'s Selection) -> ArchiveWalk<'s> {
        ArchiveWalk::over(self.s3.clone(), &self.bucket, objects, selection)
    }
}

/// Returns the selection of a replay.
pub(super) fn selection(state: &ReplayState, requeue: &Arn) -> Result<Selection, ReplayError> {
    let selection = match state.given {
        None => state.request.selection(Some(state.cut_off)),
        Some(_) => state.request.select.selection(None),
    };
    let selection = selection.map_err(ReplayError::Request)?;
    Ok(Selection { requeue: Some(requeue.as_str().to_owned()), ..selection })
}

/// Returns a random name.
pub(super) fn token() -> String {
    use std::hash::{BuildHasher, Hasher};
    // The keys of a hasher are the only source of randomness in the standard library.
    format!("{:016x}", std::hash::RandomState::new().build_hasher().finish())
}
