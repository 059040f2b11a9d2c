//! Reads the widget's account from the environment.

use redrive_aws::clients::ClientSettings;
use redrive_aws::clock::InstanceClock;
use redrive_aws::settings::{ArchiveAt, BadSettings, SettingFault, Settings};
use redrive_core::arn::{Arn, ArnKind};
use redrive_core::endpoint::without_urls;

use crate::account::{BodyVisibility, BucketPrefix, ConsoleAccount, ConsoleClients, TargetGrants};

/// The longest name of a stack. <https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_Stack.html>
const LONGEST_STACK: usize = 128;

/// Reads the account that the widget shows. `variable` returns the value of an environment variable. An empty
/// value counts as none.
///
/// | variable | is |
/// |---|---|
/// | `ARCHIVE`, `CONTROL`, `METRICS_NAMESPACE`, `REQUEUE_ARN`, `REDRIVE_FUNCTION` | as for the replay function |
/// | `QUEUES` | the dead-letter queues, ARNs or names, with commas between them; names are of the account and the region of `REDRIVE_FUNCTION` |
/// | `STACK` | the stack that commands name |
/// | `LOG_GROUP` | the log group of the function |
///
/// # Errors
///
/// [`BadSettings`] with every fault.
pub fn account(
    variable: impl Fn(&str) -> Option<String>,
    clock: InstanceClock,
) -> Result<ConsoleAccount, BadSettings> {
    let read = BadSettings::join(Settings::read(&variable), ClientSettings::from_environment(&variable));
    let given = |name: &str| variable(name).filter(|value| !value.is_empty());
    let own = BadSettings::join(queues(&given), stack(&given));
    let ((settings, configuration), (mut queues, stack)) = BadSettings::join(read, own)?;
    queues.extend(settings.requeue.clone().filter(|requeue| !queues.contains(requeue)));
    let archive = match settings.archive {
        ArchiveAt::S3 { bucket, prefix } => Some(BucketPrefix { bucket, prefix }),
        ArchiveAt::Queue(_) => None,
    };
    Ok(ConsoleAccount {
        clients: ConsoleClients::from_config(&configuration.sdk, configuration.path_style),
        archive,
        control: settings.control.map(|at| BucketPrefix { bucket: at.bucket, prefix: at.prefix }),
        stack,
        function: settings.redrive_function,
        log_group: given("LOG_GROUP"),
        namespace: settings.metrics_namespace,
        queues,
        requeue: settings.requeue,
        grants: TargetGrants::default(),
        region: configuration.sdk.region().map(ToString::to_string).unwrap_or_default(),
        clock,
        // People who may look at the dashboard need not be allowed to read letters.
        bodies: BodyVisibility::Hidden,
    })
}

/// Creates a fault. It keeps only the name of a URL, because faults are logged.
fn fault(variable: &'static str, problem: &str) -> BadSettings {
    BadSettings(vec![SettingFault { variable, problem: without_urls(problem) }])
}

fn queues(given: &impl Fn(&str) -> Option<String>) -> Result<Vec<Arn>, BadSettings> {
    const NAME: &str = "QUEUES";
    let Some(text) = given(NAME) else { return Ok(Vec::new()) };
    let function = given("REDRIVE_FUNCTION").and_then(|function| function.parse::<Arn>().ok());
    let mut faults = Vec::new();
    let mut queues = Vec::new();
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let arn = match &function {
            _ if name.starts_with("arn:") => name.to_owned(),
            Some(function) => {
                let mut parts = function.as_str().split(':').skip(1);
                let mut part = || parts.next().unwrap_or_default();
                let (partition, _, region, account) = (part(), part(), part(), part());
                format!("arn:{partition}:sqs:{region}:{account}:{name}")
            }
            None => {
                faults.push(format!(
                    "REDRIVE_FUNCTION is not set to an ARN: {name:?} must be a queue's ARN, not its name"
                ));
                continue;
            }
        };
        match arn.parse::<Arn>().ok().filter(|arn| arn.kind() == ArnKind::Queue) {
            Some(queue) => queues.push(queue),
            None => faults.push(format!("{name:?} must be the name or the ARN of an SQS queue")),
        }
    }
    if faults.is_empty() { Ok(queues) } else { Err(fault(NAME, &faults.join("; "))) }
}

