//! SNS's certificates, fetched when they are needed and kept for a day.
//!
//! A region has one or two at a time, and a new one has a new URL. So few are kept, and for a long time. A
//! failed fetch is not kept: the next letter tries again.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use redrive_core::batch::{RequiredFreshness, SendResult};
use redrive_core::failure::{Failure, FailureClass};
use tokio::time::Instant;

use super::certificate::Certificate;
use super::url::CertificateUrl;
use crate::clock::InstanceClock;
use crate::lookup::{CacheLimits, LookupCache};

/// The time for which a certificate is kept. Its own validity is checked with every message.
const MAX_AGE: Duration = Duration::from_hours(24);

/// The greatest number of certificates kept: one for every region that is likely to meet in one queue.
/// Letters cannot fill the cache with others, because only SNS's own are ever fetched.
const MAX_KEPT: usize = 16;

/// The greatest size of a file that can be a certificate, in bytes. SNS's have two kilobytes. A fetch should
/// stop reading here.
pub const MAX_CERTIFICATE_BYTES: usize = 16 * 1024;

type CertificateFetch =
    Box<dyn Fn(CertificateUrl) -> BoxFuture<'static, Result<String, Failure>> + Send + Sync>;

/// A reader of certificates that keeps them for a while.
pub struct CertificateReader {
    fetch: CertificateFetch,
    cache: LookupCache<CertificateUrl, Arc<Certificate>>,
}

impl CertificateReader {
    /// Creates a reader. It fetches nothing before it is needed.
    ///
    /// `fetch` gets the body behind a URL, with one GET over TLS that checks the host's certificate against
    /// public roots: all trust rests on that. It must follow no redirect, accept no other status than 200,
    /// stop after [`MAX_CERTIFICATE_BYTES`], and report everything else as a [`Failure`].
    pub fn new<F>(clock: InstanceClock, fetch: impl Fn(CertificateUrl) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, Failure>> + Send + 'static,
    {
        let keeping = CacheLimits { max_age: MAX_AGE, pause: Duration::ZERO, max_kept: MAX_KEPT };
        Self { fetch: Box::new(move |url| Box::pin(fetch(url))), cache: LookupCache::new(keeping, clock) }
    }

    /// Looks up each of these certificates. It fetches those that are not in the cache, each once. No request
    /// begins after `until`. If a certificate cannot be fetched, the check could not be made; that is no
    /// fault of the letter.
    pub async fn look_up(
        &self,
        urls: BTreeSet<&CertificateUrl>,
        until: Instant,
    ) -> HashMap<CertificateUrl, Result<Arc<Certificate>, SendResult>> {
        let urls = urls.into_iter().cloned();
        let fetch = async |url: &CertificateUrl| Ok(Arc::new(read(&(self.fetch)(url.clone()).await?)?));
        let answers = self.cache.look_up(urls, RequiredFreshness::Kept, until, fetch).await;
        let sent = |failure: Option<Failure>| failure.map_or(SendResult::NotStarted, SendResult::Failed);
        answers
            .into_iter()
            .map(|(url, answer)| (url, answer.map_err(|missed| sent(missed.failure))))
            .collect()
    }
}

/// Reads a certificate. An answer of SNS's host that is no certificate says nothing about the letter.
fn read(pem: &str) -> Result<Certificate, Failure> {
    let unreadable = || Failure::ours(FailureClass::Transient, "CertificateUnreadable");
    if pem.len() > MAX_CERTIFICATE_BYTES {
        return Err(unreadable());
    }
    Certificate::from_pem(pem).map_err(|_| unreadable())
}

impl fmt::Debug for CertificateReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateReader").field("kept", &self.cache.len()).finish_non_exhaustive()
    }
}
