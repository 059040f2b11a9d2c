//! The account that pages are read from.

use aws_config::SdkConfig;
use sns_redrive::arn::Arn;
use sns_redrive::clock::Clock;

use crate::budget::Budget;

/// The account that pages are read from. Pages do not read a part that is none; a page that needs it says so.
#[derive(Debug, Clone)]
pub struct Account {
    /// The clients.
    pub clients: Clients,
    /// The archive; none where it is a queue.
    pub archive: Option<Place>,
    /// The prefix of orders and of the list of waiting letters.
    pub control: Option<Place>,
    /// The stack's name, by which commands name it.
    pub stack: Option<String>,
    /// The function's name or ARN.
    pub function: Option<String>,
    /// The function's log group.
    pub log_group: Option<String>,
    /// The namespace of the function's metrics.
    pub namespace: String,
    /// The queues that feed the function, the requeue among them.
    pub queues: Vec<Arn>,
    /// The requeue.
    pub requeue: Option<Arn>,
    /// The region of it all.
    pub region: String,
    /// The present.
    pub clock: Clock,
    /// The setting for the content of letters.
    pub bodies: Bodies,
}

/// The clients that pages are read with.
#[derive(Debug, Clone)]
pub struct Clients {
    /// Archive, orders, and the list of waiting letters.
    pub s3: aws_sdk_s3::Client,
    /// Metrics and alarms.
    pub cloudwatch: aws_sdk_cloudwatch::Client,
    /// The function's log.
    pub logs: aws_sdk_cloudwatchlogs::Client,
    /// The function's own policy.
    pub lambda: aws_sdk_lambda::Client,
}

/// A bucket, and the prefix of every key in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The bucket.
    pub bucket: String,
    /// The prefix, with or without slashes at its ends.
    pub prefix: String,
}

/// The setting for the content of letters: pages show it or hide it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Bodies {
    /// They do not.
    #[default]
    Hidden,
    /// They show bodies and attributes, but for the values of the attributes of these names, whatever their case.
    Shown {
        /// The names.
        masked: Vec<String>,
    },
}

impl Clients {
    /// Makes clients by a configuration. With an endpoint of one's own, buckets are a part of the path.
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

    /// Returns the same clients, whose requests come out of a budget.
    pub(crate) fn within(&self, budget: &Budget) -> Self {
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
