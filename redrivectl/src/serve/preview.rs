//! Previews: what an action would do, by its own command, before anybody confirms it.

use jiff::Timestamp;
use redrive_console::read::Mask;
use redrive_console::{Act, Doing, On};
use serde_json::{Value, json};
use sns_redrive::archive::Record;
use sns_redrive::policy::{Override, Overrides};
use sns_redrive::replay::{State, Status};

use super::action::Action;
use crate::console::{Failed, Finished};
use crate::replay::{Held, selected, status, to_send};
use crate::text::{brief, count, harmless, thousands, utc};
use crate::tool::{Line, Printed, Tool};

/// A preview of an action.
#[derive(Debug, Clone)]
pub(super) struct Preview {
    /// The letters that it touches, as far as anybody knows.
    pub(super) letters: u64,
    /// True if it touches at most so many.
    is_bound: bool,
    /// True if nobody has checked whether each of them can go.
    is_unchecked: bool,
    /// The preview, line by line.
    pub(super) rows: Vec<(&'static str, String)>,
    /// The overrides in force: their id, what they do, with which letters, and why.
    pub(super) overrides: Vec<[String; 4]>,
    /// The difference that was edited.
    pub(super) difference: Option<String>,
    /// What keeps the letters from their attempt when they are sent, in words.
    pub(super) held: Option<String>,
    /// Further messages of the commands.
    pub(super) notes: String,
    /// The other facts that the confirmation is about.
    facts: Vec<(&'static str, String)>,
}

impl Preview {
    /// Returns the number of letters in words.
    pub(super) fn size(&self) -> String {
        let unchecked = if self.is_unchecked { ", not checked" } else { "" };
        format!("{}{}{unchecked}", most(!self.is_bound), count(self.letters, "letter"))
    }

    /// Says what has changed since another preview of the same action was shown; empty where nothing has.
    ///
    /// Fewer letters are no change, and neither are more by less than a tenth: letters come and go all the time, and whoever
    /// has confirmed an action on 1,000 letters means it for 1,050 as well. Whatever else was shown must be the same: the
    /// overrides in force, how the replay stands, whether all could be read.
    pub(super) fn changed_since(&self, shown: &Self) -> Vec<String> {
        let mut changed = Vec::new();
        let more = self.letters.saturating_sub(shown.letters);
        if more > 0 && more.saturating_mul(10) >= shown.letters {
            changed.push(format!("It affects {} now; it was {}.", self.size(), thousands(shown.letters)));
        }
        for ((what, now), (_, then)) in self.facts.iter().zip(&shown.facts) {
            if now != then {
                changed.push(format!("{what}: {now}; it was: {then}."));
            }
        }
        changed
    }
}

/// Previews an action, and binds it to the letters of the preview.
///
/// # Errors
///
/// The command failed: the action cannot be done.
pub(super) async fn look(
    action: &mut Action,
    mask: Mask<'_>,
    now: Timestamp,
    tool: &Tool,
) -> Result<Preview, Failed> {
    let (overrides, in_force) = overrides(now, tool).await?;
    let mut preview = match (action.act.doing, &action.act.on) {
        (Doing::Stop | Doing::Resume, On::Replay(id)) => {
            replay_there(id, action.act.doing, &in_force, now, tool).await?
        }
        (Doing::Release, _) => release(action, tool).await?,
        (Doing::Replay | Doing::Edit, _) => replay(action, &in_force, now, mask, tool).await?,
        _ => override_(action, tool).await?,
    };
    preview.facts.push(("Overrides in force", listed(overrides.iter().map(|[id, ..]| id.clone()))));
    preview.overrides = overrides;
    Ok(preview)
}

/// The overrides that have not ended.
async fn overrides(now: Timestamp, tool: &Tool) -> Result<(Vec<[String; 4]>, Vec<Override>), Failed> {
    let (said, _) = answer(tool, &["overrides".to_owned()], "").await?;
    let row = |it: &Value| {
        let begins = it["at"].as_str().and_then(|at| at.parse::<Timestamp>().ok()).filter(|at| *at > now);
        let from = begins.map_or(String::new(), |at| format!(", from {} UTC", utc(at)));
        let before =
            time(&it["arrivedBefore"]).map_or(String::new(), |at| format!(", arrived before {at} UTC"));
        let after =
            time(&it["arrivedAfter"]).map_or(String::new(), |at| format!(", arrived {at} UTC or later"));
        let letters = format!("{}{before}{after}", text(&it["match"]));
        [text(&it["id"]), format!("{}{from}", text(&it["do"])), letters, text(&it["why"])]
    };
    let rows = said["overrides"].as_array().into_iter().flatten().map(row).collect();
    let document = json!({ "version": 1, "overrides": said["overrides"] });
    let overrides =
        Overrides::parse(document.to_string().as_bytes()).map_err(|bad| Failed::Work(bad.to_string()))?;
    Ok((rows, overrides.all().to_vec()))
}

/// Has a command say in JSON what it would do. Parts that it could not read are part of the answer.
async fn answer(tool: &Tool, words: &[String], input: &str) -> Result<(Value, String), Failed> {
    let words: Vec<_> = words.iter().map(String::as_str).chain(["--json"]).collect();
    let (out, err) = (Printed::default(), Printed::bounded());
    tool.print(Line { words: &words, input, out: out.clone(), err: err.clone() }).await?;
    let said = out.text();
    let first = said.lines().next().unwrap_or_default();
    let value = serde_json::from_str(first);
    Ok((value.map_err(|error| Failed::Work(format!("a preview cannot be read: {error}")))?, err.text()))
}

async fn dry_run(action: &Action, tool: &Tool) -> Result<(Value, String), Failed> {
    let words = [action.words(), vec!["--dry-run".to_owned()]].concat();
    answer(tool, &words, action.record.as_deref().unwrap_or_default()).await
}

async fn override_(action: &mut Action, tool: &Tool) -> Result<Preview, Failed> {
    let (said, notes) = dry_run(action, tool).await?;
    let (override_, waiting) = (&said["override"], &said["waiting"]);
    let mut rows = vec![("match", text(&override_["match"]))];
    if let Some(before) = time(&override_["arrivedBefore"]) {
        rows.push(("arrived", format!("before {before} UTC")));
        // Letters that arrive from now on were not previewed.
        if action.bound.is_empty() && action.act.doing == Doing::GiveUp {
            action.bound.push(format!("--arrived-before={}", text(&override_["arrivedBefore"])));
        }
    }
    if let Some(after) = time(&override_["arrivedAfter"]) {
        rows.push(("arrived", format!("{after} UTC or later")));
    }
    rows.extend(touched(waiting));
    for (what, field) in [("unknown", "unknown"), ("not checked", "notChecked")] {
        rows.extend(said[field].as_array().into_iter().flatten().map(|it| (what, text(it))));
    }
    rows.push((
        "not counted",
        "letters that are hidden for less than two minutes, or were not received yet".to_owned(),
    ));
    // It begins when it is confirmed, which may be minutes after this.
    let moment = |name: &str| override_[name].as_str().and_then(|at| at.parse::<Timestamp>().ok());
    let lasts = moment("until").zip(moment("at")).map(|(until, at)| until.duration_since(at));
    let ends = lasts.map_or("until it is released".to_owned(), |lasts| {
        format!("for {}, from the confirmation on", brief(lasts.unsigned_abs().as_secs()))
    });
    rows.push(("in force", ends));
    rows.extend(wakes(&said));
    rows.push(("by", by(&override_["by"], &said["byChecked"])));
    Ok(Preview::new(letters(waiting), rows, notes, unread(waiting)))
}

async fn release(action: &Action, tool: &Tool) -> Result<Preview, Failed> {
    let (said, notes) = dry_run(action, tool).await?;
    let waiting = &said["waiting"];
    let mut rows = vec![("releases", harmless(action.id()))];
    rows.extend(touched(waiting));
    rows.extend(wakes(&said));
    let stay = number(&waiting["stillHeld"]);
    let held = (stay > 0).then(|| format!("at most {} held by another override", count(stay, "letter")));
    Ok(Preview { held, ..Preview::new(letters(waiting), rows, notes, unread(waiting)) })
}

async fn replay(
    action: &mut Action,
    overrides: &[Override],
    now: Timestamp,
    mask: Mask<'_>,
    tool: &Tool,
) -> Result<Preview, Failed> {
    if action.record.is_none()
        && let On::Archived { .. } = &action.act.on
    {
        action.record = Some(record(&action.act, tool).await?);
    }
    let difference = match (&action.record, action.act.doing) {
        (Some(record), Doing::Edit) => Some(difference(record, mask, tool).await?),
        _ => None,
    };
    let (said, notes) = dry_run(action, tool).await?;
    let state = State::from_json(&said, "the preview")?;
    if action.bound.is_empty() && !action.is_of_record() {
        action.bound.push(format!("--cut-off={}", state.cut_off));
    }
    let counts = &state.counts;
    let most = most(state.exact);
    let mut rows = vec![
        (
            "selected",
            format!("{most}{}, archived before {} UTC", count(state.letters, "letter"), utc(state.cut_off)),
        ),
        ("which", selected(&state)),
        ("to send", to_send(&state)),
    ];
    for (what, number) in [
        ("replayed already", counts.already_replayed),
        ("stored twice", counts.doubles),
        ("unreadable", counts.unreadable),
    ] {
        if number > 0 {
            rows.push((what, thousands(number)));
        }
    }
    let left_out = counts.not_replayable.iter();
    rows.extend(
        left_out.map(|(why, number)| ("left out", format!("{}: {}", thousands(*number), harmless(why)))),
    );
    let steps: Vec<_> = state.request.ramp.iter().map(|percent| format!("{percent} %")).collect();
    rows.push((
        "steps",
        format!("{}, {} letters a second", steps.join(", "), thousands(state.request.rate.into())),
    ));
    let left_out = counts
        .not_replayable
        .iter()
        .map(|(why, number)| format!("{}: {}", thousands(*number), harmless(why)));
    let facts = vec![
        ("Unfinished replays of the same letters", listed(unfinished(&notes))),
        ("Unreadable", thousands(counts.unreadable)),
        ("Left out", listed(left_out)),
        ("Their targets are", if state.at_most { "not checked" } else { "checked" }.to_owned()),
        noted(&notes),
    ];
    let record = action.record.as_ref().and_then(|record| Record::from_line(record.trim()).ok());
    let held = held_by(counts.sent, &state, record.as_ref(), overrides, now);
    rows.extend(held.as_ref().map(|held| ("held", held.before())));
    Ok(Preview {
        letters: counts.sent,
        is_bound: state.at_most,
        is_unchecked: state.at_most,
        rows,
        overrides: Vec::new(),
        difference,
        held: held.map(|held| held.text()),
        notes,
        facts,
    })
}

/// Returns what holds the letters that a replay has yet to send, if it has any.
fn held_by(
    letters: u64,
    state: &State,
    record: Option<&Record>,
    overrides: &[Override],
    now: Timestamp,
) -> Option<Held> {
    if letters == 0 {
        return None;
    }
    Held::of(&state.request, record.map(std::slice::from_ref), overrides, now)
}

async fn replay_there(
    id: &str,
    doing: Doing,
    overrides: &[Override],
    now: Timestamp,
    tool: &Tool,
) -> Result<Preview, Failed> {
    let (said, notes) = answer(tool, &["replays".to_owned(), "show".to_owned(), id.to_owned()], "").await?;
    let state = State::from_json(&said, "the replay")?;
    if doing == Doing::Resume && state.given.is_some() {
        let why = "this replay was given its letters, and a page cannot give them again: begin a new replay on the letter's \
                   page, or give the file again in a terminal: redrivectl replay --resume ID --from FILE";
        return Err(Failed::Work(why.to_owned()));
    }
    let is_unfinished = state.is_unfinished();
    let left = if is_unfinished { state.left() } else { 0 };
    let most = most(state.exact);
    let mut rows = vec![
        ("replay", format!("{}, {}", harmless(&state.id), status(&state))),
        ("which", selected(&state)),
        ("sent", format!("{} of {most}{}", thousands(state.counts.sent), count(state.letters, "letter"))),
        ("begun", format!("{} UTC by {}", utc(state.began), harmless(&state.by))),
    ];
    let mut facts = vec![("It is", if is_unfinished { "unfinished" } else { "over" }.to_owned())];
    if doing == Doing::Resume {
        // Somebody else may have gone on with it.
        facts = vec![("It is", format!("{}, {} sent", status(&state), thousands(state.counts.sent)))];
        if is_unfinished && state.status != Status::Stopped && !state.abandoned {
            let says = "this takes it over from whoever may still run it: that process then ends by itself, after its \
                        step at the latest. Letters that it may have sent are sent again";
            rows.push(("takeover", says.to_owned()));
        }
    }
    let held = if doing == Doing::Resume { held_by(left, &state, None, overrides, now) } else { None };
    rows.extend(held.as_ref().map(|held| ("held", held.before())));
    Ok(Preview {
        letters: left,
        // Those that are left may have been sent by another replay, or cannot be sent.
        is_bound: left > 0,
        is_unchecked: false,
        rows,
        overrides: Vec::new(),
        difference: None,
        held: held.map(|held| held.text()),
        notes,
        facts,
    })
}

/// Returns the words before a number of letters that is only a bound.
fn most(is_exact: bool) -> &'static str {
    if is_exact { "" } else { "at most " }
}

/// Reads the record of a letter, as the archive has it.
///
/// # Errors
///
/// There is none, or it cannot be read.
pub(super) async fn record(act: &Act, tool: &Tool) -> Result<String, Failed> {
    let words = act.words();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let (out, err) = (Printed::default(), Printed::bounded());
    let finished = tool.print(Line { words: &words, input: "", out: out.clone(), err: err.clone() }).await?;
    if finished != Finished::Whole {
        let why = format!("a part of the archive could not be read: {}", err.text().trim());
        return Err(Failed::Work(why));
    }
    one(&out.text())
}

/// Returns the one record among those of an id, which a stranger's letter may repeat. A letter that was archived twice has two;
/// the last is that of its latest end.
fn one(records: &str) -> Result<String, Failed> {
    let letter = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap_or_default();
        (record["queueArn"].clone(), record["message"]["messageId"].clone())
    };
    let last = records.lines().last().ok_or("the archive has no such letter");
    let last = last.map_err(|why| Failed::Work(why.to_owned()))?;
    if records.lines().any(|line| letter(line) != letter(last)) {
        let why = "several letters have this id: open one by the id of its SQS message, as its page shows it";
        return Err(Failed::Work(why.to_owned()));
    }
    Ok(last.to_owned())
}

