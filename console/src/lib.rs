//! The pages of the console: what fails, what waits, what was given up.
//!
//! A door asks for a page by a [`Query`] and gets HTML: [`show`] reads what the page shows from an [`Account`], and
//! renders it for that [`Door`]. There are two: the operator's machine (`redrivectl serve`), and a widget on a dashboard of
//! `CloudWatch`. This crate knows the archive and what operators and the function share. It serves nobody by itself, and it
//! changes nothing in the account.
//!
//! ```text
//!  Query ──> read: plain data, within a Budget ──> view: HTML ──> Shown
//! ```
//!
//! # What a door does
//!
//! - It makes the [`Account`] once. Each page has a budget of its own, so pages do not disturb each other.
//! - A link of the local door is the query's address, relative: `groups?by=error&range=3h`. The door puts its token before
//!   it, so no page knows the token, and reads it by [`Query::from_address`]. A link of the widget is a call with
//!   [`Query::to_parameters`].
//! - An [`Act`] is what an operator may do about what a page shows. Its address at the local door is
//!   [`Act::to_address`], `act?do=hold&topic=...`; [`Act::command`] is the command line of `redrivectl` that does it. A
//!   local door that does not operate, and the widget, show that command instead of a link.
//! - [`STYLE`] is all of the style: what stands in the one `<style>` of a page of the local door, for the hash in its
//!   `Content-Security-Policy`. Pages have no script, no `style` attribute, and load nothing.
//! - A page of the door's own, such as a form, is put into the same frame by [`view::Frame`].
//!
//! # What is hostile
//!
//! A letter's id, subject, topic, error and target are what somebody wrote. `maud` escapes every text. Each text that comes
//! from outside goes through [`text::harmless`] as well: characters that turn the direction of what follows, or that cannot
//! be seen, forge a line that a person reads.
//!
//! # The map
//!
//! | module | subject |
//! |---|---|
//! | `show` | joins reading and rendering |
//! | [`view`] | plain data becomes HTML |
//! | [`read`] | what pages show, read from the account as plain data |
//! | [`act`] | what an operator may do about what a page shows |
//! | [`door`] | the two doors, and how links look there |
//! | [`query`] | pages, time ranges, filters |
//! | [`account`] | what pages are read from |
//! | `budget` | requests are counted, and end |
//! | [`schedule`] | a rule's timetable, and its chart |
//! | [`text`] | how times, numbers and strangers' words are written |
//! | [`widget`] | the function that is the widget: an event of a dashboard in, HTML out |

pub mod account;
pub mod act;
mod budget;
pub mod door;
pub mod query;
pub mod read;
pub mod schedule;
mod show;
pub mod text;
pub mod view;
pub mod widget;

pub use account::{Account, Bodies, Clients, Place};
pub use act::{Act, Doing, On};
pub use door::{Doctor, Door, Finding, Local, Theme, Widget};
pub use query::{BadQuery, Field, Filter, OneLetter, Page, Query, Range};
pub use show::{Shown, show};
pub use view::STYLE;
