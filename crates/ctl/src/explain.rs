//! `redrivectl explain`: shows what the function would do with an event, and why.
//!
//! The answer comes from the function's own [`Policy::read`] and [`Policy::decide`]. Facts that the function
//! would ask AWS for (the queue's retention, the subscription) come from the command line; else a note says
//! that they are unknown.

use std::collections::HashMap;
use std::io::Write;

use jiff::Timestamp;
use redrive_core::arn::Arn;
use redrive_core::batch::{KnownTargets, LetterForecast, foresee};
use redrive_core::failure::FailureClass;
use redrive_core::letter::{Letter, Origin, SqsEvent, SqsMessage};
use redrive_core::policy::{
    Decision, DeferReason, DeliverySpec, FifoHandling, LetterFacts, Override, Overrides, Policy, Retention,
    Route, Rule, SubscriptionVoucher, Verdict, plus, seconds_until,
};
use serde_json::{Map, Value, json};

use crate::args;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment, read_file, read_overrides, read_policy};
use crate::overrides::ends;
use crate::tables::{brief, clock, count, harmless, table, utc};

pub(super) fn run(
    args: &args::ExplainArgs,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    let policy = read_policy(args.policy.as_deref(), console)?;
    let overrides = read_overrides(args.overrides.as_deref(), console)?;
    let now = args.at.unwrap_or_else(|| console.clock.now());
    let letters = read_event(args, &policy, now, console)?;
    let facts = LetterFacts {
        retention: Retention::Known(args.retention),
        source_max_receives: args.source_max_receives,
        discovered: args.discovered.clone(),
        schedule_from: args.schedule_from,
        ..LetterFacts::default()
    };
    let cases = cases(&overrides, &letters, &facts, args.requeue.as_ref(), now);
    if as_json {
        let records: Vec<_> = cases.iter().map(ExplainedLetter::to_json).collect();
        writeln!(console.out, "{}", json!({ "now": now.to_string(), "records": records }))?;
        return Ok(CommandEnd::Whole);
    }
    for (index, case) in cases.iter().enumerate() {
        if index > 0 {
            writeln!(console.out)?;
        }
        writeln!(console.out, "Record {} of {}: {}", index + 1, cases.len(), case.headline())?;
        write!(console.out, "{}", table(&case.lines(), &[]))?;
    }
    Ok(CommandEnd::Whole)
}

/// A letter as its rule reads it, with the rule.
type RuledLetter<'p> = (Letter, &'p Rule);

fn read_event<'p>(
    args: &args::ExplainArgs,
    policy: &'p Policy,
    now: Timestamp,
    console: &mut ToolEnvironment,
) -> Result<Vec<RuledLetter<'p>>, CommandFailure> {
    let json = read_file(&args.event, console)?;
    let bad = |problem: String| CommandFailure::Input(vec![format!("{}: {problem}", args.event.display())]);
    // An error of serde can quote the event, so its text is not shown.
    let event: SqsEvent = serde_json::from_str(&json).map_err(|error| {
        bad(format!(
            "is not a Lambda event from SQS (error in line {}, column {})",
            error.line(),
            error.column()
        ))
    })?;
    let messages = SqsMessage::all_of(event, now).map_err(|problem| bad(problem.to_string()))?;
    // The function reads them in the same way.
    let read = |message| policy.sort(policy.read(message, args.requeue.as_ref()));
    Ok(messages.into_iter().map(read).collect())
}

/// A letter with the decision about it.
struct ExplainedLetter<'a> {
    letter: &'a Letter,
    /// The override that wins over its rule.
    override_: Option<Override>,
    verdict: Verdict<'a>,
    foresight: LetterForecast,
    now: Timestamp,
    /// The next decision if the retry that is due fails.
    if_it_fails: Option<Decision>,
    /// True if the number of receives in its source queue is known.
    source_receives_known: bool,
    /// True if the function must first search for its subscription.
    search: bool,
    /// The previous letter of its group in this event.
    behind: Option<&'a Letter>,
}

