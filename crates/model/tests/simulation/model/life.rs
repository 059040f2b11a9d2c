//! One letter's life, as the laws see it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use redrive_core::batch::MAX_DELAY;
use redrive_core::policy::{ArchiveReason, DEFAULT_RETENTION, OverrideAction, expiry_margin};

use super::journal::{FactKind, IdleReason, ModelMessage, StoryFact};
use super::simulation::ModelStory;
use super::world::{ArrivalPlan, ModelWorld};
use super::{ModelMillis, SECOND, seconds};

/// A broken law, in words.
pub type LawJudgement = Result<(), String>;

/// The time before a point at which it counts as reached: one second.
pub const MODEL_CLOCK_TOLERANCE: ModelMillis = SECOND;

/// One letter's life under a world.
pub struct StoryLife<'s> {
    pub world: &'s ModelWorld,
    pub story: &'s ModelStory,
    pub who: usize,
    pub facts: Vec<&'s StoryFact>,
}

#[derive(Debug, Clone, Copy)]
pub struct StoryAttempt {
    pub message: ModelMessage,
    pub number: u32,
    pub planned: Option<ModelMillis>,
    /// The receive that it belongs to.
    pub receives: u32,
    pub begin: ModelMillis,
    pub end: ModelMillis,
    pub delivered: bool,
}

/// Returns every letter's life.
pub fn lives<'s>(world: &'s ModelWorld, story: &'s ModelStory) -> Vec<StoryLife<'s>> {
    let mut facts: Vec<Vec<&StoryFact>> = vec![Vec::new(); world.letters.len()];
    for fact in &story.journal.facts {
        facts[fact.who].push(fact);
    }
    let life = |(who, facts)| StoryLife { world, story, who, facts };
    facts.into_iter().enumerate().map(life).collect()
}

