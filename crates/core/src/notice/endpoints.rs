//! Notices of endpoints that go down or come back: when they are sent, and how they read.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};

use super::message::{NoticeMessage, NoticeParts, NoticePlaces, letters, seconds};
use crate::arn::Arn;
use crate::batch::{ChangeKind, EndpointChange};
use crate::endpoint::TargetName;
use crate::policy::ArchiveReason;

/// The number of times that SNS is asked to take a notice, and the time from a failure until it is asked again.
const TRIES: u32 = 3;
const REST_AFTER_FAILURE: Duration = Duration::from_mins(1);

/// The largest number of notices that an invocation sends, and that wait to be sent. Further ones are left out.
const MOST_AT_ONCE: usize = 10;
const MOST_WAITING: usize = 100;

/// The longest subject: SNS wants fewer than 100 characters.
/// <https://docs.aws.amazon.com/sns/latest/api/API_Publish.html>
const LONGEST_SUBJECT: usize = 99;

/// The reasons why letters are archived because their endpoint was down.
const GIVEN_UP_BY_TIME: [&str; 2] = [ArchiveReason::Exhausted.name(), ArchiveReason::Expiring.name()];

/// The notices of endpoints that an instance has claimed and not sent yet.
#[derive(Debug, Default)]
pub struct EndpointNotices {
    waiting: VecDeque<EndpointNotice>,
    /// The age of the instance until which none is sent.
    rests_until: Duration,
}

/// A message about an endpoint that went down or came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointNotice {
    change: EndpointChange,
    /// The number of times that it was not sent.
    failures: u32,
}

impl EndpointNotices {
    /// Adds what was seen of endpoints.
    pub fn add(&mut self, changes: Vec<EndpointChange>) {
        // What was not said in time is not said after its end.
        self.waiting.retain(|notice| !changes.iter().any(|change| change.target == notice.change.target));
        self.waiting.extend(changes.into_iter().map(|change| EndpointNotice { change, failures: 0 }));
        self.waiting.truncate(MOST_WAITING);
    }

    /// Takes the notices that are due at this age of the instance.
    pub fn due(&mut self, age: Duration) -> Vec<EndpointNotice> {
        if age < self.rests_until {
            return Vec::new();
        }
        let count = self.waiting.len().min(MOST_AT_ONCE);
        self.waiting.drain(..count).collect()
    }

    /// Puts back a notice that was not sent at this age of the instance. It is tried three times in all, a minute apart.
    pub fn put_back(&mut self, notice: EndpointNotice, age: Duration) {
        self.rests_until = age + REST_AFTER_FAILURE;
        let failures = notice.failures + 1;
        if self.waiting.iter().any(|newer| newer.change.target == notice.change.target) {
            return;
        }
        if failures < TRIES && self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(EndpointNotice { failures, ..notice });
        }
    }
}

