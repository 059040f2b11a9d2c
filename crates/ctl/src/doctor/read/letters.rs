//! The overrides and the waiting letters.

use redrive_aws::control::WaitingList;
use redrive_aws::settings::Settings;
use redrive_core::policy::Override;
use redrive_core::waiting::WaitingLetter;

use super::super::setup::{HiddenLetter, ReadError, ReadResult};
use crate::console::{CommandFailure, ToolEnvironment};
use crate::control::ControlAccess;
use crate::s3_location::BucketPrefix;

/// The overrides and the waiting letters, if the function has a place for them.
type LetterReads = (Option<ReadResult<Vec<Override>>>, Option<ReadResult<Vec<HiddenLetter>>>);

/// Reads the control prefix, if the function has one.
pub(super) async fn read(
    s3: &aws_sdk_s3::Client,
    settings: Option<&Settings>,
    console: &mut ToolEnvironment,
) -> LetterReads {
    let Some((settings, control)) =
        settings.and_then(|settings| Some((settings, settings.control.as_ref()?)))
    else {
        return (None, None);
    };
    let place = BucketPrefix { bucket: control.bucket.clone(), prefix: control.prefix.clone() };
    let control = ControlAccess::new(s3.clone(), place);
    let error = |failed: CommandFailure| ReadError::new("s3:GetObject", failed.to_string());
    let overrides = control.overrides(console).await.map(|overrides| overrides.all().to_vec()).map_err(error);
    if !settings.waiting_list {
        return (Some(overrides), None);
    }
    let mut list = WaitingList::default();
    let now = console.clock.now();
    let keep = |_, letter: WaitingLetter| {
        (letter.queue_arn.to_string(), letter.target.as_ref().map(ToString::to_string))
    };
    let read = control.read_waiting(&mut list, now, None, keep, |_| ()).await;
    // Only its listing can fail as a whole.
    let unlisted = |failed: CommandFailure| ReadError::new("s3:ListBucket", failed.to_string());
    let waiting = read.map_err(unlisted).and_then(|()| match list.unread() {
        0 => Ok(()),
        unread => {
            Err(ReadError::new("s3:GetObject", format!("{unread} parts of the list could not be read")))
        }
    });
    let waiting = waiting.map(|()| {
        let lines = list.due_after(now);
        lines
            .map(|line| {
                let (queue, target) = line.kept.clone();
                HiddenLetter { queue, target, since: line.since }
            })
            .collect()
    });
    (Some(overrides), Some(waiting))
}
