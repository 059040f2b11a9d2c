//! The permissions of the function's role, by IAM's own simulation.
//! <https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html>

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aws_sdk_iam::types::{
    ContextEntry, ContextKeyTypeEnum, EvaluationResult, PolicyEvaluationDecisionType, ResourceSpecificResult,
};
use aws_sdk_s3::error::ProvideErrorMetadata;
use redrive_archive::queues_folder;
use redrive_aws::clients::AwsClients;
use redrive_aws::settings::ArchiveAt;
use redrive_core::arn::{Arn, ArnKind};

use super::error::read_error;
use super::needs::{
    NeededPermissions, PREFIX_CONDITION, key, key_of_dead_letter_queue, key_of_queue, keys_of_buckets, own,
    sending, sources, targets,
};
use super::queues;
use crate::doctor::setup::{
    DeployedQueue, DeploymentFacts, IamDecision, PolicyObject, ReadError, ReadResult, RoleGrant,
};

/// Asks IAM about every call that the function makes. `function` is its ARN.
pub(super) async fn read(
    iam: &aws_sdk_iam::Client,
    clients: &AwsClients,
    function: &str,
    setup: &DeploymentFacts,
) -> ReadResult<Vec<RoleGrant>> {
    let function = function.parse::<Arn>().ok();
    let partition = function.as_ref().map_or("aws", |it| it.partition());
    let account = function.as_ref().map_or("", |it| it.account());
    let mut needs = own(setup);
    needs.extend(places(clients, partition, setup).await);
    needs.extend(endpoints(clients, account, setup).await);
    needs.extend(setup.queues.iter().filter_map(key_of_dead_letter_queue));
    needs.extend(setup.requeue.iter().filter_map(key_of_queue));
    let buckets: Vec<_> = setup.archive.iter().chain(&setup.control).collect();
    needs.extend(function.iter().flat_map(|function| keys_of_buckets(buckets.clone(), function)));
    let mut grants = Vec::new();
    for need in needs {
        let decisions = match &need.settled {
            Some(settled) => {
                Ok(need.actions.iter().map(|action| ((*action).to_owned(), settled.clone())).collect())
            }
            None => ask(iam, &setup.function.role, &need).await,
        };
        if let Err(error) = &decisions
            && error.is_denied()
        {
            // The other questions would be denied too.
            return Err(error.clone());
        }
        let of = need.resource.split(':').nth(4).unwrap_or_default();
        for action in need.actions {
            let decision = match &decisions {
                Ok(decisions) => {
                    decisions.iter().find(|(name, _)| name == action).map(|(_, it)| it.clone()).ok_or_else(
                        || ReadError::new("iam:SimulatePrincipalPolicy", "it gave no answer for this action"),
                    )
                }
                Err(error) => Err(error.clone()),
            };
            grants.push(RoleGrant {
                action,
                resource: need.resource.clone(),
                for_what: need.for_what.clone(),
                decision,
                own_policy: need.own_policy.clone(),
                is_foreign: !of.is_empty() && of != account,
            });
        }
    }
    Ok(grants)
}

/// Returns the permissions needed for the archive and the control prefix.
async fn places(clients: &AwsClients, partition: &str, setup: &DeploymentFacts) -> Vec<NeededPermissions> {
    let Some(settings) = setup.function.settings() else { return Vec::new() };
    let mut needs = Vec::new();
    let object = |bucket: &str, key: String, actions, for_what: &str, own_policy| {
        let resource = format!("arn:{partition}:s3:::{bucket}/{key}");
        NeededPermissions {
            resource,
            actions,
            for_what: for_what.to_owned(),
            own_policy,
            ..NeededPermissions::default()
        }
    };
    match &settings.archive {
        ArchiveAt::S3 { bucket, prefix } => {
            let own_policy = Some(policy(clients, bucket).await);
            needs.push(object(
                bucket,
                queues_folder(prefix),
                &["s3:PutObject"],
                "to archive letters",
                own_policy,
            ));
        }
        ArchiveAt::Queue(arn) => {
            let queue = queues::read(&clients.sqs, arn.clone(), false).await;
            needs.extend(key_of_queue(&queue));
            needs.push(NeededPermissions {
                resource: arn.to_string(),
                actions: &["sqs:SendMessage"],
                for_what: "to archive letters".to_owned(),
                own_policy: Some(queue.attributes.map(|mut it| it.remove("Policy"))),
                ..NeededPermissions::default()
            });
        }
    }
    if let Some(PolicyObject { place, .. }) = &setup.function.policy_object {
        let own_policy = Some(policy(clients, &place.bucket).await);
        let key = place.key.clone();
        needs.push(object(&place.bucket, key, &["s3:GetObject"], "to read its redrive policy", own_policy));
    }
    if let Some(control) = &settings.control {
        let own_policy = Some(policy(clients, &control.bucket).await);
        let key = format!("{}/overrides.json", control.prefix);
        needs.push(object(&control.bucket, key, &["s3:GetObject"], "to read overrides", own_policy.clone()));
        needs.push(NeededPermissions {
            resource: format!("arn:{partition}:s3:::{}", control.bucket),
            actions: &["s3:ListBucket"],
            for_what: "to see that there are no overrides".to_owned(),
            own_policy: own_policy.clone(),
            prefix: Some(format!("{}/overrides.json", control.prefix)),
            ..NeededPermissions::default()
        });
        if settings.waiting_list {
            for (key, what) in [
                ("waiting/letters", "to list and wake waiting letters"),
                ("recoveries.json", "to wake letters"),
            ] {
                let key = format!("{}/{key}", control.prefix);
                let actions = &["s3:PutObject", "s3:GetObject"];
                needs.push(object(&control.bucket, key, actions, what, own_policy.clone()));
            }
        }
    }
    needs
}

