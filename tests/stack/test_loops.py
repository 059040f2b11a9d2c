"""No loop without a count: whatever a letter comes back from, it ends in the archive after numRetries."""

import json

import pytest
from world import arrived, attempts, attributes_of_eventbridge, event_of_sns, outcome, policy

from local.sns import dead_letter, envelope
from local.stack import wait_until
from local.subscribers import create_function, function_arn

RETRIES = 4


def test_letter_is_published_once_and_then_goes_to_the_subscriber_that_fails(world):
    topic = world.topic()
    deployment = world.deploy(
        policy(retries=RETRIES, delay=1, immediate=RETRIES, target="topic"),
        topic,
        queues=["billing"],
        TargetTopicArns=[topic],
    )
    billing = world.subscribe("billing", topic, deployment.queue_arn)
    everyone = world.subscribe("everyone", topic, deployment.queue_arn)
    billing.unplug()
    dead_letter(deployment, envelope(topic, billing.subscription_arn, "hello"))

    copies = [json.loads(message["Body"]) for message in arrived(everyone)]
    for copy in copies:
        attributes = {name: (value["Type"], value["Value"]) for name, value in copy["MessageAttributes"].items()}
        # What SNS does when it cannot deliver the copy for billing either.
        dead_letter(deployment, envelope(topic, billing.subscription_arn, copy["Message"], attributes=attributes))
    [record] = wait_until(deployment.archive, 40, "the end of the loop")

    assert (record["reason"], record["retry"]) == ("exhausted", {"number": RETRIES, "of": RETRIES})
    assert [spent(copy) for copy in copies] == [1]
    assert everyone.receive() == [], "nobody gets a second copy"
    deployment.wait_until_empty()


def spent(notification):
    return json.loads(notification["MessageAttributes"]["sns-redrive"]["Value"])["spent"]


@pytest.fixture
def failing(world):
    """A function whose code fails on everything, and which Lambda itself does not try again."""

    def create(deployment):
        name = world.name("notifier")
        create_function(world.stack, name, world.web)
        world.web.answers[f"/{name}"] = 500
        # The function's own failures come to the queue, as its dead letters.
        world.stack.client("lambda").put_function_event_invoke_config(
            FunctionName=name,
            MaximumRetryAttempts=0,
            DestinationConfig={"OnFailure": {"Destination": deployment.queue_arn}},
        )
        return name

    return create


def test_function_that_fails_on_events_of_sns_is_invoked_asynchronously_and_counted_by_the_mark(world, failing):
    topic = world.topic()
    deployment = world.deploy(
        policy(retries=RETRIES, delay=1, immediate=1, origins=["lambda-destination"]), topic, functions=["notifier"]
    )
    name = failing(deployment)
    subscription = f"{topic}:43fe80b0-b10c-4081-9e18-5bdb8f9824e6"
    event = event_of_sns(subscription, envelope(topic, subscription, "hello"))

    invoke_asynchronously(world, name, event)

    [record] = wait_until(deployment.archive, 40, "the end of the loop")
    assert (record["reason"], record["origin"]) == ("exhausted", "lambda-destination")
    events = [json.loads(post.body) for post in world.web.at(f"/{name}")]
    assert events[0] == event
    assert {event["Records"][0]["Sns"]["Message"] for event in events} == {"hello"}
    assert [spent(event["Records"][0]["Sns"]) for event in events[1:]] == list(range(1, RETRIES + 1))
    deployment.wait_until_empty()


def test_function_that_fails_on_a_plain_event_is_invoked_synchronously_and_counted_in_its_queue(world, failing):
    topic = world.topic()
    deployment = world.deploy(
        policy(retries=RETRIES, delay=1, immediate=1, origins=["lambda-destination"]), topic, functions=["notifier"]
    )
    name = failing(deployment)
    event = {"detail-type": "Order placed", "detail": {"id": 7}}

    invoke_asynchronously(world, name, event)

    [record] = wait_until(deployment.archive, 40, "the end of the loop")
    assert (record["reason"], record["error"]) == ("exhausted", {"code": "FunctionError", "class": "transient"})
    assert [json.loads(post.body) for post in world.web.at(f"/{name}")] == [event] * (RETRIES + 1)
    letter = record["message"]["messageId"]
    # The log comes after the archive.
    outcome(deployment, letter, "archived")
    assert attempts(deployment, letter) == list(range(1, RETRIES + 1))
    deployment.wait_until_empty()


def test_rule_of_eventbridge_whose_function_fails(world, failing):
    topic = world.topic()
    deployment = world.deploy(
        policy(retries=RETRIES, delay=1, immediate=1, origins=["eventbridge"]), topic, functions=["notifier"]
    )
    name = failing(deployment)

    letter = dead_letter(deployment, '{"detail":{"id":7}}', attributes_of_eventbridge(function_arn(name)))

    archived = outcome(deployment, letter, "archived", within=40)
    assert (archived["reason"], archived["letter.origin"], archived["cause.code"]) == (
        "exhausted",
        "eventbridge",
        "NO_PERMISSIONS",
    )
    assert [post.body for post in world.web.at(f"/{name}")] == [b'{"detail": {"id": 7}}'] * RETRIES


def test_web_server_that_never_recovers(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=RETRIES, delay=1, immediate=1), topic)
    shop = world.subscribe_web("shop", topic, deployment.queue_arn)
    shop.unplug()

    letter = dead_letter(deployment, envelope(topic, shop.subscription_arn, "hello"))

    assert outcome(deployment, letter, "archived", within=40)["reason"] == "exhausted"
    assert len(shop.posts()) == RETRIES


def invoke_asynchronously(world, name, event):
    world.stack.client("lambda").invoke(FunctionName=name, InvocationType="Event", Payload=json.dumps(event))
