"""Letters in the archive, as the function writes them, but as long ago as one likes."""

import base64
import hashlib
import json
import math
import uuid
from datetime import UTC, datetime, timedelta

from local.sns import envelope
from local.stack import ACCOUNT, REGION

PER_OBJECT = 400


def bury(deployment, subscriber, letters, reason="exhausted", hours=1, first=0, **more):
    """Archives so many letters as the function did so many hours ago, several hundred an object, numbered from `first`.

    `more` are further fields of their records. Returns the SQS message ids.
    """
    s3 = deployment.stack.client("s3")
    place, queue = deployment.outputs["ArchiveLocation"].removeprefix("s3://"), deployment.queue_arn
    bucket, prefix = place.split("/", 1)
    archived = datetime.now(UTC) - timedelta(hours=hours)
    numbers = range(first, first + letters)
    records = [record(deployment, subscriber, number, archived, reason) | more for number in numbers]
    topic = hashlib.sha256(subscriber.topic_arn.rsplit(":", 1)[1].encode()).digest()
    topic = base64.urlsafe_b64encode(topic).decode()[:8]
    for number in range(math.ceil(letters / PER_OBJECT)):
        lines = records[number * PER_OBJECT : (number + 1) * PER_OBJECT]
        stamp = f"date={archived:%Y-%m-%d}/{archived:%Y%m%dT%H%M%S}.000Z-{uuid.uuid4().hex[:8]}"
        index = f"2-n{len(lines)}-r0.{reason}.{topic}.{len(lines)}"
        key = f"{prefix}/queue={queue.rsplit(':', 1)[1]}/{stamp}.{index}.jsonl"
        s3.put_object(Bucket=bucket, Key=key, Body="".join(json.dumps(line) + "\n" for line in lines))
    return [line["message"]["messageId"] for line in records]


def record(deployment, subscriber, number, archived, reason):
    sns_id, sent = str(uuid.uuid4()), int(archived.timestamp() * 1000) - 60_000
    body = envelope(subscriber.topic_arn, subscriber.subscription_arn, f"letter {number}", message_id=sns_id)
    return {
        "version": 1,
        "archivedAt": archived.isoformat().replace("+00:00", "Z"),
        "reason": reason,
        "queueArn": deployment.queue_arn,
        "deadLetterQueueArn": deployment.queue_arn,
        "letterId": f"{sns_id}/{subscriber.subscription_arn}",
        "origin": "sns",
        "topicArn": subscriber.topic_arn,
        "subscriptionArn": subscriber.subscription_arn,
        "rule": "default",
        "retry": {"number": 2, "of": 2},
        "message": {
            "messageId": str(uuid.uuid4()),
            "body": body,
            "attributes": {
                "ApproximateReceiveCount": "3",
                "SentTimestamp": str(sent),
                "SenderId": ACCOUNT,
                "ApproximateFirstReceiveTimestamp": str(sent + 100),
            },
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": deployment.queue_arn,
            "awsRegion": REGION,
        },
    }
