//! The resources of a replay: the archive, the requeue and the clock.

use super::control::Control;
use super::error::{ReplayError, failed};
use super::letters::{Config, Letters, Source};
use super::request::Request;
use super::requeue::Requeue;
use super::store::Store;
use crate::archive::{Selection, Walk};
use crate::arn::Arn;
use crate::clock::Clock;
use crate::policy::Policy;

/// The resources of a replay.
#[derive(Debug)]
pub(super) struct Resources {
    pub(super) store: Store,
    pub(super) requeue: Requeue,
    pub(super) clock: Clock,
}

/// What a replay is run with.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) source: &'a Source,
    pub(super) policy: Option<&'a Policy>,
    pub(super) control: &'a dyn Control,
}

impl Resources {
    /// Returns the letters that the replay `own`, or a new one, has to send.
    pub(super) async fn letters<'a>(
        &'a self,
        request: &'a Request,
        own: Option<&str>,
        job: Job<'a>,
        selection: &'a Selection,
    ) -> Result<Letters<'a>, ReplayError> {
        let known = self.store.ledgers(own, request.again).await.map_err(failed("reading the ledgers"))?;
        let config = Config { request, requeue: &self.requeue.arn, policy: job.policy };
        Ok(Letters::new(config, job.source, self.walk(selection), known))
    }

    /// A walk through the archive.
    pub(super) fn walk<'s>(&self, selection: &'s Selection) -> Walk<'s> {
        let Store { s3, bucket, prefix } = &self.store;
        Walk::new(s3.clone(), bucket, prefix, selection)
    }

    /// Counts the letters that wait in the requeue and in these queues.
    pub(super) async fn waiting(&self, queues: &[Arn]) -> Result<u64, ReplayError> {
        let mut waiting = 0;
        for queue in std::iter::once(&self.requeue.arn).chain(queues) {
            waiting += self.requeue.waiting(queue).await.map_err(failed("reading a queue"))?;
        }
        Ok(waiting)
    }
}
