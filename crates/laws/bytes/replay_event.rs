//! A law: any request for a replay is either refused in words, or can be carried out and reads back as
//! written. Only a request with an id continues a replay, and it selects nothing.

use redrive_replay::{EventRequest, ReplayRequest, ResumeRequest};
use serde_json::{Value, json};

/// Checks the law. The bytes are the `replay` of an event.
pub fn check(data: &[u8]) {
    let Ok(json) = serde_json::from_slice::<Value>(data) else { return };
    let (object, id) = (json.is_object(), json.get("resume").cloned());
    match EventRequest::from_json(json) {
        Err(faults) => says_why(&faults),
        Ok(EventRequest::Resume(resume)) => {
            assert_eq!(id, Some(json!(resume.id)), "it goes on with the replay that is named");
            let ResumeRequest { id, rate, threshold, settle_seconds, why } = &resume;
            let written = json!({
                "resume": id, "rate": rate, "threshold": threshold, "settleSeconds": settle_seconds, "why": why,
            });
            assert_eq!(
                EventRequest::from_json(written),
                Ok(EventRequest::Resume(resume)),
                "nothing else is in it"
            );
        }
        Ok(EventRequest::Begin(request)) => {
            assert!(object, "nothing but an object selects letters");
            assert_eq!(id, None, "a wish to go on never begins a replay");
            begins(&request);
        }
    }
}

fn begins(request: &ReplayRequest) {
    let written = serde_json::to_value(request).unwrap();
    assert_eq!(EventRequest::from_json(written), Ok(EventRequest::Begin(Box::new(request.clone()))));
    if let Err(faults) = request.check() {
        return says_why(&faults);
    }
    assert!(
        (1..=1_000_000).contains(&request.rate) && request.threshold <= 100 && request.settle_seconds <= 3600
    );
    assert!(request.ramp.first().is_some_and(|first| *first > 0) && request.ramp.last() == Some(&100));
    assert!(request.ramp.is_sorted_by(|one, next| one < next), "steps rise");
    let selection = request.select.selection(request.cut_off).unwrap();
    assert!(selection.from.zip(selection.to).is_none_or(|(from, to)| from < to));
}

fn says_why(faults: &[String]) {
    assert!(!faults.is_empty() && faults.iter().all(|fault| !fault.is_empty()), "a refusal says why");
}
