"""The widget, as a dashboard shows it: the HTML of the real function, after the cleaning that CloudWatch documents."""

import json

import pytest
from judge import MOST_TABS, PARTS, THEMES, by_keyboard, too_wide
from scenario import Attack

from local.console import widget

# What a hostile letter would have done, and what is there to be read.
FOUND = """() => ({
  attacked: window.attacked,
  forged: document.querySelectorAll('script, iframe, img, [onerror], [onload], [onclick]').length
    + [...document.querySelectorAll('h1')].filter(title => title.textContent.trim() === 'All is well').length,
  endpoints: [...document.querySelectorAll('cwdb-action')].map(action => action.getAttribute('endpoint')),
  words: document.body.innerText,
})"""

PAGES = ({"page": "now"}, {"page": "groups", "by": "error"}, {"page": "groups", "by": "topic"}, {"page": "waiting"})
SIZES = (320, 588, 1280, 1920)
# Width and height, as a dashboard tells them to the function: the least that it offers, its default and the widest.
PLACES = ((240, 180), (588, 369), (1800, 600))
# What a dashboard has around a widget. It shows no actions: it acts on them.
AROUND = "<!doctype html><html lang=en><title>Dashboard</title><style>cwdb-action { display: none }</style>"
BACKGROUND = {"light": "#ffffff", "dark": "#0f1b2a"}
# Characters that turn the direction of what follows, or that cannot be seen.
UNSEEN = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\u200e\u200f"


def shown(tab, html, theme, width=1280):
    """A tab that shows the widget."""
    return show(tab(color_scheme=theme, viewport={"width": width, "height": 900}), html, theme)


def show(page, html, theme="light"):
    """Shows the widget in a tab."""
    page.set_content(f"{AROUND}<body style='margin:0;background:{BACKGROUND[theme]}'><div>{html}</div>")
    return page


def links(page):
    """What links of the widget would call, and with what."""
    return page.evaluate(
        "() => [...document.querySelectorAll('cwdb-action')].map(e => [e.getAttribute('endpoint'), e.textContent])"
    )


def every_page(operations, theme):
    """Each page of the widget, and a group that the first of them links to."""
    for parameters in PAGES:
        yield parameters, widget(operations, parameters, theme, hours=24 * 14)
    yield {"page": "group"}, widget(operations, {"page": "group", "reason": "exhausted"}, theme, hours=24 * 14)


@pytest.mark.parametrize("theme", THEMES)
def test_cleaning_takes_nothing_away_that_the_widget_needs(tab, scenario, judge, theme):
    for parameters, html in every_page(scenario.operations, theme):
        page = tab()
        before, after = page.evaluate(PARTS, html), page.evaluate(PARTS, judge.purified(page, html))
        assert after == before, (parameters, [part for part in before if part not in after][:5])
        assert any(part.startswith("<style") for part in before)


def test_cleaning_removes_what_cloudwatch_removes(tab, judge):
    page = tab()
    hostile = '<p onclick="a()">x<script>b()</script><iframe src="//c"></iframe><svg><use href="#d"/></svg></p>'
    assert page.evaluate(PARTS, judge.purified(page, hostile)) == ["<p >", "x", "<svg >"]


@pytest.mark.parametrize("theme", THEMES)
def test_widget_fits_and_is_accessible(tab, scenario, judge, theme):
    page, found = tab(color_scheme=theme), {}
    for parameters, html in every_page(scenario.operations, theme):
        show(page, html, theme)
        for width in SIZES:
            page.set_viewport_size({"width": width, "height": 900})
            if wide := too_wide(page):
                found[str(parameters), width, "too wide"] = wide
            if width in (320, 1280):
                found |= {(str(parameters), width, rule): said for rule, said in judge.violations(page).items()}
    assert found == {}


@pytest.mark.parametrize(("width", "height"), PLACES)
def test_widget_fits_the_place_that_the_dashboard_gives_it(tab, scenario, width, height):
    page = tab(viewport={"width": width, "height": height})
    for parameters in PAGES:
        html = widget(scenario.operations, parameters, hours=24 * 14, width=width, height=height)
        show(page, html)
        assert too_wide(page) is None, parameters
        # What does not fit in is reached by scrolling down.
        page.mouse.wheel(0, 100_000)
        assert page.locator("footer").is_visible(), parameters


def test_widget_is_operable_with_the_keyboard_alone(tab, scenario):
    page = tab(viewport={"width": 588, "height": 369})
    for parameters, html in every_page(scenario.operations, "light"):
        show(page, html)
        assert by_keyboard(page) == ([], []), parameters
        # The dashboard listens to clicks on the element before an action.
        page.evaluate("""() => {
          window.called = [];
          for (const action of document.querySelectorAll('cwdb-action'))
            action.previousElementSibling.addEventListener('click', () => window.called.push(action.textContent));
          document.activeElement.blur();
          getSelection().removeAllRanges();
        }""")
        wanted = [said for _, said in links(page)]
        for _ in range(MOST_TABS):
            if page.evaluate("() => window.called.length") == len(wanted):
                break
            page.keyboard.press("Tab")
            if page.evaluate("() => document.activeElement.nextElementSibling?.tagName === 'CWDB-ACTION'"):
                page.keyboard.press("Enter")
        assert sorted(page.evaluate("() => window.called")) == sorted(wanted), parameters


def test_links_call_the_function_itself_with_pages_that_there_are(tab, scenario):
    own, page, followed = scenario.operations.outputs["ConsoleFunctionArn"], tab(), set()
    for _, html in every_page(scenario.operations, "light"):
        found = links(show(page, html))
        assert found and {endpoint for endpoint, _ in found} == {own}
        followed |= {parameters for _, parameters in found}
    kinds = [json.loads(parameters)["page"] for parameters in followed]
    assert set(kinds) == {"now", "groups", "group", "waiting"}
    for parameters in sorted(followed)[:: max(1, len(followed) // 12)]:
        html = widget(scenario.operations, json.loads(parameters))
        assert "cannot be shown" not in html and "not shown here" not in html, parameters


def test_hostile_letters_forge_nothing(tab, attack, judge):
    own = attack.operations.outputs["ConsoleFunctionArn"]
    fields = ("topic", "subscription", "target", "error", "rule", "reason", "queue")
    pages = [
        *({"page": "groups", "by": by} for by in fields),
        *({"page": "waiting", "by": by} for by in fields),
        *({"page": "group", "error": text + Attack.BIDI} for text in Attack.MARKUP),
        *({"page": text + Attack.BIDI} for text in Attack.MARKUP),
        {"page": "group"},
        {"page": "now"},
    ]
    page, words = tab(), ""
    for parameters in pages:
        html = widget(attack.operations, parameters, hours=24)
        for text in (html, judge.purified(page, html)):
            show(page, text)
            found = page.evaluate(FOUND)
            assert (found["attacked"], found["forged"]) == (None, 0), parameters
            assert set(found["endpoints"]) <= {own}, parameters
            assert not set(found["words"]) & set(UNSEEN), parameters
        words += found["words"]
    # They were there to be shown.
    for text in ("All is well", "onerror", "cwdb-action", "window.attacked=3", "DROP"):
        assert text in words
