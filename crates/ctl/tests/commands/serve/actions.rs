//! Actions: the form, the preview, the confirmation and the command.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redrive_support::stand_in::{self, StandInRequest};
use redrive_support::{CALLER, TOPIC, TestAccount};
use serde_json::{Value, json};

use super::{BrowserTab, ServerReply, serving, serving_with};
use crate::overrides::{has_document, override_, overrides, put_overrides};
use crate::stack::{OUTPUTS, formation};
use crate::waiting::{letter, lines, list};

const HOLD: [(&str, &str); 4] = [("do", "hold"), ("topic", "payments"), ("why", "down"), ("for", "2h")];

/// Puts a number of waiting letters of the topic on the list.
fn waits(cloud: &TestAccount, written: &str, letters: std::ops::Range<usize>) {
    let letters: Vec<_> = letters.map(|number| letter(&number.to_string(), &json!({}))).collect();
    list(cloud, written, &lines(&letters));
}

fn two() -> TestAccount {
    let cloud = TestAccount::new();
    waits(&cloud, "2026-11-01T11:00:00Z", 0..2);
    cloud
}

async fn post_confirmation(client: &BrowserTab, id: &str, nonce: &str) -> ServerReply {
    client.post("job", &[("id", id), ("do", "confirm"), ("nonce", nonce)]).await
}

#[tokio::test]
async fn an_override_is_previewed_confirmed_and_written_once() {
    let cloud = two();
    serving(&cloud, &["--operate"], async |client| {
        let form = client.get("act?do=hold&topic=payments").await;
        assert_eq!(form.status, 200);
        assert!(form.body.contains("action=\"act?do=hold&amp;topic=payments\""), "{}", form.body);
        let command = "redrivectl hold --topic payments --stack payments --why 'WHY'";
        assert!(
            form.body.contains(&command.replace('\'', "&#39;")) || form.body.contains(command),
            "{}",
            form.body
        );

        let (_, asks) = client.begin(&HOLD).await;
        let text = asks.text();
        for says in [
            "Hold at most 2 letters of payments for 2h",
            "affects at most 2 letters on the list of waiting letters",
            "in force for 2 h, from the confirmation on",
            "Overrides that have not ended None.",
            "why down",
            "redrivectl hold --topic payments --for=2h --why=down --stack payments",
        ] {
            assert!(text.contains(says), "{says}: {text}");
        }
        assert!(!has_document(&cloud), "nothing is done before it is confirmed");

        let (_, done) = client.confirm(&asks).await;
        let text = done.text();
        assert!(
            text.contains("It is done.") && text.contains("the function obeys within 15 seconds"),
            "{text}"
        );
        // The browser's way back sends the same form once more.
        let (id, nonce) = (asks.hidden("id").unwrap(), asks.hidden("nonce").unwrap());
        let again = post_confirmation(client, &id, &nonce).await;
        assert_eq!(again.status, 409);
        assert!(again.text().contains("was confirmed, stopped or replaced"), "{}", again.text());
        assert!(client.get("jobs").await.text().contains("Hold 1 done"), "it is among the actions");
    })
    .await;
    let written = overrides(&cloud);
    assert_eq!(written.len(), 1);
    let of = |field: &str| written[0][field].as_str().unwrap_or_default().to_owned();
    assert_eq!([of("do"), of("why"), of("by")], ["hold", "down", CALLER]);
    assert_eq!(written[0]["match"], json!({ "topicArn": [{ "suffix": ":payments" }] }));
}

