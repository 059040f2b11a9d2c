//! Tests that the laws of letters find what they must find, with stories that contain deliberate faults.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use redrive_laws::letters::{
    Cause, Effect, End, Ending, GroupOrder, Ledger, Message, Place, Plan, Response, RunId as Run, Strict,
    Verdict, What, Who, judge,
};

/// The life of letters, in short.
struct Story {
    ledger: Ledger,
    queued: BTreeSet<Message>,
}

impl Story {
    fn new() -> Self {
        Self { ledger: Ledger::default(), queued: BTreeSet::new() }
    }

    /// Adds a letter, whose message has the same number.
    fn letter(&mut self, end: End, group: Option<&str>) -> Who {
        self.planned(Plan {
            group: group.map(str::to_owned),
            order: GroupOrder::OfEachQueue,
            end: Some(end),
            retries: 3,
            last_due: 0,
            receives_before: 0,
            kind: "queue".to_owned(),
        })
    }

    /// Adds a letter whose last retry is due so many milliseconds after it came.
    fn letter_due(&mut self, end: End, last_due: redrive_sim::Millis) -> Who {
        self.planned(Plan {
            group: None,
            order: GroupOrder::OfEachQueue,
            end: Some(end),
            retries: 3,
            last_due,
            receives_before: 0,
            kind: "queue".to_owned(),
        })
    }

    fn planned(&mut self, plan: Plan) -> Who {
        let who = self.ledger.letter(plan);
        self.queued.insert(who);
        self.ledger.fact(who, who, None, What::Queued { queue: "payments-dlq".to_owned(), spent: 0 });
        who
    }

    fn run(&mut self, who: Who) -> Run {
        let run = self.ledger.begin(&"fn".into(), 60_000);
        self.ledger.fact(who, who, Some(run), What::Handed);
        run
    }

    fn sent(&mut self, who: Who, run: Run, place: Place, effect: Effect, response: Response) {
        let reason = (place == Place::Archive).then(|| "exhausted".to_owned());
        let what = What::Sent { place, effect, response, wrong: None, spent: Some(1), reason };
        self.ledger.fact(who, who, Some(run), what);
    }

    fn delivered(&mut self, who: Who, run: Run) {
        self.sent(who, run, Place::Target, Effect::Taken, Response::Done);
    }

    fn refused(&mut self, who: Who, run: Run) {
        self.sent(who, run, Place::Target, Effect::None, Response::Refused { for_good: false });
    }

    /// Adds so many invocations, each with an attempt that fails.
    fn refused_often(&mut self, who: Who, times: usize) {
        for _ in 0..times {
            let run = self.run(who);
            self.refused(who, run);
            self.end(who, run, Ending::Heard, false);
        }
    }

    /// Archives the letter as exhausted, and deletes it.
    fn exhausted(&mut self, who: Who) {
        let run = self.run(who);
        self.sent(who, run, Place::Archive, Effect::Taken, Response::Done);
        self.end(who, run, Ending::Heard, true);
    }

    fn end(&mut self, who: Who, run: Run, ending: Ending, deleted: bool) {
        self.ledger.end(run, ending, None);
        if deleted {
            self.queued.remove(&who);
            self.ledger.fact(who, who, Some(run), What::Deleted);
        } else if ending == Ending::Heard {
            self.ledger.fact(who, who, Some(run), What::Kept);
        }
    }

    fn verdict(&self) -> Verdict {
        judge(&self.ledger, &self.queued, &Strict)
    }

    /// Returns the violations, as text.
    fn wrong(&self) -> Vec<String> {
        self.verdict().violations.into_iter().map(|violation| violation.what).collect()
    }
}

/// Returns the story of one letter, delivered and deleted.
fn good() -> Story {
    let mut story = Story::new();
    let who = story.letter(End::Delivered, None);
    let run = story.run(who);
    story.delivered(who, run);
    story.end(who, run, Ending::Heard, true);
    story
}

#[test]
fn a_letter_that_is_delivered_and_deleted_is_fine() {
    let verdict = good().verdict();
    assert_eq!((verdict.letters, verdict.delivered, verdict.lost), (1, 1, 0));
    assert!(verdict.is_good());
}

