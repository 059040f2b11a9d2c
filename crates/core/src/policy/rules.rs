//! The redrive policy, which says which rule a letter falls under.

use jiff::Timestamp;

use super::matcher::Matcher;
use super::rule::Rule;
use super::verdict::{LetterFacts, Verdict};
use crate::arn::Arn;
use crate::letter::{BelievedClaims, Letter, SqsMessage, TrustedOrigins};

/// The whole configuration: a default and a list of rules.
#[derive(Debug)]
pub struct Policy {
    pub(super) default: Rule,
    pub(super) rules: Vec<Rule>,
    pub(super) matcher: Matcher,
    pub(super) origins: TrustedOrigins,
}

impl Policy {
    /// Returns the policy of a function that is configured with none.
    #[must_use]
    pub fn built_in() -> Self {
        Self {
            default: Rule::built_in(),
            rules: Vec::new(),
            matcher: Matcher::default(),
            origins: TrustedOrigins::default(),
        }
    }

    /// Returns the origins that letters may claim.
    #[must_use]
    pub fn origins(&self) -> &TrustedOrigins {
        &self.origins
    }

    /// Parses a message of one of the queues that feed the function. It believes the origins that this policy
    /// lists.
    #[must_use]
    pub fn read(&self, sqs: SqsMessage, requeue: Option<&Arn>) -> Letter {
        Letter::received(sqs, BelievedClaims { requeue, origins: &self.origins })
    }

    /// Returns the rule for a letter: the first that matches, else the default.
    #[must_use]
    pub fn rule_for(&self, letter: &Letter) -> &Rule {
        self.matcher.first(letter).and_then(|index| self.rules.get(index)).unwrap_or(&self.default)
    }

    /// Returns the letter as its rule takes it, and the rule.
    #[must_use]
    pub fn sort(&self, letter: Letter) -> (Letter, &Rule) {
        let rule = self.rule_for(&letter);
        (if rule.takes_as_raw(&letter) { letter.into_raw() } else { letter }, rule)
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
    pub fn decide(&self, letter: &Letter, facts: &LetterFacts, now: Timestamp) -> Verdict<'_> {
        self.rule_for(letter).decide(letter, facts, now)
    }
}
