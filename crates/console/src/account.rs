//! The AWS account that pages are read from.

use aws_config::SdkConfig;
use redrive_aws::clock::InstanceClock;
use redrive_core::arn::Arn;

use crate::budget::PageBudget;

/// The AWS account that pages are read from. A page skips what is `None`, and says so if it needs it.
#[derive(Debug, Clone)]
pub struct ConsoleAccount {
    /// The clients.
    pub clients: ConsoleClients,
    /// The archive; `None` if the function archives to a queue.
    pub archive: Option<BucketPrefix>,
    /// The place of the overrides and of the list of waiting letters.
    pub control: Option<BucketPrefix>,
    /// The stack's name, for the commands that pages show.
    pub stack: Option<String>,
    /// The name or the ARN of the function.
    pub function: Option<String>,
    /// The function's log group.
    pub log_group: Option<String>,
    /// The namespace of the function's metrics.
    pub namespace: String,
    /// The queues that feed the function, including the requeue.
    pub queues: Vec<Arn>,
    /// The requeue.
    pub requeue: Option<Arn>,
    /// The region of all of these.
    pub region: String,
    /// The clock that pages take the present from.
    pub clock: InstanceClock,
    /// Whether pages show the content of letters.
    pub bodies: BodyVisibility,
}

/// The clients that read the pages' data.
#[derive(Debug, Clone)]
pub struct ConsoleClients {
    /// Reads the archive, the overrides and the list of waiting letters.
    pub s3: aws_sdk_s3::Client,
    /// Reads metrics and alarms.
    pub cloudwatch: aws_sdk_cloudwatch::Client,
    /// Reads the function's log.
    pub logs: aws_sdk_cloudwatchlogs::Client,
    /// Reads the function's configuration.
    pub lambda: aws_sdk_lambda::Client,
}

/// A bucket, and a prefix of keys in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketPrefix {
    /// The bucket.
    pub bucket: String,
    /// The prefix. Slashes at its ends do not count.
    pub prefix: String,
}

/// Whether pages show the content of letters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum BodyVisibility {
    /// Pages show no body and no attribute.
    #[default]
    Hidden,
    /// Pages show bodies and attributes, but mask the values of the attributes with these names.
    Shown {
        /// The names. Upper and lower case are the same.
        masked: Vec<String>,
    },
}

impl ConsoleClients {
    /// Creates the clients. With `path_style` the bucket is a part of the path: an endpoint other than AWS's
    /// may need that.
    #[must_use]
    pub fn from_config(config: &SdkConfig, path_style: bool) -> Self {
        let s3 = aws_sdk_s3::config::Builder::from(config).force_path_style(path_style);
        Self {
            s3: aws_sdk_s3::Client::from_conf(s3.build()),
            cloudwatch: aws_sdk_cloudwatch::Client::new(config),
            logs: aws_sdk_cloudwatchlogs::Client::new(config),
            lambda: aws_sdk_lambda::Client::new(config),
        }
    }

    /// Returns clients whose requests count against a budget.
    pub(crate) fn within(&self, budget: &PageBudget) -> Self {
        let s3 = self.s3.config().to_builder().interceptor(budget.clone());
        let cloudwatch = self.cloudwatch.config().to_builder().interceptor(budget.clone());
        let logs = self.logs.config().to_builder().interceptor(budget.clone());
        let lambda = self.lambda.config().to_builder().interceptor(budget.clone());
        Self {
            s3: aws_sdk_s3::Client::from_conf(s3.build()),
            cloudwatch: aws_sdk_cloudwatch::Client::from_conf(cloudwatch.build()),
            logs: aws_sdk_cloudwatchlogs::Client::from_conf(logs.build()),
            lambda: aws_sdk_lambda::Client::from_conf(lambda.build()),
        }
    }
}
