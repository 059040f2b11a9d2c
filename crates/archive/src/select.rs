//! The selection of letters in an archive.
//!
//! Keys hold the dead-letter queue's name, the day and an index. So large parts of an archive need not be
//! listed, and many listed objects need not be read. The rest is decided by each record. This module does no
//! I/O.

use jiff::Timestamp;
use redrive_core::arn::Arn;
use redrive_core::endpoint::TargetName;
use redrive_core::letter::{Letter, Origin};
use redrive_core::policy::{BadPolicy, DocumentFault, Policy, after_mark, read_json, rounds_numbers};

use super::erased::ErasedRecord;
use super::index::{IndexGroup, ObjectIndex, topic_hash};
use super::object::ArchiveObject;
use super::read::BadRecord;
use super::record::ArchiveRecord;
use super::selection_times::SelectionTimes;

/// The criteria for letters of an archive. A missing criterion or an empty list sets no limit.
#[derive(Debug, Default)]
pub struct Selection {
    /// The letters' dead-letter queue, or the queue that held them, by ARN or name.
    pub queue: Option<String>,
    /// The function's requeue by ARN or name, if it is known. It holds letters of any dead-letter queue.
    pub requeue: Option<String>,
    /// The letters were archived at this time or later.
    pub from: Option<Timestamp>,
    /// The letters were archived before this time.
    pub to: Option<Timestamp>,
    /// The letters were archived before this time, and S3's own clock says that the object was stored before
    /// it. An object that appears later is left out, even if it claims to be older.
    pub cut_off: Option<Timestamp>,
    /// The reasons for archiving: names of [`redrive_core::policy::ArchiveReason`].
    pub reasons: Vec<String>,
    /// The topics of the SNS messages in the letters, by ARN or name.
    pub topics: Vec<String>,
    /// The letters' origins: names of [`redrive_core::letter::Origin`].
    pub origins: Vec<String>,
    /// The codes of the letters' last failures.
    pub errors: Vec<String>,
    /// The letters' targets.
    pub targets: Vec<TargetName>,
    /// The subscriptions for which SNS gave up on the letters, by ARN.
    pub subscriptions: Vec<String>,
    /// A pattern that the letters match.
    pub pattern: Option<LetterPattern>,
}

/// An `EventBridge` pattern over the JSON view of a letter, as in the rules of a policy.
#[derive(Debug)]
pub struct LetterPattern(Policy);

impl LetterPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// The faults of the pattern, in words, each after the path to it.
    pub fn parse(json: &str) -> Result<Self, Vec<String>> {
        let said = |fault: DocumentFault| {
            if fault.path.is_empty() { format!("is {fault}") } else { fault.to_string() }
        };
        let json = after_mark(json);
        read_json(json).map_err(|faults| faults.into_iter().map(said).collect::<Vec<_>>())?;
        // It travels as a value, in requests and ledgers.
        if rounds_numbers(json) {
            return Err(vec!["holds a number that would be rounded: write 15 digits at most".to_owned()]);
        }
        // The matcher is the policy's own, so a pattern means the same here as in a policy.
        let policy = format!(r#"{{"rules":[{{"name":"selected","match":{json}}}]}}"#);
        let told = |mut fault: DocumentFault| {
            let path = fault.path.strip_prefix("rules[0].match").unwrap_or(&fault.path);
            fault.path = path.trim_start_matches('.').to_owned();
            fault.to_string()
        };
        let problems = |bad: BadPolicy| bad.0.into_iter().map(told).collect();
        Policy::parse(&policy).map(Self).map_err(problems)
    }

    /// Reports whether a letter matches.
    #[must_use]
    pub fn matches(&self, letter: &Letter) -> bool {
        self.0.rule_for(letter).name != self.0.default_rule().name
    }
}

