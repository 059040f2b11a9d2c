//! The schedule of a rule: its retries over time, and a chart of them.
//!
//! | file | subject |
//! |---|---|
//! | `svg` | the chart |
//! | `scale` | its axes |
//! | `timetable` | a letter's whole life under one rule |

mod scale;
mod svg;
mod timetable;

pub use scale::Axis;
pub use svg::{PendingRetries, draw, percent};
pub use timetable::{QUEUE_RETENTION_SECONDS, Timetable, TimetableRow, float};
