//! Actions: what an operator may do about what a page shows, as a command line of `redrivectl`.

use jiff::Timestamp;
use serde_json::{Map, json};
use url::form_urlencoded;

use crate::query::{BadQuery, Field, Filter, Left, address};
use crate::text::{harmless, word};

/// An action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// What is done.
    pub doing: Doing,
    /// With what.
    pub on: On,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Letters get an order: no attempts.
    Hold,
    /// Letters get an order: an attempt at once.
    Retry,
    /// Letters get an order: into the archive.
    Archive,
    /// Archived letters are sent again.
    Replay,
    /// An archived letter is edited, and sent again.
    Edit,
    /// An order is taken back.
    Release,
    /// A replay stops.
    Stop,
    /// A replay goes on.
    Resume,
}

/// What an action is done with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum On {
    /// A group of letters.
    Letters {
        /// The letters.
        of: Filter,
        /// Archived at this time or later; only for archived letters.
        since: Option<Timestamp>,
    },
    /// One archived letter.
    Letter {
        /// SQS's message id, or the letter's own.
        id: String,
    },
    /// An order, by its id.
    Order(String),
    /// A replay, by its id.
    Replay(String),
}

impl Doing {
    /// Everything that may be done.
    pub const ALL: [Self; 8] = [
        Self::Hold,
        Self::Retry,
        Self::Archive,
        Self::Replay,
        Self::Edit,
        Self::Release,
        Self::Stop,
        Self::Resume,
    ];

    /// Returns its name in addresses.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Retry => "retry",
            Self::Archive => "archive",
            Self::Replay => "replay",
            Self::Edit => "edit",
            Self::Release => "release",
            Self::Stop => "stop",
            Self::Resume => "resume",
        }
    }

    /// Returns its name on pages.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Hold => "Hold",
            Self::Retry => "Retry now",
            Self::Archive => "Archive",
            Self::Replay => "Replay",
            Self::Edit => "Edit and replay",
            Self::Release => "Release",
            Self::Stop => "Stop",
            Self::Resume => "Resume",
        }
    }
}

impl Act {
    /// Returns the action as a relative address: `act?do=hold&topic=...`.
    #[must_use]
    pub fn to_address(&self) -> String {
        let mut pairs = vec![("do", self.doing.name().to_owned())];
        match &self.on {
            On::Letters { of, since } => {
                pairs.extend(of.iter().map(|(field, value)| (field.name(), value.to_owned())));
                pairs.extend(since.map(|since| ("since", since.to_string())));
            }
            On::Letter { id } | On::Replay(id) => pairs.push(("id", id.clone())),
            On::Order(id) => pairs.push(("order", id.clone())),
        }
        address("act", &pairs)
    }

    /// Reads what stands behind the question mark of [`Act::to_address`].
    ///
    /// # Errors
    ///
    /// [`BadQuery`].
    pub fn from_address(query: &str) -> Result<Self, BadQuery> {
        let pairs = form_urlencoded::parse(query.as_bytes());
        let mut left = Left::new(pairs.map(|(name, text)| (name.into_owned(), text.into_owned())))?;
        let doing = left.take("do").ok_or(BadQuery::Missing("do"))?;
        let doing = Doing::ALL.into_iter().find(|it| it.name() == doing).ok_or(BadQuery::Unknown(doing))?;
        let mut id = |name| left.take(name).filter(|id| !id.is_empty()).ok_or(BadQuery::Missing(name));
        let on = match doing {
            Doing::Hold | Doing::Retry | Doing::Archive => On::Letters { of: left.filter(), since: None },
            Doing::Replay => {
                if let Ok(id) = id("id") {
                    On::Letter { id }
                } else {
                    let since = left.take("since").map(|at| at.parse().map_err(|_| BadQuery::Range));
                    On::Letters { since: since.transpose()?, of: left.filter() }
                }
            }
            Doing::Edit => On::Letter { id: id("id")? },
            Doing::Release => On::Order(id("order")?),
            Doing::Stop | Doing::Resume => On::Replay(id("id")?),
        };
        left.end()?;
        Ok(Self { doing, on })
    }

