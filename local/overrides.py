"""Gives overrides as `redrivectl hold`, `retry` and `overrides release` do, so that the demo need not compile the tool.

It is for one operator at a time: it keeps no record of ended overrides, and does not check whether somebody else wrote.
"""

import json
import uuid
from datetime import UTC, datetime

from botocore.exceptions import ClientError


class Control:
    """The place where a deployment's overrides and its list of waiting letters are, as its operator sees it."""

    def __init__(self, deployment):
        self.deployment = deployment
        self.s3 = deployment.stack.client("s3", deployment.operator)
        self.sqs = deployment.stack.client("sqs", deployment.operator)
        self.bucket, self.prefix = deployment.outputs["ControlLocation"].removeprefix("s3://").split("/", 1)
        self.document = {"Bucket": self.bucket, "Key": f"{self.prefix}/overrides.json"}

    def give(self, action, topic, why):
        """Puts an override before all others. The function obeys within 15 seconds."""
        now = datetime.now(UTC)
        override = {
            "id": f"{now:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}",
            "do": action,
            "match": {"topicArn": [{"suffix": f":{topic}"}]},
            "at": f"{now:%Y-%m-%dT%H:%M:%SZ}",
            "by": "the demo",
            "why": why,
        }
        self.write([override, *self.overrides()])

    def release(self, topic):
        """Takes the overrides of a topic out."""
        match = {"topicArn": [{"suffix": f":{topic}"}]}
        self.write([override for override in self.overrides() if override["match"] != match])

    def overrides(self):
        try:
            return json.load(self.s3.get_object(**self.document)["Body"])["overrides"]
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchKey":
                raise
            return []

    def write(self, overrides):
        document = json.dumps({"version": 1, "overrides": overrides}, indent=2)
        self.s3.put_object(**self.document, Body=document.encode(), ContentType="application/json")

    def wake(self, topic):
        """Shows the hidden letters of a topic to the function. Returns how many."""
        newest = {line["messageId"]: line for line in self.waiting() if line["topicArn"].endswith(f":{topic}")}
        for line in newest.values():
            # The operator may show letters, but not ask for the URL.
            sqs, name = self.deployment.stack.client("sqs"), line["queueArn"].rsplit(":", 1)[1]
            url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
            self.sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=line["receiptHandle"], VisibilityTimeout=0)
        return len(newest)

    def waiting(self):
        """Yields the lines about waiting letters, the newest last."""
        place = {"Bucket": self.bucket, "Prefix": f"{self.prefix}/waiting/"}
        for entry in self.s3.list_objects_v2(**place).get("Contents", []):
            lines = self.s3.get_object(Bucket=self.bucket, Key=entry["Key"])["Body"].read().decode()
            yield from map(json.loads, lines.removesuffix("\n").split("\n"))
