"""Ten incidents, and whether the console and `redrivectl status` say at once what is wrong: with which target, why,
since when, and what to do. `make incidents` runs them.

Somebody on call reads the beginning of a page. So all of it has to stand in the first visible characters of two pages:
*Now*, and the page that its first link leads to.
"""

import functools
import html
import json
import re
import shlex
import time
import urllib.request
from datetime import UTC, datetime
from html.parser import HTMLParser
from urllib.parse import urljoin

import pytest
from world import outcome, policy

from local.archived import bury
from local.console import Served
from local.overrides import Control
from local.sns import create_topic, dead_letter, envelope
from local.stack import wait_until
from local.tool import redrivectl

# So many visible characters of a page are read.
READ = 1500
# Words that only the pages have.
FULL_PAGE_ONLY = ("until it is released, by the demo",)
# How long there is to mend it: nothing that is archived is lost before.
KEPT = re.compile(r"kept (until 20\d\d-\d\d-\d\d|for 365 days)")
# The exit code of `redrivectl status` where somebody is needed.
NEEDS_PERSON = 7
# One attempt at once, then each hour: letters wait.
WAITS = policy(retries=6, delay=3600, immediate=1)


class VisibleText(HTMLParser):
    """The text of a page, as one reads it."""

    def __init__(self, page):
        super().__init__()
        self.words, self.hidden, self.links = [], 0, []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.hidden += tag in ("style", "title")
        if tag == "a":
            self.links.append(dict(attrs).get("href", ""))

    def handle_endtag(self, tag):
        self.hidden -= tag in ("style", "title")

    def handle_data(self, data):
        if not self.hidden:
            self.words.append(data)

    def beginning(self):
        return re.sub(r"\s+", " ", " ".join(self.words))[:READ]


class Incident:
    """One deployment, and what went wrong with it."""

    def __init__(self, world):
        self.world, self.topic = world, world.topic()

    def deploy(self, policy=WAITS, **more):
        self.deployment = self.world.deploy(policy, self.topic, **more)
        return self.deployment

    def letter(self, subscriber, wanted="deferred", message="hello"):
        letter = dead_letter(self.deployment, envelope(self.topic, subscriber.subscription_arn, message))
        outcome(self.deployment, letter, wanted)
        return letter

    def control(self, name, document):
        place = self.deployment.outputs["ControlLocation"].removeprefix("s3://")
        bucket, prefix = place.split("/", 1)
        body = json.dumps(document).encode()
        self.world.stack.client("s3").put_object(Bucket=bucket, Key=f"{prefix}/{name}", Body=body)


def queue_deleted(incident):
    incident.deploy(queues=["billing"])
    billing = incident.world.subscribe("billing", incident.topic, incident.deployment.queue_arn)
    billing.unplug()
    incident.letter(billing)
    return billing.name, ["failing", "the queue does not exist", "Since", "Create the queue again"]


def permission_missing(incident):
    incident.deploy(queues=["another"])
    billing = incident.world.subscribe("billing", incident.topic, incident.deployment.queue_arn)
    incident.letter(billing)
    why = "parameter TargetQueueArns does not name this target: add it there"
    return billing.name, ["failing", "a permission is missing", "Since", why]


def key_disabled(incident):
    # The local stack has no keys for queues: the archive is as the function leaves it.
    incident.deploy(queues=["billing"])
    billing = incident.world.subscribe("billing", incident.topic, incident.deployment.queue_arn)
    error = {"code": "KMS.DisabledException", "class": "action_required"}
    bury(incident.deployment, billing, 5, error=error, targetArn=billing.queue_arn)
    return billing.name, ["need you: its key is disabled", "5 letters of", "The first came", "Enable the key"]


def function_throws(incident):
    incident.deploy(policy(retries=6, delay=3600, immediate=1, origins=["lambda-destination"]), functions=["notifier"])
    notifier = incident.world.subscribe_function("notifier", incident.topic, incident.deployment.queue_arn)
    error = {"code": "FunctionError", "class": "transient"}
    bury(incident.deployment, notifier, 3, error=error, targetArn=notifier.endpoint)
    says = ["need you: the function throws an error", "3 letters of", "The first came"]
    return notifier.name, [*says, f"/aws/lambda/{notifier.name}"]


def server_hangs(incident):
    incident.deploy()
    shop = incident.world.subscribe_web("shop", incident.topic, incident.deployment.queue_arn)
    incident.world.web.delays[shop.path] = 30
    incident.letter(shop)
    return "127.0.0.1", ["failing", "it does not answer in time", "Since", "See with its owner"]


def server_throttles(incident):
    incident.deploy()
    shop = incident.world.subscribe_web("shop", incident.topic, incident.deployment.queue_arn)
    shop.unplug(429)
    incident.letter(shop)
    return "127.0.0.1", ["throttled", "it answers 429", "Since", "the function slows down"]


