"""Writes the SBOM of the function or of redrivectl: what is compiled into it, and nothing that only builds or tests it.

cargo-cyclonedx goes by the lock file. It also lists optional crates that nobody switches on, and macro crates, which
run at compile time only. `cargo tree` knows these.
"""

import json
import pathlib
import subprocess
import sys
import urllib.parse

# The binary that is described, for each package.
BINARIES = {"sns-redrive": "sns-redrive_bin.cdx.json", "redrive-ctl": "crates/ctl/redrivectl_bin.cdx.json"}
# Parts that are in this repository, and have no archive whose hash could be told.
OURS = [
    "crc-fast",
    "redrive-archive",
    "redrive-aws",
    "redrive-console",
    "redrive-core",
    "redrive-replay",
    "sns-redrive",
]


def main(cyclonedx: str, package: str, out: str, target: str) -> None:
    command = [cyclonedx, "cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5"]
    run([*command, "--describe", "binaries", "--target", target, "--no-build-deps"])
    bom = json.loads(pathlib.Path(BINARIES[package]).read_text())
    # It writes a list beside every binary of the workspace.
    for path in pathlib.Path().glob("**/*_bin.cdx.json"):
        if "target" not in path.parts:
            path.unlink()

    # Else our own crates would be named by their directories on this machine.
    own = [part for part in [bom["metadata"]["component"], *bom["components"]] if part["bom-ref"].startswith("path+")]
    for part in own:
        part["purl"] = f"pkg:cargo/{part['name']}@{urllib.parse.quote(part['version'])}"
    text = json.dumps(bom)
    for part in own:
        text = text.replace(json.dumps(part["bom-ref"]), json.dumps(part["purl"]))
    bom = json.loads(text)

    linked = crates_in_tree(package, target)
    bom["components"] = [part for part in bom["components"] if (part["name"], part["version"]) in linked]
    kept = {part["bom-ref"] for part in bom["components"]} | {bom["metadata"]["component"]["bom-ref"]}
    bom["dependencies"] = [
        {**edges, "dependsOn": [ref for ref in edges.get("dependsOn", []) if ref in kept]}
        for edges in bom["dependencies"]
        if edges["ref"] in kept
    ]
    check(package, bom, linked, kept)
    path = pathlib.Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(bom, indent=1) + "\n")
    print(f"{path}: CycloneDX {bom['specVersion']}, {len(bom['components'])} components")


def crates_in_tree(package: str, target: str) -> set[tuple[str, str]]:
    """Name and version of each crate that a package is linked with, but for its own."""
    edges = ["--package", package, "--edges", "normal,no-proc-macro", "--target", target]
    lines = run(["cargo", "tree", "--locked", "--prefix", "none", "--format", "{p}", *edges]).splitlines()
    crates = {(name, version.removeprefix("v")) for name, version, *_ in map(str.split, filter(None, lines))}
    return {crate for crate in crates if crate[0] != package}


def check(package: str, bom: dict, linked: set[tuple[str, str]], kept: set[str]) -> None:
    parts = bom["components"]
    names = [(part["name"], part["version"]) for part in parts]
    missing = linked - set(names)
    hashed = [part for part in parts if part["name"] not in OURS]
    unsure = {part["name"] for part in parts if not (part.get("purl") and part.get("licenses"))}
    unsure |= {part["name"] for part in hashed if not part.get("hashes")}
    own = bom["metadata"]["component"]["name"]
    problems = [
        (bom["bomFormat"], bom["specVersion"]) != ("CycloneDX", "1.5") and "is no CycloneDX 1.5",
        own != package and f"is of {own}",
        missing and f"lacks {sorted(missing)}",
        len(names) != len(linked) and f"has {len(names)} components, cargo tree {len(linked)}",
        "file:" in json.dumps(bom) and "names a directory of this machine",
        unsure and f"has no purl, hash or licence of {unsure}",
        {edges["ref"] for edges in bom["dependencies"]} != kept and "has no dependencies of some",
    ]
    if any(problems):
        sys.exit("the SBOM " + "; ".join(filter(None, problems)))


def run(command: list[str]) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main(*sys.argv[1:])
