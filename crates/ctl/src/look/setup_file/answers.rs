//! The answers of a person to what only a person knows. Each is checked, since a name with a typing error would be deployed,
//! and nobody would hear of an alarm.

use std::io::Write;

use aws_sdk_iam::error::ProvideErrorMetadata;
use redrive_core::arn::{Arn, ArnKind};

use crate::args;
use crate::aws::AwsAccess;
use crate::console::{CommandFailure, ToolEnvironment};
use crate::doctor::read_error;
use crate::tables::{command_line, harmless};

/// The parameters that only a person knows, each with the question for it.
pub(super) const QUESTIONS: [(&str, &str); 4] = [
    (ALARMS, "the SNS topic that alarms go to; without one they call nobody"),
    ("PageTopicArn", "the SNS topic that pages somebody if letters are in danger"),
    ("NoticeTopicArn", "the SNS topic that hears of archived letters and of endpoints that are down"),
    (SENDERS, "the IAM roles and users that may replay archived letters, separated by commas"),
];

const ALARMS: &str = "AlarmTopicArn";
const SENDERS: &str = "RequeueSenderArns";

/// How often a question is asked.
const MAX_TRIES: usize = 3;

/// The answers of a person, in the order of [`QUESTIONS`].
#[derive(Default)]
pub(crate) struct SetupAnswers {
    /// The ARNs; `None` if there is no answer.
    pub(super) values: Vec<Option<String>>,
    /// What could not be checked, in words.
    pub(super) notes: Vec<String>,
}

impl SetupAnswers {
    /// Asks what only a person knows. Without a file of parameters, and with `--yes`, nobody is asked.
    ///
    /// # Errors
    ///
    /// An answer was wrong three times.
    pub(crate) async fn ask(
        args: &args::LookArgs,
        aws: &AwsAccess,
        queue: &Arn,
        console: &mut ToolEnvironment,
    ) -> Result<Self, CommandFailure> {
        let mut answers = Self::default();
        for (name, question) in QUESTIONS {
            let value = match (&args.init, args.yes) {
                (Some(_), false) => answers.one(name, question, aws, queue, console).await?,
                _ => None,
            };
            answers.values.push(value);
        }
        Ok(answers)
    }

    async fn one(
        &mut self,
        name: &str,
        question: &str,
        aws: &AwsAccess,
        queue: &Arn,
        console: &mut ToolEnvironment,
    ) -> Result<Option<String>, CommandFailure> {
        if name == SENDERS
            && let Ok(caller) = crate::aws::caller(&aws.sts()).await
        {
            writeln!(console.err, "You are {}.", harmless(&caller))?;
        }
        for _ in 0..MAX_TRIES {
            let given =
                console.answer_as_typed(&format!("{question} ({name}: names or ARNs; Enter for none): "))?;
            let names: Vec<_> =
                given.split([',', ' ']).map(str::trim).filter(|name| !name.is_empty()).collect();
            if names.is_empty() {
                return Ok(None);
            }
            let checked = if name == SENDERS {
                self.senders(&names, aws, queue).await
            } else {
                self.topic(&names, aws, queue).await
            };
            match checked {
                Ok(arns) => return Ok(Some(arns)),
                Err(problem) => writeln!(console.err, "{problem}")?,
            }
        }
        Err(CommandFailure::Input(vec![format!("no answer to {name} that can be used: nothing was done")]))
    }

    /// Returns the ARN of the only topic.
    async fn topic(&mut self, names: &[&str], aws: &AwsAccess, queue: &Arn) -> Result<String, String> {
        let [name] = names else { return Err("Name one topic.".to_owned()) };
        let (partition, region, account) = (queue.partition(), queue.region(), queue.account());
        let arn = if name.starts_with("arn:") {
            (*name).to_owned()
        } else {
            format!("arn:{partition}:sns:{region}:{account}:{name}")
        };
        if arn.parse::<Arn>().is_ok_and(|arn| arn.kind() == ArnKind::Topic) {
            let read = aws.clients().sns.get_topic_attributes().topic_arn(&arn).send().await;
            return match read.as_ref().map_err(|error| (error.code() == Some("NotFound"), error)) {
                Ok(_) => Ok(arn),
                Err((true, _)) => {
                    let create = command_line([
                        "aws",
                        "sns",
                        "create-topic",
                        "--name",
                        name.rsplit(':').next().unwrap_or_default(),
                    ]);
                    Err(format!("There is no topic {}. To create it: {create}", harmless(&arn)))
                }
                Err((false, error)) => {
                    let error = read_error("sns:GetTopicAttributes", error);
                    self.notes.push(format!(
                        "{arn} was not checked: {} failed ({})",
                        error.call,
                        error.reason()
                    ));
                    Ok(arn)
                }
            };
        }
        Err(format!("{} is neither the name nor the ARN of a topic.", harmless(name)))
    }

    /// Returns the ARNs of roles and users, with their paths.
    async fn senders(&mut self, names: &[&str], aws: &AwsAccess, queue: &Arn) -> Result<String, String> {
        let iam = aws.iam();
        let mut arns = Vec::new();
        for name in names {
            if name.contains(":assumed-role/") {
                return Err(format!("{} is a session: name its role.", harmless(name)));
            }
            if name.starts_with("arn:") {
                arns.push((*name).to_owned());
                continue;
            }
            let role = iam.get_role().role_name(*name).send().await;
            if let Some(role) = role.as_ref().ok().and_then(|it| it.role()) {
                arns.push(role.arn().to_owned());
                continue;
            }
            let user = iam.get_user().user_name(*name).send().await;
            if let Some(user) = user.as_ref().ok().and_then(|it| it.user()) {
                arns.push(user.arn().to_owned());
                continue;
            }
            let is_none = |code: Option<&str>| code == Some("NoSuchEntity");
            let role = role.err();
            if role.as_ref().is_none_or(|error| is_none(error.code()))
                && user.err().is_none_or(|error| is_none(error.code()))
            {
                return Err(format!("There is no role and no user {}.", harmless(name)));
            }
            let why = role.map(|error| read_error("iam:GetRole", &error));
            let why =
                why.map_or(String::new(), |error| format!(": {} failed ({})", error.call, error.reason()));
            self.notes.push(format!(
                "the role {} was not checked{why}. If it has a path, as those of IAM Identity Center have, name its ARN",
                harmless(name)
            ));
            arns.push(format!("arn:{}:iam::{}:role/{name}", queue.partition(), queue.account()));
        }
        Ok(arns.join(","))
    }
}
