"""`make local`, as a new user tries it, and how `make demo` leads to it."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from importlib.metadata import requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from local.stack import ROOT, Stack, wait_until


@pytest.fixture
def session(request):
    """The running command, and what it has printed so far."""
    process = subprocess.Popen(
        [sys.executable, "-m", "local.run", *getattr(request, "param", [])],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    printed = []
    threading.Thread(target=lambda: printed.extend(process.stdout), daemon=True).start()
    yield process, printed
    process.terminate()
    process.wait(30)


def reads(printed, text, within=600):
    wait_until(lambda: any(text in line for line in printed), within, f"{text!r} in {''.join(printed)}")


def types(process, *commands):
    for command in commands:
        process.stdin.write(f"{command}\n")
    process.stdin.flush()


@pytest.mark.long
@pytest.mark.parametrize("session", [["--fifo"]], indirect=True, ids=["fifo"])
def test_letters_wait_for_their_group_where_queues_are_fifo(session):
    process, printed = session
    reads(printed, "Type a command")
    types(process, "break", "letter")
    reads(printed, "failed at billing.fifo")
    types(process, "letter", "other")
    reads(printed, "held, behind an earlier letter of its group")
    types(process, "repair")
    reads(printed, "delivered to billing.fifo")


@pytest.mark.long
@pytest.mark.parametrize("demo", ["demo", "demo_fifo"])
def test_each_demo_finds_what_it_shows(demo):
    ran = subprocess.run([sys.executable, "-m", f"local.{demo}"], cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, "FAILED" in ran.stdout) == (0, False), ran.stdout + ran.stderr
    if demo == "demo":
        last = ran.stdout.splitlines()[-1]
        assert "console" in last and "make local" in last


@pytest.mark.long
def test_letter_alarm_repair_and_a_clean_end(session):
    process, printed = session
    reads(printed, "Type a command")
    types(process, "break", "letter", "raw")
    reads(printed, "archived, unrecognised")
    # A letter has one name from its arrival on.
    [name] = re.findall(r"letter (\w{8}) is in the dead-letter queue", "".join(printed))
    types(process, "slow")
    reads(printed, "failed at billing; the next in 3600 s")
    reads(printed, f"letter {name}: retry 1 of")
    # The console shows the group that fails, and why.
    [url] = re.findall(r"Console +(http://\S+)", "".join(printed))
    with urllib.request.urlopen(f"{url}groups?by=reason&range=1h") as page:
        assert "unrecognised" in page.read().decode()
    for alarm in ("DeadLettersArriveAlarm", "NowhereToGoAlarm", "ActionRequiredAlarm"):
        reads(printed, f"{alarm} is ALARM")
    types(process, "repair")
    reads(printed, "delivered to billing")
    for alarm in ("DeadLettersArriveAlarm", "NowhereToGoAlarm", "ActionRequiredAlarm"):
        reads(printed, f"{alarm} is OK")

    process.send_signal(signal.SIGINT)
    reads(printed, "nothing is left running")
    assert process.wait(30) == 0


def test_no_other_server_can_take_the_port_while_the_stack_starts(monkeypatch):
    popen = subprocess.Popen

    def other_server_comes_first(*command, env, **rest):
        with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", int(env["GATEWAY_PORT"])))
        return popen(*command, env=env, **rest)

    monkeypatch.setattr(subprocess, "Popen", other_server_comes_first)
    with Stack() as stack:
        assert stack.client("sns").list_topics()["Topics"] == []


def test_the_demo_installs_what_its_packages_need():
    lines = (ROOT / "local" / "demo.txt").read_text().splitlines()
    listed = {line for line in lines if not line.startswith("#")}
    needed, left = set(), ["ministack", "boto3", "aws-sam-translator", "cbor2"]
    while left:
        name = left.pop()
        if name not in needed:
            needed.add(name)
            requirements = map(Requirement, requires(name) or [])
            here = [r for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]
            left += [canonicalize_name(requirement.name) for requirement in here]
    assert listed == needed
