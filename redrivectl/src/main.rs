//! The operator's tool `redrivectl`, on the process's own [`Console`](redrivectl::Console).

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let code = redrivectl::run(std::env::args_os(), redrivectl::Console::system()).await;
    ExitCode::from(code)
}
