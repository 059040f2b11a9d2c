//! Notices of archived letters: which letters are counted, when a notice is due, and how it reads.
//!
//! A notice says how many letters of which kind were archived. It never contains any part of a letter's
//! message.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::message::{MAX_NAMES, NoticeMessage, NoticeParts, NoticePlaces, is_listed, letters, seconds};
use crate::arn::Arn;
use crate::batch::{LetterReport, Outcome};
use crate::endpoint::TargetName;
use crate::letter::Letter;
use crate::policy::ArchiveReason;

/// The shortest time between two notices of an instance, whether SNS accepted the first or not.
const NOTICE_INTERVAL: Duration = Duration::from_mins(1);

/// The largest number of kinds that are counted separately. Letters of further kinds are counted together.
const KINDS: usize = 100;

/// The largest number of kinds that a notice lists. Even with each of them in every form, a notice stays
/// below half of SNS's limit of 256 KiB.
/// <https://docs.aws.amazon.com/general/latest/gr/sns.html#limits_sns>
const LISTED: usize = 20;

/// The archived letters of one instance for which no notice was sent yet.
#[derive(Debug)]
pub struct ArchiveNotices {
    topic: Arn,
    untold: Option<ArchiveNotice>,
    /// The age of the instance when it last sent one.
    tried: Option<Duration>,
}

/// A message about archived letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveNotice {
    kinds: BTreeMap<NoticeGroup, u64>,
    /// The first [`MAX_NAMES`] topics and targets of the letters.
    topics: BTreeSet<Arn>,
    targets: BTreeSet<TargetName>,
    /// The number of letters of further kinds, once there are [`KINDS`].
    others: u64,
    /// A time before which none of these letters was archived.
    since: Timestamp,
    /// A time after which none of these letters was archived.
    until: Timestamp,
}

/// A kind of letter, which a notice counts together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
struct NoticeGroup {
    topic_arn: Option<Arn>,
    subscription_arn: Option<Arn>,
    reason: &'static str,
    /// The code of our last attempt's failure.
    error_code: Option<String>,
    /// The code by which Lambda or `EventBridge` gave up on the letter; SNS names none.
    cause_code: Option<String>,
}

impl ArchiveNotices {
    /// Creates the notices of an instance that has sent none yet. They go to `topic`.
    #[must_use]
    pub fn new(topic: Arn) -> Self {
        Self { topic, untold: None, tried: None }
    }

    /// Returns the topic that the notices go to.
    #[must_use]
    pub fn topic(&self) -> &Arn {
        &self.topic
    }

    /// Counts the letters that were archived by an invocation, which began at `began` and has ended at `now`.
    ///
    /// It leaves out letters of the notices' own topic, because each of them would cause the next.
    pub fn count(&mut self, reports: &[LetterReport], began: Timestamp, now: Timestamp) {
        for report in reports {
            let Outcome::Archived(reason) = report.outcome else { continue };
            if report.letter.topic() == Some(&self.topic) {
                continue;
            }
            let listed = |arn: &&Arn| is_listed(arn.as_str());
            let kind = NoticeGroup {
                topic_arn: report.letter.topic().filter(listed).cloned(),
                subscription_arn: report.letter.subscription().filter(listed).cloned(),
                reason: reason.name(),
                error_code: report.failure.as_ref().map(|failure| failure.code.clone()),
                cause_code: cause_code(&report.letter),
            };
            let untold = self.untold.get_or_insert_with(|| ArchiveNotice::empty(began, now));
            untold.add_names(kind.topic_arn.clone(), report.target.clone());
            untold.add(kind, 1);
            untold.until = now;
        }
    }

    /// Takes the notice that is due at this age of the instance, if one is.
    pub fn due(&mut self, age: Duration) -> Option<ArchiveNotice> {
        let waits = |tried: Duration| age.saturating_sub(tried) < NOTICE_INTERVAL;
        if self.untold.is_none() || self.tried.is_some_and(waits) {
            return None;
        }
        self.tried = Some(age);
        self.untold.take()
    }

