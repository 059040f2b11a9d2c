//! `redrivectl overrides`: shows the overrides in force, and those that have ended.

use std::io::Write;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::preview::ends;
use crate::args;
use crate::aws::Aws;
use crate::console::{Console, Failed, Finished};
use crate::control::Control;
use crate::place;
use crate::text::{harmless, table, utc};
use sns_redrive::policy::Override;

pub(crate) async fn run(
    args: &args::ShowOverrides,
    as_json: bool,
    console: &mut Console,
) -> Result<Finished, Failed> {
    let place = place::control(&args.place, console)?;
    let s3 = Aws::connect(&args.connection, console).await?.clients().s3;
    let control = Control::new(s3, place);
    let overrides = control.overrides(console).await?;
    let now = console.clock.now();
    if args.ended {
        let ended = control.ended(&overrides, now).await?;
        if !as_json {
            return tell(ended.iter().map(ended_row).collect(), "No override has ended.", console);
        }
        writeln!(console.out, "{}", json!({ "overrides": ended }))?;
    } else {
        let overrides: Vec<_> =
            overrides.all().iter().filter(|override_| !override_.has_ended(now)).collect();
        if !as_json {
            let rows = overrides.iter().map(|override_| row(override_, now)).collect();
            return tell(rows, "No override is in force.", console);
        }
        writeln!(console.out, "{}", json!({ "overrides": overrides }))?;
    }
    Ok(Finished::Whole)
}

fn tell(mut rows: Vec<Vec<String>>, none: &str, console: &mut Console) -> Result<Finished, Failed> {
    if rows.is_empty() {
        writeln!(console.out, "{none}")?;
    } else {
        rows.insert(0, ["override", "do", "match", "in force", "by", "why"].map(str::to_owned).to_vec());
        write!(console.out, "{}", table(&rows, &[]))?;
    }
    Ok(Finished::Whole)
}

/// Returns an override as a row of a table.
pub(super) fn row(override_: &Override, now: Timestamp) -> Vec<String> {
    let in_force =
        if override_.at > now { format!("from {} UTC", utc(override_.at)) } else { ends(override_, now) };
    let before =
        override_.arrived_before.map_or(String::new(), |before| format!(", arrived before {before}"));
    let after = override_.arrived_after.map_or(String::new(), |after| format!(", arrived {after} or later"));
    let pattern = format!("{}{before}{after}", override_.pattern);
    [override_.id.as_str(), override_.action.name(), &pattern, &in_force, &override_.by, &override_.why]
        .map(harmless)
        .to_vec()
}

/// Returns an ended override as a row of a table. Fields that its record lacks become `?`.
fn ended_row(override_: &Value) -> Vec<String> {
    let text = |value: &Value| harmless(value.as_str().unwrap_or("?"));
    let time = |value: &Value| value.as_str().and_then(|at| at.parse().ok()).map_or_else(|| text(value), utc);
    let ended = &override_["ended"];
    let by = ended["by"].as_str().map_or(String::new(), |by| format!(" by {}", harmless(by)));
    let why = ended["why"].as_str().map_or(String::new(), |why| format!(": {}", harmless(why)));
    let in_force = format!("{} to {} UTC{by}{why}", time(&override_["at"]), time(&ended["at"]));
    let pattern = harmless(&override_["match"].to_string());
    vec![
        text(&override_["id"]),
        text(&override_["do"]),
        pattern,
        in_force,
        text(&override_["by"]),
        text(&override_["why"]),
    ]
}
