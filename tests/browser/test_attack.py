"""Letters that attack who looks at them, at the local door; and the policy that would stop what gets through."""

import re
from urllib.parse import quote

import pytest
from scenario import Attack
from test_widget import UNSEEN

from local.console import Served

FORGED = "script:not([integrity]), iframe, img, cwdb-action, [onerror], [onload], [onclick], h1:text-is('All is well')"


@pytest.fixture(scope="module")
def attacked(attack):
    # With all that it can show: what letters say, and forms about them.
    with Served(attack.deployment, "--operate", "--bodies") as running:
        yield running


def pages(attack):
    yield from ("", "groups?by=topic&range=24h", "groups?by=error&range=24h", "groups?by=target&range=24h")
    yield from ("groups?by=reason&range=24h", "waiting?by=error", "waiting?by=topic", "group?range=24h")
    for text in attack.MARKUP:
        hostile = quote(text + attack.BIDI)
        yield from (f"group?topic={hostile}&range=24h", f"letter?id={hostile}", f"groups?error={hostile}")
        yield from (f"group?error={hostile}&range=24h", f"act?do=hold&topic={hostile}")


def unharmed(page, attacked):
    """What a page shows, after a look whether anything on it was forged."""
    assert page.evaluate("() => window.attacked") is None, page.url
    assert page.locator(FORGED).count() == 0, page.url
    shown = page.locator("body").inner_text()
    assert not set(shown) & set(UNSEEN), page.url
    assert page.title().endswith("sns-redrive attacked"), page.url
    outside = page.evaluate(
        "own => [...document.querySelectorAll('[href], [src], [action]')]"
        ".map(e => e.href || e.src || e.action).filter(url => !url.startsWith(own))",
        attacked.url,
    )
    # The log's own page on AWS is the one place outside that pages link to.
    assert [url for url in outside if ".console.aws.amazon.com/" not in url] == [], page.url
    return shown


def were_there(words):
    for text in ("All is well", "onerror", "cwdb-action", "window.attacked=3", "DROP", "gnp.exe"):
        assert text in words


def test_hostile_letters_forge_nothing(tab, attack, attacked):
    page, words = tab(), ""
    for address in pages(attack):
        page.goto(attacked.url + address)
        words += unharmed(page, attacked)
    were_there(words)


def test_hostile_letters_forge_nothing_where_one_acts(tab, attack, attacked):
    """In previews, which list hostile overrides too, and where a letter is edited."""
    page, words = tab(), ""
    for text in attack.MARKUP:
        # Such a topic there cannot be, which is said; such a reason there can.
        for topic, is_preview in ((text + attack.BIDI, False), (attack.topic, True)):
            page.goto(f"{attacked.url}act?do=hold&topic={quote(topic)}")
            page.locator("[name=why]").fill(text + attack.BIDI)
            page.get_by_role("button", name="Preview").click()
            words += unharmed(page, attacked)
            assert page.locator("[name=nonce]").count() == int(is_preview), topic
            told = page.locator("main").inner_text()
            assert is_preview or ("--topic" in told and "ARN" in told), told
    page.goto(f"{attacked.url}jobs")
    words += unharmed(page, attacked)
    page.goto(f"{attacked.url}group?reason=exhausted&range=24h")
    letters = page.locator("section[aria-labelledby=examples] tbody a").evaluate_all("all => all.map(a => a.href)")
    assert letters
    for letter in letters[: len(attack.MARKUP)]:
        page.goto(letter)
        page.get_by_role("link", name="Edit and replay").click()
        page.get_by_role("button", name="Read the letter").click()
        words += unharmed(page, attacked)
        # Hidden characters would be lost in a form.
        assert page.locator("#body").count() == 0
        assert "Edit it in a file: the command is below." in words
    were_there(words)


def test_policy_of_the_pages_is_in_force(tab, served):
    page = tab()
    answer = page.goto(served.url)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe-inline" not in policy and "unsafe-eval" not in policy
    page.complaints.clear()
    page.evaluate("""() => {
      window.refused = [];
      addEventListener('securitypolicyviolation', event => window.refused.push(event.effectiveDirective));
      const add = (name, fields) => document.body.append(Object.assign(document.createElement(name), fields));
      add('script', { textContent: 'window.attacked = 5' });
      add('style', { textContent: '* { display: none }' });
      add('img', { src: 'http://127.0.0.1:9/pixel' });
      add('iframe', { src: 'data:text/html,hello' });
    }""")
    page.wait_for_function("() => window.refused.length >= 4")
    refused = set(page.evaluate("() => window.refused"))
    assert refused >= {"script-src-elem", "style-src-elem", "img-src", "frame-src"}, refused
    assert page.evaluate("() => window.attacked") is None
    assert page.locator("main").is_visible()
    # What was refused was said to the console: here it is meant.
    page.wait_for_timeout(100)
    page.complaints.clear()


def test_link_to_elsewhere_does_not_tell_the_address(tab, served):
    page, seen = tab(), []
    page.route(re.compile("^https://"), lambda route: (seen.append(route.request.headers), route.fulfill(body="AWS")))
    page.goto(f"{served.url}group?range=3h")
    with page.expect_navigation(url=re.compile("^https://")):
        page.get_by_role("link", name="Open Logs Insights").click()
    assert [headers.get("referer") for headers in seen] == [None]


def test_page_of_a_stranger_can_neither_read_nor_post(tab, operated, scenario):
    """A page of another origin, in the same browser, that even knows the address."""
    page = tab()
    page.goto("data:text/html,<p>elsewhere")
    page.complaints.clear()
    read = page.evaluate("url => fetch(url).then(() => 'read', error => String(error))", operated.url)
    assert "TypeError" in read
    # The form of a hold, as the console itself has it.
    page.evaluate(
        """([url, fields]) => {
          const form = Object.assign(document.createElement('form'), { method: 'post', action: url + 'act' });
          for (const [name, value] of Object.entries(fields)) {
            form.append(Object.assign(document.createElement('input'), { name, value }));
          }
          document.body.append(form);
        }""",
        [operated.url, {"do": "hold", "topic": scenario.topics["parcels"], "why": "forged", "for": "", "match": ""}],
    )
    with page.expect_navigation() as posted:
        page.evaluate("() => document.forms[0].submit()")
    assert posted.value.status == 403
    page.complaints.clear()


def test_attack_works_where_nobody_is_careful(tab):
    """Without this, the tests above would show nothing."""
    page = tab()
    page.set_content("".join(f"<p>{text}{Attack.BIDI}</p>" for text in Attack.MARKUP[:4]))
    page.wait_for_function("() => window.attacked === 2")
    assert page.locator(FORGED).count() >= 4
    assert set(page.locator("p").first.text_content()) & set(UNSEEN)
    page.complaints.clear()
