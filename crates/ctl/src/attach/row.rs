//! A subscription: what it names, what is to be done with it, and what became of it.

use redrive_core::arn::Arn;
use redrive_core::endpoint::TargetName;
use serde_json::{Value, json};

use crate::doctor::{DeployedSubscription, ListedSubscription};

/// A subscription of the selection.
#[derive(Debug)]
pub(super) struct SubscriptionRow {
    pub(super) arn: String,
    pub(super) topic: String,
    pub(super) protocol: String,
    /// The endpoint as it may be shown: an ARN, or the name of a URL. `None` for addresses of people.
    pub(super) endpoint: Option<String>,
    pub(super) named: NamedQueue,
    /// The redrive policy as SNS returned it.
    pub(super) before: Option<String>,
    /// The redrive policy that it is to have; `None` takes it away.
    pub(super) after: Option<String>,
    pub(super) step: RowStep,
    pub(super) owner: Option<StackOwner>,
    pub(super) end: RowEnd,
}

/// The dead-letter queue that a subscription names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NamedQueue {
    None,
    This,
    Other(String),
    /// Only the owner of the subscription can see it.
    Hidden,
}

/// The next step for a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowStep {
    /// It is as it should be.
    Keep,
    Change,
    /// It is left alone, for this reason.
    Leave(String),
}

/// The stack that owns a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StackOwner {
    pub(super) stack: String,
    /// Its logical id, unless the stack has more resources than one answer lists.
    pub(super) resource: Option<String>,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowEnd {
    NotDone,
    Done,
    Failed(String),
    /// Somebody else changed it in the meantime.
    Overtaken,
}

impl SubscriptionRow {
    /// Returns a subscription that was read. `queue` is the one that the command is about.
    pub(super) fn of(subscription: &DeployedSubscription, queue: &Arn) -> Self {
        let named = match subscription.dead_letters.as_deref() {
            None => NamedQueue::None,
            Some(named) if named == queue.as_str() => NamedQueue::This,
            Some(other) => NamedQueue::Other(other.to_owned()),
        };
        Self {
            arn: subscription.arn.clone(),
            topic: subscription.topic.clone(),
            protocol: subscription.protocol.clone(),
            endpoint: shown_endpoint(&subscription.endpoint),
            named,
            before: subscription.redrive_policy.clone(),
            after: None,
            step: RowStep::Keep,
            owner: None,
            end: RowEnd::NotDone,
        }
    }

    /// Returns a subscription of another account, of which only a listing tells.
    pub(super) fn of_another_account(listed: &ListedSubscription) -> Self {
        let topic = listed.arn.rsplit_once(':').map_or("", |(topic, _)| topic);
        let why = format!("it belongs to the account {}, and only that account can change it", listed.owner);
        Self {
            arn: listed.arn.clone(),
            topic: topic.to_owned(),
            protocol: listed.protocol.clone(),
            endpoint: None,
            named: NamedQueue::Hidden,
            before: None,
            after: None,
            step: RowStep::Leave(why),
            owner: None,
            end: RowEnd::NotDone,
        }
    }

    /// Returns the last part of its ARN.
    pub(super) fn id(&self) -> &str {
        self.arn.rsplit(':').next().unwrap_or_default()
    }

    pub(super) fn topic_name(&self) -> &str {
        self.topic.rsplit(':').next().unwrap_or_default()
    }

    /// Returns the endpoint in a few words.
    pub(super) fn endpoint_name(&self) -> &str {
        let endpoint = self.endpoint.as_deref().unwrap_or("-");
        if endpoint.starts_with("arn:") { endpoint.rsplit(':').next().unwrap_or_default() } else { endpoint }
    }

    pub(super) fn json(&self) -> Value {
        let (does, why) = match (&self.step, &self.end) {
            (RowStep::Keep, _) => ("keep", None),
            (RowStep::Leave(why), _) => ("leave", Some(why.clone())),
            (RowStep::Change, RowEnd::NotDone) => ("change", None),
            (RowStep::Change, RowEnd::Done) => ("changed", None),
            (RowStep::Change, RowEnd::Failed(why)) => ("failed", Some(why.clone())),
            (RowStep::Change, RowEnd::Overtaken) => ("leave", Some(OVERTAKEN.to_owned())),
        };
        let owner = self.owner.as_ref().map(|it| json!({ "stack": it.stack, "resource": it.resource }));
        json!({
            "subscription": self.arn,
            "topic": self.topic,
            "protocol": self.protocol,
            "endpoint": self.endpoint,
            "redrivePolicy": { "before": self.before, "after": self.after },
            "names": self.named.json_name(),
            "does": does,
            "why": why,
            "stack": owner,
        })
    }
}

/// The text about a subscription that somebody else changed.
pub(super) const OVERTAKEN: &str = "somebody else has changed it meanwhile";

impl NamedQueue {
    /// Returns a text for a table.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::None => "none",
            Self::This => "this queue",
            Self::Other(arn) => arn.rsplit(':').next().unwrap_or_default(),
            Self::Hidden => "cannot see",
        }
    }

    fn json_name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::This => "this",
            Self::Other(_) => "another",
            Self::Hidden => "unknown",
        }
    }
}

/// Returns an endpoint without the path of a URL, which may be a secret, and without addresses of people.
fn shown_endpoint(endpoint: &str) -> Option<String> {
    let is_web = ["http://", "https://"].iter().any(|scheme| endpoint.starts_with(scheme));
    (is_web || endpoint.starts_with("arn:")).then(|| TargetName::read(endpoint).to_string())
}