#[test]
fn a_letter_that_is_deleted_untaken_is_lost() {
    let mut story = Story::new();
    let who = story.letter(End::Delivered, None);
    let run = story.run(who);
    story.refused(who, run);
    story.end(who, run, Ending::Heard, true);
    assert_eq!(story.verdict().lost, 1);
    assert_eq!(
        story.wrong(),
        [
            "lost: neither delivered nor archived nor in a queue",
            "message 0 was let go before it was known to be safe"
        ]
    );
}

#[test]
fn a_letter_that_arrives_after_it_was_deleted_was_in_danger() {
    let mut story = Story::new();
    let who = story.letter(End::Delivered, None);
    let run = story.run(who);
    story.end(who, run, Ending::Heard, true);
    story.delivered(who, run);
    assert_eq!(story.verdict().lost, 0);
    assert_eq!(story.wrong(), ["message 0 was let go before it was known to be safe"]);
}

#[test]
fn a_letter_that_waits_is_queued_and_not_lost() {
    let mut story = Story::new();
    let who = story.letter(End::Delivered, None);
    let run = story.run(who);
    story.refused(who, run);
    story.end(who, run, Ending::Heard, false);
    assert_eq!((story.verdict().queued, story.wrong()), (1, vec![]));
}

#[test]
fn what_arrives_changed_is_lost() {
    let mut story = Story::new();
    let who = story.letter(End::Delivered, None);
    let run = story.run(who);
    let wrong = Some("body: \"a\", not \"b\"".to_owned());
    let (place, effect, response) = (Place::Target, Effect::Taken, Response::Done);
    let what = What::Sent { place, effect, response, wrong, spent: None, reason: None };
    story.ledger.fact(who, who, Some(run), what);
    story.end(who, run, Ending::Heard, true);
    assert_eq!(story.verdict().lost, 1);
    assert!(story.wrong().contains(&"what arrived is not the letter: body: \"a\", not \"b\"".to_owned()));
}

/// Returns the story of a letter that is delivered in two invocations, of which the first ended like this.
fn twice(response: Response, ending: Ending, not_deleted: bool) -> Story {
    let mut story = Story::new();
    let who = story.letter(End::Delivered, None);
    let run = story.run(who);
    story.sent(who, run, Place::Target, Effect::Taken, response);
    if not_deleted {
        story.ledger.fact(who, who, Some(run), What::NotDeleted);
    }
    story.end(who, run, ending, false);
    let run = story.run(who);
    story.delivered(who, run);
    story.end(who, run, Ending::Heard, true);
    story
}

#[test]
fn a_duplicate_is_explained_by_what_happened_after_the_effect_and_by_nothing_else() {
    let refused = Response::Refused { for_good: false };
    for (response, ending, not_deleted, cause) in [
        (Response::Done, Ending::Heard, false, None),
        (Response::Nothing, Ending::Heard, false, Some(Cause::Unanswered)),
        (Response::Nothing, Ending::Unheard, false, Some(Cause::Unanswered)),
        (refused, Ending::Heard, false, Some(Cause::Refused)),
        (Response::Done, Ending::Unheard, false, Some(Cause::Unheard)),
        (Response::Done, Ending::Killed, false, Some(Cause::Killed)),
        (Response::Nothing, Ending::Killed, false, Some(Cause::Killed)),
        (Response::Done, Ending::TimedOut, false, Some(Cause::TimedOut)),
        (Response::Done, Ending::Heard, true, Some(Cause::NotDeleted)),
    ] {
        let verdict = twice(response, ending, not_deleted).verdict();
        let explained: BTreeMap<_, _> = cause.into_iter().map(|cause| (cause, 1)).collect();
        assert_eq!(
            (verdict.duplicates, verdict.unexplained, verdict.is_good(), &verdict.causes),
            (1, usize::from(cause.is_none()), cause.is_some(), &explained),
            "{response:?}, {ending:?}, not deleted: {not_deleted}"
        );
    }
}

