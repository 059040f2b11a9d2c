//! The AWS clients, their HTTP client, and what their errors mean.
//!
//! | file | subject |
//! |---|---|
//! | `sdk` | the clients, made once per process |
//! | `environment` | region, credentials, endpoints and flags by the SDK's own variables |
//! | `https` | HTTP and TLS |
//! | `errors` | the errors of calls, in the words of [`failure`](crate::failure) |
//! | `deadline` | calls that are given up at a deadline |
//! | `lines` | objects of lines of JSON |
//! | `server_time` | the time of a server, by its answers |

mod deadline;
mod environment;
mod errors;
mod https;
mod lines;
mod sdk;
mod server_time;

pub(crate) use deadline::{in_time, too_late};
pub use environment::region;
pub use errors::{failure_of_call, is_condition};
pub use https::{NoRootCertificates, https, prepare};
pub(crate) use https::{chain, has_root_certificates, pool, with_tls};
pub(crate) use lines::put_lines;
pub(crate) use sdk::{CONNECT_TIMEOUT, TRACE_HEADER, elsewhere};
pub use sdk::{Clients, Configuration};
pub use server_time::ServerTime;
pub(crate) use server_time::http_date;
