//! The AWS clients, their HTTP client, and the meaning of their errors.
//!
//! | file | subject |
//! |---|---|
//! | `sdk` | the clients, made once per process |
//! | `environment` | region, credentials, endpoints and flags from the SDK's own variables |
//! | `https` | HTTP and TLS |
//! | `bounded_connection` | connections on which no answer is endless |
//! | `connections` | connections that are used again, but never after they slept |
//! | `missing_objects` | objects that do not exist |
//! | `errors` | the errors of calls, translated into [`failure`](redrive_core::failure)s |
//! | `deadline` | calls that are cut off at a deadline |
//! | `lines` | objects with lines of JSON |
//! | `server_time` | the time of a server, from its answers |

mod bounded_connection;
mod connections;
mod deadline;
mod environment;
mod errors;
mod https;
mod lines;
mod missing_objects;
mod sdk;
mod server_time;

pub(crate) use bounded_connection::BoundedConnector;
pub(crate) use connections::{ServerConnections, pool};
pub use deadline::{in_time, too_late};
pub use environment::region;
pub use errors::{failure_of_call, is_condition};
pub use https::https;
pub(crate) use https::{NoRootCertificates, prepare};
pub(crate) use https::{chain, has_root_certificates, with_tls};
pub use lines::put_lines;
pub use missing_objects::is_absent;
pub use sdk::elsewhere;
pub use sdk::{AwsClients, ClientSettings};
pub(crate) use sdk::{CONNECT_TIMEOUT, TRACE_HEADER};
pub use server_time::ServerTime;
pub(crate) use server_time::http_date;
