//! Amazon Resource Names, parsed once.
//!
//! Letters, policies and settings name queues, topics, subscriptions and functions by ARN. An [`Arn`] always
//! has its six parts, so the code that gets one need not check again.
//! Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html>

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// An ARN with six parts, `arn:partition:service:region:account:resource`.
///
/// ```
/// use redrive_core::arn::Arn;
/// let arn: Arn = "arn:aws:sqs:eu-central-1:123456789012:payments-dlq".parse().unwrap();
/// assert_eq!((arn.service(), arn.resource()), ("sqs", "payments-dlq"));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(into = "String")]
pub struct Arn {
    // Shared, because all letters of a batch name the same few ARNs.
    text: Arc<str>,
    /// The positions of the first five colons, so that no part is searched for twice.
    colons: [u16; 5],
}

/// The error of a text that is not an ARN.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an ARN of the form arn:partition:service:region:account:resource")]
pub struct NotAnArn;

/// Every partition of AWS with the domain in which its services have their hosts. A text that names another
/// partition is not an ARN, since the host of its queue is unknown.
/// <https://github.com/boto/botocore/blob/develop/botocore/data/partitions.json>, which is the table in
/// `src/endpoint_lib.rs` of every crate of the SDK
const DOMAINS: [(&str, &str); 8] = [
    ("aws", "amazonaws.com"),
    ("aws-cn", "amazonaws.com.cn"),
    ("aws-us-gov", "amazonaws.com"),
    ("aws-eusc", "amazonaws.eu"),
    ("aws-iso", "c2s.ic.gov"),
    ("aws-iso-b", "sc2s.sgov.gov"),
    ("aws-iso-e", "cloud.adc-e.uk"),
    ("aws-iso-f", "csp.hci.ic.gov"),
];

impl Arn {
    /// Returns the whole ARN.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the partition: `aws`, `aws-cn`, `aws-us-gov`.
    #[must_use]
    pub fn partition(&self) -> &str {
        self.part(1)
    }

    /// Returns the domain of the partition, `amazonaws.com` in `aws`. A service's host is
    /// `<service>.<region>.<domain>`.
    #[must_use]
    pub fn domain(&self) -> &'static str {
        // An ARN in another partition does not parse.
        domain_of(self.partition()).unwrap_or_default()
    }

    /// Returns the service: `sqs`, `sns`, `lambda`.
    #[must_use]
    pub fn service(&self) -> &str {
        self.part(2)
    }

    /// Returns the region, such as `eu-central-1`. It is empty for global resources.
    #[must_use]
    pub fn region(&self) -> &str {
        self.part(3)
    }

    /// Returns the twelve digits of the account. They are empty for a few global resources.
    #[must_use]
    pub fn account(&self) -> &str {
        self.part(4)
    }

    /// Returns all that follows the account, colons included.
    #[must_use]
    pub fn resource(&self) -> &str {
        self.part(5)
    }

    /// Reports whether this names a FIFO queue or topic.
    #[must_use]
    pub fn is_fifo(&self) -> bool {
        self.text.strip_suffix(".fifo").is_some()
    }

    /// Removes `:$LATEST` from the ARN of a function, which means the same without it. Lambda writes the
    /// suffix into every destination record, while grants and lists name functions without it.
    /// <https://docs.aws.amazon.com/lambda/latest/dg/configuration-versions.html>
    #[must_use]
    pub fn without_latest(self) -> Self {
        match self.text.strip_suffix(":$LATEST") {
            // The suffix's colon is not among the first five if this names a function.
            Some(plain) if plain.len() > usize::from(self.colons[4]) => {
                Self { text: plain.into(), colons: self.colons }
            }
            _ => self,
        }
    }

    /// Returns the kind of the resource, as far as this software distinguishes them.
    #[must_use]
    pub fn kind(&self) -> ArnKind {
        let resource = self.resource();
        let parts = resource.split(':').count();
        // The names of queues and topics consist of letters, digits and these. Any other character would
        // change a URL.
        let name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        if matches!(self.service(), "sqs" | "sns") && !resource.bytes().all(name) {
            return ArnKind::Other;
        }
        match (self.service(), parts) {
            ("sqs", 1) => ArnKind::Queue,
            ("sns", 1) => ArnKind::Topic,
            ("sns", 2) => ArnKind::Subscription,
            ("lambda", 2 | 3) if resource.starts_with("function:") => ArnKind::Function,
            ("firehose", 1) if resource.starts_with("deliverystream/") => ArnKind::Stream,
            _ => ArnKind::Other,
        }
    }

    /// Returns the URL of a queue, by which SQS knows it in requests.
    ///
    /// It is built instead of fetched (`GetQueueUrl`): the form is fixed by SQS, and this saves a call and a
    /// permission. The host is the one that SQS expects in the URL; the request itself goes to the client's
    /// endpoint.
    /// Source:
    /// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-queue-message-identifiers.html>
    #[must_use]
    pub fn queue_url(&self) -> String {
        let (region, account, name) = (self.region(), self.account(), self.resource());
        format!("https://sqs.{region}.{}/{account}/{name}", self.domain())
    }

    fn part(&self, index: usize) -> &str {
        let after = |colon: u16| usize::from(colon) + 1;
        let begin = index.checked_sub(1).map_or(0, |before| after(self.colons[before]));
        let end = self.colons.get(index).map_or(self.text.len(), |colon| usize::from(*colon));
        &self.text[begin..end]
    }
}

