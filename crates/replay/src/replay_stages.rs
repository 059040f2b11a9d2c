//! The stages of a replay: its steps, and the slices of its last step. This module does no I/O.
//!
//! A selection is sent in steps that end at given per cents of it. What counts are letters that were really
//! sent: letters that others have sent, or that are left out, end no step. After each step but the last the
//! replay waits, and continues only if not too many letters came back. The last step, four fifths of the
//! selection by default, is watched too: it is sent in slices, and after each slice the replay checks, without
//! waiting, what has come back so far.

/// The least number of letters in a slice. [`LEAST_SHARE`] sets a second minimum: a slice is at least a
/// twentieth of the selection.
const LEAST_SLICE: u64 = 100;
const LEAST_SHARE: u64 = 20;

/// A part of a selection that is sent without a judgement in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RampStage {
    /// The step, from 1.
    pub(super) step: usize,
    /// The number of letters that are sent or refused when the stage ends.
    pub(super) end: u64,
    /// `true` if the replay waits after it.
    pub(super) settles: bool,
}

/// Returns the stages of a selection with this number of letters. Steps without letters are left out.
pub(super) fn stages(ramp: &[u32], letters: u64) -> Vec<RampStage> {
    let mut stages: Vec<RampStage> = Vec::new();
    let (mut end, mut size) = (0, letters.div_ceil(5));
    for (percent, step) in ramp.iter().zip(1..) {
        let next = letters.saturating_mul(u64::from(*percent)).div_ceil(100);
        if next == end {
            continue;
        }
        if step < ramp.len() {
            size = next - end;
            end = next;
            stages.push(RampStage { step, end, settles: true });
            continue;
        }
        let slice = size.max(LEAST_SLICE).max(letters / LEAST_SHARE);
        while end < letters {
            end = letters.min(end + slice);
            stages.push(RampStage { step, end, settles: false });
        }
    }
    // After the last letter nothing is left to hold back.
    if let Some(last) = stages.last_mut() {
        last.settles = false;
    }
    stages
}

/// The number of letters that may be sent after a judgement, as a multiple of those sent before it, if
/// nobody knows how many there are to send.
const GROWTH: u64 = 5;

impl RampStage {
    /// Returns how many letters may be sent, over the whole replay, before the next judgement. `judged` is their
    /// number at the last one. If only an upper bound of the letters to send is known, the per cents of a
    /// step may be all of them, so it also grows step by step from a few.
    pub(super) fn limit(self, is_last: bool, is_known: bool, judged: u64) -> u64 {
        // In the last stage there may be more letters than the index knows.
        let end = if is_last { self.end.max(judged.saturating_add(LEAST_SLICE)) } else { self.end };
        let grown = judged.saturating_add(judged.saturating_mul(GROWTH).max(LEAST_SLICE));
        if is_known { end } else { end.min(grown) }
    }
}

/// The results of the letters of a stage, and of those before it in its step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StageResult {
    /// The number of letters that the requeue has accepted.
    pub(super) sent: u64,
    /// The number of letters that SQS has refused.
    pub(super) refused: u64,
    /// The number of letters that were replayed and archived again.
    pub(super) came_back: u64,
    /// The number of letters that wait in the requeue, beyond those that waited before and those that were
    /// sent too recently to count.
    pub(super) waiting: u64,
    /// The growth of the dead-letter queues, in letters. One that drains does not make up for another that
    /// grows.
    pub(super) fallen: u64,
}

