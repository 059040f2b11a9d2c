//! The topics that alarms call.

use super::*;

#[test]
fn alarms_that_call_nobody_are_told() {
    let with = |topics: Vec<AlarmTopic>| found(|it| it.alarm_topics = Some(topics));
    let warned = [(Warning, "alarm-actions")];
    assert_eq!(with(Vec::new()), warned);
    assert_eq!(with(vec![alarm_topic(true, Ok(Some(1)))]), warned, "only those that page call somebody");
    assert_eq!(with(vec![alarm_topic(false, Ok(Some(0)))]), warned, "nobody listens");
    assert_eq!(with(vec![alarm_topic(false, Ok(None))]), []);
    let unseen = with(vec![alarm_topic(false, denied("sns:GetTopicAttributes"))]);
    assert_eq!(unseen, [(CannotTell, "alarm-actions")]);
    assert_eq!(found(|it| it.alarm_topics = None), [], "without a stack nobody knows");
}
