#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| redrive_laws::bytes::letters::check(data));