impl StageResult {
    /// Returns why the replay should stop, or `None` if it may continue: too many letters were refused, came
    /// back or wait. A threshold of 100 per cent never stops it.
    pub(super) fn failed(self, step: usize, threshold: u32) -> Option<String> {
        let Self { sent, refused, came_back, waiting, fallen } = self;
        let (failing, all) = (refused + came_back + waiting + fallen, sent + refused);
        let threshold = u64::from(threshold);
        // Letters that come back while nothing is sent belong to an earlier step, for which the replay has
        // stopped already.
        (all > 0 && threshold < 100 && failing.saturating_mul(100) > all.saturating_mul(threshold)).then(|| {
            format!(
                "of {all} letters of step {step}: {refused} refused by SQS, {came_back} back in the archive, \
                 {waiting} more than before wait in the requeue, {fallen} more in the dead-letter queues"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(ramp: &[u32], letters: u64) -> Vec<(usize, u64, bool)> {
        stages(ramp, letters).into_iter().map(|stage| (stage.step, stage.end, stage.settles)).collect()
    }

    #[test]
    fn steps_end_at_their_per_cents_rounded_up_and_empty_ones_are_passed_over() {
        assert_eq!(
            ends(&[1, 5, 20, 100], 250),
            [(1, 3, true), (2, 13, true), (3, 50, true), (4, 150, false), (4, 250, false)]
        );
        assert_eq!(ends(&[1, 5, 20, 100], 3), [(1, 1, true), (4, 3, false)]);
        assert_eq!(ends(&[1, 5, 20, 100], 1), [(1, 1, false)]);
        assert_eq!(ends(&[1, 5, 20, 100], 0), []);
        assert_eq!(ends(&[100], 7), [(1, 7, false)]);
    }

    #[test]
    fn the_last_step_goes_out_in_slices_of_the_step_before_but_not_in_too_many() {
        let slices = |ramp: &[u32], letters| {
            let last = ramp.len();
            stages(ramp, letters).into_iter().filter(|stage| stage.step == last).count()
        };
        assert_eq!(slices(&[1, 5, 20, 100], 10_000), 6);
        assert_eq!(slices(&[1, 100], 1_000_000), 20);
        assert_eq!(slices(&[100], 1_000_000), 5);
        assert_eq!(stages(&[1, 5, 20, 100], 10_000).last().unwrap().end, 10_000);
    }

    #[test]
    fn a_stage_has_its_letters_and_grows_slowly_where_nobody_knows_how_many_there_are() {
        let stage = RampStage { step: 1, end: 5000, settles: true };
        assert_eq!((stage.limit(false, true, 0), stage.limit(false, true, 4000)), (5000, 5000));
        let unknown = |judged| stage.limit(false, false, judged);
        assert_eq!((unknown(0), unknown(10), unknown(100), unknown(4000)), (100, 110, 600, 5000));
        // The last stage ends only when nothing is left.
        assert_eq!((stage.limit(true, true, 100), stage.limit(true, true, 5000)), (5000, 5100));
        assert_eq!((stage.limit(true, false, 100), stage.limit(true, false, 5000)), (600, 5100));
    }

    #[test]
    fn what_came_back_of_the_step_before_does_not_stop_a_replay_that_goes_on() {
        assert_eq!(StageResult { came_back: 5, ..StageResult::default() }.failed(1, 0), None);
    }

    #[test]
    fn a_stage_fails_where_more_than_the_threshold_was_refused_came_back_or_waits() {
        let result = StageResult { sent: 20, came_back: 2, ..StageResult::default() };
        assert_eq!(result.failed(1, 10), None, "10 per cent may");
        let why = "of 20 letters of step 1: 0 refused by SQS, 2 back in the archive, \
                   1 more than before wait in the requeue, 0 more in the dead-letter queues";
        assert_eq!(StageResult { waiting: 1, ..result }.failed(1, 10).as_deref(), Some(why));
        for failing in [
            StageResult { came_back: 3, ..result },
            StageResult { fallen: 1, ..result },
            StageResult { sent: 17, refused: 3, ..StageResult::default() },
            StageResult { refused: 1, ..StageResult::default() },
        ] {
            assert!(failing.failed(1, 10).is_some(), "{failing:?}");
            assert_eq!(failing.failed(1, 100), None);
        }
    }
}
