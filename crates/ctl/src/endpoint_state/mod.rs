//! What AWS shows of an endpoint now, which may be why SNS gave up on a message: SNS's letters do not say why.
//!
//! Nothing is sent to the endpoint, except a HEAD request to a web server if that is asked for.

mod key;
mod state;
mod status_log;
mod web_probe;

use aws_sdk_lambda::types::State;
use aws_sdk_s3::error::ProvideErrorMetadata;
use redrive_aws::clients::AwsClients;
use redrive_core::arn::Arn;
use redrive_core::batch::Subscription;
use redrive_core::endpoint::{Endpoint, HttpUrl};

use crate::aws::AwsAccess;
use crate::doctor::{
    MANAGED_KEY, MessageSender, PolicyAnswer, QueueKey, ResourcePolicy, key_of, lets_sns_in,
    policy_of_function, read_error, read_queue,
};
pub(crate) use key::key_arn;
use state::SNS;
pub(crate) use state::{EndpointFinding, EndpointState};
pub(crate) use status_log::{LoggedFailures, StatusLog};
pub(crate) use web_probe::WebProber;

/// Reads the states of endpoints.
pub(crate) struct EndpointReader {
    clients: AwsClients,
    kms: aws_sdk_kms::Client,
    prober: Option<WebProber>,
}

impl EndpointReader {
    /// Returns a reader. It asks web servers only with a prober.
    pub(crate) fn new(aws: &AwsAccess, prober: Option<WebProber>) -> Self {
        Self { clients: aws.clients(), kms: aws.kms(), prober }
    }

    /// Reads the endpoint of a subscription, as SNS sees it.
    pub(crate) async fn of_subscription(&self, subscription: &Subscription) -> EndpointState {
        let topic = subscription.topic.as_str();
        match subscription.deliverable() {
            Some(Endpoint::Queue(queue)) => self.of_queue(queue, Some(topic)).await,
            Some(Endpoint::Function(function)) => self.of_function(&function, Some(topic)).await,
            Some(Endpoint::Stream(stream)) => self.of_stream(&stream).await,
            Some(Endpoint::Http(url)) => self.of_web_server(&url).await,
            Some(Endpoint::Topic(_)) | None => EndpointState::cannot_tell(format!(
                "only SNS can deliver by the protocol {:?}, and no call shows whether it can",
                subscription.protocol
            )),
        }
    }

    /// Reads a queue or a function that SNS does not deliver to. `None` for other kinds.
    pub(crate) async fn of_target(&self, arn: &Arn) -> Option<EndpointState> {
        match Endpoint::of_arn(arn.clone())? {
            Endpoint::Queue(queue) => Some(self.of_queue(queue, None).await),
            Endpoint::Function(function) => Some(self.of_function(&function, None).await),
            Endpoint::Stream(stream) => Some(self.of_stream(&stream).await),
            Endpoint::Topic(_) | Endpoint::Http(_) => None,
        }
    }

    async fn of_queue(&self, arn: Arn, topic: Option<&str>) -> EndpointState {
        let queue = read_queue(&self.clients.sqs, arn).await;
        if let Err(error) = &queue.attributes {
            return if error.is_of_no_queue() {
                EndpointState::broken("the queue does not exist")
            } else {
                EndpointState::unseen(error)
            };
        }
        let Some(topic) = topic else { return EndpointState::works("the queue exists") };
        let policy = ResourcePolicy::of(queue.attribute("Policy").unwrap_or_default());
        match lets_sns_in(&policy, topic, &queue) {
            PolicyAnswer::No => EndpointState::broken(format!(
                "the queue's policy does not let SNS write for {topic} (sqs:SendMessage for {SNS})"
            )),
            PolicyAnswer::Unclear => EndpointState::cannot_tell(
                "the queue's policy has conditions that this tool does not know: it may keep SNS out",
            ),
            PolicyAnswer::Yes => match key_of(&queue) {
                QueueKey::None => EndpointState::works("the queue exists, and its policy lets SNS write"),
                QueueKey::Managed => EndpointState::broken(format!("the queue {MANAGED_KEY}")),
                QueueKey::Own(key) => key::of_queue(&self.kms, key, &queue.arn, topic).await,
            },
        }
    }

    async fn of_function(&self, function: &Arn, topic: Option<&str>) -> EndpointState {
        let lambda = &self.clients.lambda;
        let read = lambda.get_function_configuration().function_name(function.as_str()).send().await;
        let read = match read {
            Ok(read) => read,
            Err(error) if error.code() == Some("ResourceNotFoundException") => {
                return EndpointState::broken("the function does not exist");
            }
            Err(error) => {
                return EndpointState::unseen(&read_error("lambda:GetFunctionConfiguration", &error));
            }
        };
        if let Some(state @ (State::Failed | State::Inactive)) = read.state() {
            return EndpointState::broken(format!("the function's state is {}", state.as_str()));
        }
        let Some(topic) = topic else { return EndpointState::works("the function exists") };
        let policy = match policy_of_function(lambda, function).await {
            Ok(policy) => ResourcePolicy::of(&policy.unwrap_or_default()),
            Err(error) => return EndpointState::unseen(&error),
        };
        let account = topic.split(':').nth(4).unwrap_or_default();
        let sns = MessageSender { service: SNS, source: topic, account };
        match policy.lets(sns, "lambda:InvokeFunction", function.as_str()) {
            PolicyAnswer::Yes => {
                EndpointState::works("the function exists, and its policy lets SNS invoke it")
            }
            PolicyAnswer::No => EndpointState::broken(format!(
                "the function's policy does not let SNS invoke it for {topic} (lambda:InvokeFunction for {SNS})"
            )),
            PolicyAnswer::Unclear => EndpointState::cannot_tell(
                "the function's policy has conditions that this tool does not know: it may keep SNS out",
            ),
        }
    }

    async fn of_stream(&self, stream: &Arn) -> EndpointState {
        let name = stream.resource().trim_start_matches("deliverystream/");
        let read = self.clients.firehose.describe_delivery_stream().delivery_stream_name(name).send().await;
        match read {
            Ok(read) => match read.delivery_stream_description() {
                Some(stream) if stream.delivery_stream_status().as_str() == "ACTIVE" => EndpointState::works(
                    "the stream is active; whether the subscription's role may write is not checked",
                ),
                Some(stream) => EndpointState::broken(format!(
                    "the stream's status is {}",
                    stream.delivery_stream_status().as_str()
                )),
                None => EndpointState::cannot_tell("Firehose gave no description of the stream"),
            },
            Err(error) if error.code() == Some("ResourceNotFoundException") => {
                EndpointState::broken("the stream does not exist")
            }
            Err(error) => EndpointState::unseen(&read_error("firehose:DescribeDeliveryStream", &error)),
        }
    }

    async fn of_web_server(&self, url: &HttpUrl) -> EndpointState {
        match &self.prober {
            Some(prober) => prober.ask(url).await,
            None => {
                EndpointState::cannot_tell("the web server was not asked; --probe sends it a HEAD request")
            }
        }
    }
}
