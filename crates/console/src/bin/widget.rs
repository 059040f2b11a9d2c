//! The Lambda function of the console's widget: reads the settings, creates clients and telemetry, and starts
//! the handler.

use std::sync::Arc;

use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use redrive_aws::clock::InstanceClock;
use redrive_aws::start::start_by;
use redrive_console::widget::{WidgetFunction, account};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let account = start_by(|variable| account(variable, InstanceClock::system()))?;
    let function = Arc::new(WidgetFunction::new(account));
    run(service_fn(|event: LambdaEvent<Value>| {
        let function = Arc::clone(&function);
        async move {
            let (event, context) = event.into_parts();
            Ok::<_, Error>(function.answer(event, &context.request_id, &context.invoked_function_arn).await)
        }
    }))
    .await
}
