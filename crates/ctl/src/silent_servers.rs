//! Names servers that do not answer. The SDK repeats a call for a while before it fails, and the user should
//! learn the reason for the wait at once.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use tokio::time::timeout;

use crate::output::ProblemStream;
use crate::tables::harmless;

/// How long a server may take before it is named.
const MAX_SILENCE: Duration = Duration::from_millis(2500);

/// The servers that have not answered. Each one is named once.
#[derive(Debug, Clone, Default)]
pub struct SilentServers(Arc<Mutex<NamedServers>>);

#[derive(Debug, Default)]
struct NamedServers {
    servers: BTreeSet<String>,
    to: Option<ProblemStream>,
}

impl SilentServers {
    /// Names servers on this stream from now on.
    pub(crate) fn tell_on(&self, to: ProblemStream) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).to = Some(to);
    }

    /// Returns a client that wraps another one and names its silent servers.
    pub(crate) fn among(&self, those_of: SharedHttpClient) -> SharedHttpClient {
        SharedHttpClient::new(ListeningClient { inner: those_of, silent: self.clone() })
    }

    fn name(&self, server: &str, why: &str) {
        let mut named = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if named.servers.insert(server.to_owned())
            && let Some(to) = &mut named.to
        {
            let line = format!("redrivectl: {server} does not answer ({why}); it is asked again for a while");
            // If the stream is closed nobody can be told.
            let _ = writeln!(to, "{}", harmless(&line));
        }
    }
}

#[derive(Debug)]
struct ListeningClient {
    inner: SharedHttpClient,
    silent: SilentServers,
}

impl HttpClient for ListeningClient {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let inner = self.inner.http_connector(settings, components);
        SharedHttpConnector::new(ListeningConnector { inner, silent: self.silent.clone() })
    }
}

#[derive(Debug)]
struct ListeningConnector {
    inner: SharedHttpConnector,
    silent: SilentServers,
}

impl HttpConnector for ListeningConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let server = server(request.uri()).to_owned();
        let (mut answer, silent) = (self.inner.call(request), self.silent.clone());
        HttpConnectorFuture::new(async move {
            let answer = if let Ok(answer) = timeout(MAX_SILENCE, &mut answer).await {
                answer
            } else {
                silent.name(&server, "no answer until now");
                answer.await
            };
            if let Err(error) = &answer {
                silent.name(&server, &cause(error));
            }
            answer
        })
    }
}

/// Returns the scheme, the host and the port of an address.
fn server(uri: &str) -> &str {
    let host = uri.find("://").map_or(0, |at| at + 3);
    let end = uri[host..].find(['/', '?']).map_or(uri.len(), |at| host + at);
    &uri[..end]
}

/// Returns the first cause of an error, such as "connection refused".
fn cause(error: &(dyn Error + 'static)) -> String {
    let mut first = error;
    while let Some(source) = first.source() {
        first = source;
    }
    first.to_string()
}

#[cfg(test)]
mod tests {
    use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
    use aws_smithy_runtime_api::client::result::ConnectorError;
    use tokio::time::{Instant, sleep};

    use super::*;

    /// A server that answers after a time, or not at all.
    #[derive(Debug)]
    struct SlowServer(Option<Duration>);

    impl HttpConnector for SlowServer {
        fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
            let after = self.0;
            HttpConnectorFuture::new(async move {
                match after {
                    Some(after) => sleep(after).await,
                    None => std::future::pending().await,
                }
                Err::<HttpResponse, _>(ConnectorError::io("connection refused".into()))
            })
        }
    }

    #[derive(Debug, Clone, Default)]
    struct CapturedProblems(Arc<Mutex<Vec<u8>>>);

    impl Write for CapturedProblems {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Calls a server until it answers or the time is over. Returns what was printed, and when.
    async fn said(server: Option<Duration>, calls: usize, until: Duration) -> (String, Duration) {
        let (page, silent) = (CapturedProblems::default(), SilentServers::default());
        silent.tell_on(ProblemStream::to(Box::new(page.clone())));
        let connector = ListeningConnector { inner: SharedHttpConnector::new(SlowServer(server)), silent };
        let begun = Instant::now();
        for _ in 0..calls {
            let mut request = HttpRequest::empty();
            request.set_uri("https://sqs.eu-centrl-1.amazonaws.com/path?a=b").unwrap();
            let _ = timeout(until, connector.call(request)).await;
        }
        let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
        (text, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_is_named_within_three_seconds_and_once() {
        const SERVER: &str = "redrivectl: https://sqs.eu-centrl-1.amazonaws.com does not answer";
        let again = "; it is asked again for a while\n";
        let (silent, after) = said(None, 1, Duration::from_secs(3)).await;
        assert_eq!(silent, format!("{SERVER} (no answer until now){again}"));
        assert_eq!(after, Duration::from_secs(3));
        let (refusing, _) = said(Some(Duration::ZERO), 3, Duration::from_secs(3)).await;
        assert_eq!(refusing, format!("{SERVER} (connection refused){again}"));
    }
}
