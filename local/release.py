"""Makes the files of a release out of what `make release` has built: docs/releasing.md."""

import argparse
import gzip
import hashlib
import io
import json
import re
import shutil
import struct
import subprocess
import tarfile
import tempfile
import tomllib
import zipfile
from datetime import UTC, datetime
from pathlib import Path

from local.plain import plain_text
from local.stack import ROOT

FUNCTIONS = ["sns-redrive", "sns-redrive-replay", "sns-redrive-widget"]
TOOL = "redrivectl"
# The crates of functions that the one of the repository itself does not build.
SOURCES = {"sns-redrive-widget": "crates/console"}
# Where Homebrew and Linux distributions look for the completions of a shell, below their prefix.
COMPLETIONS = {
    "bash": f"share/bash-completion/completions/{TOOL}",
    "zsh": f"share/zsh/site-functions/_{TOOL}",
    "fish": f"share/fish/vendor_completions.d/{TOOL}.fish",
}
# Each template with the functions that it deploys.
TEMPLATES = {"template.yaml": ["sns-redrive"], "operations.yaml": ["sns-redrive-replay", "sns-redrive-widget"]}
QUEUES = "queues.yaml"
# The same templates without a transform.
PLAIN = "plain-{}"
# The variant of template.yaml for the Serverless Application Repository, and what its metadata names beside it.
REPOSITORY = "serverlessrepo.yaml"
NAMED_BESIDE = ["LICENSE", "README.md"]
REPOSITORY_TYPES = ROOT / "local" / "serverlessrepo.txt"
# What the repository refuses, the composite alarm, with all that is there for its sake.
FOR_PAGES = ["PageTopicArn", "HasPageTopic", "LettersInDangerAlarm", "PagingAlarmName"]
# What an ELF file says of its processor: https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html
MACHINES = {"arm64": 183, "x86_64": 62}
SUMS = "SHA256SUMS"
PROVENANCE = "provenance.intoto.json"
# The same in every archive, so that the same binary gives the same file.
ARCHIVED = datetime(1980, 1, 1, tzinfo=UTC)

CODE_PARAMETERS = """
Parameters:
  CodeBucket:
    Type: String{bucket}
    AllowedPattern: ^[a-z0-9][a-z0-9.-]{{1,61}}[a-z0-9]$
    ConstraintDescription: an S3 bucket's name
    Description: The bucket in this region that holds the released zip.
  CodePrefix:
    Type: String
    Default: {prefix}
    Description: The folder in CodeBucket that holds {packages}.
"""
CODE_URI = """
      CodeUri:
        Bucket: !Ref CodeBucket
        Key: !Sub ${{CodePrefix}}/{function}-${{Architecture}}.zip
"""
# How `sam build` would build the function again.
BUILD_METADATA = """
    Metadata:
      BuildMethod: rust-cargolambda
      BuildProperties: {{ Binary: {function} }}
"""


def main(arguments=None):
    options = parse(arguments)
    version, out, pages = version_of_workspace(), options.out, pages_of(options.tool)
    for arch in options.arch:
        built = options.built / arch
        for function in FUNCTIONS:
            (out / f"{function}-{arch}.zip").write_bytes(lambda_zip(binary(built / function / "bootstrap", arch)))
        tool = tool_archive(binary(built / TOOL / "bootstrap", arch), f"{TOOL}-{version}", pages)
        (out / f"{TOOL}-{version}-linux-{arch}.tar.gz").write_bytes(tool)
    prefix = options.prefix or f"sns-redrive/{version}"
    for name, functions in TEMPLATES.items():
        (out / name).write_text(packaged((ROOT / name).read_text(), functions, prefix, options.bucket))
    # It has none.
    shutil.copyfile(ROOT / QUEUES, out / QUEUES)
    for name in [*TEMPLATES, QUEUES]:
        (out / PLAIN.format(name)).write_text(plain_text(name, (out / name).read_text()))
    (out / REPOSITORY).write_text(for_repository((ROOT / "template.yaml").read_text(), options.arch[0]))
    for name in NAMED_BESIDE:
        shutil.copyfile(ROOT / name, out / name)
    digests = digests_of(out)
    (out / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in digests.items()))
    (out / PROVENANCE).write_text(json.dumps(provenance(digests, options, version), indent=1) + "\n")
    for name in [*digests, SUMS, PROVENANCE]:
        print(f"{out / name}: {(out / name).stat().st_size:,} bytes")


