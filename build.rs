//! Leaves out the tables for unwinding: a tenth of a release binary, which a cold start reads. Nothing unwinds there, since a
//! panic ends the process. The linker drops them, because rustc's `force-unwind-tables=no` changes nothing in a binary with LTO.
//! crates/console/ has the same build script.

use std::io::Result;
use std::path::Path;

/// Adds to the linker's own script, which decides everything else.
const SCRIPT: &str = "SECTIONS { /DISCARD/ : {
    *(.eh_frame) *(.eh_frame_hdr) *(.gcc_except_table .gcc_except_table.*)
} } INSERT AFTER .text;
";

fn main() -> Result<()> {
    println!("cargo::rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    let var = |name| std::env::var(name).unwrap_or_default();
    // Not every linker reads such a script: mold and gold do not.
    let is_own_linker = var("CARGO_ENCODED_RUSTFLAGS").contains("fuse-ld");
    if var("PROFILE") == "release" && var("CARGO_CFG_TARGET_OS") == "linux" && !is_own_linker {
        let script = Path::new(&var("OUT_DIR")).join("no-tables.ld");
        std::fs::write(&script, SCRIPT)?;
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
    }
    Ok(())
}