/// Returns what was edited, as `archive diff` shows it.
async fn difference(record: &str, mask: Mask<'_>, tool: &Tool) -> Result<String, Failed> {
    let (out, err) = (Printed::bounded(), Printed::bounded());
    let masked = mask.names().iter().map(String::as_str).chain(["UnsubscribeURL"]);
    let masked: Vec<_> = masked.map(|name| format!("--mask={name}")).collect();
    let words: Vec<_> =
        ["archive", "diff", "-"].into_iter().chain(masked.iter().map(String::as_str)).collect();
    tool.print(Line { words: &words, input: record, out: out.clone(), err }).await?;
    Ok(out.text())
}

impl Preview {
    fn new(letters: u64, rows: Vec<(&'static str, String)>, notes: String, unread: u64) -> Self {
        let facts = vec![("Parts of the list that could not be read", thousands(unread)), noted(&notes)];
        // A letter that was delivered since is on the list until it was due.
        Self {
            letters,
            is_bound: true,
            is_unchecked: false,
            rows,
            overrides: Vec::new(),
            difference: None,
            held: None,
            notes,
            facts,
        }
    }

    /// Reports whether it would do nothing: a replay without letters sends none, but an override is also for letters that
    /// are not on the list.
    pub(super) fn is_idle(&self, doing: Doing) -> bool {
        self.letters == 0 && matches!(doing, Doing::Replay | Doing::Edit | Doing::Resume)
    }
}

/// Returns what the notes say, apart from numbers, which go on all the time.
fn noted(notes: &str) -> (&'static str, String) {
    let lines = notes.lines().map(|line| harmless(&line.replace(|c: char| c.is_ascii_digit(), "")));
    ("Notes, apart from their numbers", listed(lines))
}

/// Returns the replays that the notes of a dry run name.
fn unfinished(notes: &str) -> impl Iterator<Item = String> {
    let named = |line: &str| {
        let (id, _) = line.strip_prefix("redrivectl: replay ")?.split_once(" of the same letters ")?;
        Some(id.to_owned())
    };
    notes.lines().filter_map(named)
}

fn listed(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<_> = texts.collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}

fn letters(waiting: &Value) -> u64 {
    number(&waiting["touched"]) + number(&waiting["maybe"])
}

fn unread(waiting: &Value) -> u64 {
    number(&waiting["unread"])
}

fn touched(waiting: &Value) -> Vec<(&'static str, String)> {
    let mut rows = vec![(
        "affects",
        format!("at most {} on the list of waiting letters", count(number(&waiting["touched"]), "letter")),
    )];
    if number(&waiting["maybe"]) > 0 {
        let fields: Vec<_> = waiting["undecided"].as_array().into_iter().flatten().map(text).collect();
        let more = count(number(&waiting["maybe"]), "letter");
        let why = if fields.is_empty() {
            String::new()
        } else {
            format!(": the list does not tell {}", fields.join(", "))
        };
        rows.push(("may affect", format!("{more} more{why}")));
    }
    if number(&waiting["stillHeld"]) > 0 {
        let held = count(number(&waiting["stillHeld"]), "letter");
        rows.push(("sleeps on", format!("{held}, which another hold still holds")));
    }
    if unread(waiting) > 0 {
        rows.push(("not read", format!("{} of the list", count(unread(waiting), "part"))));
    }
    rows
}

/// Says how letters are woken, and that this process has to run until then.
fn wakes(said: &Value) -> Vec<(&'static str, String)> {
    let wakes = &said["wakes"];
    if wakes.is_null() {
        return Vec::new();
    }
    let says = format!(
        "{}, beginning {} after the override, {} a second; takes about {}; waking ends with redrivectl serve",
        count(number(&wakes["letters"]), "hidden letter"),
        brief(number(&wakes["beginsAfterSeconds"])),
        thousands(number(&wakes["rate"])),
        brief(number(&wakes["takesSeconds"]))
    );
    let mut rows = vec![("wakes", says)];
    if said["tooShort"].as_bool() == Some(true) {
        let says = "the override ends before the last letter is asked to wake: let it be in force longer, or raise the rate";
        rows.push(("too short", says.to_owned()));
    }
    rows
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn text(value: &Value) -> String {
    harmless(&value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn time(value: &Value) -> Option<String> {
    value.as_str()?.parse().ok().map(utc)
}

fn by(by: &Value, checked: &Value) -> String {
    let note = if checked.as_bool() == Some(true) { "confirmed by AWS" } else { "not checked" };
    format!("{}, {note}", text(by))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(letters: u64, overrides: &str) -> Preview {
        let facts = vec![("Overrides in force", overrides.to_owned())];
        Preview {
            letters,
            is_bound: false,
            is_unchecked: false,
            rows: Vec::new(),
            overrides: Vec::new(),
            difference: None,
            held: None,
            notes: String::new(),
            facts,
        }
    }

    #[test]
    fn an_id_that_several_letters_have_names_none_of_them() {
        let record = |queue: &str, id: &str, end: u8| {
            json!({ "queueArn": queue, "message": { "messageId": id }, "line": end }).to_string()
        };
        let (first, last) = (record("q", "m", 1), record("q", "m", 2));
        assert_eq!(one(&format!("{first}\n{last}\n")).unwrap(), last, "archived twice");
        for other in [record("other", "m", 1), record("q", "other", 1)] {
            for records in [format!("{other}\n{last}\n"), format!("{last}\n{other}\n{last}\n")] {
                assert!(one(&records).unwrap_err().to_string().starts_with("several letters"), "{records}");
            }
        }
        assert!(one("").unwrap_err().to_string().contains("no such letter"));
    }

    #[test]
    fn fewer_letters_or_a_few_more_are_no_change() {
        let shown = seen(100, "none");
        for same in [0, 99, 100, 109] {
            assert!(seen(same, "none").changed_since(&shown).is_empty(), "{same}");
        }
        assert_eq!(seen(110, "none").changed_since(&shown), ["It affects 110 letters now; it was 100."]);
        assert_eq!(seen(1, "none").changed_since(&seen(0, "none")), ["It affects 1 letter now; it was 0."]);
        let changed = seen(100, "o1").changed_since(&shown);
        assert_eq!(changed, ["Overrides in force: o1; it was: none."]);
    }

    #[test]
    fn another_note_is_a_change_and_another_number_in_it_is_none() {
        let noting = |notes: &str| Preview::new(1, Vec::new(), notes.to_owned(), 0);
        let shown = noting("redrivectl: replay r of the same letters is unfinished: 3 sent\n");
        let same = noting("redrivectl: replay r of the same letters is unfinished: 14 sent\n");
        assert!(same.changed_since(&shown).is_empty());
        for other in [String::new(), format!("{}redrivectl: the list is old\n", shown.notes)] {
            assert_eq!(noting(&other).changed_since(&shown).len(), 1, "{other}");
        }
    }
}
