//! The archive, and the place of overrides and replays.

use super::*;

#[test]
fn the_archive_is_looked_at() {
    let of = |change: fn(&mut DeployedBucket)| found(|it| in_bucket(it, change));
    assert_eq!(of(|it| it.encryption = Ok(None)), [(Warning, "archive-encryption")]);
    assert_eq!(of(|it| it.is_versioned = Ok(false)), [(Note, "archive-versions")]);
    assert_eq!(of(|it| it.is_private = Ok(false)), [(CannotTell, "archive-public")]);
    assert_eq!(of(|it| it.lifecycle = Ok(Vec::new())), [(Note, "archive-waiting-list")]);
    assert_eq!(found(|it| it.conditional = Some(Ok(false))), [(Error, "archive-conditions")]);
    assert_eq!(found(|it| it.conditional = None), []);
    let unknown = found(|it| {
        in_bucket(it, |bucket| {
            bucket.encryption = denied("s3:GetEncryptionConfiguration");
            bucket.is_versioned = denied("s3:GetBucketVersioning");
            bucket.is_private = denied("s3:GetBucketPublicAccessBlock");
            bucket.lifecycle = denied("s3:GetLifecycleConfiguration");
        });
        it.conditional = Some(denied("s3:PutObject"));
    });
    assert!(unknown.len() == 5 && unknown.iter().all(|(severity, _)| *severity == CannotTell), "{unknown:?}");
    let in_queue = found(|it| {
        it.archive = None;
        it.function.settings = Ok(settings(&[("ARCHIVE", WORKER)]));
    });
    assert_eq!(in_queue, [(Note, "archive")]);
}

#[test]
fn rules_that_end_a_part_of_what_is_kept_are_found_too() {
    let ends = |prefix: &'static str, days: i32| {
        found(|it| {
            in_bucket(it, |bucket| {
                bucket.lifecycle.as_mut().unwrap().push(expiry("rule", prefix, days));
            });
        })
    };
    assert_eq!(ends("dead-letters/", 29), [(Warning, "archive-lifecycle")]);
    assert_eq!(ends("dead-letters/", 365), [(Note, "archive-lifecycle")]);
    assert_eq!(ends("dead-letters/queue=payments-dlq/", 1), [(Warning, "archive-lifecycle")]);
    assert_eq!(ends("dead-letters-control/replays/", 365), [(Error, "archive-replays-expire")]);
    assert_eq!(ends("dead-letters-control/replays/queues/", 365), [(Error, "archive-replays-expire")]);
    assert_eq!(ends("dead-letters-control/overrides", 365), [(Error, "archive-overrides-expire")]);
    assert_eq!(ends("something-else/", 1), []);
    assert_eq!(ends("", 1).len(), 3, "a rule of the whole bucket ends all of it");
    // For example a rule for tagged objects: the function's objects have no tags.
    let ends_some = found(|it| {
        let rule = LifecycleRule { is_narrower: true, ..expiry("rule", "dead-letters-control/replays/", 9) };
        in_bucket(it, |bucket| bucket.lifecycle.as_mut().unwrap().push(rule.clone()));
    });
    assert_eq!(ends_some, [(CannotTell, "archive-replays-expire")]);
    let frozen = |prefix: &'static str| {
        found(|it| {
            let freezes = rule("rule", prefix, LifecycleEffect::Freezes("GLACIER".to_owned()));
            in_bucket(it, |bucket| bucket.lifecycle.as_mut().unwrap().push(freezes.clone()));
        })
    };
    assert_eq!(frozen("dead-letters/"), [(Warning, "archive-frozen")]);
    assert_eq!(frozen("dead-letters-control/overrides.json"), [(Warning, "archive-frozen")]);
    assert_eq!(frozen("something-else/"), []);
    let of_one_day = found(|it| {
        let rules = vec![expiry("part", "dead-letters-control/waiting/letters/2026", 1)];
        it.control.as_mut().unwrap().lifecycle = Ok(rules);
    });
    assert_eq!(of_one_day, [(Note, "archive-waiting-list")], "a part of the list is not the list");
}

#[test]
fn a_control_prefix_in_another_bucket_is_looked_at_there() {
    let there = |change: fn(&mut DeployedBucket)| {
        found(|it| {
            let mut control = a_bucket("elsewhere", "payments-control");
            control.lifecycle = Ok(vec![expiry("list", "payments-control/waiting/", 1)]);
            change(&mut control);
            it.control = Some(control);
        })
    };
    assert_eq!(there(|_| {}), []);
    let ends = |it: &mut DeployedBucket| {
        it.lifecycle.as_mut().unwrap().push(expiry("rule", "payments-control/replays/", 9));
    };
    assert_eq!(there(ends), [(Error, "archive-replays-expire")]);
    assert_eq!(there(|it| it.is_private = Ok(false)), [(CannotTell, "archive-public")]);
    let unread = |it: &mut DeployedBucket| it.lifecycle = denied("s3:GetLifecycleConfiguration");
    assert_eq!(there(unread), [(CannotTell, "archive-lifecycle")]);
    let nowhere = found(|it| {
        it.control = None;
        it.conditional = Some(Err(ReadError::new("--write-test", "there is none")));
    });
    assert_eq!(nowhere, [(CannotTell, "archive-conditions")]);
}
