//! A queue that is named on the command line by its name, URL or ARN.

use redrive_core::arn::{Arn, ArnKind};
use url::Url;

use crate::aws::{self, AwsAccess};
use crate::console::CommandFailure;
use crate::tables::harmless;

/// Returns the ARN of a queue that is named by its name, URL or ARN.
pub(crate) async fn arn_of(named: &str, aws: &AwsAccess) -> Result<Arn, CommandFailure> {
    let no_queue = || {
        let problem =
            format!("--queue {}: it must be the name, the URL or the ARN of a queue", harmless(named));
        CommandFailure::Input(vec![problem])
    };
    if let Ok(arn) = named.parse::<Arn>() {
        return if arn.kind() == ArnKind::Queue { Ok(arn) } else { Err(no_queue()) };
    }
    let caller = aws::caller(&aws.sts()).await.map_err(|failure| {
        let why = format!("sts:GetCallerIdentity failed ({}): give --queue as an ARN", failure.told());
        CommandFailure::of_call(why, failure.is_denied())
    })?;
    let mut parts = caller.split(':').skip(1);
    let (partition, own_account) = (parts.next().unwrap_or_default(), parts.nth(2).unwrap_or_default());
    let (region, account, name) = match Url::parse(named) {
        Ok(url) => of_url(&url).unwrap_or_default(),
        Err(_) => (None, None, named.to_owned()),
    };
    let region = region.unwrap_or_else(|| aws.region());
    let account = account.unwrap_or_else(|| own_account.to_owned());
    let arn = format!("arn:{partition}:sqs:{region}:{account}:{name}").parse::<Arn>();
    arn.ok().filter(|arn| arn.kind() == ArnKind::Queue).ok_or_else(no_queue)
}

/// Returns region, account and name of a queue's URL. The host of a local stack names no region.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-queue-message-identifiers.html>
fn of_url(url: &Url) -> Option<(Option<String>, Option<String>, String)> {
    let region =
        url.host_str().and_then(|host| Some(host.strip_prefix("sqs.")?.split_once('.')?.0.to_owned()));
    let (account, name) = url.path().strip_prefix('/')?.rsplit_once('/')?;
    let account = account.rsplit('/').next().unwrap_or(account);
    Some((region, Some(account.to_owned()), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_queue() {
        let read = |url: &str| of_url(&Url::parse(url).unwrap());
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            read("https://sqs.eu-central-1.amazonaws.com/123456789012/payments-dlq"),
            Some((some("eu-central-1"), some("123456789012"), "payments-dlq".to_owned()))
        );
        assert_eq!(
            read("http://localhost:4566/queue/eu-central-1/000000000000/payments-dlq.fifo"),
            Some((None, some("000000000000"), "payments-dlq.fifo".to_owned()))
        );
        assert_eq!(read("https://sqs.eu-central-1.amazonaws.com/"), None);
    }
}
