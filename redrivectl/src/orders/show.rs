//! `redrivectl orders`: shows the orders in force, and those that have ended.

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
use sns_redrive::policy::Order;

pub(crate) async fn run(
    args: &args::ShowOrders,
    as_json: bool,
    console: &mut Console,
) -> Result<Finished, Failed> {
    let place = place::control(&args.place, console)?;
    let s3 = Aws::connect(&args.connection, console).await?.clients().s3;
    let control = Control::new(s3, place);
    let orders = control.orders(console).await?;
    let now = console.clock.now();
    if args.ended {
        let ended = control.ended(&orders, now).await?;
        if !as_json {
            return tell(ended.iter().map(ended_row).collect(), "No order has ended.", console);
        }
        writeln!(console.out, "{}", json!({ "orders": ended }))?;
    } else {
        let orders: Vec<_> = orders.all().iter().filter(|order| !order.has_ended(now)).collect();
        if !as_json {
            let rows = orders.iter().map(|order| row(order, now)).collect();
            return tell(rows, "No order is in force.", console);
        }
        writeln!(console.out, "{}", json!({ "orders": orders }))?;
    }
    Ok(Finished::Whole)
}

fn tell(mut rows: Vec<Vec<String>>, none: &str, console: &mut Console) -> Result<Finished, Failed> {
    if rows.is_empty() {
        writeln!(console.out, "{none}")?;
    } else {
        rows.insert(0, ["order", "do", "match", "in force", "by", "why"].map(str::to_owned).to_vec());
        write!(console.out, "{}", table(&rows, &[]))?;
    }
    Ok(Finished::Whole)
}

/// Returns an order as a row of a table.
pub(super) fn row(order: &Order, now: Timestamp) -> Vec<String> {
    let in_force = if order.at > now { format!("from {} UTC", utc(order.at)) } else { ends(order, now) };
    let before = order.arrived_before.map_or(String::new(), |before| format!(", arrived before {before}"));
    let after = order.arrived_after.map_or(String::new(), |after| format!(", arrived {after} or later"));
    let pattern = format!("{}{before}{after}", order.pattern);
    [order.id.as_str(), order.action.name(), &pattern, &in_force, &order.by, &order.why]
        .map(harmless)
        .to_vec()
}

/// Returns an ended order as a row of a table. Fields that its record lacks become `?`.
fn ended_row(order: &Value) -> Vec<String> {
    let text = |value: &Value| harmless(value.as_str().unwrap_or("?"));
    let time = |value: &Value| value.as_str().and_then(|at| at.parse().ok()).map_or_else(|| text(value), utc);
    let ended = &order["ended"];
    let by = ended["by"].as_str().map_or(String::new(), |by| format!(" by {}", harmless(by)));
    let why = ended["why"].as_str().map_or(String::new(), |why| format!(": {}", harmless(why)));
    let in_force = format!("{} to {} UTC{by}{why}", time(&order["at"]), time(&ended["at"]));
    let pattern = harmless(&order["match"].to_string());
    vec![text(&order["id"]), text(&order["do"]), pattern, in_force, text(&order["by"]), text(&order["why"])]
}
