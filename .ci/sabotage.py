"""Breaks the software on purpose, one way at a time, and says whether the proof that is to notice does.

Each crates/proof/sabotage/*.patch says what it breaks, then `Proof: <kind> <which>`, then the changes. All
of it happens in a copy of the source below target/, with a build of its own.
"""

import os
import pathlib
import subprocess
import sys
import time

PATCHES = pathlib.Path("crates/proof/sabotage")
TREE = pathlib.Path("target/sabotage/tree")
BUILD = pathlib.Path("target/sabotage/build")
# With the profile and, for the sake of an example, the features of the tests. Else the SDK would be compiled twice.
BINARIES = ["cargo", "build", "--quiet", "--workspace", "--profile", "test", "--bins", "--example", "page"]
# A change may make a test wait for ever, which is noticed as well.
PATIENCE = 900


def commands(proof: str) -> tuple[list[str], list[str]]:
    """How to build a proof and how to run it."""
    kind, _, which = proof.partition(" ")
    if kind == "core":
        build = ["cargo", "test", "--quiet", "--package", "redrive-model", "--test", "simulation"]
    elif kind == "simulation":
        # The whole workspace, so that nothing is compiled twice for other features.
        build = ["cargo", "test", "--quiet", "--workspace", "--test", "simulation"]
    elif kind in ("matrix", "replay"):
        binaries = (BUILD / "debug").resolve()
        soak = [f"{binaries}/soak", "--function", f"{binaries}/sns-redrive", "--alone", kind, "--only", which]
        # For soaks of a replay; as `make faults` has them.
        soak += ["--letters", "2000", "--seed", "1"]
        return BINARIES, soak
    else:
        sys.exit(f"{kind}: no such proof")
    return [*build, "--no-run"], [*build, "--", which]


def run(command: list[str]) -> tuple[bool, str]:
    """Whether it succeeds, and what it says."""
    variables = {
        "CARGO_TARGET_DIR": BUILD.resolve(),
        # git must not take the copy for a part of the repository around it.
        "GIT_CEILING_DIRECTORIES": TREE.parent.resolve(),
        # The same worlds with the change as without. Whether a law is broken is asked, not by how little.
        "PROPTEST_RNG_SEED": 1,
        "PROPTEST_MAX_SHRINK_ITERS": 0,
        "RUST_BACKTRACE": 0,
    }
    command = ["env", *(f"{name}={value}" for name, value in variables.items()), *command]
    done = subprocess.run(
        ["timeout", str(PATIENCE), *command], cwd=TREE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.returncode == 0, done.stdout


def read(patch: pathlib.Path) -> tuple[str, str]:
    """What a patch breaks, and the proof that is to notice."""
    head = patch.read_text().partition("\ndiff --git ")[0]
    says, _, proof = head.partition("\nProof: ")
    return says.strip(), proof.strip()


def restore() -> None:
    """Makes the copy what the source is. A file that is the same keeps its time, so it is not compiled again."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True, stdout=subprocess.PIPE
    )
    names = set(filter(None, listed.stdout.decode().split("\0")))
    for folder, _, files in os.walk(TREE):
        for copy in (pathlib.Path(folder, file) for file in files):
            if str(copy.relative_to(TREE)) not in names:
                copy.unlink()
    for name in names:
        source, copy = pathlib.Path(name), TREE / name
        if not source.is_file():
            copy.unlink(missing_ok=True)
        elif not copy.is_file() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())


def tail(text: str) -> str:
    return "\n".join(text.splitlines()[-20:])


def main(only: str) -> None:
    patches = sorted((path, *read(path)) for path in PATCHES.glob("*.patch"))
    patches = [patch for patch in patches if only in patch[0].stem or patch[2].startswith(only)]
    if not patches:
        sys.exit(f"no patch and no proof is called {only}")
    passed: set[str] = set()
    problems: list[str] = []
    for patch, says, proof in patches:
        began = time.monotonic()
        build, prove = commands(proof)
        restore()
        # What fails anyway notices nothing.
        if proof not in passed:
            for command in (build, prove):
                good, text = run(command)
                if not good:
                    sys.exit(f"{proof} fails without any change:\n{tail(text)}")
            passed.add(proof)
        applied, text = run(["git", "apply", str(patch.resolve())])
        built, text = run(build) if applied else (False, text)
        if built:
            missed, text = run(prove)
            state = "NOT CAUGHT" if missed else "caught"
        else:
            state = "DOES NOT COMPILE" if applied else "DOES NOT APPLY"
        print(f"{time.monotonic() - began:6.0f} s  {state:<16} {patch.stem}: {says} [{proof}]", flush=True)
        if state != "caught":
            problems.append(patch.stem)
            print(tail(text), flush=True)
    restore()
    if problems:
        sys.exit(f"{len(problems)} of {len(patches)}: {', '.join(problems)}")
    print(f"all {len(patches)} were caught")


if __name__ == "__main__":
    main(*(sys.argv[1:] or [""]))
