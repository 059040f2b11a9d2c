"""Subscribers of every kind: what reaches them, and that it reaches nobody else."""

import json

import pytest
from world import arrived, attempts, event_of_sns, outcome, policy

from local.letters import name_of_url
from local.sns import dead_letter, envelope
from local.stack import ROOT, wait_until
from local.subscribers import new_subscription

MESSAGE = json.dumps({"id": "o-1", "note": 'Grüße & <thanks> "ok"\n'}, ensure_ascii=False)
ATTRIBUTES = {"tenant": ("String", "gold"), "weight": ("Number", "1.50"), "checksum": ("Binary", "AAECA/3+/w==")}


@pytest.mark.parametrize("broken", ["queue", "web", "function"])
def test_every_message_ends_exactly_once_at_each_of_three_subscribers(world, broken):
    topic = world.topic()
    deployment = world.deploy(policy(retries=8, delay=1), topic, queues=["queue"], functions=["function"])
    subscribers = {
        "queue": world.subscribe("queue", topic, deployment.queue_arn),
        "web": world.subscribe_web("web", topic, deployment.queue_arn),
        "function": world.subscribe_function("function", topic, deployment.queue_arn),
    }
    subscribers[broken].unplug()

    published, letters = [], []
    for number in range(3):
        answer = world.stack.client("sns").publish(TopicArn=topic, Message=f"message {number}")
        published.append(answer["MessageId"])
        # What SNS does after its own retries. ministack drops what it cannot deliver.
        body = envelope(topic, subscribers[broken].subscription_arn, f"message {number}", message_id=published[-1])
        letters.append(dead_letter(deployment, body))
    for letter in letters:
        outcome(deployment, letter, "deferred")
    wait_until(lambda: attempts(deployment, letters[0]), 20, "a failed attempt")
    subscribers[broken].repair()

    for letter in letters:
        outcome(deployment, letter, "delivered")
    received = {name: [] for name in subscribers}

    def complete():
        for name, subscriber in subscribers.items():
            received[name] += subscriber.message_ids()
        return all(len(ids) >= len(published) for ids in received.values())

    wait_until(complete, 20, "the messages to arrive")
    assert {name: sorted(ids) for name, ids in received.items()} == {name: sorted(published) for name in subscribers}
    deployment.wait_until_empty()
    assert deployment.archive() == []


def test_web_server_gets_what_sns_would_send(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=6, delay=1, immediate=1), topic)
    shop = world.subscribe_web("shop", topic, deployment.queue_arn)
    body, headers = sample(topic, shop)
    shop.unplug()

    letter = dead_letter(deployment, body)
    wait_until(lambda: len(shop.posts()) == 2, 20, "two posts that fail")
    shop.repair()

    assert outcome(deployment, letter, "delivered")["target.url"] == name_of_url(shop.endpoint)
    posts = shop.posts()
    assert [post.answered for post in posts] == [503] * (len(posts) - 1) + [200]
    assert len(posts) == attempts(deployment, letter)[-1], "one post an attempt"
    for post in posts:
        assert post.body == body.encode()
        assert sorted((name.lower(), value) for name, value in post.headers) == headers
    failed = [line for line in deployment.outcomes(letter) if line["outcome"] == "deferred"]
    assert {(line["error.code"], line["error.class"]) for line in failed} == {("Http503", "transient")}


def sample(topic, subscriber):
    """The recorded post of events/http-post.txt, with this test's names in it: body, and headers in order of name."""
    text = (ROOT / "events" / "http-post.txt").read_text()
    overrides = "arn:aws:sns:eu-central-1:123456789012:payments"
    for old, new in {
        f"{overrides}:43fe80b0-b10c-4081-9e18-5bdb8f9824e6": subscriber.subscription_arn,
        overrides: topic,
        "hooks.example.com": subscriber.endpoint.split("/")[2],
    }.items():
        # The topic is the beginning of its subscriptions.
        text = text.replace(f"{old}\n", f"{new}\n").replace(f'{old}"', f'{new}"').replace(f"{old}&", f"{new}&")
    head, body = text.split("\n\n", 1)
    body = body.removesuffix("\n")
    headers = dict(line.split(": ", 1) for line in head.splitlines()[1:])
    headers["Content-Length"] = str(len(body.encode()))
    return body, sorted((name.lower(), value) for name, value in headers.items())


