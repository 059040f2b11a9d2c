//! The function that is the widget: a dashboard of `CloudWatch` calls it, and shows the HTML that it answers.
//!
//! It reads and shows, and does nothing else. It answers everything that it is asked with a text for the dashboard: a page
//! that there is not, and a parameter that is bad, are told to the person who looks.
//!
//! | file | subject |
//! |---|---|
//! | `event` | what a dashboard calls with |
//! | `function` | an event in, HTML out |
//! | `settings` | the environment becomes an account |

mod event;
mod function;
mod settings;

pub use event::Event;
pub use function::WidgetFunction;
pub use settings::account;
