//! A function on the same SDK that only sends, to measure the costs of sending alone: every body of the event
//! goes to one queue or topic, as many a request as the service takes, with all requests at the same time. It
//! decides nothing and loses letters that the service does not take.

#![allow(clippy::unwrap_used, reason = "a measure, not a function for use")]

use std::sync::Arc;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use aws_sdk_sns::types::PublishBatchRequestEntry;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use futures_util::future::join_all;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use redrive_aws::clients::AwsClients;
use redrive_core::arn::Arn;
use redrive_core::batch::{MAX_ENTRIES, runs};

/// The most bytes of all messages of a request.
///
/// <https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html>,
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>
const TOPIC_BYTES: usize = 256 * 1024;
const QUEUE_BYTES: usize = 1024 * 1024;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let target: Arn = std::env::var("TARGET_ARN")?.parse()?;
    let clients = Arc::new((AwsClients::from_environment(|name| std::env::var(name).ok())?, target));
    run(service_fn(|event: LambdaEvent<SqsEvent>| {
        let clients = Arc::clone(&clients);
        async move {
            let (clients, target) = clients.as_ref();
            let bytes = if is_topic(target) { TOPIC_BYTES } else { QUEUE_BYTES };
            let bodies: Vec<_> =
                event.payload.records.into_iter().map(|record| record.body.unwrap_or_default()).collect();
            let sizes: Vec<_> = bodies.iter().map(String::len).collect();
            let mut bodies = bodies.into_iter();
            let requests = runs(&sizes, MAX_ENTRIES, bytes)
                .into_iter()
                .map(|run| send(clients, target, bodies.by_ref().take(run.len()).collect()));
            join_all(requests).await.into_iter().collect::<Result<Vec<()>, Error>>()?;
            Ok::<_, Error>(SqsBatchResponse::default())
        }
    }))
    .await
}

fn is_topic(target: &Arn) -> bool {
    target.as_str().contains(":sns:")
}

async fn send(clients: &AwsClients, target: &Arn, bodies: Vec<String>) -> Result<(), Error> {
    let bodies = bodies.into_iter().enumerate().map(|(index, body)| (index.to_string(), body));
    if is_topic(target) {
        let entry = |(id, body)| PublishBatchRequestEntry::builder().id(id).message(body).build().unwrap();
        let entries = Some(bodies.map(entry).collect());
        let request = clients.sns.publish_batch().topic_arn(target.as_str());
        request.set_publish_batch_request_entries(entries).send().await?;
    } else {
        let entry =
            |(id, body)| SendMessageBatchRequestEntry::builder().id(id).message_body(body).build().unwrap();
        let entries = Some(bodies.map(entry).collect());
        let request = clients.sqs.send_message_batch().queue_url(target.queue_url());
        request.set_entries(entries).send().await?;
    }
    Ok(())
}
