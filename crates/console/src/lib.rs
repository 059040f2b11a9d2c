//! The pages of the console: what fails, what waits, and what was given up.
//!
//! A door asks for a page with a [`Query`] and gets HTML: [`show`] reads the page's data from a [`ConsoleAccount`]
//! and renders it for that door, a [`PageHost`]. There are two: a server on the operator's machine (`redrivectl
//! serve`), and a widget on a dashboard of `CloudWatch`. This crate serves no requests by itself, and it
//! changes nothing in the account.
//!
//! ```text
//!  Query ──> read: plain data, within a PageBudget ──> view: HTML ──> RenderedPage
//! ```
//!
//! # What a door does
//!
//! - It makes the [`ConsoleAccount`] once. Each page has its own budget of requests, so one page cannot use up
//!   another's.
//! - A link of the local door is the query as a relative address: `groups?by=error&range=3h`. The door puts
//!   its secret token in front, so pages never know the token. It reads the address back with
//!   [`Query::from_address`]. A link of the widget is a call with [`Query::to_parameters`].
//! - A [`PageAction`] is an action that a page offers. Its address at the local door is [`PageAction::to_address`],
//!   `act?do=hold&topic=...`; its command line is [`PageAction::command`]. The widget, and a local door that must not
//!   act, show the command instead of a link.
//! - [`STYLE`] is the content of the only `<style>` on a page. The local door allows it by its hash in the
//!   `Content-Security-Policy`. Pages have no script and no `style` attribute, and load nothing.
//! - [`view::PageFrame`] puts the door's own pages, such as forms, into the same frame.
//!
//! # Hostile texts
//!
//! A stranger may have written a letter's id, subject, topic, error or target. `maud` escapes every text.
//! Texts from outside also go through [`text::harmless`]: it makes characters visible that reverse the
//! direction of text or cannot be seen, since they could make a reader see another line than the one that is
//! there.
//!
//! # The map
//!
//! | module | subject |
//! |---|---|
//! | `show` | joins reading and rendering |
//! | [`view`] | plain data becomes HTML |
//! | [`read`] | reads the pages' data from the account |
//! | [`operator_action`] | actions that pages offer |
//! | [`page_host`] | the two doors |
//! | `pattern_words` | the letters of an override, in words |
//! | [`query`] | pages, time ranges, filters |
//! | [`account`] | the account that pages are read from |
//! | `budget` | the limit on a page's requests |
//! | [`schedule`] | a rule's timetable, and its chart |
//! | [`text`] | writes times, numbers and strangers' texts |
//! | [`widget`] | the widget's Lambda function: an event of a dashboard in, HTML out |

pub mod account;
mod budget;
pub mod operator_action;
pub mod page_host;
mod pattern_words;
pub mod query;
pub mod read;
pub mod schedule;
mod show;
pub mod text;
pub mod view;
pub mod widget;

pub use account::{BodyVisibility, BucketPrefix, ConsoleAccount, ConsoleClients, TargetGrants};
pub use operator_action::{ActionObject, ActionVerb, PageAction};
pub use page_host::{DashboardWidget, DoctorProgress, LocalConsole, PageFinding, PageHost, Theme};
pub use pattern_words::{pattern_names, pattern_words};
pub use query::{BadQuery, Filter, GroupField, OneLetter, PageKind, PageRange, Query, SortColumn};
pub use show::{RenderedPage, read_present, show};
pub use view::STYLE;
