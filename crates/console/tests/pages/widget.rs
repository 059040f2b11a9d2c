//! The function behind the widget.

use redrive_aws::log::{LogFormat, subscriber};
use redrive_console::widget::WidgetFunction;
use redrive_support::{TestAccount, TestLog};
use serde_json::{Value, json};
use tracing::level_filters::LevelFilter;

use super::shown_by;
use super::stand_in::before;

#[tokio::test(start_paused = true)]
async fn a_line_of_the_log_has_its_request_id() {
    let (config, _) =
        before(&TestAccount::new(), |_| Some((403, b"<Error><Code>AccessDenied</Code></Error>".to_vec())));
    let function = WidgetFunction::new(shown_by(&config));
    let log = TestLog::default();
    let writer = log.clone();
    let subscriber = subscriber(LogFormat::Json, LevelFilter::INFO, move || writer.clone());
    let guard = tracing::subscriber::set_default(subscriber);
    function
        .answer(json!({ "page": "now" }), "req-1", "arn:aws:lambda:eu-central-1:123456789012:function:w")
        .await;
    drop(guard);
    let line: Value = serde_json::from_str(&log.text()).unwrap();
    assert_eq!(line["message"], "a page was shown with parts missing");
    assert_eq!(line["request_id"], "req-1");
}