#[test]
fn a_letter_that_is_delivered_and_archived_in_one_go_is_an_unexplained_duplicate() {
    let mut story = Story::new();
    let who = story.letter(End::Delivered, None);
    let run = story.run(who);
    story.refused(who, run);
    story.delivered(who, run);
    story.sent(who, run, Place::Archive, Effect::Taken, Response::Done);
    story.end(who, run, Ending::Heard, true);
    assert_eq!(story.verdict().unexplained, 1);
}

#[test]
fn a_repetition_may_be_swallowed_and_a_first_time_may_not() {
    let mut story = twice(Response::Nothing, Ending::Heard, false);
    let run = story.run(0);
    story.sent(0, run, Place::Target, Effect::Swallowed, Response::Done);
    assert_eq!(story.verdict().swallowed, 1);
    assert_eq!(story.wrong(), Vec::<String>::new());

    let mut story = Story::new();
    let who = story.letter(End::Delivered, None);
    let run = story.run(who);
    story.sent(who, run, Place::Target, Effect::Swallowed, Response::Done);
    story.end(who, run, Ending::Heard, true);
    assert_eq!(story.verdict().lost, 1);
    assert!(story.wrong().contains(&"message 0 was swallowed as a repetition, and is none".to_owned()));
}

#[test]
fn nothing_is_archived_without_a_reason() {
    let archived = |refused: bool, end: End| {
        let mut story = Story::new();
        let who = story.letter(end, None);
        if refused {
            story.refused_often(who, 2);
        }
        let run = story.run(who);
        if refused {
            story.refused(who, run);
        }
        story.sent(who, run, Place::Archive, Effect::Taken, Response::Done);
        story.end(who, run, Ending::Heard, true);
        story.wrong()
    };
    assert_eq!(archived(true, End::Delivered), Vec::<String>::new());
    let unfounded = ["exhausted after 0 of 3 retries", "archived as exhausted without a reason"];
    assert_eq!(archived(false, End::Delivered), unfounded);
    assert_eq!(archived(false, End::Archived("exhausted")), unfounded);
}

/// Three refusals use up all retries, but not before the last can be due.
#[test]
fn nothing_is_exhausted_too_early() {
    let mut story = Story::new();
    let who = story.letter_due(End::Delivered, 60_000);
    story.refused_often(who, 2);
    let run = story.run(who);
    story.refused(who, run);
    story.sent(who, run, Place::Archive, Effect::Taken, Response::Done);
    story.end(who, run, Ending::Heard, true);
    assert_eq!(story.wrong(), ["archived as exhausted without a reason"]);
}

#[test]
fn a_letter_has_all_its_retries_before_it_is_exhausted() {
    let after = |refusals: usize| {
        let mut story = Story::new();
        let who = story.letter(End::Delivered, None);
        story.refused_often(who, refusals);
        story.exhausted(who);
        story.wrong()
    };
    assert_eq!(after(2), ["exhausted after 2 of 3 retries"]);
    assert_eq!(after(3), Vec::<String>::new());
}

#[test]
fn a_receive_that_could_make_no_attempt_counts_for_one() {
    let with = |ending: Ending| {
        let mut story = Story::new();
        let who = story.letter(End::Delivered, None);
        story.refused_often(who, 2);
        let run = story.run(who);
        if ending == Ending::Heard {
            let what = What::Hidden { seconds: 1, done: true, response: Response::Done };
            story.ledger.fact(who, who, Some(run), what);
        }
        story.end(who, run, ending, false);
        story.exhausted(who);
        story.wrong()
    };
    assert_eq!(with(Ending::Killed), Vec::<String>::new());
    assert_eq!(with(Ending::Heard), ["exhausted after 2 of 3 retries"]);

    // Its target is left alone after a call without an answer, whoever made it.
    let after = |trouble: bool| {
        let mut story = Story::new();
        let who = story.letter(End::Delivered, None);
        story.refused_often(who, 2);
        if trouble {
            story.ledger.trouble();
        }
        let run = story.run(who);
        story.end(who, run, Ending::Heard, false);
        story.exhausted(who);
        story.wrong()
    };
    assert_eq!(after(true), Vec::<String>::new());
    assert_eq!(after(false), ["exhausted after 2 of 3 retries"]);

    // The letter lies behind the head of its group, which goes first.
    let held = |together: bool| {
        let mut story = Story::new();
        let (head, next) = (story.letter(End::Delivered, Some("g")), story.letter(End::Delivered, Some("g")));
        for _ in 0..2 {
            let run = story.run(head);
            story.refused(head, run);
            let run = if together { run } else { story.ledger.begin(&"fn".into(), 60_000) };
            story.ledger.fact(next, next, Some(run), What::Handed);
            let what = What::Hidden { seconds: 0, done: true, response: Response::Done };
            story.ledger.fact(next, next, Some(run), what);
            story.end(head, run, Ending::Heard, false);
        }
        let run = story.run(head);
        story.delivered(head, run);
        story.end(head, run, Ending::Heard, true);
        story.refused_often(next, 1);
        story.exhausted(next);
        story.wrong()
    };
    assert_eq!(held(true), Vec::<String>::new());
    assert_eq!(held(false)[0], "exhausted after 1 of 3 retries");
}

