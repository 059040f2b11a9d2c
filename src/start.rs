//! What all functions begin with.

use crate::clients::{self, Clients};
use crate::settings::{BadSettings, Settings};
use crate::telemetry;

/// Reads the process's environment, and makes the clients; the log begins here.
///
/// # Errors
///
/// Every setting that is wrong, which is logged.
pub fn start() -> Result<(Settings, Clients), BadSettings> {
    start_by(|variable| BadSettings::join(Settings::read(variable), Clients::from_environment(variable)))
}

/// The same for a function with settings of its own: `read` is given the process's environment.
///
/// # Errors
///
/// Those of `read`, which are logged.
pub fn start_by<T>(
    read: impl FnOnce(&dyn Fn(&str) -> Option<String>) -> Result<T, BadSettings>,
) -> Result<T, BadSettings> {
    let variable = |name: &str| std::env::var(name).ok();
    telemetry::init(variable);
    let read = read(&variable).inspect_err(telemetry::bad_settings)?;
    let _ = clients::prepare().inspect_err(telemetry::no_root_certificates);
    Ok(read)
}
