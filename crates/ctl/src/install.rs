//! The shell completions and manual pages of the tool.

use std::io::Write;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::args::Cli;
use crate::console::{Console, Failed, Finished};

/// Writes the completion script of a shell.
pub(crate) fn completion(shell: Shell, console: &mut Console) -> Result<Finished, Failed> {
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "redrivectl", &mut script);
    console.out.write_all(&script)?;
    Ok(Finished::Whole)
}

/// Writes manual pages into a folder.
pub(crate) fn man(folder: &Path) -> Result<Finished, Failed> {
    let written = clap_mangen::generate_to(Cli::command(), folder);
    written.map_err(|error| {
        Failed::Input(vec![format!("cannot write manual pages into {}: {error}", folder.display())])
    })?;
    Ok(Finished::Whole)
}
