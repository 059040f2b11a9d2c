//! The end of a call, as the function and the place saw it.

use redrive_sim::{Call, EntryFault, Event, Fault, Record, Service};

use super::facts::{Effect, Response, RunId};

/// A finished call of the function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended<'a> {
    pub(crate) call: &'a Call,
    pub(crate) fault: &'a Fault,
    pub(crate) status: Option<u16>,
    pub(crate) effects: &'a [Record],
    /// `true` if the function for which the call waits failed by itself.
    pub(crate) has_failed: bool,
    pub(crate) run: RunId,
}

impl Ended<'_> {
    /// Returns the answer that the function gets to the call as a whole.
    pub(crate) fn response(&self) -> Response {
        let is_post = self.call.service == Service::Web;
        match self.fault {
            Fault::Pass if self.has_failed => Response::Refused { for_good: false },
            // A web server's 4xx is a refusal for good, except 429.
            Fault::Pass if is_post && self.status.is_some_and(|it| it >= 300) => {
                Response::Refused { for_good: self.status.is_some_and(|it| it < 500 && it != 429) }
            }
            Fault::Pass | Fault::Entries(_) => Response::Done,
            Fault::Throttle | Fault::Unavailable | Fault::FunctionError => {
                Response::Refused { for_good: false }
            }
            Fault::Denied => Response::Refused { for_good: is_post },
            Fault::Refuse(_) => Response::Refused { for_good: true },
            _ => Response::Nothing,
        }
    }

    /// Returns the answer that the function gets for an entry.
    pub(crate) fn response_of(&self, index: usize, is_done: bool) -> Response {
        match (self.response(), self.fault) {
            (Response::Done, Fault::Entries(failing)) if failing.iter().any(|(of, _)| *of == index) => {
                let is_senders =
                    |fault: &EntryFault| matches!(fault, EntryFault::Failed { sender: true, .. });
                let for_good = failing.iter().any(|(of, fault)| *of == index && is_senders(fault));
                Response::Refused { for_good }
            }
            (Response::Done, _) if !is_done => Response::Refused { for_good: true },
            (response, _) => response,
        }
    }

    /// Returns the effect of the call on a letter, whose texts `is_of` knows.
    pub(crate) fn effect(&self, is_of: impl Fn(&str) -> bool) -> Effect {
        let taken = match (self.call.service, self.call.operation.as_str()) {
            (Service::Web, _) => self.status.is_some_and(|status| (200..300).contains(&status)),
            (Service::Lambda, "Invoke") if self.call.parameter("type") == Some("Event") => {
                self.status == Some(202)
            }
            (Service::Lambda, "Invoke") => {
                self.status == Some(200) && *self.fault != Fault::FunctionError && !self.has_failed
            }
            _ => false,
        };
        let of_event = |record: &Record| match &record.event {
            Event::Sent { payload, .. } if is_of(&payload.body) => Some(Effect::Taken),
            Event::Published { message, .. } if is_of(message) => Some(Effect::Taken),
            Event::Streamed { data, .. } if is_of(&String::from_utf8_lossy(data)) => Some(Effect::Taken),
            Event::Swallowed { body, .. } if is_of(body) => Some(Effect::Swallowed),
            _ => None,
        };
        let of_events = self.effects.iter().find_map(of_event);
        of_events.unwrap_or(if taken { Effect::Taken } else { Effect::None })
    }
}
