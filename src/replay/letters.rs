//! The letters of a replay, one after the other.

use std::collections::HashSet;
use std::slice;

use jiff::Timestamp;

use super::letter::{At, NotReplayable, Replayable};
use super::request::Request;
use super::store::Ledgers;
use crate::archive::{Archived, Found as Walked, Identity, Record, Unread, Walk, WhyUnread};
use crate::arn::Arn;
use crate::delivery::{MAX_MESSAGE_BYTES, OutgoingMessage};
use crate::failure::Failure;
use crate::letter::{Letter, Origins, Trust};
use crate::policy::{Action, Policy, Route};

/// Where the letters come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// The archive.
    Archive,
    /// These records.
    Input(Vec<Input>),
}

/// A record that was given, with whether it was edited; or what is wrong with its line.
pub type Input = Result<(Record, bool), String>;

/// One step through the selection.
#[derive(Debug)]
pub(super) enum Found {
    /// To be sent.
    Replayable(Box<Replayable>),
    NotReplayable(At, NotReplayable),
    /// A line that is no record.
    Bad(At, String),
    /// An object, or the list of them; there may be letters in it.
    Unread(At, Failure),
    Double,
    AlreadyReplayed,
}

/// What decides which letters are sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Config<'a> {
    pub(super) request: &'a Request,
    pub(super) requeue: &'a Arn,
    pub(super) policy: Option<&'a Policy>,
}

/// Goes through the letters of a source.
pub(super) struct Letters<'a> {
    config: Config<'a>,
    from: From<'a>,
    known: Ledgers,
    met: HashSet<Identity>,
}

enum From<'a> {
    Archive(Box<Walk<'a>>),
    Input(std::iter::Zip<std::ops::RangeFrom<u64>, slice::Iter<'a, Input>>),
}

impl<'a> Letters<'a> {
    /// `known` are those that replays have sent.
    pub(super) fn new(config: Config<'a>, source: &'a Source, walk: Walk<'a>, known: Ledgers) -> Self {
        let from = match source {
            Source::Archive => From::Archive(Box::new(walk)),
            Source::Input(records) => From::Input((1..).zip(records.iter())),
        };
        Self { config, from, known, met: HashSet::new() }
    }

    /// The next, `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Found> {
        let (at, record, edited) = match &mut self.from {
            From::Archive(walk) => match walk.next().await? {
                Walked::Letter(archived) => {
                    let Archived { key, line, record } = *archived;
                    (At { key: key.to_string(), line: Some(line) }, record, false)
                }
                Walked::Unread(Unread { key, line, why }) => {
                    let at = At { key: key.to_string(), line };
                    return Some(match why {
                        WhyUnread::Call(failure) => Found::Unread(at, failure),
                        WhyUnread::Line(undecided) => Found::Bad(at, undecided.to_string()),
                    });
                }
            },
            From::Input(records) => {
                let (line, given) = records.next()?;
                let at = At { key: String::new(), line: Some(line) };
                match given {
                    Ok((record, edited)) => (at, record.clone(), *edited),
                    Err(problem) => return Some(Found::Bad(at, problem.clone())),
                }
            }
        };
        Some(self.judge(at, record, edited))
    }

    fn judge(&mut self, at: At, record: Record, edited: bool) -> Found {
        let message = match record.to_message() {
            Ok(message) => message,
            Err(bad) => return Found::Bad(at, bad.to_string()),
        };
        let identity = record.identity();
        if self.known.done.contains(&identity) {
            return Found::AlreadyReplayed;
        }
        if !self.met.insert(identity) {
            return Found::Double;
        }
        if self.known.in_doubt.contains(&identity) {
            return Found::NotReplayable(at, NotReplayable::InDoubt);
        }
        // Only what lay in the requeue says by its mark where it comes from.
        let origins = self.config.policy.map_or(Origins::none(), Policy::origins);
        let mut letter = Letter::received(message, Trust { requeue: Some(self.config.requeue), origins });
        match self.config.not_replayable(&mut letter, edited) {
            Some(not_replayable) => Found::NotReplayable(at, not_replayable),
            None => Found::Replayable(Box::new(Replayable { at, record, letter, edited })),
        }
    }
}

impl Config<'_> {
    /// Why a letter cannot be replayed, if it cannot.
    fn not_replayable(&self, letter: &mut Letter, edited: bool) -> Option<NotReplayable> {
        if letter.sqs.queue.is_fifo() != self.requeue.is_fifo() {
            return Some(NotReplayable::OtherKind);
        }
        if letter.dead_letter_queue() == self.requeue {
            return Some(NotReplayable::NotMoved);
        }
        // No mark is longer than one of the latest time.
        let mark = letter.mark_for_replay(Timestamp::MAX, self.request.to.clone(), edited);
        let Ok(message) = OutgoingMessage::for_requeue(letter, &mark, self.requeue, 0) else {
            return Some(NotReplayable::Unmarkable);
        };
        if message.size() > MAX_MESSAGE_BYTES {
            return Some(NotReplayable::TooLarge);
        }
        // Its rule is asked as it will be when the letter lies in the requeue.
        let before = letter.mark.replace(mark);
        let nowhere = self.policy.is_some_and(|policy| {
            policy.rule_for(letter).is_ok_and(|rule| {
                rule.action == Action::Redrive
                    && !rule.asks_for_subscription(letter)
                    && matches!(rule.route(letter, None), Route::Nowhere(..))
            })
        });
        letter.mark = before;
        nowhere.then_some(NotReplayable::NoTarget)
    }
}
