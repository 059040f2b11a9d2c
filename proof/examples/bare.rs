//! What a function on the same SDK costs that does nothing but send: every body of the event goes to one queue or
//! topic, ten a request, all requests at once. It decides nothing and loses what is not taken.

#![allow(clippy::unwrap_used, reason = "a measure, not a function for use")]

use std::sync::Arc;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use aws_sdk_sns::types::PublishBatchRequestEntry;
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use futures_util::future::join_all;
use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use sns_redrive::arn::Arn;
use sns_redrive::clients::Clients;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let target: Arn = std::env::var("TARGET_ARN")?.parse()?;
    let clients = Arc::new((Clients::from_environment(|name| std::env::var(name).ok()), target));
    run(service_fn(|event: LambdaEvent<SqsEvent>| {
        let clients = Arc::clone(&clients);
        async move {
            let records = event.payload.records;
            let (clients, target) = clients.as_ref();
            let requests = records.chunks(10).map(|some| async move {
                if target.as_str().contains(":sns:") {
                    publish(clients, target, some).await
                } else {
                    send(clients, target, some).await
                }
            });
            join_all(requests).await.into_iter().collect::<Result<Vec<()>, Error>>()?;
            Ok::<_, Error>(SqsBatchResponse::default())
        }
    }))
    .await
}

async fn publish(clients: &Clients, topic: &Arn, some: &[SqsMessage]) -> Result<(), Error> {
    let entries = some.iter().enumerate().map(|(index, record)| {
        let body = record.body.clone().unwrap_or_default();
        PublishBatchRequestEntry::builder().id(index.to_string()).message(body).build().unwrap()
    });
    let request = clients.sns.publish_batch().topic_arn(topic.as_str());
    request.set_publish_batch_request_entries(Some(entries.collect())).send().await?;
    Ok(())
}

async fn send(clients: &Clients, queue: &Arn, some: &[SqsMessage]) -> Result<(), Error> {
    let entries = some.iter().enumerate().map(|(index, record)| {
        let body = record.body.clone().unwrap_or_default();
        SendMessageBatchRequestEntry::builder().id(index.to_string()).message_body(body).build().unwrap()
    });
    let request = clients.sqs.send_message_batch().queue_url(queue.queue_url());
    request.set_entries(Some(entries.collect())).send().await?;
    Ok(())
}
