//! The kinds of place that a letter can be sent to.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};
use url::{Host, Position, Url};

use crate::arn::{Arn, ArnKind};

/// A place that takes messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// An SNS topic: every subscriber.
    Topic(Arn),
    /// An SQS queue.
    Queue(Arn),
    /// A Lambda function.
    Function(Arn),
    /// An Amazon Data Firehose stream.
    Stream(Arn),
    /// A web server.
    Http(HttpUrl),
}

/// The place that a letter goes to, and the subscription that it goes through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The place.
    pub endpoint: Endpoint,
    /// The subscription whose endpoint this is, if the letter goes through one.
    pub subscription: Option<DeliverySubscription>,
}

/// A subscription that a letter goes through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliverySubscription {
    /// The subscription.
    pub subscription: Arn,
    /// Its topic.
    pub topic: String,
    /// `Content-Type` of HTTP/S posts.
    pub content_type: Option<String>,
    /// The text that ends a record for a stream; empty for none.
    pub record_delimiter: &'static str,
}

/// The URL of an HTTP/S endpoint that can be posted to.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HttpUrl {
    url: Url,
    name: TargetName,
}

/// The name of a target in logs, records, lists and pages: an ARN, or scheme, host and a short digest of a URL, such as
/// `https://a.example#8a5edab28263`.
///
/// Webhooks carry their secret in the path, so of a URL nothing else is ever shown. One URL has the same name everywhere,
/// so that its letters can be counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct TargetName(String);

/// The number of hexadecimal digits of a digest: 48 bits.
const DIGEST_DIGITS: usize = 12;

/// The reason why a URL cannot be posted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// The scheme is neither `http` nor `https`, or there is no host.
    #[error("the endpoint is not an http or https URL")]
    NotHttp,
    /// SNS shows a URL with credentials only as `https://user:****@host`.
    #[error("SNS masks the password of the endpoint (****), so only SNS can post to it")]
    MaskedPassword,
}

impl Endpoint {
    /// Returns the endpoint that an ARN names, or `None` for anything but a topic, queue, function or stream.
    #[must_use]
    pub fn of_arn(arn: Arn) -> Option<Self> {
        match arn.kind() {
            ArnKind::Topic => Some(Self::Topic(arn)),
            ArnKind::Queue => Some(Self::Queue(arn)),
            ArnKind::Function => Some(Self::Function(arn)),
            ArnKind::Stream => Some(Self::Stream(arn)),
            ArnKind::Subscription | ArnKind::Other => None,
        }
    }

    /// Returns the endpoint's ARN, if it has one.
    #[must_use]
    pub fn arn(&self) -> Option<&Arn> {
        match self {
            Self::Topic(arn) | Self::Queue(arn) | Self::Function(arn) | Self::Stream(arn) => Some(arn),
            Self::Http(_) => None,
        }
    }

    /// Returns the name of the endpoint's URL, if it has one.
    #[must_use]
    pub fn url(&self) -> Option<&TargetName> {
        match self {
            Self::Http(url) => Some(&url.name),
            Self::Topic(_) | Self::Queue(_) | Self::Function(_) | Self::Stream(_) => None,
        }
    }

    /// Returns the endpoint's name.
    #[must_use]
    pub fn name(&self) -> TargetName {
        match self {
            Self::Http(url) => url.name.clone(),
            Self::Topic(arn) | Self::Queue(arn) | Self::Function(arn) | Self::Stream(arn) => {
                TargetName(arn.as_str().to_owned())
            }
        }
    }

    /// Reports whether the endpoint is one of a rule's `allowTargets`. An ARN must be equal. A URL is a
    /// prefix that ends at a boundary of the path, so that `https://a.example` does not allow
    /// `https://a.example.org`.
    #[must_use]
    pub fn is_allowed(&self, allowed: &[String]) -> bool {
        allowed.iter().any(|entry| match self {
            Self::Http(url) => url.is_under(entry),
            Self::Topic(arn) | Self::Queue(arn) | Self::Function(arn) | Self::Stream(arn) => {
                arn.as_str() == entry
            }
        })
    }
}

