//! The letters of a queue in groups: who failed, what the policy would do, and when.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use redrive_console::schedule::Timetable;
use redrive_core::arn::Arn;
use redrive_core::batch::{LetterForecast, foresee};
use redrive_core::letter::{Letter, Origin, OriginClaim, SqsMessage};
use redrive_core::policy::{
    ArchiveReason, Decision, LetterFacts, Policy, Retention, Route, Rule, expiry_margin, plus, seconds_until,
};

/// The upper bounds of the classes of age, in seconds, each with its name. Older letters have a class of their own.
pub(super) const AGE_CLASSES: [(u64, &str); 3] =
    [(3_600, "up to 1 h"), (86_400, "up to 1 d"), (345_600, "up to 4 d")];

/// The things that the letters of a group have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct GroupKey {
    /// The name of the origin.
    pub(super) origin: &'static str,
    pub(super) topic: Option<Arn>,
    pub(super) subscription: Option<Arn>,
    /// The queue, function or target that failed, if the letter comes from no subscription and names it.
    pub(super) failed: Option<Arn>,
    /// The origin that the letters claim, if the policy does not list it.
    pub(super) claim: Option<&'static str>,
    /// The name of the rule.
    pub(super) rule: String,
}

/// The letters of one group.
#[derive(Debug)]
pub(super) struct LetterGroup {
    pub(super) key: GroupKey,
    /// The route of the first of them.
    pub(super) route: Route,
    pub(super) letters: u64,
    /// When the first and the last of them arrived.
    pub(super) oldest: Timestamp,
    pub(super) newest: Timestamp,
    /// The numbers of letters by age, in the order of [`AGE_CLASSES`], and older ones.
    pub(super) ages: [u64; AGE_CLASSES.len() + 1],
    /// The greatest number of receives.
    pub(super) receives: u32,
    pub(super) would: PolicyForecast,
}

/// What the policy would do with letters now.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct PolicyForecast {
    /// Letters that it would retry at once.
    pub(super) retried: u64,
    /// Of these, letters with no other retry after it.
    pub(super) last_retries: u64,
    /// Letters that it would hide.
    pub(super) hidden: u64,
    /// When the first and the last of these are due.
    pub(super) due: Option<(Timestamp, Timestamp)>,
    /// Letters that it would archive, by reason.
    pub(super) archived: BTreeMap<&'static str, u64>,
    /// Letters whose subscription the function would search for first.
    pub(super) searched: u64,
    /// When the last of them is archived at the latest, if all its retries fail.
    pub(super) ends: Option<Timestamp>,
}

/// The groups of a queue.
pub(super) struct LetterGroups<'p> {
    policy: &'p Policy,
    facts: LetterFacts,
    now: Timestamp,
    /// Seconds.
    retention: u64,
    /// The timetables of rules, by name.
    timetables: HashMap<&'p str, Timetable>,
    groups: HashMap<GroupKey, LetterGroup>,
}

impl<'p> LetterGroups<'p> {
    /// Returns no groups. `retention` is that of the queue, in seconds.
    pub(super) fn new(
        policy: &'p Policy,
        retention: u64,
        schedule_from: Option<Timestamp>,
        now: Timestamp,
    ) -> Self {
        let known = Retention::Known(retention);
        let facts = LetterFacts { retention: known, schedule_from, ..LetterFacts::default() };
        Self { policy, facts, now, retention, timetables: HashMap::new(), groups: HashMap::new() }
    }

