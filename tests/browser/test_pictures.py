"""The pictures of docs/guide/console.md, into the folder that PICTURES names: make browser PICTURES=docs/guide/console.

They show what happened in this run, so times and ids differ from one run to the next.
"""

import os
from pathlib import Path

import pytest
from test_widget import show

from local.console import widget

WIDTH, HEIGHT = 1100, 760
PICTURES = os.environ.get("PICTURES")

pytestmark = pytest.mark.skipif(not PICTURES, reason="PICTURES names no folder")


@pytest.mark.parametrize(
    ("name", "address", "theme"),
    [
        ("now", "now?range=14d", "light"),
        ("groups", "groups?range=14d", "light"),
        ("waiting", "waiting?by=target", "dark"),
    ],
)
def test_picture_of_a_page(tab, operated, name, address, theme):
    page = tab(color_scheme=theme, viewport={"width": WIDTH, "height": HEIGHT})
    page.goto(operated.url + address)
    picture(page, name)


def test_picture_of_a_target(tab, operated):
    page = tab(viewport={"width": WIDTH, "height": HEIGHT})
    page.goto(f"{operated.url}now?range=14d")
    with page.expect_navigation():
        page.locator("table a", has_text="courier").first.click()
    picture(page, "group")


def test_picture_of_a_letter(tab, operated):
    page = tab(viewport={"width": WIDTH, "height": HEIGHT})
    page.goto(f"{operated.url}group?reason=exhausted&range=1h")
    with page.expect_navigation():
        page.locator("table a[href^='letter']").first.click()
    picture(page, "letter")


def test_picture_of_a_preview(tab, operated):
    page = tab(viewport={"width": WIDTH, "height": HEIGHT})
    page.goto(f"{operated.url}waiting?by=topic")
    with page.expect_navigation():
        page.locator("a", has_text="parcels").first.click()
    with page.expect_navigation():
        page.locator("a.act", has_text="Hold").click()
    page.locator("[name=why]").fill("courier is being mended")
    with page.expect_navigation():
        page.locator("[name=why]").press("Enter")
    picture(page, "preview")


def test_picture_of_the_widget(tab, scenario):
    html = widget(scenario.operations, {"page": "now"}, "dark", hours=24 * 14)
    page = tab(color_scheme="dark", viewport={"width": WIDTH, "height": HEIGHT})
    picture(show(page, html, "dark"), "widget")


def picture(page, name):
    """Keeps what is seen without scrolling, but no empty rest."""
    height = page.evaluate("() => Math.ceil(document.querySelector('.redrive').getBoundingClientRect().bottom)")
    page.set_viewport_size({"width": WIDTH, "height": min(HEIGHT, height + 8)})
    folder = Path(PICTURES)
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{name}.png")
    assert (folder / f"{name}.png").stat().st_size < 200_000
