//! The selection of a replay in words.

use redrive_replay::{ReplayRequest, ReplayState};

use crate::tables::{harmless, utc};

/// Returns which letters a replay selects, in words.
pub(crate) fn selected(state: &ReplayState) -> String {
    which(&state.request, state.given.is_some())
}

/// Returns which letters a request selects, in words.
pub(super) fn which(request: &ReplayRequest, is_given: bool) -> String {
    let select = &request.select;
    let mut parts = Vec::new();
    if is_given {
        parts.push("the records that were given".to_owned());
    }
    let any_of = |texts: &[String]| texts.iter().map(|text| harmless(text)).collect::<Vec<_>>().join(" or ");
    let targets: Vec<_> = select.targets.iter().map(|target| target.as_str().to_owned()).collect();
    let subscriptions: Vec<_> =
        request.subscriptions.pairs().map(|(old, _)| old.as_str().to_owned()).collect();
    let queue: Vec<_> = select.queue.iter().cloned().collect();
    for (what, values) in [
        ("topic", &select.topics),
        ("subscription", &subscriptions),
        ("queue", &queue),
        ("target", &targets),
        ("origin", &select.origins),
        ("reason", &select.reasons),
        ("error", &select.errors),
    ] {
        if !values.is_empty() {
            parts.push(format!("{what} {}", any_of(values)));
        }
    }
    parts.extend(select.pattern.as_ref().map(|pattern| format!("match {}", harmless(&pattern.to_string()))));
    parts.extend(select.from.map(|from| format!("archived {} UTC or later", utc(from))));
    parts.extend(select.to.map(|to| format!("archived before {} UTC", utc(to))));
    if parts.is_empty() {
        parts.push("the whole archive".to_owned());
    }
    let again = if request.again { "; also those that were replayed already" } else { "" };
    format!("{}{again}", parts.join("; "))
}
