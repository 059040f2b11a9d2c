//! An action: a command of this tool, filled in by a form.
//!
//! The command is the only way to act. A form fills in its options. The preview is what the same command
//! would do, or the present state. After the confirmation this process runs the command itself.

use clap::Parser;
use redrive_console::{ActionObject, ActionVerb, PageAction};
use redrive_core::policy::{read_json, rounds_numbers};
use serde_json::{Map, Value};

use super::fields::FormFields;
use crate::args::{Cli, CliCommand, FurtherOptions};
use crate::console::CommandFailure;

/// The longest reason in characters, the same as for overrides.
const LONGEST_WHY: usize = 1000;

/// An action: a command line of this tool.
#[derive(Debug, Clone)]
pub(super) struct ServeAction {
    pub(super) act: PageAction,
    why: Option<String>,
    /// More options, as `--name=value`.
    options: Vec<String>,
    /// A pattern that the letters must match as well as the address's filter.
    pattern: Option<Map<String, Value>>,
    /// Options that limit the action to what the preview showed, so that it does not touch letters that came
    /// later.
    pub(super) bound: Vec<String>,
    /// The record of the letter to send again, as edited.
    pub(super) record: Option<String>,
}

/// A field of a form, for an option of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FormField {
    /// The name of the option and of the field.
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) hint: &'static str,
}

const LASTS: FormField =
    FormField { name: "for", label: "In force for", hint: "such as 30m or 2h; default: the command's" };
const MATCH: FormField = FormField {
    name: "match",
    label: "Only letters that match",
    hint: "an EventBridge pattern, such as {\"messageAttributes\": {\"tenant\": [\"gold\"]}}",
};
const WAKE_RATE: FormField =
    FormField { name: "rate", label: "Letters to wake a second", hint: "1 to 10,000; default 500" };
const RATE: FormField = FormField { name: "rate", label: "Letters a second", hint: "default 100" };
const RAMP: FormField =
    FormField { name: "ramp", label: "Steps, in per cent of the letters", hint: "default 1,5,20,100" };
const THRESHOLD: FormField =
    FormField { name: "threshold", label: "Per cent of a step that may fail", hint: "default 10" };
const SETTLE: FormField =
    FormField { name: "settle", label: "Wait after a step", hint: "such as 60 or 5m; default 60 s" };

/// Returns the fields of a form, except the reason.
pub(super) fn fields(act: &PageAction) -> &'static [FormField] {
    match (act.doing, &act.on) {
        (_, ActionObject::Waiting { .. }) => &[LASTS],
        (ActionVerb::Hold, _) => &[LASTS, MATCH],
        (ActionVerb::Retry | ActionVerb::GiveUp, _) => &[LASTS, MATCH, WAKE_RATE],
        (ActionVerb::Replay, ActionObject::Letters { .. }) => &[MATCH, RATE, RAMP, THRESHOLD, SETTLE],
        (ActionVerb::Release, _) => &[WAKE_RATE],
        (ActionVerb::Resume, _) => &[RATE, THRESHOLD, SETTLE],
        _ => &[],
    }
}

impl ServeAction {
    /// Reads the form of an action. `query` is the query part of its address.
    ///
    /// # Errors
    ///
    /// A field is invalid, or the reason is missing; in words.
    pub(super) fn read(query: &str, mut form: FormFields) -> Result<Self, String> {
        let act = act(query)?;
        let why = form.take("why");
        // An edit is read in two steps. The second form, with the edited letter, holds the reason.
        let needs_reason = act.doing != ActionVerb::Edit;
        let mut action =
            Self { act, why: None, options: Vec::new(), pattern: None, bound: Vec::new(), record: None };
        for FormField { name, .. } in fields(&action.act) {
            let Some(text) = form.take(name) else { continue };
            if *name == "match" {
                if rounds_numbers(&text) {
                    return Err(format!(
                        "{}: holds a number that would be rounded: write 15 digits at most",
                        MATCH.label
                    ));
                }
                let pattern = match read_json(&text) {
                    Ok(Value::Object(pattern)) => pattern,
                    Ok(_) => return Err(format!("{} must be a pattern, a JSON object", MATCH.label)),
                    Err(faults) => {
                        let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
                        let told = told.join("; ");
                        return Err(format!("{} must be a pattern, a JSON object: {told}", MATCH.label));
                    }
                };
                let given = action.act.words();
                let given = given.iter().filter_map(|word| serde_json::from_str::<Map<_, Value>>(word).ok());
                let mut names = given.flat_map(|given| given.into_iter().map(|(name, _)| name));
                if let Some(name) = names.find(|name| pattern.contains_key(name)) {
                    return Err(format!("{}: the group names {name} already", MATCH.label));
                }
                action.pattern = Some(pattern);
            } else {
                action.options.push(format!("--{name}={}", text.trim()));
            }
        }
        if needs_reason {
            action.reason(why)?;
        }
        Ok(action)
    }

