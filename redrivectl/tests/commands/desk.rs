//! A desk before the account, which answers what `sim` has no service for: stacks, state machines, roles, settings.

use std::fmt;
use std::sync::Arc;

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

/// A request that comes to the desk.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a str,
    pub(crate) uri: &'a str,
    pub(crate) body: &'a str,
    /// The operation, where the service's protocol has it in a header; else empty.
    pub(crate) target: &'a str,
}

impl Asked<'_> {
    /// Whether it is of this service: the first part of its host's name.
    pub(crate) fn is_of(&self, service: &str) -> bool {
        self.uri.starts_with(&format!("https://{service}."))
    }

    /// The value of a field of its form, as it was sent.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.body.split('&').filter_map(|pair| pair.split_once('=')).find(|it| it.0 == name).map(|it| it.1)
    }
}

type Answers = dyn Fn(&Asked<'_>) -> Option<(u16, String)> + Send + Sync;

#[derive(Clone)]
struct Desk {
    answers: Arc<Answers>,
    account: SharedHttpClient,
}

#[derive(Clone)]
struct Connector {
    answers: Arc<Answers>,
    account: SharedHttpConnector,
}

/// The configuration of an account with a desk before it. What the desk does not answer goes to the account.
pub(crate) fn before(
    cloud: &Account,
    answers: impl Fn(&Asked<'_>) -> Option<(u16, String)> + Send + Sync + 'static,
) -> SdkConfig {
    let config = cloud.config(RetryConfig::disabled());
    let desk = Desk { answers: Arc::new(answers), account: config.http_client().unwrap() };
    config.into_builder().http_client(desk).build()
}

impl HttpClient for Desk {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let account = self.account.http_connector(settings, components);
        SharedHttpConnector::new(Connector { answers: Arc::clone(&self.answers), account })
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let body = String::from_utf8_lossy(request.body().bytes().unwrap_or_default()).into_owned();
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let asked = Asked { method: request.method(), uri: request.uri(), body: &body, target };
        let Some((status, body)) = (self.answers)(&asked) else { return self.account.call(request) };
        HttpConnectorFuture::ready(Ok(HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body))))
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
