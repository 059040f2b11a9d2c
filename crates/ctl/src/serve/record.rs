//! The record of a letter that is to be sent again.

use redrive_console::PageAction;
use redrive_console::read::ContentMask;
use serde_json::Value;

use super::action::ServeAction;
use crate::archive;
use crate::args::{self, ArchiveCommand, CliCommand};
use crate::command_tool::{CommandOutput, CommandRunner};
use crate::console::CommandFailure;
use crate::output::CommandResult;

/// Reads the record of a letter, as the archive has it.
///
/// # Errors
///
/// There is none, or it cannot be read.
pub(super) async fn record(act: &PageAction, tool: &CommandRunner) -> Result<String, CommandFailure> {
    let CliCommand::Archive(args) = ServeAction::parsed(act.words())? else { return Err(no_such_letter()) };
    let ArchiveCommand::Show(args) = args.command else { return Err(no_such_letter()) };
    let err = CommandOutput::bounded();
    let mut console = tool.console("", &CommandOutput::default(), &err);
    let (letters, unread) = archive::letters(&args, &mut console).await?;
    if unread > 0 {
        let why = format!("a part of the archive could not be read: {}", err.text().trim());
        return Err(CommandFailure::Work(why));
    }
    let records: Result<Vec<_>, _> = letters.iter().map(archive::shown).collect();
    one(records?)
}

/// Returns the record of the letter with an id. If the letter was archived twice, this is the last record. A stranger's letter
/// can repeat the id, so records of several letters are an error.
fn one(mut records: Vec<Value>) -> Result<String, CommandFailure> {
    let last = records.pop().ok_or_else(no_such_letter)?;
    let letter = |record: &Value| (record["queueArn"].clone(), record["message"]["messageId"].clone());
    if records.iter().any(|record| letter(record) != letter(&last)) {
        let why = "several letters have this id: open one by the id of its SQS message, as its page shows it";
        return Err(CommandFailure::Work(why.to_owned()));
    }
    Ok(last.to_string())
}

fn no_such_letter() -> CommandFailure {
    CommandFailure::Work("the archive has no such letter".to_owned())
}

/// Returns what was edited, as `archive diff` shows it.
pub(super) async fn difference(
    record: &str,
    mask: ContentMask<'_>,
    tool: &CommandRunner,
) -> Result<String, CommandFailure> {
    let masked = mask.names().iter().cloned().chain(["UnsubscribeURL".to_owned()]);
    let (mask, connection) = (masked.collect(), tool.connection());
    let args = args::ArchiveDiff { file: "-".into(), mask, connection, ..Default::default() };
    let mut console = tool.console(record, &CommandOutput::default(), &CommandOutput::bounded());
    Ok(archive::compare(&args, &mut console).await?.text(console.style))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_that_several_letters_have_names_none_of_them() {
        let record = |queue: &str, id: &str, end: u8| json!({ "queueArn": queue, "message": { "messageId": id }, "line": end });
        let (first, last) = (record("q", "m", 1), record("q", "m", 2));
        assert_eq!(one(vec![first, last.clone()]).unwrap(), last.to_string(), "archived twice");
        for other in [record("other", "m", 1), record("q", "other", 1)] {
            for records in [vec![other.clone(), last.clone()], vec![last.clone(), other, last.clone()]] {
                let refused = one(records.clone()).unwrap_err().to_string();
                assert!(refused.starts_with("several letters"), "{records:?}");
            }
        }
        assert!(one(Vec::new()).unwrap_err().to_string().contains("no such letter"));
    }
}
