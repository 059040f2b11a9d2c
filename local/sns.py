"""Topics, subscribers, and the dead letters that SNS would write.

ministack never carries out a subscription's dead-lettering: it drops a delivery that fails. So `envelope` writes what
SNS would put into the dead-letter queue, in SNS's own layout.
"""

import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime

from local.stack import REGION, Stack


@dataclass
class Subscriber:
    """A queue that is subscribed to a topic, with its dead letters pointed at a queue of ours."""

    stack: Stack
    name: str
    topic_arn: str
    queue_arn: str
    queue_url: str
    subscription_arn: str

    def unplug(self):
        """Deletes the queue: every delivery fails from now on."""
        self.stack.client("sqs").delete_queue(QueueUrl=self.queue_url)

    def repair(self):
        """Creates the queue again. AWS makes one wait 60 seconds after a deletion; ministack does not."""
        create_queue(self.stack, self.name, self.topic_arn)

    def receive(self):
        """Takes what has arrived."""
        return receive_all(self.stack, self.queue_url)


def subscribe(stack, name, topic_arn, dead_letter_queue_arn, raw=False):
    """Creates the queue `name` and subscribes it to the topic."""
    url, arn = create_queue(stack, name, topic_arn)
    subscription_arn = stack.client("sns").subscribe(
        TopicArn=topic_arn,
        Protocol="sqs",
        Endpoint=arn,
        Attributes={
            "RedrivePolicy": json.dumps({"deadLetterTargetArn": dead_letter_queue_arn}),
            "RawMessageDelivery": "true" if raw else "false",
        },
        ReturnSubscriptionArn=True,
    )["SubscriptionArn"]
    return Subscriber(stack, name, topic_arn, arn, url, subscription_arn)


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


def envelope(topic_arn, subscription_arn, message, subject=None, attributes=None):
    """The body that SNS writes for a subscription without raw delivery. `attributes`: name to (type, value)."""
    body = {"Type": "Notification", "MessageId": str(uuid.uuid4()), "TopicArn": topic_arn}
    if subject is not None:
        body["Subject"] = subject
    body |= {
        "Message": message,
        "Timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "SignatureVersion": "1",
        "Signature": "bm90IHNpZ25lZCwgdGhpcyBpcyB0aGUgbG9jYWwgc3RhY2s=",
        "SigningCertURL": f"https://sns.{REGION}.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
        "UnsubscribeURL": f"https://sns.{REGION}.amazonaws.com/?Action=Unsubscribe&SubscriptionArn={subscription_arn}",
    }
    if attributes:
        body["MessageAttributes"] = {name: {"Type": kind, "Value": value} for name, (kind, value) in attributes.items()}
    # SNS puts spaces around its colons. Redelivery has to keep them.
    return json.dumps(body, indent=2, separators=(",", " : "), ensure_ascii=False)


def dead_letter(deployment, body, attributes=None):
    """Puts a letter into the dead-letter queue. Returns its SQS message id."""
    return deployment.stack.client("sqs").send_message(
        QueueUrl=deployment.queue_url, MessageBody=body, MessageAttributes=attributes or {}
    )["MessageId"]