fn cases<'a>(
    overrides: &Overrides,
    letters: &'a [RuledLetter<'a>],
    facts: &LetterFacts,
    requeue: Option<&Arn>,
    now: Timestamp,
) -> Vec<ExplainedLetter<'a>> {
    let mut groups: HashMap<&str, &Letter> = HashMap::new();
    let mut cases = Vec::new();
    for (letter, rule) in letters {
        // Receives are subtracted only for letters that SQS moved.
        let source_max_receives = letter.sqs.source_queue().and(facts.source_max_receives);
        // Nobody is asked where a subscription leads.
        let target = KnownTargets::default().of(letter, rule, facts.discovered.as_ref(), false);
        let overridden = overrides.on(letter, &target, now);
        let override_ = overridden.by().cloned();
        let facts = &LetterFacts { source_max_receives, overridden, ..facts.clone() };
        let verdict = rule.decide(letter, facts, now);
        let foresight = foresee(&verdict, letter, &facts.overridden, requeue);
        let if_it_fails = match &foresight.decision {
            Decision::Deliver(retry) => Some(verdict.after_failure(*retry, FailureClass::Transient, now)),
            Decision::Defer(_) | Decision::Archive(..) => None,
        };
        let search = facts.discovered.is_none()
            && letter.sqs.unread.is_none()
            && rule.searches_for_subscription(letter, &facts.overridden);
        let group = letter.sqs.group_id().filter(|_| letter.sqs.queue.is_fifo());
        let behind = group.and_then(|group| groups.insert(group, letter));
        let source_receives_known = facts.source_max_receives.is_some();
        cases.push(ExplainedLetter {
            letter,
            override_,
            verdict,
            foresight,
            now,
            if_it_fails,
            source_receives_known,
            search,
            behind,
        });
    }
    cases
}

