//! The redrive policy, which says which rule a letter falls under.

use jiff::Timestamp;

use super::decision::{ArchiveReason, Decision};
use super::matcher::{Matcher, MatchingSteps, Unmatchable};
use super::rule::Rule;
use super::verdict::{Facts, Verdict};
use crate::arn::Arn;
use crate::letter::{Letter, Origins, SqsMessage, Trust};

/// The whole configuration: a default and a list of rules.
#[derive(Debug)]
pub struct Policy {
    pub(super) default: Rule,
    pub(super) rules: Vec<Rule>,
    pub(super) matcher: Matcher,
    pub(super) origins: Origins,
}

impl Policy {
    /// Returns the policy of a function that is configured with none.
    #[must_use]
    pub fn built_in() -> Self {
        Self {
            default: Rule::built_in(),
            rules: Vec::new(),
            matcher: Matcher::default(),
            origins: Origins::default(),
        }
    }

    /// Returns the origins that letters may claim.
    #[must_use]
    pub fn origins(&self) -> &Origins {
        &self.origins
    }

    /// Parses a message of one of the queues that feed the function. It believes the origins that this policy
    /// lists.
    #[must_use]
    pub fn read(&self, sqs: SqsMessage, requeue: Option<&Arn>) -> Letter {
        Letter::received(sqs, Trust { requeue, origins: &self.origins })
    }

    /// Returns the rule for a letter: the first that matches, else the default.
    ///
    /// # Errors
    ///
    /// [`Unmatchable`] if the rule cannot be found in reasonable time. The letter does not fall under the
    /// default then, which might send what a rule would have kept.
    pub fn rule_for(&self, letter: &Letter) -> Result<&Rule, Unmatchable> {
        self.matcher.first(letter).map(|first| self.rule(first))
    }

    fn rule(&self, first: Option<usize>) -> &Rule {
        first.and_then(|index| self.rules.get(index)).unwrap_or(&self.default)
    }

    /// Returns the letter as its rule takes it, and the rule.
    ///
    /// # Errors
    ///
    /// [`Unmatchable`], as in [`Policy::rule_for`].
    pub fn sort(&self, letter: Letter) -> (Letter, Result<&Rule, Unmatchable>) {
        let rule = self.rule_for(&letter);
        (as_taken(letter, rule), rule)
    }

    /// Returns a letter of a batch as its rule takes it, and the rule, or `None` if too few steps are left to look for it.
    ///
    /// # Errors
    ///
    /// [`Unmatchable`], as in [`Policy::rule_for`].
    pub fn sort_within(
        &self,
        letter: Letter,
        left: &mut MatchingSteps,
    ) -> (Letter, Option<Result<&Rule, Unmatchable>>) {
        let first = self.matcher.first_within(&letter, left);
        let rule = first.map(|first| first.map(|first| self.rule(first)));
        let letter = if let Some(rule) = rule { as_taken(letter, rule) } else { letter };
        (letter, rule)
    }

    /// Returns the rule for letters that no other rule matches.
    #[must_use]
    pub fn default_rule(&self) -> &Rule {
        &self.default
    }

    /// Returns the default, then the rules in their order.
    pub fn all_rules(&self) -> impl Iterator<Item = &Rule> {
        std::iter::once(&self.default).chain(&self.rules)
    }

    /// Says what is to be done with a letter now.
    #[must_use]
    pub fn decide(&self, letter: &Letter, facts: &Facts, now: Timestamp) -> Verdict<'_> {
        let unmatchable = |_| {
            let decision = Decision::Archive(ArchiveReason::Unrecognised, Some(Unmatchable::DETAIL));
            let mut verdict = self.default.decide(letter, facts, now);
            if !verdict.is_kept_back(&facts.ordered) {
                verdict.decision = decision;
            }
            verdict
        };
        self.rule_for(letter).map_or_else(unmatchable, |rule| rule.decide(letter, facts, now))
    }
}

/// Returns the letter as its rule takes it.
fn as_taken(letter: Letter, rule: Result<&Rule, Unmatchable>) -> Letter {
    if rule.is_ok_and(|rule| rule.takes_as_raw(&letter)) { letter.into_raw() } else { letter }
}