/// The kinds of resource that letters and policies name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArnKind {
    /// An SQS queue.
    Queue,
    /// An SNS topic.
    Topic,
    /// A subscription of an SNS topic.
    Subscription,
    /// A Lambda function, with or without a version or alias.
    Function,
    /// An Amazon Data Firehose stream.
    Stream,
    /// Anything else.
    Other,
}

impl std::str::FromStr for Arn {
    type Err = NotAnArn;

    fn from_str(text: &str) -> Result<Self, NotAnArn> {
        let arn = Self { text: text.into(), colons: colons(text).ok_or(NotAnArn)? };
        // AWS's own limit for an ARN is 2,048 characters.
        let plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        let fits = text.len() <= 2048 && (plain || !text.contains(char::is_whitespace));
        // The region becomes a part of the host that is called: a letter must not choose that host.
        let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_word = |part: &str| part.bytes().all(word);
        let whole = arn.part(0) == "arn"
            && domain_of(arn.partition()).is_some()
            && !arn.service().is_empty()
            && is_word(arn.service())
            && is_word(arn.region())
            && arn.account().bytes().all(|byte| byte.is_ascii_digit())
            && !arn.resource().is_empty();
        if fits && whole { Ok(arn) } else { Err(NotAnArn) }
    }
}

fn domain_of(partition: &str) -> Option<&'static str> {
    DOMAINS.iter().find(|(known, _)| *known == partition).map(|(_, domain)| *domain)
}

/// Returns the positions of the first five colons, if they are near enough to the beginning for an ARN.
fn colons(text: &str) -> Option<[u16; 5]> {
    let mut found = text.bytes().enumerate().filter(|(_, byte)| *byte == b':').map(|(index, _)| index);
    let mut colons = [0; 5];
    for colon in &mut colons {
        *colon = u16::try_from(found.next()?).ok()?;
    }
    Some(colons)
}

impl<'de> Deserialize<'de> for Arn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ArnVisitor;

        impl Visitor<'_> for ArnVisitor {
            type Value = Arn;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Arn, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(ArnVisitor)
    }
}

impl From<Arn> for String {
    fn from(arn: Arn) -> Self {
        arn.text.as_ref().to_owned()
    }
}

impl fmt::Display for Arn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Arn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_from_service_and_resource() {
        for (arn, kind) in [
            ("arn:aws:sqs:eu-central-1:123456789012:payments-dlq", ArnKind::Queue),
            ("arn:aws:sns:eu-central-1:123456789012:payments", ArnKind::Topic),
            ("arn:aws:sns:eu-central-1:123456789012:payments:0a1b", ArnKind::Subscription),
            ("arn:aws:lambda:eu-central-1:123456789012:function:f", ArnKind::Function),
            ("arn:aws:lambda:eu-central-1:123456789012:function:f:live", ArnKind::Function),
            ("arn:aws:firehose:eu-central-1:123456789012:deliverystream/audit", ArnKind::Stream),
            ("arn:aws:s3:::bucket", ArnKind::Other),
            ("arn:aws:sqs:eu-central-1:123456789012:a/../b?c", ArnKind::Other),
        ] {
            assert_eq!(arn.parse::<Arn>().map(|arn| arn.kind()), Ok(kind), "{arn}");
        }
    }

    #[test]
    fn the_latest_version_of_a_function_is_the_function() {
        let function = "arn:aws:lambda:eu-central-1:123456789012:function:payments";
        let without = |arn: &str| arn.parse::<Arn>().unwrap().without_latest().to_string();
        assert_eq!(without(&format!("{function}:$LATEST")), function);
        // Whatever this is, it has no name without the ending.
        let nameless = "arn:aws:lambda:eu-central-1:123456789012:$LATEST";
        assert_eq!(without(nameless), nameless);
    }

    #[test]
    fn what_is_no_arn_is_refused() {
        for text in [
            "",
            "payments",
            "arn:aws:sqs:eu-central-1:123456789012",
            "arn:::::",
            "arn:aws:sqs:r:1:b c",
            "arn:aws:sqs:r:1:b\u{2003}c",
            // The domain of a queue in a partition that does not exist is unknown.
            "arn:evil:sqs:r:1:q",
            "arn:aws-:sqs:r:1:q",
            "arn:aws-iso-z:sqs:r:1:q",
            "arn:AWS:sqs:r:1:q",
        ] {
            assert_eq!(text.parse::<Arn>(), Err(NotAnArn), "{text:?}");
        }
    }

    #[test]
    fn queue_urls_follow_the_partition() {
        for (partition, region, domain) in [
            ("aws", "eu-central-1", "amazonaws.com"),
            ("aws-cn", "cn-north-1", "amazonaws.com.cn"),
            ("aws-us-gov", "us-gov-west-1", "amazonaws.com"),
            ("aws-iso", "us-iso-east-1", "c2s.ic.gov"),
            ("aws-iso-b", "us-isob-east-1", "sc2s.sgov.gov"),
            ("aws-iso-e", "eu-isoe-west-1", "cloud.adc-e.uk"),
            ("aws-iso-f", "us-isof-south-1", "csp.hci.ic.gov"),
            ("aws-eusc", "eusc-de-east-1", "amazonaws.eu"),
        ] {
            let text = format!("arn:{partition}:sqs:{region}:123456789012:q.fifo");
            let url = text.parse::<Arn>().map(|arn| arn.queue_url());
            assert_eq!(url, Ok(format!("https://sqs.{region}.{domain}/123456789012/q.fifo")));
        }
    }
}