def poison_in_a_group(incident):
    incident.topic = create_topic(incident.world.stack, incident.world.name("payments.fifo"))
    incident.deploy(queues=["worker.fifo"], QueueType="fifo")
    worker = incident.world.subscribe("worker.fifo", incident.topic, incident.deployment.queue_arn)
    error = {"code": "InvalidMessageContents", "class": "permanent"}
    bury(incident.deployment, worker, 1, reason="permanent", error=error, targetArn=worker.queue_arn)
    says = ["needs you: the endpoint refuses the message's content", "1 letter of", "The first came", "edited body"]
    return worker.name, says


def outage_mended(incident):
    incident.deploy(queues=["billing"])
    billing = incident.world.subscribe("billing", incident.topic, incident.deployment.queue_arn)
    billing.unplug()
    for _ in range(3):
        incident.letter(billing)
    billing.repair()
    # The document has whole seconds.
    time.sleep(1.1)
    back = datetime.now(UTC)
    queue = incident.deployment.queue_arn.rsplit(":", 1)[1]
    endpoint = {"queue": queue, "target": billing.queue_arn, "recoveredAt": f"{back:%Y-%m-%dT%H:%M:%SZ}"}
    incident.control("recoveries.json", {"version": 1, "endpoints": [endpoint]})
    return billing.name, ["back, letters flow", "Letters wait for their retries"]


def hold_forgotten(incident):
    incident.deploy(queues=["billing"])
    billing = incident.world.subscribe("billing", incident.topic, incident.deployment.queue_arn)
    Control(incident.deployment).give("hold", incident.topic.rsplit(":", 1)[1], "the database is restored")
    letter = dead_letter(incident.deployment, envelope(incident.topic, billing.subscription_arn, "hello"))
    outcome(incident.deployment, letter, "deferred", within=60)
    return "the database is restored", ["1 letter is held", "until it is released, by the demo", "Release"]


def about_to_expire(incident):
    incident.deploy(queues=["billing"])
    billing = incident.world.subscribe("billing", incident.topic, incident.deployment.queue_arn)
    error = {"code": "AccessDenied", "class": "action_required"}
    bury(incident.deployment, billing, 40, reason="expiring", error=error, targetArn=billing.queue_arn)
    why = "need you: a permission is missing, and the dead-letter queue's retention was about to end"
    mend = "parameter TargetQueueArns names this target now. If it did so before, see the target's own policy"
    return billing.name, [why, "40 letters of", "The first came", "Replay the 40", mend]


INCIDENTS = [
    queue_deleted,
    permission_missing,
    key_disabled,
    function_throws,
    server_hangs,
    server_throttles,
    poison_in_a_group,
    outage_mended,
    hold_forgotten,
    about_to_expire,
]


def get(address):
    with urllib.request.urlopen(address, timeout=60) as answer:
        return VisibleText(answer.read().decode())


@pytest.mark.parametrize("happens", INCIDENTS, ids=lambda happens: happens.__name__)
def test_what_is_wrong_stands_at_the_beginning(world, happens):
    incident = Incident(world)
    target, says = happens(incident)
    with Served(incident.deployment) as served:
        now = get(served.url)
        # The link "What to do", or else the first target.
        first = next((link for link in now.links if link.startswith("group?target=")), None)
        read = now.beginning()
        if first:
            read += get(urljoin(served.url, html.unescape(first))).beginning()
    missing = [words for words in [target, *says] if words not in read]
    assert missing == [], read
    assert KEPT.search(read), read

    def told():
        ran = redrivectl(incident.deployment, "status", "--stack", incident.deployment.name)
        return ran if target in ran.stdout else None

    ran = wait_until(told, 10, "the status of the target")
    # The status has target, state and cause; what one does stands on the page. The rest can wait for nobody's mending.
    quiet = happens in (server_throttles, outage_mended, hold_forgotten)
    # The local stack's alarms on a function look at all functions: those of other tests, too.
    quiet = quiet and "alarms: " not in ran.stdout
    assert ran.returncode in ((0, 6) if quiet else (NEEDS_PERSON,)), ran.stdout + ran.stderr
    assert [words for words in says[:2] if words not in ran.stdout and words not in FULL_PAGE_ONLY] == [], ran.stdout
    assert KEPT.search(ran.stdout), ran.stdout
    assert len(ran.stdout.splitlines()) <= 14, ran.stdout
    # What it says to type next can be typed. An endpoint that asks for time, and one that is back, get no command.
    typed = [line for line in ran.stdout.splitlines() if line.startswith(("then: ", "next: "))]
    assert len(typed) == (happens not in (server_throttles, outage_mended)), ran.stdout
    for line in ran.stdout.splitlines():
        if line.startswith(("then: ", "next: ")):
            line = line.removesuffix(" > letters.jsonl")
            # A replay leaves out what was stored in the last five seconds.
            wait_until(functools.partial(works, incident.deployment, shlex.split(line)[2:]), 20, f"0 from {line}")


def works(deployment, words):
    return redrivectl(deployment, *words).returncode == 0
