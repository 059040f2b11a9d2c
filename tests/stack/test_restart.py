"""A function that dies in the middle: repeated, perhaps, but nothing lost."""

import os
import signal

from world import arrived, attempts, outcome, policy

from local.sns import dead_letter, envelope
from local.stack import wait_until


def test_letters_survive_a_function_that_is_killed_while_it_works_on_them(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=5, delay=2, immediate=1), topic, queues=["billing"], own_package=True)
    billing = world.subscribe("billing", topic, deployment.queue_arn)
    body = envelope(topic, billing.subscription_arn, "first")
    outcome(deployment, dead_letter(deployment, body), "delivered")
    assert [message["Body"] for message in arrived(billing)] == [body]
    # A failed invocation leaves its letters hidden for the queue's visibility timeout. Not the template's 180 s.
    world.stack.client("sqs").set_queue_attributes(QueueUrl=deployment.queue_url, Attributes={"VisibilityTimeout": "5"})

    # Frozen, the function takes the next batch but does not get far with it.
    [process] = deployment.bootstraps()
    os.kill(process, signal.SIGSTOP)
    bodies = [envelope(topic, billing.subscription_arn, f"letter {number}") for number in range(5)]
    for body in bodies:
        dead_letter(deployment, body)
    wait_until(lambda: in_flight(deployment), 5, "the letters to be with the function")
    os.kill(process, signal.SIGKILL)

    received = []

    def complete():
        received.extend(message["Body"] for message in billing.receive())
        return set(received) >= set(bodies)

    wait_until(complete, 30, "all letters to arrive")
    deployment.wait_until_empty()
    assert set(received) == set(bodies), "nothing lost, nothing invented"
    assert process not in deployment.bootstraps()


def test_letter_that_waits_for_its_retry_needs_no_function_to_remember_it(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=4, delay=3, immediate=1), topic, queues=["billing"], own_package=True)
    billing = world.subscribe("billing", topic, deployment.queue_arn)
    billing.unplug()
    body = envelope(topic, billing.subscription_arn, "hello")
    letter = dead_letter(deployment, body)
    outcome(deployment, letter, "deferred")

    for process in deployment.bootstraps():
        os.kill(process, signal.SIGKILL)
    billing.repair()

    assert outcome(deployment, letter, "delivered")["retry.number"] == 2
    assert attempts(deployment, letter) == [1, 2]
    assert [message["Body"] for message in arrived(billing)] == [body]


def in_flight(deployment):
    name = "ApproximateNumberOfMessagesNotVisible"
    found = deployment.stack.client("sqs").get_queue_attributes(QueueUrl=deployment.queue_url, AttributeNames=[name])
    return int(found["Attributes"][name])
