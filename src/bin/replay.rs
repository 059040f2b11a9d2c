//! The replay function of `operations.yaml`: settings, clients, telemetry and the handler.

use std::sync::Arc;

use lambda_runtime::{Diagnostic, Error, LambdaEvent, run, service_fn};
use redrive_aws::clock::InstanceClock;
use redrive_aws::start::start;
use sns_redrive::replay_function::{ReplayEvent, ReplayFunction};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let (settings, clients) = start()?;
    let function = Arc::new(ReplayFunction::new(settings, clients, InstanceClock::system()));
    run(service_fn(|event: LambdaEvent<ReplayEvent>| {
        let function = Arc::clone(&function);
        async move {
            let (event, context) = event.into_parts();
            let answer = function.answer(event, &context.request_id, context.deadline).await;
            // A state machine tells errors apart by their type.
            answer.map_err(|error| Diagnostic {
                error_type: error.kind().name().to_owned(),
                error_message: error.to_string(),
            })
        }
    }))
    .await
}