def test_web_server_with_raw_delivery_gets_the_plain_message(world):
    topic = world.topic()
    dead_letter_queue = world.dead_letter_queue(topic)
    shop = world.subscribe_web("shop", topic, dead_letter_queue, raw=True)
    # A raw letter names nothing; the subscription is found, being the only one with this dead-letter queue.
    deployment = world.deploy(
        policy(
            retries=2,
            delay=1,
            immediate=1,
            subscription="discover",
            requestPolicy={"headerContentType": "application/json"},
        ),
        topic,
        ExistingDeadLetterQueueArn=dead_letter_queue,
        DiscoverSubscription="true",
    )

    letter = dead_letter(deployment, MESSAGE)

    outcome(deployment, letter, "delivered")
    [post] = shop.posts()
    assert post.body == MESSAGE.encode()
    assert post.header("x-amz-sns-rawdelivery") == "true"
    assert post.header("x-amz-sns-topic-arn") == topic
    assert post.header("x-amz-sns-subscription-arn") == shop.subscription_arn
    assert post.header("content-type") == "application/json"


def test_post_that_is_refused_for_good_is_archived_at_once(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=3, delay=1, immediate=1), topic)
    shop = world.subscribe_web("shop", topic, deployment.queue_arn)
    shop.unplug(status=404)

    letter = dead_letter(deployment, envelope(topic, shop.subscription_arn, MESSAGE))

    archived = outcome(deployment, letter, "archived")
    assert (archived["reason"], archived["error.code"]) == ("permanent", "Http404")
    assert len(shop.posts()) == 1
    assert [record["targetUrl"] for record in deployment.archive()] == [name_of_url(shop.endpoint)]


def test_loopback_is_out_of_reach_on_aws(world):
    """ALLOW_LOOPBACK_HTTP is set by the local deployment, not by the template."""
    topic = world.topic()
    deployment = world.deploy(policy(retries=3, delay=1, immediate=1), topic, settings={})
    shop = world.subscribe_web("shop", topic, deployment.queue_arn)

    letter = dead_letter(deployment, envelope(topic, shop.subscription_arn, MESSAGE))

    archived = outcome(deployment, letter, "archived")
    assert (archived["reason"], archived["detail"]) == (
        "refused",
        "the endpoint's address is loopback, link-local or reserved: no letter may go there",
    )
    assert shop.posts() == []


def test_posts_keep_to_the_rate_of_the_throttle_policy(world):
    topic = world.topic()
    # Two instances at most, so that each may post once a second.
    deployment = world.deploy(
        # The delay is long: a letter that is put off meanwhile must not have passed its second retry.
        policy(retries=5, delay=60, immediate=1, throttlePolicy={"maxReceivesPerSecond": 2}),
        topic,
        MaximumConcurrency=2,
    )
    shop = world.subscribe_web("shop", topic, deployment.queue_arn)

    letters = [dead_letter(deployment, envelope(topic, shop.subscription_arn, f"{n}")) for n in range(8)]

    for letter in letters:
        assert outcome(deployment, letter, "delivered", within=40)["retry.number"] == 1, "waiting is no attempt"
    times = sorted(post.at for post in shop.posts())
    assert len(times) == len(letters)
    for first, third in zip(times, times[2:], strict=False):
        assert third - first > 0.9, f"three posts within {third - first:.2f} s"


def test_function_gets_the_event_of_sns_and_the_mark(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=2, delay=1, immediate=1), topic, functions=["notifier"])
    notifier = world.subscribe_function("notifier", topic, deployment.queue_arn)
    body = envelope(topic, notifier.subscription_arn, MESSAGE, subject="Order placed", attributes=ATTRIBUTES)

    letter = dead_letter(deployment, body)

    assert outcome(deployment, letter, "delivered")["target.arn"] == notifier.endpoint
    wait_until(notifier.posts, 10, "the event")
    [event] = notifier.events()
    mark = json.loads(event["Records"][0]["Sns"]["MessageAttributes"].pop("sns-redrive")["Value"])
    assert mark["spent"] == 1
    assert event == event_of_sns(notifier.subscription_arn, body)