impl Selection {
    /// Reports whether a record belongs to the selection.
    ///
    /// # Errors
    ///
    /// [`BadRecord`] if the record cannot be used.
    pub fn takes(&self, record: &ArchiveRecord) -> Result<bool, BadRecord> {
        let archived = record.archived();
        let any = |wanted: &[String], found: &str| wanted.is_empty() || wanted.iter().any(|it| it == found);
        let named = |wanted: &String, arn: &Arn| wanted == arn.as_str() || wanted == arn.resource();
        let topic = || record.topic_arn.as_ref();
        let told_by_record = self.from.is_none_or(|from| archived >= from)
            && self.until().is_none_or(|until| archived < until)
            && self.queue.as_ref().is_none_or(|queue| {
                named(queue, &record.dead_letter_queue_arn) || named(queue, &record.queue_arn)
            })
            && any(&self.reasons, &record.reason)
            && any(&self.origins, &record.origin)
            && (self.subscriptions.is_empty()
                || (record.origin == Origin::Sns.name()
                    && any(&self.subscriptions, record.subscription_arn.as_ref().map_or("", Arn::as_str))))
            && any(&self.errors, record.error.as_ref().map_or("", |error| &error.code))
            && (self.targets.is_empty()
                || record.target().is_some_and(|target| self.targets.iter().any(|it| it.as_str() == target)))
            && (self.topics.is_empty()
                || topic().is_some_and(|topic| self.topics.iter().any(|wanted| named(wanted, topic))));
        match &self.pattern {
            Some(pattern) if told_by_record => Ok(pattern.matches(&record.to_letter()?)),
            _ => Ok(told_by_record),
        }
    }

    /// Reports whether an erased letter belongs to the selection, as far as its line still tells. By anything else,
    /// such as a pattern, no erased letter is selected.
    #[must_use]
    pub fn takes_erased(&self, erased: &ErasedRecord) -> bool {
        let archived = erased.archived();
        let named = |wanted: &String, arn: &Arn| wanted == arn.as_str() || wanted == arn.resource();
        let topic = || erased.topic_arn.as_ref();
        let target = || erased.target();
        !self.asks_beyond_index()
            && self.from.is_none_or(|from| archived >= from)
            && self.until().is_none_or(|until| archived < until)
            && self.queue.as_ref().is_none_or(|queue| {
                named(queue, &erased.dead_letter_queue_arn) || named(queue, &erased.queue_arn)
            })
            && (self.reasons.is_empty() || self.reasons.contains(&erased.reason))
            && (self.topics.is_empty()
                || topic().is_some_and(|topic| self.topics.iter().any(|wanted| named(wanted, topic))))
            && (self.targets.is_empty()
                || target().is_some_and(|target| self.targets.iter().any(|it| it.as_str() == target)))
    }

    /// Estimates from the key alone how many letters of an object belong to the selection.
    #[must_use]
    pub fn holds(&self, object: &ArchiveObject) -> SelectedCount {
        let Some(index) = &object.index else {
            let may_hold = self.times().may_hold(object) && self.folder(object) != Some(false);
            return if may_hold {
                SelectedCount::AtMost(object.bytes / LEAST_RECORD_BYTES + 1)
            } else {
                SelectedCount::None
            };
        };
        let (letters, are_sure) = self.counts(index);
        let parts = [self.folder(object), self.times().span(object)];
        if letters == 0 || parts.contains(&Some(false)) {
            SelectedCount::None
        } else if are_sure && parts.iter().all(Option::is_some) && !self.asks_beyond_index() {
            SelectedCount::Exactly(letters)
        } else {
            SelectedCount::AtMost(letters)
        }
    }

    /// Reports whether the selection has a criterion that no index answers.
    fn asks_beyond_index(&self) -> bool {
        let lists = [&self.origins, &self.errors, &self.subscriptions];
        self.pattern.is_some() || lists.iter().any(|list| !list.is_empty())
    }

    /// Returns how many letters of an index match the reasons, topics and targets at most, and whether the number is exact.
    fn counts(&self, index: &ObjectIndex) -> (u64, bool) {
        let (letters, are_sure) = self.counts_of_groups(index);
        if self.targets.is_empty() {
            return (letters, are_sure);
        }
        match index.letters_of(&self.targets) {
            Some(of_targets) if letters == index.letters => (of_targets, are_sure),
            // Which of these letters are the same is not known.
            Some(of_targets) => (of_targets.min(letters), false),
            None => (letters, false),
        }
    }

    /// Returns how many letters of an index match the reasons and topics, and whether the number is exact.
    fn counts_of_groups(&self, index: &ObjectIndex) -> (u64, bool) {
        if self.reasons.is_empty() && self.topics.is_empty() {
            return (index.letters, true);
        }
        let Some(groups) = &index.groups else { return (index.letters, false) };
        let topics: Vec<_> = self.topics.iter().map(|topic| topic_hash(name_of(topic))).collect();
        let is_selected = |group: &&IndexGroup| {
            let topic = || group.topic.as_ref().is_some_and(|topic| topics.contains(topic));
            (self.reasons.is_empty() || self.reasons.contains(&group.reason))
                && (topics.is_empty() || topic())
        };
        let letters = groups.iter().filter(is_selected).map(|group| group.letters).sum();
        // Topics of other accounts may have the same name.
        (letters, self.topics.iter().all(|topic| is_name(topic)))
    }

