//! Records the requests to a stand-in for some of AWS's services.

use std::sync::{Arc, Mutex};

use aws_config::SdkConfig;
use redrive_support::{TestAccount, stand_in};

/// A request to the stand-in: its operation and its body.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    pub(crate) operation: String,
    pub(crate) body: Vec<u8>,
}

/// Returns the configuration of an account with a stand-in in front of it, and the requests that the stand-in
/// answered.
pub(crate) fn before(
    cloud: &TestAccount,
    answers: impl Fn(&RecordedRequest) -> Option<(u16, Vec<u8>)> + Send + Sync + 'static,
) -> (SdkConfig, Arc<Mutex<Vec<RecordedRequest>>>) {
    let asked: Arc<Mutex<Vec<RecordedRequest>>> = Arc::default();
    let kept = Arc::clone(&asked);
    let config = stand_in::before(cloud, move |request| {
        // A request in CBOR has the operation at the end of its path. A request to Lambda ends with the
        // resource.
        let path = || request.uri.split('?').next()?.rsplit('/').next();
        let operation = request.target.rsplit('.').next().filter(|operation| !operation.is_empty());
        let operation = operation.or_else(path).unwrap_or_default().to_owned();
        let asked = RecordedRequest { operation, body: request.bytes.to_vec() };
        let answer = answers(&asked)?;
        kept.lock().unwrap().push(asked);
        Some(answer)
    });
    (config, asked)
}
