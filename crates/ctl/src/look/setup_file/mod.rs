//! `look --init`: a file of parameters for a first deployment, by what was seen.
//!
//! | file | subject |
//! |---|---|
//! | `seen_setup` | the subscriptions, keys and settings around the queue |
//! | `parameters` | the parameters of `template.yaml` for them |
//! | `formats` | the file, for SAM or CloudFormation |

mod formats;
mod parameters;
mod seen_setup;

use std::io::Write;

use serde_json::{Value, json};

use redrive_core::policy::Policy;

use crate::args::{self, SetupFormat};
use crate::aws::AwsAccess;
use crate::console::{CommandFailure, ToolEnvironment};
use crate::tables::{command_line, harmless};
use parameters::SetupParameters;
pub(super) use seen_setup::SeenSetup;

use super::letter_groups::LetterGroup;
use super::looked_queue::LookedQueue;

/// The parameters that only a person knows, each with the question for it.
const QUESTIONS: [(&str, &str); 4] = [
    ("AlarmTopicArn", "the SNS topic that alarms go to; without one they call nobody"),
    ("PageTopicArn", "the SNS topic that pages somebody if letters are in danger"),
    ("NoticeTopicArn", "the SNS topic that hears of archived letters and of endpoints that are down"),
    ("RequeueSenderArns", "the IAM roles that may replay archived letters, separated by commas"),
];

/// A file of parameters that was written.
pub(super) struct SetupFile {
    path: String,
    parameters: SetupParameters,
    /// The commands to type next, each with its purpose.
    next: Vec<(&'static str, String)>,
    /// True if a call was denied, or failed.
    is_unseen: bool,
}

/// The answers of a person, in the order of [`QUESTIONS`].
pub(super) struct SetupAnswers(Vec<String>);

impl SetupAnswers {
    /// Asks what only a person knows. Without a file of parameters, and with `--yes`, nobody is asked.
    pub(super) fn ask(args: &args::LookArgs, console: &mut ToolEnvironment) -> Result<Self, CommandFailure> {
        let ask = |(name, question): &(&str, &str)| match (&args.init, args.yes) {
            (Some(_), false) => console.answer_as_typed(&format!("{question} ({name}; Enter for none): ")),
            _ => Ok(String::new()),
        };
        Ok(Self(QUESTIONS.iter().map(ask).collect::<Result<_, _>>()?))
    }
}

impl SetupFile {
    /// Reads what a deployment needs, and writes the file.
    ///
    /// # Errors
    ///
    /// The file exists, or cannot be written.
    pub(super) async fn write(
        args: &args::LookArgs,
        aws: &AwsAccess,
        looked: &LookedQueue,
        groups: &[LetterGroup],
        policy: Option<(&Policy, &str)>,
        answers: &SetupAnswers,
        console: &mut ToolEnvironment,
    ) -> Result<Option<Self>, CommandFailure> {
        let Some(path) = &args.init else { return Ok(None) };
        let seen = SeenSetup::read(aws, &looked.queue, groups, console).await;
        let mut parameters =
            SetupParameters::of(&seen, policy.map(|(policy, json)| (policy, minified(json))));
        for ((name, question), answer) in QUESTIONS.into_iter().zip(&answers.0) {
            parameters.decide(name, question, answer, &looked.queue.arn);
        }
        let path = path.display().to_string();
        let text = match args.format {
            SetupFormat::Sam => formats::sam(&parameters, &looked.queue.arn, &aws.region()),
            SetupFormat::Cloudformation => formats::cloudformation(&parameters),
        };
        write_new(&path, &text)?;
        let next = next(args, &path, &seen);
        Ok(Some(Self { path, parameters, next, is_unseen: !seen.unseen.is_empty() }))
    }

    /// Reports whether parameters may be missing, because a call was denied or failed.
    pub(super) fn is_unseen(&self) -> bool {
        self.is_unseen
    }

    pub(super) fn text(&self) -> String {
        let notes = self.parameters.notes.iter().map(|note| format!("note: {}\n", harmless(note)));
        let next = self
            .next
            .iter()
            .enumerate()
            .map(|(index, (what, command))| format!("{}. {what}\n   {}\n", index + 1, harmless(command)));
        format!(
            "\nWrote {}. Read it, then:\n{}{}",
            harmless(&self.path),
            next.collect::<String>(),
            notes.collect::<String>()
        )
    }

    pub(super) fn json(&self) -> Value {
        let next = self.next.iter().map(|(what, command)| json!({ "what": what, "command": command }));
        json!({ "file": self.path, "notes": self.parameters.notes, "next": next.collect::<Vec<_>>() })
    }
}

/// Returns a JSON text without needless spaces, since the template's parameter is short.
fn minified(json: &str) -> String {
    serde_json::from_str::<Value>(json).map_or_else(|_| json.to_owned(), |value| value.to_string())
}

/// Writes a file that does not exist: it may have been edited.
fn write_new(path: &str, text: &str) -> Result<(), CommandFailure> {
    let file = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| CommandFailure::Work(format!("cannot write {}: {error}", harmless(path))))
}

/// Returns the commands to type next.
fn next(args: &args::LookArgs, path: &str, seen: &SeenSetup) -> Vec<(&'static str, String)> {
    let options = args.connection.of_aws_cli();
    let mut next = Vec::new();
    if let Some(seconds) = seen.raise_visibility {
        let attribute = format!("VisibilityTimeout={seconds}");
        let url = seen.queue.arn.queue_url();
        let words = ["aws", "sqs", "set-queue-attributes", "--queue-url", &url, "--attributes", &attribute];
        next.push((
            "Raise the queue's visibility timeout to six times the function's timeout",
            command_line(words) + &options,
        ));
    }
    let deploy = match args.format {
        SetupFormat::Sam => {
            // SAM has no option for an endpoint.
            let options = args.connection.of_sam();
            format!("{}{options}", command_line(["sam", "deploy", "--config-file", path]))
        }
        SetupFormat::Cloudformation => format!(
            "aws cloudformation deploy --stack-name sns-redrive --template-file template.yaml --s3-bucket BUCKET --capabilities \
             CAPABILITY_NAMED_IAM CAPABILITY_AUTO_EXPAND --parameter-overrides {}{options}",
            command_line([format!("file://{path}")])
        ),
    };
    let first = match args.format {
        SetupFormat::Sam => format!("sam build && {deploy}"),
        SetupFormat::Cloudformation => deploy.clone(),
    };
    next.push(("Deploy in observe mode: nothing is sent yet", first));
    next.push((
        "Read the log; then set RedriveMode=active, and ScheduleFrom to about ten minutes from now, in the file, and deploy again",
        deploy,
    ));
    if seen.queue.arn.is_fifo() {
        // SNS keeps a message's deduplication id, so the second letter would be lost.
        return next;
    }
    for (topic, subscriptions) in &seen.unattached {
        let words = ["redrivectl", "attach", "--queue", seen.queue.arn.as_str(), "--topic", topic];
        let what = if *subscriptions == 1 {
            "Attach another subscription of a topic: what SNS gives up on for it is lost now"
        } else {
            "Attach other subscriptions of a topic: what SNS gives up on for them is lost now"
        };
        next.push((what, command_line(words) + &options));
    }
    next
}
