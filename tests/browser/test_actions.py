"""Actions at the local door, from the link to what was done, with the keyboard alone."""

import json

import pytest
from judge import THEMES, WIDTHS, by_keyboard, too_wide
from scenario import SECRET

from local.console import Served
from local.tool import redrivectl


def press(page, words, most=200):
    """Tabs to what has these words, and presses Enter on it."""
    for _ in range(most):
        page.keyboard.press("Tab")
        focused = page.evaluate("() => document.activeElement.innerText || document.activeElement.name || ''")
        if focused.strip() == words:
            return page.keyboard.press("Enter")
    raise AssertionError(f"no {words!r} can be reached on {page.url}")


def form(page, operated, topic):
    """Goes from the page of what waits to the form of a hold."""
    page.goto(f"{operated.url}waiting?by=topic")
    with page.expect_navigation():
        press(page, topic)
    with page.expect_navigation():
        press(page, "Hold")


def sent(page):
    """Presses Enter, and waits for the answer."""
    with page.expect_navigation():
        page.keyboard.press("Enter")


def test_hold_is_given_with_the_keyboard_after_a_preview(tab, operated, scenario):
    page = tab(viewport={"width": 1280, "height": 900})
    form(page, operated, "parcels")
    page.locator("[name=why]").focus()
    page.keyboard.type("courier is being mended")
    sent(page)
    # Nothing is done yet: the preview names what it would do, and asks.
    assert "confirm" in page.locator("h1").inner_text()
    assert "12 letters on the list of waiting letters" in page.locator("main").inner_text()
    assert overrides(scenario) == ["returns"]
    with page.expect_navigation():
        press(page, "Hold at most 12 letters of parcels")
    assert "done" in page.locator("h1").inner_text()
    assert overrides(scenario) == ["parcels", "returns"]
    # The page that asked has been answered: another press of its button does nothing.
    page.go_back()
    assert overrides(scenario) == ["parcels", "returns"]


def overrides(scenario):
    """The topics of the overrides in force, with their reasons looked at."""
    told = json.loads(redrivectl(scenario.deployment, "overrides", "--json").stdout)["overrides"]
    assert all(override["why"].endswith("is being mended") for override in told)
    return sorted(name for name in scenario.topics for override in told if name in json.dumps(override["match"]))


class Looks:
    """Judges the pages that a tab is led through."""

    def __init__(self, page, judge):
        self.page, self.judge, self.found = page, judge, {}

    def __call__(self, what):
        page = self.page
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            if wide := too_wide(page):
                self.found[what, width] = wide
        self.found.update({(what, rule): said for rule, said in self.judge.violations(page).items()})
        missed = by_keyboard(page)
        if missed != ([], []):
            self.found[what, "keyboard"] = missed


@pytest.mark.parametrize("theme", THEMES)
def test_forms_and_previews_fit_and_are_accessible(tab, operated, scenario, judge, theme):
    page = tab(color_scheme=theme)
    look = Looks(page, judge)
    form(page, operated, "parcels")
    look("form")
    page.locator("[name=why]").fill("looking")
    page.locator("[name=why]").focus()
    sent(page)
    look("preview")
    page.goto(f"{operated.url}")
    look("now")
    page.goto(f"{operated.url}jobs")
    assert page.locator("tbody tr").count() >= 1
    look("jobs")
    assert look.found == {}


@pytest.mark.parametrize("theme", THEMES)
def test_edit_and_its_difference_fit_and_are_accessible(tab, scenario, judge, theme):
    page = tab(color_scheme=theme)
    look = Looks(page, judge)
    with Served(scenario.deployment, "--operate", "--bodies") as served:
        page.goto(f"{served.url}group?reason=exhausted&range=3h")
        page.locator("section[aria-labelledby=examples] tbody a").first.click()
        life = page.locator(".life").inner_text()
        assert "retry 1 of 2 to" in life and "archived, exhausted" in life
        look("letter")
        page.get_by_role("link", name="Edit and replay").click()
        look("what is edited")
        page.get_by_role("button", name="Read the letter").click()
        body = page.locator("#body")
        before = body.input_value()
        assert SECRET in before
        look("edit")
        body.fill(before.replace(SECRET, "mended"))
        page.locator("[name=why]").fill("mended")
        page.get_by_role("button", name="Preview").click()
        told = page.locator("main").inner_text()
        assert "What is edited" in told and "mended" in told and "Edit and replay 1 letter" in told
        look("difference")
        page.goto(f"{served.url}jobs")
        assert "confirm" in page.locator("tbody").inner_text()
        look("jobs")
    assert look.found == {}


def test_one_waiting_letter_is_previewed_with_the_keyboard(tab, operated):
    page = tab(viewport={"width": 1280, "height": 900})
    page.goto(f"{operated.url}waiting")
    page.locator("section[aria-labelledby=next] tbody a").first.focus()
    sent(page)
    letter = page.locator("section[aria-labelledby=is] dd code").first.inner_text()
    with page.expect_navigation():
        press(page, "Retry now")
    page.locator("[name=why]").focus()
    page.keyboard.type("looking")
    sent(page)
    told = page.locator("main").inner_text()
    assert "1 letter on the list of waiting letters" in told and letter in told
    assert page.get_by_role("button", name="Retry now at most 1 letter").is_visible()


def test_without_operate_there_is_no_way_to_act(tab, served):
    page = tab()
    page.goto(f"{served.url}group?range=14d")
    assert page.locator("a.act, form:not([role=search]), form:not([role=search]) button").count() == 0
    page.goto(f"{served.url}act?do=hold&topic=payments")
    assert page.locator("form:not([role=search])").count() == 0 and "--operate" in page.locator("main").inner_text()
    assert any(said.startswith("403") for said in page.complaints)
    page.complaints.clear()
