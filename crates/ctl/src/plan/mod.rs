//! `redrivectl plan`: shows when a policy retries.

mod outage;
mod picture;
mod table;
mod warnings;

use std::io::Write;

use jiff::Timestamp;
use redrive_console::schedule::{self, Timetable};
use redrive_core::batch::IN_FLIGHT_LIMIT;
use redrive_core::policy::{
    DeliverySpec, Override, OverrideAction, Policy, Rule, RuleAction, TargetSpec, plus, seconds_until,
};
use serde_json::{Value, json};
use warnings::warnings;

use crate::args;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment, read_overrides, read_policy_text};
use crate::overrides::ends;
use crate::tables::{clock, count, harmless, thousands, utc, wrapped};

/// The longest policy that the template's parameter `RedrivePolicy` takes. All variables of a function have [4 KB
/// together](https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html).
pub(crate) const MAX_PARAMETER_CHARS: usize = 3_072;

pub(super) fn run(
    args: &args::PlanArgs,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    let (policy, length) = match args.policy.as_deref() {
        Some(file) => read_policy_text(file, console).map(|(policy, text)| (policy, text.chars().count()))?,
        None => (Policy::built_in(), 0),
    };
    let overrides = read_overrides(args.overrides.as_deref(), console)?;
    let arrival = args.at.unwrap_or_else(|| console.clock.now());
    let overrides: Vec<_> =
        overrides.all().iter().filter(|override_| !override_.has_ended(arrival)).collect();
    let begins = args.schedule_from.map_or(0, |from| seconds_until(arrival, from));
    let timetables: Vec<_> = chosen(&policy, args.rule.as_deref())?
        .into_iter()
        .map(|rule| (rule, Timetable::beginning(rule, args.retention, begins)))
        .collect();
    if let Some(file) = &args.svg {
        let charts: Vec<_> =
            timetables.iter().filter(|(rule, _)| rule.action == RuleAction::Redrive).cloned().collect();
        std::fs::write(file, schedule::draw(&charts, None))
            .map_err(|error| CommandFailure::Work(format!("cannot write {}: {error}", file.display())))?;
    }
    if as_json {
        let rules: Vec<_> =
            timetables.iter().map(|(rule, timetable)| to_json(rule, timetable, arrival, args.rate)).collect();
        let mut plan =
            json!({ "arrival": arrival.to_string(), "retentionSeconds": args.retention, "rules": rules });
        if let Some(from) = args.schedule_from {
            plan["scheduleFrom"] = from.to_string().into();
        }
        if let Some(note) = too_long(length) {
            plan["tooLong"] = note.into();
        }
        if args.overrides.is_some() {
            plan["overrides"] = json!(overrides);
        }
        writeln!(console.out, "{plan}")?;
        return Ok(CommandEnd::Whole);
    }
    if args.policy.is_none() {
        writeln!(console.out, "This is the built-in policy; a function's own may differ.\n")?;
    }
    for (index, (rule, timetable)) in timetables.iter().enumerate() {
        if index > 0 {
            writeln!(console.out)?;
        }
        show(rule, timetable, arrival, args, console)?;
    }
    if let Some(note) = too_long(length) {
        writeln!(console.out, "\n{}", wrapped(&note, 80, 2))?;
    }
    for override_ in overrides {
        writeln!(console.out, "\n{}", wrapped(&harmless(&says(override_, arrival)), 80, 2))?;
    }
    Ok(CommandEnd::Whole)
}

/// Says where a policy of so many characters does not fit.
fn too_long(length: usize) -> Option<String> {
    (length > MAX_PARAMETER_CHARS).then(|| {
        format!(
            "warning: the policy has {} characters, and the parameter RedrivePolicy takes {}: put it into S3, and set \
             RedrivePolicyUri (REDRIVE_POLICY_URI)",
            thousands(length as u64),
            thousands(MAX_PARAMETER_CHARS as u64)
        )
    })
}

/// Says what an override does to the plan of the letters that it matches.
fn says(override_: &Override, now: Timestamp) -> String {
    let does = match override_.action {
        OverrideAction::Hold => {
            "makes no attempt; retries planned for that time are due when the override ends"
        }
        OverrideAction::Retry => "makes an attempt at each receive; planned retries stay planned",
        OverrideAction::GiveUp => "archives them at once",
    };
    let Override { id, pattern, .. } = override_;
    let from = if override_.at > now { format!("from {} UTC ", utc(override_.at)) } else { String::new() };
    format!(
        "override {id}, {from}{}: for letters that match {pattern} the function {does}",
        ends(override_, now)
    )
}

/// Returns the rules to show: the named one, or all, in the order in which they are tried.
fn chosen<'p>(policy: &'p Policy, name: Option<&str>) -> Result<Vec<&'p Rule>, CommandFailure> {
    let mut rules: Vec<_> = policy.all_rules().collect();
    // The default comes last, since it is for letters that no other rule matches.
    rules.rotate_left(1);
    let Some(name) = name else { return Ok(rules) };
    let known: Vec<_> = rules.iter().map(|rule| harmless(&rule.name)).collect();
    rules.retain(|rule| rule.name == name);
    if rules.is_empty() {
        let problem = format!("the policy has no rule {name:?}; its rules are {}", known.join(", "));
        return Err(CommandFailure::Input(vec![problem]));
    }
    Ok(rules)
}

