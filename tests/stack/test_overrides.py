"""An operator's word counts within seconds: hold, retry now, give up, by `redrivectl`, while the function runs."""

import json
import time

import pytest
from world import attempts, outcome, policy

from local.sns import dead_letter, envelope
from local.stack import wait_until
from local.tool import redrivectl

# How old the overrides may be that an instance goes by.
READ_EVERY = 15
# Long enough for a letter to be on the list of waiting letters, and not to come back by itself in this test.
AN_HOUR = 3600


class Outage:
    """A deployment with a subscriber that is down, a letter for it that waits for an hour, and an operator."""

    def __init__(self, world):
        self.topic = world.topic()
        self.deployment = world.deploy(policy(retries=3, delay=AN_HOUR, immediate=1), self.topic, queues=["billing"])
        self.billing = world.subscribe("billing", self.topic, self.deployment.queue_arn)
        self.billing.unplug()
        # With no other right than the stack's policy for operators gives.
        self.operator, self.keys = world.name("gives-overrides"), world.stack.user(world.name("gives-overrides"))
        iam, outputs = world.stack.client("iam"), self.deployment.outputs
        iam.attach_user_policy(UserName=self.operator, PolicyArn=outputs["OperatorPolicyArn"])
        self.s3 = world.stack.client("s3", self.keys)
        self.bucket, self.control = outputs["ControlLocation"].removeprefix("s3://").split("/")
        self.waiting = self.letter("waits")
        wait_until(lambda: attempts(self.deployment, self.waiting) == [1], 20, "the first attempt to fail")
        wait_until(lambda: self.objects("waiting/"), 20, "the letter to be on the list")

    def letter(self, message):
        return dead_letter(self.deployment, envelope(self.topic, self.billing.subscription_arn, message))

    def says(self, *words):
        """The operator gives an override. Returns what the tool says."""
        done = redrivectl(self.deployment, *words, "--yes", keys=self.keys)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def overrides(self, action):
        return self.says(action, "--topic", self.topic, "--why", f"to {action}")

    def objects(self, prefix):
        """What lies there below the place of overrides, as it was written."""
        place = {"Bucket": self.bucket, "Prefix": f"{self.control}/{prefix}"}
        keys = [entry["Key"] for entry in self.s3.list_objects_v2(**place).get("Contents", [])]
        return [self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read().decode() for key in keys]


@pytest.fixture
def outage(world):
    return Outage(world)


@pytest.mark.long
def test_operator_holds_mends_and_says_retry_now(outage):
    outage.overrides("hold")
    time.sleep(READ_EVERY + 1)
    held = outage.letter("is held")
    assert outcome(outage.deployment, held, "deferred")["reason"] == "overridden"

    outage.billing.repair()
    outage.overrides("retry")
    woken = time.time()
    delivered = [outcome(outage.deployment, letter, "delivered") for letter in (outage.waiting, held)]

    assert time.time() - woken < 300
    assert {line["retry.number"] for line in delivered} <= {1, 2}
    assert sorted(json.loads(body)["Message"] for body in outage.billing.bodies()) == ["is held", "waits"]
    outage.deployment.wait_until_empty()
    outage.says("overrides", "release", "--topic", outage.topic, "--why", "it works again")
    [document] = map(json.loads, outage.objects("overrides.json"))
    assert [override["do"] for override in document["overrides"]] == ["retry"]
    ended = [text for text in outage.objects("overrides/") if "to hold" in text]
    assert len(ended) == 1 and f":user/{outage.operator}" in ended[0]


@pytest.mark.long
def test_operator_has_waiting_letters_archived(outage):
    outage.overrides("give-up")

    assert outcome(outage.deployment, outage.waiting, "archived")["reason"] == "given-up"
    [record] = outage.deployment.archive()
    assert (record["reason"], record["message"]["messageId"]) == ("given-up", outage.waiting)
    outage.deployment.wait_until_empty()


def test_nobody_gives_overrides_without_the_policy_for_it(world):
    deployment = world.deploy(policy(retries=1, delay=1), world.topic())
    refused = redrivectl(
        deployment, "hold", "--all", "--why", "no reason", "--yes", keys=world.stack.user(world.name("stranger"))
    )
    assert (refused.returncode, "AccessDenied" in refused.stderr) == (1, True), refused.stdout + refused.stderr
