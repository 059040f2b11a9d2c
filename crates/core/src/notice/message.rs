//! A notice as SNS takes it: its forms for people, programs and chat channels, and its attributes.

use std::fmt::Display;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::arn::Arn;
use crate::endpoint::TargetName;
use crate::shell::command_line;

/// The longest ARN or name of a target in a notice. AWS's own are shorter, but anyone who writes a letter chooses the ARNs in
/// it.
pub(super) const LONGEST_NAME: usize = 400;

/// The largest number of topics, and of targets, in the attributes of a notice.
pub(super) const MAX_NAMES: usize = 50;

/// The protocols whose subscribers are programs. They get JSON.
pub(super) const PROGRAMS: [&str; 5] = ["sqs", "lambda", "firehose", "http", "email-json"];

/// The places that the commands in notices name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticePlaces {
    /// The archive: `s3://bucket/prefix`, or the ARN of a queue.
    pub archive: String,
    /// The control prefix, `s3://bucket/prefix`, if there is one.
    pub control: Option<String>,
    /// The requeue, if there is one.
    pub requeue: Option<Arn>,
}

/// A notice for a `Publish` with a `MessageStructure` of `json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeMessage {
    /// The subject of an email: ASCII, at most 100 characters, as SNS demands.
    /// <https://docs.aws.amazon.com/sns/latest/api/API_Publish.html>
    pub subject: String,
    /// The message in every form.
    pub message: String,
    /// The message attributes, by which subscribers filter.
    pub attributes: Vec<NoticeAttribute>,
}

/// A message attribute of a notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeAttribute {
    /// The name.
    pub name: &'static str,
    /// The type: `String`, or `String.Array`, whose value is a list in JSON.
    /// <https://docs.aws.amazon.com/sns/latest/dg/sns-message-attributes.html>
    pub data_type: &'static str,
    /// The value.
    pub value: String,
}

/// The parts that the forms of a notice are made of.
pub(super) struct NoticeParts {
    /// The value of the attribute `kind`.
    pub(super) kind: &'static str,
    /// The name of the event for programs.
    pub(super) event: &'static str,
    pub(super) subject: String,
    /// The form for people.
    pub(super) text: String,
    /// The form for programs.
    pub(super) data: Value,
    /// The facts that chat channels can filter by.
    pub(super) facts: Value,
}

impl NoticePlaces {
    /// Returns the command that shows the letters that were archived since a time. An archive in a queue has no such command.
    pub(super) fn show_command(&self, since: Timestamp) -> Option<String> {
        let words = ["redrivectl", "archive", "show", "--archive", &self.archive, "--since", &seconds(since)];
        self.archive.starts_with("s3://").then(|| command_line(words))
    }

    /// Returns the command that sends again the letters that were archived in this time for these reasons, of one target if it
    /// is given. There is none for an archive in a queue, without a requeue, and without a reason.
    pub(super) fn replay_command(
        &self,
        target: Option<&TargetName>,
        (since, until): (Timestamp, Timestamp),
        reasons: &[&str],
    ) -> Option<String> {
        if reasons.is_empty() {
            return None;
        }
        let requeue = self.requeue.as_ref().filter(|_| self.archive.starts_with("s3://"))?;
        let mut words = vec!["redrivectl", "replay", "--archive", &self.archive];
        if let Some(control) = &self.control {
            words.extend(["--control", control]);
        }
        words.extend(["--requeue", requeue.as_str()]);
        if let Some(target) = target {
            words.extend(["--target", target.as_str()]);
        }
        words.extend(reasons.iter().flat_map(|reason| ["--reason", *reason]));
        // The end is left out.
        let until = until.saturating_add(SignedDuration::from_secs(1)).unwrap_or(until);
        let (since, until) = (seconds(since), seconds(until));
        words.extend(["--since", &since, "--until", &until]);
        Some(command_line(words))
    }
}

impl NoticeParts {
    /// Returns the notice about these topics and targets, of which a subscriber's filter policy can choose.
    pub(super) fn message<'a>(
        self,
        topics: impl IntoIterator<Item = &'a Arn>,
        targets: impl IntoIterator<Item = &'a TargetName>,
    ) -> NoticeMessage {
        let mut forms = json!({ "default": self.text, "sms": self.subject, "https": self.chat() });
        let data = self.data.to_string();
        for protocol in PROGRAMS {
            forms[protocol] = Value::from(data.as_str());
        }
        let kind = NoticeAttribute { name: "kind", data_type: "String", value: self.kind.to_owned() };
        let lists = [list("topicArn", topics), list("target", targets)];
        let attributes = [kind].into_iter().chain(lists.into_iter().flatten()).collect();
        NoticeMessage { subject: self.subject, message: forms.to_string(), attributes }
    }

    /// Returns the form for chat channels, in AWS's own format for them. The text is marked as code there, so
    /// that nothing in it is taken for markup.
    /// <https://docs.aws.amazon.com/chatbot/latest/adminguide/custom-notifs.html>
    fn chat(&self) -> String {
        json!({
            "version": "1.0",
            "source": "custom",
            "content": {
                "textType": "client-markdown",
                "title": self.subject,
                "description": format!("```\n{}```", self.text),
            },
            "metadata": {
                "summary": self.subject,
                "eventType": self.event,
                "additionalContext": self.facts,
            },
        })
        .to_string()
    }
}