#[tokio::test(start_paused = true)]
async fn one_waiting_letter_is_previewed_by_the_list_and_woken_alone() {
    let cloud = two();
    serving(&cloud, &["--operate"], async |client| {
        let page = client.get("letter?id=letter-1").await;
        for doing in ["hold", "retry", "give-up"] {
            let link = format!("href=\"act?do={doing}&amp;id=letter-1\"");
            assert!(page.body.contains(&link), "{link}: {}", page.body);
        }
        let form = client.get("act?do=retry&id=letter-1").await;
        assert!(form.text().contains("letter letter-1"), "{}", form.text());
        assert!(!form.body.contains("name=\"match\""), "one letter is no group: {}", form.body);
        let (_, asks) = client.begin(&[("do", "retry"), ("id", "letter-1"), ("why", "mended")]).await;
        for says in [
            "Retry now at most 1 letter",
            "affects at most 1 letter on the list",
            r#"match {"letterId":["letter-1"]}"#,
        ] {
            assert!(asks.text().contains(says), "{says}: {}", asks.text());
        }
        let (_, done) = client.confirm(&asks).await;
        assert!(done.text().contains("1 letter asked to wake"), "{}", done.text());
    })
    .await;
    let woken: Vec<_> =
        cloud.calls("ChangeMessageVisibilityBatch").into_iter().flat_map(|call| call.entries).collect();
    assert_eq!(woken.len(), 1);
    assert_eq!(woken[0].handle.as_deref(), Some("handle-S3CR3T-1"));
    assert_eq!(overrides(&cloud)[0]["match"], json!({ "letterId": ["letter-1"] }));
}

#[tokio::test]
async fn whoever_confirms_is_told_that_the_command_touches_more_than_the_group() {
    let cloud = two();
    serving(&cloud, &["--operate"], async |client| {
        let says = "More letters than the group: the command cannot name error.";
        let form = client.get("act?do=hold&topic=payments&error=503").await;
        assert!(form.text().contains(says), "{}", form.text());
        let (_, asks) = client.begin(&[&HOLD[..], &[("error", "503")]].concat()).await;
        assert!(asks.hidden("nonce").is_some() && asks.text().contains(says), "{}", asks.text());
        let (_, asks) = client.begin(&HOLD).await;
        assert!(!asks.text().contains("More letters"), "{}", asks.text());
    })
    .await;
}

#[tokio::test]
async fn a_reason_is_required() {
    let cloud = two();
    serving(&cloud, &["--operate"], async |client| {
        let typed = [
            ("do", "hold"),
            ("topic", "payments"),
            ("why", "  "),
            ("for", "3h"),
            ("match", "{\"subject\": [\"é<\"]}"),
        ];
        let reply = client.act(&typed).await;
        assert_eq!(reply.status, 400);
        assert!(reply.text().contains("a reason is required"), "{}", reply.text());
        // The error stands at its field, and nothing that was typed is lost.
        let field = |name: &str| {
            let rest = reply.body.split_once(&format!("<input id=\"{name}\"")).unwrap().1;
            rest.split_once("</p>").unwrap().0.to_owned()
        };
        assert!(
            field("why").contains("aria-invalid=\"true\"") && field("why").contains("a reason is required")
        );
        assert!(field("for").contains("value=\"3h\"") && !field("for").contains("aria-invalid"));
        assert!(
            field("match").contains("value=\"{&quot;subject&quot;: [&quot;é&lt;&quot;]}\""),
            "{}",
            field("match")
        );
        assert!(reply.body.contains("<details open>"), "a field that was filled in is seen: {}", reply.body);
    })
    .await;
}

#[tokio::test]
async fn what_the_command_refuses_is_told_and_cannot_be_confirmed() {
    let cloud = two();
    serving(&cloud, &["--operate"], async |client| {
        let form = [("do", "hold"), ("topic", "payments"), ("why", "x"), ("for", "soon")];
        let page = client.act(&form).await;
        assert!(
            page.status == 400 && page.text().contains("must be 1 second to 366 days"),
            "{}",
            page.text()
        );
        assert!(page.body.contains("name=\"for\"") && page.body.contains("value=\"soon\""), "{}", page.body);
        assert_eq!(page.hidden("nonce"), None);
        let pattern = r#"{"colour": ["red"]}"#;
        let form = [("do", "hold"), ("why", "x"), ("match", pattern)];
        let (_, page) = client.begin(&form).await;
        assert!(page.text().contains("--match has no field \"colour\""), "{}", page.text());
    })
    .await;
    assert!(!has_document(&cloud));
}

