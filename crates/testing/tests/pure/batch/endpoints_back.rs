//! Endpoints that are down or back: which letters of the list are claimed, and what a notice names.

use redrive_core::batch::EndpointChange;
use redrive_core::notice::{EndpointNotices, NoticeMessage, NoticePlaces};

use super::*;

/// Drives a batch to its end. Returns the endpoints of which the topic of notices is to be told.
fn endpoint_changes(
    mut batch: Batch<'_>,
    mut now: InvocationNow,
    mut answer: impl FnMut(&Action) -> ActionAnswer,
) -> Vec<EndpointChange> {
    loop {
        let actions = poll(&mut batch, &mut now);
        if actions.is_empty() {
            return batch.endpoint_changes();
        }
        for (id, action) in actions {
            batch.take(id, answer(&action), now);
        }
    }
}

/// Returns the keys of objects that an instance reads after it has delivered a letter to an endpoint that is back, and the
/// place to which it has moved. The list has these keys.
fn claimed(keys: &[String]) -> (Vec<String>, Option<String>) {
    let mut machine = machine("{}", None, None);
    let letters = letters_of(&event(&[RecordBuilder::envelope("first")]));
    let (mut read, mut place) = (Vec::new(), None);
    endpoint_changes(machine.begin(letters, DEADLINE), now_after(0), |action| match action {
        Action::ReadRecoveries { .. } => ActionAnswer::Recoveries(Ok(recoveries(false))),
        Action::ListWaitingKeys { .. } => {
            let (keys, last) = (keys.to_vec(), keys.last().cloned());
            ActionAnswer::WaitingKeys(Ok(WaitingKeys { keys, last, is_cut: false }))
        }
        Action::WriteRecoveries { json, .. } => {
            let document: serde_json::Value = serde_json::from_slice(json).unwrap();
            place = document["endpoints"][0]["place"].as_str().map(str::to_owned);
            ActionAnswer::Written(Ok(DocumentWrite::Written { tag: Some("new".to_owned()) }))
        }
        Action::ReadWaitingLines { keys, .. } => {
            read.extend(keys.iter().cloned());
            ActionAnswer::WaitingLines(Ok(Vec::new()))
        }
        other => answer(other, &mut || true, &mut HashSet::new()),
    });
    (read, place)
}

/// Returns a key that was written at this minute and second after eleven, with this after the request's id.
fn key(minute: usize, second: usize, targets: &str) -> String {
    format!("hour=2026-11-01T11/20261101T11{minute:02}{second:02}.000Z-request{targets}.jsonl")
}

/// A letter of an unknown target is not woken, so an object with none of the endpoint's is read in vain.
#[test]
fn no_object_is_read_that_has_no_letter_of_the_endpoint() {
    let (worker, billing) = (TargetName::read(WORKER).digest(), TargetName::read(BILLING).digest());
    let targets = [
        format!(".{worker}-1"),
        ".unknown-3".to_owned(),
        format!(".{billing}-2"),
        format!(".{billing}-2.unknown-1"),
        format!(".{worker}-1.unknown-2"),
        format!(".{billing}-9.unknown-1.+"),
        ".unknown-1".to_owned(),
    ];
    let keys: Vec<_> = targets.iter().enumerate().map(|(minute, targets)| key(minute, 0, targets)).collect();
    let (read, place) = claimed(&keys);
    let [first, _, _, _, both, may_have, last] = keys.as_slice() else { unreachable!() };
    assert_eq!(read, [first, both, may_have].map(String::clone));
    assert_eq!(place.as_ref(), Some(last), "nobody looks at them again");
}

#[test]
fn objects_with_no_letter_of_the_endpoint_take_no_room_in_a_claim() {
    let worker = TargetName::read(WORKER).digest();
    let mut keys: Vec<_> = (0..100).map(|number| key(number / 60, number % 60, ".unknown-50")).collect();
    keys.push(key(2, 0, &format!(".{worker}-1")));
    assert_eq!(claimed(&keys), (vec![keys[100].clone()], Some(keys[100].clone())));
}

/// Returns the message that an endpoint is down after letters of these topics failed within two minutes, half of them at
/// their end.
fn told_of(topics: &[String]) -> NoticeMessage {
    let mut machine = machine("{}", None, None);
    let mut notices = EndpointNotices::default();
    let half = topics.len() / 2;
    for (seconds, topics) in [(0, &topics[..half]), (130, &topics[half..])] {
        let letter = |(number, topic): (usize, &String)| {
            let post = RecordBuilder::envelope(&format!("{seconds}-{number}")).topic(topic);
            post.subscription(&format!("{topic}:0a1b2c3d-0000-4000-8000-000000000001"))
        };
        let letters: Vec<_> = topics.iter().enumerate().map(letter).collect();
        let now = InvocationNow { elapsed: Duration::ZERO, ..now_after(seconds) };
        let batch = machine.begin(letters_of(&event(&letters)), DEADLINE);
        notices.add(endpoint_changes(batch, now, |action| match action {
            Action::LookUpSubscriptions { subscriptions, .. } => {
                let known = subscriptions.iter().map(|arn| {
                    let subscription = Subscription {
                        protocol: "sqs".to_owned(),
                        endpoint: WORKER.to_owned(),
                        topic: arn.as_str().rsplit_once(':').unwrap().0.to_owned(),
                        dead_letter_target: Some(DLQ.to_owned()),
                        raw: false,
                        pending: false,
                        delivery_policy: None,
                    };
                    (arn.clone(), Ok(Some(subscription)))
                });
                ActionAnswer::Subscriptions(known.collect())
            }
            Action::Send(request) => sent(request, &SendResult::Failed(failed::<()>().unwrap_err())),
            Action::ReadRecoveries { .. } => ActionAnswer::Recoveries(Ok(DocumentRead::None)),
            other => answer(other, &mut || true, &mut HashSet::new()),
        }));
    }
    let places = NoticePlaces { archive: "s3://b/a".to_owned(), control: None, requeue: None };
    let [notice] = notices.due(Duration::ZERO).try_into().unwrap();
    assert_eq!(notice.kind(), "down");
    notice.message(&places)
}

/// Whoever writes letters can name many topics, and long ones.
#[test]
fn a_notice_names_ten_topics_and_none_that_is_longer_than_those_of_sns() {
    let named = |name: &str, length: usize| {
        let arn = format!("arn:aws:sns:eu-central-1:123456789012:{name}");
        format!("{arn:x<length$}")
    };
    // They stand first in every order, so that only their length leaves one out.
    let (longest, too_long) = (named("-a", 400), named("-b", 401));
    let mut topics: Vec<_> = (0..22).map(|number| named(&format!("topic-{number:02}"), 0)).collect();
    topics.insert(0, longest);
    topics.push(too_long.clone());
    let NoticeMessage { message, attributes, .. } = told_of(&topics);

    let expected = &topics[..10];
    let listed = attributes.iter().find(|attribute| attribute.name == "topicArn").unwrap();
    assert_eq!(serde_json::from_str::<Vec<String>>(&listed.value).unwrap(), expected);
    let forms: serde_json::Value = serde_json::from_str(&message).unwrap();
    let data: serde_json::Value = serde_json::from_str(forms["sqs"].as_str().unwrap()).unwrap();
    assert_eq!(data["topicArns"], json!(expected));
    for form in forms.as_object().unwrap().values().filter_map(|form| form.as_str()) {
        assert!(!form.contains(&too_long), "{form}");
    }
}
