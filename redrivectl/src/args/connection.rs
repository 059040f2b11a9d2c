//! The options about the connection to AWS.

use clap::Args;

use crate::text::{harmless, word};

#[derive(Debug, Args)]
#[command(next_help_heading = "AWS")]
pub(crate) struct Connection {
    /// Take the places that no option gives from the outputs of this stack of template.yaml [default: the variable
    /// REDRIVE_STACK]
    #[arg(long, value_name = "NAME")]
    pub(crate) stack: Option<String>,
    /// Call this endpoint instead of AWS; bucket names then are part of the path
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint_url: Option<String>,
    /// Use this profile of the AWS configuration files
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Use this region
    #[arg(long, value_name = "REGION")]
    pub(crate) region: Option<String>,
}

impl Connection {
    /// Returns the options with which the AWS CLI reaches the same account and region, each after a space.
    pub(crate) fn of_aws_cli(&self) -> String {
        options([
            ("--endpoint-url", &self.endpoint_url),
            ("--profile", &self.profile),
            ("--region", &self.region),
        ])
    }
}

/// The options with which another command of this tool finds the same stack and places.
#[derive(Debug, Default, Clone)]
pub(crate) struct Further {
    /// The options for all commands, each after a space.
    options: String,
    /// The option that only `replay` has.
    requeue: String,
}

impl Further {
    pub(crate) fn new(
        connection: &Connection,
        control: Option<&String>,
        archive: Option<&String>,
        requeue: Option<&String>,
    ) -> Self {
        let stack = options([("--stack", &connection.stack)]);
        let places = options([("--control", &control.cloned()), ("--archive", &archive.cloned())]);
        let options_of_all = format!("{stack}{places}{}", connection.of_aws_cli());
        Self { options: options_of_all, requeue: options([("--requeue", &requeue.cloned())]) }
    }

    /// Adds the control prefix, which this command found by itself.
    #[must_use]
    pub(crate) fn at(mut self, control: String) -> Self {
        self.options += &options([("--control", &Some(control))]);
        self
    }

    /// Returns a command of this tool that calls AWS, as a line that can be pasted.
    pub(crate) fn command(&self, words: &str) -> String {
        let requeue = if words.starts_with("replay ") { self.requeue.as_str() } else { "" };
        harmless(&format!("redrivectl {words}{}{requeue}", self.options))
    }
}

/// The options that were given, with a space before each.
fn options<const N: usize>(all: [(&str, &Option<String>); N]) -> String {
    let given = all.into_iter().filter_map(|(option, value)| Some((option, value.as_ref()?)));
    given.fold(String::new(), |options, (option, value)| format!("{options} {option} {}", word(value)))
}
