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
        policy: Option<String>,
        answers: &SetupAnswers,
        console: &mut ToolEnvironment,
    ) -> Result<Option<Self>, CommandFailure> {
        let Some(path) = &args.init else { return Ok(None) };
        let seen = SeenSetup::read(aws, &looked.queue, groups, console).await;
        let mut parameters = SetupParameters::of(&seen, policy.as_deref().map(minified));
        for ((name, question), answer) in QUESTIONS.into_iter().zip(&answers.0) {
            parameters.decide(name, question, answer);
        }
        let path = path.display().to_string();
        let text = match args.format {
            SetupFormat::Sam => formats::sam(&parameters, &looked.queue.arn, &aws.region()),
            SetupFormat::Cloudformation => formats::cloudformation(&parameters),
        };
        write_new(&path, &text)?;
        let next = next(args, &path, &seen);
        Ok(Some(Self { path, parameters, next }))
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
    let active = "RedriveMode=active \"ScheduleFrom=$(date -u +%Y-%m-%dT%H:%M:%SZ)\"";
    match args.format {
        SetupFormat::Sam => {
            let deploy = command_line(["sam", "deploy", "--config-file", path]);
            next.push((
                "Deploy in observe mode: nothing is sent yet",
                format!("sam build && {deploy}{options}"),
            ));
            next.push((
                "Read the log; then let it work, with schedules that begin now for the backlog",
                format!("{deploy} --parameter-overrides {active}{options}"),
            ));
        }
        SetupFormat::Cloudformation => {
            let deploy = |parameters: &str| {
                format!(
                    "aws cloudformation deploy --stack-name sns-redrive --template-file template.yaml --capabilities \
                     CAPABILITY_NAMED_IAM CAPABILITY_AUTO_EXPAND --parameter-overrides {parameters}{options}"
                )
            };
            let file = command_line([format!("file://{path}")]);
            next.push(("Deploy in observe mode: nothing is sent yet", deploy(&file)));
            next.push((
                "Read the log; then let it work, with schedules that begin now for the backlog",
                deploy(active),
            ));
        }
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
