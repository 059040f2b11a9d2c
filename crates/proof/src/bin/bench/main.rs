//! A tool that measures the function as Lambda runs it: its calls, its speed, its memory, its start.
//!
//! `bench [--function FILE] [--bare FILE | --alone] [--pipeline FILE] [--write PAGE] [cost|speed|memory|start ...]`
//!
//! `bench [--function FILE] --alone limit` only checks that the largest batches fit into the least memory.
//! `bench [--redrivectl FILE] --alone wake [--write PAGE]` measures how long 100,000 waiting letters take to
//! wake.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a tool for measuring: what is not as it must be ends it"
)]

mod cost;
mod letters;
mod memory;
mod page;
mod pipeline;
mod run;
mod speed;
mod start;
mod stat;
mod wake;

use std::path::PathBuf;
use std::process::ExitCode;

use page::FigureTable;
use run::BenchBinaries;

const PARTS: [&str; 4] = ["cost", "speed", "memory", "start"];

/// The check of the largest batches, which runs only when it is asked for.
const LIMIT: &str = "limit";

/// The measurement of waking, which runs only when it is asked for, because it takes minutes.
const WAKE: &str = "wake";

fn main() -> ExitCode {
    redrive_proof::panics_are_failures();
    let mut binaries = BenchBinaries {
        function: PathBuf::from("target/release/sns-redrive"),
        bare: Some(PathBuf::from("target/release/examples/bare")),
    };
    let mut redrivectl = PathBuf::from("target/release/redrivectl");
    let (mut pipeline, mut write, mut parts) = (None, None, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--function" => binaries.function = arguments.next().expect("--function FILE").into(),
            "--bare" => binaries.bare = Some(arguments.next().expect("--bare FILE").into()),
            "--alone" => binaries.bare = None,
            "--redrivectl" => redrivectl = arguments.next().expect("--redrivectl FILE").into(),
            "--pipeline" => pipeline = Some(arguments.next().expect("--pipeline FILE")),
            "--write" => write = Some(arguments.next().expect("--write PAGE")),
            part if PARTS.contains(&part) || part == LIMIT || part == WAKE => parts.push(part.to_owned()),
            other => {
                eprintln!(
                    "{other}: not known; bench [--function FILE] [--bare FILE | --alone] [--pipeline FILE] [--write PAGE] {PARTS:?}"
                );
                return ExitCode::from(2);
            }
        }
    }
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|it| it == part);
    let mut tables: Vec<FigureTable> = Vec::new();
    if parts.iter().any(|part| part == LIMIT)
        && let Err(faults) = memory::limit(&binaries.function)
    {
        eprintln!("{}", faults.join("\n"));
        return ExitCode::FAILURE;
    }
    if wanted("cost") {
        match cost::table(&binaries.function) {
            Ok(table) => tables.push(table),
            Err(faults) => {
                eprintln!("{}", faults.join("\n"));
                return ExitCode::FAILURE;
            }
        }
    }
    if wanted("start") {
        tables.push(start::table(&binaries.function));
    }
    if wanted("speed") {
        tables.push(speed::table(&binaries));
    }
    if wanted("memory") {
        tables.extend(memory::tables(&binaries.function));
    }
    let wakes = parts.iter().any(|part| part == WAKE);
    if wakes {
        tables.push(wake::table(&redrivectl));
    }
    let told =
        pipeline.map(|path| std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}")));
    if let (Some(told), true, true) = (&told, PARTS.iter().all(|part| wanted(part)), binaries.bare.is_some())
    {
        let mut aims = FigureTable::new("aims", "| aim | figure | met |");
        for table in &mut tables {
            aims.rows.append(&mut table.aims);
        }
        pipeline::aim(&mut aims, told);
        aims.rows.append(&mut aims.aims);
        tables.push(aims);
    }
    for table in &tables {
        println!("{}", table.text());
    }
    if let Some(path) = write {
        let mut text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        // The page has the aims that are missed.
        for aims in tables.iter_mut().filter(|table| table.name == "aims") {
            aims.rows.retain(|row| row.ends_with("| no |"));
        }
        for table in &tables {
            text = redrive_proof::put(&text, table.name, &table.text());
        }
        if let Some(told) = told {
            text = redrive_proof::put(&text, "pipeline", &pipeline::table(&told).text());
        }
        if wakes {
            text = redrive_proof::put(
                &text,
                "circumstances-wake",
                &format!("{}\n", redrive_proof::circumstances()),
            );
        }
        if parts.is_empty() {
            text =
                redrive_proof::put(&text, "circumstances", &format!("{}\n", redrive_proof::circumstances()));
        }
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    ExitCode::SUCCESS
}
