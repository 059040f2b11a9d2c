//! A request after it was parsed, before it is carried out.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::message::SimEntry;

/// The services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AwsService {
    /// Queues.
    Sqs,
    /// Topics and subscriptions.
    Sns,
    /// Buckets.
    S3,
    /// Functions.
    Lambda,
    /// Streams.
    Firehose,
    /// Identities of callers.
    Sts,
    /// A subscriber's web server.
    Web,
}

/// A request: who asks which service for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimCall {
    /// The caller.
    pub caller: Arc<str>,
    /// The service.
    pub service: AwsService,
    /// The host that the request was sent to. It is empty if a service acts by itself.
    pub host: String,
    /// The operation as the service's API names it; a web server's is the HTTP method.
    pub operation: String,
    /// The name of the queue, topic, function, stream or web server, a subscription's ARN, or `bucket/key`
    /// (`bucket/prefix` for a listing).
    pub target: String,
    /// The entries of a batch, or the message of a single request.
    pub entries: Vec<SimEntry>,
    /// Other parameters and the headers that matter, by name.
    pub parameters: BTreeMap<String, String>,
    /// The body of an object, an event or a POST.
    pub body: Vec<u8>,
    /// The number of bytes of the request's body.
    pub bytes: usize,
}

impl SimCall {
    /// Returns a call without parameters.
    #[must_use]
    pub fn new(caller: &Arc<str>, service: AwsService, operation: &str, target: &str) -> Self {
        Self {
            caller: Arc::clone(caller),
            service,
            host: String::new(),
            operation: operation.to_owned(),
            target: target.to_owned(),
            entries: Vec::new(),
            parameters: BTreeMap::new(),
            body: Vec::new(),
            bytes: 0,
        }
    }

    /// Returns a parameter.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    /// Returns the call in a few words: `PublishBatch payments 10`.
    #[must_use]
    pub fn summary(&self) -> String {
        match self.entries.len() {
            0 => format!("{} {}", self.operation, self.target),
            count => format!("{} {} {count}", self.operation, self.target),
        }
    }

    /// Returns the positions of the entries whose body or receipt handle contains a text.
    #[must_use]
    pub fn entries_with(&self, text: &str) -> Vec<usize> {
        let has = |entry: &SimEntry| {
            entry.body.contains(text) || entry.handle.as_ref().is_some_and(|it| it.contains(text))
        };
        (0..self.entries.len()).filter(|index| has(&self.entries[*index])).collect()
    }
}