    /// Returns the words of the command line behind `redrivectl`, without the stack and the reason. A letter is named to
    /// `archive show --json`, whose output `replay --from -` reads.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        match (self.doing, &self.on) {
            (Doing::Hold | Doing::Retry | Doing::Archive, On::Letters { of, .. }) => {
                [words(&[self.doing.name()]), order_options(of)].concat()
            }
            (_, On::Letters { of, since }) => {
                let since = since.map(|since| vec!["--since".to_owned(), since.to_string()]);
                [words(&["replay"]), archive_options(of), since.unwrap_or_default()].concat()
            }
            (_, On::Letter { id }) => words(&["archive", "show", "--json", id]),
            (_, On::Order(id)) => words(&["release", id]),
            (Doing::Resume, On::Replay(id)) => words(&["replay", "--resume", id]),
            (_, On::Replay(id)) => words(&["replays", "stop", id]),
        }
    }

    /// Returns the fields of its letters that the command cannot name: it touches letters with any value of these.
    #[must_use]
    pub fn beyond(&self) -> Vec<Field> {
        let On::Letters { of, .. } = &self.on else { return Vec::new() };
        let known: &[Field] = match self.doing {
            Doing::Replay => {
                &[Field::Topic, Field::Subscription, Field::Target, Field::Error, Field::Reason, Field::Queue]
            }
            _ => &[Field::Topic, Field::Subscription, Field::Queue],
        };
        let is_unknown = |(field, value): &(Field, &str)| {
            let needs_value = matches!(field, Field::Target | Field::Error | Field::Reason);
            !known.contains(field) || (needs_value && value.is_empty())
        };
        of.iter().filter(is_unknown).map(|(field, _)| field).collect()
    }

    /// Returns the command as a line that can be pasted into a shell.
    #[must_use]
    pub fn command(&self, stack: Option<&str>) -> String {
        let stack = stack.map(|stack| format!(" --stack {}", word(stack))).unwrap_or_default();
        let words: Vec<_> = self.words().iter().map(|text| word(text)).collect();
        let line = format!("redrivectl {}{stack}", words.join(" "));
        let line = match self.on {
            On::Letter { .. } if self.doing == Doing::Edit => {
                format!(
                    "{line} > letter.jsonl\n$EDITOR letter.jsonl\nredrivectl replay --from letter.jsonl{stack}"
                )
            }
            On::Letter { .. } => format!("{line} | redrivectl replay --from -{stack}"),
            On::Replay(_) if self.doing == Doing::Resume => line,
            _ => format!("{line} --why 'WHY'"),
        };
        line.split('\n').map(harmless).collect::<Vec<_>>().join("\n")
    }
}

/// The options by which orders name letters.
fn order_options(of: &Filter) -> Vec<String> {
    let options = options(of, &[Field::Topic, Field::Subscription, Field::Queue]);
    if options.is_empty() { vec!["--all".to_owned()] } else { options }
}

/// The options by which archived letters are named.
fn archive_options(of: &Filter) -> Vec<String> {
    let options = options(of, &[Field::Topic, Field::Target, Field::Error, Field::Reason, Field::Queue]);
    if options.is_empty() { vec!["--all".to_owned()] } else { options }
}

/// The options that are named as their fields are, and a pattern for what no option can say.
fn options(of: &Filter, named: &[Field]) -> Vec<String> {
    let (mut options, mut pattern) = (Vec::new(), Map::new());
    for (field, value) in of.iter() {
        let path = match field {
            Field::Topic => Some("topicArn"),
            Field::Subscription => Some("subscriptionArn"),
            _ => None,
        };
        match path {
            Some(path) if value.is_empty() => {
                pattern.insert(path.to_owned(), json!([{ "exists": false }]));
            }
            _ if value.is_empty() => {}
            _ if named.contains(&field) => {
                options.extend([format!("--{}", field.name()), value.to_owned()]);
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
