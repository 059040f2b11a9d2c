//! Actions of an operator on letters, overrides and replays, as command lines of `redrivectl`.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, json};
use url::form_urlencoded;

use crate::query::{BadQuery, Filter, GroupField, UnusedParameters, address};
use crate::text::command_line;

/// An action: a verb and its object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageAction {
    /// The verb.
    pub doing: ActionVerb,
    /// The object.
    pub on: ActionObject,
}

/// The verb of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionVerb {
    /// Gives letters an override: make no attempts.
    Hold,
    /// Gives letters an override: attempt them at once.
    Retry,
    /// Gives letters an override: give them up.
    GiveUp,
    /// Sends archived letters again.
    Replay,
    /// Edits an archived letter and sends it again.
    Edit,
    /// Withdraws an override.
    Release,
    /// Stops a replay.
    Stop,
    /// Continues a replay.
    Resume,
}

/// The object of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionObject {
    /// A group of letters.
    Letters {
        /// The filter that selects them.
        of: Filter,
        /// Only letters archived at this time or later. For archived letters only.
        since: Option<Timestamp>,
        /// Only letters archived before this time. For archived letters only.
        until: Option<Timestamp>,
    },
    /// One archived letter.
    Archived {
        /// The message id that SQS gave it, or the letter's own id.
        id: String,
        /// The time of its archive, if known. Without it, the command searches the whole archive.
        at: Option<Timestamp>,
    },
    /// One waiting letter.
    Waiting {
        /// The letter's own id. The message id would change when the letter moves to another queue.
        id: String,
    },
    /// An override, by its id.
    Override(String),
    /// A replay, by its id.
    Replay(String),
}

impl ActionVerb {
    /// Every verb.
    pub const ALL: [Self; 8] = [
        Self::Hold,
        Self::Retry,
        Self::GiveUp,
        Self::Replay,
        Self::Edit,
        Self::Release,
        Self::Stop,
        Self::Resume,
    ];

    /// Returns the verb's name in addresses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Retry => "retry",
            Self::GiveUp => "give-up",
            Self::Replay => "replay",
            Self::Edit => "edit",
            Self::Release => "release",
            Self::Stop => "stop",
            Self::Resume => "resume",
        }
    }

    /// Returns the verb's name on pages.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Hold => "Hold",
            Self::Retry => "Retry now",
            Self::GiveUp => "Give up",
            Self::Replay => "Replay",
            Self::Edit => "Edit and replay",
            Self::Release => "Release",
            Self::Stop => "Stop",
            Self::Resume => "Resume",
        }
    }
}

