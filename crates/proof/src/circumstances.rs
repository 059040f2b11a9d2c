//! The circumstances of figures (machine, versions, date), and their place in a page.

use std::fs;
use std::process::Command;

/// Returns the page with the text in the place of this name.
#[must_use]
pub fn put(page: &str, name: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- measured: {name} -->\n"), "<!-- end -->");
    let from = page.find(&begin).unwrap_or_else(|| panic!("the page has no place for {name}")) + begin.len();
    let until = from + page[from..].find(end).expect("the place ends");
    format!("{}{text}{}", &page[..from], &page[until..])
}

/// Returns the circumstances in one line.
#[must_use]
pub fn circumstances() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown processor", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let manifest = fs::read_to_string("Cargo.toml").unwrap_or_default();
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = ")).unwrap_or("unknown");
    format!(
        "{cores} cores of {model}, {}; {}; sns-redrive {} at commit {}; {}.",
        said("uname", &["-sm"]),
        said("rustc", &["--version"]),
        version.trim_matches('"'),
        said("git", &["describe", "--always", "--dirty"]),
        said("date", &["-u", "+%Y-%m-%d"]),
    )
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(|_| "unknown".to_owned(), |it| String::from_utf8_lossy(&it.stdout).trim().to_owned())
}