/// The archive and the requeue both use that number.
#[test]
fn a_mark_counts_no_retry_that_was_not_made() {
    let moved = |spent: usize| {
        let mut story = Story::new();
        let who = story.letter(End::Delivered, None);
        let run = story.run(who);
        story.refused(who, run);
        let copy = 7;
        story.queued.insert(copy);
        story.ledger.fact(who, copy, None, What::Queued { queue: "payments-requeue".to_owned(), spent });
        story.sent(who, run, Place::Requeue, Effect::Taken, Response::Done);
        story.end(who, run, Ending::Heard, true);
        story.wrong()
    };
    assert_eq!(moved(1), Vec::<String>::new());
    assert_eq!(moved(3), ["moved with 3 retries behind it, of which 1 can have been made"]);
}

/// The letter has arrived before, but the function cannot know that.
#[test]
fn a_letter_is_not_let_go_by_an_invocation_that_was_told_of_nobody_who_has_it() {
    for what in [What::Deleted, What::NotDeleted] {
        let mut story = Story::new();
        let who = story.letter(End::Delivered, None);
        let run = story.run(who);
        story.sent(who, run, Place::Target, Effect::Taken, Response::Nothing);
        story.end(who, run, Ending::Heard, false);
        let run = story.run(who);
        story.refused(who, run);
        story.ledger.end(run, Ending::Heard, None);
        story.ledger.fact(who, who, Some(run), what);
        assert_eq!(story.wrong(), ["message 0 was let go before it was known to be safe"]);
    }
}

#[test]
fn what_is_for_the_archive_is_not_delivered() {
    let mut story = Story::new();
    let who = story.letter(End::Archived("rule"), None);
    let run = story.run(who);
    story.delivered(who, run);
    story.end(who, run, Ending::Heard, true);
    assert_eq!(story.wrong(), ["delivered, though it is one for the archive (rule)"]);
}

#[test]
fn more_attempts_than_retries_need_an_excuse() {
    let attempts = |ending: Ending| {
        let mut story = Story::new();
        let who = story.letter(End::Delivered, None);
        for _ in 0..4 {
            let run = story.run(who);
            story.refused(who, run);
            story.end(who, run, ending, false);
        }
        story.wrong()
    };
    assert_eq!(attempts(Ending::Heard), ["message 0 had 4 attempts, its schedule has 3"]);
    assert_eq!(attempts(Ending::Killed), Vec::<String>::new());
}

/// Returns the story of three letters of a group, first delivered in this order.
fn group(order: [Who; 3]) -> Story {
    let mut story = Story::new();
    for _ in order {
        story.letter(End::Delivered, Some("customer-17"));
    }
    for who in order {
        let run = story.run(who);
        story.delivered(who, run);
        story.end(who, run, Ending::Heard, true);
    }
    story
}

#[test]
fn letters_of_a_group_arrive_in_their_override() {
    assert!(group([0, 1, 2]).verdict().is_good());
    let verdict = group([0, 2, 1]).verdict();
    assert_eq!((verdict.disorders, verdict.is_good()), (1, false));
    assert!(verdict.violations[0].history.contains("letter 1, queue, group customer-17"));
}

