//! A rule's schedule: when its retries are made, and a chart of that.
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
pub use svg::{Now, draw, percent};
pub use timetable::{Row, Timetable, float};
