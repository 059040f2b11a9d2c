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
use crate::tables::harmless;

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
    /// What the browser offers, besides what one types.
    pub(super) offers: &'static [&'static str],
    /// True if most people never need it.
    pub(super) is_rare: bool,
}

/// What is wrong with a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FormFault {
    /// The field; `None` if it is none of the form's.
    pub(super) field: Option<&'static str>,
    /// The fault, in words.
    pub(super) says: String,
}

impl FormFault {
    fn at(field: &'static str, says: impl Into<String>) -> Self {
        Self { field: Some(field), says: says.into() }
    }
}

impl From<String> for FormFault {
    fn from(says: String) -> Self {
        Self { field: None, says }
    }
}

/// The name of the field for the reason.
pub(super) const WHY: &str = "why";

const fn rare(name: &'static str, label: &'static str, hint: &'static str) -> FormField {
    FormField { name, label, hint, offers: &[], is_rare: true }
}

const fn often(name: &'static str, label: &'static str, hint: &'static str) -> FormField {
    FormField { name, label, hint, offers: &[], is_rare: false }
}

const LASTS: FormField = FormField {
    offers: &["30m", "2h", "8h", "1d"],
    ..often("for", "In force for", "such as 30m or 2h; empty: as long as the command says below")
};
const TOPIC: FormField = often("topic", "Only letters of the topic", "a name or an ARN; empty: of any");
const TARGET: FormField =
    often("target", "Only letters for the target", "a name, an ARN or a URL; empty: for any");
const ERROR: FormField =
    often("error", "Only letters whose last retry failed with", "an error code; empty: with any");
const BEFORE: FormField = FormField {
    offers: &["1h", "3h", "1d"],
    ..often(
        "arrived-before",
        "Only letters that came before",
        "such as 3h for three hours ago, or 2026-11-01T12:00Z; empty: whenever",
    )
};
const OLDER: FormField = FormField {
    offers: &["1h", "3h", "1d"],
    ..often(
        "until",
        "Only letters that were archived before",
        "such as 3h for three hours ago, or 2026-11-01T12:00Z; empty: whenever",
    )
};
const MATCH: FormField = rare(
    "match",
    "Only letters that match",
    "an EventBridge pattern, such as {\"messageAttributes\": {\"tenant\": [\"gold\"]}}",
);
const WAKE_RATE: FormField = rare("rate", "Letters to wake a second", "1 to 10,000; default 500");
const RATE: FormField = rare("rate", "Letters a second", "default 100");
const RAMP: FormField = rare("ramp", "Steps, in per cent of the letters", "default 1,5,20,100");
const THRESHOLD: FormField = rare("threshold", "Per cent of a step that may fail", "default 10");
const SETTLE: FormField = rare("settle", "Wait after a step", "such as 60 or 5m; default 60 s");

/// The fields that select letters, and that the address may have decided already.
const SELECTING: [&str; 5] = ["topic", "target", "error", "arrived-before", "until"];

/// Returns the fields of a form, except the reason. What the address decides has no field.
pub(super) fn fields(act: &PageAction) -> Vec<FormField> {
    let all: &[FormField] = match (act.doing, &act.on) {
        (_, ActionObject::Waiting { .. }) => &[LASTS],
        (ActionVerb::Hold, _) => &[LASTS, TOPIC, TARGET, BEFORE, MATCH],
        (ActionVerb::Retry | ActionVerb::GiveUp, _) => &[LASTS, TOPIC, TARGET, BEFORE, MATCH, WAKE_RATE],
        (ActionVerb::Replay, ActionObject::Letters { .. }) => {
            &[TOPIC, TARGET, ERROR, OLDER, MATCH, RATE, RAMP, THRESHOLD, SETTLE]
        }
        (ActionVerb::Release, _) => &[WAKE_RATE],
        (ActionVerb::Resume, _) => &[RATE, THRESHOLD, SETTLE],
        _ => &[],
    };
    let given = match &act.on {
        ActionObject::Letters { of, until, .. } => {
            let fields = of.iter().map(|(field, _)| field.name());
            fields.chain(until.map(|_| OLDER.name)).collect()
        }
        _ => Vec::new(),
    };
    all.iter().filter(|field| !given.contains(&field.name)).copied().collect()
}

