//! `redrivectl hold`, `retry` and `give-up`: give an override.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use redrive_core::policy::{Override, OverrideAction, OverrideReach, RETRY_IN_FORCE};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::pattern_args::{every, pattern};
use super::preview::OverridePreview;
use super::target_check::UnknownResources;
use super::wake::{LetterWaker, WAKE_DELAY, WakeSummary};
use super::{
    OverrideAuthor, OverrideClients, connect, finished, show_lines, signed, watch_from_the_start, write,
};
use crate::args;
use crate::console::{CommandEnd, CommandFailure, ToolEnvironment, unless_interrupted};
use crate::control::{ControlAccess, OverrideChange};
use crate::output::CommandResult;
use crate::tables::TextStyle;

/// The default duration of an override to give up: in this time every letter comes back at least once.
const GIVE_UP_IN_FORCE: SignedDuration = SignedDuration::from_hours(12);

/// The request for an override.
pub(crate) struct OverrideRequest<'a> {
    action: OverrideAction,
    give: &'a args::GiveArgs,
    /// True if it also applies to letters that have not arrived yet.
    future: bool,
    /// The number of letters a second to wake; `None` if the override wakes none.
    rate: Option<u32>,
}

/// An override that is not written yet.
pub(crate) struct OverrideDraft<'a> {
    request: &'a OverrideRequest<'a>,
    pub(crate) preview: OverridePreview,
    control: ControlAccess,
    waker: LetterWaker,
    stop: Option<Arc<AtomicBool>>,
}

/// An override that was given.
pub(crate) struct GivenOverride {
    pub(crate) override_: Override,
    preview: OverridePreview,
    woken: Option<WakeSummary>,
    /// Lines and objects of the list that could not be read.
    unread: u64,
    /// The command that takes the override back.
    release: String,
}

impl<'a> OverrideRequest<'a> {
    pub(crate) fn hold(give: &'a args::GiveArgs) -> Self {
        Self { action: OverrideAction::Hold, give, future: true, rate: None }
    }

    pub(crate) fn retry(args: &'a args::RetryArgs) -> Self {
        let rate = Some(args.pace.rate);
        Self { action: OverrideAction::Retry, give: &args.give, future: true, rate }
    }

    /// Returns the request to give letters up.
    ///
    /// # Errors
    ///
    /// It is for letters that arrive later, and has no end.
    pub(crate) fn give_up(args: &'a args::GiveUp) -> Result<Self, CommandFailure> {
        if args.future && args.give.until.is_none() && args.give.lasts.is_none() {
            let problem = "--future gives up every matching letter until the override ends: limit it with --for or --until";
            return Err(CommandFailure::Input(vec![problem.to_owned()]));
        }
        let rate = Some(args.pace.rate);
        Ok(Self { action: OverrideAction::GiveUp, give: &args.give, future: args.future, rate })
    }

    /// Gives the override, or shows what it would do, and prints the result.
    pub(crate) async fn run(
        &self,
        as_json: bool,
        console: &mut ToolEnvironment,
    ) -> Result<CommandEnd, CommandFailure> {
        let draft = self.look(console).await?;
        if self.give.sign.dry_run {
            return console.print(&draft.preview, as_json);
        }
        let given = draft.give(as_json, console).await?;
        console.print(&given, as_json)
    }

    /// Prepares the override, and reads what it would do.
    pub(crate) async fn look(
        &self,
        console: &mut ToolEnvironment,
    ) -> Result<OverrideDraft<'_>, CommandFailure> {
        let Some(pattern) = pattern(&self.give.picks)? else {
            let problem =
                "no letters are selected: give --match, --topic, --subscription, --queue, --target or --all";
            return Err(CommandFailure::Input(vec![problem.to_owned()]));
        };
        // The end is checked later, by the clock of S3.
        check(&Override { until: None, ..self.override_(pattern.clone(), console) })?;
        let stop = watch_from_the_start(&self.give.sign, console)?;
        let OverrideClients { control, sqs, sts, aws } =
            connect(&self.give.place, &self.give.connection, console).await?;
        let OverrideAuthor { by, checked } = signed(&self.give.sign, &sts).await?;
        let others = control.overrides(console).await?;
        let draft = Override { by, ..self.override_(pattern, console) };
        let reach = self.check(&draft)?;
        let undecided = reach.undecided().to_vec();
        let mut waker = LetterWaker::new(&control, &sqs, vec![(reach, None)]);
        unless_interrupted(stop.as_ref(), waker.read(console)).await?;

