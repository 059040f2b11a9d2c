//! The replay function of `operations.yaml`: settings, clients, telemetry, handler; nothing else.

use std::sync::Arc;

use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use sns_redrive::clients::{self, Clients};
use sns_redrive::clock::Clock;
use sns_redrive::replay_function::{Event, ReplayFunction};
use sns_redrive::settings::{BadSettings, Settings};
use sns_redrive::telemetry;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let variable = |name: &str| std::env::var(name).ok();
    telemetry::init(variable);
    let read = BadSettings::join(Settings::read(variable), Clients::from_environment(variable));
    let (settings, clients) = read.inspect_err(telemetry::bad_settings)?;
    let _ = clients::prepare().inspect_err(telemetry::no_root_certificates);
    let function = Arc::new(ReplayFunction::new(settings, clients, Clock::system()));
    run(service_fn(|event: LambdaEvent<Event>| {
        let function = Arc::clone(&function);
        async move {
            let (event, context) = event.into_parts();
            Ok::<_, Error>(function.answer(event, &context.request_id, context.deadline).await?)
        }
    }))
    .await
}