impl EndpointNotice {
    /// Returns the value of its attribute `kind`: `down` or `recovered`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.change.kind {
            ChangeKind::Down { .. } => "down",
            ChangeKind::Recovered { .. } => "recovered",
        }
    }

    /// Returns the endpoint.
    #[must_use]
    pub fn target(&self) -> &TargetName {
        &self.change.target
    }

    /// Returns the message.
    #[must_use]
    pub fn message(&self, places: &NoticePlaces) -> NoticeMessage {
        let EndpointChange { target, topics, down_since, at, .. } = &self.change;
        let (event, text, data) = match &self.change.kind {
            ChangeKind::Down { error } => {
                ("endpoint-down", self.text_of_down(error), self.data_of_down(error))
            }
            ChangeKind::Recovered { woken } => {
                let replay = places.replay_command(Some(target), (*down_since, *at), &GIVEN_UP_BY_TIME);
                let data = self.data_of_recovered(*woken, places, replay.as_ref());
                ("endpoint-recovered", self.text_of_recovered(*woken, replay.as_ref()), data)
            }
        };
        let facts =
            json!({ "target": target.as_str(), "downSince": seconds(*down_since), "at": seconds(*at) });
        let parts = NoticeParts { kind: self.kind(), event, subject: self.subject(), text, data, facts };
        parts.message(topics, [target])
    }

    fn subject(&self) -> String {
        let name = self.change.target.as_str();
        let arn = name.parse::<Arn>().ok();
        let short = arn.as_ref().map_or(name, Arn::resource);
        let subject = format!("sns-redrive: endpoint {}: {short}", self.kind());
        let plain = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
        subject.chars().map(plain).take(LONGEST_SUBJECT).collect()
    }

    fn text_of_down(&self, error: &str) -> String {
        let EndpointChange { target, down_since, .. } = &self.change;
        format!(
            "{target} takes no letters. Every attempt has failed since {}, the last one with {error}.\n\n{}\n\n\
             The function asks every ten minutes whether it is back, and then wakes the letters.\n",
            seconds(*down_since),
            self.waiting("wait", "waits"),
        )
    }

    fn data_of_down(&self, error: &str) -> Value {
        let mut data = self.data("endpoint-down");
        data["errorCode"] = json!(error);
        data
    }

    fn text_of_recovered(&self, woken: u64, replay: Option<&String>) -> String {
        let EndpointChange { target, down_since, at, .. } = &self.change;
        let (since, until) = (seconds(*down_since), seconds(*at));
        let text = format!(
            "{target} takes letters again. It was down for {}, from {since} to {until}.\n\n{} {} at once, and as it takes \
             letters the others follow.\n",
            lasted(self.down_seconds()),
            self.waiting("waited", "waited"),
            if woken == 1 { "1 was woken".to_owned() } else { format!("{woken} were woken") },
        );
        let command =
            replay.map(|command| format!("\nTo send again what was archived meanwhile:\n{command}\n"));
        text + &command.unwrap_or_default()
    }

    fn data_of_recovered(&self, woken: u64, places: &NoticePlaces, replay: Option<&String>) -> Value {
        let mut data = self.data("endpoint-recovered");
        data["recoveredAt"] = json!(seconds(self.change.at));
        data["downSeconds"] = json!(self.down_seconds());
        data["woken"] = json!(woken);
        data["archive"] = json!(places.archive);
        data["replay"] = json!(replay);
        data
    }

    /// Returns what both notices have for programs.
    fn data(&self, event: &str) -> Value {
        let EndpointChange { target, queue, topics, down_since, waiting, .. } = &self.change;
        json!({
            "version": 1,
            "type": event,
            "target": target.as_str(),
            "queueArn": queue,
            "topicArns": topics,
            "downSince": seconds(*down_since),
            "waiting": waiting,
        })
    }

    /// Returns the sentence about the letters that wait.
    fn waiting(&self, many: &str, one: &str) -> String {
        let (letters, verb) = match self.change.waiting {
            Some(1) => ("At most 1 letter".to_owned(), one),
            Some(count) => (format!("At most {}", letters(count)), many),
            None => ("An unknown number of letters".to_owned(), one),
        };
        // Those that wait for less are not listed.
        format!("{letters} {verb} longer than two minutes for it in {}.", self.change.queue.resource())
    }

    fn down_seconds(&self) -> i64 {
        let EndpointChange { down_since, at, .. } = &self.change;
        at.duration_since(*down_since).as_secs().max(0)
    }
}

