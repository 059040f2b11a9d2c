//! `look --init`: a file of parameters for a first deployment, by what was seen.
//!
//! | file | subject |
//! |---|---|
//! | `answers` | what only a person knows |
//! | `seen_setup` | the subscriptions, keys and settings around the queue |
//! | `parameters` | the parameters of `template.yaml` for them |
//! | `formats` | the file, for SAM or CloudFormation |

mod answers;
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
use answers::QUESTIONS;
pub(super) use answers::SetupAnswers;
use parameters::SetupParameters;
pub(super) use seen_setup::SeenSetup;

use super::letter_groups::LetterGroup;
use super::looked_queue::LookedQueue;

/// A file of parameters that was written.
pub(super) struct SetupFile {
    path: String,
    parameters: SetupParameters,
    /// The commands to type next, each with its purpose.
    next: Vec<(&'static str, String)>,
    /// True if a call was denied, or failed.
    is_unseen: bool,
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
        for ((name, question), answer) in QUESTIONS.into_iter().zip(&answers.values) {
            parameters.decide(name, question, answer.clone());
        }
        parameters.notes.extend(answers.notes.iter().cloned());
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

/// The seconds after the visibility timeout in which a deployment is done and every instance of the old one has ended.
const DEPLOY_MARGIN: u64 = 120;

/// Returns the commands to type next.
fn next(args: &args::LookArgs, path: &str, seen: &SeenSetup) -> Vec<(&'static str, String)> {
    let options = args.connection.of_aws_cli();
    let mut next = Vec::new();
    let mut attributes = Vec::new();
    attributes.extend(seen.raise_visibility.map(|seconds| format!("VisibilityTimeout={seconds}")));
    attributes.extend(seen.raise_retention.map(|seconds| format!("MessageRetentionPeriod={seconds}")));
    if !attributes.is_empty() {
        let (attributes, url) = (attributes.join(","), seen.queue.arn.queue_url());
        let words = ["aws", "sqs", "set-queue-attributes", "--queue-url", &url, "--attributes", &attributes];
        let what = "Set the queue's visibility timeout to six times the function's timeout, and let it keep letters for 14 days";
        next.push((what, command_line(words) + &options));
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
    next.push(("In a checkout of sns-redrive, deploy in observe mode: nothing is sent yet", first));
    // SNS keeps a message's deduplication id, so a FIFO queue would lose the second letter.
    for (topic, subscriptions) in seen.unattached.iter().filter(|_| !seen.queue.arn.is_fifo()) {
        let words = ["redrivectl", "attach", "--queue", seen.queue.arn.as_str(), "--topic", topic];
        let what = if *subscriptions == 1 {
            "Attach another subscription of a topic: what SNS gives up on for it is lost now"
        } else {
            "Attach other subscriptions of a topic: what SNS gives up on for them is lost now"
        };
        next.push((what, command_line(words) + &options));
    }
    next.push(("Check the deployment", format!("redrivectl doctor --stack sns-redrive{options}")));
    let group = "aws cloudformation describe-stacks --stack-name sns-redrive --output text --query \
                 \"Stacks[0].Outputs[?OutputKey=='LogGroupName'].OutputValue\"";
    next.push((
        "See in the log what it would do with each letter",
        format!("aws logs filter-log-events --log-group-name \"$({group}{options})\" --filter-pattern '{{ $.outcome = \"observed\" }}' --query 'events[].message' --output text{options}"),
    ));
    let seconds = seen.raise_visibility.or(seen.visibility).unwrap_or_default() + DEPLOY_MARGIN;
    let minutes = seconds.div_ceil(60);
    // GNU's date, else BSD's.
    let from =
        format!("from=$(date -u -d '+{minutes} min' +%FT%TZ 2> /dev/null || date -u -v+{minutes}M +%FT%TZ)");
    let edit = match args.format {
        SetupFormat::Sam => {
            "-e 's/RedriveMode=observe/RedriveMode=active/' -e \"s/# \\\"ScheduleFrom=[^\\\"]*/\\\"ScheduleFrom=$from/\"".to_owned()
        }
        SetupFormat::Cloudformation => {
            "-e 's/\"ParameterValue\": \"observe\"/\"ParameterValue\": \"active\"/' -e \"1s/^\\[/[{\\\"ParameterKey\\\": \
             \\\"ScheduleFrom\\\", \\\"ParameterValue\\\": \\\"$from\\\"},/\""
                .to_owned()
        }
    };
    let switch = format!("{from} && sed -i.bak {edit} {} && {deploy}", command_line([path]));
    next.push((
        "Switch it on. Letters that came so far begin their schedules at ScheduleFrom, when none is hidden any more by a look; \
         redrivectl retry sends them sooner",
        switch,
    ));
    next
}
