//! The result of a replay.

use redrive_replay::{ReplayState, ReplayStatus};
use serde_json::{Value, json};

use super::held_letters::ReplayHolds;
use super::summary::summary;
use crate::args;
use crate::console::CommandEnd;
use crate::output::CommandResult;
use crate::tables::{TextStyle, harmless, table};

/// The result of a replay.
pub(crate) enum ReplayResult {
    /// It was tried, has ended or has stopped.
    Ended {
        state: ReplayState,
        /// What holds its letters.
        held: Option<ReplayHolds>,
        /// An unfinished replay of the same letters.
        other: Option<String>,
        /// The execution of the state machine that made it; `None` if this terminal did.
        execution: Option<String>,
        further: args::FurtherOptions,
    },
    /// A state machine goes on with it.
    Detached {
        /// Its state; `None` if the caller may not read it.
        state: Option<ReplayState>,
        execution: String,
        further: args::FurtherOptions,
    },
}

impl CommandResult for ReplayResult {
    fn text(&self, _: TextStyle) -> String {
        match self {
            Self::Ended { state, held, execution, further, .. } => {
                let held = held.as_ref().map(|held| ("held", held.of_state(state)));
                let execution = execution.as_ref().map(|execution| ("execution", harmless(execution)));
                let more: Vec<_> = held.into_iter().chain(execution).collect();
                summary(state, &more, further)
            }
            Self::Detached { state: Some(state), execution, further } => format!(
                "Replay {}: the state machine runs it.\n{}\nTo see its state: {}\nTo stop it: {}\n",
                harmless(&state.id),
                table(&[vec!["  execution".to_owned(), harmless(execution)]], &[]),
                further.command(&["replay", "show", &state.id]),
                further.command(&["replay", "stop", &state.id]),
            ),
            Self::Detached { state: None, execution, .. } => {
                format!("The state machine runs the replay: {}\n", harmless(execution))
            }
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Ended { state, held, execution, .. } => {
                let mut json = json!(state);
                if let Some(held) = held {
                    json["held"] = held.to_json();
                }
                if let Some(execution) = execution {
                    json["executionArn"] = execution.as_str().into();
                }
                json
            }
            Self::Detached { state, execution, .. } => {
                json!({ "executionArn": execution, "id": state.as_ref().map(|state| &state.id) })
            }
        }
    }

    fn finished(&self) -> CommandEnd {
        match self {
            Self::Ended { state, .. } => finished(state),
            Self::Detached { .. } => CommandEnd::Whole,
        }
    }
}

/// Returns how it ended: whether all selected letters are sent, or can be sent.
fn finished(state: &ReplayState) -> CommandEnd {
    match state.status {
        ReplayStatus::DryRun | ReplayStatus::Done if state.counts.is_whole() => CommandEnd::Whole,
        ReplayStatus::DryRun | ReplayStatus::Done => CommandEnd::LeftOut,
        ReplayStatus::Running | ReplayStatus::Settling | ReplayStatus::Stopped => CommandEnd::Stopped,
    }
}
