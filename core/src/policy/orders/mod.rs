//! Orders: an operator's word about letters, which goes before the rules while the function runs.
//!
//! Orders stand in one JSON document, which the function reads now and then:
//!
//! ```json
//! {
//!   "version": 1,
//!   "orders": [
//!     {
//!       "id": "20261122T101500Z-7f3a",
//!       "do": "hold",
//!       "match": { "topicArn": [{ "suffix": ":orders" }] },
//!       "arrivedBefore": "2026-11-22T10:15:00Z",
//!       "at": "2026-11-22T10:15:00Z",
//!       "until": "2026-11-22T12:00:00Z",
//!       "by": "arn:aws:sts::123456789012:assumed-role/operator/ada",
//!       "why": "the warehouse's database is down"
//!     }
//!   ]
//! }
//! ```
//!
//! `match` is a pattern as in rules. `arrivedBefore`, `arrivedAfter` and `until` may be left out. The first order that
//! matches a letter and is in force counts.

mod document;
mod reach;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::fields::Fault;
use super::matcher::{Matcher, View};
use crate::letter::Letter;

pub use reach::{Reach, Touches};

/// The version of the document that this code reads and writes.
pub const ORDERS_VERSION: u64 = 1;

/// The largest document that is read, bytes.
pub const MAX_ORDERS_BYTES: usize = 256 * 1024;

/// The most orders of a document. Each is matched against each letter that it may be about.
pub const MAX_ORDERS: usize = 100;

/// How long an order to retry is in force where it does not say.
pub const RETRY_IN_FORCE: SignedDuration = SignedDuration::from_mins(15);

/// The orders of a document, in their order.
#[derive(Debug, Default)]
pub struct Orders {
    orders: Vec<Order>,
    /// The pattern of each.
    matchers: Vec<Matcher>,
}

/// An operator's word about the letters that a pattern picks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    /// Its name, unique within the document.
    pub id: String,
    /// What it asks for.
    #[serde(rename = "do")]
    pub action: OrderAction,
    /// The pattern over letters, as in rules.
    #[serde(rename = "match")]
    pub pattern: Value,
    /// Only letters that arrived before this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived_before: Option<Timestamp>,
    /// Only letters that arrived at this moment or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived_after: Option<Timestamp>,
    /// The beginning of the order.
    pub at: Timestamp,
    /// The end of the order. One to retry ends after [`RETRY_IN_FORCE`] where this is left out, any other when it is
    /// taken out of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Who gave it, as the writer claims.
    pub by: String,
    /// The reason.
    pub why: String,
}

/// What an order asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OrderAction {
    /// No attempts.
    Hold,
    /// An attempt at once for each letter that is received.
    Retry,
    /// Archived, with the reason `ordered`.
    Archive,
}

/// Everything that is wrong with a document of orders.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct BadOrders(pub Vec<Fault>);

impl OrderAction {
    /// Every action, in the order of the docs.
    pub const ALL: [Self; 3] = [Self::Hold, Self::Retry, Self::Archive];

    /// The name in documents and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Retry => "retry",
            Self::Archive => "archive",
        }
    }
}

impl Order {
    /// The end of the order, where it has one.
    #[must_use]
    pub fn end(&self) -> Option<Timestamp> {
        let after_a_while = || self.at.saturating_add(RETRY_IN_FORCE).unwrap_or(Timestamp::MAX);
        self.until.or_else(|| (self.action == OrderAction::Retry).then(after_a_while))
    }

    /// Whether it has ended by then.
    #[must_use]
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.end().is_some_and(|end| end <= now)
    }

    /// Whether it counts at a moment.
    #[must_use]
    pub fn is_in_force(&self, now: Timestamp) -> bool {
        self.at <= now && !self.has_ended(now)
    }

    /// Whether a letter that arrived then is one that it is about.
    fn is_about(&self, arrived: Timestamp) -> bool {
        self.arrived_before.is_none_or(|before| arrived < before)
            && self.arrived_after.is_none_or(|after| arrived >= after)
    }

    /// Whether a letter was sent by an order to retry and came back since this one began. It would go round without a
    /// pause.
    fn is_carried_out(&self, letter: &Letter) -> bool {
        let came_back = letter.mark.as_ref().is_some_and(|mark| mark.ordered) && letter.sqs.sent >= self.at;
        self.action == OrderAction::Retry && came_back
    }
}

/// What orders say of one letter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Ordered {
    /// Nothing: its rule decides.
    #[default]
    Nothing,
    /// Nobody knows: the orders were never read.
    Unread,
    /// This order goes before its rule.
    By(Order),
}

impl Ordered {
    /// The order, where there is one.
    #[must_use]
    pub fn order(&self) -> Option<&Order> {
        match self {
            Self::By(order) => Some(order),
            Self::Nothing | Self::Unread => None,
        }
    }

    /// What the order asks for, where there is one.
    #[must_use]
    pub fn action(&self) -> Option<OrderAction> {
        self.order().map(|order| order.action)
    }
}

impl Orders {
    /// The orders, in their order.
    #[must_use]
    pub fn all(&self) -> &[Order] {
        &self.orders
    }

    /// Returns what these orders say of a letter, for whoever has just read them.
    #[must_use]
    pub fn on(&self, letter: &Letter, now: Timestamp) -> Ordered {
        self.first(letter, now, |_| true).map_or(Ordered::Nothing, |order| Ordered::By(order.clone()))
    }

    /// The first order that is in force and matches the letter, of those that `counts` accepts. An order to retry says
    /// nothing more of a letter that was sent on an order since it began: that letter keeps to its schedule.
    ///
    /// Where a letter's lists are too long for an order's pattern, a hold is taken to match it and any other order is not:
    /// when in doubt, nothing is sent and nothing is archived.
    #[must_use]
    pub fn first(&self, letter: &Letter, now: Timestamp, counts: impl Fn(&Order) -> bool) -> Option<&Order> {
        let arrived = letter.first_arrival();
        let applies = |order: &Order| {
            order.is_in_force(now)
                && order.is_about(arrived)
                && !order.is_carried_out(letter)
                && counts(order)
        };
        let all = self.orders.iter().zip(&self.matchers).filter(|(order, _)| applies(order));
        let (orders, matchers): (Vec<_>, Vec<_>) = all.unzip();
        if orders.is_empty() {
            return None;
        }
        let view = View::of(letter, &matchers);
        let matches = |order: &Order, matcher: &Matcher| match matcher.matching_view(&view) {
            Ok(matching) => !matching.is_empty(),
            Err(_) => order.action == OrderAction::Hold,
        };
        orders
            .into_iter()
            .zip(matchers)
            .find(|(order, matcher)| matches(order, matcher))
            .map(|(order, _)| order)
    }
}
