//! What the function's role may do, by IAM's own simulation.
//! <https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html>

use std::collections::BTreeSet;

use aws_sdk_iam::types::{
    ContextEntry, ContextKeyTypeEnum, EvaluationResult, PolicyEvaluationDecisionType, ResourceSpecificResult,
};
use aws_sdk_s3::error::ProvideErrorMetadata;

use super::{queues, untold};
use crate::doctor::setup::{Decision, Grant, Queue, Setup, Told, Untold};
use sns_redrive::arn::{Arn, ArnKind};
use sns_redrive::clients::Clients;
use sns_redrive::settings::ArchiveAt;

/// What the role must be allowed on one resource.
struct Need {
    resource: String,
    actions: &'static [&'static str],
    for_what: String,
    own_policy: Option<Told<Option<String>>>,
    /// The prefix that is listed.
    prefix: Option<String>,
}

/// The condition key of that prefix.
const PREFIX: &str = "s3:prefix";

/// Asks IAM about everything that the function does. `function` is its ARN.
pub(super) async fn read(
    iam: &aws_sdk_iam::Client,
    clients: &Clients,
    function: &str,
    setup: &Setup,
) -> Told<Vec<Grant>> {
    let function = function.parse::<Arn>().ok();
    let partition = function.as_ref().map_or("aws", |it| it.partition());
    let account = function.as_ref().map_or("", |it| it.account());
    let mut needs = own(setup);
    needs.extend(places(clients, partition, setup).await);
    needs.extend(endpoints(clients, account, setup).await);
    needs.extend(setup.queues.iter().chain(&setup.requeue).filter_map(key));
    let mut grants = Vec::new();
    for need in needs {
        let decisions = ask(iam, &setup.function.role, &need).await;
        if let Err(untold) = &decisions
            && untold.is_denied()
        {
            // Nothing else will be told either.
            return Err(untold.clone());
        }
        let of = need.resource.split(':').nth(4).unwrap_or_default();
        for action in need.actions {
            let decision = match &decisions {
                Ok(decisions) => {
                    decisions.iter().find(|(name, _)| name == action).map(|(_, it)| it.clone()).ok_or_else(
                        || Untold {
                            call: "iam:SimulatePrincipalPolicy",
                            why: "no answer about it".to_owned(),
                        },
                    )
                }
                Err(untold) => Err(untold.clone()),
            };
            grants.push(Grant {
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

/// The key of a queue, where it has one of its own. An alias stands for a key that only KMS knows.
fn key(queue: &Queue) -> Option<Need> {
    let key = queue.attribute("KmsMasterKeyId").filter(|key| !key.contains("alias/"))?;
    let arn = &queue.arn;
    let resource = if key.starts_with("arn:") {
        key.to_owned()
    } else {
        format!("arn:{}:kms:{}:{}:key/{key}", arn.partition(), arn.region(), arn.account())
    };
    Some(Need {
        resource,
        actions: &["kms:GenerateDataKey", "kms:Decrypt"],
        for_what: format!("for the queue {}", arn.resource()),
        own_policy: Some(Err(Untold { call: "kms:GetKeyPolicy", why: "it is not asked".to_owned() })),
        prefix: None,
    })
}

/// The queues of the function.
fn own(setup: &Setup) -> Vec<Need> {
    const DRAIN: &[&str] =
        &["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"];
    const FILL: &[&str] = &[
        "sqs:SendMessage",
        "sqs:ReceiveMessage",
        "sqs:DeleteMessage",
        "sqs:GetQueueAttributes",
        "sqs:ChangeMessageVisibility",
    ];
    let need = |queue: &Queue, actions, for_what: &str| Need {
        resource: queue.arn.to_string(),
        actions,
        for_what: for_what.to_owned(),
        own_policy: Some(queue.attributes.clone().map(|mut it| it.remove("Policy"))),
        prefix: None,
    };
    let queues = setup.queues.iter().map(|queue| need(queue, DRAIN, "to drain the dead-letter queue"));
    let requeue = setup.requeue.iter().map(|queue| need(queue, FILL, "to put letters back"));
    let asked = Need {
        resource: "*".to_owned(),
        actions: &["sns:GetSubscriptionAttributes"],
        for_what: "to ask where a letter goes".to_owned(),
        own_policy: None,
        prefix: None,
    };
    queues.chain(requeue).chain([asked]).collect()
}

/// The archive and the control prefix.
async fn places(clients: &Clients, partition: &str, setup: &Setup) -> Vec<Need> {
    let Some(settings) = setup.function.settings() else { return Vec::new() };
    let mut needs = Vec::new();
    let mut add = |bucket: &str, key: String, actions, for_what: &str, own_policy| {
        let resource = format!("arn:{partition}:s3:::{bucket}/{key}");
        needs.push(Need { resource, actions, for_what: for_what.to_owned(), own_policy, prefix: None });
    };
    if let ArchiveAt::S3 { bucket, prefix } = &settings.archive {
        let key = if prefix.is_empty() { "queue=".to_owned() } else { format!("{prefix}/queue=") };
        add(bucket, key, &["s3:PutObject"], "to archive letters", Some(policy(clients, bucket).await));
    }
    if let Some(control) = &settings.control {
        let own_policy = Some(policy(clients, &control.bucket).await);
        let key = format!("{}/orders.json", control.prefix);
        add(&control.bucket, key, &["s3:GetObject"], "to hear orders", own_policy.clone());
        if settings.waiting_list {
            let key = format!("{}/waiting/letters", control.prefix);
            add(&control.bucket, key, &["s3:PutObject"], "to list waiting letters", own_policy);
        }
    }
    needs
}

async fn policy(clients: &Clients, bucket: &str) -> Told<Option<String>> {
    match clients.s3.get_bucket_policy().bucket(bucket).send().await {
        Ok(read) => Ok(read.policy),
        Err(error) if error.code() == Some("NoSuchBucketPolicy") => Ok(None),
        Err(error) => Err(untold("s3:GetBucketPolicy", &error)),
    }
}

/// The endpoints of the subscriptions that name the queues. Web servers ask for no permission.
async fn endpoints(clients: &Clients, account: &str, setup: &Setup) -> Vec<Need> {
    let subscriptions = setup.subscriptions.iter().flat_map(|it| &it.all);
    let own = |it: &&crate::doctor::setup::Subscription| {
        setup.queues.iter().any(|queue| it.dead_letters.as_deref() == Some(queue.arn.as_str()))
    };
    let endpoints: BTreeSet<&str> = subscriptions.filter(own).map(|it| it.endpoint.as_str()).collect();
    let mut needs = Vec::new();
    for arn in endpoints.into_iter().filter_map(|endpoint| endpoint.parse::<Arn>().ok()) {
        let actions: &[&str] = match arn.kind() {
            ArnKind::Queue => &["sqs:SendMessage"],
            ArnKind::Function => &["lambda:InvokeFunction"],
            ArnKind::Stream => &["firehose:PutRecordBatch"],
            _ => continue,
        };
        let own_policy = if arn.kind() == ArnKind::Queue && arn.account() == account {
            let queue = queues::read(&clients.sqs, arn.clone(), false).await;
            needs.extend(key(&queue));
            Some(queue.attributes.map(|mut it| it.remove("Policy")))
        } else {
            None
        };
        let for_what = "to redeliver to a subscription".to_owned();
        needs.push(Need { resource: arn.to_string(), actions, for_what, own_policy, prefix: None });
    }
    needs
}

async fn ask(iam: &aws_sdk_iam::Client, role: &str, need: &Need) -> Told<Vec<(String, Decision)>> {
    let actions = need.actions.iter().map(|action| (*action).to_owned()).collect();
    let simulate = iam.simulate_principal_policy().policy_source_arn(role).set_action_names(Some(actions));
    let known = [("aws:SecureTransport", ContextKeyTypeEnum::Boolean, "true")];
    let known = known
        .into_iter()
        .chain(need.prefix.as_deref().map(|prefix| (PREFIX, ContextKeyTypeEnum::String, prefix)));
    let entries = known.map(|(key, kind, value)| {
        ContextEntry::builder().context_key_name(key).context_key_type(kind).context_key_values(value).build()
    });
    let simulate = simulate.set_context_entries(Some(entries.collect()));
    let answer = simulate.resource_arns(&need.resource).send().await;
    let answer = answer.map_err(|error| untold("iam:SimulatePrincipalPolicy", &error))?;
    let results = answer.evaluation_results().iter();
    Ok(results.map(|it| (it.eval_action_name().to_owned(), decision(it))).collect())
}

/// What a result of the simulation comes to. Where a policy looks at something that the simulation was not told, the real call
/// may end otherwise.
fn decision(result: &EvaluationResult) -> Decision {
    let of_resources = result.resource_specific_results().iter();
    let of_resources = of_resources.flat_map(ResourceSpecificResult::missing_context_values);
    let missing = result.missing_context_values().iter().chain(of_resources).map(String::as_str);
    // Only calls that list have a prefix: what looks at it does not hold for any other.
    let lists = result.eval_action_name().starts_with("s3:List");
    let missing: BTreeSet<_> = missing.filter(|key| lists || !key.eq_ignore_ascii_case(PREFIX)).collect();
    if !missing.is_empty() {
        let keys: Vec<_> = missing.into_iter().collect();
        return Decision::Unclear(format!(
            "its policies look at {}, which only the real call has",
            keys.join(", ")
        ));
    }
    match result.eval_decision() {
        PolicyEvaluationDecisionType::Allowed => Decision::Allowed,
        PolicyEvaluationDecisionType::ExplicitDeny => Decision::Denied,
        _ => Decision::NotAllowed,
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
    ) -> Decision {
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
        assert_eq!(decided(put, Allowed, &[], &[]), Decision::Allowed);
        assert_eq!(decided(put, ExplicitDeny, &[], &[]), Decision::Denied);
        assert_eq!(decided(put, ImplicitDeny, &[], &[]), Decision::NotAllowed);
        for decides in [Allowed, ExplicitDeny, ImplicitDeny] {
            let by_vpc = decided(put, decides.clone(), &["aws:SourceVpc"], &[]);
            assert!(matches!(&by_vpc, Decision::Unclear(why) if why.contains("aws:SourceVpc")), "{by_vpc:?}");
            assert_eq!(decided(put, decides, &[], &["aws:SourceVpc"]), by_vpc);
        }
        assert_eq!(decided(put, Allowed, &["s3:prefix"], &[]), Decision::Allowed);
        assert!(matches!(decided("s3:ListBucket", Allowed, &["s3:prefix"], &[]), Decision::Unclear(_)));
    }
}
