//! The shell completions and manual pages of the tool.

use std::io::Write;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};

use crate::args::Cli;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment};

/// Writes the completion script of a shell.
pub(crate) fn completion(shell: Shell, console: &mut ToolEnvironment) -> Result<CommandEnd, CommandFailure> {
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "redrivectl", &mut script);
    console.out.write_all(&script)?;
    Ok(CommandEnd::Whole)
}

/// Writes manual pages into a folder.
pub(crate) fn man(folder: &Path) -> Result<CommandEnd, CommandFailure> {
    let written = clap_mangen::generate_to(with_examples(Cli::command()), folder);
    written.map_err(|error| {
        CommandFailure::Input(vec![format!("cannot write manual pages into {}: {error}", folder.display())])
    })?;
    Ok(CommandEnd::Whole)
}

/// Moves the examples of each command to its end. Manual pages have no place for them at the beginning.
fn with_examples(command: Command) -> Command {
    let texts = [command.get_before_help(), command.get_after_help()];
    let texts: Vec<_> = texts.into_iter().flatten().map(ToString::to_string).collect();
    command.after_help(texts.join("\n\n")).mut_subcommands(with_examples)
}
