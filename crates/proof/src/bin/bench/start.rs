//! The size of the artifact, the start of the process, and the first batch.

use std::env::consts::ARCH;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::letters::{SizedPart, event};
use crate::page::{FigureTable, sizes};
use crate::run::BenchProcess;
use crate::stat::{mebibytes, median, millis};

const STARTS: usize = 41;

const CHAIN: &str = include_str!("../../../../../tests/data/https/localhost.pem");
const KEY: &str = include_str!("../../../../../tests/data/https/localhost.key");
const AUTHORITY: &str = include_str!("../../../../../tests/data/https/authority.pem");
/// The certificates that a system trusts, if it has one of these files. Reading them is a part of the first
/// batch.
const SYSTEM: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

pub(crate) fn table(binary: &Path) -> FigureTable {
    let mut table = FigureTable::new("start", "| what | figure |");
    let (bytes, zipped) = sizes(binary);
    let mut starts = Vec::new();
    let mut idle = Vec::new();
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let mut run = tls(binary);
        starts.push(run.sandbox.start_time(Duration::ZERO).expect("it has started"));
        idle.push(run.sandbox.memory("VmRSS").expect("a running process"));
        first.push(run.invoke(event(1, 1_024, SizedPart::Body, 1)).0);
        second.push(run.invoke(event(1, 1_024, SizedPart::Body, 1)).0);
    }
    let _ = std::fs::remove_file(trusted());
    let megabytes = |bytes: usize| mebibytes(bytes.try_into().expect("a size")) * 1.048_576;
    let (bytes, zipped) = (megabytes(bytes), megabytes(zipped));
    let [start, first, second] = [&mut starts, &mut first, &mut second].map(|times| millis(median(times)));
    let idle = mebibytes(median(&mut idle));
    let mut row = |what: &str, figure: String| table.rows.push(format!("| {what} | {figure} |"));
    row("binary", format!("{bytes:.2} MB"));
    row("zipped", format!("{zipped:.2} MB"));
    row("start of the process to its first request for work", format!("{start:.1} ms"));
    row("memory then", format!("{idle:.1} MB"));
    row("first batch over TLS, one letter, endpoints without latency", format!("{first:.1} ms"));
    row("second batch", format!("{second:.1} ms"));
    table.aim(&format!("binary of 6 MB ({ARCH})"), format!("{bytes:.2} MB"), bytes <= 6.0);
    table.aim(&format!("3 MB zipped ({ARCH})"), format!("{zipped:.2} MB"), zipped <= 3.0);
    table.aim("start within 10 ms", format!("{start:.1} ms"), start <= 10.0);
    table.aim("first batch over TLS within 15 ms", format!("{first:.1} ms"), first <= 15.0);
    table.aim("16 MB idle", format!("{idle:.1} MB"), idle <= 16.0);
    table
}

/// Starts the function with endpoints behind TLS; their authority is added to those of the system.
fn tls(binary: &Path) -> BenchProcess {
    let system = SYSTEM.iter().find_map(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    let trusted = trusted();
    std::fs::write(&trusted, [&system, AUTHORITY].concat()).expect("a file of certificates");
    let variables = [
        ("ARCHIVE", "s3://my-bucket/dead-letters".to_owned()),
        ("CONTROL", "off".to_owned()),
        ("SSL_CERT_FILE", trusted.to_str().expect("a path of text").to_owned()),
    ];
    BenchProcess::with_tls(binary, &variables, CHAIN, KEY)
}

fn trusted() -> PathBuf {
    std::env::temp_dir().join(format!("sns-redrive-bench-{}.pem", std::process::id()))
}