    /// Reports whether the letters of an object belong to the selection's queue, as the folder tells. Returns
    /// `None` if only each record can tell.
    fn folder(&self, object: &ArchiveObject) -> Option<bool> {
        let Some(queue) = &self.queue else { return Some(true) };
        let requeue = self.requeue.as_deref().map(name_of);
        let (wanted, found) = (name_of(queue), object.queue());
        if found == wanted {
            // Queues of other accounts may have the same name.
            return is_name(queue).then_some(true);
        }
        let is_elsewhere = requeue.is_some_and(|requeue| requeue != wanted);
        is_elsewhere.then_some(false)
    }

    /// Returns the name of the queue whose folder has all selected letters, or `None` if they may be in any
    /// folder: a letter that lay in the requeue is in the folder of its dead-letter queue.
    pub(super) fn only_folder(&self) -> Option<&str> {
        let queue = name_of(self.queue.as_deref()?);
        (self.requeue.as_deref().map(name_of) != Some(queue)).then_some(queue)
    }

    pub(super) fn times(&self) -> SelectionTimes {
        SelectionTimes { from: self.from, until: self.until(), cut_off: self.cut_off }
    }

    /// Returns the end of the selection's time, if it has one.
    #[must_use]
    pub fn until(&self) -> Option<Timestamp> {
        self.to.into_iter().chain(self.cut_off).min()
    }
}

/// The number of selected letters in an object, as far as its key tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectedCount {
    /// The object holds none of them.
    None,
    /// The object holds at most this many, so it must be read.
    AtMost(u64),
    /// The object holds exactly this many.
    Exactly(u64),
}

/// The size of the smallest record, in bytes.
const LEAST_RECORD_BYTES: u64 = 512;

/// Returns the name of a queue or topic that is given by its ARN or name.
fn name_of(given: &str) -> &str {
    given.rsplit(':').next().unwrap_or(given)
}

