"""How large a file is, and how large in a zip: what `make package` has made. Fails if a file still has its symbols."""

import struct
import sys
import zlib
from pathlib import Path

# Of a section that names every function (SHT_SYMTAB): a fifth of the file, and nobody reads it in Lambda.
SYMBOLS = 2


def main(names: list[str]) -> None:
    for name in names:
        content = Path(name).read_bytes()
        print(f"{name}: {len(content):,} bytes, {len(zlib.compress(content, 9)):,} zipped")
        if SYMBOLS in sections_of(content):
            sys.exit(f"{name} has its symbols: `strip = true` in Cargo.toml's [profile.release] removes them")


def sections_of(elf: bytes) -> set[int]:
    """Returns the types of the sections of a 64-bit ELF file."""
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count = struct.unpack_from("<HH", elf, 0x3A)
    return {struct.unpack_from("<I", elf, table + number * size + 4)[0] for number in range(count)}


main(sys.argv[1:])
