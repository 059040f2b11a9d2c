//! The document of orders: reading and writing.

use std::fmt::Write;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{BadOrders, MAX_ORDERS, MAX_ORDERS_BYTES, ORDERS_VERSION, Order, OrderAction, Orders};
use crate::policy::fields::{Fault, Faults, Fields};
use crate::policy::json::{after_mark, read_json};
use crate::policy::matcher::{Matcher, Seen};

/// The longest id, `by` and `why`, in characters.
const MAX_TEXT: usize = 1_000;

impl Orders {
    /// Reads a document.
    ///
    /// # Errors
    ///
    /// [`BadOrders`] with every fault and the path to it. A document of a newer version is one fault.
    pub fn parse(json: &[u8]) -> Result<Self, BadOrders> {
        let whole = |problem: String| BadOrders(vec![Fault::new("", problem)]);
        if json.len() > MAX_ORDERS_BYTES {
            let size = json.len();
            return Err(whole(format!("must be at most {MAX_ORDERS_BYTES} bytes long, not {size}")));
        }
        let text = std::str::from_utf8(json).map_err(|_| whole("not JSON: not UTF-8".to_owned()))?;
        let document = read_json(text).map_err(BadOrders)?;
        let version = document.get("version");
        if version.and_then(Value::as_u64) != Some(ORDERS_VERSION) {
            let mut problem = format!("must be {ORDERS_VERSION}");
            if let Some(version) = version {
                let _ = write!(problem, ", not {version}: a newer version of the tools may have written it");
            }
            return Err(BadOrders(vec![Fault::new("version", problem)]));
        }
        let faults = Faults::default();
        let text = std::str::from_utf8(json).ok().map(after_mark).and_then(Seen::read);
        let orders = read(&document, text.as_ref(), &faults);
        let faults = faults.into_inner();
        if faults.is_empty() { Ok(orders) } else { Err(BadOrders(faults)) }
    }

    /// Creates a document of these orders.
    ///
    /// # Errors
    ///
    /// [`BadOrders`], as in [`Orders::parse`].
    pub fn of(orders: &[Order]) -> Result<Self, BadOrders> {
        Self::parse(written(orders).as_bytes())
    }

    /// Returns the document as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        written(&self.orders)
    }
}

fn written(orders: &[Order]) -> String {
    format!("{:#}\n", json!({ "version": ORDERS_VERSION, "orders": orders }))
}

fn read(document: &Value, text: Option<&Seen<'_>>, faults: &Faults) -> Orders {
    let fields = Fields::new(faults, "", document);
    let _ = fields.value("version");
    let (mut orders, mut matchers) = (Vec::<Order>::new(), Vec::new());
    if fields.value("orders").is_none() {
        fields.note("orders", "is missing: a list of orders, which may be empty");
    }
    let given = fields.list("orders").unwrap_or_default();
    if given.len() > MAX_ORDERS {
        fields.note("orders", format!("must be at most {MAX_ORDERS} orders, not {}", given.len()));
    }
    for (index, value) in given.iter().enumerate().take(MAX_ORDERS) {
        let given = Fields::new(faults, format!("orders[{index}]"), value);
        let order = read_order(&given);
        if orders.iter().any(|other| other.id == order.id) {
            given.note("id", format!("{:?} is the id of another order", order.id));
        }
        let (mut matcher, pattern) = (Matcher::default(), Seen::from(&order.pattern));
        let written = text.and_then(|text| text.at(&["orders", &index.to_string(), "match"]));
        if written.is_some_and(|written| !written.is_kept_by(&pattern)) {
            given.note("match", "holds a number that would be rounded: write 15 digits at most");
        }
        matcher.add(index, &pattern, faults, &given.path("match"));
        given.finish();
        orders.push(order);
        matchers.push(matcher);
    }
    fields.finish();
    Orders { orders, matchers }
}

fn read_order(given: &Fields<'_>) -> Order {
    let actions = OrderAction::ALL.map(|action| (action.name(), action));
    let action = given.choice("do", &actions);
    if given.value("do").is_none() {
        given.note("do", "is missing: set it to hold, retry or archive");
    }
    let order = Order {
        id: text(given, "id"),
        action: action.unwrap_or(OrderAction::Hold),
        pattern: given.value("match").cloned().unwrap_or_default(),
        arrived_before: moment(given, "arrivedBefore"),
        arrived_after: moment(given, "arrivedAfter"),
        at: moment(given, "at").unwrap_or_default(),
        until: moment(given, "until"),
        by: text(given, "by"),
        why: text(given, "why"),
    };
    if given.value("at").is_none() {
        given.note("at", "is missing: when the order begins, such as 2026-11-01T12:00:00Z");
    }
    if order.until.is_some_and(|until| until <= order.at) {
        given.note("until", "must be later than at");
    }
    order
}

/// Reads a text that must be there.
fn text(given: &Fields<'_>, key: &'static str) -> String {
    let text = given.text(key).unwrap_or_default();
    if given.value(key).is_none() || text.is_empty() || text.chars().count() > MAX_TEXT {
        given.note(key, format!("must be a text of 1 to {MAX_TEXT} characters"));
    }
    text.to_owned()
}

fn moment(given: &Fields<'_>, key: &'static str) -> Option<Timestamp> {
    let text = given.text(key)?;
    let moment = text.parse().ok();
    if moment.is_none() {
        given.note(key, format!("must be a time such as 2026-11-01T12:00:00Z, not {text:?}"));
    }
    moment
}
