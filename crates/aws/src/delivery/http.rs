//! Posts to web servers as SNS does.
//!
//! The body is the stored one, byte for byte, so an envelope's signature still verifies. Headers, timeout and
//! the interpretation of answers are SNS's.
//! <https://docs.aws.amazon.com/sns/latest/dg/sns-message-and-json-formats.html>,
//! <https://docs.aws.amazon.com/sns/latest/dg/sns-message-delivery-retries.html>

use std::io::{Error, ErrorKind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Collected, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Builder, Error as ClientError};
use redrive_core::batch::SendResult;
use redrive_core::endpoint::{DeliverySubscription, HttpUrl};
use redrive_core::failure::{ANSWER_UNREADABLE, Failure, FailureClass};
use redrive_core::letter::Letter;
use tokio::time::{Instant, timeout, timeout_at};

use super::address_guard::{AddressReach, GuardedResolver, NotAllowed};
use crate::clients::{
    BoundedConnector, ServerConnections, chain, has_root_certificates, http_date, pool, with_tls,
};
use crate::clock::InstanceClock;

/// The time that SNS waits for an answer.
pub(super) const TIMEOUT: Duration = redrive_core::batch::HTTP_TIMEOUT;

/// The time to wait for the body of an answer to a post, if there is as much. The status alone decides, so the
/// body hardly matters.
const MAX_BODY_WAIT: Duration = Duration::from_millis(500);

/// The time after which an idle connection is closed. Many servers close it after five seconds. If one does so
/// while a post is on its way, a letter loses an attempt, since the server may have the post.
const POST_IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// The greatest number of bytes read of an answer's body. The body is read so that its connection can be used
/// again.
const MAX_ANSWER_BYTES: usize = 4 * 1024;

/// The greatest number of an answer's headers: curl's. Together they have at most the 400 KiB of the client's buffer.
/// <https://curl.se/libcurl/c/libcurl-errors.html#CURLETOOLARGE>
const MAX_HEADERS: usize = 5_000;

/// The body of an answer, as a stream.
type HttpBody = UnsyncBoxBody<Bytes, Error>;

/// The user agent that SNS sends.
const SNS_USER_AGENT: &str = "Amazon Simple Notification Service Agent";

/// The content type that SNS sends if the subscription sets none.
const DEFAULT_CONTENT_TYPE: &str = "text/plain; charset=UTF-8";

/// A post of one letter.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpPost<'a> {
    /// The stored body.
    pub body: &'a str,
    /// The name and value of each header, without `Host` and `Content-Length`.
    pub headers: Vec<(&'static str, &'a str)>,
}

impl<'a> HttpPost<'a> {
    /// Packs a letter. A letter from raw delivery has no id of SNS, so SQS's id is used instead.
    pub(super) fn pack(letter: &'a Letter, through: Option<&'a DeliverySubscription>) -> Self {
        let envelope = letter.notification.as_ref();
        let message_id = envelope.map_or(&letter.sqs.message_id, |sns| &sns.message_id);
        let content_type = through.and_then(|through| through.content_type.as_deref());
        let mut headers =
            vec![("x-amz-sns-message-type", "Notification"), ("x-amz-sns-message-id", message_id.as_str())];
        if let Some(through) = through {
            headers.push(("x-amz-sns-topic-arn", &through.topic));
            headers.push(("x-amz-sns-subscription-arn", through.subscription.as_str()));
        }
        if envelope.is_none() {
            headers.push(("x-amz-sns-rawdelivery", "true"));
        }
        headers.push((CONTENT_TYPE.as_str(), content_type.unwrap_or(DEFAULT_CONTENT_TYPE)));
        headers.push((USER_AGENT.as_str(), SNS_USER_AGENT));
        Self { body: &letter.sqs.body, headers }
    }

    fn request(&self, url: &HttpUrl) -> Result<Request<Full<Bytes>>, http::Error> {
        let body = Full::new(Bytes::copy_from_slice(self.body.as_bytes()));
        let mut request = Request::builder().method(Method::POST).uri(url.as_str());
        for (name, value) in &self.headers {
            request = request.header(HeaderName::from_static(name), HeaderValue::from_str(value)?);
        }
        request.body(body)
    }
}

/// A client that posts to web servers, and reads small files from them.
pub struct HttpClient {
    reach: AddressReach,
    network: HttpNetwork,
}

/// The way to reach servers.
#[expect(clippy::large_enum_variant, reason = "a function has one")]
enum HttpNetwork {
    /// The real network. The client is made when it is first needed: reading the system's certificates takes
    /// longer than a cold start should, and most functions never post.
    Real(OnceLock<GuardedPool>, InstanceClock),
    Simulated(Arc<SimulatedNetwork>),
}

type GuardedPool =
    ServerConnections<BoundedConnector<HttpsConnector<HttpConnector<GuardedResolver>>>, Full<Bytes>>;

/// A network for tests. It answers requests, or fails as connections do.
pub type SimulatedNetwork =
    dyn Fn(Request<Full<Bytes>>) -> BoxFuture<'static, std::io::Result<Response<Bytes>>> + Send + Sync;

