//! The web servers of subscribers, by host name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::call::SimCall;
use crate::faults::SimFault;

/// The web servers of a world.
#[derive(Default)]
pub struct WebServers {
    servers: BTreeMap<String, ServerScript>,
}

type ServerScript = Arc<dyn Fn(&SimCall) -> WebAnswer + Send + Sync>;

/// The answer of a web server, with its fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebAnswer {
    /// The status.
    pub status: u16,
    /// Headers; names are in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
    /// The fault of the request.
    pub fault: SimFault,
}

impl WebAnswer {
    /// Returns an answer with this status and a short body.
    #[must_use]
    pub fn status(status: u16) -> Self {
        let body = if matches!(status, 204 | 304) { "" } else { "ok" };
        Self { status, headers: Vec::new(), body: body.to_owned(), fault: SimFault::Pass }
    }

    /// Returns a request with this fault: no connection, silence, a reset.
    #[must_use]
    pub fn fault(fault: SimFault) -> Self {
        Self { fault, ..Self::status(200) }
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Asks the sender to come again after so many seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        self.with("retry-after", &seconds.to_string())
    }

    /// Lets the sender wait first.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self { fault: self.fault.after(wait), ..self }
    }
}

impl WebServers {
    /// Starts a server. `host` is a name or `name:port`, as in URLs.
    pub fn serve(&mut self, host: &str, script: impl Fn(&SimCall) -> WebAnswer + Send + Sync + 'static) {
        self.servers.insert(host.to_owned(), Arc::new(script));
    }

    /// Stops a server. No connections to it can be made any more.
    pub fn stop(&mut self, host: &str) {
        self.servers.remove(host);
    }

    /// Reports whether there is a server of this name.
    #[must_use]
    pub fn knows(&self, host: &str) -> bool {
        self.servers.contains_key(host)
    }

    pub(crate) fn script(&self, host: &str) -> Option<ServerScript> {
        self.servers.get(host).cloned()
    }
}

impl fmt::Debug for WebServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.servers.keys()).finish()
    }
}
