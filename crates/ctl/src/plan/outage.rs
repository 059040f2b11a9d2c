//! The longest outage that a schedule survives, in words.

use redrive_console::schedule::Timetable;
use redrive_core::policy::expiry_margin;

use crate::tables::{brief, clock};

/// The longest retention of a queue, in seconds.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
const MAX_RETENTION: u64 = 1_209_600;

/// Says how long an outage may be, and what a longer one would take.
pub(super) fn says(timetable: &Timetable) -> String {
    let survives = match timetable.survives {
        0 => "No outage is survived for sure: every retry may come at once.".to_owned(),
        survives => format!(
            "An outage of up to {} is delivered whole; what fails longer is archived.",
            clock(survives)
        ),
    };
    format!("{survives} {}", more(timetable))
}

/// Says what the schedule would need for a longer outage.
fn more(timetable: &Timetable) -> String {
    let retention = timetable.retention;
    let most = retention - expiry_margin(retention);
    let (keeps, end) = (brief(retention), clock(most));
    if timetable.length() <= most {
        let longest = timetable.schedule.max;
        return format!(
            "More takes more retries (each adds up to {}) or longer delays; a retention of {keeps} allows up to {end}.",
            brief(longest.into())
        );
    }
    if retention < MAX_RETENTION {
        return format!("More takes a longer retention than {keeps}; SQS allows {}.", brief(MAX_RETENTION));
    }
    format!("The retention, the longest of SQS, allows up to {end}.")
}
