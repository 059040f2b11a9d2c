//! The callers of the services.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// A caller of the services: one process or instance. A world can cut it off, as if it had died.
#[derive(Clone)]
pub struct Caller {
    /// The name, as in the journal.
    pub id: Arc<str>,
    end: Arc<CallerLife>,
}

/// The part that clones of a caller share.
struct CallerLife {
    gone: AtomicBool,
    ended: Notify,
    killer: Box<dyn Fn() + Send + Sync>,
}

impl Caller {
    /// Returns a caller within this process.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self::with_killer(id, || {})
    }

    /// Returns a caller that is a process: the killer ends it.
    #[must_use]
    pub fn with_killer(id: &str, killer: impl Fn() + Send + Sync + 'static) -> Self {
        let end = CallerLife { gone: AtomicBool::new(false), ended: Notify::new(), killer: Box::new(killer) };
        Self { id: id.into(), end: Arc::new(end) }
    }

    /// Cuts the caller off: its requests have no effect from now on, and none is answered.
    pub fn cut(&self) {
        if !self.end.gone.swap(true, Ordering::Relaxed) {
            (self.end.killer)();
            self.end.ended.notify_waiters();
        }
    }

    /// Reports whether the caller was cut off.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.end.gone.load(Ordering::Relaxed)
    }

    /// Waits until the caller is cut off. The code that runs the caller drops its future then.
    pub async fn gone(&self) {
        let ended = self.end.ended.notified();
        if !self.is_gone() {
            ended.await;
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Caller").field(&self.id).finish()
    }
}
