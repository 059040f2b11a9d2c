//! The options of `serve`.

use clap::Args;

use super::connection::ConnectionArgs;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Listen on this port of 127.0.0.1; 0 takes any free port
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
    /// Let the pages act: hold, release, retry, give up, replay, stop, resume
    #[arg(long)]
    pub(crate) operate: bool,
    /// Show bodies and attribute values of letters; with --operate they can also be edited
    #[arg(long)]
    pub(crate) bodies: bool,
    /// Hide the values of attributes with this name; may be repeated
    #[arg(long, value_name = "NAME", requires = "bodies")]
    pub(crate) mask: Vec<String>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}
