//! The result of a look, as text and JSON.

use jiff::Timestamp;
use redrive_console::schedule::Timetable;
use redrive_core::arn::Arn;
use redrive_core::endpoint::TargetName;
use redrive_core::policy::{Policy, Rule, RuleAction, expiry_margin, plus};
use serde_json::{Value, json};

use super::group_causes::{GroupCause, GroupCauses, GroupLog};
use super::letter_groups::{AGE_CLASSES, LetterGroup, PolicyForecast};
use super::looked_queue::LookedQueue;
use super::setup_file::SetupFile;
use super::take_letters::TakeEnd;
use crate::console::CommandEnd;
use crate::endpoint_state::EndpointFinding;
use crate::output::CommandResult;
use crate::tables::{TableNames, TextStyle, clock, count, harmless, table, thousands, utc};

/// What a look has found.
pub(super) struct LookReport<'p> {
    /// The file of parameters that was written.
    pub(super) setup_file: Option<SetupFile>,
    pub(super) looked: LookedQueue,
    pub(super) groups: Vec<LetterGroup>,
    /// The causes of the groups, in their order.
    pub(super) causes: GroupCauses,
    pub(super) letters: u64,
    /// Messages without an id or a timestamp.
    pub(super) unreadable: u64,
    pub(super) end: TakeEnd,
    /// True if letters could not be given back.
    pub(super) has_failed: bool,
    pub(super) policy: &'p Policy,
}

impl CommandResult for LookReport<'_> {
    fn text(&self, style: TextStyle) -> String {
        let names = TableNames::of(self.named(), style);
        let blocks = self.groups.iter().zip(&self.causes.0).enumerate();
        let blocks: String = blocks
            .map(|(index, (group, cause))| self.block(index + 1, group, cause, &names, style))
            .collect();
        let setup_file = self.setup_file.as_ref().map(SetupFile::text).unwrap_or_default();
        format!("{blocks}{}\n{}{setup_file}", self.sum(), self.advice())
    }

    fn json(&self) -> Value {
        let groups =
            self.groups.iter().zip(&self.causes.0).map(|(group, cause)| self.group_json(group, cause));
        let mut report = json!({
            "queueArn": self.looked.queue.arn,
            "retentionSeconds": self.looked.retention,
            "visible": self.looked.visible,
            "hidden": self.looked.hidden,
            "letters": self.letters,
            "unreadable": self.unreadable,
            "complete": self.is_whole(),
            "groups": groups.collect::<Vec<_>>(),
        });
        if let Some(setup_file) = &self.setup_file {
            report["setupFile"] = setup_file.json();
        }
        report
    }

    fn finished(&self) -> CommandEnd {
        if self.has_failed || matches!(self.end, TakeEnd::Failed(_)) {
            return CommandEnd::Partly;
        }
        let is_unseen =
            self.causes.are_unseen() || self.setup_file.as_ref().is_some_and(SetupFile::is_unseen);
        if is_unseen { CommandEnd::Unseen } else { CommandEnd::Whole }
    }
}

