//! The options about the connection to AWS.

use clap::Args;

use crate::tables::command_line;

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "AWS")]
pub(crate) struct ConnectionArgs {
    /// Take places that no option gives from the outputs of this stack of template.yaml [default: the
    /// variable REDRIVE_STACK]
    #[arg(long, value_name = "NAME")]
    pub(crate) stack: Option<String>,
    /// Call this endpoint instead of AWS; bucket names then are part of the path
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint_url: Option<String>,
    /// Use this profile of the AWS configuration files
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Use this region
    #[arg(long, value_name = "REGION")]
    pub(crate) region: Option<String>,
}

impl ConnectionArgs {
    /// Returns the options for the AWS CLI, so that it reaches the same account and region. Each has a space
    /// before it.
    pub(crate) fn of_aws_cli(&self) -> String {
        options([
            ("--endpoint-url", &self.endpoint_url),
            ("--profile", &self.profile),
            ("--region", &self.region),
        ])
    }
}

impl ConnectionArgs {
    /// Returns the options for the SAM CLI, which has none for an endpoint. Each has a space before it.
    pub(crate) fn of_sam(&self) -> String {
        options([("--profile", &self.profile), ("--region", &self.region)])
    }
}

/// The options for other commands of this tool, so that they find the same stack and places.
#[derive(Debug, Default, Clone)]
pub(crate) struct FurtherOptions {
    /// The options for all commands, with a space before each.
    options: String,
    /// The option that only a command that starts a replay has.
    requeue: String,
}

impl FurtherOptions {
    pub(crate) fn new(
        connection: &ConnectionArgs,
        control: Option<&String>,
        archive: Option<&String>,
        requeue: Option<&String>,
    ) -> Self {
        let stack = options([("--stack", &connection.stack)]);
        let places = options([("--control", &control.cloned()), ("--archive", &archive.cloned())]);
        let options_of_all = format!("{stack}{places}{}", connection.of_aws_cli());
        Self { options: options_of_all, requeue: options([("--requeue", &requeue.cloned())]) }
    }

    /// Adds the control prefix that this command found.
    #[must_use]
    pub(crate) fn at(mut self, control: String) -> Self {
        self.options += &options([("--control", &Some(control))]);
        self
    }

    /// Returns a command of this tool that calls AWS, as a line to paste.
    pub(crate) fn command<W: AsRef<str>>(&self, words: &[W]) -> String {
        let mut first = words.iter().map(AsRef::as_ref);
        let starts = first.next() == Some("replay") && first.next().is_none_or(|word| word.starts_with('-'));
        let requeue = if starts { self.requeue.as_str() } else { "" };
        let words = ["redrivectl"].into_iter().chain(words.iter().map(AsRef::as_ref));
        format!("{}{}{requeue}", command_line(words), self.options)
    }

    /// Returns the options for all commands, with a space before each.
    pub(crate) fn options(&self) -> &str {
        &self.options
    }
}

/// Returns the options that were given, with a space before each.
fn options<const N: usize>(all: [(&str, &Option<String>); N]) -> String {
    let given = all.into_iter().filter_map(|(option, value)| Some((option, value.as_ref()?)));
    given.fold(String::new(), |options, (option, value)| {
        format!("{options} {}", command_line([option, value]))
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::test_runner::TestRunner;
    use redrive_testing::shell::{ShellToken, hostile, tokens};

    use super::*;
    use crate::tables::harmless;

    #[test]
    fn a_shell_reads_in_each_further_command_the_words_that_were_meant() {
        let law = |texts: Vec<String>| {
            let [stack, endpoint, profile, region, control, archive, requeue, found, id] =
                <[String; 9]>::try_from(texts).unwrap();
            let connection = ConnectionArgs {
                stack: Some(stack.clone()),
                endpoint_url: Some(endpoint.clone()),
                profile: Some(profile.clone()),
                region: Some(region.clone()),
            };
            let further = FurtherOptions::new(&connection, Some(&control), Some(&archive), Some(&requeue));
            let further = further.at(found.clone());
            let command = further.command(&["replay", "--resume", &id]);
            let words = ["redrivectl", "replay", "--resume", &id].into_iter().map(str::to_owned);
            let options = [
                ("--stack", stack),
                ("--control", control),
                ("--archive", archive),
                ("--endpoint-url", endpoint),
                ("--profile", profile),
                ("--region", region),
                ("--control", found),
                ("--requeue", requeue),
            ];
            let meant = words.chain(options.into_iter().flat_map(|(option, text)| [option.to_owned(), text]));
            let meant: Vec<_> = meant.map(|word| ShellToken::Word(harmless(&word))).collect();
            assert_eq!(tokens(&command), Ok(meant), "{command}");
            let stop = further.command(&["replay", "stop", &id]);
            let without_requeue = command.strip_suffix(&further.requeue).unwrap();
            assert_eq!(stop, without_requeue.replacen("replay --resume", "replay stop", 1));
            Ok(())
        };
        TestRunner::default().run(&vec(hostile(), 9), law).unwrap();
    }
}
