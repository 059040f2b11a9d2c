//! SNS's delivery policy document, in the forms that SNS takes, and the presets.
//!
//! A subscription's document has `healthyRetryPolicy`, `throttlePolicy` and `requestPolicy`; a topic's wraps
//! the same in `http` with `default` before each name. The limits are SNS's own, except for two that SNS
//! needs for HTTP/S and this software does not: a delay may be as long as the queue's retention, and there
//! may be as many retries as SNS makes for its own endpoints.
//! Source: <https://docs.aws.amazon.com/sns/latest/dg/sns-message-delivery-retries.html>

use serde_json::Value;

use super::fields::{DocumentFields, FaultCollector};
use super::schedule::{Backoff, MAX_DELAY_SECONDS, MAX_RETRIES, Schedule};

/// A delivery policy: the schedule, and the other settings of SNS's document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryPolicy {
    /// The schedule of retries.
    pub schedule: Schedule,
    /// `maxReceivesPerSecond`: deliveries a second towards one target.
    pub max_receives_per_second: Option<u32>,
    /// `headerContentType` of HTTP/S posts.
    pub content_type: Option<String>,
}

/// The types of posts that SNS takes for every subscription, and in the policy of a topic.
/// <https://docs.aws.amazon.com/sns/latest/dg/sns-message-delivery-retries.html#creating-delivery-policy>
const JSON_OR_TEXT: [&str; 2] = ["application/json", "text/plain"];

/// The types that SNS takes for a subscription with raw delivery.
const CONTENT_TYPES: [&str; 12] = [
    "text/css",
    "text/csv",
    "text/html",
    "text/plain",
    "text/xml",
    "application/atom+xml",
    "application/json",
    "application/octet-stream",
    "application/soap+xml",
    "application/x-www-form-urlencoded",
    "application/xhtml+xml",
    "application/xml",
];

/// Returns a content type without its parameters, such as a charset.
fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// The presets by name.
const PRESETS: [(&str, Schedule); 3] = [
    ("aws-managed", Schedule::AWS_MANAGED),
    ("customer-managed", Schedule::CUSTOMER_MANAGED),
    ("http-default", Schedule::HTTP_DEFAULT),
];

impl DeliveryPolicy {
    /// Creates a policy that has only a schedule.
    #[must_use]
    pub fn of(schedule: Schedule) -> Self {
        Self { schedule, max_receives_per_second: None, content_type: None }
    }

    /// Returns `headerContentType` for the posts to a subscription: a type that is no envelope's counts only
    /// with raw delivery, as SNS has it.
    #[must_use]
    pub fn content_type_for(&self, raw: bool) -> Option<&str> {
        self.content_type.as_deref().filter(|text| raw || JSON_OR_TEXT.contains(&media_type(text)))
    }

    /// Reads the `EffectiveDeliveryPolicy` of an HTTP/S subscription, as SNS gives it. The topic's defaults
    /// and its `disableSubscriptionOverrides` are already applied in it. SNS may add fields, so unknown ones
    /// are ignored. Returns `None` if the text is not a delivery policy.
    /// <https://docs.aws.amazon.com/sns/latest/api/API_GetSubscriptionAttributes.html>
    #[must_use]
    pub fn from_effective(json: &str) -> Option<Self> {
        let document: Value = serde_json::from_str(json).ok()?;
        let faults = FaultCollector::lenient();
        let policy = Self::read_document(&DocumentFields::new(&faults, "", &document));
        faults.into_inner().is_empty().then_some(policy)
    }

    fn read_document(document: &DocumentFields<'_>) -> Self {
        let Some(http) = document.object("http") else {
            read_obsolete(document, "sicklyRetryPolicy");
            return Self::read_policies(document, SUBSCRIPTION_LEVEL);
        };
        read_obsolete(&http, "defaultSicklyRetryPolicy");
        let policy = Self::read_policies(&http, TOPIC_LEVEL);
        // It decides between a topic's and a subscription's policy; here there is only one policy.
        http.flag("disableSubscriptionOverrides");
        http.finish();
        policy
    }

