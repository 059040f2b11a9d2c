//! The outputs and parameters of a stack of `template.yaml`, which replace options.

use std::collections::BTreeMap;

use aws_sdk_cloudformation::error::ProvideErrorMetadata;

use crate::args;
use crate::aws::Aws;
use crate::console::{Console, Failed};
use sns_redrive::clients::failure_of_call;

/// The variable that names the stack without `--stack`.
const STACK: &str = "REDRIVE_STACK";

/// The stack that a command line names, if any, and the options with which further commands find the same.
#[derive(Debug, Default, Clone)]
pub struct Stack {
    named: Option<Named>,
    further: args::Further,
}

/// A stack as it was read.
#[derive(Debug, Clone)]
struct Named {
    name: String,
    /// Its outputs and parameters, or why they could not be read. The error shows only if they are needed.
    contents: Result<Contents, Unread>,
}

/// The error of reading a stack.
#[derive(Debug, Clone)]
struct Unread {
    why: String,
    /// True if permissions are missing.
    is_denied: bool,
}

/// The outputs and the parameters of a stack.
#[derive(Debug, Clone)]
struct Contents {
    outputs: BTreeMap<String, String>,
    parameters: BTreeMap<String, String>,
}

impl Stack {
    /// Reads the stack of `--stack`, else of the variable `REDRIVE_STACK`.
    pub(crate) async fn read(
        connection: &args::Connection,
        further: args::Further,
        console: &Console,
    ) -> Self {
        let of_variable = || (console.variable)(STACK).filter(|name| !name.is_empty());
        let Some(name) = connection.stack.clone().or_else(of_variable) else {
            return Self { named: None, further };
        };
        let contents = match Aws::connect(connection, console).await {
            Ok(aws) => describe(&aws.formation(), &name).await,
            Err(failed) => Err(Unread { why: failed.to_string(), is_denied: false }),
        };
        Self { named: Some(Named { name, contents }), further }
    }

    /// Returns the options for further commands.
    pub(crate) fn further(&self) -> args::Further {
        self.further.clone()
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.named.as_ref().map(|named| named.name.as_str())
    }

    /// Returns an output; `None` if no stack is named, or if it has no such output.
    ///
    /// # Errors
    ///
    /// The stack cannot be read.
    pub(crate) fn output(&self, output: &str) -> Result<Option<String>, Failed> {
        self.value(|contents| contents.outputs.get(output))
    }

    /// Returns a parameter; `None` if no stack is named, or if it has no such parameter.
    ///
    /// # Errors
    ///
    /// The stack cannot be read.
    pub(crate) fn parameter(&self, parameter: &str) -> Result<Option<String>, Failed> {
        self.value(|contents| contents.parameters.get(parameter))
    }

    fn value(&self, of: impl Fn(&Contents) -> Option<&String>) -> Result<Option<String>, Failed> {
        let Some(Named { contents, .. }) = &self.named else { return Ok(None) };
        let contents = contents.as_ref().map_err(|Unread { why, is_denied }| {
            if *is_denied { Failed::Denied(why.clone()) } else { Failed::Work(why.clone()) }
        })?;
        Ok(of(contents).filter(|value| !value.is_empty()).cloned())
    }

    /// Returns an output that a named stack must have. `instead` is the option to give otherwise.
    ///
    /// # Errors
    ///
    /// The stack cannot be read, or it has no such output.
    pub(crate) fn required(&self, output: &str, instead: &str) -> Result<Option<String>, Failed> {
        let Some(name) = self.name() else { return Ok(None) };
        let missing = || {
            let or = match output {
                "RequeueArn" => ", or was deployed with Requeue=none",
                "ControlLocation" => ", or was deployed with Orders=off",
                _ => "",
            };
            let problem =
                format!("has no output {output}: it is not a stack of template.yaml{or}; give {instead}");
            Failed::Input(vec![format!("the stack {name} {problem}")])
        };
        self.output(output)?.ok_or_else(missing).map(Some)
    }
}

async fn describe(formation: &aws_sdk_cloudformation::Client, name: &str) -> Result<Contents, Unread> {
    let described = formation.describe_stacks().stack_name(name).send().await.map_err(|error| {
        // The message says which stack does not exist.
        let said = error.message().map_or_else(String::new, |message| format!(": {message}"));
        let failure = failure_of_call(&error);
        let code = &failure.code;
        let why =
            format!("cannot read the stack {name}: cloudformation:DescribeStacks failed ({code}){said}");
        Unread { why, is_denied: failure.is_denied() }
    })?;
    let pair = |name: Option<&str>, value: Option<&str>| Some((name?.to_owned(), value?.to_owned()));
    let outputs = described.stacks().iter().flat_map(aws_sdk_cloudformation::types::Stack::outputs);
    let outputs = outputs.filter_map(|it| pair(it.output_key(), it.output_value())).collect();
    let parameters = described.stacks().iter().flat_map(aws_sdk_cloudformation::types::Stack::parameters);
    let parameters = parameters.filter_map(|it| pair(it.parameter_key(), it.parameter_value())).collect();
    Ok(Contents { outputs, parameters })
}
