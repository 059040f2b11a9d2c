//! The permissions that the function's role needs, worked out without calls.

use std::collections::{BTreeMap, BTreeSet};

use redrive_aws::settings::Settings;
use redrive_core::arn::{Arn, ArnKind};
use redrive_core::policy::{RuleAction, SubscriptionSpec, TargetSpec};

use crate::doctor::setup::{
    DeployedBucket, DeployedQueue, DeploymentFacts, IamDecision, ReadError, ReadResult,
};

/// The permissions that the role needs on one resource.
#[derive(Debug, Default)]
pub(super) struct NeededPermissions {
    pub(super) resource: String,
    pub(super) actions: &'static [&'static str],
    pub(super) for_what: String,
    pub(super) own_policy: Option<ReadResult<Option<String>>>,
    /// The prefix that the function lists.
    pub(super) prefix: Option<String>,
    /// The decision, if it is known without asking IAM.
    pub(super) settled: Option<IamDecision>,
}

/// The condition key of that prefix.
pub(super) const PREFIX_CONDITION: &str = "s3:prefix";

/// Returns the permissions needed for the function's own queues and for subscriptions.
pub(super) fn own(setup: &DeploymentFacts) -> Vec<NeededPermissions> {
    const DRAIN: &[&str] =
        &["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"];
    const FILL: &[&str] = &[
        "sqs:SendMessage",
        "sqs:ReceiveMessage",
        "sqs:DeleteMessage",
        "sqs:GetQueueAttributes",
        "sqs:ChangeMessageVisibility",
    ];
    let need = |queue: &DeployedQueue, actions, for_what: &str| NeededPermissions {
        resource: queue.arn.to_string(),
        actions,
        for_what: for_what.to_owned(),
        own_policy: Some(queue.attributes.clone().map(|mut it| it.remove("Policy"))),
        ..NeededPermissions::default()
    };
    let queues = setup.queues.iter().map(|queue| need(queue, DRAIN, "to drain the dead-letter queue"));
    let requeue = setup.requeue.iter().map(|queue| need(queue, FILL, "to fill and drain the requeue"));
    let asked = NeededPermissions {
        resource: "*".to_owned(),
        actions: &["sns:GetSubscriptionAttributes"],
        for_what: "to look up where a letter goes".to_owned(),
        ..NeededPermissions::default()
    };
    let mut needs: Vec<_> = queues.chain(requeue).chain([asked]).collect();
    let mut rules = setup.function.settings().into_iter().flat_map(|settings| settings.policy.all_rules());
    if rules.any(|rule| rule.action == RuleAction::Redrive && rule.subscription == SubscriptionSpec::Discover)
    {
        needs.push(NeededPermissions {
            resource: "*".to_owned(),
            actions: &["sns:ListSubscriptions"],
            for_what: "to search for the subscription of raw letters".to_owned(),
            ..NeededPermissions::default()
        });
    }
    needs
}

/// Returns the permissions needed for a key, given by id, ARN or alias. `home` is a resource of the key's
/// account and region. A key that AWS manages for a service needs no permission of the role.
pub(super) fn key(key: &str, home: &Arn, for_what: String) -> Option<NeededPermissions> {
    if key.contains("alias/aws/") {
        return None;
    }
    let is_alias = key.contains("alias/");
    let resource = if key.starts_with("arn:") || is_alias {
        key.to_owned()
    } else {
        format!("arn:{}:kms:{}:{}:key/{key}", home.partition(), home.region(), home.account())
    };
    Some(NeededPermissions {
        resource,
        actions: &["kms:GenerateDataKey", "kms:Decrypt"],
        for_what,
        own_policy: Some(Err(ReadError::new("kms:GetKeyPolicy", "this tool does not read policies of keys"))),
        settled: is_alias.then(|| {
            IamDecision::Unclear("the resource names its key by an alias, which only KMS resolves".to_owned())
        }),
        ..NeededPermissions::default()
    })
}

