//! Checks new subscriptions before a replay sends them the letters of the deleted ones that they replace.

use std::io::Write;
use std::time::Duration;

use redrive_archive::{ArchiveWalk, Selection, WalkItem};
use redrive_aws::clients::AwsClients;
use redrive_aws::lookup::SubscriptionReader;
use redrive_core::arn::Arn;
use redrive_core::batch::{SendResult, Subscription, SubscriptionCheck, SubscriptionRefusal};
use redrive_core::failure::Failure;
use redrive_replay::{ReplayRequest, ReplaySource};
use tokio::time::Instant;

use crate::console::{CommandFailure, ToolEnvironment};
use crate::s3_location::BucketPrefix;
use crate::tables::harmless;

/// How long calls to SNS may begin.
const LOOKUP_TIME: Duration = Duration::from_secs(30);

/// The letters of a replay.
pub(crate) struct SuccessorLetters<'a> {
    pub(crate) archive: &'a BucketPrefix,
    pub(crate) requeue: &'a Arn,
    pub(crate) source: &'a ReplaySource,
}

/// Checks each new subscription as the function does with every retry: it must exist, be confirmed, have an
/// endpoint, and name the dead-letter queue of the letters. If the letters cannot be read here, it must name
/// any queue. If SNS cannot be asked, a line says so, and only the function checks.
pub(crate) async fn check(
    request: &ReplayRequest,
    letters: Option<SuccessorLetters<'_>>,
    clients: &AwsClients,
    console: &mut ToolEnvironment,
) -> Result<(), CommandFailure> {
    let news = request.subscriptions.pairs().map(|(_, new)| new.clone());
    let subscriptions = SubscriptionReader::new(clients.sns.clone(), console.clock.clone());
    let answers = subscriptions.look_up(news.collect(), Instant::now() + LOOKUP_TIME).await;
    let mut faults = Vec::new();
    for (old, new) in request.subscriptions.pairs() {
        let fault = match answers.get(new) {
            Some(Ok(Some(subscription))) => {
                let fault = unfit(new, subscription, None);
                let dlq = match &letters {
                    Some(letters) if fault.is_none() => {
                        letters.dead_letter_queue(old, request, clients).await?
                    }
                    _ => None,
                };
                fault.or_else(|| unfit(new, subscription, dlq.as_ref()))
            }
            Some(Ok(None)) => Some(SubscriptionRefusal::Unknown.detail().to_owned()),
            unknown => {
                let why = match unknown {
                    Some(Err(SendResult::Failed(Failure { code, message, .. }))) => {
                        message.as_ref().map_or_else(|| code.clone(), |said| format!("{code}: {said}"))
                    }
                    _ => "out of time".to_owned(),
                };
                let why = harmless(&why);
                writeln!(
                    console.err,
                    "redrivectl: cannot check whether {new} takes the letters of {old} ({why}); the function checks \
                     this with each retry"
                )?;
                None
            }
        };
        faults.extend(fault.map(|fault| format!("--subscription {new}: {fault}")));
    }
    if faults.is_empty() { Ok(()) } else { Err(CommandFailure::Input(faults)) }
}

/// Returns the reason why the function would not send letters through a subscription, if there is one.
/// Without `dlq`, the letters are assumed to be in the queue that the subscription names.
fn unfit(arn: &Arn, subscription: &Subscription, dlq: Option<&Arn>) -> Option<String> {
    let Some(named) = &subscription.dead_letter_target else {
        return Some(
            "it names no dead-letter queue; set its RedrivePolicy to the dead-letter queue of the letters"
                .to_owned(),
        );
    };
    let topic = arn.as_str().rsplit_once(':').and_then(|(topic, _)| topic.parse().ok());
    let named = named.parse::<Arn>().ok();
    match subscription.check(topic.as_ref(), dlq.or(named.as_ref())?) {
        SubscriptionCheck::Endpoint(_) => None,
        SubscriptionCheck::Undeliverable(why) => Some(why),
        SubscriptionCheck::Refused(SubscriptionRefusal::OtherDeadLetterQueue) => {
            let (named, dlq) = (named.as_ref().map_or("", Arn::as_str), dlq.map_or("", Arn::as_str));
            Some(format!("it names the dead-letter queue {named}, but the letters come from {dlq}"))
        }
        SubscriptionCheck::Refused(refusal) => Some(refusal.detail().to_owned()),
    }
}

impl SuccessorLetters<'_> {
    /// Returns the dead-letter queue of the first letter on which SNS gave up for a subscription. The replay
    /// itself reports records that cannot be read.
    async fn dead_letter_queue(
        &self,
        old: &Arn,
        request: &ReplayRequest,
        clients: &AwsClients,
    ) -> Result<Option<Arn>, CommandFailure> {
        let selection = request.selection(request.cut_off).map_err(CommandFailure::Input)?;
        let requeue = Some(self.requeue.as_str().to_owned());
        let selection = Selection { subscriptions: vec![old.as_str().to_owned()], requeue, ..selection };
        if let ReplaySource::Input(records) = self.source {
            let mut records = records.iter().flatten().map(|(record, _)| record);
            let record = records.find(|record| selection.takes(record) == Ok(true));
            return Ok(record.map(|record| record.dead_letter_queue_arn.clone()));
        }
        let BucketPrefix { bucket, prefix } = self.archive;
        let mut walk = ArchiveWalk::new(clients.s3.clone(), bucket, prefix.trim_matches('/'), &selection);
        while let Some(found) = walk.next().await {
            if let WalkItem::Letter(letter) = found {
                return Ok(Some(letter.record.dead_letter_queue_arn.clone()));
            }
        }
        Ok(None)
    }
}