impl HttpClient {
    /// Creates a client that reaches only what `reach` allows.
    #[must_use]
    pub fn new(reach: AddressReach, clock: InstanceClock) -> Self {
        Self { reach, network: HttpNetwork::Real(OnceLock::new(), clock) }
    }

    /// Creates a client that uses a simulated network.
    #[must_use]
    pub fn simulated(reach: AddressReach, network: Arc<SimulatedNetwork>) -> Self {
        Self { reach, network: HttpNetwork::Simulated(network) }
    }

    /// Posts a letter to a URL. A status that comes before `end` counts.
    pub(super) async fn post(&self, url: &HttpUrl, post: &HttpPost<'_>, end: Instant) -> SendResult {
        let Ok(request) = post.request(url) else {
            return SendResult::Failed(Failure::ours(FailureClass::Permanent, "NotBuildable"));
        };
        let (head, body) = match self.send(url, request).await {
            Ok(answer) => answer,
            Err(sent) => return sent,
        };
        let until = end.min(Instant::now() + MAX_BODY_WAIT);
        // The status decides about the letter, even if the body breaks off.
        let _ = timeout_at(until, Limited::new(body, MAX_ANSWER_BYTES).collect()).await;
        verdict(&head).map_or_else(SendResult::Failed, |()| SendResult::Accepted)
    }

    /// Reads a file of at most `max_bytes`.
    ///
    /// # Errors
    ///
    /// [`Failure`] if the file cannot be read.
    pub async fn get(&self, url: &HttpUrl, max_bytes: usize) -> Result<Bytes, Failure> {
        let not_buildable = |_| Failure::ours(FailureClass::Permanent, "NotBuildable");
        let request = Request::get(url.as_str()).body(Full::default()).map_err(not_buildable)?;
        match self.send(url, request).await {
            Ok((head, body)) => {
                verdict(&head)?;
                let body = timeout(TIMEOUT, Limited::new(body, max_bytes).collect()).await;
                let body = body.ok().and_then(Result::ok).map(Collected::to_bytes);
                body.ok_or_else(|| Failure::ours(FailureClass::Transient, ANSWER_UNREADABLE))
            }
            Err(SendResult::Failed(failure)) => Err(failure),
            Err(_) => Err(Failure::ours(FailureClass::ActionRequired, "AddressNotAllowed")),
        }
    }

    /// Asks for the head of a page, and returns its status.
    ///
    /// # Errors
    ///
    /// The address is not allowed, or no answer came.
    pub async fn head(&self, url: &HttpUrl) -> Result<u16, SendResult> {
        let not_buildable = |_| SendResult::Failed(Failure::ours(FailureClass::Permanent, "NotBuildable"));
        let request = Request::head(url.as_str()).header(USER_AGENT, SNS_USER_AGENT);
        let request = request.body(Full::default()).map_err(not_buildable)?;
        self.send(url, request).await.map(|(head, _)| head.status().as_u16())
    }

    /// Makes one request and returns the answer's head, and its body, which may be still to come. It does not
    /// follow redirects.
    async fn send(
        &self,
        url: &HttpUrl,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<()>, HttpBody), SendResult> {
        // The resolver never sees URLs with an IP address, so they are checked here.
        if let Some(why) = self.reach.refusal(url.host().as_ref()) {
            return Err(SendResult::Refused(why));
        }
        let late = |_| SendResult::Failed(Failure::ours(FailureClass::Transient, "Timeout"));
        let answer = timeout(TIMEOUT, self.exchange(request)).await.map_err(late)??;
        let (head, body) = answer.into_parts();
        Ok((Response::from_parts(head, ()), body))
    }

    /// Sends a request and returns the answer's head and its body as a stream.
    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<HttpBody>, SendResult> {
        match &self.network {
            HttpNetwork::Real(pool, clock) => {
                let pool = self.pool(pool, clock).map_err(SendResult::Failed)?;
                let answer = pool.request(request).await.map_err(|error| failed_request(&error))?;
                Ok(answer
                    .map(|body| body.map_err(|_| Error::from(ErrorKind::ConnectionAborted)).boxed_unsync()))
            }
            HttpNetwork::Simulated(network) => {
                let answer = network(request).await.map_err(|_| unreachable())?;
                Ok(answer.map(|body| Full::new(body).map_err(|never| match never {}).boxed_unsync()))
            }
        }
    }

    fn pool<'p>(
        &self,
        pool_cell: &'p OnceLock<GuardedPool>,
        clock: &InstanceClock,
    ) -> Result<&'p GuardedPool, Failure> {
        if let Some(pool) = pool_cell.get() {
            return Ok(pool);
        }
        if !has_root_certificates() {
            return Err(Failure::ours(FailureClass::ActionRequired, "NoRootCertificates"));
        }
        let mut http = HttpConnector::new_with_resolver(GuardedResolver::new(self.reach));
        http.enforce_http(false);
        http.set_connect_timeout(Some(TIMEOUT));
        let mut builder = pool(POST_IDLE_TIMEOUT);
        lenient(&mut builder);
        Ok(pool_cell
            .get_or_init(|| ServerConnections::new(builder, BoundedConnector(with_tls(http)), clock.clone())))
    }
}

