//! A desk before the account, which answers what `sim` has no service for: metrics, alarms, the log, settings.

use std::fmt;
use std::sync::{Arc, Mutex};

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use support::Account;

/// A request that comes to the desk: its operation, and its body.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) operation: String,
    pub(crate) body: Vec<u8>,
}

type Answers = dyn Fn(&Asked) -> Option<(u16, Vec<u8>)> + Send + Sync;

#[derive(Clone)]
struct Desk {
    answers: Arc<Answers>,
    asked: Arc<Mutex<Vec<Asked>>>,
    account: SharedHttpClient,
}

#[derive(Clone)]
struct Connector {
    desk: Desk,
    account: SharedHttpConnector,
}

/// The configuration of an account with a desk before it, and the requests that came to the desk. What the desk does not
/// answer goes to the account.
pub(crate) fn before(
    cloud: &Account,
    answers: impl Fn(&Asked) -> Option<(u16, Vec<u8>)> + Send + Sync + 'static,
) -> (SdkConfig, Arc<Mutex<Vec<Asked>>>) {
    let config = cloud.config(RetryConfig::disabled());
    let asked = Arc::default();
    let desk = Desk {
        answers: Arc::new(answers),
        asked: Arc::clone(&asked),
        account: config.http_client().unwrap(),
    };
    (config.into_builder().http_client(desk).build(), asked)
}

impl HttpClient for Desk {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let account = self.account.http_connector(settings, components);
        SharedHttpConnector::new(Connector { desk: self.clone(), account })
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").and_then(|target| target.rsplit('.').next());
        // The path of a request in CBOR ends with its operation, and that of a function with what is asked of it.
        let path =
            || request.uri().split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        let operation = target.map_or_else(|| path().to_owned(), str::to_owned);
        let body = request.body().bytes().unwrap_or_default().to_vec();
        let asked = Asked { operation, body };
        let Some((status, body)) = (self.desk.answers)(&asked) else { return self.account.call(request) };
        self.desk.asked.lock().unwrap().push(asked);
        let mut response = HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body));
        response.headers_mut().insert("smithy-protocol", "rpc-v2-cbor");
        HttpConnectorFuture::ready(Ok(response))
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Desk")
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}
