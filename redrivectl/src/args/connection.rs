//! The options about the connection to AWS.

use clap::Args;

use crate::text::quoted;

#[derive(Debug, Args)]
#[command(next_help_heading = "AWS")]
pub(crate) struct Connection {
    /// Take what is not given from the outputs of this stack of template.yaml; without it of the variable REDRIVE_STACK
    #[arg(long, value_name = "NAME")]
    pub(crate) stack: Option<String>,
    /// Use this endpoint in the place of AWS's own; buckets are then a part of the path
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
    /// The options that reach the same account and region by the AWS CLI, with a space before each.
    pub(crate) fn of_aws_cli(&self) -> String {
        let given = [
            ("--endpoint-url", &self.endpoint_url),
            ("--profile", &self.profile),
            ("--region", &self.region),
        ];
        let given = given.into_iter().filter_map(|(option, value)| Some((option, value.as_ref()?)));
        given.fold(String::new(), |options, (option, value)| format!("{options} {option} {}", quoted(value)))
    }
}
