//! The checks of queues.

use super::*;

#[test]
fn queues_are_looked_at() {
    let with = |name: &str, value: &str| found(|it| set(&mut it.queues[0], name, value));
    assert_eq!(with("VisibilityTimeout", "29"), [(Error, "queue-visibility")]);
    assert_eq!(with("VisibilityTimeout", "179"), [(Note, "queue-visibility")]);
    assert_eq!(with("MessageRetentionPeriod", "345600"), [(Warning, "queue-retention")]);
    assert_eq!(with("MessageRetentionPeriod", "3600"), [(Warning, "queue-retention")]);
    assert_eq!(with("MessageRetentionPeriod", "3599"), [(Error, "queue-retention")]);
    assert_eq!(with("RedrivePolicy", "{}"), [(Error, "queue-redrive-policy")]);
    assert_eq!(with("KmsMasterKeyId", "alias/aws/sqs"), [(Error, "queue-key")]);
    assert_eq!(with("KmsMasterKeyId", "some-key"), [(CannotTell, "queue-key")]);
    assert_eq!(with("Policy", &lets_sns_in("arn:aws:sns:*:*:bills")), [(Error, "queue-policy")]);
    let conditional = lets_sns_in(TOPIC).replace("aws:SourceArn", "aws:SourceOrgID");
    assert_eq!(with("Policy", &conditional), [(CannotTell, "queue-policy")]);
    let unknown = found(|it| it.queues[0].attributes = denied("sqs:GetQueueAttributes"));
    assert_eq!(unknown, [(CannotTell, "queue"), (CannotTell, "letters-expire")]);
}

#[test]
fn a_queue_that_the_stack_left_behind_is_found() {
    let left = |attributes: &[(&str, String)]| {
        found(|it| it.left_behind = Some(Ok(vec![queue(&format!("{REQUEUE}-old"), attributes)])))
    };
    assert_eq!(left(&[("ApproximateNumberOfMessages", "0".to_owned())]), [(Note, "queue-left-behind")]);
    for count in ["", "NotVisible", "Delayed"] {
        let count = format!("ApproximateNumberOfMessages{count}");
        assert_eq!(left(&[(&count, "3".to_owned())]), [(Error, "queue-left-behind")], "{count}");
    }
    let unread = DeployedQueue { attributes: denied("sqs:GetQueueAttributes"), ..queue(DLQ, &[]) };
    assert_eq!(found(|it| it.left_behind = Some(Ok(vec![unread]))), [(CannotTell, "queue-left-behind")]);
    let unlisted = found(|it| it.left_behind = Some(denied("sqs:ListQueues")));
    assert_eq!(unlisted, [(CannotTell, "queue-left-behind")]);
    assert_eq!(found(|it| it.left_behind = None), []);
}

#[test]
fn a_queue_of_these_topics_that_nobody_drains_is_found() {
    let other = |attributes| DeployedQueue { attributes, ..queue(WORKER, &[]) };
    for attributes in [Ok(BTreeMap::new()), denied("sqs:GetQueueAttributes")] {
        let is_denied = attributes.is_err();
        let found = found(|it| {
            it.undrained = Ok(vec![other(attributes)]);
            let named = subscription("arn:aws:sns:eu-central-1:123456789012:payments:2");
            all(it).push(DeployedSubscription { dead_letters: Some(WORKER.to_owned()), ..named });
        });
        let unseen = [(CannotTell, "queue-undrained")];
        assert_eq!(found[0], (Warning, "queue-undrained"));
        assert_eq!(found[1..], unseen[..usize::from(is_denied)]);
    }
    let left_behind = found(|it| {
        it.undrained = Ok(vec![other(Ok(BTreeMap::new()))]);
        it.left_behind = Some(Ok(vec![other(Ok(BTreeMap::new()))]));
    });
    assert_eq!(left_behind, [(Note, "queue-left-behind")], "that is said already");
    let unknown = found(|it| it.undrained = denied("lambda:ListEventSourceMappings"));
    assert_eq!(unknown, [(CannotTell, "queue-undrained")]);
}

#[test]
fn the_requeue_is_looked_at() {
    let with = |name: &'static str, value: &str| found(|it| set(it.requeue.as_mut().unwrap(), name, value));
    assert_eq!(found(|it| it.requeue = None), [(Note, "requeue")]);
    assert_eq!(with("RedrivePolicy", "{}"), [(Error, "requeue-redrive-policy")]);
    assert_eq!(with("RedriveAllowPolicy", "{}"), [(Warning, "requeue-moves")]);
    assert_eq!(with("Policy", ""), [(Warning, "requeue-senders")]);
    assert_eq!(with("Policy", &denies_all_but(&[ROLE])), [(Warning, "requeue-senders")], "nobody may replay");
    assert_eq!(with("Policy", &denies_all_but(&["arn:aws:iam::1:role/x"])).len(), 2);
    for anybody in ["*", "arn:aws:iam::*:*", "arn:aws:iam::123456789012:role/*"] {
        assert_eq!(with("Policy", &denies_all_but(&[ROLE, anybody])), [(Error, "requeue-senders")]);
    }
    assert_eq!(with("Policy", &denies_all_but(&[ROLE, "arn:x"])), [(Note, "requeue-senders")]);
    let tags = |tags: ReadResult<BTreeMap<String, String>>| {
        found(|it| it.requeue.as_mut().unwrap().tags = Some(tags))
    };
    assert_eq!(tags(Ok(BTreeMap::new())), [(Warning, "requeue-tag")]);
    assert_eq!(tags(denied("sqs:ListQueueTags")), [(CannotTell, "requeue-tag")]);
    let fifo = found(|it| {
        let requeue = it.requeue.as_mut().unwrap();
        let fifo = format!("{REQUEUE}.fifo");
        set(requeue, "Policy", denies_all_but(&[ROLE, OPERATOR]).replace(REQUEUE, &fifo));
        requeue.arn = fifo.parse().unwrap();
        mappings(it)[1].source += ".fifo";
    });
    assert_eq!(fifo, [(Warning, "requeue-kind"), (Note, "requeue-senders")]);
    let unknown = found(|it| it.requeue.as_mut().unwrap().attributes = denied("sqs:GetQueueAttributes"));
    assert_eq!(unknown, [(CannotTell, "requeue")]);
}