impl LookReport<'_> {
    /// Returns the ARNs and targets that the groups name.
    fn named(&self) -> impl Iterator<Item = &str> {
        let keys = self.groups.iter().map(|group| &group.key);
        let arns = keys.flat_map(|key| [&key.topic, &key.subscription, &key.failed]);
        let arns = arns.map(|arn| arn.as_ref().map(Arn::as_str));
        let targets = self.causes.0.iter().map(|cause| cause.target.as_ref().map(TargetName::as_str));
        arns.chain(targets).flatten()
    }

    /// Returns a group as lines.
    fn block(
        &self,
        number: usize,
        group: &LetterGroup,
        cause: &GroupCause,
        names: &TableNames,
        style: TextStyle,
    ) -> String {
        let mut lines = Vec::new();
        let mut say = |what: &str, text: String| lines.push(vec![format!("   {what}"), harmless(&text)]);
        let key = &group.key;
        say("origin", key.origin.to_owned());
        for (what, arn) in
            [("topic", &key.topic), ("subscription", &key.subscription), ("failed", &key.failed)]
        {
            if let Some(arn) = arn {
                say(what, names.name(arn.as_str()));
            }
        }
        if let Some(claim) = key.claim {
            say("claims", format!("origin {claim}, which the policy must list to be believed"));
        }
        if let Some(target) = &cause.target {
            say("target", names.name(target.as_str()));
        }
        say("arrived", format!("{} to {} UTC", utc(group.oldest), utc(group.newest)));
        say("age", ages(group));
        say("rule", key.rule.clone());
        say("now", would(&group.would));
        if let Some(schedule) = self.schedule(group) {
            say("schedule", schedule);
        }
        if let Some(state) = &cause.state {
            let what = match state.finding {
                EndpointFinding::Broken => "why",
                EndpointFinding::Works => "endpoint",
                EndpointFinding::CannotTell => "unknown",
            };
            say(what, state.says.clone());
        }
        match &cause.log {
            Some(Ok(GroupLog::Failures(failures))) if failures.0.is_empty() => {
                say("log", "no failure of this endpoint in the hour before the newest letter".to_owned());
            }
            Some(Ok(GroupLog::Failures(failures))) => say("log", format!("SNS logged {failures}")),
            Some(Ok(GroupLog::Unknown)) => {
                say(
                    "log",
                    "too long to be read whole, and what was read has no failure of this endpoint".to_owned(),
                );
            }
            Some(Ok(GroupLog::Off { command })) => say(
                "log",
                format!(
                    "SNS does not log why it gives up. With a role that SNS may assume and that may write logs: {command}"
                ),
            ),
            Some(Err(error)) => say("log", format!("{} failed ({})", error.call, error.reason())),
            None => {}
        }
        let head = style.head(&format!("{number}. {}", count(group.letters, "letter")));
        format!("{head}\n{}\n", table(&lines, &[]))
    }

    /// Returns the schedule of a group, and its end.
    fn schedule(&self, group: &LetterGroup) -> Option<String> {
        let (rule, ends) = (self.rule(group)?, group.would.ends?);
        if rule.action != RuleAction::Redrive {
            return Some(format!("archived at the latest {}", utc(ends)));
        }
        let timetable = Timetable::of(rule, self.looked.retention);
        let retries = count(timetable.schedule.retries.into(), "retry");
        Some(format!(
            "{retries} over {}; if all fail, the last letter is archived {} at the latest",
            clock(timetable.length()),
            utc(ends)
        ))
    }

    fn rule(&self, group: &LetterGroup) -> Option<&Rule> {
        self.policy.all_rules().find(|rule| rule.name == group.key.rule)
    }

    /// Returns when a letter is archived at the latest, because SQS would drop it.
    fn kept_until(&self, arrived: Timestamp) -> Timestamp {
        let retention = self.looked.retention;
        plus(arrived, retention.saturating_sub(expiry_margin(retention)))
    }

    /// Reports whether every visible letter was received. A FIFO queue hands over no more letters of a group while some of it are
    /// hidden.
    fn is_whole(&self) -> bool {
        let is_short = self.looked.queue.arn.is_fifo() && self.letters < self.looked.visible;
        self.end == TakeEnd::Empty && !is_short
    }

    /// Returns how much was seen.
    fn sum(&self) -> String {
        let LookedQueue { queue, visible, hidden, .. } = &self.looked;
        let all = match &self.end {
            TakeEnd::Empty if !self.is_whole() => {
                "of a FIFO queue, which hands over only the first letters of each message group".to_owned()
            }
            TakeEnd::Empty => "all that could be received".to_owned(),
            TakeEnd::Enough => format!("of about {} that can be received (--letters)", thousands(*visible)),
            TakeEnd::OutOfTime | TakeEnd::Interrupted => {
                format!("of about {} that can be received: the time was over", thousands(*visible))
            }
            TakeEnd::Failed(failure) => {
                format!("then sqs:ReceiveMessage failed ({})", harmless(&failure.told()))
            }
        };
        let unreadable = match self.unreadable {
            0 => String::new(),
            number => format!(" {} could not be read.", count(number, "message")),
        };
        let hidden = match hidden {
            0 => String::new(),
            hidden => format!(" About {} hidden, which nobody can look at.", were(*hidden)),
        };
        format!(
            "Looked at {} of {} in {}, {all}.{unreadable}{hidden}",
            count(self.letters, "letter"),
            queue.arn.resource(),
            count(self.groups.len() as u64, "group")
        )
    }

    /// Returns advice about letters that would get no schedule of their own.
    fn advice(&self) -> String {
        let last: u64 = self.groups.iter().map(|group| group.would.last_retries).sum();
        if last == 0 {
            return String::new();
        }
        let get = if last == 1 { "gets" } else { "get" };
        format!(
            "{} {get} one retry and no other: older than the schedule, received too often, or of a rule with one retry. \
             With SCHEDULE_FROM a schedule begins when you want (--schedule-from).\n",
            count(last, "letter")
        )
    }

    fn group_json(&self, group: &LetterGroup, cause: &GroupCause) -> Value {
        let key = &group.key;
        let names = AGE_CLASSES.iter().map(|(_, name)| *name).chain(["older"]);
        let ages: serde_json::Map<_, _> =
            names.zip(&group.ages).map(|(name, number)| (name.to_owned(), json!(number))).collect();
        let would = &group.would;
        let mut value = json!({
            "letters": group.letters,
            "origin": key.origin,
            "rule": key.rule,
            "oldest": group.oldest.to_string(),
            "newest": group.newest.to_string(),
            "ages": ages,
            "maxReceives": group.receives,
            "now": {
                "retried": would.retried, "lastRetries": would.last_retries, "hidden": would.hidden,
                "searched": would.searched, "archived": would.archived,
            },
            "keptUntil": self.kept_until(group.oldest).to_string(),
        });
        let mut put = |name: &str, part: Option<Value>| {
            if let (Some(fields), Some(part)) = (value.as_object_mut(), part) {
                fields.insert(name.to_owned(), part);
            }
        };
        put("topicArn", key.topic.as_ref().map(|arn| json!(arn)));
        put("subscriptionArn", key.subscription.as_ref().map(|arn| json!(arn)));
        put("failed", key.failed.as_ref().map(|arn| json!(arn)));
        put("claim", key.claim.map(Value::from));
        put("target", cause.target.as_ref().map(|target| json!(target)));
        put("raw", cause.is_raw.then_some(json!(true)));
        put("endpoint", cause.state.as_ref().map(|state| json!(state)));
        put("log", cause.log.as_ref().map(log_json));
        put("endsAtTheLatest", group.would.ends.map(|ends| ends.to_string().into()));
        value
    }
}

