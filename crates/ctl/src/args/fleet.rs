//! The options of the command that looks at many stacks.

use std::path::PathBuf;

use clap::Args;

use super::values::settle;

#[derive(Debug, Default, Args)]
pub(crate) struct FleetArgs {
    /// Look at this stack of each account and region; may be repeated [default: every stack of template.yaml]
    #[arg(long, value_name = "NAME", help_heading = "Which stacks")]
    pub(crate) stack: Vec<String>,
    /// Look into the account of this profile of the AWS configuration files; may be repeated
    #[arg(long, value_name = "NAME", help_heading = "Which stacks")]
    pub(crate) profile: Vec<String>,
    /// Look into an account by this role, which the tool assumes; may be repeated
    #[arg(long, value_name = "ARN", help_heading = "Which stacks")]
    pub(crate) role: Vec<String>,
    /// Look into this region of each account; may be repeated [default: the profile's, or your own]
    #[arg(long, value_name = "REGION", help_heading = "Which stacks")]
    pub(crate) region: Vec<String>,
    /// File of accounts, JSON: {"accounts": [{"role": ARN, "regions": [REGION], "stacks": [NAME]}, {"profile": NAME}]}; - for
    /// standard input
    #[arg(long, value_name = "FILE", help_heading = "Which stacks")]
    pub(crate) file: Option<PathBuf>,
    /// Give up on a region of an account after this time: 1s to 1h
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = settle)]
    pub(crate) deadline: u32,
    /// Call this endpoint instead of AWS; bucket names then are part of the path
    #[arg(long, value_name = "URL", help_heading = "AWS")]
    pub(crate) endpoint_url: Option<String>,
}
