"""Letters that get where they were meant to go."""

import json
from datetime import UTC, datetime, timedelta

from world import arrived, attempts, outcome, policy

from local.sns import dead_letter, envelope
from local.stack import wait_until

# PublishBatch of ministack drops the value of a Binary attribute, so what is republished here has none. SNS keeps it.
PUBLISHED = {"tenant": ("String", "gold"), "weight": ("Number", "1.50")}
ATTRIBUTES = PUBLISHED | {"checksum": ("Binary", "AAECA/3+/w==")}
MESSAGE = json.dumps({"id": "o-1", "note": 'Grüße & <thanks> "ok"\n'}, ensure_ascii=False)


def test_envelope_goes_back_to_the_failed_subscription_unchanged(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=3, delay=2, immediate=1), topic, queues=["billing", "shipping"])
    billing = world.subscribe("billing", topic, deployment.queue_arn)
    shipping = world.subscribe("shipping", topic, deployment.queue_arn)
    body = envelope(topic, billing.subscription_arn, MESSAGE, subject="Order placed", attributes=ATTRIBUTES)

    letter = dead_letter(deployment, body)

    assert [message["Body"] for message in arrived(billing)] == [body]
    assert outcome(deployment, letter, "delivered")["retry.number"] == 1
    deployment.wait_until_empty()
    assert shipping.receive() == [], "it had its copy: only the subscription that failed gets another"


def test_backlog_begins_its_schedule_at_the_time_that_is_set(world):
    topic = world.topic()
    begins = (datetime.now(UTC) + timedelta(seconds=15)).replace(microsecond=0)
    deployment = world.deploy(
        policy(retries=3, delay=2, immediate=1),
        topic,
        queues=["billing"],
        ScheduleFrom=begins.isoformat().replace("+00:00", "Z"),
    )
    billing = world.subscribe("billing", topic, deployment.queue_arn)

    letter = dead_letter(deployment, envelope(topic, billing.subscription_arn, MESSAGE))

    arrived(billing, within=40)
    line = outcome(deployment, letter, "delivered")
    assert datetime.fromisoformat(line["timestamp"]) >= begins
    assert (line["retry.number"], deployment.outcomes(letter)[0]["outcome"]) == (1, "deferred")


def test_raw_letter_keeps_its_attributes(world):
    topic = world.topic()
    dead_letter_queue = world.dead_letter_queue(topic)
    worker = world.subscribe("worker", topic, dead_letter_queue, raw=True)
    # A raw letter names nothing. The rule says whose it is.
    rule = {"name": "the-worker's", "match": {"origin": ["raw"]}, "subscription": worker.subscription_arn}
    deployment = world.deploy(
        policy(retries=3, delay=2, immediate=1, rules=[rule]),
        topic,
        queues=["worker"],
        ExistingDeadLetterQueueArn=dead_letter_queue,
    )
    attributes = {
        "tenant": {"DataType": "String", "StringValue": "gold"},
        "weight": {"DataType": "Number.kg", "StringValue": "1.50"},
        "checksum": {"DataType": "Binary", "BinaryValue": b"\x00\x01\xfd\xff"},
    }

    dead_letter(deployment, MESSAGE, attributes)

    [message] = arrived(worker)
    mark = json.loads(message["MessageAttributes"].pop("sns-redrive")["StringValue"])
    assert message["Body"] == MESSAGE
    assert message["MessageAttributes"] == attributes
    assert mark["spent"] == 1


def test_letter_comes_back_on_schedule_until_its_subscriber_is_repaired(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=6, delay=2), topic, queues=["billing"])
    billing = world.subscribe("billing", topic, deployment.queue_arn)
    billing.unplug()
    body = envelope(topic, billing.subscription_arn, MESSAGE)

    letter = dead_letter(deployment, body)
    early = outcome(deployment, letter, "deferred")
    assert (early["reason"], "retry.number" in early) == ("early", False), "the first retry has a delay as well"
    # Two failed attempts, and then the repair.
    wait_until(lambda: attempts(deployment, letter) == [1, 2], 15, "two attempts")
    billing.repair()

    delivered = outcome(deployment, letter, "delivered")
    assert (delivered["retry.number"], delivered["retry.of"]) == (3, 6)
    assert [message["Body"] for message in arrived(billing)] == [body]
    lines = deployment.outcomes(letter)
    for before, after in zip(lines, lines[1:], strict=False):
        late = seconds(after["timestamp"]) - seconds(before["due"])
        assert -1 <= late < 4, f"retry {after['retry.number']} was {late:.1f} s late"


