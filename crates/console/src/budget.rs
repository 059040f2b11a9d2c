//! A limit on the requests of a page.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeTransmitInterceptorContextRef;
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;

/// Counts the requests of a page, and refuses those above the limit. Repeats by the SDK count too.
#[derive(Debug, Clone)]
pub(crate) struct PageBudget {
    made: Arc<AtomicU32>,
    limit: u32,
}

/// The error of a request above the limit.
#[derive(Debug, thiserror::Error)]
#[error("the page has made all {0} requests that it may")]
struct BudgetError(u32);

impl PageBudget {
    pub(crate) fn new(limit: u32) -> Self {
        Self { made: Arc::default(), limit }
    }

    /// Returns the number of requests made so far.
    pub(crate) fn made(&self) -> u32 {
        self.made.load(Ordering::Relaxed).min(self.limit)
    }

    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }
}

#[dyn_dispatch_hint]
impl Intercept for PageBudget {
    fn name(&self) -> &'static str {
        "Budget"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        if made < self.limit { Ok(()) } else { Err(BudgetError(self.limit).into()) }
    }
}

#[cfg(test)]
mod tests {
    use aws_config::retry::RetryConfig;
    use redrive_support::{SimFault, TestAccount};

    use super::*;
    use crate::account::ConsoleClients;

    #[tokio::test]
    async fn no_more_requests_go_out_than_a_page_may_make() {
        let cloud = TestAccount::new();
        cloud.reply("ListObjectsV2", SimFault::Unavailable);
        let budget = PageBudget::new(4);
        let retry = RetryConfig::standard().with_initial_backoff(std::time::Duration::from_millis(1));
        let clients =
            ConsoleClients::from_config(&cloud.config(retry.with_max_attempts(3)), false).within(&budget);
        for _ in 0..5 {
            // The SDK makes each call three times.
            assert!(clients.s3.list_objects_v2().bucket("my-bucket").send().await.is_err());
        }
        assert_eq!((budget.made(), cloud.journal().len()), (4, 4));
    }
}