impl PageAction {
    /// Returns its name on pages. One on every letter says so.
    #[must_use]
    pub fn title(&self) -> &'static str {
        let is_all = matches!(&self.on, ActionObject::Letters { of, .. } if of.is_empty());
        match self.doing {
            ActionVerb::Hold if is_all => "Hold all",
            ActionVerb::Retry if is_all => "Retry all now",
            ActionVerb::GiveUp if is_all => "Give up all",
            ActionVerb::Replay if is_all => "Replay all",
            doing => doing.title(),
        }
    }

    /// Returns the action as a relative address: `act?do=hold&topic=...`.
    #[must_use]
    pub fn to_address(&self) -> String {
        let mut pairs = vec![("do", self.doing.name().to_owned())];
        match &self.on {
            ActionObject::Letters { of, since, until } => {
                pairs.extend(of.iter().map(|(field, value)| (field.name(), value.to_owned())));
                pairs.extend(since.map(|since| ("since", since.to_string())));
                pairs.extend(until.map(|until| ("until", until.to_string())));
            }
            ActionObject::Archived { id, at } => {
                pairs.push(("id", id.clone()));
                pairs.extend(at.map(|at| ("at", at.to_string())));
            }
            ActionObject::Waiting { id } | ActionObject::Replay(id) => pairs.push(("id", id.clone())),
            ActionObject::Override(id) => pairs.push(("override", id.clone())),
        }
        address("act", &pairs)
    }

    /// Reads the query part of an address that [`PageAction::to_address`] made.
    ///
    /// # Errors
    ///
    /// [`BadQuery`] if the query is invalid, or if no command can name these letters (see
    /// [`PageAction::names_its_letters`]).
    pub fn from_address(query: &str) -> Result<Self, BadQuery> {
        let pairs = form_urlencoded::parse(query.as_bytes());
        let mut left =
            UnusedParameters::new(pairs.map(|(name, text)| (name.into_owned(), text.into_owned())))?;
        let doing = left.take("do").ok_or(BadQuery::Missing("do"))?;
        let doing =
            ActionVerb::ALL.into_iter().find(|it| it.name() == doing).ok_or(BadQuery::Unknown(doing))?;
        let id = |left: &mut UnusedParameters, name| given(left, name)?.ok_or(BadQuery::Missing(name));
        let on = match doing {
            ActionVerb::Hold | ActionVerb::Retry | ActionVerb::GiveUp => match given(&mut left, "id")? {
                Some(id) => ActionObject::Waiting { id },
                None => ActionObject::Letters { of: left.filter(), since: None, until: None },
            },
            ActionVerb::Replay => {
                if let Some(id) = given(&mut left, "id")? {
                    ActionObject::Archived { id, at: moment(&mut left, "at")? }
                } else {
                    let (since, until) = (moment(&mut left, "since")?, moment(&mut left, "until")?);
                    ActionObject::Letters { of: left.filter(), since, until }
                }
            }
            ActionVerb::Edit => {
                ActionObject::Archived { id: id(&mut left, "id")?, at: moment(&mut left, "at")? }
            }
            ActionVerb::Release => ActionObject::Override(id(&mut left, "override")?),
            ActionVerb::Stop | ActionVerb::Resume => ActionObject::Replay(id(&mut left, "id")?),
        };
        left.end()?;
        let act = Self { doing, on };
        if act.names_its_letters() { Ok(act) } else { Err(BadQuery::TooWide) }
    }

    /// Reports whether the command selects these letters, or is meant for all letters. A command that can
    /// express no field of the filter would touch every letter.
    #[must_use]
    pub fn names_its_letters(&self) -> bool {
        let ActionObject::Letters { of, .. } = &self.on else { return true };
        of.is_empty() || !self.options(of).is_empty()
    }

    /// Returns the arguments of `redrivectl`, without the stack and the reason. For one archived letter this
    /// is `archive show --json`: `replay --from -` reads its output.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        match (self.doing, &self.on) {
            (doing, ActionObject::Letters { of, since, until }) => {
                let mut line = words(&[doing.name()]);
                line.extend(self.options(of));
                let times = [("--since", since), ("--until", until)];
                let times = times.into_iter().filter_map(|(name, at)| Some((name, at.as_ref()?)));
                line.extend(times.flat_map(|(name, at)| [name.to_owned(), at.to_string()]));
                // With a time range the command does not touch the whole archive, so it needs no `--all`.
                if of.is_empty() && line.len() == 1 {
                    line.push("--all".to_owned());
                }
                line
            }
            (doing, ActionObject::Waiting { id }) => {
                words(&[doing.name(), "--match", &json!({ "letterId": [id] }).to_string()])
            }
            (_, ActionObject::Archived { id, at }) => {
                let mut line = words(&["archive", "show", "--json"]);
                if let Some(at) = at {
                    let until = at.saturating_add(SignedDuration::from_secs(1)).unwrap_or(Timestamp::MAX);
                    line.extend(words(&["--since", &at.to_string(), "--until", &until.to_string()]));
                }
                // Without `--`, an id that begins with a dash would be read as an option.
                line.extend(id.starts_with('-').then(|| "--".to_owned()));
                line.push(id.clone());
                line
            }
            (_, ActionObject::Override(id)) => words(&["overrides", "release", id]),
            (ActionVerb::Resume, ActionObject::Replay(id)) => words(&["replay", "--resume", id]),
            (_, ActionObject::Replay(id)) => words(&["replay", "stop", id]),
        }
    }

    /// Returns the fields of the filter that the command cannot express. It touches letters with any value in
    /// these fields.
    #[must_use]
    pub fn beyond(&self) -> Vec<GroupField> {
        let ActionObject::Letters { of, .. } = &self.on else { return Vec::new() };
        // An option cannot select letters without a value. A pattern can.
        let is_unknown = |(field, value): &(GroupField, &str)| {
            path_in_patterns(*field).is_none() && (value.is_empty() || !self.named().contains(field))
        };
        of.iter().filter(is_unknown).map(|(field, _)| field).collect()
    }

    /// Returns the fields that the command has an option for.
    fn named(&self) -> &'static [GroupField] {
        if self.doing == ActionVerb::Replay { &REPLAYS } else { &OVERRIDES }
    }

    /// Returns the options that select the letters.
    fn options(&self, of: &Filter) -> Vec<String> {
        options(of, self.named())
    }

    /// Returns the command as a line to paste into a shell.
    #[must_use]
    pub fn command(&self, stack: Option<&str>) -> String {
        self.lines(stack, false)
    }

    /// Returns the command as a line that is safe to run: a replay only counts its letters, and an override asks
    /// before it does anything.
    #[must_use]
    pub fn trial(&self, stack: Option<&str>) -> String {
        self.lines(stack, true)
    }

    /// Returns the command that searches the whole archive for a letter.
    #[must_use]
    pub(crate) fn find(id: &str, stack: Option<&str>) -> String {
        Self { doing: ActionVerb::Replay, on: ActionObject::Archived { id: id.to_owned(), at: None } }
            .line(stack)
    }

    /// Returns the first line of the command.
    fn line(&self, stack: Option<&str>) -> String {
        let mut words = self.words();
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        words.splice(end..end, stack.into_iter().flat_map(|stack| ["--stack".to_owned(), stack.to_owned()]));
        words.insert(0, "redrivectl".to_owned());
        command_line(words)
    }

    /// Returns the commands that write the letter into the file `letter.jsonl`, one a line; `None` for other
    /// actions.
    #[must_use]
    pub fn to_file(&self, stack: Option<&str>) -> Option<String> {
        matches!(self.on, ActionObject::Archived { .. }).then(|| self.file(&self.line(stack)))
    }

    fn file(&self, line: &str) -> String {
        let edit = if self.doing == ActionVerb::Edit { "\n$EDITOR letter.jsonl" } else { "" };
        format!("{line} > letter.jsonl{edit}")
    }

    fn lines(&self, stack: Option<&str>, is_trial: bool) -> String {
        let line = self.line(stack);
        let stack = stack.map(|stack| format!(" {}", command_line(["--stack", stack]))).unwrap_or_default();
        let trial = if is_trial { " --dry-run" } else { "" };
        match (self.doing, &self.on) {
            (_, ActionObject::Archived { .. }) => {
                let file = self.file(&line);
                format!("{file}\nredrivectl replay --from letter.jsonl{stack} --why 'WHY'{trial}")
            }
            (ActionVerb::Replay, _) => format!("{line} --why 'WHY'{trial}"),
            _ => format!("{line} --why 'WHY'"),
        }
    }
}

