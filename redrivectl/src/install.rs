//! What belongs to the tool on a machine: completion, manual pages.

use std::io::Write;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::args::Cli;
use crate::console::{Console, Failed, Finished};

/// Writes what completes commands in a shell.
pub(crate) fn completion(shell: Shell, console: &mut Console) -> Result<Finished, Failed> {
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "redrivectl", &mut script);
    console.out.write_all(&script)?;
    Ok(Finished::Whole)
}

/// Writes manual pages into a folder.
pub(crate) fn man(folder: &Path) -> Result<Finished, Failed> {
    let written = clap_mangen::generate_to(Cli::command(), folder);
    written.map_err(|error| Failed::Input(vec![format!("{}: {error}", folder.display())]))?;
    Ok(Finished::Whole)
}