impl ExplainedLetter<'_> {
    /// Returns the decision in words.
    fn headline(&self) -> String {
        if self.search {
            return "the function first searches for its subscription".to_owned();
        }
        match &self.foresight.decision {
            Decision::Deliver(retry) if retry.is_early() => {
                let why = if self.override_.is_some() { "of an override" } else { "it came back early" };
                format!(
                    "an attempt now, because {why}; retry {} of {} stays planned",
                    retry.upcoming(),
                    retry.of
                )
            }
            Decision::Deliver(retry) => {
                format!("retry {} of {} now ({})", retry.number, retry.of, retry.phase.name())
            }
            Decision::Defer(deferral) => {
                format!("hidden for {}, {}", brief(deferral.hide), why(deferral.why))
            }
            Decision::Archive(reason, _) => format!("archived as {}", reason.name()),
        }
    }

    fn lines(&self) -> Vec<Vec<String>> {
        let (letter, sqs) = (self.letter, &self.letter.sqs);
        let mut lines = Vec::new();
        let mut say = |what: &str, text: String| lines.push(vec![format!("  {what}"), harmless(&text)]);
        say("message", format!("{} in {}", sqs.message_id, sqs.queue));
        if letter.id.as_str() != sqs.message_id {
            say("letter", letter.id.to_string());
        }
        say("origin", origin(letter));
        if let Some(topic) = letter.topic() {
            say("topic", topic.to_string());
        }
        if let Some(subscription) = letter.subscription() {
            say("subscription", subscription.to_string());
        }
        // A failed function can put anything into the message of its error.
        if let Some(code) = letter.cause.as_ref().and_then(|cause| cause.code.clone()) {
            say("cause", code);
        }
        say("history", self.history());
        if let Some(begins) = self.verdict.schedule_begins() {
            say("schedule", format!("counts from {} UTC, not from its arrival (SCHEDULE_FROM)", utc(begins)));
        }
        say("rule", self.verdict.rule.name.clone());
        if let Some(override_) = &self.override_ {
            let (id, action, by, why) =
                (&override_.id, override_.action.name(), &override_.by, &override_.why);
            say("override", format!("{id}: {action} {}, by {by}: {why}", ends(override_, self.now)));
        }
        if let Some(detail) = self.foresight.detail.as_ref().filter(|_| !self.search) {
            say("because", detail.clone());
        }
        if let Decision::Defer(deferral) = &self.foresight.decision {
            say("wakes", format!("{} UTC", utc(plus(self.now, deferral.hide))));
            if deferral.why != DeferReason::Hold {
                say("next retry", format!("due {} UTC", utc(deferral.due)));
            }
        }
        if let Decision::Deliver(_) = self.foresight.decision {
            say("to", route(&self.verdict.route));
        }
        if let Some(decision) = &self.if_it_fails {
            say("if it fails", self.failed(decision));
        }
        if let Some(before) = self.behind {
            let before = &before.sqs.message_id;
            let leaves = match self.verdict.rule.fifo {
                FifoHandling::Block => "is delivered",
                FifoHandling::StepAside => "is delivered or steps aside",
            };
            say(
                "but",
                format!("only if {before}, the previous letter of its group, {leaves}; else it is held"),
            );
        }
        for note in self.notes() {
            say("note", note);
        }
        lines
    }

    fn history(&self) -> String {
        let sqs = &self.letter.sqs;
        let age = seconds_until(sqs.sent, self.now);
        let received = match sqs.receive_count {
            1 => "received once".to_owned(),
            times => format!("received {times} times"),
        };
        let spent = match self.letter.mark.as_ref() {
            Some(mark) => format!(", {} made according to its mark", count(mark.spent.into(), "retry")),
            None => String::new(),
        };
        format!("in its queue for {}, {received}{spent}", clock(age))
    }

    fn failed(&self, decision: &Decision) -> String {
        match decision {
            Decision::Defer(deferral) => {
                let number = match &self.foresight.decision {
                    Decision::Deliver(retry) => retry.number + 1,
                    Decision::Defer(_) | Decision::Archive(..) => 1,
                };
                let hidden = brief(deferral.hide);
                format!("hidden for {hidden}; retry {number} is due {} UTC", utc(deferral.due))
            }
            Decision::Archive(reason, _) => format!("archived as {}", reason.name()),
            Decision::Deliver(_) => String::new(),
        }
    }

    /// Returns what the function would also ask or check.
    fn notes(&self) -> Vec<String> {
        let rule: &Rule = self.verdict.rule;
        let delivers = matches!(self.foresight.decision, Decision::Deliver(_)) && !self.search;
        let mut notes = Vec::new();
        if self.search {
            notes.push(
                "its rule searches for the subscription that names this queue; give it with --discovered"
                    .to_owned(),
            );
        }
        if self.letter.sqs.source_queue().is_some() && !self.source_receives_known {
            notes.push(
                "the function subtracts the receives in its source queue; give maxReceiveCount with --source-max-receives"
                    .to_owned(),
            );
        }
        if rule.delivery == DeliverySpec::FromSubscription {
            notes.push(
                "its subscription's delivery policy is unknown here; shown is the preset aws-managed"
                    .to_owned(),
            );
        }
        if delivers {
            notes.extend(self.foresight.unknown().map(str::to_owned));
        }
        if delivers && rule.allow_targets.is_some() && self.foresight.asks_sns {
            notes.push("its rule has allowTargets, which is not checked here".to_owned());
        }
        if delivers && matches!(&self.letter.origin, Origin::EventBridge { .. }) {
            notes.push(
                "it is sent as it was on the bus; a rule with an InputTransformer, an InputPath or an Input sends its \
                 target another event"
                    .to_owned(),
            );
        }
        notes
    }

    fn decision_json(&self) -> Value {
        let mut decision = decision_json(&self.foresight.decision);
        if let (Some(fields), Some(detail)) = (decision.as_object_mut(), &self.foresight.detail) {
            fields.insert("detail".to_owned(), detail.as_str().into());
        }
        decision
    }

    fn to_json(&self) -> Value {
        let (letter, sqs) = (self.letter, &self.letter.sqs);
        let mut value = json!({
            "sqsMessageId": sqs.message_id,
            "queueArn": sqs.queue,
            "letterId": letter.id.as_str(),
            "origin": letter.origin.name(),
            "receiveCount": sqs.receive_count,
            "sent": sqs.sent.to_string(),
            "retriesSpent": letter.spent(),
            "rule": self.verdict.rule.name,
            "decision": if self.search { json!({ "kind": "search" }) } else { self.decision_json() },
            "notes": self.notes(),
        });
        let mut put = |name: &str, part: Option<Value>| {
            if let (Some(fields), Some(part)) = (value.as_object_mut(), part) {
                fields.insert(name.to_owned(), part);
            }
        };
        let arn = |arn: &Arn| Value::from(arn.as_str());
        put("unlistedOrigin", letter.unlisted.map(|claim| claim.name().into()));
        put("scheduleFrom", self.verdict.schedule_begins().map(|begins| begins.to_string().into()));
        put("cause", letter.cause.as_ref().and_then(|cause| cause.code.clone()).map(Value::from));
        put("topicArn", letter.topic().map(arn));
        put("subscriptionArn", letter.subscription().map(arn));
        put("route", route_json(&self.verdict.route));
        put("ifItFails", self.if_it_fails.as_ref().map(decision_json));
        put("override", self.override_.as_ref().map(|override_| json!(override_)));
        put("behind", self.behind.map(|before| before.sqs.message_id.as_str().into()));
        value
    }
}