def version_of_workspace():
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--built", type=Path, required=True, help="<arch>/<binary>/bootstrap for each binary")
    parser.add_argument(
        "--tool",
        type=Path,
        required=True,
        help="a redrivectl that runs on this machine, to write manual pages and completions",
    )
    parser.add_argument("--out", type=Path, required=True, help="the output folder, which already has the SBOMs")
    parser.add_argument("--bucket", default="", help="the default of the parameter CodeBucket in the templates")
    parser.add_argument("--prefix", default="", help="the default of the parameter CodePrefix in the templates")
    parser.add_argument("arch", nargs="+", choices=MACHINES)
    return parser.parse_args(arguments)


def binary(path, arch):
    """Returns an executable, which must be one for this processor."""
    content = path.read_bytes()
    (machine,) = struct.unpack_from("<H", content, 18)
    if content[:4] != b"\x7fELF" or machine != MACHINES[arch]:
        raise SystemExit(f"{path} is not a Linux executable for {arch}")
    return content


def lambda_zip(bootstrap):
    """Returns the package of a function, as Lambda's provided.al2023 takes it."""
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w") as archive:
        entry = zipfile.ZipInfo("bootstrap", ARCHIVED.timetuple()[:6])
        entry.create_system = 3
        entry.external_attr = 0o100755 << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, bootstrap, compresslevel=9)
    return package.getvalue()


