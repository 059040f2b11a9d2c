//! HTTP requests and responses.

use crate::call::SimCall;
use crate::error::Error;

/// An HTTP request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WireRequest {
    /// The method.
    pub method: String,
    /// The whole URI: `https://sqs.eu-central-1.amazonaws.com/`.
    pub uri: String,
    /// The headers; names are in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// An HTTP response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireResponse {
    /// The status.
    pub status: u16,
    /// The headers; names are in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl WireRequest {
    /// Returns the first header of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

impl WireResponse {
    /// Returns a response without headers.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Returns the error of an operation that the service here does not have.
pub(super) fn unknown(call: &SimCall) -> Error {
    Error::new(501, "UnknownOperationException", format!("{} is not simulated", call.operation))
}
