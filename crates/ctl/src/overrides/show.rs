//! `redrivectl overrides`: shows the overrides in force, and those that have ended.

use jiff::Timestamp;
use redrive_core::policy::Override;
use serde_json::{Value, json};

use super::preview::ends;
use crate::args;
use crate::aws::AwsAccess;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment};
use crate::control::ControlAccess;
use crate::output::CommandResult;
use crate::s3_location;
use crate::tables::{TableNames, TextStyle, harmless, utc};

/// The column of the author.
const BY: usize = 4;

/// Overrides to show.
enum ShownOverrides {
    /// The overrides that have not ended by a point in time.
    InForce(Vec<Override>, Timestamp),
    /// The records of overrides that have ended.
    Ended(Vec<Value>),
}

/// Shows the overrides in force, or those that have ended.
pub(crate) async fn run(
    args: &args::ShowOverrides,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    let overrides = if args.ended {
        ShownOverrides::Ended(ended(args, console).await?)
    } else {
        let overrides = in_force(args, console).await?;
        ShownOverrides::InForce(overrides, console.clock.now())
    };
    console.print(&overrides, as_json)
}

/// Returns the overrides that have not ended.
pub(crate) async fn in_force(
    args: &args::ShowOverrides,
    console: &mut ToolEnvironment,
) -> Result<Vec<Override>, CommandFailure> {
    let overrides = connect(args, console).await?.overrides(console).await?;
    let now = console.clock.now();
    Ok(overrides.all().iter().filter(|override_| !override_.has_ended(now)).cloned().collect())
}

/// Returns the records of the overrides that have ended.
pub(crate) async fn ended(
    args: &args::ShowOverrides,
    console: &mut ToolEnvironment,
) -> Result<Vec<Value>, CommandFailure> {
    let control = connect(args, console).await?;
    let overrides = control.overrides(console).await?;
    control.ended(&overrides, console.clock.now()).await
}

async fn connect(
    args: &args::ShowOverrides,
    console: &ToolEnvironment,
) -> Result<ControlAccess, CommandFailure> {
    let place = s3_location::control(&args.place, console)?;
    Ok(ControlAccess::new(AwsAccess::connect(&args.connection, console).await?.clients().s3, place))
}

impl CommandResult for ShownOverrides {
    fn text(&self, style: TextStyle) -> String {
        let (mut rows, none): (Vec<_>, _) = match self {
            Self::InForce(overrides, now) => (
                overrides.iter().map(|override_| row(override_, *now)).collect(),
                "No override is in force.\n",
            ),
            Self::Ended(overrides) => (overrides.iter().map(ended_row).collect(), "No override has ended.\n"),
        };
        if rows.is_empty() {
            return none.to_owned();
        }
        // The author of an override, who is often a role's session.
        let names = TableNames::of(rows.iter().filter_map(|row| row.get(BY)).map(String::as_str), style);
        let short: Vec<_> = rows.iter().filter_map(|row| row.get(BY)).map(|by| names.name(by)).collect();
        for (row, short) in rows.iter_mut().zip(short) {
            row[BY] = short;
        }
        rows.insert(0, ["override", "do", "match", "in force", "by", "why"].map(str::to_owned).to_vec());
        style.table(&rows, &[], &[])
    }

    fn json(&self) -> Value {
        match self {
            Self::InForce(overrides, _) => json!({ "overrides": overrides }),
            Self::Ended(overrides) => json!({ "overrides": overrides }),
        }
    }

    fn finished(&self) -> CommandEnd {
        CommandEnd::Whole
    }
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
