"""Subscribers of three kinds: a queue, a web server, a function. Each can break, be repaired, and tell what arrived.

Each has its dead letters pointed at a queue of ours, so that letters may come back to it.
"""

import io
import json
import zipfile
from dataclasses import dataclass

from local.stack import ACCOUNT, REGION, Stack, wait_until
from local.web import WebServer

# A function that passes its event on to a web server, and fails if that one does not take it.
PASS_ON = """\
import json, os, urllib.request

def handler(event, _context):
    body = json.dumps(event, ensure_ascii=False).encode()
    urllib.request.urlopen(urllib.request.Request(os.environ["PASS_ON_TO"], body, method="POST"), timeout=5).close()
"""


@dataclass
class Subscriber:
    stack: Stack
    name: str
    topic_arn: str
    endpoint: str
    subscription_arn: str

    def message_ids(self):
        """SNS's ids of the messages that have arrived since it was asked last."""
        return [json.loads(body)["MessageId"] for body in self.bodies()]


@dataclass
class QueueSubscriber(Subscriber):
    queue_url: str

    @property
    def queue_arn(self):
        return self.endpoint

    def unplug(self):
        """Deletes the queue: every delivery fails from now on."""
        self.stack.client("sqs").delete_queue(QueueUrl=self.queue_url)

    def repair(self):
        """Creates the queue again. AWS makes one wait 60 seconds after a deletion; ministack does not."""
        create_queue(self.stack, self.name, self.topic_arn)

    def receive(self):
        """Takes what has arrived."""
        return receive_all(self.stack, self.queue_url)

    def bodies(self):
        return [message["Body"] for message in self.receive()]


@dataclass
class WebSubscriber(Subscriber):
    web: WebServer
    seen: int = 0

    @property
    def path(self):
        return f"/{self.name}"

    def unplug(self, status=503):
        """Answers with an error from now on."""
        self.web.answers[self.path] = status

    def repair(self):
        del self.web.answers[self.path]

    def is_broken(self):
        return self.path in self.web.answers

    def posts(self):
        """Every post so far, those that were answered with an error too."""
        return self.web.at(self.path)

    def receive(self):
        """The posts that were accepted since it was asked last."""
        posts = self.posts()
        fresh, self.seen = posts[self.seen :], len(posts)
        return [post for post in fresh if post.answered == 200]

    def bodies(self):
        return [post.body.decode() for post in self.receive()]


@dataclass
class FunctionSubscriber(WebSubscriber):
    """Its function passes on what it gets to the web server."""

    def unplug(self):
        """Deletes the function."""
        self.stack.client("lambda").delete_function(FunctionName=self.name)

    def repair(self):
        create_function(self.stack, self.name, self.web)

    def fail(self):
        """The function is there, but its code fails from now on."""
        self.web.answers[self.path] = 500

    def events(self):
        """Every event so far, those that the function failed on too."""
        return [json.loads(post.body) for post in self.posts()]

    def bodies(self):
        return [json.dumps(json.loads(post.body)["Records"][0]["Sns"]) for post in self.receive()]


def subscribe(stack, name, topic_arn, dead_letter_queue_arn, raw=False):
    """Creates the queue `name` and subscribes it to the topic."""
    url, arn = create_queue(stack, name, topic_arn)
    subscription_arn = new_subscription(stack, topic_arn, "sqs", arn, dead_letter_queue_arn, raw)
    return QueueSubscriber(stack, name, topic_arn, arn, subscription_arn, url)


def subscribe_web(stack, name, topic_arn, dead_letter_queue_arn, web, raw=False):
    """Subscribes a path of the web server to the topic."""
    url = web.url(f"/{name}")
    subscription_arn = new_subscription(stack, topic_arn, "http", url, dead_letter_queue_arn, raw)
    return WebSubscriber(stack, name, topic_arn, url, subscription_arn, web)


def subscribe_function(stack, name, topic_arn, dead_letter_queue_arn, web):
    """Creates the function `name` and subscribes it to the topic."""
    arn = create_function(stack, name, web)
    subscription_arn = new_subscription(stack, topic_arn, "lambda", arn, dead_letter_queue_arn)
    return FunctionSubscriber(stack, name, topic_arn, arn, subscription_arn, web)


def new_subscription(stack, topic_arn, protocol, endpoint, dead_letter_queue_arn, raw=False, **attributes):
    """Subscribes, waits until the subscription is confirmed, and returns its ARN."""
    sns = stack.client("sns")
    attributes |= {
        "RedrivePolicy": json.dumps({"deadLetterTargetArn": dead_letter_queue_arn}),
        "RawMessageDelivery": "true" if raw else "false",
    }
    sns.subscribe(
        TopicArn=topic_arn, Protocol=protocol, Endpoint=endpoint, Attributes=attributes, ReturnSubscriptionArn=True
    )
    # ministack returns no ARN for one that is not confirmed yet, but lists it.
    [arn] = [
        found["SubscriptionArn"]
        for found in sns.list_subscriptions_by_topic(TopicArn=topic_arn)["Subscriptions"]
        if found["Endpoint"] == endpoint
    ]

    def confirmed():
        return sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]["PendingConfirmation"] == "false"

    wait_until(confirmed, 10, f"the subscription of {endpoint}")
    return arn


def create_queue(stack, name, topic_arn, **attributes):
    """A queue that the topic may write to. Returns its URL and its ARN."""
    sqs = stack.client("sqs")
    if name.endswith(".fifo"):
        attributes["FifoQueue"] = "true"
    url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "sns.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": arn,
                "Condition": {"ArnEquals": {"aws:SourceArn": topic_arn}},
            }
        ],
    }
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(policy)})
    return url, arn


def receive_all(stack, url):
    """Receives and deletes everything that is visible in a queue."""
    sqs = stack.client("sqs")
    received = []
    while True:
        batch = sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=0,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        ).get("Messages", [])
        if not batch:
            return received
        for message in batch:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        received += batch


def create_function(stack, name, web):
    """A function that passes its events on to the web server, under its own name. Returns its ARN."""
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("index.py", PASS_ON)
    client = stack.client("lambda")
    arn = client.create_function(
        FunctionName=name,
        # ministack runs every Python function with the Python that it runs on itself.
        Runtime="python3.12",
        Handler="index.handler",
        Role=f"arn:aws:iam::{ACCOUNT}:role/{function_role(stack)}",
        Code={"ZipFile": package.getvalue()},
        Timeout=10,
        Environment={"Variables": {"PASS_ON_TO": web.url(f"/{name}")}},
    )["FunctionArn"]
    wait_until(lambda: client.get_function(FunctionName=name)["Configuration"]["State"] == "Active", 10, f"{name}")
    return arn


def function_role(stack, name="subscribers"):
    """A role without a single permission: the function talks to the web server only."""
    iam = stack.client("iam")
    if name not in [role["RoleName"] for role in iam.list_roles()["Roles"]]:
        principal = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
        document = {"Version": "2012-10-17", "Statement": [principal]}
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(document))
    return name


def function_arn(name):
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}"