/// Returns the permission needed for the key of a dead-letter queue, from which the function only takes letters.
pub(super) fn key_of_dead_letter_queue(queue: &DeployedQueue) -> Option<NeededPermissions> {
    let name = format!("for the dead-letter queue {}", queue.arn.resource());
    let need = key(queue.attribute("KmsMasterKeyId")?, &queue.arn, name)?;
    Some(NeededPermissions { actions: &["kms:Decrypt"], ..need })
}

/// Returns the permissions needed for the key of a queue to which the function sends.
pub(super) fn key_of_queue(queue: &DeployedQueue) -> Option<NeededPermissions> {
    let name = format!("for the queue {}", queue.arn.resource());
    key(queue.attribute("KmsMasterKeyId")?, &queue.arn, name)
}

/// Returns the permissions needed for the keys of buckets. `function` is the function's ARN.
pub(super) fn keys_of_buckets(mut buckets: Vec<&DeployedBucket>, function: &Arn) -> Vec<NeededPermissions> {
    buckets.dedup_by_key(|bucket| bucket.name.as_str());
    let of = |bucket: &&DeployedBucket| {
        let encryption = bucket.encryption.as_ref().ok()?.as_ref()?;
        let id = encryption.key.as_deref().filter(|_| encryption.algorithm.starts_with("aws:kms"))?;
        key(id, function, format!("for the bucket {}", bucket.name))
    };
    buckets.iter().filter_map(of).collect()
}

/// Returns the targets that the policy and the settings name, with the purpose of each. `topics` are those of the
/// subscriptions.
pub(super) fn targets(settings: &Settings, topics: &BTreeSet<&str>) -> BTreeMap<Arn, String> {
    let mut targets = BTreeMap::new();
    for rule in settings.policy.all_rules().filter(|rule| rule.action == RuleAction::Redrive) {
        let arns: Vec<Arn> = match &rule.target {
            TargetSpec::Arn(arn) => vec![arn.clone()],
            TargetSpec::Topic => topics.iter().filter_map(|topic| topic.parse().ok()).collect(),
            // Letters name their target, and may only go to these.
            TargetSpec::Origin | TargetSpec::Source => {
                rule.allow_targets.iter().flatten().filter_map(|target| target.parse().ok()).collect()
            }
            TargetSpec::Subscription => Vec::new(),
        };
        for arn in arns {
            targets.entry(arn).or_insert_with(|| format!("to redeliver by the rule {}", rule.name));
        }
    }
    if let Some(topic) = &settings.notice_topic {
        targets.entry(topic.clone()).or_insert_with(|| "to send notices of archived letters".to_owned());
    }
    targets
}

/// Returns the permissions needed by rules that send letters to a queue that only the letter names.
pub(super) fn sources(settings: &Settings) -> Vec<NeededPermissions> {
    let rules = settings.policy.all_rules().filter(|rule| rule.action == RuleAction::Redrive);
    let of_source = rules.filter(|rule| rule.target == TargetSpec::Source && rule.allow_targets.is_none());
    let need = |name: &str| NeededPermissions {
        resource: "source queues".to_owned(),
        actions: &["sqs:SendMessage", "sqs:GetQueueAttributes"],
        for_what: format!("to redeliver by the rule {name}"),
        settled: Some(IamDecision::Unclear("only a letter names its source queue".to_owned())),
        ..NeededPermissions::default()
    };
    of_source.map(|rule| need(&rule.name)).collect()
}

