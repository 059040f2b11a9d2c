//! The event that a dashboard calls the widget with.
//! <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/add_custom_widget_dashboard_about.html>

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::page_host::Theme;
use crate::query::{BadQuery, PageRange, Query};

/// An event: the parameters of the widget or of a link, and the dashboard's own state.
#[derive(Debug, Clone, PartialEq)]
pub enum WidgetEvent {
    /// Asks for the widget's description.
    Describe,
    /// Asks for a page.
    Show {
        /// The page, or the reason why the parameters are invalid.
        query: Result<Query, BadQuery>,
        /// The dashboard's theme.
        theme: Theme,
    },
}

impl WidgetEvent {
    /// Reads an event. The dashboard's time range takes precedence, if it names one.
    #[must_use]
    pub fn read(event: Value) -> Self {
        let Value::Object(mut parameters) = event else {
            return Self::Show { query: Err(BadQuery::NoObject), theme: Theme::default() };
        };
        let context = parameters.remove("widgetContext").unwrap_or_default();
        if parameters.remove("describe").is_some_and(|describe| describe == true) {
            return Self::Describe;
        }
        let theme = if context["theme"] == "dark" { Theme::Dark } else { Theme::Light };
        let query = asked(parameters).map(|query| match range(&context["timeRange"]) {
            Some(range) => Query { range, ..query },
            None => query,
        });
        Self::Show { query, theme }
    }
}

/// Reads the parameters. Empty ones count as missing: the dashboard's form leaves some behind.
fn asked(mut parameters: Map<String, Value>) -> Result<Query, BadQuery> {
    parameters.retain(|_, value| !value.is_null());
    Query::from_parameters(&Value::Object(parameters))
}

/// Reads the time range: the one that somebody zoomed into, or else the dashboard's.
fn range(of: &Value) -> Option<PageRange> {
    let moment = |of: &Value| of.as_i64().and_then(|at| Timestamp::from_millisecond(at).ok());
    let between = |of: &Value| PageRange::end_of(moment(&of["start"])?, moment(&of["end"])?);
    between(&of["zoom"]).or_else(|| between(of))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::query::PageKind;

    const HOUR: i64 = 3_600_000;
    const NOON: i64 = 1_793_534_400_000;

    fn context() -> Value {
        json!({
            "dashboardName": "payments", "widgetId": "widget-16", "accountId": "123456789012", "locale": "en",
            "timezone": { "label": "UTC", "offsetISO": "+00:00", "offsetInMinutes": 0 },
            "period": 300, "isAutoPeriod": true,
            "timeRange": { "mode": "relative", "start": NOON - HOUR, "end": NOON, "relativeStart": HOUR },
            "theme": "dark", "linkCharts": true, "title": "sns-redrive", "forms": { "all": {} },
            "params": { "page": "now" }, "width": 588, "height": 369,
        })
    }

    fn shown(event: Value) -> (Result<Query, BadQuery>, Theme) {
        match WidgetEvent::read(event) {
            WidgetEvent::Show { query, theme } => (query, theme),
            WidgetEvent::Describe => panic!("it is shown"),
        }
    }

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    #[test]
    fn dashboard_says_theme_and_time_range() {
        let (query, theme) = shown(json!({ "page": "now", "widgetContext": context() }));
        assert_eq!(theme, Theme::Dark);
        let range = PageRange::Between(at(NOON - HOUR), at(NOON));
        assert_eq!(query, Ok(Query { range, ..Query::of(PageKind::Now) }));
    }

    #[test]
    fn zoom_counts_before_the_range_and_both_before_the_parameters() {
        let mut zoomed = context();
        zoomed["timeRange"]["zoom"] = json!({ "start": NOON - 2, "end": NOON - 1 });
        let (query, _) = shown(json!({ "page": "now", "range": "14d", "widgetContext": zoomed }));
        assert_eq!(query.unwrap().range, PageRange::Between(at(NOON - 2), at(NOON - 1)));
    }

    #[test]
    fn without_a_context_the_parameters_count() {
        let (query, theme) = shown(json!({ "page": "waiting", "by": "error", "range": "1h" }));
        assert_eq!((query.unwrap().range, theme), (PageRange::Past(60), Theme::Light));
        assert_eq!(shown(json!({})).0, Ok(Query::of(PageKind::Now)));
    }

    #[test]
    fn what_is_no_context_or_no_parameter_is_told() {
        for (event, bad) in [
            (json!([]), BadQuery::NoObject),
            (json!("now"), BadQuery::NoObject),
            (json!({ "page": 1, "widgetContext": context() }), BadQuery::NoText("page".to_owned())),
            (json!({ "page": "letters" }), BadQuery::Page("letters".to_owned())),
            (json!({ "Records": [] }), BadQuery::NoText("Records".to_owned())),
            (json!({ "page": "now", "do": "hold" }), BadQuery::Unknown("do".to_owned())),
        ] {
            assert_eq!(shown(event).0, Err(bad));
        }
        for context in [json!(null), json!([]), json!({ "timeRange": { "start": "x", "end": i64::MAX } })] {
            let (query, theme) = shown(json!({ "widgetContext": context }));
            assert_eq!((query, theme), (Ok(Query::of(PageKind::Now)), Theme::Light));
        }
    }

    #[test]
    fn who_asks_what_it_is_is_told() {
        assert_eq!(
            WidgetEvent::read(json!({ "describe": true, "widgetContext": context() })),
            WidgetEvent::Describe
        );
        assert_eq!(shown(json!({ "describe": false })).0, Ok(Query::of(PageKind::Now)));
    }
}
