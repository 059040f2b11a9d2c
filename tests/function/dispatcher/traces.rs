//! SNS takes the trace from a header of the request, so all messages of a request share it.

use super::*;

const RECORDED: &str = "Root=1-69e5f0de-0123456789abcdef01234567;Parent=0123456789abcdef;Sampled=1";
const OTHER: &str = "Root=1-69e5f0de-fedcba9876543210fedcba98;Parent=fedcba9876543210;Sampled=1";
const UNRECORDED: &str = "Root=1-69e5f0de-aaaaaaaaaaaaaaaaaaaaaaaa;Sampled=0";

/// Returns the header of each request and the number of its messages.
async fn published(traces: &[Option<&str>]) -> Vec<(Option<String>, usize)> {
    let cloud = TestAccount::new();
    let letters = traces.iter().enumerate().map(|(index, trace)| {
        let post = RecordBuilder::envelope(&index.to_string());
        letter(&trace.iter().fold(post, |post, trace| post.system("AWSTraceHeader", trace)))
    });
    assert_eq!(send(&cloud, letters.collect(), TOPIC).await, vec![SendResult::Accepted; traces.len()]);
    let calls = cloud.calls("PublishBatch").into_iter();
    let mut published: Vec<_> =
        calls.map(|call| (call.parameters.get("trace").cloned(), call.entries.len())).collect();
    published.sort();
    published
}

#[tokio::test]
async fn letters_of_recorded_traces_are_published_under_their_own() {
    let traces = [Some(RECORDED), Some(OTHER), Some(RECORDED), None];
    let expected = [(None, 1), (Some(RECORDED.to_owned()), 2), (Some(OTHER.to_owned()), 1)];
    assert_eq!(published(&traces).await, expected);
}

#[tokio::test]
async fn letters_of_traces_that_nobody_records_share_requests() {
    assert_eq!(published(&[Some(UNRECORDED), None, Some(UNRECORDED)]).await, [(None, 3)]);
}

#[tokio::test]
async fn a_trace_that_is_no_header_keeps_no_letter_back() {
    assert_eq!(published(&[Some("Root=\n1")]).await, [(None, 1)]);
}