    fn read_policies(fields: &DocumentFields<'_>, [healthy, throttle, request]: [&'static str; 3]) -> Self {
        let schedule = fields.object(healthy).map_or(Schedule::HTTP_DEFAULT, read_schedule);
        let max_receives_per_second = fields.object(throttle).and_then(|throttle| {
            let present = throttle.value("maxReceivesPerSecond").is_some();
            let rate = throttle.number("maxReceivesPerSecond", (1, u32::MAX), 1);
            throttle.finish();
            present.then_some(rate)
        });
        let content_type = fields.object(request).and_then(|request| {
            let content_type = request.text("headerContentType").map(str::to_owned);
            let types = if healthy == TOPIC_LEVEL[0] { &JSON_OR_TEXT[..] } else { &CONTENT_TYPES[..] };
            if let Some(text) = &content_type {
                // A text that no header can hold would fail every post permanently.
                let printable = |c: char| c == ' ' || c.is_ascii_graphic();
                let is_known = fields.is_lenient() || types.contains(&media_type(text));
                if !is_known || text.is_empty() || !text.chars().all(printable) {
                    let problem = format!("must be one of {}, not {text:?}", types.join(", "));
                    request.note("headerContentType", problem);
                }
            }
            request.finish();
            content_type
        });
        Self { schedule, max_receives_per_second, content_type }
    }
}

/// Reads what SNS prints and no longer uses. It counts for nothing, so it must say nothing.
fn read_obsolete(fields: &DocumentFields<'_>, sickly: &'static str) {
    if fields.is_lenient() {
        return;
    }
    if fields.value(sickly).is_some() {
        fields.note(sickly, "must be null or left out: SNS no longer has such a policy");
    }
    if fields.flag("guaranteed") == Some(true) {
        fields.note("guaranteed", "must be false or left out: SNS no longer has such a policy");
    }
}

/// The delivery policy of a rule, as the redrive policy names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliverySpec {
    /// This policy.
    Inline(DeliveryPolicy),
    /// The effective delivery policy of the letter's subscription.
    FromSubscription,
}

impl DeliverySpec {
    /// Reads the field `deliveryPolicy`: a document, a preset's name, or `from-subscription`.
    pub(super) fn read(parent: &DocumentFields<'_>) -> Option<Self> {
        const KEY: &str = "deliveryPolicy";
        if parent.value(KEY)?.is_string() {
            let inline = |schedule: &Schedule| Self::Inline(DeliveryPolicy::of(schedule.clone()));
            let mut choices = PRESETS.each_ref().map(|(name, schedule)| (*name, Some(schedule))).to_vec();
            choices.push(("from-subscription", None));
            return Some(parent.choice(KEY, &choices)?.map_or(Self::FromSubscription, inline));
        }
        let document = parent.object(KEY)?;
        let policy = DeliveryPolicy::read_document(&document);
        document.finish();
        Some(Self::Inline(policy))
    }
}

const SUBSCRIPTION_LEVEL: [&str; 3] = ["healthyRetryPolicy", "throttlePolicy", "requestPolicy"];
const TOPIC_LEVEL: [&str; 3] = ["defaultHealthyRetryPolicy", "defaultThrottlePolicy", "defaultRequestPolicy"];

fn read_schedule(fields: DocumentFields<'_>) -> Schedule {
    let default = Schedule::HTTP_DEFAULT;
    let backoffs = Backoff::ALL.map(|backoff| (backoff.name(), backoff));
    let any = (0, MAX_RETRIES);
    let mut schedule = Schedule {
        min: fields.number("minDelayTarget", (1, MAX_DELAY_SECONDS), default.min),
        max: fields.number("maxDelayTarget", (1, MAX_DELAY_SECONDS), default.max),
        retries: fields.number("numRetries", any, default.retries),
        no_delay: fields.number("numNoDelayRetries", any, default.no_delay),
        min_delay: fields.number("numMinDelayRetries", any, default.min_delay),
        max_delay: fields.number("numMaxDelayRetries", any, default.max_delay),
        backoff: fields.choice("backoffFunction", &backoffs).unwrap_or(default.backoff),
    };
    if fields.has_faults() {
        // The defaults that replace bad numbers must not cause further faults.
        fields.finish();
        return default;
    }
    if schedule.min > schedule.max {
        let (min, max) = (schedule.min, schedule.max);
        fields.note("minDelayTarget", format!("must not be above maxDelayTarget: {min} is above {max}"));
        schedule.max = schedule.min;
    }
    let counted = schedule.no_delay + schedule.min_delay + schedule.max_delay;
    if counted > schedule.retries {
        let total = schedule.retries;
        let problem = format!(
            "must hold the three counted phases: numNoDelayRetries, numMinDelayRetries and \
             numMaxDelayRetries add up to {counted}, which is above {total}"
        );
        fields.note("numRetries", problem);
    }
    fields.finish();
    schedule
}
