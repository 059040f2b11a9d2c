//! The operator's tool. All of it is in [`sns_redrive::ctl`].

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let code = sns_redrive::ctl::run(std::env::args_os(), sns_redrive::ctl::Console::system()).await;
    ExitCode::from(code)
}
