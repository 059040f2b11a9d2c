//! Lambda: event source mappings with the sandboxes that they hand their batches to.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use super::faults::{Fault, Site};
use super::world::{Caller, Feed, World};
use crate::{Ended, Sandbox, Server};

/// How often an empty queue is looked at.
const POLL: Duration = Duration::from_millis(20);

/// One process of the function, with its own view of AWS.
struct Process {
    sandbox: Sandbox,
    caller: Arc<Caller>,
    _aws: Server,
}

impl Process {
    fn start(world: &Arc<World>) -> Self {
        let caller = Arc::new(Caller::default());
        let aws = {
            let (world, caller) = (Arc::clone(world), Arc::clone(&caller));
            Server::start(move |request| world.answer(&caller, &request))
        };
        let address = aws.address();
        let log = world.terms.log.as_ref().map_or_else(Stdio::null, |path| {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            file.map_or_else(|_| Stdio::null(), Stdio::from)
        });
        let sandbox = Sandbox::start(&world.terms.binary, &world.variables(&address), log);
        let _ = caller.address.set(address);
        let _ = caller.killer.set(sandbox.killer());
        Self { sandbox, caller, _aws: aws }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.sandbox.kill();
        self.caller.gone.store(true, Ordering::Relaxed);
    }
}

/// Starts the pollers of a world; they end with it.
#[must_use]
pub fn start(world: &Arc<World>) -> Vec<JoinHandle<()>> {
    let terms = &world.terms;
    let pollers = terms.pollers.iter().map(|batch| (Feed::Dlq, *batch));
    let pollers = pollers.chain(terms.requeue_pollers.iter().map(|batch| (Feed::Requeue, *batch)));
    pollers
        .map(|(feed, batch)| {
            let world = Arc::clone(world);
            std::thread::spawn(move || poll(&world, feed, batch))
        })
        .collect()
}

fn poll(world: &Arc<World>, feed: Feed, most: usize) {
    let mut process: Option<Process> = None;
    while !world.is_over() {
        let Some(batch) = world.receive(feed, most) else {
            std::thread::sleep(POLL);
            continue;
        };
        let event = world.event(&batch);
        let running = process.get_or_insert_with(|| Process::start(world));
        running.caller.run.store(batch.run, Ordering::Relaxed);
        let fault = world.fault(Site::Answer);
        if fault == Some(Fault::KillBefore) {
            let killer = running.sandbox.killer();
            std::thread::spawn(move || killer.kill());
        }
        let mut ended = running.sandbox.invoke(event, world.terms.timeout);
        if fault == Some(Fault::KillAfter) {
            ended = Ended::Died;
        }
        let gone = matches!(ended, Ended::Died | Ended::TimedOut);
        if ended == Ended::Died
            && let Some(why) = running.sandbox.broken()
        {
            world.complain(format!("the function does not start: {why}"));
            world.end();
        }
        if gone {
            // Lambda takes a new process after that; what this one still asks for comes before the end.
            process = None;
        }
        world.settle(&batch, &ended, fault != Some(Fault::BreakAfter));
    }
}