/// The fields that the commands for overrides have an option for.
const OVERRIDES: [GroupField; 4] =
    [GroupField::Topic, GroupField::Subscription, GroupField::Target, GroupField::Queue];

/// The fields that `replay` has an option for.
const REPLAYS: [GroupField; 5] =
    [GroupField::Topic, GroupField::Target, GroupField::Error, GroupField::Reason, GroupField::Queue];

/// Takes an id. Returns `None` for an empty one, so that it cannot select every letter.
fn given(left: &mut UnusedParameters, name: &'static str) -> Result<Option<String>, BadQuery> {
    match left.take(name) {
        Some(id) if id.is_empty() => Err(BadQuery::Missing(name)),
        id => Ok(id),
    }
}

/// Takes a point in time.
fn moment(left: &mut UnusedParameters, name: &'static str) -> Result<Option<Timestamp>, BadQuery> {
    left.take(name).map(|at| at.parse().map_err(|_| BadQuery::Range)).transpose()
}

/// Returns the path of a field in the JSON that patterns match; `None` for a field that patterns cannot see.
fn path_in_patterns(field: GroupField) -> Option<&'static str> {
    match field {
        GroupField::Topic => Some("topicArn"),
        GroupField::Subscription => Some("subscriptionArn"),
        _ => None,
    }
}

