//! The function, its mappings and the template of its stack.

use aws_sdk_lambda::types::{
    EventSourceMappingConfiguration, FilterCriteria, FunctionResponseType, ScalingConfig,
};
use redrive_aws::clients::{AwsClients, failure_of_call};
use redrive_replay::DeployedSettings;
use serde_json::Value;

use super::error::read_error;
use crate::console::CommandFailure;
use crate::doctor::setup::{
    DeployedFunction, DeployedMapping, PolicyObject, ReadError, ReadResult, StackRelease,
};

/// The parameter of a released template that names the folder of the function's package.
pub(super) const CODE_PREFIX: &str = "CodePrefix";

/// Reads the function and its ARN.
pub(super) async fn read(
    clients: &AwsClients,
    name: &str,
) -> Result<(DeployedFunction, String), CommandFailure> {
    let lambda = &clients.lambda;
    let read = lambda.get_function_configuration().function_name(name).send().await.map_err(|error| {
        let failure = failure_of_call(&error);
        let is_denied = failure.is_denied();
        let reason = ReadError::of("lambda:GetFunctionConfiguration", failure).reason();
        let why =
            format!("cannot read the function {name}: lambda:GetFunctionConfiguration failed ({reason})");
        CommandFailure::of_call(why, is_denied)
    })?;
    let recursion = lambda.get_function_recursion_config().function_name(name).send().await;
    let recursion = recursion
        .map(|it| it.recursive_loop().map_or_else(String::new, |it| it.as_str().to_owned()))
        .map_err(|error| read_error("lambda:GetFunctionRecursionConfig", &error));
    let reserved = lambda.get_function_concurrency().function_name(name).send().await;
    let reserved = reserved
        .map(|it| it.reserved_concurrent_executions())
        .map_err(|error| read_error("lambda:GetFunctionConcurrency", &error));
    let (settings, has_policy_file, policy_object) = match DeployedSettings::read(&read) {
        Ok(mut deployed) => {
            let object = policy_object(&mut deployed, &clients.s3).await;
            (Ok(deployed.settings), deployed.has_policy_file, object)
        }
        Err(failure) => (Err(ReadError::of("kms:Decrypt", failure)), false, None),
    };
    let function = DeployedFunction {
        name: read.function_name().unwrap_or(name).to_owned(),
        role: read.role().unwrap_or_default().to_owned(),
        timeout: read.timeout().and_then(|it| it.try_into().ok()).unwrap_or(0),
        memory: read.memory_size().and_then(|it| it.try_into().ok()).unwrap_or(0),
        state: read.state().map_or("unknown", |it| it.as_str()).to_owned(),
        last_update: read.last_update_status().map_or("unknown", |it| it.as_str()).to_owned(),
        quiet_log_level: redrive_replay::quiet_log_level(&read).map(ToString::to_string),
        settings,
        has_policy_file,
        policy_object,
        recursion,
        reserved,
    };
    Ok((function, read.function_arn().unwrap_or_default().to_owned()))
}

/// Reads the policy, if it is in S3.
async fn policy_object(deployed: &mut DeployedSettings, s3: &aws_sdk_s3::Client) -> Option<PolicyObject> {
    let place = deployed.settings.as_ref().ok()?.policy_at.clone()?;
    let read = deployed.read_policy(s3).await;
    Some(PolicyObject { place, read })
}

/// Reads the mappings of the function.
pub(super) async fn mappings(
    lambda: &aws_sdk_lambda::Client,
    name: &str,
) -> ReadResult<Vec<DeployedMapping>> {
    let mut pages = lambda.list_event_source_mappings().function_name(name).into_paginator().items().send();
    let mut mappings = Vec::new();
    while let Some(mapping) = pages.next().await {
        let mapping = mapping.map_err(|error| read_error("lambda:ListEventSourceMappings", &error))?;
        mappings.push(DeployedMapping {
            uuid: mapping.uuid().unwrap_or_default().to_owned(),
            source: mapping.event_source_arn().unwrap_or_default().to_owned(),
            state: mapping.state().unwrap_or("unknown").to_owned(),
            batch: mapping.batch_size().unwrap_or(10),
            window: mapping.maximum_batching_window_in_seconds().unwrap_or(0),
            is_partial: mapping
                .function_response_types()
                .contains(&FunctionResponseType::ReportBatchItemFailures),
            filters: filters(lambda, &mapping).await,
            concurrency: mapping.scaling_config().and_then(ScalingConfig::maximum_concurrency),
            is_provisioned: mapping.provisioned_poller_config().is_some(),
        });
    }
    Ok(mappings)
}

/// Counts the filters of a mapping. Lists of mappings omit filters that are encrypted with a key.
/// <https://docs.aws.amazon.com/lambda/latest/api/API_EventSourceMappingConfiguration.html>
async fn filters(
    lambda: &aws_sdk_lambda::Client,
    listed: &EventSourceMappingConfiguration,
) -> ReadResult<usize> {
    let number = |criteria: Option<&FilterCriteria>| criteria.map_or(0, |it| it.filters().len());
    if listed.kms_key_arn().is_none() || listed.filter_criteria().is_some() {
        return Ok(number(listed.filter_criteria()));
    }
    let read = lambda.get_event_source_mapping().uuid(listed.uuid().unwrap_or_default()).send().await;
    let read = read.map_err(|error| read_error("lambda:GetEventSourceMapping", &error))?;
    match read.filter_criteria_error() {
        Some(error) => {
            let said = error.message().map(str::to_owned);
            Err(ReadError { said, ..ReadError::new("kms:Decrypt", error.error_code().unwrap_or("unknown")) })
        }
        None => Ok(number(read.filter_criteria())),
    }
}

/// Reads the release of a stack's template, and the folder of its code if the stack names another one than
/// the template. A deployment that omits the parameter keeps the previous folder.
/// <https://docs.aws.amazon.com/cli/latest/reference/cloudformation/deploy/>
pub(super) async fn release(
    formation: &aws_sdk_cloudformation::Client,
    stack: &str,
    code_prefix: Option<String>,
) -> ReadResult<StackRelease> {
    let read = formation.get_template_summary().stack_name(stack).send().await;
    let read = read.map_err(|error| read_error("cloudformation:GetTemplateSummary", &error))?;
    let metadata: Value = serde_json::from_str(read.metadata().unwrap_or_default()).unwrap_or_default();
    let version = &metadata["AWS::ServerlessRepo::Application"]["SemanticVersion"];
    let declared = read.parameters().iter().find(|it| it.parameter_key() == Some(CODE_PREFIX));
    let default = declared.and_then(|it| it.default_value());
    Ok(StackRelease {
        template: version.as_str().map(str::to_owned),
        code_prefix: code_prefix.filter(|given| Some(given.as_str()) != default),
    })
}
