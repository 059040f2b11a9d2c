"""Pages of other accounts: sixty endpoints with the longest names and a million letters, the same account for somebody
who may read half of it, and a stack in which nothing has happened yet.
"""

import json

import pytest
from judge import THEMES, by_keyboard
from test_pages import at_each_width, followed

from local.console import Served
from local.deploy import deploy

# No page of sixty endpoints is longer than this, in pixels, at a width of 1,280; *Now* no longer than the second.
LONGEST, LONGEST_NOW = 5200, 3000
ACCOUNTS = ("crowd", "denied", "fresh")
# What the one who may read half of it may: the stack, the function's settings, and the archive.
HALF = ["cloudformation:DescribeStacks", "lambda:GetFunctionConfiguration", "s3:ListBucket"]


@pytest.fixture(scope="module")
def doors(crowd, stack):
    name = f"{crowd.deployment.name}-half"
    keys, archive = stack.user(name), crowd.deployment.outputs["ArchiveLocation"].removeprefix("s3://")
    statements = [
        {"Effect": "Allow", "Action": HALF, "Resource": "*"},
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{archive}/*"},
    ]
    document = json.dumps({"Version": "2012-10-17", "Statement": statements})
    stack.client("iam").put_user_policy(UserName=name, PolicyName="half", PolicyDocument=document)
    topic = stack.client("sns").create_topic(Name="fresh-payments")["TopicArn"]
    fresh = deploy(stack, "fresh", TopicArns=[topic])
    with Served(crowd.deployment) as whole, Served(crowd.deployment, keys=keys) as half, Served(fresh) as empty:
        yield dict(zip(ACCOUNTS, (whole, half, empty), strict=True))


@pytest.fixture(scope="module")
def addresses(chromium, doors):
    return {account: followed(chromium, door, of_a_kind=1) for account, door in doors.items()}


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize("theme", THEMES)
def test_pages_fit_and_are_accessible(addresses, tab, judge, account, theme):
    page, found = tab(color_scheme=theme), {}
    for address, width in at_each_width(page, addresses[account], theme, found):
        if width == 1280:
            found.update({(address, rule): said for rule, said in judge.violations(page).items()})
            most = LONGEST_NOW if address.partition("?")[0].endswith(("/", "now")) else LONGEST
            if (height := page.evaluate("() => document.documentElement.scrollHeight")) > most:
                found[address, "too long"] = height
    assert found == {}


@pytest.mark.parametrize("account", ACCOUNTS)
def test_pages_are_whole_in_forced_colours_and_by_keyboard(addresses, tab, judge, account):
    page, found = tab(forced_colors="active", viewport={"width": 1280, "height": 900}), {}
    for address in addresses[account]:
        page.goto(address)
        found |= {(address, rule): said for rule, said in judge.violations(page).items()}
        missed, unseen = by_keyboard(page)
        if missed or unseen:
            found[address, "keyboard"] = missed, unseen
    assert found == {}


def test_a_crowd_is_summed_up(doors, tab):
    page = tab(viewport={"width": 1280, "height": 900})
    page.goto(f"{doors['crowd'].url}?range=14d")
    said = page.locator("body").inner_text()
    assert "60 targets" in said and "1,001,830" in said, said


def test_what_could_not_be_seen_is_said(doors, tab):
    page = tab()
    for name in ("now", "groups?by=target", "waiting?by=target"):
        page.goto(doors["denied"].url + name)
        assert "AccessDenied" in page.locator(".unread").inner_text(), name
        assert "Nothing is failing" not in page.locator("body").inner_text(), name


def test_a_fresh_stack_is_well(addresses, tab):
    page = tab()
    for address in addresses["fresh"]:
        page.goto(address)
        assert page.locator(".unread").count() == 0, (address, page.locator(".unread").inner_text())
    page.goto(addresses["fresh"][0])
    assert "Nothing is failing, and no letter waits." in page.locator("body").inner_text()