/// Returns an option for each field that has one, and a pattern for the rest.
fn options(of: &Filter, named: &[GroupField]) -> Vec<String> {
    let (mut options, mut pattern) = (Vec::new(), Map::new());
    for (field, value) in of.iter() {
        match path_in_patterns(field) {
            Some(path) if value.is_empty() => {
                pattern.insert(path.to_owned(), json!([{ "exists": false }]));
            }
            _ if value.is_empty() => {}
            _ if named.contains(&field) => {
                let name = format!("--{}", field.name());
                if value.starts_with('-') {
                    // As a word of its own, the value would be read as an option.
                    options.push(format!("{name}={value}"));
                } else {
                    options.extend([name, value.to_owned()]);
                }
            }
            Some(path) => {
                pattern.insert(path.to_owned(), json!([value]));
            }
            None => {}
        }
    }
    if !pattern.is_empty() {
        options.extend(["--match".to_owned(), serde_json::Value::Object(pattern).to_string()]);
    }
    options
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::collection::vec;
    use proptest::test_runner::TestRunner;
    use redrive_testing::shell::{ShellToken, hostile, tokens};

    use super::*;
    use crate::text::harmless;

    #[test]
    fn a_shell_reads_in_the_command_of_each_action_the_words_that_were_meant() {
        let read = Cell::new(0);
        let law = |texts: Vec<String>| {
            let [one, two, three, stack] = [0, 1, 2, 3].map(|at| texts[at].as_str());
            for (pairs, obeyed) in [
                (vec![("do", "hold"), ("topic", one), ("queue", two), ("subscription", three)], ""),
                (vec![("do", "retry"), ("id", one)], ""),
                (vec![("do", "replay"), ("topic", one), ("target", two), ("error", three)], ""),
                (vec![("do", "replay"), ("reason", one), ("subscription", two)], ""),
                (vec![("do", "replay"), ("id", one), ("at", "2026-11-01T12:00:00Z")], ">\n"),
                (vec![("do", "edit"), ("id", one)], ">\n$\n"),
                (vec![("do", "release"), ("override", one)], ""),
                (vec![("do", "stop"), ("id", one)], ""),
                (vec![("do", "resume"), ("id", one)], ""),
            ] {
                let pairs: Vec<_> = pairs.into_iter().map(|(name, text)| (name, text.to_owned())).collect();
                let query = address("act", &pairs);
                // The random text may make an invalid address.
                let Ok(act) = PageAction::from_address(query.split_once('?').unwrap().1) else { continue };
                for line in [act.command(Some(stack)), act.trial(Some(stack))] {
                    let all = tokens(&line).unwrap_or_else(|_| panic!("{line}"));
                    let operators = all.iter().filter_map(|token| match token {
                        ShellToken::Obeyed(c) => Some(*c),
                        ShellToken::Word(_) => None,
                    });
                    assert_eq!(operators.collect::<String>(), obeyed, "{line}");
                    let words = all.into_iter().map_while(|token| match token {
                        ShellToken::Word(word) => Some(word),
                        ShellToken::Obeyed(_) => None,
                    });
                    let words: Vec<_> = words.collect();
                    let meant = act.words().iter().map(|word| harmless(word)).collect::<Vec<_>>();
                    let named = ["--stack".to_owned(), harmless(stack)];
                    let at = words.windows(2).rposition(|pair| pair == named.as_slice());
                    let mut rest = words[1..].to_vec();
                    rest.drain(at.unwrap() - 1..=at.unwrap());
                    assert_eq!(rest[..meant.len()], meant, "{line}");
                    read.set(read.get() + 1);
                }
            }
            Ok(())
        };
        TestRunner::default().run(&vec(hostile(), 4), law).unwrap();
        assert!(read.get() > 1000, "{}", read.get());
    }
}
