"""Checks that no files of a crate use each other in a circle, over `use` and paths. Tests are left out.

What a `pub use` names counts where the name is used, as if it were named where it is defined.
"""

import pathlib
import re
import sys

SOURCES = ["src", *(f"crates/{name}/src" for name in ["archive", "aws", "console", "core", "ctl", "replay"])]
USE = re.compile(r"(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
PATH = re.compile(r"\b(?:crate|super|self)(?:::\w+)+")

Module = tuple[str, ...]


def code(path: pathlib.Path) -> str:
    text = re.sub(r"//[^\n]*", "", path.read_text())
    return re.split(r"#\[cfg\(test\)\]\s*mod \w+ \{", text)[0]


def module(path: pathlib.Path) -> Module:
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] in ("mod", "lib") else parts


def names(tree: str, prefix: str = "") -> list[str]:
    """The paths of a tree of names, such as `a::{b, c::d}`."""
    head, brace, rest = tree.strip().partition("{")
    if not brace:
        return [prefix + head.partition(" as ")[0].strip()]
    parts, depth = [""], 0
    for letter in rest.rstrip()[:-1]:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [name for part in parts if part.strip() for name in names(part, prefix + head)]


class Crate:
    def __init__(self, folder: str) -> None:
        files = pathlib.Path(folder).rglob("*.rs")
        paths = {path.relative_to(folder): path for path in files}
        self.code = {
            module(name): code(path)
            for name, path in paths.items()
            if name.parts[0] not in ("bin", "main.rs") and "tests" not in name.with_suffix("").parts
        }
        self.exports: dict[tuple[Module, str], tuple[Module, str]] = {}
        for where, text in self.code.items():
            for public, tree in USE.findall(text):
                for name in names(tree) if public else []:
                    self.exports[where, name.split("::")[-1]] = where, name

    def file(self, where: Module, name: str, seen: frozenset = frozenset()) -> Module | None:
        """The file that defines what a path names, seen from a file; none if it is of another crate."""
        first, *parts = name.split("::")
        if first == "crate":
            where = ()
        elif first == "super":
            where = where[:-1]
            while parts and parts[0] == "super":
                where, parts = where[:-1], parts[1:]
        elif first != "self":
            if (*where, first) not in self.code:
                return None
            parts = [first, *parts]
        while parts and (*where, parts[0]) in self.code:
            where, parts = (*where, parts[0]), parts[1:]
        export = (where, parts[0]) if parts else None
        if export in self.exports and export not in seen:
            return self.file(*self.exports[export], seen | {export})
        return where if where in self.code else None

    def uses(self, where: Module) -> set[Module]:
        text = self.code[where]
        found = {name for public, tree in USE.findall(text) if not public for name in names(tree)}
        rest = USE.sub("", text)
        found |= set(PATH.findall(rest)) | {f"self::{name}" for name in re.findall(r"(?<![\w:])(\w+)::", rest)}
        return {used for name in found if (used := self.file(where, name)) is not None and used != where}

    def circle(self) -> list[Module]:
        """Files that use each other in a circle, or none: what is left when files are taken away that use no other."""
        left = {where: self.uses(where) for where in self.code}
        while free := [where for where, used in left.items() if not used & left.keys()]:
            for where in free:
                del left[where]
        # The same from above, so that what only uses a circle is not told.
        while free := [where for where in left if not any(where in used for used in left.values())]:
            for where in free:
                del left[where]
        return sorted(left)


def main() -> None:
    circles = {folder: circle for folder in SOURCES if (circle := Crate(folder).circle())}
    for folder, circle in circles.items():
        print(f"{folder}: files use each other in a circle: {', '.join('/'.join(file) or 'lib' for file in circle)}")
    sys.exit(bool(circles))


if __name__ == "__main__":
    main()