    /// Puts back a notice that was not sent: the next notice counts its letters too.
    pub fn put_back(&mut self, notice: ArchiveNotice) {
        match &mut self.untold {
            None => self.untold = Some(notice),
            Some(untold) => untold.add_all(notice),
        }
    }
}

impl ArchiveNotice {
    fn empty(since: Timestamp, until: Timestamp) -> Self {
        let (topics, targets) = (BTreeSet::new(), BTreeSet::new());
        Self { kinds: BTreeMap::new(), topics, targets, others: 0, since, until }
    }

    fn add_names(
        &mut self,
        topics: impl IntoIterator<Item = Arn>,
        targets: impl IntoIterator<Item = TargetName>,
    ) {
        let free = MAX_NAMES.saturating_sub(self.topics.len());
        self.topics.extend(topics.into_iter().take(free));
        let free = MAX_NAMES.saturating_sub(self.targets.len());
        let targets = targets.into_iter().filter(|target| is_listed(target.as_str()));
        self.targets.extend(targets.take(free));
    }

    fn add(&mut self, kind: NoticeGroup, letters: u64) {
        if self.kinds.len() < KINDS || self.kinds.contains_key(&kind) {
            *self.kinds.entry(kind).or_default() += letters;
        } else {
            self.others += letters;
        }
    }

    fn add_all(&mut self, other: Self) {
        other.kinds.into_iter().for_each(|(kind, letters)| self.add(kind, letters));
        self.add_names(other.topics, other.targets);
        self.others += other.others;
        self.since = self.since.min(other.since);
        self.until = self.until.max(other.until);
    }

    /// Returns the number of letters that the notice counts.
    #[must_use]
    pub fn letters(&self) -> u64 {
        self.kinds.values().sum::<u64>() + self.others
    }

    /// Returns the subject of an email.
    fn subject(&self) -> String {
        let mut reasons = self.kinds.keys().map(|kind| kind.reason);
        let first = reasons.next().filter(|first| self.others == 0 && reasons.all(|reason| reason == *first));
        let reason = first.map_or(String::new(), |reason| format!(": {reason}"));
        format!("sns-redrive archived {}{reason}", letters(self.letters()))
    }

    /// Returns the message.
    #[must_use]
    pub fn message(&self, places: &NoticePlaces) -> NoticeMessage {
        let facts = json!({
            "letters": self.letters().to_string(),
            "since": seconds(self.since),
            "until": seconds(self.until),
            "archive": places.archive,
        });
        let (subject, text, data) = (self.subject(), self.text(places), self.data(places));
        let parts = NoticeParts { kind: "archived", event: "letters-archived", subject, text, data, facts };
        parts.message(&self.topics, &self.targets)
    }

    /// Returns the command that sends again those of the letters that failed, if some did.
    fn replay_command(&self, places: &NoticePlaces) -> Option<String> {
        let failed = [ArchiveReason::Exhausted, ArchiveReason::Expiring, ArchiveReason::Permanent];
        let counted = |reason: &&str| self.kinds.keys().any(|kind| kind.reason == *reason);
        let reasons: Vec<_> = failed.into_iter().map(ArchiveReason::name).filter(counted).collect();
        places.replay_command(None, (self.since, self.until), &reasons)
    }

    /// Returns the [`LISTED`] kinds with the most letters, and the number of letters of each.
    fn listed(&self) -> Vec<(&NoticeGroup, u64)> {
        let mut kinds: Vec<_> = self.kinds.iter().map(|(kind, letters)| (kind, *letters)).collect();
        kinds.sort_by_key(|(_, letters)| Reverse(*letters));
        kinds.truncate(LISTED);
        kinds
    }

    /// Returns the number of letters whose kinds are not listed.
    fn unlisted(&self) -> u64 {
        self.letters() - self.listed().iter().map(|(_, letters)| letters).sum::<u64>()
    }

