"""The commands of the runbook, as they stand there."""

import json
import os
import re
import subprocess
import textwrap
from datetime import UTC, datetime, timedelta
from pathlib import Path

from test_replay import deployed
from world import policy

from local.archived import record
from local.stack import REGION, ROOT, ROOT_KEYS
from local.tool import command

RUNBOOK = ROOT / "docs" / "guide" / "runbook.md"
PERSON, CUSTOMER = "ada@example.com", "4711"


def blocks(section):
    """The blocks of commands of a section."""
    text = RUNBOOK.read_text().split(f"### {section}\n")[1].split("\n### ")[0]
    return [textwrap.dedent(block) for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)]


class Shell:
    """Runs blocks of commands one after the other in a folder, with what the runbook has one set before."""

    def __init__(self, deployment, folder):
        # What the page names in the place of what is there.
        self.names = {}
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

    def run(self, block):
        pattern = "|".join(map(re.escape, self.names))
        block = re.sub(pattern, lambda found: self.names[found[0]], block)
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


def test_one_person_is_erased_from_the_archive_and_nobody_else(world, tmp_path):
    [block] = blocks("Erase one person's letters")
    deployment, billing = deployed(world, policy(retries=3, delay=2, immediate=1))
    topic = billing.topic_arn.rsplit(":", 1)[1]
    of_person = json.dumps({"customer": CUSTOMER})
    in_words = f"write to {PERSON}"
    others = [json.dumps({"customer": f"{CUSTOMER}2"}), "ada@example.org", "nobody"]
    mixed = bury(world, deployment, billing, 1, [others[0], of_person, others[1], in_words])
    alone = bury(world, deployment, billing, 2, [of_person])
    untouched = bury(world, deployment, billing, 3, [others[2]])
    before = objects(world, deployment)
    assert len(found(world, deployment)) == 2

    shell = Shell(deployment, tmp_path)
    shell.names = {"--topic payments": f"--topic {topic}", "--stack payments": f"--stack {deployment.name} --yes"}
    commands = block.splitlines()
    assert [line.split()[:2] for line in commands] == [["redrivectl", "erase"]] * 2
    for line in commands:
        ran = shell.run(line)
        # No letter lies in a queue of the function, so that nothing is left.
        assert (ran.returncode, ran.stderr) == (0, ""), ran

    after = objects(world, deployment)
    assert after.keys() == before.keys() and after[untouched] == before[untouched]
    old, new = (lines[mixed].splitlines() for lines in (before, after))
    assert [old[0], old[2]] == [new[0], new[2]]
    erased = [json.loads(line) for line in [new[1], new[3], *after[alone].splitlines()]]
    assert all(line["erased"]["at"] and "message" not in line for line in erased)
    assert found(world, deployment) == []
    # A second time nothing is found, and the archive still counts them.
    for line in commands:
        ran = shell.run(line)
        assert ran.returncode == 0 and ran.stdout.endswith("\nNothing to erase.\n"), ran
    ran = shell.run(f"redrivectl archive list --stack {deployment.name} --json")
    counts = json.loads(ran.stdout)
    assert (counts["letters"], counts["erased"], counts["unread"]) == (3, 3, 0), ran


def found(world, deployment):
    """The versions of objects, old ones too, in which the person is."""
    s3, bucket = world.stack.client("s3"), deployment.outputs["ArchiveBucketName"]
    versions = s3.list_object_versions(Bucket=bucket).get("Versions", [])
    read = [
        (at["Key"], s3.get_object(Bucket=bucket, Key=at["Key"], VersionId=at["VersionId"])["Body"].read())
        for at in versions
    ]
    # The text is JSON in JSON in JSON.
    names = [PERSON.encode(), f'"{CUSTOMER}\\'.encode()]
    return [key for key, body in read if any(name in body for name in names)]