#[tokio::test]
async fn what_has_changed_since_is_told_and_nothing_is_done() {
    let cloud = two();
    serving(&cloud, &["--operate"], async |client| {
        let (_, asks) = client.begin(&HOLD).await;
        let mut other = override_("other", "retry", Some("2026-11-01T23:00:00Z"));
        other["arrivedBefore"] = "2026-11-01T10:00:00Z".into();
        other["at"] = "2026-11-01T22:00:00Z".into();
        put_overrides(&cloud, &[other]);
        let (_, changed) = client.confirm(&asks).await;
        let text = changed.text();
        assert!(text.contains("Nothing was done."), "{text}");
        assert!(text.contains("Overrides in force: other; it was: none."), "{text}");
        assert!(text.contains("other retry, from 2026-11-01 22:00:00 UTC"), "{text}");
        assert!(text.contains(", arrived before 2026-11-01 10:00:00 UTC down"), "{text}");
        assert_eq!(overrides(&cloud).len(), 1, "only that of somebody else is there");
        // The old question no longer counts. The new one shows the present state.
        let (id, nonce) = (asks.hidden("id").unwrap(), asks.hidden("nonce").unwrap());
        assert_eq!(post_confirmation(client, &id, &nonce).await.status, 409);
        let (_, done) = client.confirm(&changed).await;
        assert!(done.text().contains("It is done."), "{}", done.text());
    })
    .await;
    assert_eq!(overrides(&cloud).len(), 2);
}

#[tokio::test]
async fn letters_that_come_meanwhile_are_a_change_if_they_are_many() {
    for (more, is_done) in [(0..20, true), (20..21, true), (20..22, false)] {
        let cloud = TestAccount::new();
        waits(&cloud, "2026-11-01T11:00:00Z", 0..20);
        serving(&cloud, &["--operate"], async |client| {
            let (_, asks) = client.begin(&HOLD).await;
            waits(&cloud, "2026-11-01T11:30:00Z", more.clone());
            let (_, page) = client.confirm(&asks).await;
            assert_eq!(page.text().contains("It is done."), is_done, "{more:?}: {}", page.text());
            let says = "It affects at most 22 letters now; it was 20.";
            assert_eq!(page.text().contains(says), !is_done, "{}", page.text());
        })
        .await;
        assert_eq!(has_document(&cloud), is_done);
    }
}

#[tokio::test]
async fn a_confirmation_counts_for_ten_minutes_and_for_what_was_shown() {
    let cloud = two();
    serving(&cloud, &["--operate"], async |client| {
        let (_, one) = client.begin(&HOLD).await;
        let (_, other) = client.begin(&[("do", "give-up"), ("topic", "payments"), ("why", "poison")]).await;
        let (nonce, id) = (one.hidden("nonce").unwrap(), other.hidden("id").unwrap());
        assert_eq!(post_confirmation(client, &id, &nonce).await.status, 409, "of another question");
        assert_eq!(post_confirmation(client, &id, "").await.status, 409);
        client.skipped.store(10 * 60_000 + 30_000, std::sync::atomic::Ordering::Relaxed);
        let late = post_confirmation(client, &one.hidden("id").unwrap(), &nonce).await;
        assert_eq!(late.status, 409);
        assert!(late.text().contains("older than ten minutes"), "{}", late.text());
    })
    .await;
    assert!(!has_document(&cloud));
}

