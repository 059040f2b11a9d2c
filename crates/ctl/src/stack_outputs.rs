//! The outputs and parameters of a stack of `template.yaml`, which replace options.

use std::collections::BTreeMap;

use crate::args;
use crate::command_failure::CommandFailure;

/// The stack that a command line names, if any, and the options that find it again.
#[derive(Debug, Default, Clone)]
pub struct StackOptions {
    named: Option<NamedStack>,
    further: args::FurtherOptions,
}

/// A stack as it was read.
#[derive(Debug, Clone)]
struct NamedStack {
    name: String,
    /// Its outputs and parameters, or the error of reading them. The error is reported only if they are
    /// needed.
    contents: Result<StackContents, StackError>,
}

/// The error of reading a stack.
#[derive(Debug, Clone)]
pub(crate) struct StackError {
    pub why: String,
    /// True if permissions are missing.
    pub is_denied: bool,
}

/// The outputs and the parameters of a stack.
#[derive(Debug, Clone)]
pub(crate) struct StackContents {
    pub outputs: BTreeMap<String, String>,
    pub parameters: BTreeMap<String, String>,
}

impl StackOptions {
    /// Returns the stack with this name, or no stack without a name.
    pub(crate) fn new(
        name: Option<(String, Result<StackContents, StackError>)>,
        further: args::FurtherOptions,
    ) -> Self {
        let named = name.map(|(name, contents)| NamedStack { name, contents });
        Self { named, further }
    }

    /// Returns the options for further commands.
    pub(crate) fn further(&self) -> args::FurtherOptions {
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
    pub(crate) fn output(&self, output: &str) -> Result<Option<String>, CommandFailure> {
        self.value(|contents| contents.outputs.get(output))
    }

    /// Returns a parameter; `None` if no stack is named, or if it has no such parameter.
    ///
    /// # Errors
    ///
    /// The stack cannot be read.
    pub(crate) fn parameter(&self, parameter: &str) -> Result<Option<String>, CommandFailure> {
        self.value(|contents| contents.parameters.get(parameter))
    }

    /// Returns a parameter that may be empty; `None` if no stack is named, or if it has no such parameter: the CDK can fill one in
    /// and leave it out.
    ///
    /// # Errors
    ///
    /// The stack cannot be read.
    pub(crate) fn list(&self, parameter: &str) -> Result<Option<Vec<String>>, CommandFailure> {
        // An empty one counts as missing elsewhere.
        let value = self.parameter(parameter)?.unwrap_or_default();
        let contents = self.named.as_ref().and_then(|named| named.contents.as_ref().ok());
        let is_there = contents.is_some_and(|contents| contents.parameters.contains_key(parameter));
        let items = value.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty());
        Ok(is_there.then(|| items.collect()))
    }

    fn value(
        &self,
        of: impl Fn(&StackContents) -> Option<&String>,
    ) -> Result<Option<String>, CommandFailure> {
        let Some(NamedStack { contents, .. }) = &self.named else { return Ok(None) };
        let contents = contents
            .as_ref()
            .map_err(|StackError { why, is_denied }| CommandFailure::of_call(why.clone(), *is_denied))?;
        Ok(of(contents).filter(|value| !value.is_empty()).cloned())
    }

    /// Returns an output that the named stack must have. The error names `instead`, the option for the same
    /// value.
    ///
    /// # Errors
    ///
    /// The stack cannot be read, or it has no such output.
    pub(crate) fn required(&self, output: &str, instead: &str) -> Result<Option<String>, CommandFailure> {
        let Some(name) = self.name() else { return Ok(None) };
        let missing = || {
            let or = match output {
                "RequeueArn" => ", or was deployed with Requeue=off",
                "ControlLocation" => ", or was deployed with Overrides=off",
                _ => "",
            };
            let problem =
                format!("has no output {output}: it is not a stack of template.yaml{or}; give {instead}");
            CommandFailure::Input(vec![format!("the stack {name} {problem}")])
        };
        self.output(output)?.ok_or_else(missing).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CDK fills a parameter in and leaves it out: nobody knows what it was.
    #[test]
    fn a_list_that_is_empty_is_not_one_that_is_not_there() {
        let named = |parameters: &[(&str, &str)]| {
            let parameters =
                parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let contents = StackContents { outputs: BTreeMap::new(), parameters };
            StackOptions::new(Some(("payments".to_owned(), Ok(contents))), args::FurtherOptions::default())
        };
        let list = |parameters: &[(&str, &str)]| named(parameters).list("TargetQueueArns").unwrap();
        assert_eq!(list(&[]), None);
        assert_eq!(list(&[("TargetQueueArns", "")]), Some(Vec::new()));
        assert_eq!(list(&[("TargetQueueArns", "a, b")]), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(StackOptions::default().list("TargetQueueArns").unwrap(), None);
    }
}
