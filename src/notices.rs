//! Notices of archived letters and of endpoints, published to a topic.
//!
//! They are sent after everything else, so that no letter is delayed or lost because of them. They are not
//! guaranteed; an alarm is.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_sns::types::MessageAttributeValue;
use futures_util::future::{join, join_all};
use jiff::Timestamp;
use redrive_aws::clients::{elsewhere, failure_of_call};
use redrive_core::arn::Arn;
use redrive_core::batch::{EndpointChange, LetterReport, Moment};
use redrive_core::endpoint::TargetName;
use redrive_core::failure::{Failure, FailureClass};
use redrive_core::notice::{
    ArchiveNotice, ArchiveNotices, EndpointNotice, EndpointNotices, NoticeMessage, NoticePlaces,
};

/// The longest time that an invocation waits for SNS.
const MAX_NOTICE_WAIT: Duration = Duration::from_secs(1);

/// The time that is too short for a call to succeed. The notice then waits for the next invocation.
const MIN_CALL_TIME: Duration = Duration::from_millis(100);

/// The notices of one instance.
#[derive(Debug)]
pub struct NoticePublisher {
    sns: aws_sdk_sns::Client,
    topic: Arn,
    places: NoticePlaces,
    untold: Mutex<UntoldNotices>,
}

#[derive(Debug)]
struct UntoldNotices {
    archived: ArchiveNotices,
    endpoints: EndpointNotices,
}

/// A notice that SNS did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotSent {
    /// The topic.
    pub topic: Arn,
    /// The notice.
    pub notice: NotSentNotice,
    /// The failure of the call.
    pub failure: Failure,
}

/// The subject of a notice that SNS did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotSentNotice {
    /// Archived letters, which are counted in the next notice.
    Archived {
        /// The number of letters in the notice.
        letters: u64,
    },
    /// An endpoint. The notice is tried three times in all.
    Endpoint {
        /// `down` or `recovered`.
        kind: &'static str,
        /// The endpoint.
        target: TargetName,
    },
}

impl NoticePublisher {
    /// Creates the notices for a topic. `places` are what commands name.
    #[must_use]
    pub fn new(sns: aws_sdk_sns::Client, topic: Arn, places: NoticePlaces) -> Self {
        let archived = ArchiveNotices::new(topic.clone());
        let untold = Mutex::new(UntoldNotices { archived, endpoints: EndpointNotices::default() });
        Self { sns, topic, places, untold }
    }

    /// Counts the letters that an invocation archived, adds the endpoints that it is to tell of, and sends the notices
    /// that are due, at the same time. `left` is the time that the invocation has left. Half of it is used at most,
    /// and no more than a second. Returns the notices that SNS did not take. If the answer is late, SNS may have
    /// taken one nevertheless.
    pub async fn tell(
        &self,
        reports: &[LetterReport],
        changes: Vec<EndpointChange>,
        began: Timestamp,
        now: Moment,
        left: Duration,
    ) -> Vec<NotSent> {
        let time = (left / 2).min(MAX_NOTICE_WAIT);
        let (archived, endpoints) = {
            let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
            untold.archived.count(reports, began, now.at);
            untold.endpoints.add(changes);
            if time < MIN_CALL_TIME {
                return Vec::new();
            }
            (untold.archived.due(now.age), untold.endpoints.due(now.age))
        };
        let archived = async { self.tell_archived(archived?, time).await };
        let endpoints = endpoints.into_iter().map(|notice| self.tell_endpoint(notice, now.age, time));
        let (archived, endpoints) = join(archived, join_all(endpoints)).await;
        archived.into_iter().chain(endpoints.into_iter().flatten()).collect()
    }

    async fn tell_archived(&self, notice: ArchiveNotice, time: Duration) -> Option<NotSent> {
        let failure = self.publish(notice.message(&self.places), time).await.err()?;
        let told = NotSentNotice::Archived { letters: notice.letters() };
        self.untold.lock().unwrap_or_else(PoisonError::into_inner).archived.put_back(notice);
        Some(NotSent { topic: self.topic.clone(), notice: told, failure })
    }

    async fn tell_endpoint(&self, notice: EndpointNotice, age: Duration, time: Duration) -> Option<NotSent> {
        let failure = self.publish(notice.message(&self.places), time).await.err()?;
        let told = NotSentNotice::Endpoint { kind: notice.kind(), target: notice.target().clone() };
        self.untold.lock().unwrap_or_else(PoisonError::into_inner).endpoints.put_back(notice, age);
        Some(NotSent { topic: self.topic.clone(), notice: told, failure })
    }

    async fn publish(&self, notice: NoticeMessage, time: Duration) -> Result<(), Failure> {
        let mut there = aws_sdk_sns::config::Builder::new();
        let own = self.sns.config().region();
        there.set_region(elsewhere(&self.topic, own).or(own.cloned()));
        let request = self.sns.publish().topic_arn(self.topic.as_str()).subject(notice.subject);
        let mut request = request.message_structure("json").message(notice.message);
        for attribute in notice.attributes {
            let value = MessageAttributeValue::builder()
                .data_type(attribute.data_type)
                .string_value(attribute.value)
                .build()
                .map_err(|_| Failure::ours(FailureClass::Permanent, "NoticeUnwritable"))?;
            request = request.message_attributes(attribute.name, value);
        }
        let sent = tokio::time::timeout(time, request.customize().config_override(there).send()).await;
        let late = |_| Failure::ours(FailureClass::Transient, "Timeout");
        sent.map_err(late)?.map(|_| ()).map_err(|error| failure_of_call(&error))
    }
}
