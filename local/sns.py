"""The dead letters that SNS would write.

ministack never carries out a subscription's dead-lettering: it drops a delivery that fails. So `envelope` writes what
SNS would put into the dead-letter queue, in SNS's own layout.
"""

import base64
import hashlib
import json
import uuid
from datetime import UTC, datetime

from local.stack import REGION


def envelope(topic_arn, subscription_arn, message, subject=None, attributes=None, message_id=None):
    """The body that SNS writes for a subscription without raw delivery. `attributes`: name to (type, value)."""
    body = {"Type": "Notification", "MessageId": message_id or str(uuid.uuid4()), "TopicArn": topic_arn}
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


def mark(message, letter_id, generation, **fields):
    """The value of our mark on this message, as crates/core/src/letter/mark.rs writes it."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(message.encode()).digest()[:8]).rstrip(b"=").decode()
    first = 1_700_000_000_000
    mark = {"v": 2, "spent": 0, "id": letter_id, "first": first, "gen": generation, "msg": digest, "passes": 0}
    return json.dumps(mark | fields)


def dead_letter(deployment, body, attributes=None, group="group", queue_url=None):
    """Puts a letter into the dead-letter queue, or another one. Returns its SQS message id.

    `group` is that of a letter in a FIFO queue.
    """
    url = queue_url or deployment.queue_url
    of_fifo = {"MessageGroupId": group, "MessageDeduplicationId": str(uuid.uuid4())} if url.endswith(".fifo") else {}
    return deployment.stack.client("sqs").send_message(
        QueueUrl=url, MessageBody=body, MessageAttributes=attributes or {}, **of_fifo
    )["MessageId"]


def create_topic(stack, name):
    """Creates a topic, which is FIFO if its name ends with .fifo. Returns its ARN."""
    fifo = {"FifoTopic": "true"} if name.endswith(".fifo") else {}
    return stack.client("sns").create_topic(Name=name, Attributes=fifo)["TopicArn"]
