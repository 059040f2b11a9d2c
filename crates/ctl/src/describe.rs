//! The read of the stack that a command line names.

use aws_sdk_cloudformation::error::ProvideErrorMetadata;
use redrive_aws::clients::failure_of_call;

use crate::args;
use crate::aws::AwsAccess;
use crate::console::ToolEnvironment;
use crate::stack_outputs::{StackContents, StackError, StackOptions};

/// The variable that names the stack without `--stack`.
pub(super) const STACK: &str = "REDRIVE_STACK";

/// Reads the stack of `--stack`, else of the variable `REDRIVE_STACK`.
pub(crate) async fn stack(
    connection: &args::ConnectionArgs,
    further: args::FurtherOptions,
    console: &ToolEnvironment,
) -> StackOptions {
    let of_variable = || (console.variable)(STACK).filter(|name| !name.is_empty());
    let Some(name) = connection.stack.clone().or_else(of_variable) else {
        return StackOptions::new(None, further);
    };
    let contents = match AwsAccess::connect(connection, console).await {
        Ok(aws) => describe(&aws.formation(), &name).await,
        Err(failed) => Err(StackError { why: failed.to_string(), is_denied: false }),
    };
    StackOptions::new(Some((name, contents)), further)
}

async fn describe(
    formation: &aws_sdk_cloudformation::Client,
    name: &str,
) -> Result<StackContents, StackError> {
    let described = formation.describe_stacks().stack_name(name).send().await.map_err(|error| {
        // The message says which stack does not exist.
        let said = error.message().map_or_else(String::new, |message| format!(": {message}"));
        let failure = failure_of_call(&error);
        let code = &failure.code;
        let why =
            format!("cannot read the stack {name}: cloudformation:DescribeStacks failed ({code}){said}");
        StackError { why, is_denied: failure.is_denied() }
    })?;
    let pair = |name: Option<&str>, value: Option<&str>| Some((name?.to_owned(), value?.to_owned()));
    let outputs = described.stacks().iter().flat_map(aws_sdk_cloudformation::types::Stack::outputs);
    let outputs = outputs.filter_map(|it| pair(it.output_key(), it.output_value())).collect();
    let parameters = described.stacks().iter().flat_map(aws_sdk_cloudformation::types::Stack::parameters);
    let parameters = parameters.filter_map(|it| pair(it.parameter_key(), it.parameter_value())).collect();
    Ok(StackContents { outputs, parameters })
}