/// Returns the permissions needed to send to a target, if there are any.
pub(super) fn sending(to: &Arn) -> Option<&'static [&'static str]> {
    Some(match to.kind() {
        // The maxReceiveCount of a source queue tells the attempts of a letter that SQS moved.
        ArnKind::Queue => &["sqs:SendMessage", "sqs:GetQueueAttributes"],
        ArnKind::Function => &["lambda:InvokeFunction"],
        ArnKind::Stream => &["firehose:PutRecordBatch"],
        ArnKind::Topic => &["sns:Publish"],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::setup::BucketEncryption;

    const TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:payments";
    const NOTICES: &str = "arn:aws:sns:eu-central-1:123456789012:notices";
    const WORKER: &str = "arn:aws:sqs:eu-central-1:123456789012:worker";

    fn settings(policy: &str) -> Settings {
        Settings::read(|name| {
            let value = match name {
                "ARCHIVE" => "s3://my-bucket/dead-letters",
                "NOTICE_TOPIC_ARN" => NOTICES,
                "REDRIVE_POLICY" => policy,
                _ => return None,
            };
            Some(value.to_owned())
        })
        .unwrap()
    }

    #[test]
    fn targets_of_rules_and_the_topic_of_notices_are_named() {
        let named = |policy: &str| {
            let targets = targets(&settings(policy), &BTreeSet::from([TOPIC]));
            targets.into_keys().map(|arn| arn.as_str().to_owned()).collect::<BTreeSet<_>>()
        };
        let set = |arns: &[&str]| arns.iter().map(|arn| (*arn).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(named("{}"), set(&[NOTICES]));
        assert_eq!(named(r#"{"default":{"target":"topic"}}"#), set(&[NOTICES, TOPIC]));
        let to = format!(r#"{{"default":{{"target":"{WORKER}"}}}}"#);
        assert_eq!(named(&to), set(&[NOTICES, WORKER]));
        assert_eq!(sources(&settings(r#"{"default":{"target":"source"}}"#)).len(), 1);
        assert!(sources(&settings("{}")).is_empty());
        for target in ["origin", "source"] {
            let allowed = format!(
                r#"{{"default":{{"target":"{target}","allowTargets":["{WORKER}","https://example.org/"]}}}}"#
            );
            assert_eq!(named(&allowed), set(&[NOTICES, WORKER]));
            assert!(sources(&settings(&allowed)).is_empty());
        }
        assert_eq!(sending(&TOPIC.parse().unwrap()), Some(&["sns:Publish"][..]));
    }

    #[test]
    fn the_key_of_a_bucket_is_needed_once() {
        let function: Arn = "arn:aws:lambda:eu-central-1:123456789012:function:payments".parse().unwrap();
        let bucket = |name: &str, algorithm: &str| {
            let unknown = || ReadError::new("s3:GetBucket", "AccessDenied");
            let encryption =
                BucketEncryption { algorithm: algorithm.to_owned(), key: Some("1234".to_owned()) };
            DeployedBucket {
                name: name.to_owned(),
                prefix: String::new(),
                encryption: Ok(Some(encryption)),
                is_versioned: Err(unknown()),
                is_private: Err(unknown()),
                lifecycle: Err(unknown()),
            }
        };
        let keys = |buckets: &[&DeployedBucket]| keys_of_buckets(buckets.to_vec(), &function).len();
        let (one, other) = (bucket("one", "aws:kms"), bucket("other", "aws:kms:dsse"));
        assert_eq!([keys(&[&one]), keys(&[&one, &one]), keys(&[&one, &other])], [1, 1, 2]);
        assert_eq!(keys(&[&bucket("plain", "AES256")]), 0);
    }

    /// The function takes letters from a dead-letter queue and puts none there.
    #[test]
    fn the_key_of_a_dead_letter_queue_only_decrypts() {
        let attributes = [("KmsMasterKeyId".to_owned(), "1234".to_owned())].into();
        let queue = DeployedQueue { arn: WORKER.parse().unwrap(), attributes: Ok(attributes), tags: None };
        assert_eq!(key_of_dead_letter_queue(&queue).unwrap().actions, ["kms:Decrypt"]);
        assert_eq!(key_of_queue(&queue).unwrap().actions, ["kms:GenerateDataKey", "kms:Decrypt"]);
    }

    #[test]
    fn a_key_that_only_an_alias_names_is_not_passed_over() {
        let home: Arn = WORKER.parse().unwrap();
        let key = |id: &str| key(id, &home, String::new());
        let alone = key("1234").unwrap();
        assert_eq!(alone.resource, "arn:aws:kms:eu-central-1:123456789012:key/1234");
        assert_eq!(alone.settled, None);
        for alias in ["alias/payments", "arn:aws:kms:eu-central-1:123456789012:alias/payments"] {
            assert!(matches!(key(alias).unwrap().settled, Some(IamDecision::Unclear(_))), "{alias}");
        }
        assert!(key("alias/aws/sqs").is_none());
    }
}
