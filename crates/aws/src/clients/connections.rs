//! Connections to servers, which are used again for a while, but never after they slept.
//!
//! Lambda freezes a process between invocations. Meanwhile servers, and the network between, forget
//! connections that are silent. The process cannot hear of that, and the timer that closes idle connections
//! stands still like the monotonic clock. So a process that wakes up leaves its connections behind.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt;
use hyper_util::client::legacy::connect::Connect;
use hyper_util::client::legacy::{Builder, Client, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::clock::InstanceClock;

/// The longest sleep after which connections are used again: all sleeps together since they were made.
/// Between the invocations of a busy function are milliseconds, and no server hangs up within a second.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// The connections to some servers.
pub(crate) struct ServerConnections<C, B> {
    builder: Builder,
    connector: C,
    clock: InstanceClock,
    pool: Mutex<Option<AwakeClient<C, B>>>,
}

/// Connections since the last sleep.
struct AwakeClient<C, B> {
    client: Client<C, B>,
    /// The time that the process had slept when they were made.
    slept: Duration,
}

/// Returns a builder of clients that close idle connections after `idle`. A request that could not begin,
/// because its connection turned out to be closed, is made again on another: nothing was sent, so nobody has
/// it twice.
pub(crate) fn pool(idle: Duration) -> Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new()).pool_idle_timeout(idle).retry_canceled_requests(true);
    builder
}

impl<C, B> ServerConnections<C, B>
where
    C: Connect + Clone + Send + Sync + 'static,
    // Every body has this extension.
    B: BodyExt + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Creates the connections that this connector makes. None is made yet.
    pub(crate) fn new(builder: Builder, connector: C, clock: InstanceClock) -> Self {
        Self { builder, connector, clock, pool: Mutex::default() }
    }

    /// Begins a request, on a connection that has not slept.
    pub(crate) fn request(&self, request: Request<B>) -> ResponseFuture {
        self.client().request(request)
    }

    /// Leaves all connections behind. Requests that are under way go on.
    pub(crate) fn forget(&self) {
        *self.lock() = None;
    }

    fn client(&self) -> Client<C, B> {
        let slept = self.clock.slept();
        let mut pool = self.lock();
        let awake = pool.take().filter(|pool| slept.saturating_sub(pool.slept) <= MAX_SLEEP);
        let make = || AwakeClient { client: self.builder.build(self.connector.clone()), slept };
        pool.insert(awake.unwrap_or_else(make)).client.clone()
    }

    /// Locks the pool. Nothing panics while it is locked.
    fn lock(&self) -> MutexGuard<'_, Option<AwakeClient<C, B>>> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
