//! The sink refuses what AWS refuses.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use aws_sdk_sns::error::ProvideErrorMetadata;
use aws_sdk_sns::types::PublishBatchRequestEntry;
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use proof::Sink;
use sns_redrive::clients::Clients;

const KB: usize = 1024;

struct Aws {
    sink: Sink,
    clients: Clients,
}

impl Aws {
    fn start() -> Self {
        let sink = Sink::start(Duration::ZERO, Vec::new());
        let endpoint = format!("http://{}", sink.address().replace("127.0.0.1", "localhost"));
        let clients = Clients::from_environment(|name| match name {
            "AWS_REGION" => Some("eu-central-1".to_owned()),
            "AWS_ENDPOINT_URL" => Some(endpoint.clone()),
            "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("sample".to_owned()),
            _ => None,
        })
        .unwrap();
        Self { sink, clients }
    }

    /// Messages of these sizes, the first with a binary attribute of so many bytes beside its name and type.
    async fn send(&self, sizes: &[usize], attribute: usize) -> Result<(), String> {
        let entries = sizes.iter().enumerate().map(|(index, size)| {
            let entry =
                SendMessageBatchRequestEntry::builder().id(index.to_string()).message_body("x".repeat(*size));
            if index > 0 || attribute == 0 {
                return entry.build().unwrap();
            }
            let value = Blob::new(vec![0; attribute]);
            let value = MessageAttributeValue::builder().data_type("Binary").binary_value(value);
            entry.message_attributes("bytes", value.build().unwrap()).build().unwrap()
        });
        let request = self.clients.sqs.send_message_batch();
        let request = request.queue_url("https://sqs.eu-central-1.amazonaws.com/123456789012/orders");
        let sent = request.set_entries(Some(entries.collect())).send().await;
        sent.map(drop).map_err(|error| error.code().unwrap().to_owned())
    }

    async fn publish(&self, sizes: &[usize]) -> Result<(), String> {
        let entries = sizes.iter().enumerate().map(|(index, size)| {
            let entry = PublishBatchRequestEntry::builder().id(index.to_string());
            entry.message("x".repeat(*size)).build().unwrap()
        });
        let request =
            self.clients.sns.publish_batch().topic_arn("arn:aws:sns:eu-central-1:123456789012:orders");
        let sent = request.set_publish_batch_request_entries(Some(entries.collect())).send().await;
        sent.map(drop).map_err(|error| error.code().unwrap().to_owned())
    }
}

#[tokio::test]
async fn a_queue_takes_ten_messages_of_a_mebibyte_together() {
    let aws = Aws::start();
    assert_eq!(aws.send(&[1; 10], 0).await, Ok(()));
    let many = "AWS.SimpleQueueService.TooManyEntriesInBatchRequest";
    assert_eq!(aws.send(&[1; 11], 0).await, Err(many.to_owned()));
    let long = Err("AWS.SimpleQueueService.BatchRequestTooLong".to_owned());
    assert_eq!(aws.send(&[512 * KB, 512 * KB], 0).await, Ok(()));
    assert_eq!(aws.send(&[512 * KB, 512 * KB + 1], 0).await, long);
    // `bytes` and `Binary` are eleven bytes themselves.
    assert_eq!(aws.send(&[512 * KB, 512 * KB - 111], 100).await, Ok(()));
    assert_eq!(aws.send(&[512 * KB, 512 * KB - 111], 101).await, long);
    let count = aws.sink.take_counts()["SendMessageBatch"];
    assert_eq!((count.calls, count.refused), (6, 3));
}

#[tokio::test]
async fn a_topic_takes_ten_messages_of_256_kib_together_and_a_larger_one_alone() {
    let aws = Aws::start();
    assert_eq!(aws.publish(&[1; 10]).await, Ok(()));
    assert_eq!(aws.publish(&[1; 11]).await, Err("TooManyEntriesInBatchRequest".to_owned()));
    let long = Err("BatchRequestTooLong".to_owned());
    assert_eq!(aws.publish(&[64 * KB; 4]).await, Ok(()));
    assert_eq!(aws.publish(&[64 * KB, 64 * KB, 64 * KB, 64 * KB + 1]).await, long);
    assert_eq!(aws.publish(&[KB * KB]).await, Ok(()));
    assert_eq!(aws.publish(&[KB * KB + 1]).await, long);
}
