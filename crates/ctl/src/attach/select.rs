//! The subscriptions that a command line or a record selects.

use std::collections::BTreeSet;

use redrive_aws::clients::AwsClients;
use redrive_core::arn::{Arn, ArnKind};

use super::failure::{bad, needed};
use super::record_file::ChangeRecord;
use super::row::SubscriptionRow;
use crate::args;
use crate::aws::AwsAccess;
use crate::console::{CommandFailure, ToolEnvironment};
use crate::doctor::{
    DeployedSubscription, ListedSubscription, ListedSubscriptions, ReadError, each, listed, of_topic,
};

/// The subscriptions of a selection, as far as they could be read.
#[derive(Default)]
pub(super) struct SelectedSubscriptions {
    read: Vec<DeployedSubscription>,
    foreign: Vec<ListedSubscription>,
    pub(super) unread: Vec<(String, ReadError)>,
    /// The number of those that are not confirmed, which have no ARN.
    pub(super) pending: u64,
}

impl SelectedSubscriptions {
    /// Reads the subscriptions that the command line selects, in the account and region of the queue.
    ///
    /// # Errors
    ///
    /// An option is wrong, or they cannot be listed.
    pub(super) async fn of(
        sns: &aws_sdk_sns::Client,
        which: &args::WhichSubscriptions,
        queue: &Arn,
        console: &mut ToolEnvironment,
    ) -> Result<Self, CommandFailure> {
        let topics = topics(&which.topic, queue)?;
        for arn in &which.subscription {
            let is_one = arn.parse::<Arn>().is_ok_and(|arn| arn.kind() == ArnKind::Subscription);
            if !is_one {
                return Err(bad(format!("{arn} is not the ARN of a subscription")));
            }
        }
        let mut all = ListedSubscriptions::default();
        if which.all {
            all = listed(sns).await.map_err(|error| needed("the subscriptions of the account", &error))?;
        }
        for topic in topics {
            let of_one = of_topic(sns, &topic).await;
            let of_one = of_one.map_err(|error| needed(&format!("the subscriptions of {topic}"), &error))?;
            all.confirmed.extend(of_one.confirmed);
            all.pending += of_one.pending;
        }
        let is_own = |it: &ListedSubscription| it.owner.is_empty() || it.owner == queue.account();
        let (own, foreign): (Vec<_>, Vec<_>) = all.confirmed.into_iter().partition(is_own);
        let arns: BTreeSet<_> =
            own.into_iter().map(|it| it.arn).chain(which.subscription.iter().cloned()).collect();
        let arns: Vec<_> = arns.into_iter().collect();
        let mut selected = Self { foreign, pending: all.pending, ..Self::default() };
        selected.read(sns, &arns, |arn| which.subscription.iter().any(|it| it == arn), console).await;
        Ok(selected)
    }

    /// Reads each. Those that are gone count as unread if somebody has named them.
    async fn read(
        &mut self,
        sns: &aws_sdk_sns::Client,
        arns: &[String],
        is_named: impl Fn(&str) -> bool,
        console: &mut ToolEnvironment,
    ) {
        for (arn, answer) in each(sns, arns, console).await {
            match answer {
                Ok(subscription) => self.read.push(subscription),
                // It was deleted meanwhile.
                Err(error) if error.is_missing() && !is_named(arn) => {}
                Err(error) => self.unread.push((arn.to_owned(), error)),
            }
        }
    }

    /// Returns a row for each, with the step that `of` gives, by topic.
    pub(super) fn rows(&self, of: impl Fn(&DeployedSubscription) -> SubscriptionRow) -> Vec<SubscriptionRow> {
        let foreign = self.foreign.iter().map(SubscriptionRow::of_another_account);
        let mut rows: Vec<_> = self.read.iter().map(of).chain(foreign).collect();
        rows.sort_by(|one, other| (&one.topic, &one.arn).cmp(&(&other.topic, &other.arn)));
        rows
    }
}

/// Reads the subscriptions of a record.
pub(super) async fn of_record(
    aws: &AwsAccess,
    record: &ChangeRecord,
    console: &mut ToolEnvironment,
) -> SelectedSubscriptions {
    let AwsClients { sns, .. } = aws.clients();
    let arns: Vec<_> = record.changes.iter().map(|it| it.subscription.clone()).collect();
    let mut selected = SelectedSubscriptions::default();
    selected.read(&sns, &arns, |_| true, console).await;
    selected
}

/// Returns the ARNs of topics that are given by ARN or name.
fn topics(given: &[String], queue: &Arn) -> Result<BTreeSet<String>, CommandFailure> {
    let arn = |given: &String| {
        let text = if given.starts_with("arn:") {
            given.clone()
        } else {
            format!("arn:{}:sns:{}:{}:{given}", queue.partition(), queue.region(), queue.account())
        };
        let topic = text.parse::<Arn>().ok().filter(|arn| arn.kind() == ArnKind::Topic);
        let topic = topic.ok_or_else(|| bad(format!("{given} is not the ARN or the name of a topic")))?;
        if topic.region() != queue.region() {
            let (there, here) = (topic.region(), queue.region());
            return Err(bad(format!("{topic} is in {there}, and the queue in {here}: SNS needs one region")));
        }
        Ok(text)
    };
    given.iter().map(arn).collect()
}
