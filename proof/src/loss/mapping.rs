//! Lambda: event source mappings with the sandboxes that they hand their batches to.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use super::faults::{Fault, Site};
use super::world::{Caller, Feed, World};
use crate::wire::Raw;
use crate::{Ended, Reply, Sandbox, Server};

/// How often an empty queue is looked at.
const POLL: Duration = Duration::from_millis(50);

/// One process of the function, with its own view of AWS.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) sandbox: Sandbox,
    pub(super) caller: Arc<Caller>,
    aws: Server,
}

impl Process {
    /// Starts one; `variables` are its settings, by the address of AWS.
    pub(super) fn start(
        binary: &Path,
        log: Option<&Path>,
        variables: impl FnOnce(&str) -> Vec<(String, String)>,
        answer: impl Fn(&Caller, &Raw) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let caller = Arc::new(Caller::default());
        let aws = {
            let caller = Arc::clone(&caller);
            Server::start(move |request| answer(&caller, &request))
        };
        let address = aws.address();
        let log = log.map_or_else(Stdio::null, |path| {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            file.map_or_else(|_| Stdio::null(), Stdio::from)
        });
        let sandbox = Sandbox::start(binary, &variables(&address), log);
        let _ = caller.address.set(address);
        let _ = caller.killer.set(sandbox.killer());
        Self { sandbox, caller, aws }
    }

    /// Freezes the process; meanwhile AWS hangs up, which the process cannot see before it is thawed.
    fn freeze(&self) {
        self.sandbox.freeze();
        self.aws.hang_up();
    }

    fn of(world: &Arc<World>) -> Self {
        let (terms, answering) = (&world.terms, Arc::clone(world));
        let answer = move |caller: &Caller, raw: &Raw| answering.answer(caller, raw);
        Self::start(&terms.binary, terms.log.as_deref(), |address| world.variables(address), answer)
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
    let mut frozen = false;
    while !world.is_over() {
        let Some(batch) = world.receive(feed, most) else {
            std::thread::sleep(POLL);
            continue;
        };
        let event = world.event(&batch);
        let running = process.get_or_insert_with(|| Process::of(world));
        running.caller.run.store(batch.run, Ordering::Relaxed);
        let thawed = std::mem::take(&mut frozen);
        if thawed {
            running.sandbox.thaw();
        }
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
        if gone && thawed && matches!(fault, None | Some(Fault::Freeze)) {
            world.complain(format!("a process that was thawed does not answer: {ended:?}"));
        }
        if ended == Ended::Died
            && let Some(why) = running.sandbox.broken()
        {
            world.complain(format!("the function does not start: {why}"));
            world.end();
        }
        if fault == Some(Fault::Freeze) && !gone {
            running.freeze();
            frozen = true;
        }
        if gone {
            // Lambda takes a new process after that; what this one still asks for comes before the end.
            process = None;
        }
        world.settle(&batch, &ended, fault != Some(Fault::BreakAfter));
    }
}
