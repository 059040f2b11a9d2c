//! The text and the JSON of `attach`.

use std::path::PathBuf;

use redrive_core::arn::Arn;
use serde_json::{Value, json};

use super::row::{NamedQueue, OVERTAKEN, RowEnd, RowStep, SubscriptionRow};
use super::select::SelectedSubscriptions;
use crate::console::CommandEnd;
use crate::doctor::{ReadError, redrive_policy_command};
use crate::output::CommandResult;
use crate::tables::{TextStyle, count, harmless, table, wrapped};

/// The columns that a note may fill.
const WIDTH: usize = 110;

/// What the command shows, and what it has done.
pub(super) struct AttachResult {
    pub(super) queue: Arn,
    /// True if subscriptions get back what they had.
    pub(super) is_undo: bool,
    pub(super) rows: Vec<SubscriptionRow>,
    unread: Vec<(String, ReadError)>,
    pending: u64,
    /// What is known about the queue, and about the owners of subscriptions.
    pub(super) notes: Vec<String>,
    /// The options with which the AWS CLI reaches the same account.
    pub(super) cli_options: String,
    /// The file that was written.
    pub(super) record: Option<PathBuf>,
    /// The command that takes the changes back.
    pub(super) undo: Option<String>,
    pub(super) is_stopped: bool,
    /// True if the text has the rows, because no preview has shown them.
    pub(super) shows_rows: bool,
}

impl AttachResult {
    pub(super) fn new(
        rows: Vec<SubscriptionRow>,
        selected: &SelectedSubscriptions,
        queue: Arn,
        is_undo: bool,
    ) -> Self {
        Self {
            queue,
            is_undo,
            rows,
            unread: selected.unread.clone(),
            pending: selected.pending,
            notes: Vec::new(),
            cli_options: String::new(),
            record: None,
            undo: None,
            is_stopped: false,
            shows_rows: false,
        }
    }

    pub(super) fn number(&self, is: impl Fn(&SubscriptionRow) -> bool) -> u64 {
        self.rows.iter().filter(|row| is(row)).count() as u64
    }

    /// Returns what the command is about to do.
    pub(super) fn preview(&self) -> String {
        let heading = ["topic", "subscription", "protocol", "endpoint", "dead letters to", "is to be"];
        let rows = self.rows.iter().map(|row| {
            let then = match &row.step {
                RowStep::Keep => "kept".to_owned(),
                RowStep::Change if self.is_undo => match &row.after {
                    Some(before) => format!("given back {before}"),
                    None => "given back none".to_owned(),
                },
                RowStep::Change => "attached".to_owned(),
                RowStep::Leave(_) => "left alone".to_owned(),
            };
            let cells =
                [row.topic_name(), row.id(), &row.protocol, row.endpoint_name(), row.named.text(), &then];
            cells.map(harmless).to_vec()
        });
        let mut text = format!("Dead letters of {}, and the queue {}:\n\n", self.all(), self.queue);
        if !self.rows.is_empty() {
            let rows: Vec<_> = [heading.map(str::to_owned).to_vec()].into_iter().chain(rows).collect();
            text += &(table(&rows, &[]) + "\n");
        }
        text += &self.sum();
        for row in &self.rows {
            if let RowStep::Leave(why) = &row.step {
                text += &(wrapped(&harmless(&format!("left alone: {}: {why}", row.arn)), WIDTH, 2) + "\n");
            }
        }
        text += &self.problems();
        for note in &self.notes {
            text += &(wrapped(&harmless(&format!("note: {note}")), WIDTH, 2) + "\n");
        }
        text + &self.lines()
    }

    fn all(&self) -> String {
        count(self.rows.len() as u64, "subscription")
    }

    /// Returns the number of subscriptions by what they name.
    fn sum(&self) -> String {
        let names = |named: fn(&NamedQueue) -> bool| self.number(|row| named(&row.named));
        let hidden = names(|it| *it == NamedQueue::Hidden);
        let hidden = if hidden == 0 { String::new() } else { format!(", {hidden} cannot be seen") };
        format!(
            "{} without a dead-letter queue, {} with another, {} with this one{hidden}.\n",
            names(|it| *it == NamedQueue::None),
            names(|it| matches!(it, NamedQueue::Other(_))),
            names(|it| *it == NamedQueue::This),
        )
    }

    /// Returns what could not be read.
    fn problems(&self) -> String {
        let mut text = String::new();
        for (arn, error) in &self.unread {
            let line = format!("not read: {arn}: {} failed ({})", error.call, error.reason());
            text += &(wrapped(&harmless(&line), WIDTH, 2) + "\n");
        }
        if self.pending > 0 {
            let pending = count(self.pending, "further subscription");
            text += &(pending + " not confirmed yet: without an ARN nobody can attach them.\n");
        }
        text
    }