fn log_json(log: &crate::doctor::ReadResult<GroupLog>) -> Value {
    match log {
        Ok(GroupLog::Off { command }) => json!({ "on": false, "command": command }),
        Ok(GroupLog::Failures(failures)) => json!({ "on": true, "failures": failures }),
        Ok(GroupLog::Unknown) => json!({ "on": true, "failures": null }),
        Err(error) => json!({ "error": error.reason(), "call": error.call }),
    }
}

fn were(number: u64) -> String {
    let what = count(number, "letter");
    if number == 1 { format!("{what} is") } else { format!("{what} are") }
}

fn ages(group: &LetterGroup) -> String {
    let names = AGE_CLASSES.iter().map(|(_, name)| *name).chain(["older"]);
    let parts = names.zip(group.ages).filter(|(_, number)| *number > 0);
    parts.map(|(name, number)| format!("{} {name}", thousands(number))).collect::<Vec<_>>().join(", ")
}

/// Says what the policy would do with letters now.
fn would(would: &PolicyForecast) -> String {
    let mut parts = Vec::new();
    match (would.retried, would.last_retries) {
        (0, _) => {}
        (retried, 0) => parts.push(format!("{} retried at once", thousands(retried))),
        (retried, last) => parts.push(format!(
            "{} retried at once, {} of them for the last time",
            thousands(retried),
            thousands(last)
        )),
    }
    if let Some((first, last)) = would.due {
        parts.push(if first == last {
            format!("{} hidden until {}", thousands(would.hidden), utc(first))
        } else {
            format!("{} hidden until {} to {}", thousands(would.hidden), utc(first), utc(last))
        });
    }
    for (reason, number) in &would.archived {
        parts.push(format!("{} archived as {reason}", thousands(*number)));
    }
    if would.searched > 0 {
        parts.push(format!("{} whose subscription is searched for first", thousands(would.searched)));
    }
    parts.join(", ")
}
