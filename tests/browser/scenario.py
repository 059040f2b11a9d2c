"""An account in which something is failing: what the pages of the console have to show."""

import json
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from local.archived import PER_OBJECT, bury
from local.deploy import deploy, deploy_operations
from local.sns import dead_letter, envelope
from local.stack import ACCOUNT, REGION, wait_until
from local.subscribers import subscribe, subscribe_web
from local.tool import redrivectl

HOURLY = {"minDelayTarget": 3600, "maxDelayTarget": 14400, "numRetries": 6, "numNoDelayRetries": 1}
POLICY = {
    # Two attempts at once, so that letters are archived within seconds.
    "default": {
        "deliveryPolicy": {"healthyRetryPolicy": {"numRetries": 2, "numNoDelayRetries": 2}},
        "jitter": 0,
    },
    "rules": [
        {"name": "audit-is-never-retried", "match": {"topicArn": [{"suffix": ":audit"}]}, "action": "archive"},
        {
            "name": "parcels-hourly",
            "match": {"topicArn": [{"suffix": ":parcels"}]},
            "deliveryPolicy": {"healthyRetryPolicy": HOURLY},
        },
    ],
}
# What nobody may read on a page.
SECRET = "the-body-of-a-letter"


class Scenario:
    """Letters of several topics: waiting, archived now and in earlier days; an override, a replay, alarms."""

    def __init__(self, stack, web, name="payments"):
        self.stack, self.web, self.name = stack, web, name
        sns = stack.client("sns")
        self.topics = {
            topic: sns.create_topic(Name=topic)["TopicArn"]
            for topic in ("placed", "shipped", "stocked", "parcels", "audit", "returns")
        }
        queues = ["billing", "warehouse", "courier", "ledger", "refunds"]
        self.deployment = deploy(
            stack,
            name,
            settings={"ALLOW_LOOPBACK_HTTP": "true"},
            metered=True,
            alarm_period=10,
            TopicArns=list(self.topics.values()),
            TargetQueueArns=[f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}" for queue in queues],
            RedrivePolicy=POLICY,
        )
        dead_letters = self.deployment.queue_arn
        self.operations = deploy_operations(
            self.deployment, ConsoleWidget="on", DashboardQueues=[dead_letters.rsplit(":", 1)[1]]
        )
        on = dict(zip(queues, ("placed", "stocked", "parcels", "audit", "returns"), strict=True))
        self.subscribers = {
            queue: subscribe(stack, queue, self.topics[topic], dead_letters) for queue, topic in on.items()
        }
        self.subscribers["shop"] = subscribe_web(stack, "shop", self.topics["shipped"], dead_letters, web)
        self.subscribers["tracking"] = subscribe_web(stack, "tracking", self.topics["parcels"], dead_letters, web)

    def happen(self):
        """Everything fails. Returns when the function has seen it."""
        began = time.monotonic()
        self.give_override("hold", "--topic", "returns", "--for", "8h", "--why", "refunds is being mended")
        self.bury_earlier_letters()
        for name in ("billing", "courier", "ledger"):
            self.subscribers[name].unplug()
        for name in ("shop", "tracking"):
            self.subscribers[name].unplug(503)
        letters = {"billing": 7, "shop": 4, "ledger": 2, "courier": 9, "tracking": 3, "refunds": 2}
        for name, number in letters.items():
            for index in range(number):
                self.letter(name, f"{SECRET} {index}")
        dead_letter(self.deployment, "a message that names nobody")
        self.deployment.meter.read()
        wait_until(self.seen, 60, "the function to see all letters", every=1)
        # Letters that were archived less than five seconds ago are not selected.
        time.sleep(max(0, began + 8 - time.monotonic()))
        self.replay()
        for _ in range(3):
            self.deployment.meter.read()
        return self

    def seen(self):
        self.deployment.meter.read()
        outcomes = [line["outcome"] for line in self.deployment.outcomes()]
        return outcomes.count("archived") >= 14 and outcomes.count("deferred") >= 12

    def letter(self, name, message, **more):
        subscriber = self.subscribers[name]
        return dead_letter(
            self.deployment, envelope(subscriber.topic_arn, subscriber.subscription_arn, message, **more)
        )

    def bury_earlier_letters(self):
        """What was archived in earlier days, and by what it failed."""
        gone = {"error": {"code": "AWS.SimpleQueueService.NonExistentQueue", "class": "action_required"}}
        slow = {"error": {"code": "503", "class": "transient"}}
        billing, shop = self.subscribers["billing"], self.subscribers["shop"]
        for days, letters in enumerate((61, 18, 3, 7), start=1):
            bury(self.deployment, billing, letters, hours=24 * days, **gone, targetArn=billing.endpoint)
            bury(self.deployment, shop, 2 * letters, hours=24 * days + 2, **slow, targetUrl=shop.endpoint)
        bury(self.deployment, billing, 5, "expiring", hours=26, **gone, targetArn=billing.endpoint)
        # They are replayed.
        bury(self.deployment, self.subscribers["warehouse"], 40, hours=5)
        # The past two hours, so that there is something in the range that pages have by themselves.
        bury(self.deployment, shop, 12, hours=1, **slow, targetUrl=shop.endpoint)

    def give_override(self, *words):
        done = redrivectl(self.deployment, *words, "--yes")
        assert done.returncode == 0, done.stdout + done.stderr

    def replay(self):
        """One that is done, of letters whose subscriber is back."""
        done = redrivectl(
            self.deployment, "replay", "--yes", "--topic", "stocked", "--ramp", "100", "--rate", 1000,
            "--why", "warehouse is back", "--json",
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        state = json.loads(done.stdout)
        assert (state["status"], state["counts"]) == ("done", {"sent": 40}), state


@dataclass
class Endpoint:
    """A subscription of a queue, which nobody made: its letters are in the archive and in the list alone."""

    topic_arn: str
    subscription_arn: str
    queue_arn: str


class Crowd:
    """A million archived letters, and sixty endpoints whose names are as long as AWS allows."""

    LETTERS = 1_000_000
    ENDPOINTS = 60
    CODES = ("AccessDenied", "AWS.SimpleQueueService.NonExistentQueue", "KMS.DisabledException", "Throttling")

    def __init__(self, stack, name="crowd"):
        topic = stack.client("sns").create_topic(Name=f"{name}-payments")["TopicArn"]
        self.stack, self.deployment = stack, deploy(stack, name, TopicArns=[topic], RedrivePolicy=POLICY)
        self.endpoints = [self.endpoint(number) for number in range(self.ENDPOINTS)]

    def endpoint(self, number):
        topic = f"arn:aws:sns:{REGION}:{ACCOUNT}:" + f"topic-{number % 7}-".ljust(256, "t")
        queue = f"arn:aws:sqs:{REGION}:{ACCOUNT}:" + f"queue-{number:02}-".ljust(80, "q")
        return Endpoint(topic, f"{topic}:{uuid.uuid4()}", queue)

    def happen(self):
        for number, endpoint in enumerate(self.endpoints):
            error = {"code": self.CODES[number % len(self.CODES)], "class": "action_required"}
            bury(self.deployment, endpoint, 1 + number, error=error, targetArn=endpoint.queue_arn)
        self.bury_the_others()
        self.wait()
        held = self.endpoints[0].topic_arn.rsplit(":", 1)[1]
        done = redrivectl(self.deployment, "hold", "--topic", held, "--for", "8h", "--why", "a" * 200, "--yes")
        assert done.returncode == 0, done.stdout + done.stderr
        return self

    def bury_the_others(self):
        """Older objects, of which a page reads nothing but the keys."""
        s3 = self.stack.client("s3")
        bucket, prefix = self.deployment.outputs["ArchiveLocation"].removeprefix("s3://").split("/", 1)
        queue = self.deployment.queue_arn.rsplit(":", 1)[1]
        for number in range(self.LETTERS // PER_OBJECT):
            at = datetime.now(UTC) - timedelta(hours=2, minutes=7 * number)
            key = f"{prefix}/queue={queue}/date={at:%Y-%m-%d}/{at:%Y%m%dT%H%M%S}.000Z-{number:08x}"
            s3.put_object(Bucket=bucket, Key=f"{key}.2-n{PER_OBJECT}-r0.exhausted.none.{PER_OBJECT}.jsonl", Body="")

    def wait(self):
        """Letters of each endpoint in the list of waiting letters."""
        now = datetime.now(UTC)
        lines = [
            waiting_line(
                f"{uuid.uuid4()}/{endpoint.subscription_arn}", self.deployment.queue_arn, now,
                topicArn=endpoint.topic_arn, subscriptionArn=endpoint.subscription_arn, target=endpoint.queue_arn,
                rule="default", error="Http503",
            )
            for endpoint in self.endpoints
        ]  # fmt: skip
        put_waiting(self.deployment, now, lines)


class Attack:
    """Letters whose every part that a stranger can choose is an attack on who looks at it."""

    # Right-to-left overrides and isolates, a zero-width space, and markup of each kind that could do something.
    BIDI = "\u202egnp.exe\u2066\u200b"
    MARKUP = (
        "<script>window.attacked=1</script>",
        '"><img src=x onerror="window.attacked=2">',
        '<cwdb-action action="call" endpoint="arn:aws:lambda:eu-central-1:123456789012:function:evil">{}</cwdb-action>',
        "<style>*{display:none}</style><h1>All is well</h1>",
        "</title></style></textarea><svg onload=window.attacked=3>",
        "javascript:window.attacked=4",
        "'; DROP `$(touch /tmp/attacked)`",
    )

    def __init__(self, stack, web, name="attacked"):
        self.stack = stack
        self.topic = stack.client("sns").create_topic(Name=f"{name}-payments")["TopicArn"]
        self.deployment = deploy(
            stack,
            name,
            TopicArns=[self.topic],
            TargetQueueArns=[f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}-billing"],
            RedrivePolicy={
                **POLICY,
                "origins": {"*": ["lambda-async"]},
                "rules": [
                    {
                        "name": "hourly",
                        "match": {"message": {"wait": [True]}},
                        "deliveryPolicy": {"healthyRetryPolicy": HOURLY},
                    }
                ],
            },
        )
        self.operations = deploy_operations(self.deployment, ConsoleWidget="on")
        self.billing = subscribe(stack, f"{name}-billing", self.topic, self.deployment.queue_arn)
        self.billing.unplug()
        self.web = web

    def happen(self):
        """They arrive. Returns when the function has seen them all."""
        ids = [self.letter(text + self.BIDI, wait) for text in self.MARKUP for wait in (False, True)]
        ids += [self.stranger(text + self.BIDI) for text in self.MARKUP]
        ids += [self.of_a_function(text + self.BIDI) for text in self.MARKUP]
        self.write_what_the_function_would_not()
        for text in self.MARKUP:
            pattern = json.dumps({"subject": [text + self.BIDI]})
            words = ("--match", pattern, "--for", "8h", "--why", text + self.BIDI, "--by", text + self.BIDI)
            done = redrivectl(self.deployment, "hold", *words, "--yes")
            assert done.returncode == 0, done.stderr

        def seen():
            return {line["sqs.message_id"] for line in self.deployment.outcomes()} >= set(ids)

        wait_until(seen, 60, "the function to see all letters", every=1)
        return self

    def letter(self, text, wait):
        """One that is tried, and fails: id, subject, attributes, message and original error are hostile."""
        body = envelope(
            self.topic,
            self.billing.subscription_arn,
            json.dumps({"wait": wait, "text": text}),
            subject=text[:90],
            attributes={"tenant": ("String", text)},
            message_id=text,
        )
        names = {"RequestID": text, "ErrorCode": text, "ErrorMessage": text}
        return dead_letter(
            self.deployment, body, {name: {"DataType": "String", "StringValue": value} for name, value in names.items()}
        )

    def of_a_function(self, text):
        """One as Lambda writes it for an asynchronous call that failed, by a function that says what it likes."""
        names = {"RequestID": str(uuid.uuid4()), "ErrorMessage": text}
        attributes = {name: {"DataType": "String", "StringValue": value} for name, value in names.items()}
        attributes["ErrorCode"] = {"DataType": "Number", "StringValue": "200"}
        return dead_letter(self.deployment, json.dumps({"Records": [], "text": text}), attributes)

    def write_what_the_function_would_not(self):
        """Archived and waiting letters whose every field is hostile. The function lets no such text in; who may write
        into the bucket could."""
        queue, now, waiting = self.deployment.queue_arn, datetime.now(UTC), []
        for text in self.MARKUP:
            hostile, solid = text + self.BIDI, text.replace(" ", "+")
            arn = f"arn:aws:sns:{REGION}:{ACCOUNT}:{solid}"
            fields = {"letterId": hostile, "rule": hostile, "detail": hostile, "topicArn": arn, "subscriptionArn": arn}
            fields |= {"targetUrl": f"https://{hostile}", "override": hostile, "origin": hostile}
            fields |= {"error": {"code": hostile, "class": hostile, "message": hostile}}
            bury(self.deployment, self.billing, 1, "exhausted", 1, **fields)
            names = ("messageId", "topicArn", "subscriptionArn", "target", "rule", "error")
            waiting.append(waiting_line(hostile, queue, now, **dict.fromkeys(names, hostile)))
        put_waiting(self.deployment, now, waiting)

    def stranger(self, text):
        """One whose topic and subscription are hostile, and that goes nowhere."""
        topic = f"arn:aws:sns:{REGION}:{ACCOUNT}:{text}"
        body = json.loads(envelope(self.topic, f"{topic}:{text}", "hello", message_id=text))
        return dead_letter(self.deployment, json.dumps(body | {"TopicArn": topic}))


def waiting_line(letter, queue, now, **more):
    """A line of the list of waiting letters, of a letter that is due in an hour."""
    times = {"since": now, "due": now + timedelta(hours=1)}
    times = {name: time.isoformat().replace("+00:00", "Z") for name, time in times.items()}
    line = {"letterId": letter, "messageId": letter, "receiptHandle": "none", "queueArn": queue}
    return line | {"retry": {"number": 2, "of": 7}} | times | more


def put_waiting(deployment, now, lines):
    bucket, control = deployment.outputs["ControlLocation"].removeprefix("s3://").split("/", 1)
    place = f"queue={deployment.queue_arn.rsplit(':', 1)[1]}/hour={now:%Y-%m-%dT%H}/{now:%Y%m%dT%H%M%S}.000Z-1.jsonl"
    body = "".join(json.dumps(line) + "\n" for line in lines)
    deployment.stack.client("s3").put_object(Bucket=bucket, Key=f"{control}/waiting/{place}", Body=body)
