//! Warnings and notes about a timetable.

use redrive_console::schedule::{self, Timetable, TimetableRow};
use redrive_core::batch::IN_FLIGHT_LIMIT;
use redrive_core::policy::{DeliverySpec, Rule, VISIBILITY_CEILING, expiry_margin};

use crate::tables::{brief, clock, thousands};

/// One remark.
pub(super) struct PlanWarning {
    /// A name for scripts.
    pub(super) code: &'static str,
    /// True if it is a note and not a warning.
    pub(super) is_note: bool,
    pub(super) text: String,
}

/// Returns the remarks about a timetable; `rate` is letters a second that arrive and keep failing.
pub(super) fn warnings(rule: &Rule, timetable: &Timetable, rate: Option<f64>) -> Vec<PlanWarning> {
    let warning = |code, text| PlanWarning { code, is_note: false, text };
    let note = |code, text| PlanWarning { code, is_note: true, text };
    [
        from_subscription(rule).map(|text| note("from_subscription", text)),
        hops(timetable).map(|text| note("hops", text)),
        retention(timetable).map(|text| warning("retention", text)),
        in_flight(timetable).map(|text| note("in_flight", text)),
        too_many(timetable, rate).map(|text| warning("too_many_in_flight", text)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn from_subscription(rule: &Rule) -> Option<String> {
    let text = "the rule uses the delivery policy of each letter's subscription, which is unknown here; \
                shown is aws-managed, which the function uses until it knows the policy";
    (rule.delivery == DeliverySpec::FromSubscription).then(|| text.to_owned())
}

fn hops(timetable: &Timetable) -> Option<String> {
    let hops = timetable.rows.iter().filter(|row| row.hidings > 1);
    let most = hops.clone().map(|row| row.hidings).max()?;
    let retries = spans(hops);
    let ceiling = thousands(VISIBILITY_CEILING);
    Some(format!(
        "the waits before {retries} are longer than the function hides a letter at once ({ceiling} s): it receives \
         and hides it again up to {}, without an attempt",
        times(most - 1)
    ))
}

fn retention(timetable: &Timetable) -> Option<String> {
    if timetable.fits() {
        return None;
    }
    let (all, last) = (timetable.schedule.retries, timetable.last);
    let (length, life) = (clock(timetable.length()), clock(timetable.life));
    let (keeps, margin) = (brief(timetable.retention), brief(expiry_margin(timetable.retention)));
    let which = match last {
        0 if timetable.begins > 0 => "it makes one attempt before its schedule begins".to_owned(),
        0 => "no retry is made".to_owned(),
        last => format!("retry {} of {} is the last", thousands(last.into()), thousands(all.into())),
    };
    Some(format!(
        "the schedule takes {length}, but the queue keeps a letter for {keeps}, and the function archives it {margin} \
         before that: {which}, and a letter that keeps failing is archived as expiring {life} after its arrival"
    ))
}

fn in_flight(timetable: &Timetable) -> Option<String> {
    let rate = timetable.max_rate()?;
    Some(format!(
        "if every retry fails, a letter is hidden for {} on average; if letters keep failing at more than {}, {} of them \
         are in flight (rate x time hidden), and without a requeue SQS then hands over no more until some leave",
        brief(rounded(timetable.hidden)),
        per_time(rate),
        thousands(IN_FLIGHT_LIMIT)
    ))
}

fn too_many(timetable: &Timetable, rate: Option<f64>) -> Option<String> {
    let (rate, most) = (rate?, timetable.max_rate()?);
    let reached = clock(rounded(schedule::float(IN_FLIGHT_LIMIT) / rate));
    let letters = thousands(rounded(rate * timetable.hidden));
    (rate > most).then(|| {
        format!(
            "at {} that keep failing, {letters} letters would be in flight; they reach the limit of {} {reached} \
             after they begin to fail",
            per_time(rate),
            thousands(IN_FLIGHT_LIMIT)
        )
    })
}

/// Returns a rate in the unit that makes it a number above one.
fn per_time(rate: f64) -> String {
    let units = [("a second", 1.0), ("a minute", 60.0), ("an hour", 3600.0), ("a day", 86_400.0)];
    let (name, seconds) = units.into_iter().find(|(_, seconds)| rate * seconds >= 1.0).unwrap_or(units[3]);
    let letters = rate * seconds;
    if letters < 100.0 {
        format!("{letters:.1} {name}")
    } else {
        format!("{} {name}", thousands(rounded(letters)))
    }
}

fn rounded(number: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; saturates")]
    let number = number.round() as u64;
    number
}

fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        number => format!("{} times", thousands(number)),
    }
}

/// Returns numbers of retries as in `retries 3, 5 to 9`.
fn spans<'a>(rows: impl Iterator<Item = &'a TimetableRow>) -> String {
    let mut spans: Vec<(u32, u32)> = Vec::new();
    for row in rows {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == row.retry => *last = row.retry,
            _ => spans.push((row.retry, row.retry)),
        }
    }
    let one = matches!(spans[..], [(first, last)] if first == last);
    let texts: Vec<_> = spans
        .into_iter()
        .map(|(first, last)| {
            let (from, to) = (thousands(first.into()), thousands(last.into()));
            if first == last { from } else { format!("{from} to {to}") }
        })
        .collect();
    format!("{} {}", if one { "retry" } else { "retries" }, texts.join(", "))
}