    /// Returns the form for people.
    fn text(&self, places: &NoticePlaces) -> String {
        let (since, until) = (seconds(self.since), seconds(self.until));
        let were = if self.letters() == 1 { "was" } else { "were" };
        let begin = format!("{} {were} archived between {since} and {until}.\n", letters(self.letters()));
        let kinds = self.listed().into_iter().map(|(kind, count)| {
            let code = kind.error_code.as_ref().map_or(String::new(), |code| format!(" ({code})"));
            let of = kind.subscription_arn.as_ref().or(kind.topic_arn.as_ref());
            let cause = kind.cause_code.as_ref().map_or(String::new(), |code| format!(", cause {code}"));
            format!("{count:>6}  {}{code}{cause}, {}", kind.reason, of.map_or("no known topic", Arn::as_str))
        });
        let others = Some(self.unlisted()).filter(|letters| *letters > 0);
        let others = others.map(|letters| format!("{letters:>6}  of other kinds"));
        let show = places.show_command(self.since).map(|command| format!(" To see the letters:\n{command}"));
        let replay = self.replay_command(places);
        let replay = replay.map(|command| {
            format!("\n\nTo send again those that failed, when their targets work:\n{command}")
        });
        let (show, replay) = (show.unwrap_or_default(), replay.unwrap_or_default());
        let end = format!("\nThe archive is {}.{show}{replay}\n", places.archive);
        [begin].into_iter().chain(kinds).chain(others).chain([end]).collect::<Vec<_>>().join("\n")
    }

    /// Returns the form for programs.
    fn data(&self, places: &NoticePlaces) -> Value {
        let kinds = self.listed().into_iter().map(|(kind, letters)| {
            let mut kind = json!(kind);
            kind["letters"] = json!(letters);
            kind
        });
        json!({
            "version": 1,
            "type": "letters-archived",
            "letters": self.letters(),
            "since": seconds(self.since),
            "until": seconds(self.until),
            "archive": places.archive,
            "command": places.show_command(self.since),
            "replay": self.replay_command(places),
            "kinds": kinds.collect::<Value>(),
            "otherLetters": self.unlisted(),
        })
    }
}

/// Returns the code by which a letter's sender gave up on it. A failed function may put any text there, so only a plain
/// word is told.
fn cause_code(letter: &Letter) -> Option<String> {
    letter.cause.as_ref()?.code.clone().filter(|code| is_listed(code))
}

#[cfg(test)]
mod tests {
    use super::super::message::{LONGEST_NAME, PROGRAMS};
    use super::*;

    const TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:payments";
    const ARCHIVE: &str = "s3://my-bucket/dead-letters";

    const REQUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:requeue";

