"""Waiting elsewhere, waiting long, and waiting in order."""

import json
import time

import pytest
from test_replay import in_requeue
from world import attempts, outcome, policy

from local.sns import dead_letter, envelope
from local.stack import ACCOUNT, REGION, wait_until

LETTERS = 20


def test_letters_beyond_the_in_flight_limit_wait_in_the_requeue_and_lose_no_retry(world):
    topic = world.topic()
    # From 15 letters in flight on they move.
    deployment = world.deploy(
        policy(retries=20, delay=4, immediate=1), topic, queues=["billing"], settings={"IN_FLIGHT_LIMIT": "20"}
    )
    billing = world.subscribe("billing", topic, deployment.queue_arn)
    billing.unplug()
    bodies = {envelope(topic, billing.subscription_arn, f"letter {number}") for number in range(LETTERS)}
    for body in bodies:
        dead_letter(deployment, body)

    def moved():
        return [line for line in deployment.outcomes() if line["outcome"] == "requeued"]

    def retried_there():
        there = [line for line in deployment.outcomes() if line["queue.arn"] == deployment.outputs["RequeueArn"]]
        return [line for line in there if line.get("retry.number", 0) >= 2]

    wait_until(moved, 20, "letters to move to the requeue")
    wait_until(retried_there, 30, "a retry in the requeue")
    billing.repair()
    received = []

    def complete():
        received.extend(message["Body"] for message in billing.receive())
        return len(received) >= LETTERS

    wait_until(complete, 30, "every letter at its subscriber")
    deployment.wait_until_empty()
    wait_until(lambda: in_requeue(deployment) == 0, 30, "the requeue to be empty")
    complete()
    assert sorted(received) == sorted(bodies), "each letter once"

    lines = deployment.outcomes()
    by_letter = {}
    for line in lines:
        if "retry.number" in line:
            by_letter.setdefault(line["letter.id"], []).append(line["retry.number"])
    assert len(by_letter) == LETTERS
    for letter, numbers in by_letter.items():
        assert numbers == list(range(1, len(numbers) + 1)), f"{letter}: {numbers}"
    delivered = [line for line in lines if line["outcome"] == "delivered"]
    from_requeue = [line for line in delivered if line["queue.arn"] == deployment.outputs["RequeueArn"]]
    assert from_requeue, "some were delivered out of the requeue"
    # Only what the test sent counts as a dead letter.
    arrived = [json.loads(text).get("LettersArrived", 0) for text in metrics_lines(deployment)]
    assert sum(arrived) == LETTERS
    deployment.wait_until_empty()


def test_wait_over_the_ceiling_is_made_in_hops_without_attempts(world):
    topic = world.topic()
    deployment = world.deploy(
        policy(retries=2, delay=8, immediate=1), topic, queues=["billing"], settings={"MAX_HIDE_SECONDS": "3"}
    )
    billing = world.subscribe("billing", topic, deployment.queue_arn)
    billing.unplug()
    letter = dead_letter(deployment, envelope(topic, billing.subscription_arn, "hello"))
    outcome(deployment, letter, "archived", within=30)
    lines = deployment.outcomes(letter)
    told = [(line["outcome"], line["reason"], line.get("retry.number"), line.get("delay_s")) for line in lines]
    assert told[0] == ("deferred", "failed", 1, 3)
    assert [entry[:3] for entry in told[1:-1]] == [("deferred", "hop", None)] * (len(told) - 2), told
    assert len(told) in (4, 5), told
    assert told[-1][:3] == ("archived", "exhausted", 2)
    assert attempts(deployment, letter) == [1, 2]


def fifo_deployment(world, policy, **parameters):
    """A FIFO topic with a subscriber, and the function with FIFO queues of its own."""
    topic = world.topic("payments.fifo")
    deployment = world.deploy(policy, topic, queues=["worker.fifo"], QueueType="fifo", **parameters)
    return deployment, world.subscribe("worker.fifo", topic, deployment.queue_arn)


def post(deployment, worker, group, text, queue_url=None):
    """A dead letter of a group; returns its SQS message id."""
    body = envelope(worker.topic_arn, worker.subscription_arn, text)
    return dead_letter(deployment, body, group=group, queue_url=queue_url)


def texts(messages):
    return [json.loads(message["Body"])["Message"] for message in messages]


def keeps_order(deployment, worker, queue_url=None):
    """A head fails, others come behind it, and the subscriber is repaired: each group arrives in order."""
    worker.unplug()
    head = post(deployment, worker, "a", "a 1", queue_url)
    outcome(deployment, head, "deferred")
    for text in ["a 2", "a 3", "b 1", "a 4", "b 2"]:
        post(deployment, worker, text[0], text, queue_url)
    time.sleep(4)
    worker.repair()
    received = []

    def complete():
        received.extend(worker.receive())
        return len(received) >= 6

    wait_until(complete, 600, "all six")
    for group, expected in {"a": ["a 1", "a 2", "a 3", "a 4"], "b": ["b 1", "b 2"]}.items():
        assert [text for text in texts(received) if text[0] == group] == expected


@pytest.mark.parametrize("requeue", ["on", "off"])
def test_order_of_a_group_is_kept_across_a_failing_head(world, requeue):
    keeps_order(*fifo_deployment(world, policy(retries=20, delay=2, immediate=1), Requeue=requeue))


def test_failing_head_steps_aside_and_its_group_goes_on(world):
    stepping = policy(retries=20, delay=3, immediate=1, fifo="step-aside")
    # One letter has a target that does not exist.
    nowhere = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{world.name('nowhere.fifo')}"
    stepping["rules"] = [{"name": "poison", "match": {"message": ["a 1"]}, "target": nowhere}]
    deployment, worker = fifo_deployment(world, stepping)
    poison = post(deployment, worker, "a", "a 1")
    for text in ["a 2", "a 3"]:
        post(deployment, worker, "a", text)
    assert outcome(deployment, poison, "requeued")["retry.number"] == 1
    received = []

    def complete():
        received.extend(worker.receive())
        return len(received) >= 2

    wait_until(complete, 20, "the other two")
    assert texts(received) == ["a 2", "a 3"]

    def again():
        lines = [line for line in deployment.outcomes() if line["queue.arn"] == deployment.outputs["RequeueArn"]]
        return [line for line in lines if line.get("retry.number", 0) >= 2]

    assert wait_until(again, 20, "the poison to be retried in the requeue")[0]["outcome"] == "deferred"


def metrics_lines(deployment):
    lines = [text for texts_of in deployment.log_streams().values() for text in texts_of]
    return [text for text in lines if "CloudWatchMetrics" in text]
