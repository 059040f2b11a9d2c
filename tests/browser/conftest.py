"""Chromium, the local stack with something failing on it, and the doors of the console.

`make browser` says where what comes from npm lies, by the variable BROWSER. Chromium is the system's, or the one that
the variable CHROMIUM names.
"""

import os
import shutil
from pathlib import Path

import pytest
from judge import Judge
from playwright.sync_api import sync_playwright
from scenario import Attack, Crowd, Scenario

from local.console import Served
from local.stack import ROOT, Stack, stop_on_signals
from local.web import WebServer

NAMES = ("chromium", "chromium-browser", "google-chrome")


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


@pytest.fixture(scope="session")
def scenario(stack, web):
    return Scenario(stack, web).happen()


@pytest.fixture(scope="session")
def attack(stack, web):
    return Attack(stack, web).happen()


@pytest.fixture(scope="session")
def crowd(stack):
    return Crowd(stack).happen()


@pytest.fixture(scope="session")
def served(scenario):
    with Served(scenario.deployment) as running:
        yield running


@pytest.fixture(scope="session")
def operated(scenario):
    with Served(scenario.deployment, "--operate") as running:
        yield running


@pytest.fixture(scope="session")
def chromium():
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.exit("there is no chromium: run make browser", 2)
    # Chromium's own sandbox needs rights that root gives up.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def judge():
    """What pages are judged by, from npm."""
    modules = Path(os.environ.get("BROWSER", ROOT / "target" / "browser")) / "node_modules"
    return Judge(
        axe=(modules / "axe-core" / "axe.min.js").read_text(),
        purify=(modules / "dompurify" / "dist" / "purify.min.js").read_text(),
    )


@pytest.fixture
def tab(chromium):
    """Opens tabs; fails if one of them wrote to its console, or asked for something that it did not get."""
    tabs = []

    def opened(**options):
        context = chromium.new_context(
            **{"reduced_motion": "reduce", "timezone_id": "UTC", "locale": "en-GB"} | options
        )
        page = context.new_page()
        page.complaints = []
        complain = page.complaints.append
        page.on(
            "console", lambda said: complain(f"console: {said.text}") if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: complain(f"error: {error}"))
        page.on("dialog", lambda dialog: (complain(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("requestfailed", lambda request: complain(f"not got: {request.url} {request.failure}"))
        page.on("response", lambda got: complain(f"{got.status}: {got.url}") if got.status >= 400 else None)
        tabs.append(page)
        return page

    yield opened
    complaints = [complaint for page in tabs for complaint in page.complaints]
    for page in tabs:
        page.context.close()
    assert complaints == []
