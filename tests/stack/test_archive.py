"""Letters that cannot be saved: whole, and with the reason."""

import base64
import json

from world import attempts, outcome, policy

from local.sns import dead_letter, envelope


def test_exhausted_letter_is_archived_and_can_be_rebuilt(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=2, delay=1, immediate=1), topic, queues=["billing"])
    billing = world.subscribe("billing", topic, deployment.queue_arn)
    billing.unplug()
    body = envelope(topic, billing.subscription_arn, "50 €", attributes={"tenant": ("String", "gold")})

    letter = dead_letter(deployment, body, {"checksum": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}})

    assert outcome(deployment, letter, "archived")["reason"] == "exhausted"
    assert attempts(deployment, letter) == [1, 2]
    deployment.wait_until_empty()
    [record] = deployment.archive()
    assert record["key"].startswith(f"dead-letters/queue={deployment.queue_arn.rsplit(':', 1)[1]}/date=")
    assert record["retry"] == {"number": 2, "of": 2}
    assert record["subscriptionArn"] == billing.subscription_arn
    message = record["message"]
    assert (message["messageId"], message["body"]) == (letter, body)
    [(name, attribute)] = message["messageAttributes"].items()
    assert (name, attribute["dataType"], base64.b64decode(attribute["binaryValue"])) == (
        "checksum",
        "Binary",
        b"\x00\xff",
    )
    assert "receiptHandle" not in message


def test_unrecognised_letter_is_archived_byte_for_byte(world):
    # Also: a deployment that may send to no queue and no topic at all.
    topic = world.topic()
    deployment = world.deploy(policy(retries=3, delay=1), topic)
    body = '{"Type": "Notification", "TopicArn": 7, "Message": "\\u0000é𝕏\\n'

    letter = dead_letter(deployment, body)

    assert outcome(deployment, letter, "archived")["reason"] == "unrecognised"
    assert [record["message"]["body"] for record in deployment.archive()] == [body]
    deployment.wait_until_empty()


def test_letter_of_a_subscription_with_other_dead_letters_is_refused(world):
    """Who can write to the dead-letter queue reaches only those who pointed their dead letters at it."""
    topic = world.topic()
    deployment = world.deploy(policy(retries=3, delay=1, immediate=1), topic, queues=["victim"])
    victim = world.subscribe("victim", topic, world.dead_letter_queue(topic))

    letter = dead_letter(deployment, envelope(topic, victim.subscription_arn, "surprise"))

    assert outcome(deployment, letter, "archived")["reason"] == "refused"
    assert victim.receive() == []


def test_metrics_count_what_was_archived(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=1, delay=60), topic, MetricsNamespace="Redrive/Test", QueueMetrics="all")

    letter = dead_letter(deployment, "nothing that we know")
    outcome(deployment, letter, "archived")

    [line] = [line for line in deployment.log_lines() if "_aws" in line]
    directives = line["_aws"]["CloudWatchMetrics"]
    assert [(d["Namespace"], d["Dimensions"]) for d in directives] == [
        ("Redrive/Test", [["Queue"]]),
        ("Redrive/Test", [["FunctionName"]]),
    ]
    assert "ArchivedUnrecognised" in [metric["Name"] for metric in directives[0]["Metrics"]]
    assert [metric["Name"] for metric in directives[1]["Metrics"]] == ["LettersArrived", "LettersNowhereToGo"]
    assert line["FunctionName"] == deployment.outputs["FunctionName"]
    assert line["Queue"] == deployment.queue_arn.rsplit(":", 1)[1]
    counts = {name: line[name] for name in ("LettersReceived", "LettersArchived", "ArchivedUnrecognised")}
    assert counts == {"LettersReceived": 1, "LettersArchived": 1, "ArchivedUnrecognised": 1}
    assert "SecondsToExpiry" not in line, "what is archived is safe"
    assert "nothing that we know" not in json.dumps(deployment.log_lines())

    waiting = dead_letter(deployment, envelope(topic, f"{topic}:0123", "later"))
    outcome(deployment, waiting, "deferred")
    line = [line for line in deployment.log_lines() if "_aws" in line][-1]
    assert line["SecondsToExpiry"] > 13 * 86400, "the retention is the queue's 14 days, not the 4 assumed without grant"