fn show(
    rule: &Rule,
    timetable: &Timetable,
    arrival: Timestamp,
    args: &args::PlanArgs,
    console: &mut ToolEnvironment,
) -> Result<(), CommandFailure> {
    let out = &mut console.out;
    let name = harmless(&rule.name);
    match rule.action {
        RuleAction::Redrive => {}
        RuleAction::Archive => return Ok(writeln!(out, "Rule {name}: archived at once, no retry.")?),
        RuleAction::Hold => {
            return Ok(writeln!(
                out,
                "Rule {name}: hidden until shortly before the queue would delete it, then archived, no retry."
            )?);
        }
    }
    let retries = count(timetable.schedule.retries.into(), "retry");
    writeln!(out, "Rule {name}: to {}, {retries} over {}.", to(rule), clock(timetable.length()))?;
    if rule.jitter > 0.0 {
        writeln!(
            out,
            "Jitter makes each delay up to {} % shorter than shown.",
            schedule::percent(rule.jitter)
        )?;
    }
    if let Some(from) = args.schedule_from {
        writeln!(out, "{}", wrapped(&scheduled(from, timetable.begins), 80, 0))?;
    }
    writeln!(out, "{}", wrapped(&outage::says(timetable), 80, 0))?;
    writeln!(out, "\n{}", table::draw(timetable, arrival, args.all))?;
    if let Some(abridged) = table::abridged(timetable).filter(|_| !args.all) {
        writeln!(out, "{abridged}\n")?;
    }
    writeln!(out, "{}", picture::draw(timetable))?;
    for warning in warnings(rule, timetable, args.rate) {
        let kind = if warning.is_note { "note" } else { "warning" };
        writeln!(out, "{}", wrapped(&format!("{kind}: {}", warning.text), 80, 2))?;
    }
    Ok(())
}

/// Says what `SCHEDULE_FROM` does to the letter.
fn scheduled(from: Timestamp, begins: u64) -> String {
    if begins == 0 {
        return format!(
            "The letter arrives after SCHEDULE_FROM ({} UTC), so its schedule begins at once.",
            utc(from)
        );
    }
    format!(
        "The letter arrives before SCHEDULE_FROM, so its schedule begins {} UTC, {} after its arrival. The queue still \
         keeps it from its arrival on.",
        utc(from),
        clock(begins)
    )
}

fn to(rule: &Rule) -> &str {
    match &rule.target {
        TargetSpec::Origin => "the failed target",
        TargetSpec::Subscription => "the subscription",
        TargetSpec::Source => "the source queue",
        TargetSpec::Topic => "the topic",
        TargetSpec::Arn(arn) => arn.as_str(),
    }
}

fn to_json(rule: &Rule, timetable: &Timetable, arrival: Timestamp, rate: Option<f64>) -> Value {
    let action = match rule.action {
        RuleAction::Redrive => "redrive",
        RuleAction::Archive => "archive",
        RuleAction::Hold => "hold",
    };
    if rule.action != RuleAction::Redrive {
        return json!({ "name": rule.name, "action": action });
    }
    let retries: Vec<_> = timetable
        .rows
        .iter()
        .map(|row| {
            json!({
                "retry": row.retry,
                "phase": row.phase.name(),
                "delaySeconds": row.delay,
                "sinceArrivalSeconds": row.since,
                "at": plus(arrival, row.since).to_string(),
                "hidings": row.hidings,
                "made": row.fits,
            })
        })
        .collect();
    let warnings: Vec<_> = warnings(rule, timetable, rate)
        .into_iter()
        .map(|warning| json!({ "code": warning.code, "note": warning.is_note, "text": warning.text }))
        .collect();
    json!({
        "name": rule.name,
        "action": action,
        "target": match &rule.target {
            TargetSpec::Origin => "origin",
            TargetSpec::Subscription => "subscription",
            TargetSpec::Source => "source",
            TargetSpec::Topic => "topic",
            TargetSpec::Arn(arn) => arn.as_str(),
        },
        "fromSubscription": rule.delivery == DeliverySpec::FromSubscription,
        "jitter": rule.jitter,
        "lengthSeconds": timetable.length(),
        "survivesOutageSeconds": timetable.survives,
        "lastRetryMade": timetable.last,
        "archivedAfterSeconds": timetable.life,
        "inFlight": {
            "limit": IN_FLIGHT_LIMIT,
            "meanHiddenSeconds": timetable.hidden,
            "maxFailingLettersPerSecond": timetable.max_rate(),
            "lettersAtRate": rate.map(|rate| rate * timetable.hidden),
        },
        "warnings": warnings,
        "retries": retries,
    })
}
