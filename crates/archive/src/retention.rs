//! How long a bucket keeps the letters of an archive, by its lifecycle rules.

use aws_sdk_s3::types::{self, ExpirationStatus, TransitionStorageClass};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use super::object::queues_folder;

/// The storage classes whose objects must be restored, which takes hours, before they can be read.
/// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/restoring-objects.html>
const FROZEN_CLASSES: [TransitionStorageClass; 2] =
    [TransitionStorageClass::Glacier, TransitionStorageClass::DeepArchive];

/// One thing that a lifecycle rule in force does to objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifecycleRule {
    /// The rule's id.
    pub id: String,
    /// The prefix of the keys that it applies to.
    pub prefix: String,
    /// True if the rule has further conditions, such as size or tags.
    pub is_narrower: bool,
    /// The effect.
    pub effect: LifecycleEffect,
}

/// The effect of a lifecycle rule on objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LifecycleEffect {
    /// Objects expire after this many days; `None` if they expire at a date.
    Ends(Option<i32>),
    /// Objects move to this storage class. They must be restored before anybody can read them.
    Freezes(String),
}

impl LifecycleRule {
    /// Reports whether the rule applies to all keys with this prefix.
    #[must_use]
    pub fn covers(&self, key: &str) -> bool {
        key.starts_with(&self.prefix)
    }

    /// Reports whether the rule applies to any key with this prefix.
    #[must_use]
    pub fn touches(&self, key: &str) -> bool {
        self.covers(key) || self.prefix.starts_with(key)
    }
}

/// Returns what the rules in force of a bucket do.
#[must_use]
pub fn lifecycle_rules(rules: &[types::LifecycleRule]) -> Vec<LifecycleRule> {
    rules.iter().flat_map(effects).collect()
}

/// Returns the effects of a rule that is in force, except those on old versions.
#[allow(deprecated, reason = "older rules have their prefix there, and templates still write it so")]
fn effects(rule: &types::LifecycleRule) -> Vec<LifecycleRule> {
    if *rule.status() != ExpirationStatus::Enabled {
        return Vec::new();
    }
    let filter = rule.filter();
    let and = filter.and_then(|filter| filter.and());
    let prefix = rule.prefix().or(filter.and_then(|it| it.prefix())).or(and.and_then(|it| it.prefix()));
    let sizes = filter
        .is_some_and(|it| it.object_size_greater_than().is_some() || it.object_size_less_than().is_some());
    let does = |effect| LifecycleRule {
        id: rule.id().unwrap_or("(without a name)").to_owned(),
        prefix: prefix.unwrap_or_default().to_owned(),
        is_narrower: and.is_some() || sizes || filter.is_some_and(|it| it.tag().is_some()),
        effect,
    };
    let ends = rule.expiration().filter(|it| it.days().is_some() || it.date().is_some());
    let ends = ends.map(|it| does(LifecycleEffect::Ends(it.days())));
    let classes = rule.transitions().iter().filter_map(types::Transition::storage_class);
    let freezes = classes.filter(|class| FROZEN_CLASSES.contains(class));
    ends.into_iter()
        .chain(freezes.map(|class| does(LifecycleEffect::Freezes(class.as_str().to_owned()))))
        .collect()
}

/// How long a bucket keeps archived letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveRetention {
    /// Until somebody deletes them.
    Unlimited,
    /// This number of days.
    Days(u32),
    /// A rule deletes them at a date, or some of them earlier than others.
    Differs,
}

impl ArchiveRetention {
    /// Returns how long rules keep the letters of the archive with this prefix.
    #[must_use]
    pub fn of(rules: &[LifecycleRule], prefix: &str) -> Self {
        let archive = queues_folder(prefix);
        let ends = rules.iter().filter(|rule| rule.touches(&archive)).filter_map(|rule| match rule.effect {
            LifecycleEffect::Ends(days) => Some((rule, days.and_then(|days| u32::try_from(days).ok()))),
            LifecycleEffect::Freezes(_) => None,
        });
        let (whole, part): (Vec<_>, Vec<_>) =
            ends.partition(|(rule, _)| rule.covers(&archive) && !rule.is_narrower);
        let days = whole.iter().filter_map(|(_, days)| *days).min();
        // A date ends all, and a rule about some of them matters if it ends them earlier.
        let is_earlier = |of: Option<u32>| of.is_none_or(|of| days.is_none_or(|days| of < days));
        if whole.iter().any(|(_, days)| days.is_none()) || part.iter().any(|(_, days)| is_earlier(*days)) {
            return Self::Differs;
        }
        days.map_or(Self::Unlimited, Self::Days)
    }