        let touched = waker.touched(console.clock.now());
        let unknown = if self.give.anyway {
            UnknownResources::default()
        } else {
            let asked = Box::pin(UnknownResources::of(&draft.pattern, waker.listed(), &aws));
            unless_interrupted(stop.as_ref(), async { Ok(asked.await) }).await?
        };
        let now = console.clock.now();
        let preview = OverridePreview {
            override_: self.begun(draft, console),
            by_checked: checked,
            undecided,
            others: others.all().iter().filter(|other| other.is_in_force(now)).count(),
            touched,
            unknown,
            rate: self.rate,
            now,
        };
        Ok(OverrideDraft { request: self, preview, control, waker, stop })
    }

    /// Returns the override, as if it were given now. From here on it applies to the letters of the preview.
    fn override_(&self, pattern: Value, console: &ToolEnvironment) -> Override {
        let now = console.clock.now();
        let arrived = &self.give.arrived;
        let arrived_before = arrived.arrived_before.map(|when| when.at(now));
        // Letters that arrive in the current second count as arrived.
        let end_of_second = || {
            let second = whole_second(now);
            second.saturating_add(SignedDuration::from_secs(i64::from(second < now))).unwrap_or(now)
        };
        let override_ = Override {
            id: String::new(),
            action: self.action,
            pattern,
            arrived_before: arrived_before.or_else(|| (!self.future).then(end_of_second)),
            arrived_after: arrived.arrived_after.map(|when| when.at(now)),
            at: now,
            until: None,
            by: self.give.sign.by.clone().unwrap_or_else(|| "?".to_owned()),
            // Only a dry run needs no reason.
            why: self.give.why.clone().unwrap_or_else(|| "a dry run".to_owned()),
        };
        self.begun(override_, console)
    }

    /// Returns the override with its times counted from now, since reading a long list and waiting for an answer
    /// take time.
    fn begun(&self, override_: Override, console: &ToolEnvironment) -> Override {
        let at = whole_second(console.clock.now());
        let lasts = self
            .give
            .lasts
            .map(|seconds| SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX)));
        let lasts = lasts.or(match self.action {
            OverrideAction::Hold => None,
            OverrideAction::Retry => Some(RETRY_IN_FORCE),
            OverrideAction::GiveUp => Some(GIVE_UP_IN_FORCE),
        });
        let end = || lasts.and_then(|lasts| at.saturating_add(lasts).ok());
        Override { id: id(at), at, until: self.give.until.or_else(end), ..override_ }
    }

    /// Checks that an override is valid, and still in force when letters wake.
    fn check(&self, override_: &Override) -> Result<OverrideReach, CommandFailure> {
        let reach = check(override_)?;
        let begins = SignedDuration::try_from(WAKE_DELAY).unwrap_or(SignedDuration::ZERO);
        let is_short = |end| override_.at.saturating_add(begins).is_ok_and(|begins| end <= begins);
        if self.rate.is_some() && override_.end().is_some_and(is_short) {
            let seconds = WAKE_DELAY.as_secs();
            let problem = format!(
                "the override must be in force for more than {seconds} s, because waking begins only then"
            );
            return Err(CommandFailure::Input(vec![problem]));
        }
        Ok(reach)
    }
}