/// Returns a duration in two units.
fn lasted(seconds: i64) -> String {
    let minutes = seconds / 60;
    let (days, hours) = (minutes / 1_440, minutes / 60 % 24);
    match (days, hours) {
        (0, 0) => format!("{minutes} min"),
        (0, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    const WORKER: &str = "arn:aws:sqs:eu-central-1:123456789012:worker";
    const TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:payments";
    const DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:payments-dlq";
    const REPLAY: &str = "redrivectl replay --archive s3://my-bucket/dead-letters --control s3://my-bucket/control \
                          --requeue arn:aws:sqs:eu-central-1:123456789012:requeue \
                          --target arn:aws:sqs:eu-central-1:123456789012:worker --reason exhausted --reason expiring \
                          --since 2026-11-01T12:00:00Z --until 2026-11-01T13:06:41Z";

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_793_534_400 + seconds).unwrap()
    }

    fn age(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn places() -> NoticePlaces {
        NoticePlaces {
            archive: "s3://my-bucket/dead-letters".to_owned(),
            control: Some("s3://my-bucket/control".to_owned()),
            requeue: "arn:aws:sqs:eu-central-1:123456789012:requeue".parse().ok(),
        }
    }

    fn notice(kind: ChangeKind, waiting: Option<u64>) -> EndpointNotice {
        let change = EndpointChange {
            target: TargetName::read(WORKER),
            queue: DLQ.parse().unwrap(),
            topics: [TOPIC.parse().unwrap()].into(),
            down_since: at(0),
            at: at(4_000),
            waiting,
            kind,
        };
        EndpointNotice { change, failures: 0 }
    }

    fn down() -> EndpointNotice {
        notice(ChangeKind::Down { error: "Http503".to_owned() }, Some(12))
    }

    fn form(notice: &EndpointNotice, protocol: &str) -> String {
        let forms: Value = serde_json::from_str(&notice.message(&places()).message).unwrap();
        forms[protocol].as_str().unwrap().to_owned()
    }

    #[test]
    fn people_read_which_endpoint_is_down_since_when_why_and_how_many_wait() {
        assert_eq!(
            form(&down(), "default"),
            "arn:aws:sqs:eu-central-1:123456789012:worker takes no letters. Every attempt has failed since \
             2026-11-01T12:00:00Z, the last one with Http503.\n\nAt most 12 letters wait longer than two minutes for it in payments-dlq.\n\n\
             The function asks every ten minutes whether it is back, and then wakes the letters.\n"
        );
        let unknown =
            EndpointNotice { change: EndpointChange { waiting: None, ..down().change }, failures: 0 };
        assert!(
            form(&unknown, "default").contains(
                "An unknown number of letters waits longer than two minutes for it in payments-dlq."
            )
        );
    }

    #[test]
    fn people_read_how_long_an_endpoint_was_down_and_how_to_replay_what_was_archived() {
        let back = notice(ChangeKind::Recovered { woken: 10 }, Some(1));
        assert_eq!(
            form(&back, "default"),
            format!(
                "arn:aws:sqs:eu-central-1:123456789012:worker takes letters again. It was down for 1 h 6 min, from \
                 2026-11-01T12:00:00Z to 2026-11-01T13:06:40Z.\n\nAt most 1 letter waited longer than two minutes for it in payments-dlq. \
                 10 were woken at once, and as it takes letters the others follow.\n\n\
                 To send again what was archived meanwhile:\n{REPLAY}\n"
            )
        );
        assert_eq!([59, 300, 90_000].map(lasted), ["0 min", "5 min", "1 d 1 h"]);
    }

    #[test]
    fn programs_read_the_same_as_json() {
        let read = |notice: &EndpointNotice| serde_json::from_str::<Value>(&form(notice, "sqs")).unwrap();
        let common = |event: &str, waiting: u64| {
            json!({ "version": 1, "type": event, "target": WORKER, "queueArn": DLQ, "topicArns": [TOPIC],
                "downSince": "2026-11-01T12:00:00Z", "waiting": waiting })
        };
        let mut expected = common("endpoint-down", 12);
        expected["errorCode"] = json!("Http503");
        assert_eq!(read(&down()), expected);
        let mut expected = common("endpoint-recovered", 15);
        let more = json!({ "recoveredAt": "2026-11-01T13:06:40Z", "downSeconds": 4_000, "woken": 10,
            "archive": "s3://my-bucket/dead-letters", "replay": REPLAY });
        expected.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(read(&notice(ChangeKind::Recovered { woken: 10 }, Some(15))), expected);
    }

    #[test]
    fn attributes_and_subject_name_the_endpoint() {
        let message = down().message(&places());
        let attributes: Vec<_> =
            message.attributes.iter().map(|it| (it.name, it.data_type, it.value.as_str())).collect();
        let (topics, targets) = (json!([TOPIC]).to_string(), json!([WORKER]).to_string());
        assert_eq!(
            attributes,
            [
                ("kind", "String", "down"),
                ("topicArn", "String.Array", &topics),
                ("target", "String.Array", &targets)
            ]
        );
        assert_eq!(message.subject, "sns-redrive: endpoint down: worker");
        let with = |target: &str| {
            let change = EndpointChange { target: TargetName::read(target), ..down().change };
            EndpointNotice { change, failures: 0 }.message(&places()).subject
        };
        assert_eq!(
            with("https://a.example/S3CR3T"),
            format!("sns-redrive: endpoint down: {}", TargetName::read("https://a.example/S3CR3T"))
        );
        assert_eq!(with(&format!("{WORKER}ä{}", "x".repeat(200))).len(), LONGEST_SUBJECT);
    }

    #[test]
    fn a_notice_is_tried_three_times_a_minute_apart() {
        let mut notices = EndpointNotices::default();
        notices.add(vec![down().change]);
        for failures in 0..TRIES {
            let minute = u64::from(failures) * 60;
            if minute > 0 {
                assert_eq!(notices.due(age(minute - 1)), []);
            }
            let [due] = notices.due(age(minute)).try_into().unwrap();
            assert_eq!(due, EndpointNotice { failures, ..down() });
            notices.put_back(due, age(minute));
        }
        assert_eq!(notices.due(age(1_000)), []);
    }

    /// Else the last word would be that an endpoint is down which is back.
    #[test]
    fn what_was_not_said_is_not_said_after_a_newer_notice() {
        let back = || notice(ChangeKind::Recovered { woken: 1 }, None).change;
        let mut notices = EndpointNotices::default();
        notices.add(vec![down().change]);
        let refused = notices.due(age(0)).remove(0);
        notices.add(vec![back()]);
        notices.put_back(refused, age(0));
        let kinds: Vec<_> = notices.due(age(60)).iter().map(EndpointNotice::kind).collect();
        assert_eq!(kinds, ["recovered"]);
        notices.put_back(down(), age(60));
        notices.add(vec![back()]);
        let kinds: Vec<_> = notices.due(age(120)).iter().map(EndpointNotice::kind).collect();
        assert_eq!(kinds, ["recovered"]);
    }

    #[test]
    fn few_notices_are_sent_at_once_and_few_wait() {
        let mut notices = EndpointNotices::default();
        notices.add(vec![down().change; MOST_WAITING + 5]);
        let sent: Vec<_> =
            std::iter::from_fn(|| Some(notices.due(age(0)).len()).filter(|count| *count > 0)).collect();
        assert_eq!(sent, [MOST_AT_ONCE; MOST_WAITING / MOST_AT_ONCE]);
    }
}
