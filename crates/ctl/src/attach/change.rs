//! The calls that change the redrive policies of subscriptions.

use std::sync::atomic::{AtomicBool, Ordering};

use super::row::{RowEnd, RowStep, SubscriptionRow};
use crate::console::ToolEnvironment;
use crate::doctor::{ask, read_error};
use crate::progress_line::ProgressLine;
use crate::tables::thousands;

/// Carries out the changes, one after the other. Returns true if it was interrupted. A change that fails does not
/// stop the others.
pub(super) async fn change(
    sns: &aws_sdk_sns::Client,
    rows: &mut [SubscriptionRow],
    stop: &AtomicBool,
    console: &mut ToolEnvironment,
) -> bool {
    let number = rows.iter().filter(|row| row.step == RowStep::Change).count();
    let mut screen = ProgressLine::new(&mut *console.err, console.progress);
    for (done, row) in rows.iter_mut().filter(|row| row.step == RowStep::Change).enumerate() {
        if stop.load(Ordering::Relaxed) {
            return true;
        }
        screen.show(&format!(
            "{} of {} subscriptions changed",
            thousands(done as u64),
            thousands(number as u64)
        ));
        row.end = one(sns, row).await;
    }
    false
}

/// Changes a subscription, unless somebody else has changed it since it was read.
async fn one(sns: &aws_sdk_sns::Client, row: &SubscriptionRow) -> RowEnd {
    match ask(sns, &row.arn).await {
        Ok(now) if now.redrive_policy == row.before => {}
        Ok(_) => return RowEnd::Overtaken,
        Err(error) => return RowEnd::Failed(format!("{} failed ({})", error.call, error.reason())),
    }
    let set = sns.set_subscription_attributes().subscription_arn(&row.arn).attribute_name("RedrivePolicy");
    // SNS takes the policy away if there is no value, and refuses an empty one.
    let set = set.set_attribute_value(row.after.clone()).send().await;
    match set.map_err(|error| read_error("sns:SetSubscriptionAttributes", &error)) {
        Ok(_) => RowEnd::Done,
        Err(error) => RowEnd::Failed(format!("{} failed ({})", error.call, error.reason())),
    }
}
