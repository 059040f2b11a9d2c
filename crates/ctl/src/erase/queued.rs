//! Letters that still lie in a queue: an override gives them up, so that the function archives them. Then they can be erased
//! like any other archived letter.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName;
use jiff::{SignedDuration, Timestamp};
use redrive_archive::{ArchiveWalk, LetterIdentity, Selection, WalkItem};
use redrive_aws::clients::{AwsClients, failure_of_call};
use redrive_aws::control::WaitingList;
use redrive_core::arn::Arn;
use redrive_core::policy::{Override, OverrideAction, OverrideReach, ReachAnswer};
use redrive_core::waiting::WaitingLetter;
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::criteria::EraseCriteria;
use crate::args;
use crate::console::{CommandFailure, ToolEnvironment};
use crate::control::ControlAccess;
use crate::doctor;
use crate::progress_line::ProgressLine;
use crate::s3_location::BucketPrefix;
use crate::tables::{count, harmless, thousands, utc};

/// The time between two looks whether the letters are archived.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// The time after which every instance has read an override.
const OBEYED_WITHIN: SignedDuration = SignedDuration::from_secs(20);

/// The time in which each letter of a queue comes back at least once.
const EACH_COMES_BACK: SignedDuration = SignedDuration::from_hours(12);

/// The time for which such an override counts after its end. Later, letters may have arrived of which it knew nothing.
const COUNTS_FOR: SignedDuration = SignedDuration::from_hours(24);

/// The greatest difference between the clock of the function and that of S3.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// The letters in queues, after the override was given.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct QueuedLetters {
    /// The override that gives them up.
    #[serde(rename = "override")]
    pub(super) override_id: String,
    /// The end of the override.
    pub(super) until: Option<Timestamp>,
    /// The letters of the list that were neither archived nor looked at anew: at most so many.
    pub(super) unsettled: u64,
    /// The number of letters in all queues of the function, by SQS. `None` if it is not known.
    pub(super) in_queues: Option<u64>,
    /// The reason why it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unknown: Option<String>,
}

/// Returns the command line that gives the letters up.
pub(super) fn give_up(
    args: &args::EraseArgs,
    criteria: &EraseCriteria,
    control: &BucketPrefix,
) -> Option<args::GiveUp> {
    let pattern = criteria.pattern.as_ref().ok()?;
    let give = args::GiveArgs {
        picks: args::PatternArgs { pattern: Some(pattern.to_string()), ..args::PatternArgs::default() },
        why: args.why.clone(),
        // The archive is searched for the same names.
        anyway: true,
        sign: args::AuthorArgs { dry_run: false, ..args.sign.clone() },
        place: args::ControlPlace {
            control: Some(format!("s3://{}/{}", control.bucket, control.prefix)),
            archive: None,
        },
        connection: args.connection.clone(),
        ..args::GiveArgs::default()
    };
    Some(args::GiveUp { give, future: false, pace: args::WakePace { rate: args.pace.rate } })
}

/// The overrides that give the same letters up.
#[derive(Default)]
pub(super) struct SameOverrides {
    /// One that is in force.
    pub(super) in_force: Option<Override>,
    /// The end of one that was in force for long enough, so that each letter came back in the meantime.
    pub(super) over: Option<Timestamp>,
    /// The ids of those that have ended, but are not taken out of the document yet.
    pub(super) ended: Vec<String>,
}

/// Reads the overrides that give the same letters up.
pub(super) async fn same_overrides(
    pattern: &Value,
    access: &ControlAccess,
    console: &ToolEnvironment,
) -> Result<SameOverrides, CommandFailure> {
    let (overrides, time) = access.overrides_and_time().await?;
    let now = time.unwrap_or_else(|| console.clock.now());
    let mut same = SameOverrides::default();
    for override_ in overrides.all() {
        if override_.action != OverrideAction::GiveUp || override_.pattern != *pattern {
            continue;
        }
        if override_.has_ended(now) {
            same.ended.push(override_.id.clone());
        } else {
            same.in_force.get_or_insert_with(|| override_.clone());
        }
    }
    for ended in access.ended(&overrides, now).await? {
        let time = |at: &Value| at.as_str().and_then(|at| at.parse::<Timestamp>().ok());
        let times = time(&ended["at"]).zip(time(&ended["ended"]["at"]));
        let is_same = ended["do"] == OverrideAction::GiveUp.name() && ended["match"] == *pattern;
        if let Some((from, to)) = times.filter(|_| is_same)
            && to.duration_since(from) >= EACH_COMES_BACK
            && now.duration_since(to) <= COUNTS_FOR
        {
            same.over = same.over.max(Some(to));
        }
    }
    Ok(same)
}