impl HttpUrl {
    /// Checks a subscription's endpoint.
    ///
    /// # Errors
    ///
    /// [`BadUrl`] if the function cannot post to the endpoint.
    pub fn parse(text: &str) -> Result<Self, BadUrl> {
        let url = Url::parse(text).map_err(|_| BadUrl::NotHttp)?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(BadUrl::NotHttp);
        }
        // SNS masks credentials, so those that arrive here are not the real ones.
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BadUrl::MaskedPassword);
        }
        Ok(Self { name: TargetName::of_url(&url), url })
    }

    /// Returns the whole URL for the request. It must never be shown.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// Returns the host, which may be an IP address.
    #[must_use]
    pub fn host(&self) -> Option<Host<&str>> {
        self.url.host()
    }

    fn is_under(&self, prefix: &str) -> bool {
        let Ok(prefix) = Url::parse(prefix) else { return false };
        let same_server = self.url.origin() == prefix.origin();
        let rest = self.url.path().strip_prefix(prefix.path());
        let at_boundary =
            rest.is_some_and(|rest| rest.is_empty() || prefix.path().ends_with('/') || rest.starts_with('/'));
        same_server && at_boundary && prefix.query().is_none()
    }
}

impl TargetName {
    /// Returns the name of what a text names: an ARN, a URL, or a name that was made of a URL before. Of any other text
    /// only the digest is left, since nobody knows what is in it.
    #[must_use]
    pub fn read(text: &str) -> Self {
        if text.parse::<Arn>().is_ok() || is_made(text) {
            return Self(text.to_owned());
        }
        Url::parse(text).map_or_else(|_| Self(format!("#{}", digest([text]))), |url| Self::of_url(&url))
    }

    fn of_url(url: &Url) -> Self {
        let rest = [&url[Position::BeforeUsername..Position::BeforeHost], &url[Position::BeforePath..]];
        Self(format!("{}#{}", server(url), digest(rest)))
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reports whether it is the name of a URL, and no ARN.
    #[must_use]
    pub fn is_url(&self) -> bool {
        !self.0.starts_with("arn:")
    }

    /// Reports whether a text is the name of a URL that can be posted to.
    #[must_use]
    pub fn is_of_url(text: &str) -> bool {
        let is_server = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
        is_server && is_made(text)
    }

    /// Returns the digest of the name, for keys: 12 hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> String {
        digest([self.as_str()])
    }

    /// Reports whether a text has the form of a digest.
    #[must_use]
    pub fn is_digest(text: &str) -> bool {
        text.len() == DIGEST_DIGITS
            && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    }
}

/// Returns a text in which only the name of each URL is left, for what may be logged. Locations in S3 stay: they hold
/// no secret.
#[must_use]
pub fn without_urls(text: &str) -> String {
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'');
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, _)) = rest.split_once("://") {
        let scheme = before.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        let (kept, url) = rest.split_at(before.len() - scheme.len());
        let (url, after) = url.split_at(url.find(ends).unwrap_or(url.len()));
        shown.push_str(kept);
        if scheme == "s3" {
            shown.push_str(url);
        } else {
            shown.push_str(TargetName::read(url).as_str());
        }
        rest = after;
    }
    shown + rest
}

/// Returns a URL's scheme, host and port.
fn server(url: &Url) -> String {
    [&url[..Position::BeforeUsername], &url[Position::BeforeHost..Position::BeforePath]].concat()
}

fn digest<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let hash = parts.into_iter().fold(Sha256::new(), Sha256::chain_update).finalize();
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16);
    hash.iter().flat_map(|byte| [byte >> 4, byte & 15]).filter_map(digit).take(DIGEST_DIGITS).collect()
}

/// Reports whether a text is a name that was made of a URL, or of text that is none.
fn is_made(text: &str) -> bool {
    let Some((before, digits)) = text.rsplit_once('#') else { return false };
    TargetName::is_digest(digits)
        && (before.is_empty() || Url::parse(before).is_ok_and(|url| server(&url) == before))
}

impl fmt::Display for TargetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Makes a name of a whole URL that somebody has written.
impl<'de> Deserialize<'de> for TargetName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::read(&text))
    }
}

/// Shows the URL's name.
impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.name, f)
    }
}

