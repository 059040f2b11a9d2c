//! The questions that are asked before letters are sent, and those that hung.

use std::time::Duration;

use super::endpoint_health::{COSTLY_FAILURE_TIME, LONGEST_REST, MIN_REQUEST_TIME, REST_FACTOR};
use super::hung_questions::LookupQuestion;
use super::table::{Health, MAX_KEPT};
use crate::batch::time::HTTP_TIMEOUT;

/// The time that questions get which never hung. Those that take longer are asked once more, after the letters that do
/// not wait for them.
const FIRST_QUESTION_TIME: Duration = Duration::from_secs(1);

/// The time at which a question is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::batch) enum QuestionTurn {
    /// With the others: it never hung.
    AtOnce,
    /// After the letters that do not wait for it.
    Later,
    /// Not now.
    NotNow,
}

/// The end of a question that was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::batch) enum QuestionEnd {
    Answered,
    /// It was cut off, and is asked once more at once.
    CutOff,
    Failed,
}

impl Health {
    /// Decides when a question is asked. One that has hung is asked again after its rest, if something is left of the
    /// allowance.
    pub(in crate::batch) fn asking(&self, question: &LookupQuestion, now: Duration) -> QuestionTurn {
        match self.questions.0.get(question) {
            None => QuestionTurn::AtOnce,
            Some(rests) if now < *rests || self.for_failures.is_empty(now) => QuestionTurn::NotNow,
            Some(_) => QuestionTurn::Later,
        }
    }

    /// Returns how long questions may take that are asked then.
    pub(in crate::batch) fn time_to_ask(&self, asking: QuestionTurn, now: Duration) -> Duration {
        match asking {
            QuestionTurn::AtOnce => FIRST_QUESTION_TIME,
            QuestionTurn::Later if self.for_failures.is_empty(now) => MIN_REQUEST_TIME,
            QuestionTurn::Later => HTTP_TIMEOUT,
            QuestionTurn::NotNow => Duration::ZERO,
        }
    }

    /// Takes note of the ends of questions that were asked together.
    pub(in crate::batch) fn asked(
        &mut self,
        questions: impl IntoIterator<Item = (LookupQuestion, QuestionEnd)>,
        began: Duration,
        now: Duration,
    ) {
        let (mut failed, mut costs) = (Vec::new(), false);
        for (question, end) in questions {
            costs |= end != QuestionEnd::Answered;
            match end {
                QuestionEnd::Answered => {
                    self.questions.0.remove(&question);
                }
                QuestionEnd::CutOff => {}
                QuestionEnd::Failed => failed.push(question),
            }
        }
        if costs {
            self.for_failures.charge(began, now);
        }
        let took = now.saturating_sub(began);
        if took < COSTLY_FAILURE_TIME && !self.for_failures.is_empty(now) {
            return;
        }
        let rests = now + (took * REST_FACTOR).min(LONGEST_REST);
        let all = &mut self.questions.0;
        for question in failed {
            if all.len() >= MAX_KEPT && !all.contains_key(&question) {
                let first = all.iter().min_by_key(|(_, rests)| **rests).map(|(question, _)| question.clone());
                first.and_then(|question| all.remove(&question));
            }
            let until = all.entry(question).or_default();
            *until = rests.max(*until);
        }
    }
}
