"""What template.yaml promises beyond the function: grants, modes, alarm."""

import pytest
from world import outcome, policy

from local.sns import dead_letter, envelope


def test_queue_that_is_not_granted_is_not_reached(world):
    """The stack checks the function's calls against the role of the template."""
    topic = world.topic()
    deployment = world.deploy(policy(retries=3, delay=30, immediate=1), topic, queues=["other"])
    billing = world.subscribe("billing", topic, deployment.queue_arn)

    letter = dead_letter(deployment, envelope(topic, billing.subscription_arn, "hello"))

    failed = outcome(deployment, letter, "deferred")
    assert (failed["retry.number"], failed["error.code"], failed["error.class"]) == (1, "AccessDenied", "mendable")
    assert deployment.waiting() == 1
    assert billing.receive() == []


def test_observe_mode_touches_nothing(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=3, delay=1, immediate=1), topic, queues=["billing"], RedriveMode="observe")
    billing = world.subscribe("billing", topic, deployment.queue_arn)

    letter = dead_letter(deployment, envelope(topic, billing.subscription_arn, "hello"))

    assert outcome(deployment, letter, "observed")["retry.number"] == 1
    assert deployment.waiting() == 1
    assert (billing.receive(), deployment.archive()) == ([], [])


@pytest.mark.parametrize("own_queue", [False, True])
def test_alarm_watches_the_arrivals_of_the_queue_in_use(world, own_queue):
    topic = world.topic()
    own = {"ExistingDeadLetterQueueArn": world.dead_letter_queue(topic)} if own_queue else {}
    deployment = world.deploy(policy(retries=1, delay=1), topic, **own)

    cloudwatch = world.stack.client("cloudwatch")
    names = [deployment.outputs["ArrivalAlarmName"]]
    [alarm] = cloudwatch.describe_alarms(AlarmNames=names)["MetricAlarms"]

    queue = deployment.queue_arn.rsplit(":", 1)[1]
    assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/SQS", "NumberOfMessagesSent")
    assert alarm["Dimensions"] == [{"Name": "QueueName", "Value": queue}]
    assert (alarm["Statistic"], alarm["ComparisonOperator"], alarm["Threshold"]) == ("Sum", "GreaterThanThreshold", 0)
    assert alarm["TreatMissingData"] == "notBreaching"
    if own_queue:
        assert deployment.queue_arn == own["ExistingDeadLetterQueueArn"]