async fn policy(clients: &AwsClients, bucket: &str) -> ReadResult<Option<String>> {
    match clients.s3.get_bucket_policy().bucket(bucket).send().await {
        Ok(read) => Ok(read.policy),
        Err(error) if error.code() == Some("NoSuchBucketPolicy") => Ok(None),
        Err(error) => Err(read_error("s3:GetBucketPolicy", &error)),
    }
}

/// Reads the policy of a function, if it has one.
pub(crate) async fn policy_of_function(
    lambda: &aws_sdk_lambda::Client,
    arn: &Arn,
) -> ReadResult<Option<String>> {
    match lambda.get_policy().function_name(arn.as_str()).send().await {
        Ok(read) => Ok(read.policy),
        Err(error) if error.code() == Some("ResourceNotFoundException") => Ok(None),
        Err(error) => Err(read_error("lambda:GetPolicy", &error)),
    }
}

/// Returns the endpoints of subscriptions, and the targets of rules and settings, with the purpose of each.
fn endpoints_of(setup: &DeploymentFacts) -> BTreeMap<Arn, String> {
    let subscriptions = setup.subscriptions.iter().flat_map(|it| &it.all);
    let own: Vec<_> = subscriptions.filter(|it| it.names_any(&setup.queues)).collect();
    let topics = own.iter().map(|it| it.topic.as_str()).collect();
    let settings = setup.function.settings();
    let mut targets = settings.map(|settings| targets(settings, &topics)).unwrap_or_default();
    for arn in own.iter().filter_map(|it| it.endpoint.parse::<Arn>().ok()) {
        targets.insert(arn, "to redeliver to a subscription".to_owned());
    }
    targets
}

/// Reads the queues of the function's account among the targets of letters. `function` is its ARN.
pub(super) async fn target_queues(
    clients: &AwsClients,
    function: &str,
    setup: &DeploymentFacts,
) -> Vec<DeployedQueue> {
    let account = function.split(':').nth(4).unwrap_or_default();
    let mut queues = Vec::new();
    for arn in endpoints_of(setup).into_keys() {
        if arn.kind() == ArnKind::Queue && arn.account() == account {
            queues.push(queues::read(&clients.sqs, arn, false).await);
        }
    }
    queues
}

/// Returns the permissions needed for the endpoints of subscriptions, and for the targets of rules and
/// settings. Web servers need no permission.
async fn endpoints(clients: &AwsClients, account: &str, setup: &DeploymentFacts) -> Vec<NeededPermissions> {
    let mut needs: Vec<_> = setup.function.settings().into_iter().flat_map(sources).collect();
    for (arn, for_what) in endpoints_of(setup) {
        let Some(actions) = sending(&arn) else { continue };
        let own_policy = match arn.kind() {
            _ if arn.account() != account => None,
            ArnKind::Queue => setup.targets.iter().find(|queue| queue.arn == arn).map(|queue| {
                needs.extend(key_of_queue(queue));
                queue.attributes.clone().map(|mut it| it.remove("Policy"))
            }),
            ArnKind::Topic => Some(topic(&clients.sns, &arn).await.map(|mut attributes| {
                let id = attributes.remove("KmsMasterKeyId").filter(|id| !id.is_empty());
                needs.extend(id.and_then(|id| key(&id, &arn, format!("for the topic {}", arn.resource()))));
                attributes.remove("Policy")
            })),
            ArnKind::Function => Some(policy_of_function(&clients.lambda, &arn).await),
            _ => None,
        };
        needs.push(NeededPermissions {
            resource: arn.to_string(),
            actions,
            for_what,
            own_policy,
            ..NeededPermissions::default()
        });
    }
    needs
}

