//! The options of `serve`.

use clap::Args;

use super::connection::Connection;

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Listen on this port of 127.0.0.1; 0 is any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
    /// Let pages act: hold, release, retry, archive, replay, stop, resume
    #[arg(long)]
    pub(crate) operate: bool,
    /// Show what letters say: bodies and the values of attributes. With --operate also edit them
    #[arg(long)]
    pub(crate) bodies: bool,
    /// Show no value of attributes of this name; may be repeated
    #[arg(long, value_name = "NAME", requires = "bodies")]
    pub(crate) mask: Vec<String>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}
