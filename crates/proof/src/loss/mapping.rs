//! The invocations of the function: the batches of the mappings, and the processes that get them.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redrive_sim::mapping::SimMapping;
use redrive_sim::{Caller, SimAws, SocketServer};

use super::door::{ProcessServer, log_to};
use super::faults::FaultKind;
use super::world::ProofWorld;
use crate::{ProcessKiller, Sandbox, SandboxEnd};

/// The interval between looks at an empty queue.
const EMPTY_QUEUE_INTERVAL: Duration = Duration::from_millis(50);

/// One process of the function, with its own door to the account.
#[derive(Debug)]
pub(super) struct FunctionProcess {
    pub(super) sandbox: Sandbox,
    pub(super) caller: Caller,
    /// The handle that ends the process in the middle of its work, as the world wants it.
    killer: ProcessKiller,
    door: SocketServer,
}

impl FunctionProcess {
    /// Starts a process of this name; `variables` returns its settings for the account's URL, and `begin` starts it
    /// with them.
    pub(super) fn start(
        aws: &SimAws,
        name: &str,
        log: Option<&Path>,
        variables: impl FnOnce(&str) -> Vec<(String, String)>,
        begin: impl FnOnce(&[(String, String)], Stdio) -> Sandbox,
    ) -> Self {
        let ProcessServer { caller, killer, server: door } = ProcessServer::open(aws, name);
        let sandbox = begin(&variables(&door.url()), log_to(log));
        let ends = sandbox.killer();
        let _ = killer.set(ends.clone());
        Self { sandbox, caller, killer: ends, door }
    }

    fn of(world: &ProofWorld) -> Self {
        let config = &world.config;
        let variables = |url: &str| world.variables(url);
        let log = config.log.as_deref();
        let begin = |variables: &[_], log| world.sandbox(variables, log);
        Self::start(&world.aws, &world.process(), log, variables, begin)
    }
}

impl Drop for FunctionProcess {
    fn drop(&mut self) {
        // This ends the process as well; its open requests have no effect.
        self.caller.cut();
    }
}

/// Starts the pollers of a world; they end with it.
#[must_use]
pub fn start(world: &Arc<ProofWorld>) -> Vec<JoinHandle<()>> {
    let mappings = world.mappings().into_iter();
    let pollers = mappings.flat_map(|(mapping, count)| std::iter::repeat_n(mapping, count));
    pollers
        .map(|mapping| {
            let world = Arc::clone(world);
            std::thread::spawn(move || poll(&world, &mapping))
        })
        .collect()
}

fn poll(world: &ProofWorld, mapping: &SimMapping) {
    let mut process: Option<FunctionProcess> = None;
    let mut frozen = false;
    while !world.is_over() {
        let turn = world.batch();
        let Some(batch) = mapping.take() else {
            world.found_nothing();
            drop(turn);
            std::thread::sleep(EMPTY_QUEUE_INTERVAL);
            continue;
        };
        let running = process.get_or_insert_with(|| FunctionProcess::of(world));
        let run = world.begin(&batch, &running.caller, &running.killer);
        let thawed = std::mem::take(&mut frozen);
        if thawed {
            running.sandbox.thaw();
        }
        let fault = world.fault();
        if fault == Some(FaultKind::KillBefore) {
            let killer = running.sandbox.killer();
            std::thread::spawn(move || killer.kill());
        }
        let began = Instant::now();
        let mut ended = running.sandbox.invoke(batch.event.clone(), world.config.timeout);
        if world.config.longest.is_some_and(|longest| began.elapsed() > longest) {
            world.complain_of_time(format!("an invocation took {:?}", began.elapsed()));
        }
        if fault == Some(FaultKind::KillAfter) {
            ended = SandboxEnd::Died;
        }
        let gone = matches!(ended, SandboxEnd::Died | SandboxEnd::TimedOut);
        if gone && thawed && matches!(fault, None | Some(FaultKind::Freeze)) {
            let said = format!("a process that was thawed does not answer: {ended:?}");
            if ended == SandboxEnd::Died { world.complain(said) } else { world.complain_of_time(said) }
        }
        if ended == SandboxEnd::Died
            && let Some(why) = running.sandbox.broken()
        {
            world.complain(format!("the function does not start: {why}"));
            world.end();
        }
        if ended == SandboxEnd::Died && world.config.panics && !running.sandbox.has_panicked() {
            world.complain("a process did not end by its panic".to_owned());
        }
        if fault == Some(FaultKind::Freeze) && !gone {
            world.freeze(&running.sandbox, &running.door);
            frozen = true;
        }
        if gone {
            // Lambda starts a new process after that. The requests of this one come before the end of the
            // invocation.
            process = None;
        }
        world.settle(mapping, &batch, run, &ended, fault != Some(FaultKind::BreakAfter));
        if frozen {
            world.sleep();
        }
        drop(turn);
    }
}
