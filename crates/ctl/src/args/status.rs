//! The options of `status`.

use clap::Args;
use redrive_console::PageRange;

use super::connection::ConnectionArgs;

#[derive(Debug, Default, Args)]
pub(crate) struct StatusArgs {
    /// Count archived and delivered letters of this time: 30m, 3h, 14d [default: 3h]
    #[arg(long, value_name = "TIME", value_parser = range)]
    pub(crate) range: Option<PageRange>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

fn range(text: &str) -> Result<PageRange, String> {
    PageRange::past(text).ok_or_else(|| "must be a time such as 30m, 3h or 14d, at most 366d".to_owned())
}
