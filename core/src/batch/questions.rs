//! The questions before an attempt: a round asks in two passes, so that letters that wait for no answer, or for one
//! that comes at once, do not wait for those whose look-up or certificate hangs.
//!
//! The first pass has the letters whose questions never hung, and a second for them. What was not answered by then is
//! asked once more in the second pass, with what hung before, if the time for what does not work allows it. A letter
//! whose question is not asked is left out, like one whose endpoint is down.

use std::time::Duration;

use super::action::{Now, Sent};
use super::case::Disposition;
use super::health::{Asking, Question};
use super::state::{Batch, Due, Stage};
use super::time::{HTTP_TIMEOUT, half_of};
use super::unmarked::Unmarking;
use crate::failure::{CUT_SHORT, DEADLINE_EXCEEDED};
use crate::policy::Retry;

/// The passes of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// With the questions that never hung.
    First,
    /// With the others.
    Second,
}

impl Batch<'_> {
    /// Returns the letters that are due in this pass, and whose questions may be asked.
    pub(super) fn due_to_ask(&mut self, now: Now) -> Due {
        let candidates = match self.pass {
            Pass::First => self.round.clone(),
            Pass::Second => std::mem::take(&mut self.set_aside),
        };
        let mut due = Vec::new();
        for index in candidates {
            let Disposition::Due(retry) = self.cases[index].disposition else { continue };
            let health = &self.memory.health;
            let asking = self.questions(index).map(|question| health.asking(&question, now.age)).max();
            match (self.pass, asking) {
                (_, None | Some(Asking::AtOnce)) | (Pass::Second, Some(Asking::Later)) => {
                    due.push((index, retry));
                }
                (Pass::First, _) => self.set_aside.push(index),
                (Pass::Second, _) => self.cases[index].answered(retry, Sent::LeftOut(Duration::ZERO), now.at),
            }
        }
        due
    }

    /// Returns the questions before an attempt of a letter.
    fn questions(&self, index: usize) -> impl Iterator<Item = Question> {
        let case = &self.cases[index];
        let signature = case.letter.topic().filter(|_| case.rule.verify_signature);
        let subscription = case.route_to_ask().and_then(|route| route.subscription());
        let signature = signature.map(|topic| Question::Signature(topic.clone()));
        signature.into_iter().chain(subscription.map(|arn| Question::Subscription(arn.clone())))
    }

    /// Returns the time until which the questions of this pass are asked, and takes note that they begin.
    pub(super) fn ask_until(&mut self, now: Now) -> Duration {
        let asking = if self.pass == Pass::First { Asking::AtOnce } else { Asking::Later };
        self.begin_to_ask(asking, now)
    }

    /// Returns the time until which questions are asked, and takes note that they begin.
    pub(super) fn begin_to_ask(&mut self, asking: Asking, now: Now) -> Duration {
        let time = self.memory.health.time_to_ask(asking, now.age);
        let (whole, until) = (half_of(now.elapsed, self.time.deliver), now.elapsed + time);
        (self.asked_at, self.asked_for) = (now.age, (until < whole).then_some(time));
        until.min(whole)
    }

    /// Takes note of the questions that were asked, each with whether it was answered.
    pub(super) fn asked(&mut self, questions: Vec<(Question, bool)>, now: Now) {
        let will_ask = self.pass == Pass::First;
        self.memory.health.asked(questions, self.asked_at, will_ask, now.age);
    }

    /// Takes over that a question of a letter has no answer: it is asked once more in the second pass, or this attempt
    /// has failed.
    pub(super) fn unanswered(&mut self, index: usize, retry: Retry, mut sent: Sent, now: Now) {
        let is_cut_off = match &sent {
            Sent::NotStarted => true,
            Sent::Failed(failure) => failure.code == DEADLINE_EXCEEDED,
            _ => false,
        };
        if is_cut_off && self.pass == Pass::First && self.asked_for.is_some() {
            self.set_aside.push(index);
            return;
        }
        if let Sent::Failed(failure) = &mut sent
            && is_cut_off
            && self.asked_for.is_some_and(|time| time < HTTP_TIMEOUT)
        {
            CUT_SHORT.clone_into(&mut failure.code);
        }
        self.cases[index].answered(retry, sent, now.at);
    }

    /// Returns the stage after letters of a round were sent.
    pub(super) fn after_sending(&mut self, unmarking: Unmarking) -> Stage {
        if !unmarking.is_empty() {
            return Stage::AskTargets(unmarking);
        }
        if self.pass == Pass::First && !self.set_aside.is_empty() {
            self.pass = Pass::Second;
            return Stage::Verify;
        }
        Stage::Place
    }
}