/// Lets a client accept the answers that browsers and curl accept: the status alone decides about a letter, and a server
/// whose answer is not accepted gets the message again. HTTP/0.9 is not among them: any text would be a success.
fn lenient(client: &mut Builder) -> &mut Builder {
    client
        .http1_allow_spaces_after_header_name_in_responses(true)
        .http1_allow_obsolete_multiline_headers_in_responses(true)
        .http1_ignore_invalid_headers_in_responses(true)
        .http1_max_headers(MAX_HEADERS)
}

/// Interprets an answer as SNS does: 5xx and 429 are retried, every other 4xx is permanent. SNS says nothing
/// about other codes, such as redirects, so they need an operator.
fn verdict(head: &Response<()>) -> Result<(), Failure> {
    let status = head.status().as_u16();
    let class = match status {
        200..=299 => return Ok(()),
        429 => FailureClass::Throttling,
        400..=499 => FailureClass::Permanent,
        100..=101 | 500..=599 => FailureClass::Transient,
        _ => FailureClass::ActionRequired,
    };
    let retry_after = retry_after(head.headers()).filter(|_| matches!(status, 429 | 503));
    Err(Failure { retry_after, ..Failure::ours(class, &format!("Http{status}")) })
}

/// Returns the seconds after which a server wants to be asked again. A date in the header is compared with
/// the date of the answer, so that no clock has to agree with the server's.
/// <https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3>
fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let asked = text(RETRY_AFTER)?;
    if let Ok(seconds) = asked.parse() {
        return Some(seconds);
    }
    let (then, now) = (http_date(asked)?, http_date(text(DATE)?)?);
    u64::try_from(then.as_second() - now.as_second()).ok()
}

/// Interprets the failure of a request. Once there was a connection, the server may have the message, whatever became of
/// its answer.
fn failed_request(error: &ClientError) -> SendResult {
    if let Some(NotAllowed(why)) = chain(error).find_map(|cause| cause.downcast_ref()) {
        return SendResult::Refused(why);
    }
    if error.is_connect() {
        return unreachable();
    }
    // The causes are in the words of the HTTP client and of the system: nothing in them is from the server.
    let causes = chain(error).skip(1).map(ToString::to_string).collect::<Vec<_>>().join(": ");
    let message = Some(causes).filter(|causes| !causes.is_empty());
    SendResult::Failed(Failure { message, ..Failure::ours(FailureClass::Transient, ANSWER_UNREADABLE) })
}

fn unreachable() -> SendResult {
    SendResult::Failed(Failure::ours(FailureClass::Transient, "Unreachable"))
}

/// Hides the body.
impl std::fmt::Debug for HttpPost<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "post of {} bytes", self.body.len())
    }
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpClient").field("reach", &self.reach).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_sns_reads_them() {
        let class = |status: u16| {
            let head = Response::builder().status(status).body(()).unwrap();
            verdict(&head).map_err(|failure| failure.class)
        };
        for (status, expected) in [
            (200, Ok(())),
            (204, Ok(())),
            (100, Err(FailureClass::Transient)),
            (101, Err(FailureClass::Transient)),
            (301, Err(FailureClass::ActionRequired)),
            (307, Err(FailureClass::ActionRequired)),
            (400, Err(FailureClass::Permanent)),
            (403, Err(FailureClass::Permanent)),
            (404, Err(FailureClass::Permanent)),
            (408, Err(FailureClass::Permanent)),
            (410, Err(FailureClass::Permanent)),
            (429, Err(FailureClass::Throttling)),
            (500, Err(FailureClass::Transient)),
            (503, Err(FailureClass::Transient)),
            (599, Err(FailureClass::Transient)),
        ] {
            assert_eq!(class(status), expected, "{status}");
        }
    }

    #[test]
    fn servers_say_in_seconds_or_by_a_date_when_they_want_to_be_asked_again() {
        let now = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (status, asked, date, expected) in [
            (429, "120", "", Some(120)),
            (503, " 7 ", "", Some(7)),
            (503, "0", "", Some(0)),
            (503, "Sun, 06 Nov 1994 08:50:07 GMT", now, Some(30)),
            (503, "Sun, 06 Nov 1994 08:50:07 GMT", "", None),
            (503, "Sun, 06 Nov 1994 08:49:07 GMT", now, None),
            (503, "soon", now, None),
            (503, "-1", now, None),
            (503, "99999999999999999999", now, None),
            (500, "120", "", None),
            (404, "120", "", None),
        ] {
            let head = Response::builder().status(status).header("retry-after", asked).header("date", date);
            let failure = verdict(&head.body(()).unwrap()).unwrap_err();
            assert_eq!(failure.retry_after, expected, "{status} {asked}");
        }
    }
}
