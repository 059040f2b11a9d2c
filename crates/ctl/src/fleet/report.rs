//! The lines of a fleet.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::places::FleetPlace;
use super::stack_facts::{FleetStack, Seen, StackFacts};
use crate::console::CommandEnd;
use crate::output::CommandResult;
use crate::tables::{TextStyle, brief, count, harmless, thousands};

/// The stacks of a fleet.
pub(super) struct FleetReport {
    pub(super) lines: Vec<FleetLine>,
}

/// A stack, or a place in which none could be seen.
pub(super) struct FleetLine {
    account: String,
    /// The account by its whole ARN.
    whole_account: String,
    region: String,
    stack: Option<String>,
    facts: Result<StackFacts, Option<String>>,
}

impl FleetLine {
    pub(super) fn of(place: &FleetPlace, region: &str, stack: &FleetStack, facts: StackFacts) -> Self {
        Self::in_place(place, region.to_owned(), Some(stack.name.clone()), Ok(facts))
    }

    /// Returns the line of a place or a stack that could not be seen.
    pub(super) fn unseen(place: &FleetPlace, stack: Option<&str>, unseen: &Seen<()>) -> Self {
        let region = place.region.clone().unwrap_or_else(|| "?".to_owned());
        let why = why(unseen).unwrap_or_default();
        Self::in_place(place, region, stack.map(str::to_owned), Err(Some(why)))
    }

    /// Returns the line of a place without stacks.
    pub(super) fn empty(place: &FleetPlace, region: String) -> Self {
        Self::in_place(place, region, None, Err(None))
    }

    fn in_place(
        place: &FleetPlace,
        region: String,
        stack: Option<String>,
        facts: Result<StackFacts, Option<String>>,
    ) -> Self {
        let (account, whole_account) = (place.account().to_owned(), place.whole_account().to_owned());
        Self { account, whole_account, region, stack, facts }
    }

    fn is_unseen(&self) -> bool {
        match &self.facts {
            Err(why) => why.is_some(),
            Ok(StackFacts { waiting, archived_today, alarms, oldest, version }) => {
                let unseen = [why(waiting), why(archived_today), why(alarms), why(oldest), why(version)];
                unseen.iter().any(Option::is_some)
            }
        }
    }

    fn has_alarm(&self) -> bool {
        let alarms = self.facts.as_ref().map(|facts| &facts.alarms);
        matches!(alarms, Ok(Seen::Known(names)) if !names.is_empty())
    }

    /// Returns the number of letters that wait; `None` if it could not be seen.
    fn waiting(&self) -> Option<u64> {
        seen(&self.facts.as_ref().ok()?.waiting).copied()
    }

    fn row(&self, style: TextStyle) -> Vec<String> {
        let account = if style.wide { &self.whole_account } else { &self.account };
        let stack = self.stack.as_deref().map_or("-".to_owned(), harmless);
        let mut row = vec![harmless(account), harmless(&self.region), stack];
        match &self.facts {
            Err(Some(why)) => row.push(harmless(why)),
            Err(None) => row.push("no stack of sns-redrive".to_owned()),
            Ok(facts) => row.extend(facts.cells()),
        }
        row
    }

    fn to_json(&self) -> Value {
        let mut line = json!({ "account": self.account, "region": self.region, "stack": self.stack });
        match &self.facts {
            Err(why) => {
                let unseen: BTreeMap<_, _> = why.iter().map(|why| ("stack", why)).collect();
                line["unseen"] = json!(unseen);
            }
            Ok(facts) => facts.write(&mut line),
        }
        line
    }
}

impl StackFacts {
    fn cells(&self) -> [String; 5] {
        [
            cell(&self.waiting, |letters| format!("~{}", thousands(*letters))),
            cell(&self.archived_today, |(letters, is_all)| {
                format!("{}{}", thousands(*letters), if *is_all { "" } else { " or more" })
            }),
            cell(&self.alarms, |names| match names.as_slice() {
                [] => "none".to_owned(),
                names => format!("{}: {}", names.len(), harmless(&names.join(", "))),
            }),
            cell(&self.oldest, |age| age.map_or("-".to_owned(), brief)),
            cell(&self.version, |version| harmless(version)),
        ]
    }

