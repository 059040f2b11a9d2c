//! Queues that do not tell their retention: promise P4.

use super::*;

/// Handles batches of letters of one age, in days, that fail. Each is handled so many seconds after the first
/// batch, and its queue answers or not, each time that it is asked. Returns the reports, and for each batch
/// how often the queue was asked, and the notices.
fn with_answers(
    machine: &mut BatchMachine,
    posts: &[RecordBuilder],
    batches: &[(i64, &[Option<u64>])],
) -> Vec<(Vec<Outcome>, usize, Vec<String>)> {
    with_archive(machine, posts, batches, true)
}

/// The same beside an archive that takes every letter, or none.
fn with_archive(
    machine: &mut BatchMachine,
    posts: &[RecordBuilder],
    batches: &[(i64, &[Option<u64>])],
    takes: bool,
) -> Vec<(Vec<Outcome>, usize, Vec<String>)> {
    let mut handle = |(seconds, answers): &(i64, &[Option<u64>])| {
        let mut batch = machine.begin(letters_of(&event(posts)), DEADLINE);
        let mut now = InvocationNow {
            at: at(NOW + seconds * 1_000),
            age: Duration::from_secs(seconds.unsigned_abs()),
            elapsed: Duration::ZERO,
        };
        let (mut asked, mut notices) = (0, Vec::new());
        loop {
            let actions = poll(&mut batch, &mut now);
            notices.extend(batch.notices().iter().map(|notice| format!("{notice:?}")));
            if actions.is_empty() {
                break;
            }
            for (id, action) in actions {
                let answer = match &action {
                    Action::LookUpQueues { queues, .. } => {
                        let retention = answers[asked.min(answers.len() - 1)];
                        asked += 1;
                        let attributes = QueueAttributes { retention, ..QueueAttributes::default() };
                        let failure = failed::<()>().unwrap_err();
                        let unread = queues.iter().filter(|_| retention.is_none());
                        ActionAnswer::Queues {
                            known: queues.iter().map(|queue| (queue.clone(), attributes.clone())).collect(),
                            unread: unread.map(|queue| (queue.clone(), failure.clone())).collect(),
                        }
                    }
                    Action::Send(request) => sent(request, &SendResult::Failed(failed::<()>().unwrap_err())),
                    Action::Archive { letters, .. } if !takes => {
                        ActionAnswer::Archived(letters.iter().map(|_| failed()).collect())
                    }
                    _ => self::answer(&action, &mut || true, &mut HashSet::new()),
                };
                batch.take(id, answer, now);
            }
            now.elapsed += Duration::from_millis(10);
        }
        let reports = batch.into_reports(now.at);
        (reports.into_iter().map(|report| report.outcome).collect(), asked, notices)
    };
    batches.iter().map(&mut handle).collect()
}

fn days_old(days: i64) -> RecordBuilder {
    RecordBuilder::envelope("a").sent(NOW - days * 86_400_000)
}

#[test]
fn the_first_batch_asks_three_times_and_later_ones_once() {
    let mut machine = with_rule(&json!({ "action": "hold" }));
    let (fortnight, none) = (Some(1_209_600), None);
    let all = with_answers(&mut machine, &[days_old(5)], &[(0, &[none, none, fortnight]), (60, &[none])]);
    assert_eq!(all[0].1, 3);
    assert!(format!("{:?}", all[0].0).contains("hide: 41400"), "{:?}", all[0].0);
    let mut machine = with_rule(&json!({ "action": "hold" }));
    let all = with_answers(&mut machine, &[days_old(5)], &[(0, &[none]), (60, &[none]), (120, &[fortnight])]);
    assert_eq!(all.iter().map(|(_, asked, _)| *asked).collect::<Vec<_>>(), [3, 1, 1]);
    let unread = |notices: &Vec<String>| notices.iter().any(|notice| notice.starts_with("QueueUnreadable"));
    assert_eq!(all.iter().map(|(.., notices)| unread(notices)).collect::<Vec<_>>(), [true, false, false]);
    assert!(format!("{:?}", all[1].0).contains("hide: 900"), "{:?}", all[1].0);
}

/// Four days are the default; the letters are five days old, so their queue keeps them for longer.
#[test]
fn a_queue_that_was_never_read_costs_no_letter_for_ten_minutes_and_never_one_that_is_held() {
    let failing = json!({ "deliveryPolicy": { "healthyRetryPolicy": { "numRetries": 9 } } });
    let (hold, none) = (json!({ "action": "hold" }), None);
    for (rule, ends) in [(&failing, true), (&hold, false)] {
        let mut machine = with_rule(rule);
        let all = with_answers(
            &mut machine,
            &[days_old(5)],
            &[(0, &[none]), (599, &[none]), (600, &[none]), (660, &[none]), (720, &[Some(1_209_600)])],
        );
        let archived: Vec<_> =
            all.iter().map(|(outcomes, ..)| format!("{outcomes:?}") == "[Archived(Expiring)]").collect();
        assert_eq!(archived, [false, false, ends, ends, false], "{rule}");
        let told = |notices: &Vec<String>| notices.iter().any(|it| it.starts_with("RetentionAssumed"));
        assert_eq!(
            all.iter().map(|(.., notices)| told(notices)).collect::<Vec<_>>(),
            [false, false, true, false, false]
        );
    }
}

#[test]
fn a_follower_of_a_head_that_is_held_is_not_archived_by_a_guess() {
    let mut machine = with_rule(&json!({ "action": "hold" }));
    let posts = ["a", "b"].map(|id| in_fifo_group(RecordBuilder::envelope(id).sent(NOW - 5 * 86_400_000)));
    let all = with_answers(&mut machine, &posts, &[(0, &[None]), (700, &[None]), (800, &[Some(345_600)])]);
    let outcomes: Vec<_> = all.iter().map(|(outcomes, ..)| format!("{outcomes:?}")).collect();
    for outcome in &outcomes[..2] {
        assert!(outcome.contains("Hold") && outcome.contains("Held"), "{outcome}");
    }
    assert_eq!(outcomes[2], "[Archived(Expiring), Archived(Expiring)]");
}

#[test]
fn a_letter_that_only_a_guess_has_ended_goes_on_once_its_queue_tells_its_retention() {
    let mut machine = with_rule(&json!({ "deliveryPolicy": { "healthyRetryPolicy": { "numRetries": 9 } } }));
    let batches: [(i64, &[Option<u64>]); 3] = [(0, &[None]), (600, &[None]), (660, &[Some(1_209_600)])];
    let all = with_archive(&mut machine, &[days_old(5)], &batches, false);
    assert_eq!(format!("{:?}", all[1].0), "[Failed(Archive)]");
    assert!(format!("{:?}", all[2].0).starts_with("[Deferred("), "{:?}", all[2].0);
}
