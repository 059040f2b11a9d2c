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
    let region = url.host_str().and_then(region_of_host).map(str::to_owned);
    let (account, name) = url.path().strip_prefix('/')?.rsplit_once('/')?;
    let account = account.rsplit('/').next().unwrap_or(account);
    Some((region, Some(account.to_owned()), name.to_owned()))
}

/// Returns the region in the host of an endpoint of SQS: also of one in a VPC, with FIPS, and of the legacy ones.
/// <https://docs.aws.amazon.com/general/latest/gr/sqs-service.html>
fn region_of_host(host: &str) -> Option<&str> {
    const LEGACY: &str = "queue.amazonaws.com";
    if host == LEGACY {
        return Some("us-east-1");
    }
    let legacy = host.strip_suffix(LEGACY).and_then(|start| start.strip_suffix('.'));
    let named = || {
        let mut labels = host.split('.').skip_while(|label| !matches!(*label, "sqs" | "sqs-fips"));
        labels.nth(1)
    };
    legacy.or_else(named)
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

    #[test]
    fn hosts_name_their_region() {
        let hosts = [
            ("sqs.eu-central-1.amazonaws.com", Some("eu-central-1")),
            ("sqs.cn-north-1.amazonaws.com.cn", Some("cn-north-1")),
            ("sqs-fips.us-west-2.amazonaws.com", Some("us-west-2")),
            ("sqs.eu-west-1.api.aws", Some("eu-west-1")),
            ("vpce-0a1b-2c3d.sqs.eu-west-1.vpce.amazonaws.com", Some("eu-west-1")),
            ("eu-west-1.queue.amazonaws.com", Some("eu-west-1")),
            ("queue.amazonaws.com", Some("us-east-1")),
            ("localhost", None),
            ("sqs", None),
        ];
        for (host, region) in hosts {
            assert_eq!(region_of_host(host), region, "{host}");
        }
    }
}