/// Returns an attribute with a list of names. SNS takes no empty one.
fn list(name: &'static str, names: impl IntoIterator<Item = impl Display>) -> Option<NoticeAttribute> {
    let names = names.into_iter().map(|name| name.to_string()).filter(|name| is_listed(name));
    let names: Vec<_> = names.take(MAX_NAMES).collect();
    let value = Value::from(names);
    let is_empty = value.as_array().is_none_or(Vec::is_empty);
    (!is_empty).then(|| NoticeAttribute { name, data_type: "String.Array", value: value.to_string() })
}

/// Reports whether a name is one that AWS can have given, so that SNS takes it.
pub(super) fn is_listed(name: &str) -> bool {
    name.len() <= LONGEST_NAME && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns a number of letters, in words.
pub(super) fn letters(count: u64) -> String {
    format!("{count} {}", if count == 1 { "letter" } else { "letters" })
}

/// Returns a time without the fraction of its second.
pub(super) fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::test_runner::TestRunner;
    use redrive_testing::shell::{ShellToken, hostile, tokens};

    use super::*;
    use crate::shell::harmless;

    const REQUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:requeue";

    fn places(archive: &str) -> NoticePlaces {
        let control = Some("s3://my-bucket/control".to_owned());
        NoticePlaces { archive: archive.to_owned(), control, requeue: REQUEUE.parse().ok() }
    }

    fn since() -> Timestamp {
        "2026-11-01T12:00:00.9Z".parse().unwrap()
    }

    #[test]
    fn a_shell_reads_in_the_commands_the_places_that_were_meant() {
        let law = |(prefix, url): (String, String)| {
            let archive = format!("s3://{prefix}");
            let target = TargetName::read(&url);
            let places = NoticePlaces { control: Some(format!("s3://{url}")), ..places(&archive) };
            let control = places.control.clone().unwrap();
            let show = ["redrivectl", "archive", "show", "--archive", &archive, "--since"].to_vec();
            let replay = ["redrivectl", "replay", "--archive", &archive, "--control", &control].into_iter();
            let replay =
                replay.chain(["--requeue", REQUEUE, "--target", target.as_str(), "--reason", "exhausted"]);
            let times = ["--since", "2026-11-01T12:00:00Z", "--until", "2026-11-01T12:00:01Z"];
            for (command, meant) in [
                (
                    places.show_command(since()),
                    show.into_iter().chain(["2026-11-01T12:00:00Z"]).collect::<Vec<_>>(),
                ),
                (
                    places.replay_command(Some(&target), (since(), since()), &["exhausted"]),
                    replay.chain(times).collect(),
                ),
            ] {
                let meant = meant.iter().map(|word| ShellToken::Word(harmless(word)));
                let command = command.unwrap();
                assert_eq!(tokens(&command), Ok(meant.collect()), "{command}");
            }
            Ok(())
        };
        TestRunner::default().run(&(hostile(), hostile()), law).unwrap();
    }

    #[test]
    fn no_command_is_there_that_could_not_work() {
        let queue = places("arn:aws:sqs:eu-central-1:123456789012:archive");
        let replay = |places: &NoticePlaces| places.replay_command(None, (since(), since()), &["expiring"]);
        assert_eq!((queue.show_command(since()), replay(&queue)), (None, None));
        let no_requeue = NoticePlaces { requeue: None, ..places("s3://b/a") };
        assert_eq!(replay(&no_requeue), None);
        let no_control = NoticePlaces { control: None, ..places("s3://b/a") };
        assert_eq!(
            replay(&no_control).unwrap(),
            format!(
                "redrivectl replay --archive s3://b/a --requeue {REQUEUE} --reason expiring --since 2026-11-01T12:00:00Z \
                 --until 2026-11-01T12:00:01Z"
            )
        );
        assert_eq!(no_control.replay_command(None, (since(), since()), &[]), None);
    }

    #[test]
    fn attributes_list_the_names_that_sns_takes() {
        let names = ["arn:aws:sns:eu-central-1:123456789012:a", "https://a.example#8a5edab28263"];
        let long = "x".repeat(LONGEST_NAME + 1);
        let all = names.into_iter().chain([long.as_str(), "arn:aws:sns:eu-central-1:123456789012:ä"]);
        let listed = list("target", all).unwrap();
        assert_eq!((listed.data_type, listed.value), ("String.Array", json!(names).to_string()));
        assert_eq!(list("target", [long.as_str()]), None, "SNS takes no empty value");
        let many = list("target", 0..200).unwrap();
        assert_eq!(serde_json::from_str::<Vec<String>>(&many.value).unwrap().len(), MAX_NAMES);
    }
}