impl ServeAction {
    /// Reads the form of an action. `query` is the query part of its address.
    ///
    /// # Errors
    ///
    /// A field is invalid, or the reason is missing.
    pub(super) fn read(query: &str, mut form: FormFields) -> Result<Self, FormFault> {
        let act = act(query)?;
        let why = form.take(WHY);
        // An edit is read in two steps. The second form, with the edited letter, holds the reason.
        let needs_reason = act.doing != ActionVerb::Edit;
        let mut action =
            Self { act, why: None, options: Vec::new(), pattern: None, bound: Vec::new(), record: None };
        for FormField { name, .. } in fields(&action.act) {
            let Some(text) = form.take(name) else { continue };
            if name == MATCH.name {
                let wrong = |says: String| Err(FormFault::at(MATCH.name, says));
                if rounds_numbers(&text) {
                    return wrong("A number in it would be rounded: write 15 digits at most.".to_owned());
                }
                let pattern = match read_json(&text) {
                    Ok(Value::Object(pattern)) => pattern,
                    Ok(_) => return wrong("A pattern is a JSON object, in braces.".to_owned()),
                    Err(faults) => {
                        let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
                        return wrong(format!("This is no JSON: {}.", told.join("; ")));
                    }
                };
                let given = action.act.words();
                let given = given.iter().filter_map(|word| serde_json::from_str::<Map<_, Value>>(word).ok());
                let mut names = given.flat_map(|given| given.into_iter().map(|(name, _)| name));
                if let Some(name) = names.find(|name| pattern.contains_key(name)) {
                    return wrong(format!("The group names {name} already."));
                }
                action.pattern = Some(pattern);
            } else {
                action.options.push(format!("--{name}={}", text.trim()));
            }
        }
        if needs_reason {
            action.reason(why).map_err(|says| FormFault::at(WHY, says))?;
        }
        action.check()?;
        Ok(action)
    }

    /// Checks each option by the command's own rules.
    fn check(&self) -> Result<(), FormFault> {
        if self.is_of_record() {
            return Ok(());
        }
        for field in fields(&self.act) {
            let option = format!("--{}=", field.name);
            let Some(given) = self.options.iter().find(|it| it.starts_with(&option)) else { continue };
            let alone = Self { options: vec![given.clone()], pattern: None, ..self.clone() };
            if let Err(CommandFailure::Input(problems)) = Self::parsed(alone.words()) {
                return Err(FormFault::at(field.name, first_line(&problems.join(" "))));
            }
        }
        Ok(())
    }

    /// Returns how long an override is in force, as it was typed.
    pub(super) fn lasts(&self) -> Option<&str> {
        self.options.iter().find_map(|option| option.strip_prefix("--for="))
    }

    /// Returns what was typed to select letters, in words.
    pub(super) fn typed_selection(&self) -> Vec<String> {
        let typed = SELECTING.iter().filter_map(|name| {
            let option = format!("--{name}=");
            let value = self.options.iter().find_map(|it| it.strip_prefix(&option))?;
            let value = harmless(value);
            Some(match *name {
                "arrived-before" | "until" => format!("before {value}"),
                _ => value,
            })
        });
        typed.collect()
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
        let selects =
            |option: &String| SELECTING.iter().any(|name| option.starts_with(&format!("--{name}=")));
        if self.options.iter().any(selects) {
            words.retain(|word| word != "--all");
        }
        words.extend(self.options.iter().chain(&self.bound).cloned());
        words.extend(self.why.as_ref().map(|why| format!("--why={why}")));
        words
    }

    /// Returns the arguments that run the command without a question: the page has asked already.
    pub(super) fn confirmed(&self) -> Vec<String> {
        let mut words = self.words();
        // The preview has shown what cannot be known, so the command need not stop there. `replay stop`
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

/// Returns what clap says of an option, without its usage.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
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
    fn read(all: &str) -> Result<ServeAction, FormFault> {
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
            FormFault::at("match", "The group names subscriptionArn already.")
        );
        assert_eq!(words("do=release&override=1&why=x&rate=9"), "overrides release 1 --rate=9 --why=x");
        assert_eq!(words("do=stop&id=r1&why=x"), "replay stop r1 --why=x");
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
            let fault = read(form).unwrap_err();
            assert!(fault.field == Some("why") && fault.says.starts_with("a reason is required"), "{form}");
        }
        assert!(read(&format!("do=hold&topic=a&why={}", "x".repeat(1001))).is_err());
        assert_eq!(read("do=release&override=--all&why=x").unwrap_err().says, "--all must not begin with -");
        assert_eq!(read("do=resume&id=-r&why=x").unwrap_err().says, "-r must not begin with -");
        assert_eq!(words("do=hold&topic=-x&why=x"), "hold --topic=-x --why=x");
        assert_eq!(words("do=retry&id=-x&why=x"), r#"retry --match {"letterId":["-x"]} --why=x"#);
        assert_eq!(words("do=hold&topic=a&why=--yes"), "hold --topic a --why=--yes");
        assert_eq!(read("do=hold&topic=a&why=x&match=%5B%5D").unwrap_err().field, Some("match"));
        for (form, field) in
            [("do=hold&topic=a&why=x&for=soon", "for"), ("do=retry&topic=a&why=x&rate=0", "rate")]
        {
            assert_eq!(read(form).unwrap_err().field, Some(field), "{form}");
        }
        assert!(read("do=delete&why=x").is_err() && read("do=hold&color=red&why=x").is_err());
    }
}
