"""The commands of the runbook, as they stand there."""

import json
import os
import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from test_replay import deployed
from world import policy

from local.archived import record
from local.stack import REGION, ROOT, ROOT_KEYS
from local.tool import command

RUNBOOK = ROOT / "docs" / "guide" / "runbook.md"
TOOLS = ("aws", "jq")
PERSON, CUSTOMER = "ada@example.com", "4711"


def commands(section):
    """The blocks of commands of a section, by the number of their step."""
    text = RUNBOOK.read_text().split(f"### {section}\n")[1].split("\n### ")[0]
    steps = re.split(r"^\*\*(\d)\. ", text, flags=re.MULTILINE)[1:]
    numbered = zip(steps[::2], steps[1::2], strict=True)
    return {int(number): re.findall(r"```sh\n(.*?)```", step, re.DOTALL) for number, step in numbered}


class Shell:
    """Runs blocks of commands one after the other in a folder, with what the runbook has one set before."""

    def __init__(self, deployment, folder):
        place = deployment.outputs["ArchiveLocation"]
        bucket, prefix = place.removeprefix("s3://").split("/", 1)
        # What the page names in the place of what is there.
        self.names = {"payments-archive": bucket, "dead-letters": prefix}
        self.folder = folder
        tool = command()[0]
        self.environment = {
            "PATH": f"{Path(tool).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "AWS_ENDPOINT_URL": deployment.stack.endpoint,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ROOT_KEYS.id,
            "AWS_SECRET_ACCESS_KEY": ROOT_KEYS.secret,
        }
        self.set = ""

    def run(self, block):
        pattern = "|".join(map(re.escape, self.names))
        block = re.sub(pattern, lambda found: self.names[found[0]], self.set + block)
        run = {"capture_output": True, "text": True, "timeout": 120, "check": False}
        return subprocess.run(["bash", "-c", block], cwd=self.folder, env=self.environment, **run)


def bury(world, deployment, subscriber, hours, messages):
    """Archives one object of letters with these messages, as the function did so many hours ago. Returns its key."""
    archived = datetime.now(UTC) - timedelta(hours=hours)
    lines = []
    for number, message in enumerate(messages):
        line = record(deployment, subscriber, number, archived, "exhausted")
        line["message"]["body"] = json.dumps(json.loads(line["message"]["body"]) | {"Message": message})
        lines.append(json.dumps(line, separators=(",", ":")) + "\n")
    bucket, prefix = deployment.outputs["ArchiveLocation"].removeprefix("s3://").split("/", 1)
    folder = f"{prefix}/queue={deployment.queue_arn.rsplit(':', 1)[1]}/date={archived:%Y-%m-%d}"
    key = f"{folder}/{archived:%Y%m%dT%H%M%S}.000Z-a.2-n{len(lines)}-r0.jsonl"
    world.stack.client("s3").put_object(Bucket=bucket, Key=key, Body="".join(lines))
    return key


def objects(world, deployment):
    """The archived objects, by their keys."""
    s3, bucket = world.stack.client("s3"), deployment.outputs["ArchiveBucketName"]
    prefix = deployment.outputs["ArchiveLocation"].removeprefix(f"s3://{bucket}/")
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/queue=").get("Contents", [])
    return {at["Key"]: s3.get_object(Bucket=bucket, Key=at["Key"])["Body"].read() for at in listed}


@pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason=f"needs {' and '.join(TOOLS)}")
def test_one_person_is_erased_from_the_archive_and_nobody_else(world, tmp_path):
    blocks = commands("Erase one person's letters from an archive")
    deployment, billing = deployed(world, policy(retries=3, delay=2, immediate=1))
    topic = billing.topic_arn.rsplit(":", 1)[1]
    of_person = json.dumps({"customer": CUSTOMER})
    in_words = f"write to {PERSON}"
    others = [json.dumps({"customer": f"{CUSTOMER}2"}), "ada@example.org", "nobody"]
    mixed = bury(world, deployment, billing, 1, [others[0], of_person, others[1], in_words])
    alone = bury(world, deployment, billing, 2, [of_person])
    untouched = bury(world, deployment, billing, 3, [others[2]])
    before = objects(world, deployment)

    shell = Shell(deployment, tmp_path)
    shell.names["--topic payments"] = f"--topic {topic}"
    assert len(blocks[1]) == 1 and "export ARCHIVE" in blocks[1][0]
    for block in blocks[1]:
        ran = shell.run(block)
        assert (ran.returncode, ran.stdout) == (0, "No replays.\n"), ran
    # What the first step sets counts for all.
    shell.set = "\n".join(blocks[1][0].splitlines()[:2]) + "\n"
    # Of the second step, an override about letters that wait: here none does.
    for block in [*blocks[3], blocks[4][0], blocks[5][0]]:
        ran = shell.run(block)
        assert (ran.returncode, ran.stderr) == (0, ""), ran

    after = objects(world, deployment)
    lines = before[mixed].splitlines(keepends=True)
    assert after == {mixed: lines[0] + lines[2], untouched: before[untouched]}
    # The searches find nothing, and neither does the one through all old versions.
    for search in blocks[3][0].splitlines():
        ran = shell.run(search)
        assert not ran.stderr or ran.stderr == "redrivectl: no letter in this archive matches\n", ran
        # With --json the error is there, too.
        assert "letterId" not in (tmp_path / "found.jsonl").read_text(), search
    ran = shell.run(blocks[5][1])
    assert (ran.stdout, ran.stderr) == ("", ""), ran
    versions = world.stack.client("s3").list_object_versions(Bucket=deployment.outputs["ArchiveBucketName"])
    left = [at["Key"] for at in versions.get("Versions", []) if at["Key"] in before]
    assert sorted(left) == sorted([mixed, untouched])
    assert alone in [at["Key"] for at in versions.get("DeleteMarkers", [])]