def test_function_that_is_not_granted_is_not_invoked(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=3, delay=30, immediate=1), topic, functions=["other"])
    notifier = world.subscribe_function("notifier", topic, deployment.queue_arn)

    letter = dead_letter(deployment, envelope(topic, notifier.subscription_arn, MESSAGE))

    failed = outcome(deployment, letter, "deferred")
    assert (failed["error.code"], failed["error.class"]) == ("AccessDeniedException", "action_required")
    assert notifier.posts() == []


def test_stream_gets_the_stored_envelopes_and_a_line_break_after_each(world):
    topic = world.topic()
    s3, firehose = world.stack.client("s3"), world.stack.client("firehose")
    bucket, name = f"records-{world.prefix}", world.name("stream")
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": s3.meta.region_name})
    stream = firehose.create_delivery_stream(
        DeliveryStreamName=name,
        S3DestinationConfiguration={
            "RoleARN": "arn:aws:iam::123456789012:role/firehose",
            "BucketARN": f"arn:aws:s3:::{bucket}",
        },
    )["DeliveryStreamARN"]
    deployment = world.deploy(policy(retries=2, delay=1, immediate=1), topic, TargetStreamArns=[stream])
    role = {"SubscriptionRoleArn": "arn:aws:iam::123456789012:role/sns"}
    subscription = new_subscription(world.stack, topic, "firehose", stream, deployment.queue_arn, **role)
    bodies = [envelope(topic, subscription, f"{MESSAGE} {number}") for number in range(3)]

    letters = [dead_letter(deployment, body) for body in bodies]

    for letter in letters:
        assert outcome(deployment, letter, "delivered")["target.arn"] == stream
    keys = [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    stored = "".join(s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode() for key in keys)
    assert sorted(stored.count(body + "\n") for body in bodies) == [1, 1, 1]
    assert len(stored) == sum(len(body + "\n") for body in bodies)


def test_raw_letters_find_their_subscription_only_with_the_grant(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=2, delay=1, subscription="discover"), topic, queues=["worker"])
    worker = world.subscribe("worker", topic, deployment.queue_arn, raw=True)

    letter = dead_letter(deployment, MESSAGE)

    assert outcome(deployment, letter, "failed")["reason"] == "out_of_time"
    assert (worker.receive(), deployment.waiting()) == ([], 1)


def test_unsigned_letter_is_refused_where_signatures_are_asked_for(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=2, delay=1, immediate=1, verifySignature=True), topic, queues=["billing"])
    billing = world.subscribe("billing", topic, deployment.queue_arn)
    body = json.loads(envelope(topic, billing.subscription_arn, MESSAGE))
    del body["Signature"]

    letter = dead_letter(deployment, json.dumps(body))

    archived = outcome(deployment, letter, "archived")
    detail = (
        "the letter is not signed: SNS may not have written it. "
        'Raw deliveries need a rule with "verifySignature": false, letters of FIFO topics a queue of their own'
    )
    assert (archived["reason"], archived["detail"]) == ("refused", detail)
    assert billing.receive() == []


def test_target_outside_of_the_allowed_ones_is_refused(world):
    topic = world.topic()
    allowed = [world.queue_arn("billing"), world.web.url("/elsewhere")]
    deployment = world.deploy(
        policy(retries=2, delay=1, immediate=1, allowTargets=allowed), topic, queues=["billing", "shipping"]
    )
    billing = world.subscribe("billing", topic, deployment.queue_arn)
    shipping = world.subscribe("shipping", topic, deployment.queue_arn)
    shop = world.subscribe_web("shop", topic, deployment.queue_arn)

    letters = [dead_letter(deployment, envelope(topic, s.subscription_arn, MESSAGE)) for s in (billing, shipping, shop)]

    outcome(deployment, letters[0], "delivered")
    for letter in letters[1:]:
        archived = outcome(deployment, letter, "archived")
        assert (archived["reason"], archived["detail"]) == (
            "refused",
            "the target is not in the rule's allowTargets: add it there, or set another target",
        )
    assert len(arrived(billing)) == 1
    assert (shipping.receive(), shop.posts()) == ([], [])
