"""How large a file is, and how large in a zip: what `make package` has made. It fails at what Lambda never reads."""

import struct
import sys
import zlib
from pathlib import Path

# The type of a section that names every function (SHT_SYMTAB): a fifth of the file.
SYMBOLS = 2

# The type of the segment that finds the tables for unwinding (PT_GNU_EH_FRAME): with them a tenth.
UNWINDING = 0x6474E550


def main(names: list[str]) -> None:
    for name in names:
        content = Path(name).read_bytes()
        print(f"{name}: {len(content):,} bytes, {len(zlib.compress(content, 9)):,} zipped")
        if SYMBOLS in types_in(content, 0x28, 0x3A, 4):
            sys.exit(f"{name} has its symbols: `strip = true` in Cargo.toml's [profile.release] removes them")
        if UNWINDING in types_in(content, 0x20, 0x36, 0):
            sys.exit(f"{name} has tables for unwinding: build.rs leaves them out, unless RUSTFLAGS name a linker")


def types_in(elf: bytes, table_at: int, size_at: int, type_at: int) -> set[int]:
    """Returns the types in one of the tables of a 64-bit ELF file: of its sections or its segments."""
    (table,) = struct.unpack_from("<Q", elf, table_at)
    size, count = struct.unpack_from("<HH", elf, size_at)
    return {struct.unpack_from("<I", elf, table + number * size + type_at)[0] for number in range(count)}


main(sys.argv[1:])
