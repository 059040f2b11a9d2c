//! Calls that are under way at the same time.

use futures_util::future::{LocalBoxFuture, poll_immediate};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Calls under way, with an answer of this type each. They are boxed, because there are many, and they differ
/// greatly in size.
pub struct CallsUnderWay<'c, A>(FuturesUnordered<LocalBoxFuture<'c, A>>);

impl<A> Default for CallsUnderWay<'_, A> {
    fn default() -> Self {
        Self(FuturesUnordered::new())
    }
}

impl<'c, A> CallsUnderWay<'c, A> {
    /// Begins a call, and returns the answers that have come by now.
    ///
    /// The runtime looks at its sockets first. So a connection that a server has closed is not used again, and
    /// the call before goes out before this one is made: else the first of many would leave when the last is
    /// made.
    pub async fn begin(&mut self, call: LocalBoxFuture<'c, A>) -> Vec<A> {
        yield_now().await;
        self.0.push(call);
        let mut answers = Vec::new();
        while let Some(Some(answer)) = poll_immediate(self.0.next()).await {
            answers.push(answer);
        }
        answers
    }

    /// Returns the next answer, or `None` at this time, or if there is none to wait for.
    pub async fn next(&mut self, until: Option<Instant>) -> Option<A> {
        match until {
            None => self.0.next().await,
            Some(until) if self.0.is_empty() => {
                sleep_until(until).await;
                None
            }
            Some(until) => timeout_at(until, self.0.next()).await.ok().flatten(),
        }
    }

    /// Reports whether no call is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
