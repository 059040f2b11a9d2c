//! The widget's Lambda function. A dashboard of `CloudWatch` calls it and shows the HTML that it returns.
//!
//! It only reads and shows. It answers every event with a page: if the page does not exist or a parameter is
//! invalid, the answer says so to the reader.
//!
//! | file | subject |
//! | `event` | the event that a dashboard calls with |
//! | `function` | the handler |
//! | `settings` | reads the account from the environment |
//! | `settings` | the environment becomes an account |

mod event;
mod function;
mod settings;

pub use event::WidgetEvent;
pub use function::WidgetFunction;
pub use settings::account;