    /// Adds a letter to its group. `source_max_receives` is the `maxReceiveCount` of the queue from which SQS moved it.
    pub(super) fn add(&mut self, message: SqsMessage, source_max_receives: Option<u32>) {
        let (letter, rule) = self.policy.sort(self.policy.read(message, None));
        let facts = LetterFacts { source_max_receives, ..self.facts.clone() };
        let verdict = rule.decide(&letter, &facts, self.now);
        let is_searched =
            letter.sqs.unread.is_none() && rule.searches_for_subscription(&letter, &facts.overridden);
        let foresight = foresee(&verdict, &letter, &facts.overridden, None);
        let key = GroupKey {
            origin: letter.origin.name(),
            topic: letter.topic().cloned(),
            subscription: verdict.route.subscription().or(letter.subscription()).cloned(),
            failed: failed(&letter),
            claim: letter.unlisted.map(OriginClaim::name),
            rule: rule.name.clone(),
        };
        let (sent, receives) = (letter.sqs.sent, letter.sqs.receive_count);
        let ends = self.end(rule, &foresight.decision, sent);
        let group = self.groups.entry(key).or_insert_with_key(|key| LetterGroup {
            key: key.clone(),
            route: verdict.route.clone(),
            letters: 0,
            oldest: sent,
            newest: sent,
            ages: <_>::default(),
            receives,
            would: PolicyForecast::default(),
        });
        group.letters += 1;
        group.oldest = group.oldest.min(sent);
        group.newest = group.newest.max(sent);
        group.receives = group.receives.max(receives);
        let age = seconds_until(sent, self.now);
        let class = AGE_CLASSES.iter().position(|(most, _)| age <= *most).unwrap_or(AGE_CLASSES.len());
        group.ages.iter_mut().skip(class).take(1).for_each(|number| *number += 1);
        group.would.count(&foresight, is_searched);
        group.would.ends = group.would.ends.max(ends);
    }

    /// Returns when a letter is archived if all its retries fail: after the last one, or before SQS would drop it.
    fn end(&mut self, rule: &'p Rule, decision: &Decision, sent: Timestamp) -> Option<Timestamp> {
        let (from, number) = match decision {
            Decision::Deliver(retry) => (retry.planned.unwrap_or(self.now), retry.upcoming()),
            Decision::Defer(deferral) => (deferral.due, deferral.retry),
            Decision::Archive(..) => return None,
        };
        let timetable =
            self.timetables.entry(&rule.name).or_insert_with(|| Timetable::of(rule, self.retention));
        let row = timetable.rows.get(usize::try_from(number).ok()?.saturating_sub(1));
        let left = row.map_or(0, |row| timetable.length().saturating_sub(row.since));
        let kept = self.retention.saturating_sub(expiry_margin(self.retention));
        Some(plus(from, left).min(plus(sent, kept)))
    }

    /// Returns the groups, the largest first.
    pub(super) fn sorted(self) -> Vec<LetterGroup> {
        let mut groups: Vec<_> = self.groups.into_values().collect();
        groups.sort_by(|one, other| other.letters.cmp(&one.letters).then_with(|| one.key.cmp(&other.key)));
        groups
    }
}

/// Returns what failed with a letter of no subscription, as the letter or SQS names it.
fn failed(letter: &Letter) -> Option<Arn> {
    match &letter.origin {
        Origin::Sqs { source } => Some(source.clone()),
        Origin::LambdaDestination { function } => Some(function.clone()),
        Origin::EventBridge { target, .. } => Some(target.clone()),
        Origin::Sns | Origin::LambdaAsync | Origin::EventBusRecord | Origin::Raw => None,
    }
}

impl PolicyForecast {
    fn count(&mut self, foresight: &LetterForecast, is_searched: bool) {
        if is_searched {
            self.searched += 1;
            return;
        }
        match &foresight.decision {
            Decision::Deliver(retry) => {
                self.retried += 1;
                self.last_retries += u64::from(retry.is_last());
            }
            Decision::Defer(deferral) => {
                self.hidden += 1;
                let (first, last) = self.due.unwrap_or((deferral.due, deferral.due));
                self.due = Some((first.min(deferral.due), last.max(deferral.due)));
            }
            Decision::Archive(reason, _) => {
                *self.archived.entry(ArchiveReason::name(*reason)).or_default() += 1;
            }
        }
    }
}
