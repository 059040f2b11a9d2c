"""What a test needs: a deployment of its own, subscribers, and a way to wait for what becomes of a letter."""

import json

from local.deploy import deploy, deploy_operations
from local.sns import create_topic
from local.stack import ACCOUNT, REGION, wait_until
from local.subscribers import create_queue, function_arn, subscribe, subscribe_function, subscribe_web

# The template has no parameter for it: nothing on AWS is on loopback.
LOOPBACK = {"ALLOW_LOOPBACK_HTTP": "true"}


class World:
    """Names of its own for one test, so that no test sees another's letters."""

    def __init__(self, stack, web, prefix):
        self.stack = stack
        self.web = web
        self.prefix = prefix
        self.deployments = []

    def name(self, what):
        return f"{self.prefix}-{what}"

    def queue_arn(self, what):
        return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{self.name(what)}"

    def topic(self, what="payments"):
        return create_topic(self.stack, self.name(what))

    def dead_letter_queue(self, topic_arn):
        """A dead-letter queue that exists before the deployment."""
        return create_queue(self.stack, self.name("own-dlq"), topic_arn)[1]

    def deploy(
        self, policy, topic_arn, queues=(), functions=(), settings=LOOPBACK, name=None, seconds=30, **parameters
    ):
        """`queues` and `functions` are the ones that letters may be sent to, by this test's short names.

        An invocation has so many `seconds`, a call four fifths of them: much room, since a target that a busy machine
        starts slowly must not be tried again.
        """
        deployment = deploy(
            self.stack,
            self.name(name) if name else self.prefix,
            settings=settings,
            TopicArns=[topic_arn],
            TargetQueueArns=[self.queue_arn(queue) for queue in queues],
            TargetFunctionArns=[function_arn(self.name(function)) for function in functions],
            RedrivePolicy=policy,
            FunctionTimeout=seconds,
            **parameters,
        )
        self.deployments.append(deployment)
        return deployment

    def operations(self, deployment, **parameters):
        return deploy_operations(deployment, **parameters)

    def subscribe(self, what, topic_arn, dead_letter_queue_arn, raw=False):
        return subscribe(self.stack, self.name(what), topic_arn, dead_letter_queue_arn, raw)

    def subscribe_web(self, what, topic_arn, dead_letter_queue_arn, raw=False):
        return subscribe_web(self.stack, self.name(what), topic_arn, dead_letter_queue_arn, self.web, raw)

    def subscribe_function(self, what, topic_arn, dead_letter_queue_arn):
        return subscribe_function(self.stack, self.name(what), topic_arn, dead_letter_queue_arn, self.web)


def policy(retries, delay, immediate=0, rules=(), origins=(), **default):
    """So many retries, so many seconds apart, the first `immediate` ones at once; no jitter.

    `origins` are those of EventBridge and Lambda that any queue of the function gets.
    """
    document = {
        "minDelayTarget": delay,
        "maxDelayTarget": delay,
        "numRetries": retries,
        "numNoDelayRetries": immediate,
    }
    others = {key: default.pop(key) for key in ("throttlePolicy", "requestPolicy") if key in default}
    default |= {"deliveryPolicy": {"healthyRetryPolicy": document, **others}, "jitter": 0}
    listed = {"origins": {"*": list(origins)}} if origins else {}
    return listed | {"default": default, "rules": list(rules)}


def outcome(deployment, message_id, wanted, within=20):
    """Waits until the letter has this outcome, and returns the log line that says so."""

    def logged():
        return [line for line in deployment.outcomes(message_id) if line["outcome"] == wanted]

    return wait_until(logged, within, f"letter {message_id} to be {wanted}")[-1]


def arrived(subscriber, within=10):
    """Waits until something is in the subscriber's queue, and takes it."""
    return wait_until(subscriber.receive, within, f"a message for {subscriber.name}")


def attempts(deployment, message_id):
    """The numbers of the retries that were made."""
    return [line["retry.number"] for line in deployment.outcomes(message_id) if "retry.number" in line]


def attributes_of_eventbridge(target_arn):
    """What EventBridge writes onto an event that the target of its rule did not take."""
    attributes = {
        "RULE_ARN": f"arn:aws:events:{REGION}:{ACCOUNT}:rule/payments",
        "TARGET_ARN": target_arn,
        "ERROR_CODE": "NO_PERMISSIONS",
    }
    return {name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()}


def event_of_sns(subscription, body):
    """The event that SNS makes of an envelope. It spells two fields its own way, and always has attributes."""
    sns = json.loads(body)
    sns["SigningCertUrl"], sns["UnsubscribeUrl"] = sns.pop("SigningCertURL"), sns.pop("UnsubscribeURL")
    sns.setdefault("MessageAttributes", {})
    record = {"EventSource": "aws:sns", "EventVersion": "1.0", "EventSubscriptionArn": subscription, "Sns": sns}
    return {"Records": [record]}
