#![no_main]

#[path = "../laws/mod.rs"]
#[allow(dead_code, reason = "each target tries one of the laws")]
mod laws;

libfuzzer_sys::fuzz_target!(|data: &[u8]| laws::archive_records::check(data));
