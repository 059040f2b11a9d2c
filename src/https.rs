//! HTTP and TLS: the AWS clients' way to AWS, and what posts share with it.
//!
//! The SDK's own client brings HTTP/2 along, which neither AWS's endpoints nor web servers are asked
//! for here. This one is hyper with HTTP/1.1 behind the SDK's trait.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::{Arc, LazyLock, OnceLock};
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
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::{CaptureConnection, HttpConnector, capture_connection};
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};

/// The HTTP client of every AWS client: TLS is rustls with ring.
#[must_use]
pub fn https() -> SharedHttpClient {
    SharedHttpClient::new(Https::default())
}

/// Puts TLS by the certificates of the system around connections; addresses without TLS work too.
///
/// Reading those certificates takes longer than a cold start should: it is done once, when first needed.
pub(crate) fn with_tls<C>(connector: C) -> HttpsConnector<C> {
    HttpsConnectorBuilder::new()
        .with_tls_config(TLS.clone())
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector)
}

/// Whether there is any certificate by which a server could show who it is.
pub(crate) fn has_root_certificates() -> bool {
    !ROOTS.is_empty()
}

/// A builder of clients that close idle connections after `idle`.
pub(crate) fn pool(idle: Duration) -> Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new()).pool_idle_timeout(idle);
    builder
}

/// Longer than calls of one invocation are apart; after that the connection is made again anyway.
const IDLE: Duration = Duration::from_secs(90);

static ROOTS: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    // What cannot be parsed is no reason to distrust the others, and no certificate at all shows with the
    // first connection.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Arc::new(roots)
});

static TLS: LazyLock<ClientConfig> = LazyLock::new(|| {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions =
        ClientConfig::builder_with_provider(provider).with_protocol_versions(rustls::DEFAULT_VERSIONS);
    // Fails only for a provider that lacks what the default versions need.
    #[allow(clippy::expect_used, reason = "a constant of two crates")]
    let versions = versions.expect("ring supports TLS 1.2 and 1.3");
    versions.with_root_certificates(Arc::clone(&ROOTS)).with_no_client_auth()
});

type Pool = Client<HttpsConnector<HttpConnector>, SdkBody>;

/// All AWS clients of the process share their connections.
#[derive(Clone, Default)]
struct Https(Arc<OnceLock<Pool>>);

struct Connector(Pool);

impl HttpClient for Https {
    fn http_connector(&self, settings: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        let client = self.0.get_or_init(|| {
            let mut http = HttpConnector::new();
            http.enforce_http(false);
            http.set_nodelay(true);
            http.set_connect_timeout(settings.connect_timeout());
            pool(IDLE).build(with_tls(http))
        });
        SharedHttpConnector::new(Connector(client.clone()))
    }
}

impl SdkConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let mut request = match request.try_into_http1x() {
            Ok(request) => request,
            Err(error) => return HttpConnectorFuture::ready(Err(ConnectorError::user(error.into()))),
        };
        // So that the SDK can drop a connection by which a server answered with an error of its own.
        let captured = capture_connection(&mut request);
        if let Some(wanted) = request.extensions().get::<CaptureSmithyConnection>() {
            wanted.set_connection_retriever(move || connection(&captured));
        }
        let answer = self.0.request(request);
        HttpConnectorFuture::new(async move {
            let answer = answer.await.map_err(failure)?;
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

/// What went wrong before an answer came. The SDK tries again after both kinds.
fn failure(error: hyper_util::client::legacy::Error) -> ConnectorError {
    let timed_out = chain(&error).any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut)
    });
    let error = Box::new(error);
    if timed_out { ConnectorError::timeout(error) } else { ConnectorError::io(error) }
}

/// An error and what led to it. An I/O error does not name what it wraps as its source.
pub(crate) fn chain<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| match error.downcast_ref::<io::Error>() {
        Some(wrapper) => wrapper.get_ref().map(|inner| inner as &(dyn Error + 'static)),
        None => error.source(),
    })
}

impl fmt::Debug for Https {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Https")
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}
