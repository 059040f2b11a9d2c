"""One local stack for all tests of a worker; each test deploys template.yaml under its own name, with its own policy.

`make stack` runs several workers side by side: the tests mostly wait.
"""

import itertools
import json
import os
import re
import shutil

# Before local.stack reads it. The demos that tests start have it, too.
os.environ.setdefault("PATIENCE", "10")

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from world import World

from local.stack import ROOT, Stack, stop_on_signals
from local.web import WebServer

NUMBERS = itertools.count(1)
# What a test that failed leaves behind.
KEPT = ROOT / "local" / ".run" / "failed"
TOLD_LINES = 10


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes a minute or more")


def pytest_collection_modifyitems(items):
    """Begins with the long tests, so that no worker is left alone with one at the end.

    A worker is given two tests at once: a short one goes with each long one.
    """
    long = [item for item in items if item.get_closest_marker("long")]
    short = [item for item in items if item not in long]
    paired = [item for first in long if short for item in (first, short.pop())]
    items[:] = paired + [item for item in long if item not in paired] + short


def pytest_sessionstart():
    stop_on_signals()


@pytest.fixture(scope="session")
def stack():
    with Stack() as running:
        yield running


@pytest.fixture(scope="session")
def web():
    with WebServer() as running:
        yield running


@pytest.fixture
def world(stack, web, request):
    short = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:30].strip("-")
    return World(stack, web, f"{short}-{next(NUMBERS)}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Keeps the logs of a test that failed, and says where they are and how the function's ends."""
    report = yield
    worlds = [used.world if hasattr(used, "world") else used for used in item.funcargs.values()]
    for world in [used for used in worlds if isinstance(used, World)]:
        if report.failed:
            folder = keep_logs(item.name, world)
            report.sections.append(("Logs of the function and the local stack", str(folder.relative_to(ROOT))))
            for log in sorted(folder.glob("*.jsonl")):
                # Metrics are long, and the lines of letters say the same.
                end = [line for line in log.read_text().splitlines() if '"_aws"' not in line][-TOLD_LINES:]
                report.sections.append((f"The end of {log.name}", "\n".join(end)))
    return report


def keep_logs(test, world):
    """Copies the logs to a folder of the test's, and returns its path."""
    folder = KEPT / re.sub(r"[^\w-]+", "-", test).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(world.stack.log, folder / "ministack.log")
    for deployment in world.deployments:
        try:
            lines = deployment.log_lines()
        except (BotoCoreError, ClientError) as error:
            # The local stack may be what failed.
            lines = [{"not read": str(error)}]
        (folder / f"{deployment.name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder
