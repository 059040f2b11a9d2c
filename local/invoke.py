"""`make invoke`: runs the built function on one of the events of `events/`, and prints its answer and its log.

It first creates what the events refer to: the topics, the queues and functions to which letters may go, and the
dead-letter queue with the function of template.yaml.
"""

import argparse
import hashlib
import json
import re
import sys
import time
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from local.deploy import deploy
from local.sns import create_topic
from local.stack import ACCOUNT, REGION, ROOT, Stack, StackError, stop_on_signals, wait_until
from local.subscribers import create_function, create_queue, function_arn
from local.web import WebServer

# The time of the events: 2026-11-01T12:00:00Z. See events/README.md.
EVENTS_NOW = 1793534400000

# The subscriptions of the events, by the last part of their ARN: topic, protocol, endpoint.
SUBSCRIPTIONS = {
    "43fe80b0-b10c-4081-9e18-5bdb8f9824e6": ("payments", "sqs", "payments-worker"),
    "632be099-8c45-4e84-a963-95515684f2e0": ("payments", "sqs", "payments-billing"),
    "42f6a085-cc9a-44f4-b486-a8ff9c06c475": ("payments", "lambda", "function:payments-notifier"),
    "c741ca07-c97a-40d7-b428-731c4aeebc23": ("payments.fifo", "sqs", "payments-worker.fifo"),
}

FUNCTIONS = ["payments-notifier", "payments-projector"]

# The queue that SQS moved letters from, with the maxReceiveCount of the events.
SOURCE_QUEUES = {
    "payments-billing": {
        "RedrivePolicy": json.dumps(
            {"deadLetterTargetArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:payments-dlq", "maxReceiveCount": 3}
        )
    }
}


def main():
    arguments = argparse.ArgumentParser(prog="make invoke", description=__doc__.splitlines()[0])
    arguments.add_argument("event", type=Path)
    arguments.add_argument("--mode", choices=["active", "observe"], default="active")
    chosen = arguments.parse_args()
    stop_on_signals()
    try:
        with Stack() as stack, WebServer() as web:
            return invoke(stack, web, (ROOT / chosen.event).read_text(), chosen.mode)
    except KeyboardInterrupt:
        return 130
    except (StackError, TimeoutError, OSError, BotoCoreError, ClientError) as error:
        print(f"make invoke: {error}", file=sys.stderr)
        return 1


def invoke(stack, web, text, mode):
    dead_letter_queue = json.loads(text)["Records"][0]["eventSourceARN"]
    fourteen_days = {"MessageRetentionPeriod": "1209600"}
    for name in ("payments-dlq", dead_letter_queue.rsplit(":", 1)[1]):
        queue_url, _ = create_queue(stack, name, arn("sns", "payments*"), **fourteen_days)
    for function in FUNCTIONS:
        create_function(stack, function, web)
    renamed = subscribe_all(stack, dead_letter_queue)
    deployment = deploy(
        stack,
        "invoke",
        ExistingDeadLetterQueueArn=dead_letter_queue,
        TopicArns=arn("sns", "*"),
        TargetTopicArns=arn("sns", "*"),
        TargetQueueArns=arn("sqs", "*"),
        TargetFunctionArns=function_arn("*"),
        RedriveMode=mode,
    )
    event = as_of_now(text, renamed)
    give_receipt_handles(stack, queue_url, event)
    answer = stack.client("lambda").invoke(FunctionName=deployment.outputs["FunctionName"], Payload=json.dumps(event))
    # A function that does not start writes no log lines; the answer says why.
    failed = "FunctionError" in answer
    lines = deployment.log_lines() if failed else wait_until(deployment.log_lines, 10, "the function's log")

    print("\nLog:\n")
    for line in lines:
        print(json.dumps(line, ensure_ascii=False))
    print("\nArchived:\n")
    for record in deployment.archive():
        print(f"{record['reason']:<22} {record['message']['messageId']}  in {record['key']}")
        if "detail" in record:
            print(f"{'':<22} {record['detail']}")
    print("\nAnswer:\n")
    print(json.dumps(json.load(answer["Payload"]), indent=2))
    return 1 if failed else 0


def subscribe_all(stack, dead_letter_queue):
    """Creates topics and subscriptions. Returns the new name of each of the events' subscriptions."""
    renamed = {}
    for old, (topic, protocol, endpoint) in SUBSCRIPTIONS.items():
        topic_arn = create_topic(stack, topic)
        if protocol == "sqs":
            create_queue(stack, endpoint, topic_arn, **SOURCE_QUEUES.get(endpoint, {}))
        subscribed = stack.client("sns").subscribe(
            TopicArn=topic_arn,
            Protocol=protocol,
            Endpoint=arn(protocol, endpoint),
            Attributes={"RedrivePolicy": json.dumps({"deadLetterTargetArn": dead_letter_queue})},
            ReturnSubscriptionArn=True,
        )
        renamed[old] = subscribed["SubscriptionArn"].rsplit(":", 1)[1]
    return renamed


def give_receipt_handles(stack, queue_url, event):
    """Puts a message for each letter into the queue and receives it: only received messages can be hidden."""
    for mapping in stack.client("lambda").list_event_source_mappings()["EventSourceMappings"]:
        stack.client("lambda").update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    sqs, fifo = stack.client("sqs"), queue_url.endswith(".fifo")
    for number, record in enumerate(event["Records"]):
        own_group = {"MessageGroupId": str(number), "MessageDeduplicationId": str(number)} if fifo else {}
        sqs.send_message(QueueUrl=queue_url, MessageBody="stands for a letter", **own_group)
        [message] = sqs.receive_message(QueueUrl=queue_url)["Messages"]
        record["receiptHandle"] = message["ReceiptHandle"]


def as_of_now(text, renamed):
    """Returns the event as if it happened now: a letter from November would have expired long ago."""
    passed = int(time.time() * 1000) - EVENTS_NOW
    text = re.sub(r"(?<!\d)17\d{11}(?!\d)", lambda moment: str(int(moment[0]) + passed), text)
    for old, new in renamed.items():
        text = text.replace(old, new)
    event = json.loads(text)
    for record in event["Records"]:
        record["md5OfBody"] = hashlib.md5(record["body"].encode(), usedforsecurity=False).hexdigest()
    return event


def arn(service, resource):
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}"


if __name__ == "__main__":
    sys.exit(main())