impl StoryLife<'_> {
    pub fn attempts(&self) -> Vec<StoryAttempt> {
        let attempt = |fact: &&StoryFact| match fact.what {
            FactKind::Attempt { number, planned, receives, end, delivered } => {
                let (message, begin) = (fact.message, fact.at);
                Some(StoryAttempt { message, number, planned, receives, begin, end, delivered })
            }
            _ => None,
        };
        self.facts.iter().filter_map(attempt).collect()
    }

    pub fn numbers(&self) -> Vec<u32> {
        self.attempts().iter().map(|attempt| attempt.number).collect()
    }

    pub fn archived(&self) -> Vec<(ArchiveReason, ModelMillis)> {
        let archived = |fact: &&StoryFact| match fact.what {
            FactKind::Archived { reason } => Some((reason, fact.at)),
            _ => None,
        };
        self.facts.iter().filter_map(archived).collect()
    }

    pub fn is_delivered(&self) -> bool {
        self.attempts().iter().any(|attempt| attempt.delivered)
    }

    pub fn moves(&self) -> usize {
        self.facts.iter().filter(|fact| matches!(fact.what, FactKind::Moved { .. })).count()
    }

    /// Reports whether one of its messages was moved and came again, because the function died in between.
    pub fn is_split(&self) -> bool {
        self.messages().into_iter().any(|message| {
            let mut facts =
                self.about(message).skip_while(|fact| !matches!(fact.what, FactKind::Moved { .. }));
            facts.any(|fact| matches!(fact.what, FactKind::Received { .. }))
        })
    }

    /// Returns the earliest time for a retry. A letter that steps aside becomes visible at once, since FIFO
    /// queues delay no single letter. One that was moved so often that the last second of its wait is left
    /// becomes visible a second early. If its next retry is due within the second of slack, the retry is made
    /// then, and the next point counts from there. The same happens each time that a letter comes back early: by
    /// itself, by an operator, or after a second because it was not begun in time.
    pub fn earliest(&self, number: u32) -> ModelMillis {
        let moves = i64::try_from(self.moves()).unwrap();
        let early = if self.world.fifo {
            moves
        } else {
            let waits = self.plan().spent + 1..=number;
            let leave_a_second = waits.filter(|k| self.leaves_a_second(*k)).count();
            let is_back = |what: &FactKind| {
                matches!(what, FactKind::Idle(IdleReason::OutOfTime) | FactKind::CameBack | FactKind::Woken)
            };
            let came_back = self.facts.iter().filter(|fact| is_back(&fact.what)).count();
            moves.min(i64::try_from(leave_a_second + came_back).unwrap())
        };
        self.point(number) - MODEL_CLOCK_TOLERANCE * (1 + early)
    }

    /// Reports whether so little of a wait is left after moves of the longest delay that it falls into the
    /// second of slack.
    pub fn leaves_a_second(&self, k: u32) -> bool {
        let (wait, delay) = (self.wait(k), seconds(MAX_DELAY));
        let latency = self.world.mapping.late.end() + self.world.mapping.takes;
        wait > delay && wait % delay <= MODEL_CLOCK_TOLERANCE + (wait / delay + 1) * latency
    }

    pub fn plan(&self) -> &ArrivalPlan {
        &self.world.letters[self.who]
    }

    /// Returns the wait before a retry. If nothing but the time tells retries apart, it is at least 20 s, except after
    /// a move.
    pub fn wait(&self, k: u32) -> ModelMillis {
        let is_by_time = self.has_earlier_receives() && self.world.requeue.is_none();
        let least = if is_by_time { 20 * SECOND } else { 0 };
        self.world.wait(&self.story.ids[self.who], k).max(least)
    }

    /// Returns the time at which its schedule begins, if it arrived before that.
    pub fn begins(&self) -> Option<ModelMillis> {
        self.world.schedule_from.filter(|from| self.sent() < *from)
    }

    /// Reports whether it was received before its schedule began.
    pub fn has_earlier_receives(&self) -> bool {
        let Some(begins) = self.begins() else { return false };
        let is_receive = |fact: &&&StoryFact| matches!(fact.what, FactKind::Received { .. });
        self.plan().moved.is_some_and(|moved| moved.keeps_first_receive)
            || self.facts.iter().find(is_receive).is_some_and(|first| first.at < begins)
    }

    /// Returns the time when SQS took it first. A letter that SQS moves from a standard queue keeps its time.
    pub fn sent(&self) -> ModelMillis {
        let age = self.plan().moved.filter(|_| !self.world.fifo).map_or(0, |moved| moved.age);
        self.plan().arrives - age
    }

    /// Returns the time for which a retry is planned.
    pub fn point(&self, number: u32) -> ModelMillis {
        let begins = self.begins().unwrap_or_else(|| self.sent());
        begins + (self.plan().spent + 1..=number).map(|k| self.wait(k)).sum::<ModelMillis>()
    }

    /// Returns the time after which it must not be hidden any more, since its queue is about to drop it.
    pub fn safe_until(&self, message: ModelMessage) -> ModelMillis {
        let settings = match &self.world.requeue {
            Some(settings) if message.requeue => settings,
            _ => &self.world.dlq,
        };
        let retention = u64::try_from(settings.retention).unwrap();
        self.kept_since(message) + seconds(retention - expiry_margin(retention))
    }

    /// Returns the time after which it would be archived if its queue kept it for four days.
    pub fn safe_by_default(&self, message: ModelMessage) -> ModelMillis {
        self.kept_since(message) + seconds(DEFAULT_RETENTION - expiry_margin(DEFAULT_RETENTION))
    }

    /// Returns the time since which a queue keeps a message, as the function counts it.
    pub fn kept_since(&self, message: ModelMessage) -> ModelMillis {
        if message.requeue && self.plan().spent == 0 { self.sent() } else { self.sent_in_dlq(message) }
    }

    /// Returns the time since which its instance had asked for the retention, if the queue had not told it when
    /// the decision was made that led to this fact, the one with this number.
    pub fn was_unread(&self, message: ModelMessage, index: usize) -> Option<ModelMillis> {
        self.decided(message, index).find_map(|fact| match fact.what {
            FactKind::RetentionUnread { asked } => Some(Some(asked)),
            FactKind::RetentionRead => Some(None),
            _ => None,
        })?
    }

    /// Returns the facts about a message that the invocation of the fact with this number knew by then, the last one
    /// first.
    fn decided(&self, message: ModelMessage, index: usize) -> impl Iterator<Item = &StoryFact> {
        let run = self.facts[index].run;
        self.facts[..index]
            .iter()
            .rev()
            .copied()
            .filter(move |fact| fact.message == message && fact.run == run)
    }

    /// Reports whether the queue that SQS moved it from had not told its `maxReceiveCount` when the decision
    /// was made that led to this fact.
    pub fn source_was_unread(&self, message: ModelMessage, index: usize) -> bool {
        let mut decided = self.decided(message, index);
        let last = decided.find(|fact| matches!(fact.what, FactKind::SourceUnread | FactKind::SourceRead));
        last.is_some_and(|fact| fact.what == FactKind::SourceUnread)
    }

    /// Reports whether an override about it to hold is in force.
    pub fn is_held_at(&self, now: ModelMillis) -> bool {
        let mut overrides = self.world.operator.overrides.iter().filter(|given| given.is_about(self.who));
        overrides.any(|given| given.action == OverrideAction::Hold && (given.from..given.to).contains(&now))
    }

    /// Returns the time when a message was sent. In the requeue, the mark's first arrival counts.
    pub fn sent_in_dlq(&self, message: ModelMessage) -> ModelMillis {
        if message.requeue { self.plan().arrives } else { self.sent() }
    }

    /// Reports whether an order of this kind is ever given about it.
    pub fn is_overridden(&self, action: OverrideAction) -> bool {
        let overrides = &self.world.operator.overrides;
        overrides.iter().any(|given| given.action == action && given.is_about(self.who))
    }

    pub fn count(&self, matches: impl Fn(&FactKind) -> bool) -> usize {
        self.facts.iter().filter(|fact| matches(&fact.what)).count()
    }

    pub fn fault(&self, what: &str) -> LawJudgement {
        let mut text = format!("letter {}: {what}\n", self.who);
        for fact in &self.facts {
            let place = if fact.message.requeue { "requeue" } else { "dlq" };
            writeln!(text, "  {:>12} {place} #{} {:?}", fact.at, fact.message.number, fact.what).unwrap();
        }
        Err(text)
    }

    /// Reports whether some wait before the first retry of a message ends so little above a whole number of
    /// ceilings that its last, tiny hiding falls into the second of slack. Then that retry is made twice.
    pub fn ends_in_the_slack(&self, latency: ModelMillis) -> bool {
        let ceiling = seconds(self.world.ceiling);
        let mut firsts: BTreeMap<ModelMessage, ModelMillis> = BTreeMap::new();
        for fact in self.facts.iter().filter(|fact| matches!(fact.what, FactKind::Received { .. })) {
            firsts.entry(fact.message).or_insert(fact.at);
        }
        self.facts.iter().any(|fact| {
            let FactKind::Sent { due } = fact.what else { return false };
            let Some(first) = firsts.get(&fact.message) else { return false };
            let wait = due.unwrap_or_else(|| self.point(self.plan().spent + 1)) - first;
            let hops = wait / ceiling;
            hops > 0 && wait % ceiling <= MODEL_CLOCK_TOLERANCE + (hops + 1) * latency
        })
    }

    pub fn messages(&self) -> BTreeSet<ModelMessage> {
        self.facts.iter().map(|fact| fact.message).collect()
    }

    pub fn about(&self, message: ModelMessage) -> impl Iterator<Item = &&StoryFact> {
        self.facts.iter().filter(move |fact| fact.message == message)
    }
}
