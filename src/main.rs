//! The Lambda function: settings, clients, telemetry and the handler.

use std::sync::Arc;

use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use redrive_aws::clock::InstanceClock;
use redrive_aws::log;
use redrive_aws::start::start;
use sns_redrive::function::QueueEvent;
use sns_redrive::load_function::FunctionLoader;

/// The allocator. Letters are thousands of small pieces of memory: with the system's allocator they take a
/// fifth more time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let (settings, clients) = start()?;
    let function =
        Arc::new(FunctionLoader::new(settings, clients, InstanceClock::system(), Arc::new(log::write)));
    run(service_fn(|event: LambdaEvent<QueueEvent>| {
        let function = Arc::clone(&function);
        async move {
            let (event, context) = event.into_parts();
            Ok::<_, Error>(function.answer(event, &context.request_id, context.deadline).await?)
        }
    }))
    .await
}
