"""How large a file is, and how large in a zip: what `make package` has made."""

import sys
import zlib
from pathlib import Path

for name in sys.argv[1:]:
    content = Path(name).read_bytes()
    print(f"{name}: {len(content):,} bytes, {len(zlib.compress(content, 9)):,} zipped")
