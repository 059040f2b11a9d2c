//! Tests that the laws of letters find what they must find, with stories that contain deliberate faults.
#![allow(clippy::unwrap_used, reason = "tests")]

mod attempts;
mod departures;
mod order;

use std::collections::BTreeSet;

use redrive_laws::letters::{
    Effect, End, Ending, GroupOrder, Ledger, Message, Place, Plan, Response, RunId as Run, Strict, Verdict,
    What, Who, judge,
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
