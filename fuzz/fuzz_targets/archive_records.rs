#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| redrive_laws::archive_records::check(data));