fn is_name(given: &str) -> bool {
    name_of(given) == given
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    const PAYMENTS: &str = "3zhK6Xx3";
    const WORKER: &str = "0413ea87415c";

    fn object(queue: &str, name: &str) -> ArchiveObject {
        ArchiveObject::new(format!("p/queue={queue}/date=2026-11-01/20261101T120000{name}.jsonl"), 5000, None)
    }

    /// Seven letters archived at noon, four of which have the topic `payments`, and five went to `payments-worker`.
    fn indexed(queue: &str) -> ArchiveObject {
        let index = format!("2-n7-r0.exhausted.{PAYMENTS}.4.refused.none.3.T.{WORKER}.5.none.2");
        object(queue, &format!(".000Z-r.{index}"))
    }

    fn of(set: impl FnOnce(&mut Selection)) -> Selection {
        let mut selection = Selection::default();
        set(&mut selection);
        selection
    }

    fn noon_plus(millis: i64) -> Timestamp {
        let noon: Timestamp = "2026-11-01T12:00:00Z".parse().unwrap();
        noon + SignedDuration::from_millis(millis)
    }

    #[test]
    fn reasons_topics_and_times_are_told_by_the_index() {
        use SelectedCount::{AtMost, Exactly};
        let arn = |name: &str| format!("arn:aws:sns:eu-central-1:123456789012:{name}");
        let worker = || vec![TargetName::read("arn:aws:sqs:eu-central-1:123456789012:payments-worker")];
        let pattern = || LetterPattern::parse(r#"{"origin": ["sns"]}"#).ok();
        for (selection, expected) in [
            (Selection::default(), Exactly(7)),
            (of(|it| it.reasons = vec!["exhausted".into()]), Exactly(4)),
            (of(|it| it.reasons = vec!["exhausted".into(), "refused".into()]), Exactly(7)),
            (of(|it| it.reasons = vec!["rule".into()]), SelectedCount::None),
            (of(|it| it.topics = vec!["payments".into()]), Exactly(4)),
            (of(|it| it.topics = vec![arn("payments")]), AtMost(4)),
            (of(|it| it.topics = vec![arn("billing")]), SelectedCount::None),
            (
                of(|it| (it.topics, it.reasons) = (vec!["payments".into()], vec!["refused".into()])),
                SelectedCount::None,
            ),
            (of(|it| it.origins = vec!["sns".into()]), AtMost(7)),
            (of(|it| it.errors = vec!["AccessDenied".into()]), AtMost(7)),
            (of(|it| it.targets = vec![TargetName::read("https://example.com")]), SelectedCount::None),
            (of(|it| it.targets = worker()), Exactly(5)),
            (of(|it| (it.targets, it.reasons) = (worker(), vec!["refused".into()])), AtMost(3)),
            (of(|it| (it.targets, it.topics) = (worker(), vec![arn("payments")])), AtMost(4)),
            (of(|it| it.subscriptions = vec![arn("payments:a")]), AtMost(7)),
            (of(|it| it.pattern = pattern()), AtMost(7)),
            (of(|it| (it.from, it.to) = (Some(noon_plus(0)), Some(noon_plus(1)))), Exactly(7)),
            (of(|it| it.from = Some(noon_plus(1))), SelectedCount::None),
            (of(|it| it.to = Some(noon_plus(0))), SelectedCount::None),
            (of(|it| it.cut_off = Some(noon_plus(0))), SelectedCount::None),
        ] {
            assert_eq!(selection.holds(&indexed("dlq")), expected, "{selection:?}");
        }
        let part = of(|it| it.from = Some(noon_plus(0) + SignedDuration::from_micros(1)));
        assert_eq!(part.holds(&indexed("dlq")), AtMost(7));
        let short = object("dlq", ".000Z-r.2-n7-r0");
        assert_eq!(of(|it| it.reasons = vec!["rule".into()]).holds(&short), AtMost(7));
        assert_eq!(of(|it| it.targets = worker()).holds(&short), AtMost(7));
    }

    #[test]
    fn what_was_stored_after_the_cut_off_is_none_of_it() {
        let late = ArchiveObject { stored: Some(noon_plus(1000)), ..indexed("dlq") };
        // It may be a new version of an object that was stored before: reading it tells.
        assert_eq!(of(|it| it.cut_off = Some(noon_plus(1000))).holds(&late), SelectedCount::AtMost(7));
        assert_eq!(of(|it| it.cut_off = Some(noon_plus(1001))).holds(&late), SelectedCount::Exactly(7));
        assert_eq!(of(|it| it.cut_off = Some(noon_plus(0))).holds(&late), SelectedCount::None);
    }

    #[test]
    fn the_days_of_a_selection_are_those_of_its_ends() {
        let days = |from: Option<i64>, until: Option<i64>| {
            let selection = of(|it| (it.from, it.to) = (from.map(noon_plus), until.map(noon_plus)));
            selection.times().days()
        };
        let day = |day| Some(jiff::civil::date(2026, 11, day));
        assert_eq!(days(None, None), (None, None));
        assert_eq!(days(Some(0), Some(86_400_000)), (day(1), day(2)));
    }

    #[test]
    fn an_object_without_an_index_may_hold_as_much_as_fits_in() {
        let without = object("dlq", "Z-r");
        assert_eq!(Selection::default().holds(&without), SelectedCount::AtMost(10));
        assert_eq!(of(|it| it.reasons = vec!["rule".into()]).holds(&without), SelectedCount::AtMost(10));
    }

    #[test]
    fn a_queue_is_told_by_the_folder() {
        use SelectedCount::{AtMost, Exactly};
        let arn = |name: &str| format!("arn:aws:sqs:eu-central-1:123456789012:{name}");
        let without = |queue| object(queue, "Z-r");
        for (queue, requeue, folder, expected) in [
            (
                "dlq",
                Some("re"),
                Some("dlq"),
                [Exactly(7), AtMost(10), SelectedCount::None, SelectedCount::None, SelectedCount::None],
            ),
            ("dlq", None, Some("dlq"), [Exactly(7), AtMost(10), AtMost(7), AtMost(10), AtMost(7)]),
            ("re", Some("re"), None, [AtMost(7), AtMost(10), Exactly(7), AtMost(10), AtMost(7)]),
        ] {
            let objects = [indexed("dlq"), without("dlq"), indexed("re"), without("re"), indexed("other")];
            for given in [queue.to_owned(), arn(queue)] {
                let is_arn = given != queue;
                let selection = of(|it| {
                    it.queue = Some(given);
                    it.requeue = requeue.map(|name| if is_arn { arn(name) } else { name.to_owned() });
                });
                assert_eq!(selection.only_folder(), folder);
                let expected =
                    expected.map(|holds| if is_arn && holds == Exactly(7) { AtMost(7) } else { holds });
                assert_eq!(
                    objects.each_ref().map(|object| selection.holds(object)),
                    expected,
                    "{selection:?}"
                );
            }
        }
    }
}
