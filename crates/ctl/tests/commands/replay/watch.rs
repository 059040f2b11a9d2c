//! The progress of a running replay on a terminal.

use std::time::Duration;

use indicatif::InMemoryTerm;

use super::*;

/// A terminal of so many columns.
fn terminal(columns: u16) -> InMemoryTerm {
    InMemoryTerm::new(20, columns)
}

fn posts(count: usize) -> Vec<RecordBuilder> {
    (0..count).map(|number| RecordBuilder::envelope(&number.to_string())).collect()
}

/// An archive of so many letters, which its index tells.
fn indexed(count: usize) -> TestAccount {
    archived_at(&INDEXED.replace("n10", &format!("n{count}")), &posts(count))
}

/// A replay of the whole archive before somebody's eyes, at 100 letters a second and 60 s after a step.
async fn watched(cloud: &TestAccount, terminal: &InMemoryTerm, args: &[&str]) -> CommandRun {
    let world = CommandWorld { terminal: Some(terminal.clone()), ticks: true, ..CommandWorld::on(cloud) };
    let pace = ["--rate", "100", "--settle", "60"];
    redrivectl_in(world, &[&["replay", "--all", "--yes"], args, &PLACE, &pace].concat()).await
}

/// Returns the content of the terminal after each of these times, in milliseconds.
async fn seen(terminal: &InMemoryTerm, times: &[u64]) -> Vec<String> {
    let (mut seen, mut before) = (Vec::new(), 0);
    for time in times {
        tokio::time::sleep(Duration::from_millis(time - before)).await;
        seen.push(terminal.contents());
        before = *time;
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn it_tells_letters_rate_time_left_and_step_and_counts_down_while_a_step_settles() {
    let cloud = indexed(1000);
    let screen = terminal(100);
    let looks = seen(&screen, &[2_100, 10_600, 64_600, 70_000]);
    let (ran, seen) = tokio::join!(watched(&cloud, &screen, &["--ramp", "50,100"]), looks);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(
        seen,
        [
            "[######..............] 300 of 1,000 letters, 100/s, 0:01:07 left, step 1 of 2",
            "[##########..........] 500 of 1,000 letters, step 1 of 2 judged in 0:00:54, 0:00:59 left",
            "[############........] 600 of 1,000 letters, 100/s, 0:00:04 left, step 2 of 2",
            "",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_selection_that_may_be_smaller_says_so_and_ends_full() {
    let cloud = archived(&posts(150));
    let screen = terminal(100);
    let looks = seen(&screen, &[900]);
    let (ran, seen) = tokio::join!(watched(&cloud, &screen, &["--ramp", "100"]), looks);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(seen[0].contains("] 100 of at most 3"), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_left_out_stands_above_the_bar_and_is_counted_beside_it() {
    let key = INDEXED.replace("n10", "n151");
    let cloud = archived_at(&key, &[]);
    let lines = posts(150).iter().map(|post| line(post) + "\n").collect::<String>() + "{\"version\": 2}\n";
    cloud.put_at(&format!("my-bucket/{key}"), &lines, "2026-10-31T12:00:00.000Z");
    let screen = terminal(160);
    let looks = seen(&screen, &[500, 3_000]);
    let (ran, seen) = tokio::join!(watched(&cloud, &screen, &["--ramp", "90,100"]), looks);
    assert_eq!(ran.code, 3, "{ran:?}");
    let left_out = format!("redrivectl: {key}:151: has version 2, but this software reads only version 1");
    let (above, bar) = seen[0].split_once('\n').unwrap();
    assert_eq!(above, left_out);
    assert!(bar.starts_with("[#############.......] 100 of 151 letters, "), "{bar}");
    let bar = seen[1].rsplit('\n').next().unwrap();
    assert!(bar.ends_with(" left, 1 left out"), "{bar}");
    assert_eq!(screen.contents(), left_out, "the bar is gone in the end");
}

#[tokio::test(start_paused = true)]
async fn a_narrow_terminal_has_one_line_too() {
    let cloud = indexed(300);
    let screen = terminal(50);
    let looks = seen(&screen, &[1_500]);
    let (_, seen) = tokio::join!(watched(&cloud, &screen, &["--ramp", "100"]), looks);
    assert_eq!(seen, ["[#############.......] 200 of 300 letters, 100/s,"]);
}

#[tokio::test(start_paused = true)]
async fn after_ctrl_c_it_says_that_it_stops_and_leaves_a_clean_line() {
    let cloud = indexed(1000);
    let screen = terminal(100);
    let interrupted = Arc::new(AtomicBool::new(false));
    let world = CommandWorld {
        terminal: Some(screen.clone()),
        ticks: true,
        interrupted: Arc::clone(&interrupted),
        ..CommandWorld::on(&cloud)
    };
    // The last requests take their time.
    let slow = Arc::clone(&interrupted);
    cloud.script(move |_| {
        let wait = u64::from(slow.load(Ordering::Relaxed));
        SimFault::Pass.after(Duration::from_secs(wait))
    });
    let args = [&["replay", "--all", "--yes", "--rate", "100", "--ramp", "100"], &PLACE[..]].concat();
    let presses = async {
        tokio::time::sleep(Duration::from_millis(2_100)).await;
        interrupted.store(true, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(600)).await;
        screen.contents()
    };
    let (ran, seen) = tokio::join!(redrivectl_in(world, &args), presses);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert_eq!(
        seen,
        "[######..............] 300 of 1,000 letters, stopping; press Ctrl-C again to end at once"
    );
    assert_eq!(screen.contents(), "");
}

#[tokio::test(start_paused = true)]
async fn without_a_terminal_and_with_json_lines_alone_are_written() {
    let lines = line(&posts(1)[0]) + "\n{\"version\": 2}\n";
    let screen = terminal(100);
    for (json, terminal) in [
        (&[][..], None),
        (&["--json"], None),
        (&["--json"], Some(screen.clone())),
        (&[], Some(screen.clone())),
    ] {
        let cloud = archived(&[]);
        cloud.put_at(&format!("my-bucket/{KEY}"), &lines, "2026-10-31T12:00:00.000Z");
        let world = CommandWorld { terminal: terminal.clone(), ticks: true, ..CommandWorld::on(&cloud) };
        let args = [&["replay", "--all", "--yes", "--ramp", "50,100"], json, &PLACE, &AT_ONCE].concat();
        let ran = redrivectl_in(world, &args).await;
        assert_eq!(ran.code, 3, "{ran:?}");
        if terminal.is_none() {
            let said =
                format!("redrivectl: {KEY}:2: has version 2, but this software reads only version 1\n");
            assert_eq!(ran.err, said, "{json:?}");
        } else {
            // What the terminal was told to do.
            let has_bar = screen.moves_since_last_check().contains("Clear");
            assert_eq!(has_bar, json.is_empty(), "{json:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_log_each_step_has_its_lines() {
    let cloud = archived_at(INDEXED, &posts(10));
    let world = CommandWorld { lines: true, ticks: true, ..CommandWorld::on(&cloud) };
    let args =
        [&["replay", "--all", "--yes", "--ramp", "50,100", "--settle", "90", "--rate", "10000"], &PLACE[..]]
            .concat();
    let ran = redrivectl_in(world, &args).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines = [
        "0 of 10 letters, 0:01:30 left, step 1 of 2",
        "5 of 10 letters, step 1 of 2 judged in 0:01:30, 0:01:30 left",
        "5 of 10 letters, step 1 of 2 judged in 0:00:30, 0:00:30 left",
        "5 of 10 letters, 0:00:00 left, step 2 of 2",
        "10 of 10 letters sent: done",
    ];
    assert_eq!(ran.err.lines().collect::<Vec<_>>(), lines.map(|line| format!("redrivectl: {line}")));
}
