//! The server through which a process calls the account, and through which the account can kill the process.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, OnceLock};

use redrive_sim::{Caller, SimAws, SocketServer};

use crate::ProcessKiller;

/// The door of one process.
#[derive(Debug)]
pub(super) struct ProcessServer {
    /// The process as the account's caller.
    pub(super) caller: Caller,
    /// The handle that ends the process, once it runs.
    pub(super) killer: Arc<OnceLock<ProcessKiller>>,
    /// The server; dropping it closes the connections.
    pub(super) server: SocketServer,
}

impl ProcessServer {
    /// Opens a door for a process of this name.
    pub(super) fn open(aws: &SimAws, name: &str) -> Self {
        let killer = Arc::new(OnceLock::<ProcessKiller>::new());
        let kill = Arc::clone(&killer);
        let caller = Caller::with_killer(name, move || {
            if let Some(killer) = kill.get() {
                killer.kill();
            }
        });
        let server = aws.listen(&caller).expect("a port of loopback is free");
        Self { caller, killer, server }
    }
}

/// Returns the destination of a process's log: a file, to which it is appended, or nothing.
pub(super) fn log_to(path: Option<&Path>) -> Stdio {
    let file = path.and_then(|path| OpenOptions::new().create(true).append(true).open(path).ok());
    file.map_or_else(Stdio::null, Stdio::from)
}