    /// Returns the lines for the AWS CLI, `CloudFormation` and Terraform.
    fn lines(&self) -> String {
        if self.is_undo || self.number(|row| row.step == RowStep::Change) == 0 {
            return String::new();
        }
        let queue = json!(self.queue.as_str());
        let mut text = String::from("\nAWS CLI:\n");
        let changed = || self.rows.iter().filter(|row| row.step == RowStep::Change);
        for row in changed() {
            text += &("  ".to_owned() + &self.command(row) + "\n");
        }
        text += "\nCloudFormation, in AWS::SNS::Subscription";
        for row in changed() {
            if let Some(owner) = &row.owner {
                let resource = owner.resource.as_deref().unwrap_or("(not listed)");
                text += &harmless(&format!("; {} is {resource} of the stack {}", row.id(), owner.stack));
            }
        }
        let redrive_policy = format!("  RedrivePolicy: {{ deadLetterTargetArn: {queue} }}\n");
        let terraform = format!("  redrive_policy = jsonencode({{ deadLetterTargetArn = {queue} }})\n");
        [&text, ":\n", &redrive_policy, "\nTerraform, in aws_sns_topic_subscription:\n", &terraform].concat()
    }

    /// Returns the command of the AWS CLI that attaches a subscription.
    fn command(&self, row: &SubscriptionRow) -> String {
        format!("{}{}", redrive_policy_command(&row.arn, row.after.as_deref()), self.cli_options)
    }

    /// Returns what became of the changes.
    fn summary(&self) -> String {
        let done = self.number(|row| row.end == RowEnd::Done);
        let mut text = String::new();
        for row in &self.rows {
            let why = match &row.end {
                RowEnd::Failed(why) => format!("failed: {}: {why}", row.arn),
                RowEnd::Overtaken => format!("left alone: {}: {OVERTAKEN}", row.arn),
                RowEnd::NotDone | RowEnd::Done => continue,
            };
            text += &(wrapped(&harmless(&why), WIDTH, 2) + "\n");
        }
        let what = if self.is_undo { "given back what they had" } else { "attached" };
        let mut numbers = vec![format!("{}: {done} {what}", self.all())];
        for (number, what) in [
            (self.number(|row| row.step == RowStep::Keep), "as they should be already"),
            (self.number(SubscriptionRow::is_left), "left alone"),
            (self.number(SubscriptionRow::has_failed), "failed"),
            (self.not_reached(), "not reached"),
            (self.unread.len() as u64, "not read"),
        ] {
            if number > 0 {
                numbers.push(format!("{number} {what}"));
            }
        }
        text += &(numbers.join(", ") + ".\n");
        if let (Some(record), Some(undo)) = (&self.record, &self.undo) {
            let record = harmless(&record.to_string_lossy());
            let back = format!("What was there before is in {record}. To take it back: {undo}");
            text += &(back + "\n");
        }
        text
    }

    /// Returns the number of changes that were not tried.
    fn not_reached(&self) -> u64 {
        self.number(|row| row.step == RowStep::Change && row.end == RowEnd::NotDone)
    }
}

impl SubscriptionRow {
    fn is_left(&self) -> bool {
        matches!(self.step, RowStep::Leave(_)) || self.end == RowEnd::Overtaken
    }

    fn has_failed(&self) -> bool {
        matches!(self.end, RowEnd::Failed(_))
    }
}

impl CommandResult for AttachResult {
    fn text(&self, _: TextStyle) -> String {
        if self.shows_rows { self.preview() } else { self.summary() }
    }

    fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let mut json = row.json();
            if !self.is_undo && row.step == RowStep::Change {
                json["awsCli"] = self.command(row).into();
            }
            json
        });
        let unread = self.unread.iter().map(
            |(arn, error)| json!({ "subscription": arn, "call": error.call, "denied": error.is_denied() }),
        );
        let queue = self.queue.as_str();
        json!({
            "queue": queue,
            "subscriptions": rows.collect::<Vec<_>>(),
            "cloudFormation": { "RedrivePolicy": { "deadLetterTargetArn": queue } },
            "terraform": format!("redrive_policy = jsonencode({{ deadLetterTargetArn = {} }})", json!(queue)),
            "changed": self.number(|row| row.end == RowEnd::Done),
            "kept": self.number(|row| row.step == RowStep::Keep),
            "leftAlone": self.number(SubscriptionRow::is_left),
            "failed": self.number(SubscriptionRow::has_failed),
            "notReached": if self.shows_rows { 0 } else { self.not_reached() },
            "pending": self.pending,
            "unread": unread.collect::<Vec<_>>(),
            "notes": self.notes,
            "record": self.record.as_ref().map(|file| file.to_string_lossy()),
        })
    }

    fn finished(&self) -> CommandEnd {
        if self.is_stopped {
            return CommandEnd::Stopped;
        }
        let failed = self.number(SubscriptionRow::has_failed) + self.unread.len() as u64;
        match CommandEnd::of(failed) {
            CommandEnd::Whole if self.number(SubscriptionRow::is_left) > 0 => CommandEnd::LeftOut,
            end => end,
        }
    }
}