    /// Returns the time before which S3 does not delete a letter that was archived at this time: S3 adds the days and
    /// rounds up to midnight, UTC. `None` if no number of days is known.
    /// <https://docs.aws.amazon.com/AmazonS3/latest/userguide/intro-lifecycle-rules.html>
    #[must_use]
    pub fn end(self, archived: Timestamp) -> Option<Timestamp> {
        let Self::Days(days) = self else { return None };
        let last = archived.to_zoned(TimeZone::UTC).checked_add(Span::new().try_days(days).ok()?).ok()?;
        Some(last.tomorrow().ok()?.start_of_day().ok()?.timestamp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_ends_and_moves_objects_does_both() {
        let rule = |status: &str| {
            let expiration = types::LifecycleExpiration::builder().days(90).build();
            let moves =
                |class: &str| types::Transition::builder().days(1).storage_class(class.into()).build();
            let rule =
                types::LifecycleRule::builder().id("cold").status(status.into()).expiration(expiration);
            let rule = rule.transitions(moves("STANDARD_IA")).transitions(moves("DEEP_ARCHIVE"));
            let filter = types::LifecycleRuleFilter::builder().prefix("dead-letters/").build();
            effects(&rule.filter(filter).build().unwrap())
        };
        let does: Vec<_> = rule("Enabled").into_iter().map(|it| (it.prefix, it.effect)).collect();
        let prefix = || "dead-letters/".to_owned();
        let freezes = LifecycleEffect::Freezes("DEEP_ARCHIVE".to_owned());
        assert_eq!(does, [(prefix(), LifecycleEffect::Ends(Some(90))), (prefix(), freezes)]);
        assert!(rule("Disabled").is_empty());
    }

    /// By the forms that S3 has had for a rule's filter.
    #[test]
    fn a_rule_is_narrower_that_asks_for_more_than_a_prefix() {
        use types::{LifecycleRuleAndOperator, LifecycleRuleFilter, Tag};
        let expiration = types::LifecycleExpiration::builder().days(90).build();
        let rule = || {
            types::LifecycleRule::builder().status(ExpirationStatus::Enabled).expiration(expiration.clone())
        };
        let read = |rule: types::builders::LifecycleRuleBuilder| {
            let one = effects(&rule.build().unwrap()).remove(0);
            (one.prefix, one.is_narrower)
        };
        let filter = LifecycleRuleFilter::builder;
        let tag = Tag::builder().key("a").value("b").build().unwrap();
        let and = LifecycleRuleAndOperator::builder().prefix("x/").tags(tag.clone()).build();
        #[allow(deprecated, reason = "templates still write it so")]
        let old = rule().prefix("x/");
        assert_eq!(read(old), ("x/".to_owned(), false));
        assert_eq!(read(rule().filter(filter().prefix("x/").build())), ("x/".to_owned(), false));
        assert_eq!(read(rule().filter(filter().build())), (String::new(), false));
        assert_eq!(read(rule().filter(filter().tag(tag).build())), (String::new(), true));
        assert_eq!(read(rule().filter(filter().object_size_less_than(9).build())), (String::new(), true));
        assert_eq!(read(rule().filter(filter().and(and).build())), ("x/".to_owned(), true));
    }

    fn ends(prefix: &str, days: Option<i32>) -> LifecycleRule {
        let effect = LifecycleEffect::Ends(days);
        LifecycleRule { id: "r".to_owned(), prefix: prefix.to_owned(), is_narrower: false, effect }
    }

    #[test]
    fn the_shortest_rule_for_the_whole_archive_says_how_long_letters_stay() {
        let of = |rules: &[LifecycleRule]| ArchiveRetention::of(rules, "dead-letters");
        assert_eq!(of(&[]), ArchiveRetention::Unlimited);
        let frozen =
            LifecycleRule { effect: LifecycleEffect::Freezes("GLACIER".to_owned()), ..ends("", None) };
        let other = ends("dead-letters-control/waiting/", Some(1));
        assert_eq!(of(&[frozen, other.clone()]), ArchiveRetention::Unlimited);
        let (all, own) = (ends("", Some(365)), ends("dead-letters/", Some(90)));
        assert_eq!(of(&[all.clone(), own.clone(), other]), ArchiveRetention::Days(90));
        let narrow = |days| LifecycleRule { is_narrower: true, ..ends("", Some(days)) };
        let later = [narrow(91), ends("dead-letters/queue=a/", Some(365))];
        assert_eq!(
            of(&[std::slice::from_ref(&own), &later[..]].concat()),
            ArchiveRetention::Days(90),
            "they end earlier"
        );
        assert_eq!(of(&later), ArchiveRetention::Differs);
        let narrower = narrow(7);
        for differs in [narrower, ends("dead-letters/queue=a/", Some(7)), ends("", None)] {
            assert_eq!(of(&[own.clone(), differs, all.clone()]), ArchiveRetention::Differs);
        }
    }

    #[test]
    fn a_letter_stays_until_the_midnight_after_its_days() {
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let of = |retention: ArchiveRetention, at| retention.end(time(at));
        let ninety = ArchiveRetention::Days(90);
        assert_eq!(of(ninety, "2026-11-01T12:00:00Z"), Some(time("2027-01-31T00:00:00Z")));
        assert_eq!(of(ArchiveRetention::Unlimited, "2026-11-01T12:00:00Z"), None);
        // A letter of a hundred thousand years is nobody's, but the number of days is a stranger's.
        assert_eq!(of(ArchiveRetention::Days(u32::MAX), "2026-11-01T12:00:00Z"), None);
    }
}