/// Returns the violations of a story of two letters of a group, the follower before the head or after it.
/// Each has three failed attempts, and is then delivered or archived as exhausted.
fn overtaken(archived: bool, delivered: bool, follower_first: bool) -> Vec<String> {
    let mut story = Story::new();
    let end = if archived { End::Archived("exhausted") } else { End::Delivered };
    let (head, next) = (story.letter(End::Delivered, Some("g")), story.letter(end, Some("g")));
    let order = if follower_first { [next, head] } else { [head, next] };
    for who in order {
        story.refused_often(who, 3);
        if who == next && archived || who == head && !delivered {
            story.exhausted(who);
        } else {
            let run = story.run(who);
            story.delivered(who, run);
            story.end(who, run, Ending::Heard, true);
        }
    }
    story.wrong()
}

#[test]
fn a_follower_does_not_overtake_its_head_wherever_each_of_them_ends() {
    for (archived, delivered) in [(false, false), (false, true), (true, false), (true, true)] {
        let wrong = overtaken(archived, delivered, true);
        assert!(
            wrong.contains(&"letter 1 of group g has overtaken letter 0 in payments-dlq".to_owned()),
            "{wrong:?}"
        );
        let wrong = overtaken(archived, delivered, false);
        assert!(wrong.iter().all(|what| what.contains("attempts")), "{wrong:?}");
    }
}

#[test]
fn an_attempt_that_fails_overtakes_as_well() {
    let mut story = Story::new();
    for _ in 0..2 {
        story.letter(End::Delivered, Some("g"));
    }
    story.refused_often(1, 1);
    for who in [0, 1] {
        let run = story.run(who);
        story.delivered(who, run);
        story.end(who, run, Ending::Heard, true);
    }
    assert_eq!(story.wrong(), ["letter 1 of group g has overtaken letter 0 in payments-dlq"]);
}

#[test]
fn a_repetition_out_of_override_is_no_violation() {
    let mut story = Story::new();
    for _ in 0..2 {
        story.letter(End::Delivered, Some("customer-17"));
    }
    let run = story.run(0);
    story.delivered(0, run);
    story.run(1);
    story.delivered(1, run);
    story.end(1, run, Ending::Killed, false);
    for who in [0, 1] {
        let run = story.run(who);
        story.delivered(who, run);
        story.end(who, run, Ending::Heard, true);
    }
    let verdict = story.verdict();
    assert_eq!((verdict.disorders, verdict.duplicates, verdict.unexplained), (0, 2, 0));
    assert!(verdict.is_good());
}

#[test]
fn a_batch_that_fails_and_a_stranger_are_violations() {
    let mut story = good();
    let run = story.ledger.begin(&"fn".into(), 60_000);
    story.ledger.end(run, Ending::Failed, Some("no batchItemFailures".to_owned()));
    story.ledger.stranger("PutObject of what is no letter".to_owned());
    assert_eq!(
        story.wrong(),
        ["PutObject of what is no letter", "invocation 1 failed as a whole: no batchItemFailures"]
    );
}

#[test]
fn receives_before_a_move_count_where_the_source_could_not_be_asked() {
    let wrong = |asked: bool| {
        let mut story = Story::new();
        let who = story.planned(Plan {
            group: None,
            order: GroupOrder::OfEachQueue,
            end: Some(End::Delivered),
            retries: 5,
            last_due: 0,
            receives_before: 3,
            kind: "moved by SQS".to_owned(),
        });
        let run = story.run(who);
        if !asked {
            story.ledger.fact(who, who, Some(run), What::Uncounted);
        }
        let what = What::Sent {
            place: Place::Target,
            effect: Effect::Taken,
            response: Response::Done,
            wrong: None,
            spent: Some(4),
            reason: None,
        };
        story.ledger.fact(who, who, Some(run), what);
        story.end(who, run, Ending::Heard, true);
        story.wrong()
    };
    assert_eq!(wrong(false), [""; 0]);
    assert_eq!(wrong(true), ["attempt 1 at most, and its number is 4"]);
}
