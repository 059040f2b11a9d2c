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
    /// The endpoints that the stack's parameters name.
    pub grants: TargetGrants,
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

/// The ARNs of the endpoints to which the stack's parameters, such as `TargetQueueArns`, let the function send. A `*` stands for
/// any text. `None` if the parameters are not known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetGrants(pub Option<Vec<String>>);

impl TargetGrants {
    /// Reports whether the parameters name an endpoint. `None` if they are not known.
    #[must_use]
    pub fn name(&self, target: &str) -> Option<bool> {
        self.0.as_ref().map(|arns| arns.iter().any(|pattern| covers(pattern, target)))
    }
}

/// Reports whether a text is what a pattern with `*` stands for.
fn covers(pattern: &str, text: &str) -> bool {
    let mut parts: Vec<_> = pattern.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    let Some((first, middle)) = parts.split_first() else { return text == last };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_names_an_endpoint_by_its_arn_or_with_a_wildcard() {
        let arn = |name: &str| format!("arn:aws:sqs:eu-central-1:123456789012:{name}");
        let names = |pattern: &str, name: &str| {
            TargetGrants(Some(vec![arn("other"), arn(pattern)])).name(&arn(name)).unwrap()
        };
        for pattern in ["billing", "*", "bill*", "*ing", "b*l*g", "billing*"] {
            assert!(names(pattern, "billing"), "{pattern}");
        }
        for pattern in ["bill", "billings", "b*x*g", "*ing-*", "billing*g"] {
            assert!(!names(pattern, "billing"), "{pattern}");
        }
        assert!(TargetGrants(Some(vec!["*".to_owned()])).name("arn:x").unwrap());
        assert_eq!(TargetGrants(None).name("arn:x"), None);
        assert_eq!(TargetGrants(Some(Vec::new())).name("arn:x"), Some(false));
    }
}
