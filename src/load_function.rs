//! The function before it has its policy: a policy in S3 is read at the first event, and kept.

use std::time::Duration;

use redrive_aws::clients::AwsClients;
use redrive_aws::clock::InstanceClock;
use redrive_aws::log;
use redrive_aws::policy_object::read_policy;
use redrive_aws::settings::Settings;
use redrive_core::batch::SqsBatchResponse;
use tokio::sync::{Mutex, OnceCell};
use tokio::time::timeout;
use tracing::Instrument;

use crate::function::{InvocationFailure, MetricsSink, QueueEvent, RedriveFunction};
use crate::telemetry;

/// The longest time for reading the policy.
const READ_TIME: Duration = Duration::from_secs(10);

/// The function, and what it is made of until it has its policy.
pub struct FunctionLoader {
    parts: Mutex<Option<(Settings, AwsClients)>>,
    clock: InstanceClock,
    metrics_to: MetricsSink,
    function: OnceCell<RedriveFunction>,
}

impl FunctionLoader {
    /// Returns the function with these settings. Nothing is read before the first event.
    #[must_use]
    pub fn new(
        settings: Settings,
        clients: AwsClients,
        clock: InstanceClock,
        metrics_to: MetricsSink,
    ) -> Self {
        let parts = Mutex::new(Some((settings, clients)));
        Self { parts, clock, metrics_to, function: OnceCell::new() }
    }

    /// Answers one event. `deadline_ms` is Lambda's, in milliseconds since 1970.
    ///
    /// # Errors
    ///
    /// [`InvocationFailure`]. Without its policy the function touches no letter: the whole invocation fails, and the next one
    /// reads again.
    pub async fn answer(
        &self,
        event: QueueEvent,
        request_id: &str,
        deadline_ms: u64,
    ) -> Result<SqsBatchResponse, InvocationFailure> {
        let loaded = self.function.get_or_try_init(|| self.load(deadline_ms));
        let function = Box::pin(loaded.instrument(log::invocation(request_id))).await?;
        function.answer(event, request_id, deadline_ms).await
    }

    /// Reads the policy, if it is in S3, and makes the function.
    async fn load(&self, deadline_ms: u64) -> Result<RedriveFunction, InvocationFailure> {
        let mut parts = self.parts.lock().await;
        if let Some((settings, clients)) = parts.as_mut()
            && let Some(place) = settings.policy_at.clone()
        {
            let left = self.clock.left(deadline_ms) / 2;
            let read = timeout(left.min(READ_TIME), read_policy(&clients.s3, &place)).await;
            let read = read.map_err(|_| InvocationFailure::PolicyLate(place.clone()));
            let loaded = read.and_then(|read| {
                let document = read?;
                settings.take_policy(document.policy)?;
                telemetry::policy_read(&place, &document.digest, document.version.as_deref());
                Ok(())
            });
            loaded.inspect_err(|error: &InvocationFailure| telemetry::policy_unread(&error.to_string()))?;
        }
        let (settings, clients) = parts.take().ok_or(InvocationFailure::NotReady)?;
        Ok(RedriveFunction::new(settings, clients, self.clock.clone(), self.metrics_to.clone()))
    }
}
