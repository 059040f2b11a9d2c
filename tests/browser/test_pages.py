"""Every page of `redrivectl serve`: themes, forced colours, 1,024 to 2,560 pixels, by keyboard, judged by axe."""

from collections import Counter
from urllib.parse import urljoin, urlsplit

import pytest
from judge import THEMES, WIDTHS, by_keyboard, too_wide
from scenario import SECRET

# So many pages of each kind.
OF_A_KIND = 3
KINDS = {"", "groups", "group", "waiting", "letter", "now", "words"}


@pytest.fixture(scope="module")
def addresses(chromium, served):
    return followed(chromium, served)


def followed(chromium, served, of_a_kind=OF_A_KIND):
    """Pages of every kind, found by following links from the first one."""
    context = chromium.new_context()
    page, found, to_do, kinds = context.new_page(), [], [f"{served.url}?range=14d"], Counter()
    while to_do:
        address = to_do.pop(0)
        kind = kind_of(served, address)
        if address in found or kinds[kind] >= of_a_kind:
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


def at_each_width(page, addresses, theme, found):
    """Opens each page at each width, and puts what is cut off into `found`."""
    for address in addresses:
        page.goto(address)
        assert is_light(page) == (theme == "light"), address
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            if wide := too_wide(page):
                found[address, width, "too wide"] = wide
            yield address, width


@pytest.mark.parametrize("theme", THEMES)
def test_every_page_fits_and_is_accessible(addresses, tab, judge, theme):
    page, found = tab(color_scheme=theme), {}
    for address, width in at_each_width(page, addresses, theme, found):
        # Its rules but that of contrast do not look at the theme.
        if width in ((640, 1280) if theme == "light" else (1280,)):
            found.update({(address, width, rule): said for rule, said in judge.violations(page).items()})
    assert found == {}


def test_every_page_is_whole_in_forced_colours(addresses, tab, judge):
    page, found = tab(forced_colors="active", viewport={"width": 1280, "height": 900}), {}
    for address in addresses:
        page.goto(address)
        found |= {(address, rule): said for rule, said in judge.violations(page).items()}
    assert found == {}


def is_light(page):
    """Whether the page's own background is."""
    colour = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")) > 3 * 128


def test_every_page_is_operable_with_the_keyboard(addresses, tab):
    page, found = tab(viewport={"width": 1280, "height": 900}), {}
    for address in addresses:
        page.goto(address)
        missed, unseen = by_keyboard(page)
        if missed or unseen:
            found[address] = missed, unseen
    assert found == {}


def test_pages_say_what_they_cost_and_nothing_that_letters_say(addresses, tab):
    page = tab()
    for address in addresses:
        page.goto(address)
        assert "request" in page.locator("footer").inner_text(), address
        assert SECRET not in page.content(), address
        # The operator of the local stack may do what docs/reference/redrivectl.md says, and no more.
        assert page.locator(".unread").count() == 0, (address, page.locator(".unread").inner_text())
