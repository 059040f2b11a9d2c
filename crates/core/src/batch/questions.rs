//! The questions before an attempt: a round asks in two passes, so that letters that wait for no answer, or for one
//! that comes at once, do not wait for those whose look-up or certificate hangs.
//!
//! The first pass has the letters whose questions never hung, and a second for them. What was not answered by then is
//! asked once more in the second pass, with what hung before, if the time for what does not work allows it. A letter
//! whose question is not asked is left out, like one whose endpoint is down.

use std::time::Duration;

use super::action::{InvocationNow, SendResult};
use super::health::{LookupQuestion, QuestionEnd, QuestionTurn};
use super::pending_letter::Disposition;
use super::state::{Batch, BatchStage, DueRetries, RoundPass};
use super::time::{HTTP_TIMEOUT, half_of};
use super::unmarked_letters::UnmarkedLetters;
use crate::failure::{CUT_SHORT, DEADLINE_EXCEEDED, Failure, FailureClass};
use crate::policy::Retry;

impl Batch<'_> {
    /// Returns the letters that are due in this pass, and whose questions may be asked.
    pub(super) fn due_to_ask(&mut self, now: InvocationNow) -> DueRetries {
        let candidates = match self.pass {
            RoundPass::First => self.round.clone(),
            RoundPass::Second => std::mem::take(&mut self.set_aside),
        };
        let mut due = Vec::new();
        for index in candidates {
            let Disposition::Due(retry) = self.cases[index].disposition else { continue };
            let health = &self.memory.health;
            let asking = self.questions(index).map(|question| health.asking(&question, now.age)).max();
            match (self.pass, asking) {
                (_, None | Some(QuestionTurn::AtOnce)) | (RoundPass::Second, Some(QuestionTurn::Later)) => {
                    due.push((index, retry));
                }
                (RoundPass::First, _) => self.set_aside.push(index),
                (RoundPass::Second, _) => {
                    self.cases[index].answered(retry, SendResult::LeftOut(Duration::ZERO), now.at);
                }
            }
        }
        due
    }

    /// Returns the questions before an attempt of a letter.
    fn questions(&self, index: usize) -> impl Iterator<Item = LookupQuestion> {
        let case = &self.cases[index];
        let signature = case.letter.topic().filter(|_| case.rule.verify_signature);
        let subscription = case.route_to_ask().and_then(|route| route.subscription());
        let signature = signature.map(|topic| LookupQuestion::Signature(topic.clone()));
        signature.into_iter().chain(subscription.map(|arn| LookupQuestion::Subscription(arn.clone())))
    }

    /// Returns the time until which the questions of this pass are asked, and takes note that they begin.
    pub(super) fn ask_until(&mut self, now: InvocationNow) -> Duration {
        let asking = if self.pass == RoundPass::First { QuestionTurn::AtOnce } else { QuestionTurn::Later };
        self.begin_to_ask(asking, now)
    }

    /// Returns the time until which questions are asked, and takes note that they begin.
    pub(super) fn begin_to_ask(&mut self, asking: QuestionTurn, now: InvocationNow) -> Duration {
        let time = self.memory.health.time_to_ask(asking, now.age);
        let (whole, until) = (half_of(now.elapsed, self.time.deliver), now.elapsed + time);
        (self.asked_at, self.asked_for) = (now.elapsed, (until < whole).then_some(time));
        until.min(whole)
    }

    /// Takes note of the ends of the questions that were asked.
    pub(super) fn asked(&mut self, questions: Vec<(LookupQuestion, QuestionEnd)>, now: InvocationNow) {
        let began = self.age_when_asked(now);
        self.memory.health.asked(questions, began, now.age);
    }

    /// Returns the age of the instance when the questions were asked. Between then and now nothing but the monotonic clock
    /// counts.
    pub(super) fn age_when_asked(&self, now: InvocationNow) -> Duration {
        now.age.saturating_sub(now.elapsed.saturating_sub(self.asked_at))
    }

    /// Returns the end of a question, if it was asked. `unanswered` says why it has no answer, if it has none.
    pub(super) fn question_end(&self, unanswered: Option<&SendResult>) -> Option<QuestionEnd> {
        match unanswered {
            None => Some(QuestionEnd::Answered),
            Some(SendResult::NotStarted) => None,
            Some(sent) if self.will_ask(sent) => Some(QuestionEnd::CutOff),
            Some(_) => Some(QuestionEnd::Failed),
        }
    }

    /// Reports whether a question without an answer is asked once more in the second pass.
    fn will_ask(&self, sent: &SendResult) -> bool {
        is_cut_off(sent) && self.pass == RoundPass::First && self.asked_for.is_some()
    }

    /// Takes over that a question of a letter has no answer: it is asked once more in the second pass, or this attempt
    /// has failed.
    pub(super) fn unanswered(
        &mut self,
        index: usize,
        retry: Retry,
        mut sent: SendResult,
        now: InvocationNow,
    ) {
        if self.will_ask(&sent) {
            self.set_aside.push(index);
            return;
        }
        // Its call has not begun behind others that hung.
        if sent == SendResult::NotStarted && self.pass == RoundPass::Second {
            return self.cases[index].put_off();
        }
        let is_short =
            self.pass == RoundPass::Second || self.asked_for.is_some_and(|time| time < HTTP_TIMEOUT);
        if is_short && is_cut_off(&sent) {
            sent = SendResult::Failed(Failure::ours(FailureClass::Transient, CUT_SHORT));
        }
        self.cases[index].answered(retry, sent, now.at);
    }

    /// Returns the stage after letters of a round were sent.
    pub(super) fn after_sending(&mut self, unmarking: UnmarkedLetters) -> BatchStage {
        if !unmarking.is_empty() {
            return BatchStage::AskTargets(unmarking);
        }
        if self.pass == RoundPass::First && !self.set_aside.is_empty() {
            self.pass = RoundPass::Second;
            return BatchStage::Verify;
        }
        BatchStage::Place
    }
}

/// Reports whether an answer did not come in time.
fn is_cut_off(sent: &SendResult) -> bool {
    match sent {
        SendResult::NotStarted => true,
        SendResult::Failed(failure) => failure.code == DEADLINE_EXCEEDED,
        _ => false,
    }
}
