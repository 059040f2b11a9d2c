//! A stand-in before the account, which answers what `redrive-sim` has no service for: stacks, roles, metrics, alarms, the log.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::TestAccount;
use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;

/// A request that comes to the stand-in.
#[derive(Debug)]
pub struct StandInRequest<'a> {
    pub method: &'a str,
    pub uri: &'a str,
    /// The body as text.
    pub body: &'a str,
    /// The body as it came, also where it is no text.
    pub bytes: &'a [u8],
    /// The operation, where the service's protocol has it in a header; else empty.
    pub target: &'a str,
    /// The id of the access key that signed it.
    pub access_key: &'a str,
}

impl StandInRequest<'_> {
    /// Reports whether it is of this service: the first part of its host's name.
    pub fn is_of(&self, service: &str) -> bool {
        self.uri.starts_with(&format!("https://{service}."))
    }

    /// Returns the value of a field of its form, as it was sent.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.body.split('&').filter_map(|pair| pair.split_once('=')).find(|it| it.0 == name).map(|it| it.1)
    }
}

type StandInAnswers = dyn Fn(&StandInRequest<'_>) -> Option<(Duration, u16, SdkBody)> + Send + Sync;

#[derive(Clone)]
struct StandIn {
    answers: Arc<StandInAnswers>,
    account: SharedHttpClient,
}

#[derive(Clone)]
struct StandInConnector {
    answers: Arc<StandInAnswers>,
    account: SharedHttpConnector,
}

/// Returns the configuration of an account with a stand-in before it. What the stand-in does not answer goes to the account.
pub fn before<B: Into<SdkBody>>(
    cloud: &TestAccount,
    answers: impl Fn(&StandInRequest<'_>) -> Option<(u16, B)> + Send + Sync + 'static,
) -> SdkConfig {
    late_before(cloud, move |asked| answers(asked).map(|(status, body)| (Duration::ZERO, status, body)))
}

/// Does the same, with answers that come after a time.
pub fn late_before<B: Into<SdkBody>>(
    cloud: &TestAccount,
    answers: impl Fn(&StandInRequest<'_>) -> Option<(Duration, u16, B)> + Send + Sync + 'static,
) -> SdkConfig {
    let config = cloud.config(RetryConfig::disabled());
    let answers = move |asked: &StandInRequest<'_>| {
        answers(asked).map(|(after, status, body)| (after, status, body.into()))
    };
    let stand_in = StandIn { answers: Arc::new(answers), account: config.http_client().unwrap() };
    config.into_builder().http_client(stand_in).build()
}

impl HttpClient for StandIn {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let account = self.account.http_connector(settings, components);
        SharedHttpConnector::new(StandInConnector { answers: Arc::clone(&self.answers), account })
    }
}

impl HttpConnector for StandInConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let bytes = request.body().bytes().unwrap_or_default();
        let body = String::from_utf8_lossy(bytes);
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let signed = request.headers().get("authorization").unwrap_or_default();
        let access_key = signed.split_once("Credential=").and_then(|(_, rest)| rest.split('/').next());
        let asked = StandInRequest {
            method: request.method(),
            uri: request.uri(),
            body: &body,
            bytes,
            target,
            access_key: access_key.unwrap_or_default(),
        };
        let Some((after, status, body)) = (self.answers)(&asked) else { return self.account.call(request) };
        let mut response = HttpResponse::new(status.try_into().unwrap(), body);
        // CloudWatch's protocol wants it, the others do not look at it.
        response.headers_mut().insert("smithy-protocol", "rpc-v2-cbor");
        if after.is_zero() {
            return HttpConnectorFuture::ready(Ok(response));
        }
        HttpConnectorFuture::new(async move {
            tokio::time::sleep(after).await;
            Ok(response)
        })
    }
}

impl fmt::Debug for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StandIn")
    }
}

impl fmt::Debug for StandInConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StandInConnector")
    }
}
