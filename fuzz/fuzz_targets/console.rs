#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| console_law::check(data));
