//! The kinds of place that a letter can be sent to.

use std::fmt;

use url::{Host, Url};

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
    pub subscription: Option<Through>,
}

/// A subscription that a letter goes through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Through {
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
pub struct HttpUrl(Url);

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

    /// Returns the endpoint's URL, if it has one, without the query, which may hold a secret.
    #[must_use]
    pub fn url(&self) -> Option<String> {
        match self {
            Self::Http(url) => Some(url.to_string()),
            Self::Topic(_) | Self::Queue(_) | Self::Function(_) | Self::Stream(_) => None,
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
        Ok(Self(url))
    }

    /// Returns the whole URL, query included, for the request.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns the host, which may be an IP address.
    #[must_use]
    pub fn host(&self) -> Option<Host<&str>> {
        self.0.host()
    }

    fn is_under(&self, prefix: &str) -> bool {
        let Ok(prefix) = Url::parse(prefix) else { return false };
        let same_server = self.0.origin() == prefix.origin();
        let rest = self.0.path().strip_prefix(prefix.path());
        let at_boundary =
            rest.is_some_and(|rest| rest.is_empty() || prefix.path().ends_with('/') || rest.starts_with('/'));
        same_server && at_boundary && prefix.query().is_none()
    }
}

/// Shows the URL without its query.
impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut url = self.0.clone();
        url.set_query(None);
        url.set_fragment(None);
        url.fmt(f)
    }
}

/// Shows the URL without its query.
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

    #[test]
    fn a_query_is_never_shown() {
        assert_eq!(http("https://a.example/hook?token=secret#x").url().unwrap(), "https://a.example/hook");
        assert_eq!(format!("{:?}", http("https://a.example/?token=secret")), "Http(https://a.example/)");
    }
}