    /// Sets the reason, which the command stores with the action.
    pub(super) fn reason(&mut self, why: Option<String>) -> Result<(), String> {
        let why = why.ok_or("a reason is required: it is kept, so that others know what this was for")?;
        if why.chars().count() > LONGEST_WHY {
            return Err(format!("the reason must have at most {LONGEST_WHY} characters"));
        }
        self.why = Some(why.trim().to_owned());
        Ok(())
    }

    pub(super) fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// Reports whether the action sends a record from the form, not letters from the archive.
    pub(super) fn is_of_record(&self) -> bool {
        matches!(self.act.on, ActionObject::Archived { .. })
    }

    /// Returns the id of the letter, override or replay; empty for a group of letters.
    pub(super) fn id(&self) -> &str {
        match &self.act.on {
            ActionObject::Letters { .. } => "",
            ActionObject::Archived { id, .. }
            | ActionObject::Waiting { id }
            | ActionObject::Override(id)
            | ActionObject::Replay(id) => id,
        }
    }

    /// Returns the command's arguments, without the connection.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words =
            if self.is_of_record() { vec!["replay".into(), "--from=-".into()] } else { self.act.words() };
        if let Some(pattern) = &self.pattern {
            let place = words.iter().position(|word| word == "--match").map(|place| place + 1);
            if let Some(given) = place.and_then(|place| words.get_mut(place)) {
                let mut all = pattern.clone();
                all.extend(serde_json::from_str::<Map<String, Value>>(given).unwrap_or_default());
                *given = Value::Object(all).to_string();
            } else {
                // With a pattern the command no longer selects all letters.
                words.retain(|word| word != "--all");
                words.push(format!("--match={}", Value::Object(pattern.clone())));
            }
        }
        words.extend(self.options.iter().chain(&self.bound).cloned());
        words.extend(self.why.as_ref().map(|why| format!("--why={why}")));
        words
    }

    /// Returns the arguments that run the command without a question: the page has asked already.
    pub(super) fn confirmed(&self) -> Vec<String> {
        let mut words = self.words();
        // The preview has shown what cannot be known, so the command need not stop there. `replays stop`
        // never asks.
        let is_override = matches!(self.act.doing, ActionVerb::Hold | ActionVerb::Retry | ActionVerb::GiveUp);
        words.extend(is_override.then(|| "--anyway".to_owned()));
        words.extend((self.act.doing != ActionVerb::Stop).then(|| "--yes".to_owned()));
        words
    }

    /// Returns the command that these arguments name.
    ///
    /// # Errors
    ///
    /// An option is invalid.
    pub(super) fn parsed(words: Vec<String>) -> Result<CliCommand, CommandFailure> {
        let cli = Cli::try_parse_from(std::iter::once("redrivectl".to_owned()).chain(words));
        Ok(cli.map_err(|error| CommandFailure::Input(vec![error.to_string()]))?.command)
    }

    /// Returns the command as a line to paste into a shell.
    pub(super) fn command(&self, further: &FurtherOptions) -> String {
        let mut words = self.words();
        if self.is_of_record() {
            words.splice(1..2, ["--from", "letter.jsonl"].map(str::to_owned));
        }
        further.command(&words)
    }
}

