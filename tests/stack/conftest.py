"""One local stack for all tests; each test deploys template.yaml under its own name, with its own policy."""

import itertools
import re

import pytest
from world import World

from local.stack import Stack, stop_on_signals
from local.web import WebServer

NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def stack():
    stop_on_signals()
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
