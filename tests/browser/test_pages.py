"""Every page of `redrivectl serve`: both themes, from 320 to 1,920 pixels, by keyboard, judged by axe."""

from collections import Counter
from urllib.parse import urljoin, urlsplit

import pytest
from judge import THEMES, WIDTHS, by_keyboard, too_wide
from scenario import SECRET

# So many pages of each kind.
OF_A_KIND = 4
KINDS = {"", "groups", "group", "waiting", "letter"}


@pytest.fixture(scope="module")
def addresses(chromium, served):
    """Pages of every kind, found by following links from the first one."""
    context = chromium.new_context()
    page, found, to_do, kinds = context.new_page(), [], [f"{served.url}?range=14d"], Counter()
    while to_do:
        address = to_do.pop(0)
        kind = kind_of(served, address)
        if address in found or kinds[kind] >= OF_A_KIND:
            continue
        kinds[kind] += 1
        found.append(address)
        page.goto(address)
        links = page.evaluate("() => [...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href'))")
        inside = [urljoin(address, link).split("#")[0] for link in links]
        to_do += [link for link in inside if link.startswith(served.url)]
    context.close()
    return found


def kind_of(served, address):
    return urlsplit(address).path.removeprefix(urlsplit(served.url).path)


def test_there_are_links_to_pages_of_every_kind(addresses, served):
    assert {kind_of(served, address) for address in addresses} >= KINDS - {""}


@pytest.mark.parametrize("theme", THEMES)
def test_every_page_fits_and_is_accessible(addresses, tab, judge, theme):
    for address in addresses:
        page = tab(color_scheme=theme, viewport={"width": 1280, "height": 900})
        page.goto(address)
        assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == background(page, theme)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert too_wide(page) is None, (address, width)
            if width in (320, 1280):
                assert judge.violations(page) == {}, (address, width)


def background(page, theme):
    """The page's own, which is light in the light theme and dark in the dark."""
    colour = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    parts = [int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    assert (sum(parts) > 3 * 200) == (theme == "light"), colour
    return colour


def test_every_page_is_operable_with_the_keyboard(addresses, tab):
    for address in addresses:
        page = tab(viewport={"width": 1280, "height": 900})
        page.goto(address)
        assert by_keyboard(page) == ([], []), address


def test_pages_say_what_they_cost(addresses, tab):
    for address in addresses:
        page = tab()
        page.goto(address)
        assert "request" in page.locator("footer").inner_text(), address


def test_nothing_of_a_letter_is_shown(addresses, tab):
    for address in addresses:
        page = tab()
        page.goto(address)
        assert SECRET not in page.content(), address