/// Reads the action from an address.
///
/// # Errors
///
/// The address is invalid; in words.
pub(super) fn act(query: &str) -> Result<PageAction, String> {
    let act = PageAction::from_address(query).map_err(|bad| bad.to_string())?;
    match &act.on {
        // The command takes these ids as arguments of their own, so an id that begins with `-` would be read
        // as an option. No real override or replay has such an id. Letters and topics may; their names are part
        // of another argument.
        ActionObject::Override(id) | ActionObject::Replay(id) if id.starts_with('-') => {
            Err(format!("{id} must not begin with -"))
        }
        _ => Ok(act),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an address and a form, joined in one line.
    fn read(all: &str) -> Result<ServeAction, String> {
        let is_field = |pair: &&str| {
            ["why=", "for=", "match=", "rate=", "ramp=", "threshold=", "settle="]
                .iter()
                .any(|it| pair.starts_with(it))
        };
        let (form, query): (Vec<_>, Vec<_>) = all.split('&').partition(is_field);
        ServeAction::read(&query.join("&"), FormFields::read(form.join("&").as_bytes()))
    }

    fn words(form: &str) -> String {
        read(form).unwrap().words().join(" ")
    }

    #[test]
    fn a_form_becomes_the_words_of_a_command() {
        assert_eq!(
            words("do=hold&topic=payments&why=down&for=2h"),
            "hold --topic payments --for=2h --why=down"
        );
        assert_eq!(
            words("do=retry&why=+up+&rate=50&match=%7B%22error%22%3A%5B%22503%22%5D%7D"),
            r#"retry --match={"error":["503"]} --rate=50 --why=up"#
        );
        assert_eq!(words("do=give-up&why=x"), "give-up --all --why=x");
        // The address and the form each have a pattern.
        let both = "do=replay&subscription=arn:s&why=x&match=%7B%22retry%22%3A%5B1%5D%7D";
        assert_eq!(words(both), r#"replay --match {"retry":[1],"subscriptionArn":["arn:s"]} --why=x"#);
        assert_eq!(
            words("do=replay&topic=a&why=x&ramp=50,100&for=1h"),
            "replay --topic a --ramp=50,100 --why=x"
        );
        let twice = "do=replay&subscription=arn:s&why=x&match=%7B%22subscriptionArn%22%3A%5B%22t%22%5D%7D";
        assert_eq!(
            read(twice).unwrap_err(),
            "Only letters that match: the group names subscriptionArn already"
        );
        assert_eq!(words("do=release&override=1&why=x&rate=9"), "release 1 --rate=9 --why=x");
        assert_eq!(words("do=stop&id=r1&why=x"), "replays stop r1 --why=x");
        assert_eq!(words("do=resume&id=r1&why=up"), "replay --resume r1 --why=up");
        assert_eq!(words("do=replay&id=m1&why=x"), "replay --from=- --why=x");
        let confirmed = |form| read(form).unwrap().confirmed().pop().unwrap();
        assert_eq!(confirmed("do=hold&topic=a&why=x"), "--yes");
        assert_eq!(confirmed("do=stop&id=r1&why=x"), "--why=x");
        for form in ["do=replay&topic=a&why=x", "do=replay&id=m1&why=x", "do=resume&id=r1&why=x"] {
            assert_eq!(confirmed(form), "--yes", "{form}");
        }
    }

    #[test]
    fn a_reason_is_required_and_nothing_becomes_an_option() {
        for form in ["do=hold&topic=a", "do=hold&topic=a&why=++", "do=stop&id=r1", "do=replay&topic=a"] {
            assert!(read(form).unwrap_err().starts_with("a reason is required"), "{form}");
        }
        assert!(read(&format!("do=hold&topic=a&why={}", "x".repeat(1001))).is_err());
        assert_eq!(read("do=release&override=--all&why=x").unwrap_err(), "--all must not begin with -");
        assert_eq!(read("do=resume&id=-r&why=x").unwrap_err(), "-r must not begin with -");
        assert_eq!(words("do=hold&topic=-x&why=x"), "hold --topic=-x --why=x");
        assert_eq!(words("do=retry&id=-x&why=x"), r#"retry --match {"letterId":["-x"]} --why=x"#);
        assert_eq!(words("do=hold&topic=a&why=--yes"), "hold --topic a --why=--yes");
        assert!(read("do=hold&topic=a&why=x&match=%5B%5D").unwrap_err().contains("pattern"));
        assert!(read("do=delete&why=x").is_err() && read("do=hold&color=red&why=x").is_err());
    }
}