impl OverrideDraft<'_> {
    /// Shows what the override would do and asks, unless `--yes` is given. Then writes it, and wakes letters.
    pub(crate) async fn give(
        self,
        as_json: bool,
        console: &mut ToolEnvironment,
    ) -> Result<GivenOverride, CommandFailure> {
        let yes = self.request.give.sign.yes;
        show_lines(&self.preview.lines(), yes, as_json, console)?;
        let missing = &self.preview.unknown.missing;
        if yes && !missing.is_empty() {
            let why = format!(
                "neither SNS, SQS nor the list of waiting letters knows {}: correct the name, or give --anyway",
                missing.join(", ")
            );
            return Err(CommandFailure::Input(vec![why]));
        }
        console.confirm(yes, &format!("Give this override to {}?", self.request.action.name()))?;
        self.carry_out(as_json, console).await
    }

    /// Writes the override, and wakes letters. The caller has asked.
    pub(crate) async fn carry_out(
        self,
        as_json: bool,
        console: &mut ToolEnvironment,
    ) -> Result<GivenOverride, CommandFailure> {
        let Self { request, preview, control, mut waker, stop } = self;
        let override_ = request.begun(preview.override_.clone(), console);
        // The override may have ended while the question waited for its answer.
        request.check(&override_)?;
        let stop = write(&control, &OverrideChange::Give(&override_), stop, console).await?;
        let written = Instant::now();
        if !as_json {
            writeln!(
                console.out,
                "\nOverride {} is written; the function obeys within 15 seconds.",
                override_.id
            )?;
            console.out.flush()?;
        }
        let woken = match request.rate {
            None => None,
            Some(rate) => Some(waker.wake(written, rate, override_.end(), &stop, console).await),
        };
        let release = console.stack.further().command(&["overrides", "release", &override_.id]);
        Ok(GivenOverride { override_, preview, woken, unread: waker.unread(), release })
    }
}

impl CommandResult for GivenOverride {
    fn text(&self, _: TextStyle) -> String {
        let woken = self.woken.as_ref().map_or_else(String::new, |woken| woken.text() + "\n");
        let to = match self.override_.action {
            OverrideAction::Hold => "end the hold and wake its letters",
            OverrideAction::Retry | OverrideAction::GiveUp => "take the override back before it ends",
        };
        format!("{woken}To {to}: {}\n", self.release)
    }

    fn json(&self) -> Value {
        let Self { override_, preview, woken, .. } = self;
        json!({ "override": override_, "byChecked": preview.by_checked, "waiting": preview.waiting(), "wake": woken })
    }

    fn finished(&self) -> CommandEnd {
        finished(self.woken.as_ref(), self.unread)
    }
}

/// Returns the second of a point in time: nobody means nanoseconds, or wants to type them.
fn whole_second(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}

/// Returns an id for an override: its time, so that ids sort by time, and a random part.
fn id(at: Timestamp) -> String {
    // The keys of a hasher are the only source of randomness in the standard library.
    let random = RandomState::new().build_hasher().finish() & 0xffff_ffff;
    format!("{}-{random:08x}", at.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ"))
}

/// Returns the letters that these options select, for comparison with the list; `None` if they select none.
pub(crate) fn reach(
    picks: &args::PatternArgs,
    arrived: &args::ArrivalArgs,
    console: &ToolEnvironment,
) -> Result<Option<OverrideReach>, CommandFailure> {
    let now = console.clock.now();
    let pattern = pattern(picks)?;
    if pattern.is_none() && arrived.arrived_before.is_none() && arrived.arrived_after.is_none() {
        return Ok(None);
    }
    let override_ = Override {
        id: "1".to_owned(),
        action: OverrideAction::Hold,
        pattern: pattern.unwrap_or_else(every),
        arrived_before: arrived.arrived_before.map(|when| when.at(now)),
        arrived_after: arrived.arrived_after.map(|when| when.at(now)),
        at: now,
        until: None,
        by: "nobody".to_owned(),
        why: "to count".to_owned(),
    };
    check(&override_).map(Some)
}

/// Checks an override. Its problems name the options.
fn check(override_: &Override) -> Result<OverrideReach, CommandFailure> {
    OverrideReach::of(override_).map_err(|bad| {
        let problem =
            |fault: &redrive_core::policy::DocumentFault| match fault.path.strip_prefix("overrides[0].") {
                // The override begins now.
                Some("until") => "--until must be in the future".to_owned(),
                Some(field) => match field.split_once('.') {
                    Some((option, path)) => format!("--{option} {path}: {}", fault.problem),
                    None => format!("--{field} {}", fault.problem),
                },
                None => fault.to_string(),
            };
        CommandFailure::Input(bad.0.iter().map(problem).collect())
    })
}
