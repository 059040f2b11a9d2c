//! Notices, by which a topic is told of archived letters and of endpoints: what they count, when they are due, and how they
//! read.
//!
//! A notice never contains any part of a letter's message, nor the path of a URL.

mod archived;
mod endpoints;
mod message;

pub use archived::{ArchiveNotice, ArchiveNotices};
pub use endpoints::{EndpointNotice, EndpointNotices};
pub use message::{NoticeAttribute, NoticeMessage, NoticePlaces};
