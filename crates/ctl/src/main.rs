//! The operator's tool `redrivectl`, on the process's own [`Console`](redrive_ctl::Console).

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let code = redrive_ctl::run(std::env::args_os(), redrive_ctl::Console::system()).await;
    ExitCode::from(code)
}