    fn places(archive: &str, requeue: &str) -> NoticePlaces {
        NoticePlaces { archive: archive.to_owned(), control: None, requeue: requeue.parse().ok() }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_793_534_400 + seconds).unwrap()
    }

    fn kind(reason: ArchiveReason, code: Option<&str>) -> NoticeGroup {
        let subscription = format!("{TOPIC}:0a1b").parse().ok();
        let error_code = code.map(str::to_owned);
        NoticeGroup {
            topic_arn: TOPIC.parse().ok(),
            subscription_arn: subscription,
            reason: reason.name(),
            error_code,
            cause_code: None,
        }
    }

    fn unknown() -> NoticeGroup {
        let kind = kind(ArchiveReason::Unrecognised, None);
        NoticeGroup { topic_arn: None, subscription_arn: None, ..kind }
    }

    fn notice(kinds: &[(NoticeGroup, u64)]) -> ArchiveNotice {
        let mut notice = ArchiveNotice::empty(at(0), at(59));
        for (kind, letters) in kinds {
            notice.add(kind.clone(), *letters);
        }
        notice
    }

    fn notices() -> ArchiveNotices {
        ArchiveNotices::new(TOPIC.parse().unwrap())
    }

    fn age(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn archive(notices: &mut ArchiveNotices, letters: u64, time: i64) {
        let mut notice = ArchiveNotice::empty(at(time), at(time));
        notice.add(kind(ArchiveReason::Exhausted, Some("Http503")), letters);
        notices.put_back(notice);
    }

    #[test]
    fn the_first_notice_goes_at_once_and_the_next_a_minute_later_with_all_that_is_left() {
        let mut notices = notices();
        assert_eq!(notices.due(age(0)), None, "nothing was archived");
        archive(&mut notices, 1, 0);
        assert_eq!(notices.due(age(0)).map(|notice| notice.letters()), Some(1));
        archive(&mut notices, 2, 1);
        archive(&mut notices, 3, 59);
        assert_eq!(notices.due(age(59)), None);
        let next = notices.due(age(60)).unwrap();
        assert_eq!((next.letters(), next.since, next.until), (5, at(1), at(59)));
        assert_eq!(notices.due(age(1_000)), None, "all is told");
    }

    #[test]
    fn a_notice_that_was_not_sent_is_tried_again_after_the_minute_with_what_came_since() {
        let mut notices = notices();
        archive(&mut notices, 1, 0);
        let unsent = notices.due(age(0)).unwrap();
        archive(&mut notices, 2, 30);
        notices.put_back(unsent);
        assert_eq!(notices.due(age(59)), None);
        let next = notices.due(age(60)).unwrap();
        assert_eq!((next.letters(), next.since, next.until), (3, at(0), at(30)));
    }

    #[test]
    fn people_read_how_many_of_which_kind_since_when_and_how_to_see_them() {
        let exhausted = kind(ArchiveReason::Exhausted, Some("Http503"));
        let by_rule =
            NoticeGroup { cause_code: Some("Unhandled".to_owned()), ..kind(ArchiveReason::Rule, None) };
        let two = notice(&[(unknown(), 2), (exhausted.clone(), 10), (by_rule, 1)]);
        assert_eq!(
            two.text(&places(ARCHIVE, REQUEUE)),
            "13 letters were archived between 2026-11-01T12:00:00Z and 2026-11-01T12:00:59Z.\n\n    \
             10  exhausted (Http503), arn:aws:sns:eu-central-1:123456789012:payments:0a1b\n     \
             2  unrecognised, no known topic\n     \
             1  rule, cause Unhandled, arn:aws:sns:eu-central-1:123456789012:payments:0a1b\n\n\
             The archive is s3://my-bucket/dead-letters. To see the letters:\n\
             redrivectl archive show --archive s3://my-bucket/dead-letters --since 2026-11-01T12:00:00Z\n\n\
             To send again those that failed, when their targets work:\n\
             redrivectl replay --archive s3://my-bucket/dead-letters \
             --requeue arn:aws:sqs:eu-central-1:123456789012:requeue --reason exhausted \
             --since 2026-11-01T12:00:00Z --until 2026-11-01T12:01:00Z\n"
        );
        assert_eq!(two.subject(), "sns-redrive archived 13 letters");
        let one = notice(&[(exhausted, 1)]);
        assert_eq!(one.subject(), "sns-redrive archived 1 letter: exhausted");
        let queue = "arn:aws:sqs:eu-central-1:123456789012:payments-archive";
        let text = one.text(&places(queue, REQUEUE));
        assert!(text.ends_with(&format!("The archive is {queue}.\n")), "{text}");
    }

    /// Without them, letters would be sent again that a rule or an operator has given up, or that nobody can deliver.
    #[test]
    fn the_command_that_sends_letters_again_names_the_reasons_of_those_that_failed_and_no_other() {
        let others =
            [ArchiveReason::Rule, ArchiveReason::GivenUp, ArchiveReason::Refused, ArchiveReason::Loop];
        let failed = [ArchiveReason::Exhausted, ArchiveReason::Expiring, ArchiveReason::Permanent];
        let command = |reasons: &[ArchiveReason]| {
            let kinds: Vec<_> =
                reasons.iter().chain(&others).map(|reason| (kind(*reason, None), 1)).collect();
            let notice = notice(&kinds);
            let places = places(ARCHIVE, REQUEUE);
            let command = notice.data(&places)["replay"].as_str().map(str::to_owned);
            assert_eq!(notice.text(&places).contains("\nredrivectl replay "), command.is_some());
            assert!(command.iter().all(|command| notice.text(&places).contains(command)), "{command:?}");
            command
        };
        for count in 1..=failed.len() {
            let command = command(&failed[..count]).unwrap();
            let words: Vec<_> = command.split(' ').collect();
            let named = words.windows(2).filter(|two| two[0] == "--reason").map(|two| two[1]);
            let expected = failed[..count].iter().map(|reason| reason.name());
            assert!(named.eq(expected), "{command}");
        }
        assert_eq!(command(&[]), None);
    }

    #[test]
    fn programs_read_the_same_as_json() {
        let notice = notice(&[(unknown(), 2), (kind(ArchiveReason::Exhausted, Some("Http503")), 10)]);
        assert_eq!(
            notice.data(&places(ARCHIVE, "")),
            json!({
                "version": 1,
                "type": "letters-archived",
                "letters": 12,
                "since": "2026-11-01T12:00:00Z",
                "until": "2026-11-01T12:00:59Z",
                "archive": ARCHIVE,
                "command": format!("redrivectl archive show --archive {ARCHIVE} --since 2026-11-01T12:00:00Z"),
                "replay": null,
                "kinds": [
                    {
                        "letters": 10,
                        "topicArn": TOPIC,
                        "subscriptionArn": format!("{TOPIC}:0a1b"),
                        "reason": "exhausted",
                        "errorCode": "Http503",
                        "causeCode": null,
                    },
                    {
                        "letters": 2,
                        "topicArn": null,
                        "subscriptionArn": null,
                        "reason": "unrecognised",
                        "errorCode": null,
                        "causeCode": null,
                    },
                ],
                "otherLetters": 0,
            })
        );
    }

    #[test]
    fn each_protocol_gets_the_form_that_its_subscribers_can_read() {
        let notice = notice(&[(unknown(), 2)]);
        let places = places(ARCHIVE, "");
        let forms: Value = serde_json::from_str(&notice.message(&places).message).unwrap();
        let form = |protocol: &str| forms[protocol].as_str().unwrap_or_else(|| panic!("{protocol}: {forms}"));
        assert_eq!(form("default"), notice.text(&places));
        assert_eq!(form("sms"), "sns-redrive archived 2 letters: unrecognised");
        for protocol in PROGRAMS {
            assert_eq!(form(protocol), notice.data(&places).to_string(), "{protocol}");
        }
        let chat: Value = serde_json::from_str(form("https")).unwrap();
        assert_eq!([&chat["version"], &chat["source"]], ["1.0", "custom"]);
        assert_eq!(chat["content"]["description"], format!("```\n{}```", notice.text(&places)));
    }

    #[test]
    fn many_kinds_stay_within_the_limits_of_sns_and_no_letter_is_left_uncounted() {
        let mut notice = ArchiveNotice::empty(at(0), at(59));
        for id in 0..300 {
            let subscription = format!("{:x<LONGEST_NAME$}", format!("{TOPIC}:{id}-")).parse::<Arn>().ok();
            assert!(subscription.is_some());
            let code = "x".repeat(128);
            let kind = NoticeGroup {
                cause_code: Some(code.clone()),
                ..kind(ArchiveReason::UndeliverableProtocol, Some(&code))
            };
            notice.add_names(
                subscription.clone(),
                subscription.as_ref().map(|it| TargetName::read(it.as_str())),
            );
            notice.add(
                NoticeGroup { topic_arn: subscription.clone(), subscription_arn: subscription, ..kind },
                1,
            );
        }
        assert_eq!((notice.kinds.len(), notice.others, notice.letters()), (KINDS, 200, 300));
        assert_eq!((notice.listed().len(), notice.unlisted()), (LISTED, 280));
        let places = places(ARCHIVE, REQUEUE);
        assert!(notice.text(&places).contains("\n   280  of other kinds\n"));
        let NoticeMessage { message, attributes, .. } = notice.message(&places);
        let length = message.len() + attributes.iter().map(|attribute| attribute.value.len()).sum::<usize>();
        assert!(length < 192 * 1024, "{length} bytes");
        let listed =
            attributes[1..].iter().map(|it| serde_json::from_str::<Vec<String>>(&it.value).unwrap().len());
        assert_eq!(listed.collect::<Vec<_>>(), [MAX_NAMES, MAX_NAMES]);
        assert!(notice.subject().len() <= 100);
    }
}