/// Waits until the letters of an override are archived, or were looked at and hidden again. Then counts what may be left.
pub(super) async fn settle(
    override_: &Override,
    (archive, control): (&BucketPrefix, &BucketPrefix),
    clients: &AwsClients,
    seconds: u32,
    stop: &AtomicBool,
    console: &mut ToolEnvironment,
) -> Result<QueuedLetters, CommandFailure> {
    let until = Instant::now() + Duration::from_secs(u64::from(seconds));
    let reach = OverrideReach::of(override_).map_err(|bad| CommandFailure::Work(bad.to_string()))?;
    let read = override_.at.saturating_add(OBEYED_WITHIN).unwrap_or(Timestamp::MAX);
    let access = ControlAccess::new(clients.s3.clone(), control.clone());
    let mut list = WaitingList::default();
    let keep = |written: Timestamp, letter: WaitingLetter| {
        let place = LetterIdentity::of(letter.queue_arn.as_str(), &letter.message_id);
        (written < read && reach.touches(&letter) > ReachAnswer::No).then_some(place)
    };
    let unsettled = loop {
        let now = console.clock.now();
        access.read_waiting(&mut list, now, None, keep, |_| ()).await?;
        let given_up = given_up(override_, archive, clients).await;
        let waits = list.due_after(now).filter_map(|line| line.kept);
        let unsettled = waits.filter(|place| !given_up.contains(place)).count() as u64 + list.unread();
        if unsettled == 0 || Instant::now() >= until || stop.load(Ordering::Relaxed) {
            break unsettled;
        }
        let mut screen = ProgressLine::new(&mut *console.err, console.progress);
        screen.show(&format!("waiting for {} in queues", count(unsettled, "letter")));
        sleep(LOOK_INTERVAL).await;
    };
    let (in_queues, unknown) = match in_queues(clients, console).await {
        Ok(letters) => (Some(letters), None),
        Err(why) => (None, Some(why)),
    };
    let (override_id, until) = (override_.id.clone(), override_.end());
    Ok(QueuedLetters { override_id, until, unsettled, in_queues, unknown })
}

/// Returns the letters that were archived because of an override.
async fn given_up(
    override_: &Override,
    archive: &BucketPrefix,
    clients: &AwsClients,
) -> HashSet<LetterIdentity> {
    let from = override_.at.saturating_sub(CLOCK_SKEW).ok();
    let selection = Selection { from, reasons: vec!["given-up".to_owned()], ..Selection::default() };
    let mut walk = ArchiveWalk::new(clients.s3.clone(), &archive.bucket, &archive.prefix, &selection);
    let mut places = HashSet::new();
    while let Some(item) = walk.next().await {
        if let WalkItem::Letter(letter) = item
            && letter.record.override_id.as_ref() == Some(&override_.id)
        {
            places.insert(letter.record.identity());
        }
    }
    places
}

/// Returns the number of letters in all queues of the stack's function.
///
/// # Errors
///
/// The reason why it is not known, in words.
pub(super) async fn in_queues(clients: &AwsClients, console: &ToolEnvironment) -> Result<u64, String> {
    let function = console.stack.output("FunctionName").map_err(|failed| failed.to_string())?;
    let Some(function) = function else {
        return Err("give --stack, so that the function's queues are known".to_owned());
    };
    let queues = doctor::mapped_queues(&clients.lambda, &function).await?;
    if queues.is_empty() {
        return Err(format!("no queue feeds the function {}", harmless(&function)));
    }
    let mut letters = 0;
    for queue in queues {
        letters += in_queue(&clients.sqs, &queue).await?;
    }
    Ok(letters)
}

async fn in_queue(sqs: &aws_sdk_sqs::Client, queue: &Arn) -> Result<u64, String> {
    let names = [
        QueueAttributeName::ApproximateNumberOfMessages,
        QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        QueueAttributeName::ApproximateNumberOfMessagesDelayed,
    ];
    let call = sqs.get_queue_attributes().queue_url(queue.queue_url());
    let answer = call.set_attribute_names(Some(names.to_vec())).send().await;
    let answer = answer
        .map_err(|error| format!("{}: {}", harmless(queue.resource()), failure_of_call(&error).told()))?;
    let number = |name| answer.attributes().and_then(|all| all.get(name)?.parse::<u64>().ok());
    names.iter().map(number).sum::<Option<u64>>().ok_or_else(|| format!("SQS does not count {queue}"))
}

impl QueuedLetters {
    /// Reports whether no letter can be left in a queue.
    pub(super) fn none_left(&self) -> bool {
        self.unsettled == 0 && self.in_queues == Some(0)
    }

    pub(super) fn text(&self) -> String {
        if self.none_left() {
            return "No letter is left in the function's queues, by SQS's count.".to_owned();
        }
        let listed = match self.unsettled {
            0 => String::new(),
            letters => format!(" At most {} of the list may be among them.", count(letters, "letter")),
        };
        let lie = match (&self.in_queues, &self.unknown) {
            (Some(letters), _) => format!("about {} in the function's queues", count(*letters, "letter")),
            (None, Some(why)) => format!("queues that could not be counted ({why})"),
            (None, None) => "queues that could not be counted".to_owned(),
        };
        let until = self.until.map_or(String::new(), |until| format!(" until {} UTC", utc(until)));
        format!(
            "Some may still lie in a queue: there are {lie}.{listed}\nThe override {} archives those that match{until}: \
             each comes back at least once. Then run the same command again.",
            harmless(&self.override_id)
        )
    }
}

/// Returns the text on the letters of a list that an override may be about.
pub(super) fn listed(yes: u64, maybe: u64) -> String {
    match maybe {
        0 => format!("at most {} on the list of waiting letters", count(yes, "letter")),
        maybe => format!(
            "at most {} on the list of waiting letters, and of {} more the list does not tell",
            count(yes, "letter"),
            thousands(maybe)
        ),
    }
}
