//! Asks web servers of subscriptions whether they answer.

use redrive_aws::delivery::{AddressReach, HttpClient};
use redrive_core::batch::SendResult;
use redrive_core::endpoint::HttpUrl;

use super::state::EndpointState;
use crate::console::ToolEnvironment;

/// A client that sends HEAD requests.
pub(crate) struct WebProber(HttpClient);

impl WebProber {
    /// Returns a prober that reaches public addresses, as SNS does; loopback too with the function's variable for tests.
    pub(crate) fn new(console: &ToolEnvironment) -> Self {
        let is_test = (console.variable)("ALLOW_LOOPBACK_HTTP").as_deref() == Some("true");
        let reach = if is_test { AddressReach::Loopback } else { AddressReach::Public };
        Self(HttpClient::new(reach, console.clock.clone()))
    }

    /// Asks a server for the head of a page.
    pub(super) async fn ask(&self, url: &HttpUrl) -> EndpointState {
        match self.0.head(url).await {
            Ok(status @ 500..=599) => {
                EndpointState::broken(format!("the web server answers a HEAD request with {status}"))
            }
            Ok(status) => EndpointState::works(format!(
                "the web server answers; a HEAD request got {status}, which may differ from a POST"
            )),
            Err(SendResult::Failed(failure)) => EndpointState::broken(format!(
                "the web server does not answer a HEAD request ({})",
                failure.code
            )),
            Err(SendResult::Refused(why)) => {
                EndpointState::cannot_tell(format!("the web server was not asked: {why}"))
            }
            Err(_) => EndpointState::cannot_tell("the web server was not asked"),
        }
    }
}
