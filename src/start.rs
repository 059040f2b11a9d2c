//! What both functions begin with.

use crate::clients::{self, Clients};
use crate::settings::{BadSettings, Settings};
use crate::telemetry;

/// Reads the process's environment, and makes the clients; the log begins here.
///
/// # Errors
///
/// Every setting that is wrong, which is logged.
pub fn start() -> Result<(Settings, Clients), BadSettings> {
    let variable = |name: &str| std::env::var(name).ok();
    telemetry::init(variable);
    let read = BadSettings::join(Settings::read(variable), Clients::from_environment(variable));
    let read = read.inspect_err(telemetry::bad_settings)?;
    let _ = clients::prepare().inspect_err(telemetry::no_root_certificates);
    Ok(read)
}
