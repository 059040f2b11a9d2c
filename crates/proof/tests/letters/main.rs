//! Tests that the laws of letters find what they must find, with stories that contain deliberate faults.
#![allow(clippy::unwrap_used, reason = "tests")]

mod attempts;
mod departures;
mod order;

use std::collections::BTreeSet;

use redrive_laws::letters::{
    CallEffect, CallResponse, Ledger, LetterNumber, LettersVerdict, LifeEvent, MessageNumber, NoExcuses,
    Plan, RequiredEnd, RequiredOrder, RunEnd, RunId as Run, SentPlace, judge,
};

/// The life of letters, in short.
struct LedgerStory {
    ledger: Ledger,
    queued: BTreeSet<MessageNumber>,
}

impl LedgerStory {
    fn new() -> Self {
        Self { ledger: Ledger::default(), queued: BTreeSet::new() }
    }

    /// Adds a letter, whose message has the same number.
    fn letter(&mut self, end: RequiredEnd, group: Option<&str>) -> LetterNumber {
        self.planned(Plan {
            group: group.map(str::to_owned),
            order: RequiredOrder::OfEachQueue,
            end: Some(end),
            retries: 3,
            last_due: 0,
            receives_before: 0,
            kind: "queue".to_owned(),
        })
    }

    /// Adds a letter whose last retry is due so many milliseconds after it came.
    fn letter_due(&mut self, end: RequiredEnd, last_due: redrive_sim::SimMillis) -> LetterNumber {
        self.planned(Plan {
            group: None,
            order: RequiredOrder::OfEachQueue,
            end: Some(end),
            retries: 3,
            last_due,
            receives_before: 0,
            kind: "queue".to_owned(),
        })
    }

    fn planned(&mut self, plan: Plan) -> LetterNumber {
        let who = self.ledger.letter(plan);
        self.queued.insert(who);
        self.ledger.fact(who, who, None, LifeEvent::Queued { queue: "payments-dlq".to_owned(), spent: 0 });
        who
    }

    fn run(&mut self, who: LetterNumber) -> Run {
        let run = self.ledger.begin(&"fn".into(), 60_000);
        self.ledger.fact(who, who, Some(run), LifeEvent::Handed);
        run
    }

    fn sent(
        &mut self,
        who: LetterNumber,
        run: Run,
        place: SentPlace,
        effect: CallEffect,
        response: CallResponse,
    ) {
        let reason = (place == SentPlace::Archive).then(|| "exhausted".to_owned());
        let what = LifeEvent::Sent { place, effect, response, wrong: None, spent: Some(1), reason };
        self.ledger.fact(who, who, Some(run), what);
    }

    fn delivered(&mut self, who: LetterNumber, run: Run) {
        self.sent(who, run, SentPlace::Target, CallEffect::Taken, CallResponse::Done);
    }

    fn refused(&mut self, who: LetterNumber, run: Run) {
        self.sent(who, run, SentPlace::Target, CallEffect::None, CallResponse::Refused { for_good: false });
    }

    /// Adds so many invocations, each with an attempt that fails.
    fn refused_often(&mut self, who: LetterNumber, times: usize) {
        for _ in 0..times {
            let run = self.run(who);
            self.refused(who, run);
            self.end(who, run, RunEnd::Heard, false);
        }
    }

    /// Archives the letter as exhausted, and deletes it.
    fn exhausted(&mut self, who: LetterNumber) {
        let run = self.run(who);
        self.sent(who, run, SentPlace::Archive, CallEffect::Taken, CallResponse::Done);
        self.end(who, run, RunEnd::Heard, true);
    }

    fn end(&mut self, who: LetterNumber, run: Run, ending: RunEnd, deleted: bool) {
        self.ledger.end(run, ending, None);
        if deleted {
            self.queued.remove(&who);
            self.ledger.fact(who, who, Some(run), LifeEvent::Deleted);
        } else if ending == RunEnd::Heard {
            self.ledger.fact(who, who, Some(run), LifeEvent::Kept);
        }
    }

    fn verdict(&self) -> LettersVerdict {
        judge(&self.ledger, &self.queued, &NoExcuses)
    }

    /// Returns the violations, as text.
    fn wrong(&self) -> Vec<String> {
        self.verdict().violations.into_iter().map(|violation| violation.what).collect()
    }
}

/// Returns the story of one letter, delivered and deleted.
fn good() -> LedgerStory {
    let mut story = LedgerStory::new();
    let who = story.letter(RequiredEnd::Delivered, None);
    let run = story.run(who);
    story.delivered(who, run);
    story.end(who, run, RunEnd::Heard, true);
    story
}
