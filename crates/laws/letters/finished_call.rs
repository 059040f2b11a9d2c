//! The end of a call, as the function and the place saw it.

use redrive_sim::{AwsService, EntryFault, SimCall, SimEvent, SimFault, SimRecord};

use super::facts::{CallEffect, CallResponse, RunId};

/// A finished call of the function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FinishedCall<'a> {
    pub(crate) call: &'a SimCall,
    pub(crate) fault: &'a SimFault,
    pub(crate) status: Option<u16>,
    pub(crate) effects: &'a [SimRecord],
    /// `true` if the function for which the call waits failed by itself.
    pub(crate) has_failed: bool,
    pub(crate) run: RunId,
}

impl FinishedCall<'_> {
    /// Returns the answer that the function gets to the call as a whole.
    pub(crate) fn response(&self) -> CallResponse {
        let is_post = self.call.service == AwsService::Web;
        match self.fault {
            SimFault::Pass if self.has_failed => CallResponse::Refused { for_good: false },
            // A web server's 4xx is a refusal for good, except 429.
            SimFault::Pass if is_post && self.status.is_some_and(|it| it >= 300) => {
                CallResponse::Refused { for_good: self.status.is_some_and(|it| it < 500 && it != 429) }
            }
            SimFault::Pass | SimFault::Entries(_) => CallResponse::Done,
            SimFault::Throttle | SimFault::Unavailable | SimFault::FunctionError => {
                CallResponse::Refused { for_good: false }
            }
            SimFault::Denied => CallResponse::Refused { for_good: is_post },
            SimFault::Refuse(_) => CallResponse::Refused { for_good: true },
            _ => CallResponse::Nothing,
        }
    }

    /// Returns the answer that the function gets for an entry.
    pub(crate) fn response_of(&self, index: usize, is_done: bool) -> CallResponse {
        match (self.response(), self.fault) {
            (CallResponse::Done, SimFault::Entries(failing))
                if failing.iter().any(|(of, _)| *of == index) =>
            {
                let is_senders =
                    |fault: &EntryFault| matches!(fault, EntryFault::Failed { sender: true, .. });
                let for_good = failing.iter().any(|(of, fault)| *of == index && is_senders(fault));
                CallResponse::Refused { for_good }
            }
            (CallResponse::Done, _) if !is_done => CallResponse::Refused { for_good: true },
            (response, _) => response,
        }
    }

    /// Returns the effect of the call on a letter, whose texts `is_of` knows.
    pub(crate) fn effect(&self, is_of: impl Fn(&str) -> bool) -> CallEffect {
        let taken = match (self.call.service, self.call.operation.as_str()) {
            (AwsService::Web, _) => self.status.is_some_and(|status| (200..300).contains(&status)),
            (AwsService::Lambda, "Invoke") if self.call.parameter("type") == Some("Event") => {
                self.status == Some(202)
            }
            (AwsService::Lambda, "Invoke") => {
                self.status == Some(200) && *self.fault != SimFault::FunctionError && !self.has_failed
            }
            _ => false,
        };
        let of_event = |record: &SimRecord| match &record.event {
            SimEvent::Sent { payload, .. } if is_of(&payload.body) => Some(CallEffect::Taken),
            SimEvent::Published { message, .. } if is_of(message) => Some(CallEffect::Taken),
            SimEvent::Streamed { data, .. } if is_of(&String::from_utf8_lossy(data)) => {
                Some(CallEffect::Taken)
            }
            SimEvent::Swallowed { body, .. } if is_of(body) => Some(CallEffect::Swallowed),
            _ => None,
        };
        let of_events = self.effects.iter().find_map(of_event);
        of_events.unwrap_or(if taken { CallEffect::Taken } else { CallEffect::None })
    }
}
