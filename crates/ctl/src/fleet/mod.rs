//! `redrivectl fleet`: the stacks of several accounts and regions, one line each.
//!
//! All accounts and regions are asked at the same time, each with its own deadline. What could not be seen stands on its
//! line: a fleet with a blind spot is not well.

mod places;
mod report;
mod stack_facts;

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout_at};

use crate::args;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment};
#[cfg(test)]
pub(crate) use places::FleetFile;
use places::FleetPlace;
use report::{FleetLine, FleetReport};
use stack_facts::{FactReader, Seen};

/// Prints a line for each stack.
pub(crate) async fn run(
    args: &args::FleetArgs,
    as_json: bool,
    console: &mut ToolEnvironment,
) -> Result<CommandEnd, CommandFailure> {
    let places = places::places(args, console)?;
    let until = Instant::now() + Duration::from_secs(u64::from(args.deadline.max(1)));
    let lines = join_all(places.iter().map(|place| look(place, args, until, console))).await;
    let report = FleetReport { lines: lines.into_iter().flatten().collect() };
    console.print(&report, as_json)
}

/// Looks into one region of one account.
async fn look(
    place: &FleetPlace,
    args: &args::FleetArgs,
    until: Instant,
    console: &ToolEnvironment,
) -> Vec<FleetLine> {
    let connected = timeout_at(until, Box::pin(place.connect(args, console))).await;
    let aws = match connected {
        Err(_) => return vec![FleetLine::unseen(place, None, &Seen::NoAnswer)],
        Ok(Err(unseen)) => return vec![FleetLine::unseen(place, None, &unseen)],
        Ok(Ok(aws)) => aws,
    };
    let reader = FactReader::new(&aws, until, console.clock.now());
    let stacks = match reader.stacks(&place.stacks).await {
        Ok(stacks) => stacks,
        Err((name, unseen)) => return vec![FleetLine::unseen(place, name.as_deref(), &unseen)],
    };
    if stacks.is_empty() {
        return vec![FleetLine::empty(place, aws.region())];
    }
    let region = aws.region();
    let lines = stacks.iter().map(async |stack| match stack {
        Ok(stack) => FleetLine::of(place, &region, stack, Box::pin(reader.facts(stack)).await),
        Err((name, unseen)) => FleetLine::unseen(place, Some(name), unseen),
    });
    join_all(lines).await
}