def test_republished_letter_that_fails_again_comes_back_counted(world):
    topic = world.topic()
    deployment = world.deploy(
        policy(retries=2, delay=1, immediate=1, target="topic"), topic, queues=["billing"], TargetTopicArns=[topic]
    )
    billing = world.subscribe("billing", topic, deployment.queue_arn)
    first = envelope(topic, billing.subscription_arn, MESSAGE, subject="Order placed", attributes=PUBLISHED)

    dead_letter(deployment, first)
    second = fails_again(billing, arrived(billing))
    dead_letter(deployment, second)
    # Not by the topic again: others would get one more copy.
    [third] = arrived(billing)
    letter = dead_letter(deployment, third["Body"], third["MessageAttributes"])

    last_mark = json.loads(third["MessageAttributes"]["sns-redrive"]["StringValue"])
    assert (spent(second), last_mark["spent"]) == (1, 2)
    assert third["Body"] == second
    assert outcome(deployment, letter, "archived")["reason"] == "exhausted"
    original, published = json.loads(first), json.loads(second)
    del published["MessageAttributes"]["sns-redrive"]
    for field in ("Message", "Subject", "MessageAttributes", "TopicArn"):
        assert published[field] == original[field]
    assert {record["letterId"] for record in deployment.archive()} == {mark(second)["id"]} == {last_mark["id"]}


def test_topic_delivers_to_every_subscriber_with_the_attributes(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=2, delay=1, immediate=1, target="topic"), topic, TargetTopicArns=[topic])
    billing = world.subscribe("billing", topic, deployment.queue_arn)
    everyone = world.subscribe("everyone", topic, deployment.queue_arn, raw=True)

    dead_letter(deployment, envelope(topic, billing.subscription_arn, MESSAGE, attributes=PUBLISHED))

    assert len(arrived(billing)) == 1
    [message] = arrived(everyone)
    del message["MessageAttributes"]["sns-redrive"]
    assert message["Body"] == MESSAGE
    assert message["MessageAttributes"] == {
        name: {"DataType": kind, "StringValue": value} for name, (kind, value) in PUBLISHED.items()
    }


def test_copy_that_fails_at_another_subscriber_goes_to_that_one_alone(world):
    topic = world.topic()
    deployment = world.deploy(
        policy(retries=3, delay=1, immediate=3, target="topic"), topic, queues=["other"], TargetTopicArns=[topic]
    )
    billing = world.subscribe("billing", topic, deployment.queue_arn)
    other = world.subscribe("other", topic, deployment.queue_arn)
    body = envelope(topic, billing.subscription_arn, MESSAGE, subject="Order placed", attributes=PUBLISHED)
    dead_letter(deployment, body)
    assert len(arrived(billing)) == 1

    copy = fails_again(other, arrived(other))
    letter = dead_letter(deployment, copy)

    assert outcome(deployment, letter, "delivered")["target.arn"] == other.queue_arn
    assert [message["Body"] for message in arrived(other)] == [copy]
    assert billing.receive() == [], "published again it would have come here"


def fails_again(subscriber, received):
    """What SNS puts into the dead-letter queue when the republished message cannot be delivered either."""
    [message] = received
    body = json.loads(message["Body"])
    attributes = {name: (value["Type"], value["Value"]) for name, value in body["MessageAttributes"].items()}
    return envelope(body["TopicArn"], subscriber.subscription_arn, body["Message"], body["Subject"], attributes)


def mark(body):
    return json.loads(json.loads(body)["MessageAttributes"]["sns-redrive"]["Value"])


def spent(body):
    return mark(body)["spent"]


def seconds(text):
    return datetime.fromisoformat(text).timestamp()
