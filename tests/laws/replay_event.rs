//! Any wish for a replay is refused in words, or is one that can be carried out and reads back as written.

use serde_json::Value;
use sns_redrive::replay::Request;

/// The bytes are what stands in an event's `replay`.
pub fn check(data: &[u8]) {
    let Ok(json) = serde_json::from_slice::<Value>(data) else { return };
    let object = json.is_object();
    let request = match Request::from_json(json) {
        Ok(request) => request,
        Err(faults) => {
            assert!(!faults.is_empty() && faults.iter().all(|fault| !fault.is_empty()), "a refusal says why");
            return;
        }
    };
    assert!(object, "nothing but an object selects letters");
    let written = serde_json::to_value(&request).unwrap();
    assert_eq!(Request::from_json(written).as_ref(), Ok(&request));
    if let Err(faults) = request.check() {
        assert!(!faults.is_empty() && faults.iter().all(|fault| !fault.is_empty()), "a refusal says why");
        return;
    }
    assert!(
        (1..=10_000).contains(&request.rate) && request.threshold <= 100 && request.settle_seconds <= 3600
    );
    assert!(request.ramp.first().is_some_and(|first| *first > 0) && request.ramp.last() == Some(&100));
    assert!(request.ramp.is_sorted_by(|one, next| one < next), "steps rise");
    let selection = request.select.selection(request.cut_off).unwrap();
    assert!(selection.from.zip(selection.to).is_none_or(|(from, to)| from < to));
}