fn stack(given: &impl Fn(&str) -> Option<String>) -> Result<Option<String>, BadSettings> {
    const NAME: &str = "STACK";
    let Some(stack) = given(NAME) else { return Ok(None) };
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if stack.len() <= LONGEST_STACK && stack.chars().all(allowed) {
        return Ok(Some(stack));
    }
    Err(fault(NAME, &format!("must be the name of a stack, not {stack:?}")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<ConsoleAccount, BadSettings> {
        let all = [
            ("AWS_REGION", "eu-central-1"),
            ("ARCHIVE", "s3://bucket/dead"),
            ("REDRIVE_FUNCTION", "arn:aws:lambda:eu-central-1:123456789012:function:redrive"),
        ];
        let all: BTreeMap<_, _> = all.iter().chain(variables).copied().collect();
        account(|name| all.get(name).map(|value| (*value).to_owned()), InstanceClock::system())
    }

    #[test]
    fn names_of_queues_are_of_the_functions_account_and_the_requeue_is_among_them() {
        let requeue = "arn:aws:sqs:eu-central-1:123456789012:again";
        let read = read(&[
            ("QUEUES", "payments-dlq, refunds-dlq.fifo,arn:aws:sqs:eu-west-1:123456789012:far"),
            ("REQUEUE_ARN", requeue),
            ("STACK", "sns-redrive"),
            ("LOG_GROUP", "/sns-redrive/sns-redrive"),
        ])
        .unwrap();
        let queues: Vec<_> = read.queues.iter().map(Arn::as_str).collect();
        let here = "arn:aws:sqs:eu-central-1:123456789012";
        assert_eq!(
            queues,
            [
                &format!("{here}:payments-dlq"),
                &format!("{here}:refunds-dlq.fifo"),
                "arn:aws:sqs:eu-west-1:123456789012:far",
                requeue
            ]
        );
        let place =
            |prefix: &str| Some(BucketPrefix { bucket: "bucket".to_owned(), prefix: prefix.to_owned() });
        assert_eq!((read.archive, read.control), (place("dead"), place("dead-control")));
        assert_eq!(read.stack.as_deref(), Some("sns-redrive"));
        assert_eq!(read.log_group.as_deref(), Some("/sns-redrive/sns-redrive"));
        assert_eq!((read.namespace.as_str(), read.bodies), ("SnsRedrive", BodyVisibility::Hidden));
    }

    #[test]
    fn requeue_that_is_named_is_there_once() {
        let requeue = "arn:aws:sqs:eu-central-1:123456789012:again";
        let read = read(&[("QUEUES", "again"), ("REQUEUE_ARN", requeue)]).unwrap();
        assert_eq!(read.queues.iter().map(Arn::as_str).collect::<Vec<_>>(), [requeue]);
    }

    #[test]
    fn all_faults_are_reported_together() {
        let bad = read(&[
            ("ARCHIVE", "nowhere"),
            ("QUEUES", "overrides dlq,payments-dlq"),
            ("STACK", "a b"),
            ("AWS_USE_FIPS_ENDPOINT", "perhaps"),
        ]);
        let variables: Vec<_> = bad.unwrap_err().0.iter().map(|fault| fault.variable).collect();
        assert_eq!(variables, ["ARCHIVE", "AWS_USE_FIPS_ENDPOINT", "QUEUES", "STACK"]);
    }

    #[test]
    fn no_fault_shows_more_of_a_url_than_its_name() {
        let url = "https://hooks.example.com/S3CR3T";
        for name in ["QUEUES", "STACK"] {
            let fault = read(&[(name, url)]).unwrap_err().to_string();
            assert!(fault.contains("https://hooks.example.com#") && !fault.contains("S3CR3T"), "{fault}");
        }
    }

    #[test]
    fn name_of_a_queue_without_a_functions_arn_is_a_fault() {
        let bad = read(&[("REDRIVE_FUNCTION", "redrive"), ("QUEUES", "payments-dlq")]).unwrap_err();
        assert_eq!(
            bad.to_string(),
            "bad settings: QUEUES: REDRIVE_FUNCTION is not set to an ARN: \"payments-dlq\" must be a queue's ARN, not its name"
        );
        let bad = read(&[("QUEUES", "overrides dlq")]).unwrap_err();
        assert_eq!(
            bad.to_string(),
            "bad settings: QUEUES: \"overrides dlq\" must be the name or the ARN of an SQS queue"
        );
    }
}
