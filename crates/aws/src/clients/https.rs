//! HTTP and TLS for the AWS clients, and the parts that posts to web servers share with them.
//!
//! The SDK's own client includes HTTP/2, which neither AWS's endpoints nor web servers need here. This client
//! is hyper with HTTP/1.1 behind the SDK's trait.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use aws_smithy_runtime_api::client::connection::{CaptureSmithyConnection, ConnectionMetadata};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector as SdkConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use futures_util::TryFutureExt;
use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Error;
use hyper_util::client::legacy::connect::{CaptureConnection, HttpConnector, capture_connection};
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;
use tower_service::Service;

use super::connections::{ServerConnections, pool};
use crate::clock::InstanceClock;

/// Returns the HTTP client that every AWS client uses. TLS is rustls with ring. By the clock it notices that
/// the process has slept.
#[must_use]
pub fn https(clock: InstanceClock) -> SharedHttpClient {
    SharedHttpClient::new(SharedHttps { pools: Arc::default(), clock })
}

/// Wraps connections in TLS that trusts the system's certificates. Addresses without TLS work too.
pub(crate) fn with_tls<C>(connector: C) -> HttpsConnector<C> {
    HttpsConnectorBuilder::new()
        .with_tls_config(TLS.clone())
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector)
}

/// Reads the system's certificates now, while Lambda starts the process, instead of during the first call.
///
/// # Errors
///
/// [`NoRootCertificates`] if there are none: then no server can be reached over TLS.
pub(crate) fn prepare() -> Result<(), NoRootCertificates> {
    LazyLock::force(&TLS);
    if has_root_certificates() { Ok(()) } else { Err(NoRootCertificates(ROOTS.why.clone())) }
}

/// The error for a system without any certificate to verify servers with. It holds the first cause, if one is
/// known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoRootCertificates(pub Option<String>);

/// Reports whether there is any certificate to verify servers with.
pub(crate) fn has_root_certificates() -> bool {
    !ROOTS.store.is_empty()
}

/// The time after which an idle connection is closed. Calls of one invocation are closer together; after a
/// longer pause the connection must be made again anyway.
const AWS_IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// The system's certificates.
struct RootCertificates {
    store: Arc<RootCertStore>,
    /// The first error while they were read.
    why: Option<String>,
}

static ROOTS: LazyLock<RootCertificates> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    // If some certificates cannot be read, the others can still be trusted.
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    RootCertificates { store: Arc::new(roots), why: found.errors.first().map(ToString::to_string) }
});

static TLS: LazyLock<ClientConfig> = LazyLock::new(|| {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions =
        ClientConfig::builder_with_provider(provider).with_protocol_versions(rustls::DEFAULT_VERSIONS);
    // This fails only for a provider that lacks what the default versions need.
    #[allow(clippy::expect_used, reason = "a constant of two crates")]
    let versions = versions.expect("ring supports TLS 1.2 and 1.3");
    versions.with_root_certificates(Arc::clone(&ROOTS.store)).with_no_client_auth()
});

type AwsPool = ServerConnections<InTime<HttpsConnector<HttpConnector>>, SdkBody>;

/// The connections that all AWS clients of the process share. Clients with different connect timeouts have
/// separate pools.
#[derive(Clone)]
struct SharedHttps {
    pools: Arc<Mutex<HashMap<Option<Duration>, Arc<AwsPool>>>>,
    clock: InstanceClock,
}

struct PooledConnector {
    pool: Arc<AwsPool>,
    /// The longest time to wait for an answer.
    patience: Option<Duration>,
}

impl HttpClient for SharedHttps {
    fn http_connector(&self, settings: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        let limit = settings.connect_timeout();
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = pools.entry(limit).or_insert_with(|| {
            let mut http = HttpConnector::new();
            http.enforce_http(false);
            http.set_nodelay(true);
            let connector = InTime { inner: with_tls(http), limit };
            Arc::new(ServerConnections::new(pool(AWS_IDLE_TIMEOUT), connector, self.clock.clone()))
        });
        SharedHttpConnector::new(PooledConnector {
            pool: Arc::clone(pool),
            patience: settings.read_timeout(),
        })
    }
}

/// A connector with a limit on the time for name, address and TLS together.
#[derive(Clone)]
struct InTime<C> {
    inner: C,
    limit: Option<Duration>,
}

type ConnectError = Box<dyn StdError + Send + Sync>;

impl<C> Service<Uri> for InTime<C>
where
    C: Service<Uri, Error = ConnectError>,
    C::Future: Send + 'static,
    C::Response: 'static,
{
    type Response = C::Response;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(in_time(self.limit, self.inner.call(uri)))
    }
}

async fn in_time<T, E: From<io::Error>>(
    limit: Option<Duration>,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let Some(limit) = limit else { return work.await };
    let late = |_| E::from(io::Error::from(io::ErrorKind::TimedOut));
    timeout(limit, work).await.map_err(late)?
}

impl SdkConnector for PooledConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let mut request = match request.try_into_http1x() {
            Ok(request) => request,
            Err(error) => return HttpConnectorFuture::ready(Err(ConnectorError::user(error.into()))),
        };
        // With this the SDK can drop a connection on which a server answered with an error of its own.
        let captured = capture_connection(&mut request);
        if let Some(wanted) = request.extensions().get::<CaptureSmithyConnection>() {
            wanted.set_connection_retriever(move || connection(&captured));
        }
        let (answer, patience, pool) = (self.pool.request(request), self.patience, Arc::clone(&self.pool));
        // The connection broke. Others that are idle may be as dead, and the SDK tries only twice more.
        let broke = move |error: Error| {
            if !error.is_connect() {
                pool.forget();
            }
            ConnectError::from(error)
        };
        HttpConnectorFuture::new(async move {
            let answer = in_time(patience, answer.map_err(broke)).await.map_err(failure)?;
            HttpResponse::try_from(answer.map(SdkBody::from_body_1_x))
                .map_err(|error| ConnectorError::other(error.into(), None))
        })
    }
}

fn connection(captured: &CaptureConnection) -> Option<ConnectionMetadata> {
    captured.connection_metadata().as_ref()?;
    let captured = captured.clone();
    let drop = move || {
        if let Some(connection) = captured.connection_metadata().as_ref() {
            connection.poison();
        }
    };
    Some(ConnectionMetadata::builder().proxied(false).poison_fn(drop).build())
}

/// Translates an error that came before any answer. The SDK tries again after both kinds.
fn failure(error: ConnectError) -> ConnectorError {
    let timed_out = chain(error.as_ref()).any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut)
    });
    if timed_out { ConnectorError::timeout(error) } else { ConnectorError::io(error) }
}

/// Returns an error and its causes. An I/O error does not name the error that it wraps as its source.
pub(crate) fn chain<'e>(
    error: &'e (dyn StdError + 'static),
) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| match error.downcast_ref::<io::Error>() {
        Some(wrapper) => wrapper.get_ref().map(|inner| inner as &(dyn StdError + 'static)),
        None => error.source(),
    })
}

impl fmt::Debug for SharedHttps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedHttps")
    }
}

impl fmt::Debug for PooledConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PooledConnector")
    }
}