#[tokio::test]
async fn two_confirmations_at_once_act_once() {
    let cloud = two();
    serving(&cloud, &["--operate"], async |client| {
        let (_, asks) = client.begin(&HOLD).await;
        let (id, nonce) = (asks.hidden("id").unwrap(), asks.hidden("nonce").unwrap());
        let (one, other) =
            tokio::join!(post_confirmation(client, &id, &nonce), post_confirmation(client, &id, &nonce));
        let mut statuses = [one.status, other.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [303, 409]);
        let done = client.settled(&format!("job?id={id}")).await;
        assert!(done.text().contains("It is done."), "{}", done.text());
    })
    .await;
    assert_eq!(overrides(&cloud).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_cannot_be_confirmed_again() {
    let cloud = two();
    serving(&cloud, &["--operate"], async |client| {
        let (_, asks) = client.begin(&[("do", "retry"), ("topic", "payments"), ("why", "mended")]).await;
        let (id, nonce) = (asks.hidden("id").unwrap(), asks.hidden("nonce").unwrap());
        assert_eq!(post_confirmation(client, &id, &nonce).await.status, 303);
        let page = client.get(&format!("job?id={id}&stay=1")).await;
        assert!(page.text().contains("Retry now: under way"), "{}", page.text());
        assert_eq!(post_confirmation(client, &id, &nonce).await.status, 409);
        let reply = client.post("job", &[("id", &id), ("do", "stop")]).await;
        client.follow(reply).await;
        assert_eq!(post_confirmation(client, &id, &nonce).await.status, 409, "nor after its end");
    })
    .await;
    assert_eq!(overrides(&cloud).len(), 1);
}

/// A preview that waits for an answer is not at work, so more than eight can wait at once.
#[tokio::test]
async fn no_more_than_eight_actions_go_on_at_once() {
    let cloud = two();
    serving(&cloud, &["--operate"], async |client| {
        let mut asked = Vec::new();
        for _ in 0..10 {
            asked.push(client.begin(&HOLD).await.1);
        }
        cloud.script(|_| redrive_support::SimFault::Pass.after(std::time::Duration::from_mins(10)));
        let confirmed = asked.iter().map(async |page| {
            let (id, nonce) = (page.hidden("id").unwrap(), page.hidden("nonce").unwrap());
            post_confirmation(client, &id, &nonce).await
        });
        let replies = futures_util::future::join_all(confirmed).await;
        tokio::time::pause();
        let number = |status| replies.iter().filter(|reply| reply.status == status).count();
        assert_eq!((number(303), number(429)), (8, 2));
        let refused = replies.iter().find(|reply| reply.status == 429).unwrap();
        assert!(refused.text().contains("Too many actions are under way"), "{}", refused.text());
        cloud.script(|_| redrive_support::SimFault::Pass);
    })
    .await;
}

#[tokio::test]
async fn an_action_that_panics_has_ended_and_is_said_to_have_a_fault() {
    let cloud = two();
    let breaks = Arc::new(AtomicBool::new(false));
    let breaks_now = Arc::clone(&breaks);
    let config = stand_in::before(&cloud, move |asked: &StandInRequest<'_>| {
        assert!(!breaks_now.load(Ordering::Relaxed), "meant to panic");
        formation(asked, &OUTPUTS)
    });
    let ran = serving_with(config, &["--operate"], async |client| {
        let (_, asks) = client.begin(&HOLD).await;
        breaks.store(true, Ordering::Relaxed);
        let within = std::time::Duration::from_secs(30);
        let (to, page) = tokio::time::timeout(within, client.confirm(&asks)).await.unwrap();
        assert!(
            page.text().contains("The action crashed because of a bug in redrivectl."),
            "{}",
            page.text()
        );
        assert!(client.get("jobs").await.text().contains("Hold 1 ended"));
        breaks.store(false, Ordering::Relaxed);
        assert!(client.get(&to).await.text().contains("ended"));
    })
    .await;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(!has_document(&cloud));
}

/// An override to give up matches the letters of the preview, even if it is confirmed late.
#[tokio::test(start_paused = true)]
async fn what_is_confirmed_is_what_was_shown() {
    let cloud = two();
    serving(&cloud, &["--operate"], async |client| {
        let (_, asks) = client.begin(&[("do", "give-up"), ("topic", "payments"), ("why", "poison")]).await;
        // All times are those of S3.
        cloud.aws.clock().pass(std::time::Duration::from_mins(5));
        // This machine's clock is now slow. The page notes that, so the note differs from the confirmed one.
        let (_, asks) = client.confirm(&asks).await;
        assert!(asks.text().contains("it was: none"), "{}", asks.text());
        let (_, done) = client.confirm(&asks).await;
        assert!(done.text().contains("2 letters asked to wake"), "{}", done.text());
    })
    .await;
    let before: jiff::Timestamp = overrides(&cloud)[0]["arrivedBefore"].as_str().unwrap().parse().unwrap();
    assert!(before.as_second() - redrive_support::NOW / 1000 < 60, "{before}");
}

#[tokio::test(start_paused = true)]
async fn letters_are_woken_in_the_background_and_it_can_be_stopped() {
    let cloud = two();
    let ran = serving(&cloud, &["--operate"], async |client| {
        let form = [("do", "retry"), ("topic", "payments"), ("why", "mended"), ("rate", "100")];
        let (_, asks) = client.begin(&form).await;
        let (id, nonce) = (asks.hidden("id").unwrap(), asks.hidden("nonce").unwrap());
        let reply = post_confirmation(client, &id, &nonce).await;
        let page = client.get(reply.header("location").unwrap()).await;
        // The command waits 20 seconds before it wakes any letter.
        assert!(page.text().contains("Retry now: under way"), "{}", page.text());
        assert_eq!(page.header("refresh"), Some("2"));
        let stays = client.get(&format!("job?id={id}&stay=1")).await;
        assert_eq!(stays.header("refresh"), None);
        let reply = client.post("job", &[("id", &id), ("do", "stop")]).await;
        let (_, page) = client.follow(reply).await;
        assert!(page.text().contains("interrupted, 2 left hidden"), "{}", page.text());

        let (_, asks) = client.begin(&form).await;
        let (_, done) = client.confirm(&asks).await;
        assert!(done.text().contains("2 letters asked to wake"), "{}", done.text());
    })
    .await;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(overrides(&cloud).len(), 2, "stopping the waking does not take the override back");
    assert_eq!(cloud.calls("ChangeMessageVisibilityBatch").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn ctrl_c_stops_what_is_under_way() {
    let cloud = two();
    let ran = serving(&cloud, &["--operate"], async |client| {
        let (_, asks) = client.begin(&[("do", "retry"), ("topic", "payments"), ("why", "mended")]).await;
        let (id, nonce) = (asks.hidden("id").unwrap(), asks.hidden("nonce").unwrap());
        assert_eq!(post_confirmation(client, &id, &nonce).await.status, 303);
    })
    .await;
    assert_eq!(ran.code, 4);
    let lines: Vec<_> = ran.err.lines().collect();
    assert_eq!(lines[0], "redrivectl: 1 action under way: waiting until they have stopped");
    assert!(lines[1].starts_with("redrivectl: Retry now: Something failed, was interrupted"), "{}", ran.err);
    assert!(ran.err.contains("\n  0 letters asked to wake; interrupted, 2 left hidden.\n"), "{}", ran.err);
    let command = "redrivectl: Retry now: its command was: redrivectl retry --topic payments --why=mended --stack payments";
    assert_eq!(lines.last(), Some(&command));
    assert_eq!(cloud.calls("ChangeMessageVisibilityBatch").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_released() {
    let cloud = two();
    let hold = json!({
        "id": "h1", "do": "hold", "match": { "topicArn": [TOPIC] }, "at": "2026-11-01T10:00:00Z", "by": "ada", "why": "down",
    });
    put_overrides(&cloud, &[hold]);
    serving(&cloud, &["--operate"], async |client| {
        let (_, asks) = client.begin(&[("do", "release"), ("override", "h1"), ("why", "up again")]).await;
        let text = asks.text();
        assert!(text.contains("releases h1") && text.contains("Release at most 2 letters"), "{text}");
        let (_, done) = client.confirm(&asks).await;
        assert!(done.text().contains("Released 1 override"), "{}", done.text());
        // Somebody else released it first.
        let (_, page) = client.begin(&[("do", "release"), ("override", "h1"), ("why", "x")]).await;
        assert!(page.text().contains("there is no override h1"), "{}", page.text());
    })
    .await;
    assert_eq!(overrides(&cloud), [] as [Value; 0]);
    let ended: Value =
        serde_json::from_str(&cloud.objects()["my-bucket/dead-letters-control/overrides/h1.json"]).unwrap();
    assert_eq!(ended["ended"]["why"], "up again");
}

/// Another hold matches the same letters.
#[tokio::test(start_paused = true)]
async fn letters_that_stay_held_after_a_release_are_said_to_be() {
    let cloud = two();
    put_overrides(&cloud, &[override_("other", "hold", None), override_("h1", "hold", None)]);
    serving(&cloud, &["--operate"], async |client| {
        let (_, asks) = client.begin(&[("do", "release"), ("override", "h1"), ("why", "up again")]).await;
        assert!(asks.text().contains("2 letters, which another hold still holds"), "{}", asks.text());
        let (_, done) = client.confirm(&asks).await;
        let says = "Released; at most 2 letters held by another override.";
        assert!(done.text().contains(says) && !done.text().contains("It is done."), "{}", done.text());
    })
    .await;
}

#[tokio::test]
async fn what_strangers_wrote_forges_nothing() {
    let cloud = two();
    let evil = "</code><script>alert(1)</script><form action=x>\u{202e}";
    let mut forged = override_("evil", "hold", None);
    forged["why"] = evil.into();
    forged["by"] = evil.into();
    put_overrides(&cloud, &[forged]);
    serving(&cloud, &["--operate"], async |client| {
        let link = format!("act?{}", super::encoded(&[("do", "hold"), ("topic", evil)]));
        let form = client.get(&link).await;
        let (_, asks) = client.begin(&[("do", "hold"), ("topic", evil), ("why", evil)]).await;
        for page in [form, asks, client.get("jobs").await] {
            assert_eq!(page.status, 200);
            for tag in ["<script", "<form action=x", "\u{202e}"] {
                assert!(!page.body.contains(tag), "{tag}: {}", page.body);
            }
            assert!(page.body.contains("&lt;script&gt;"), "{}", page.body);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_preview_says_what_is_woken_and_when_the_override_is_too_short() {
    let cloud = TestAccount::new();
    waits(&cloud, "2026-11-01T11:00:00Z", 0..500);
    put_overrides(&cloud, &[override_("one", "hold", None)]);
    serving(&cloud, &["--operate"], async |client| {
        let wakes =
            "wakes 500 hidden letters, beginning 20 s after the override, 10 a second; takes about 70 s";
        let ends = "waking ends with redrivectl serve";
        let (short, long) = (("for", "30s"), ("for", "1h"));
        for (doing, what, lasts, is_short) in [
            ("retry", ("topic", "payments"), short, true),
            ("retry", ("topic", "payments"), long, false),
            ("give-up", ("topic", "payments"), short, true),
            ("release", ("override", "one"), ("why", "up"), false),
        ] {
            let form = [("do", doing), what, ("rate", "10"), ("why", "up"), lasts];
            let form = if doing == "release" { &form[..4] } else { &form[..] };
            let (_, asks) = client.begin(form).await;
            let text = asks.text();
            assert!(text.contains(wakes) && text.contains(ends), "{doing}: {text}");
            let says = "too short the override ends before the last letter is asked to wake";
            assert_eq!(text.contains(says), is_short, "{doing}: {text}");
        }
        // A hold wakes no letters.
        let (_, asks) = client.begin(&HOLD).await;
        assert!(!asks.text().contains("wakes"), "{}", asks.text());
    })
    .await;
}