fn why(reason: DeferReason) -> &'static str {
    match reason {
        DeferReason::Failed => "after a failed retry",
        DeferReason::Early => "because it came back early",
        DeferReason::Hop => "as one hop of a long wait",
        DeferReason::Hold => "because its rule holds it",
        DeferReason::Throttled => "because its target's rate limit is reached",
        DeferReason::Overridden => "because an override holds it",
        DeferReason::OverridesUnread => "because the overrides are not known yet",
        DeferReason::TargetUnknown => "because it is not known whether an override holds its target",
        DeferReason::EndpointDown => "because its target is down",
        DeferReason::EndpointSlow => "because its target is slow, and gets its letters together",
    }
}

fn origin(letter: &Letter) -> String {
    let name = letter.origin.name();
    match &letter.origin {
        Origin::Sns => format!("{name}: SNS gave up on it"),
        Origin::Sqs { source } => format!("{name}: SQS moved it from {source}"),
        Origin::LambdaAsync => format!("{name}: from the dead-letter queue of a function"),
        Origin::LambdaDestination { function } => format!("{name}: {function} failed"),
        Origin::EventBridge { rule, target } => format!("{name}: {rule} could not reach {target}"),
        Origin::EventBusRecord => {
            format!("{name}: a record of a custom event bus, which keeps its events itself")
        }
        Origin::Raw => match letter.unlisted {
            None => format!("{name}: it does not say where it comes from"),
            Some(claim) => {
                format!("{name}: it claims {}, which the policy does not list for its queue", claim.name())
            }
        },
    }
}

fn route(route: &Route) -> String {
    match route {
        Route::To(arn) => arn.to_string(),
        Route::ThroughSubscription(arn) => {
            format!("the endpoint of {arn}, if SNS confirms that it names this queue")
        }
        Route::ToTopicOf(arn, voucher) => {
            let that = match voucher {
                SubscriptionVoucher::DeadLetters => "it names this queue".to_owned(),
                SubscriptionVoucher::DeliversTo(endpoint) => format!("it delivers to {endpoint}"),
                SubscriptionVoucher::Exists => "it exists".to_owned(),
            };
            format!("the topic of {arn}, if SNS confirms that {that}")
        }
        Route::Returned { subscription, again } => {
            let or = if *again { ", or its topic again if only SNS can deliver to it" } else { "" };
            format!("the endpoint of {subscription}, where a published copy failed{or}")
        }
        Route::Nowhere(_, why) => format!("nowhere: {why}"),
    }
}

fn route_json(route: &Route) -> Option<Value> {
    let (kind, arn) = match route {
        Route::To(arn) => ("arn", arn),
        Route::ThroughSubscription(arn) | Route::Returned { subscription: arn, .. } => ("subscription", arn),
        Route::ToTopicOf(arn, _) => ("topicOfSubscription", arn),
        Route::Nowhere(..) => return None,
    };
    Some(json!({ "kind": kind, "arn": arn }))
}

fn decision_json(decision: &Decision) -> Value {
    match decision {
        Decision::Deliver(retry) => {
            let mut fields = json!({
                "kind": "deliver", "retry": retry.number, "of": retry.of, "phase": retry.phase.name(),
            });
            if let Some(planned) = retry.planned {
                fields["planned"] = planned.to_string().into();
            }
            fields
        }
        Decision::Defer(deferral) => json!({
            "kind": "defer", "why": deferral.why.name(), "hideSeconds": deferral.hide, "due": deferral.due.to_string(),
        }),
        Decision::Archive(reason, detail) => {
            let mut fields = Map::from_iter([
                ("kind".to_owned(), Value::from("archive")),
                ("reason".to_owned(), reason.name().into()),
            ]);
            fields.extend(detail.map(|detail| ("detail".to_owned(), detail.into())));
            Value::Object(fields)
        }
    }
}
