//! Notices of archived letters, published to a topic.
//!
//! They are sent after everything else, so that no letter is delayed or lost because of them. They are not
//! guaranteed; an alarm is.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use redrive_aws::clients::{elsewhere, failure_of_call};
use redrive_core::archive_notice::{ArchiveNotice, ArchiveNotices};
use redrive_core::arn::Arn;
use redrive_core::batch::{LetterReport, Moment};
use redrive_core::failure::{Failure, FailureClass};

/// The longest time that an invocation waits for SNS.
const MAX_NOTICE_WAIT: Duration = Duration::from_secs(1);

/// The time that is too short for a call to succeed. The notice then waits for the next invocation.
const MIN_CALL_TIME: Duration = Duration::from_millis(100);

/// The notices of one instance.
#[derive(Debug)]
pub struct NoticePublisher {
    sns: aws_sdk_sns::Client,
    topic: Arn,
    archive: String,
    untold: Mutex<ArchiveNotices>,
}

/// A notice that SNS did not take. Its letters are counted in the next notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotSent {
    /// The topic.
    pub topic: Arn,
    /// The number of letters in the notice.
    pub letters: u64,
    /// The failure of the call.
    pub failure: Failure,
}

impl NoticePublisher {
    /// Creates the notices for a topic. `archive` names the location of the letters for people and commands.
    #[must_use]
    pub fn new(sns: aws_sdk_sns::Client, topic: Arn, archive: String) -> Self {
        let untold = Mutex::new(ArchiveNotices::new(topic.clone()));
        Self { sns, topic, archive, untold }
    }

    /// Counts the letters that an invocation archived, and sends a notice if one is due. `left` is the time
    /// that the invocation has left. Half of it is used at most, and no more than a second.
    ///
    /// # Errors
    ///
    /// [`NotSent`] if SNS did not take the notice. If the answer is late, SNS may have taken it nevertheless.
    pub async fn tell(
        &self,
        reports: &[LetterReport],
        began: Timestamp,
        now: Moment,
        left: Duration,
    ) -> Result<(), NotSent> {
        let time = (left / 2).min(MAX_NOTICE_WAIT);
        let due = {
            let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
            untold.count(reports, began, now.at);
            if time < MIN_CALL_TIME { None } else { untold.due(now.age) }
        };
        let Some(notice) = due else { return Ok(()) };
        let sent = tokio::time::timeout(time, self.publish(&notice)).await;
        let late = || Err(Failure::ours(FailureClass::Transient, "Timeout"));
        sent.unwrap_or_else(|_| late()).map_err(|failure| {
            let not_sent = NotSent { topic: self.topic.clone(), letters: notice.letters(), failure };
            self.untold.lock().unwrap_or_else(PoisonError::into_inner).put_back(notice);
            not_sent
        })
    }

    async fn publish(&self, notice: &ArchiveNotice) -> Result<(), Failure> {
        let mut there = aws_sdk_sns::config::Builder::new();
        let own = self.sns.config().region();
        there.set_region(elsewhere(&self.topic, own).or(own.cloned()));
        let request = self.sns.publish().topic_arn(self.topic.as_str()).subject(notice.subject());
        let request = request.message_structure("json").message(notice.message(&self.archive));
        let sent = request.customize().config_override(there).send().await;
        sent.map(|_| ()).map_err(|error| failure_of_call(&error))
    }
}