/// Shows the URL's name.
impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(url: &str) -> Endpoint {
        Endpoint::Http(HttpUrl::parse(url).unwrap())
    }

    #[test]
    fn a_url_prefix_allows_what_is_below_it_and_nothing_beside_it() {
        let allowed = |url: &str, prefix: &str| http(url).is_allowed(&[prefix.to_owned()]);
        for (url, prefix) in [
            ("https://a.example/hook", "https://a.example"),
            ("https://a.example/hook?x=1", "https://a.example/hook"),
            ("https://a.example/hook/1", "https://a.example/hook/"),
            ("https://a.example:443/hook", "https://a.example/"),
        ] {
            assert!(allowed(url, prefix), "{url} under {prefix}");
        }
        for (url, prefix) in [
            ("https://a.example.org/hook", "https://a.example"),
            ("https://a.example@evil.org/", "https://a.example"),
            ("https://a.example/hooks", "https://a.example/hook"),
            ("https://a.example/x/../other", "https://a.example/x"),
            ("http://a.example/hook", "https://a.example/hook"),
            ("https://a.example:8443/", "https://a.example/"),
            ("https://a.example/", "a.example"),
        ] {
            let reached =
                HttpUrl::parse(url).is_ok_and(|url| Endpoint::Http(url).is_allowed(&[prefix.to_owned()]));
            assert!(!reached, "{url} under {prefix}");
        }
    }

    #[test]
    fn urls_that_nobody_can_post_to_say_why() {
        assert_eq!(HttpUrl::parse("https://user:****@a.example/").unwrap_err(), BadUrl::MaskedPassword);
        assert_eq!(HttpUrl::parse("ftp://a.example/").unwrap_err(), BadUrl::NotHttp);
        assert_eq!(HttpUrl::parse("someone@a.example").unwrap_err(), BadUrl::NotHttp);
    }

    /// The digest is what `printf %s '/hook?token=secret' | sha256sum` begins with.
    #[test]
    fn of_a_url_only_scheme_host_and_a_digest_are_shown() {
        let url = http("https://A.example:8443/hook?token=secret");
        assert_eq!(url.url().unwrap().as_str(), "https://a.example:8443#cee28d18b8fd");
        assert_eq!(url.name().to_string(), "https://a.example:8443#cee28d18b8fd");
        assert_eq!(format!("{url:?}"), "Http(https://a.example:8443#cee28d18b8fd)");
        let mut names: Vec<_> = ["", "/", "/a", "/a/", "/a?b", "/a#b"]
            .map(|rest| http(&format!("https://a.example{rest}")).name())
            .into();
        assert_eq!(names[0], names[1], "the same URL");
        names.dedup();
        assert_eq!(names.len(), 5);
    }

    #[test]
    fn a_name_of_a_name_is_that_name_and_no_other_text_is_shown() {
        for text in
            ["arn:aws:sqs:eu-central-1:123456789012:a", "https://a.example#8a5edab28263", "#8a5edab28263"]
        {
            assert_eq!(TargetName::read(text).as_str(), text);
        }
        for text in [
            "https://user:S3CR3T@a.example/",
            "https://a.example/S3CR3T#8a5edab28263",
            "https://a.example/?S3CR3T",
            "https://a.example/#S3CR3T",
            "https://S3CR3T@a.example#8a5edab28263",
            "mailto:S3CR3T@a.example",
            "S3CR3T@a.example",
            "a.example/S3CR3T#8a5edab28263",
            "arn:S3CR3T",
        ] {
            let name = TargetName::read(text);
            assert!(!name.as_str().contains("S3CR3T"), "{text}: {name}");
            assert_eq!(TargetName::read(name.as_str()), name, "{text}");
            let read: TargetName = serde_json::from_value(text.into()).unwrap();
            assert_eq!(read, name, "{text}");
        }
    }

    #[test]
    fn a_text_keeps_all_but_the_urls_in_it() {
        let name = TargetName::read("https://a.example/S3CR3T").to_string();
        for (text, expected) in [
            ("", String::new()),
            ("must be a: b, not \"c\"", "must be a: b, not \"c\"".to_owned()),
            ("must be s3://bucket/prefix or off", "must be s3://bucket/prefix or off".to_owned()),
            (
                "not \"https://a.example/S3CR3T\": x (https://a.example/S3CR3T",
                format!("not \"{name}\": x ({name}"),
            ),
            ("rules[0].https://a.example/S3CR3T", format!("rules[0].{name}")),
            ("://S3CR3T", TargetName::read("://S3CR3T").to_string()),
            ("s3://a and https://a.example/S3CR3T ", format!("s3://a and {name} ")),
        ] {
            assert_eq!(without_urls(text), expected);
            assert_eq!(without_urls(&expected), expected, "the same of what is shown");
        }
    }
}