    fn write(&self, line: &mut Value) {
        let mut unseen = serde_json::Map::new();
        let mut put = |field: &str, value: Option<Value>, why: Option<String>| {
            line[field] = value.unwrap_or_default();
            unseen.extend(why.map(|why| (field.to_owned(), Value::from(why))));
        };
        put("waiting", seen(&self.waiting).map(|letters| json!(letters)), why(&self.waiting));
        let archived = seen(&self.archived_today);
        put("archivedToday", archived.map(|(letters, _)| json!(letters)), why(&self.archived_today));
        put("archivedTodayIsAll", archived.map(|(_, is_all)| json!(is_all)), None);
        put("alarms", seen(&self.alarms).map(|names| json!(names)), why(&self.alarms));
        put("oldestSeconds", seen(&self.oldest).map(|age| json!(age)), why(&self.oldest));
        put("version", seen(&self.version).map(|version| json!(version)), why(&self.version));
        line["unseen"] = Value::Object(unseen);
    }
}

impl CommandResult for FleetReport {
    fn text(&self, style: TextStyle) -> String {
        let header =
            ["account", "region", "stack", "waiting", "archived today", "alarms", "oldest", "version"];
        let mut lines: Vec<_> = self.lines.iter().collect();
        lines.sort_by_key(|line| Reverse(line.waiting()));
        let rows = lines.iter().map(|line| line.row(style));
        let rows: Vec<_> = std::iter::once(header.map(str::to_owned).to_vec()).chain(rows).collect();
        let red: Vec<_> =
            (1..).zip(&lines).filter(|(_, line)| line.has_alarm()).map(|(row, _)| row).collect();
        let stacks = self.lines.iter().filter(|line| line.facts.is_ok()).count() as u64;
        let number = |is: fn(&FleetLine) -> bool| self.lines.iter().filter(|line| is(line)).count() as u64;
        let (alarms, unseen) = (number(FleetLine::has_alarm), number(FleetLine::is_unseen));
        let mut sums = count(stacks, "stack");
        if alarms > 0 {
            sums = format!("{sums}; {} with an alarm", thousands(alarms));
        }
        if unseen > 0 {
            sums = format!("{sums}; {} not wholly seen", count(unseen, "line"));
        }
        format!("{}\n{sums}.\n", style.table(&rows, &[], &red))
    }

    fn json(&self) -> Value {
        json!({ "stacks": self.lines.iter().map(FleetLine::to_json).collect::<Vec<_>>() })
    }

    fn finished(&self) -> CommandEnd {
        if self.lines.iter().any(FleetLine::has_alarm) {
            CommandEnd::NeedsPerson
        } else if self.lines.iter().any(FleetLine::is_unseen) {
            CommandEnd::Unseen
        } else {
            CommandEnd::Whole
        }
    }
}

fn seen<T>(fact: &Seen<T>) -> Option<&T> {
    match fact {
        Seen::Known(value) => Some(value),
        Seen::Denied(_) | Seen::NoAnswer | Seen::Failed(_) => None,
    }
}

/// Returns why something could not be seen.
fn why<T>(fact: &Seen<T>) -> Option<String> {
    match fact {
        Seen::Known(_) => None,
        Seen::Denied(call) => Some(format!("denied ({call})")),
        Seen::NoAnswer => Some("no answer".to_owned()),
        Seen::Failed(why) => Some(why.clone()),
    }
}

fn cell<T>(fact: &Seen<T>, text: impl FnOnce(&T) -> String) -> String {
    match seen(fact) {
        Some(value) => text(value),
        None => why(fact).map_or_else(String::new, |why| harmless(&why)),
    }
}