def pages_of(tool):
    """Returns the manual pages and the completions that the tool writes, by where package managers look for them."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([tool, "man", folder], check=True)
        manual = {f"share/man/man1/{path.name}": path.read_bytes() for path in sorted(Path(folder).iterdir())}
    scripts = {
        place: subprocess.run([tool, "completion", shell], check=True, stdout=subprocess.PIPE).stdout
        for shell, place in COMPLETIONS.items()
    }
    return manual | scripts


def manual_of(page):
    """Returns a page without its links to other pages, which are not in the archive; those within it stay."""
    return re.sub(r"!?\[([^\]]*)\]\((?!#|https?:)[^)]*\)", r"\1", page)


def tool_archive(tool, folder, pages):
    """Returns the tool with its licence and its manual, as package managers unpack it into a prefix."""
    packed = io.BytesIO()
    manual = manual_of((ROOT / "docs" / "reference" / f"{TOOL}.md").read_text())
    files = {
        f"bin/{TOOL}": (tool, 0o755),
        f"share/doc/{TOOL}/LICENSE": ((ROOT / "LICENSE").read_bytes(), 0o644),
        f"share/doc/{TOOL}/{TOOL}.md": (manual.encode(), 0o644),
    }
    files |= {name: (content, 0o644) for name, content in pages.items()}
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, (content, mode) in files.items():
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode, entry.mtime = len(content), mode, int(ARCHIVED.timestamp())
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def packaged(template, functions, prefix, bucket=""):
    """Returns a template whose functions come from a bucket, which is a parameter: nobody has to build anything."""
    default = f"\n    Default: {bucket}" if bucket else ""
    packages = " and ".join(f"{function}-<Architecture>.zip" for function in functions)
    template = replaced_once(
        template, "\nParameters:\n", CODE_PARAMETERS.format(packages=packages, prefix=prefix, bucket=default)
    )
    for function in functions:
        template = replaced_once(template, BUILD_METADATA.format(function=function), "\n")
        built_in = f"\n      CodeUri: {SOURCES.get(function, '.')}\n"
        template = replaced_once(template, built_in, CODE_URI.format(function=function))
    return template


def for_repository(template, arch):
    """Returns the variant of template.yaml that the Serverless Application Repository takes, for one processor.

    `sam package` uploads the zip beside it. The repository takes neither every type nor any transform but SAM's.
    """
    [function] = TEMPLATES["template.yaml"]
    for name in FOR_PAGES:
        template = without(template, name)
    template = replaced_once(template, "PageTopicArn, ", "")
    paging = 'Value: !If [HasPageTopic, !Select [0, !Split [":", !Ref LettersInDangerAlarm]], none]'
    paging = f"        - {{ Key: paging-alarm, {paging} }}\n"
    template = replaced_once(template, paging, "")
    default = "    Default: arm64\n    AllowedValues: [arm64, x86_64]\n"
    template = replaced_once(template, default, f"    Default: {arch}\n    AllowedValues: [{arch}]\n")
    template = replaced_once(template, BUILD_METADATA.format(function=function), "\n")
    template = replaced_once(template, "\n      CodeUri: .\n", f"\n      CodeUri: {function}-{arch}.zip\n")
    if types := refused_by_repository(template):
        known = REPOSITORY_TYPES.relative_to(ROOT)
        raise SystemExit(
            f"{known} lacks {', '.join(types)}: add the types if AWS lists them, or leave them out of {REPOSITORY}"
        )
    return template


def refused_by_repository(template):
    """Returns the types of a template's resources that the repository's list lacks."""
    taken = {line for line in REPOSITORY_TYPES.read_text().splitlines() if not line.startswith("#")}
    return sorted(set(re.findall(r"^    Type: (AWS::\S+)$", template, re.MULTILINE)) - taken)


def without(template, name):
    """Returns the template without what a section says of a name, and without the comment above it."""
    block = rf"(?:^  #.*\n)*^  {name}:.*\n(?:^    .*\n)*^\n?"
    text, times = re.subn(block, "", template, flags=re.MULTILINE)
    if times != 1:
        raise SystemExit(f"the template has {name} {times} times, but local/release.py expects it once")
    return text


def replaced_once(text, old, new):
    if text.count(old) != 1:
        raise SystemExit(
            f"the template has {old.strip()!r} {text.count(old)} times, but local/release.py expects it once"
        )
    return text.replace(old, new)


def digests_of(folder):
    """Returns the SHA-256 of each file, by name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def provenance(digests, options, version):
    """Returns an in-toto statement of what was built from which commit by which tools: https://slsa.dev/spec/v1.0/provenance

    Nobody has signed it. The release workflow has GitHub attest the same files.
    """
    commit = said(["git", "rev-parse", "HEAD"])
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in digests.items()],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:sns-redrive:make-release:1",
                "externalParameters": {
                    "version": version,
                    "architectures": options.arch,
                    "bucket": options.bucket,
                    "prefix": options.prefix,
                },
                "internalParameters": {
                    "rustc": said(["rustc", "--version"]),
                    "cargo-lambda": pinned("cargo-lambda"),
                    "ziglang": pinned("ziglang"),
                },
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": commit}},
                    {"name": "Cargo.lock", "digest": {"sha256": hashlib.sha256(lock_file()).hexdigest()}},
                ],
            },
            "runDetails": {
                "builder": {"id": "urn:sns-redrive:make-release"},
                "metadata": {"finishedOn": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")},
            },
        },
    }


def lock_file():
    return (ROOT / "Cargo.lock").read_bytes()


def pinned(package):
    """Returns the version of a package that local/requirements.txt names."""
    requirements = (ROOT / "local" / "requirements.txt").read_text()
    return re.search(rf"^{re.escape(package)}==(\S+)", requirements, re.MULTILINE)[1]


def said(command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


if __name__ == "__main__":
    main()
