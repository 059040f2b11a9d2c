//! SNS's certificates, fetched when they are needed and kept for a day.
//!
//! A region has one or two at a time, and a new one has a new URL. So few are kept, and for long.
//! That a certificate could not be had is not kept: the next letter asks again.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, timeout_at};

use super::{Certificate, CertificateUrl};
use crate::batch::Sent;
use crate::clock::Clock;
use crate::failure::{Failure, FailureClass};

/// How long a certificate is kept. Whether it is still valid is asked with every message.
const MAX_AGE: SignedDuration = SignedDuration::from_hours(24);

/// Certificates kept at most: one for every region that is likely to meet in one queue. Letters
/// cannot fill this with others than SNS's own, since nothing else is ever fetched.
const MAX_KEPT: usize = 16;

/// Requests at once.
const CONCURRENT_REQUESTS: usize = 4;

/// The longest answer that can be a certificate. SNS's have two kilobytes. Who fetches should stop
/// reading here.
pub const MAX_CERTIFICATE_BYTES: usize = 16 * 1024;

type Fetch = Box<dyn Fn(CertificateUrl) -> BoxFuture<'static, Result<String, Failure>> + Send + Sync>;

/// Fetches certificates and keeps them for a while.
pub struct Certificates {
    fetch: Fetch,
    clock: Clock,
    kept: Mutex<HashMap<CertificateUrl, Kept>>,
}

#[derive(Clone)]
struct Kept {
    since: Timestamp,
    certificate: Arc<Certificate>,
}

impl Certificates {
    /// Nothing is fetched before it is needed.
    ///
    /// `fetch` gets the body behind a URL, by one GET over TLS with the host's certificate checked
    /// against public roots: all trust rests on that. It follows no redirect, takes no other answer
    /// than 200, stops after [`MAX_CERTIFICATE_BYTES`], and reports the rest as a [`Failure`].
    pub fn new<F>(clock: Clock, fetch: impl Fn(CertificateUrl) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, Failure>> + Send + 'static,
    {
        Self { fetch: Box::new(move |url| Box::pin(fetch(url))), clock, kept: Mutex::default() }
    }

    /// Looks up each of these certificates, fetching those that are not kept, each once. No request
    /// begins after `until`. What could not be had is a check that could not be made, not a fault of
    /// the letter.
    pub async fn look_up(
        &self,
        urls: BTreeSet<&CertificateUrl>,
        until: Instant,
    ) -> HashMap<CertificateUrl, Result<Arc<Certificate>, Sent>> {
        stream::iter(urls)
            .map(|url| async move { (url.clone(), self.one(url, until).await) })
            .buffer_unordered(CONCURRENT_REQUESTS)
            .collect()
            .await
    }

    async fn one(&self, url: &CertificateUrl, until: Instant) -> Result<Arc<Certificate>, Sent> {
        if let Some(certificate) = self.fresh(url) {
            return Ok(certificate);
        }
        if Instant::now() >= until {
            return Err(Sent::NotStarted);
        }
        let late = || Err(Failure::ours(FailureClass::Transient, "DeadlineExceeded"));
        let pem = timeout_at(until, (self.fetch)(url.clone())).await.unwrap_or_else(|_| late());
        let certificate = pem.and_then(|pem| read(&pem)).map_err(Sent::Failed)?;
        let certificate = Arc::new(certificate);
        self.keep(url, &certificate);
        Ok(certificate)
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<CertificateUrl, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fresh(&self, url: &CertificateUrl) -> Option<Arc<Certificate>> {
        let kept = self.kept();
        let found = kept.get(url)?;
        let age = self.clock.now().duration_since(found.since);
        (age < MAX_AGE).then(|| Arc::clone(&found.certificate))
    }

    fn keep(&self, url: &CertificateUrl, certificate: &Arc<Certificate>) {
        let since = self.clock.now();
        let mut kept = self.kept();
        if kept.len() >= MAX_KEPT && !kept.contains_key(url) {
            let oldest = kept.iter().min_by_key(|(_, old)| old.since).map(|(url, _)| url.clone());
            oldest.and_then(|url| kept.remove(&url));
        }
        kept.insert(url.clone(), Kept { since, certificate: Arc::clone(certificate) });
    }
}

/// An answer of SNS's host that is no certificate says nothing about the letter.
fn read(pem: &str) -> Result<Certificate, Failure> {
    let unreadable = || Failure::ours(FailureClass::Transient, "CertificateUnreadable");
    if pem.len() > MAX_CERTIFICATE_BYTES {
        return Err(unreadable());
    }
    Certificate::from_pem(pem).map_err(|_| unreadable())
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("kept", &self.kept().len()).finish_non_exhaustive()
    }
}
