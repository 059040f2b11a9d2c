//! The start of all functions: settings, clients and the log.

use crate::clients::{self, AwsClients};
use crate::log;
use crate::settings::{BadSettings, Settings};

/// Installs the log, reads the process's environment and creates the clients.
///
/// # Errors
///
/// All wrong settings, which are also logged.
pub fn start() -> Result<(Settings, AwsClients), BadSettings> {
    start_by(|variable| BadSettings::join(Settings::read(variable), AwsClients::from_environment(variable)))
}

/// Does the same for a function with its own settings. `read` gets the process's environment.
///
/// # Errors
///
/// Those of `read`, which are also logged.
pub fn start_by<T>(
    read: impl FnOnce(&dyn Fn(&str) -> Option<String>) -> Result<T, BadSettings>,
) -> Result<T, BadSettings> {
    let variable = |name: &str| std::env::var(name).ok();
    log::init(variable);
    let read = read(&variable).inspect_err(log::bad_settings)?;
    let _ = clients::prepare().inspect_err(log::no_root_certificates);
    Ok(read)
}
