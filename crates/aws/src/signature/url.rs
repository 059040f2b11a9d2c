//! The URLs of SNS's certificates, and no other URLs.
//!
//! The URL comes from the letter and is fetched by the function. So an attacker could use it to point to a
//! certificate of their own or to an address inside the network. It is not parsed and then judged, because
//! parsers disagree; it is compared with the one form that SNS writes.

use std::fmt;

use redrive_core::arn::{Arn, ArnKind};

use super::fault::SignatureFault;

/// The URL of one of SNS's signing certificates:
/// `https://sns.<region>.amazonaws.com/SimpleNotificationService-<hex>.pem`, or with the domain of another
/// partition. A value of this type never leads to another host, path, scheme or port.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CertificateUrl(String);

/// The greatest number of hexadecimal digits in the name. SNS uses 32.
const MAX_DIGITS: usize = 64;

impl CertificateUrl {
    /// Returns the URL if it is one of SNS in the region of `topic`.
    ///
    /// # Errors
    ///
    /// [`SignatureFault::ForeignCertificateUrl`] for every other text.
    pub fn of(text: &str, topic: &Arn) -> Result<Self, SignatureFault> {
        let digits = SigningRegion::of(topic).and_then(|SigningRegion { region, domain }| {
            text.strip_prefix("https://sns.")?
                .strip_prefix(region)?
                .strip_prefix('.')?
                .strip_prefix(domain)?
                .strip_prefix("/SimpleNotificationService-")?
                .strip_suffix(".pem")
        });
        let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match digits {
            Some(digits) if (1..=MAX_DIGITS).contains(&digits.len()) && digits.bytes().all(is_digit) => {
                Ok(Self(text.to_owned()))
            }
            _ => Err(SignatureFault::ForeignCertificateUrl),
        }
    }

    /// Returns the whole URL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CertificateUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CertificateUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The region of a topic and the domain of its partition, both checked for use in a host name.
pub(super) struct SigningRegion<'a> {
    region: &'a str,
    domain: &'static str,
}

impl<'a> SigningRegion<'a> {
    pub(super) fn of(topic: &'a Arn) -> Option<Self> {
        let (region, domain) = (topic.region(), topic.domain());
        (topic.kind() == ArnKind::Topic && is_region(region)).then_some(Self { region, domain })
    }

    /// Returns the names to which AWS issues SNS's signing certificates: the global one, the regional ones of
    /// opt-in regions, and the older regional ones of China, of isolated regions and of `GovCloud`, whose two
    /// regions share one.
    /// <https://github.com/aws/aws-sdk-java-v2/blob/master/services-custom/sns-message-manager/src/main/java/software/amazon/awssdk/messagemanager/sns/internal/SnsHostProvider.java>
    pub(super) fn certificate_names(&self) -> [String; 4] {
        let Self { region, domain } = self;
        let old = if *region == "us-gov-east-1" { "us-gov-west-1" } else { region };
        [
            format!("sns.{domain}"),
            format!("sns.{region}.{domain}"),
            format!("sns-signing.{region}.{domain}"),
            format!("sns-{old}.{domain}"),
        ]
    }
}

/// Reports whether this is a region's name, such as `eu-central-1` or `us-gov-west-1`: digits only at the
/// end. The topic's ARN also comes from the letter, and `sns.s3.amazonaws.com` would be somebody's bucket, as
/// `sns.s3-eu-west-1` was.
fn is_region(text: &str) -> bool {
    let letters = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase());
    let parts: Vec<_> = text.split('-').collect();
    match parts.as_slice() {
        [area, middle @ .., number] => {
            (2..=4).contains(&area.len())
                && letters(area)
                && (1..=2).contains(&middle.len())
                && middle.iter().all(letters)
                && (1..=2).contains(&number.len())
                && number.bytes().all(|byte| byte.is_ascii_digit())
        }
        _ => false,
    }
}