async fn topic(sns: &aws_sdk_sns::Client, arn: &Arn) -> ReadResult<HashMap<String, String>> {
    let read = sns.get_topic_attributes().topic_arn(arn.as_str()).send().await;
    let read = read.map_err(|error| read_error("sns:GetTopicAttributes", &error))?;
    Ok(read.attributes.unwrap_or_default())
}

async fn ask(
    iam: &aws_sdk_iam::Client,
    role: &str,
    need: &NeededPermissions,
) -> ReadResult<Vec<(String, IamDecision)>> {
    let actions = need.actions.iter().map(|action| (*action).to_owned()).collect();
    let simulate = iam.simulate_principal_policy().policy_source_arn(role).set_action_names(Some(actions));
    let known = [("aws:SecureTransport", ContextKeyTypeEnum::Boolean, "true")];
    let known = known
        .into_iter()
        .chain(need.prefix.as_deref().map(|prefix| (PREFIX_CONDITION, ContextKeyTypeEnum::String, prefix)));
    let entries = known.map(|(key, kind, value)| {
        ContextEntry::builder().context_key_name(key).context_key_type(kind).context_key_values(value).build()
    });
    let simulate = simulate.set_context_entries(Some(entries.collect()));
    let answer = simulate.resource_arns(&need.resource).send().await;
    let answer = answer.map_err(|error| read_error("iam:SimulatePrincipalPolicy", &error))?;
    let results = answer.evaluation_results().iter();
    Ok(results.map(|it| (it.eval_action_name().to_owned(), decision(it))).collect())
}

/// Returns the decision of a simulation. If a policy uses a value that the simulation did not have, the real
/// call may have another result.
fn decision(result: &EvaluationResult) -> IamDecision {
    let of_resources = result.resource_specific_results().iter();
    let of_resources = of_resources.flat_map(ResourceSpecificResult::missing_context_values);
    let missing = result.missing_context_values().iter().chain(of_resources).map(String::as_str);
    // Only calls that list have a prefix: a condition on it does not apply to other calls.
    let lists = result.eval_action_name().starts_with("s3:List");
    let missing: BTreeSet<_> =
        missing.filter(|key| lists || !key.eq_ignore_ascii_case(PREFIX_CONDITION)).collect();
    if !missing.is_empty() {
        let keys: Vec<_> = missing.into_iter().collect();
        return IamDecision::Unclear(format!(
            "its policies use {}, which only the real call has",
            keys.join(", ")
        ));
    }
    match result.eval_decision() {
        PolicyEvaluationDecisionType::Allowed => IamDecision::Allowed,
        PolicyEvaluationDecisionType::ExplicitDeny => IamDecision::Denied,
        _ => IamDecision::NotAllowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(
        action: &str,
        decides: PolicyEvaluationDecisionType,
        missing: &[&str],
        of_resource: &[&str],
    ) -> IamDecision {
        let texts = |keys: &[&str]| Some(keys.iter().map(|key| (*key).to_owned()).collect());
        let of_resource = ResourceSpecificResult::builder()
            .eval_resource_name("*")
            .eval_resource_decision(decides.clone())
            .set_missing_context_values(texts(of_resource));
        let result = EvaluationResult::builder().eval_action_name(action).eval_decision(decides);
        let result = result.set_missing_context_values(texts(missing));
        decision(&result.resource_specific_results(of_resource.build().unwrap()).build().unwrap())
    }

    #[test]
    fn what_depends_on_something_that_the_simulation_was_not_told_is_unclear() {
        use PolicyEvaluationDecisionType::{Allowed, ExplicitDeny, ImplicitDeny};
        let put = "s3:PutObject";
        assert_eq!(decided(put, Allowed, &[], &[]), IamDecision::Allowed);
        assert_eq!(decided(put, ExplicitDeny, &[], &[]), IamDecision::Denied);
        assert_eq!(decided(put, ImplicitDeny, &[], &[]), IamDecision::NotAllowed);
        for decides in [Allowed, ExplicitDeny, ImplicitDeny] {
            let by_vpc = decided(put, decides.clone(), &["aws:SourceVpc"], &[]);
            assert!(
                matches!(&by_vpc, IamDecision::Unclear(why) if why.contains("aws:SourceVpc")),
                "{by_vpc:?}"
            );
            assert_eq!(decided(put, decides, &[], &["aws:SourceVpc"]), by_vpc);
        }
        assert_eq!(decided(put, Allowed, &["s3:prefix"], &[]), IamDecision::Allowed);
        assert!(matches!(decided("s3:ListBucket", Allowed, &["s3:prefix"], &[]), IamDecision::Unclear(_)));
    }
}
