//! The operator's tool `redrivectl`, on the process's own [`ToolEnvironment`](redrive_ctl::ToolEnvironment).

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let code = redrive_ctl::run(std::env::args_os(), redrive_ctl::ToolEnvironment::system()).await;
    ExitCode::from(code)
}
