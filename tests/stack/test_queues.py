"""queues.yaml: further dead-letter queues for one function."""

import collections
import json

import pytest
from botocore.exceptions import ClientError
from ministack.services.cloudformation.language_extensions import LanguageExtensionsError
from test_alarms import A_MILLION_REQUESTS, METRIC, POLLS
from test_doctor import doctor_of, examined, list_without_condition
from test_requeue import keeps_order
from test_template import mappings
from world import arrived, outcome, policy

from local.deploy import template_as_written
from local.intrinsics import Resolver
from local.metrics import ALARM, metrics_of, sources_of
from local.queues import deploy_queues, expanded
from local.sns import envelope
from local.stack import ACCOUNT, REGION, ROOT, StackError, wait_until
from local.subscribers import create_queue

ARNS = [f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}" for name in ("payments-dlq", "bills-dlq")]


def made(**parameters):
    """The resources that these parameters make, resolved, by logical id."""
    values = {"DeadLetterQueueArns": ",".join(ARNS)} | parameters
    template = expanded(values)
    names = collections.defaultdict(str)
    resolver = Resolver(template, values, names=names, pseudo={"AWS::StackName": "more"})
    return {name: resolver.resolve(resource) for name, resource in template["Resources"].items()}


def test_letters_of_three_queues_are_retried_and_one_alarm_sums_them(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=3, delay=2, immediate=1), topic, queues=["payments", "bills", "mails"])
    more = [create_queue(world.stack, world.name(f"{name}-dlq"), topic) for name in ("bills", "mails")]
    deploy_queues(deployment, [arn for _, arn in more], MaximumConcurrency=3)
    assert mappings(world, deployment).keys() == {
        deployment.queue_arn,
        deployment.outputs["RequeueArn"],
        *(arn for _, arn in more),
    }
    sqs, letters = world.stack.client("sqs"), {}
    queues = zip(("payments", "bills", "mails"), [(deployment.queue_url, deployment.queue_arn), *more], strict=True)
    subscribers = {name: (world.subscribe(name, topic, arn), url) for name, (url, arn) in queues}
    # Each fails at first, so that it has to be hidden in its queue.
    for name, (subscriber, url) in subscribers.items():
        subscriber.unplug()
        body = envelope(topic, subscriber.subscription_arn, f"of {name}")
        letters[name] = sqs.send_message(QueueUrl=url, MessageBody=body)["MessageId"], body
    for letter, _ in letters.values():
        assert outcome(deployment, letter, "deferred")["retry.number"] == 1
    for subscriber, _ in subscribers.values():
        subscriber.repair()
    for name, (subscriber, _) in subscribers.items():
        letter, body = letters[name]
        assert [message["Body"] for message in arrived(subscriber)] == [body]
        assert outcome(deployment, letter, "delivered")["retry.number"] > 1

    def told():
        """LettersArrived of the function and of each queue, as CloudWatch takes them out of the log."""
        found = collections.Counter()
        for line in deployment.log_lines():
            if "_aws" in line:
                for _, metric, dimensions, value, _ in metrics_of(line):
                    if metric == "LettersArrived":
                        found[json.dumps(dimensions)] += value
        return found

    [name] = [a["AlarmName"] for a in alarms_of(world, deployment) if a["MetricName"] == "LettersArrived"]
    [alarm] = world.stack.client("cloudwatch").describe_alarms(AlarmNames=[name])["MetricAlarms"]
    assert alarm["Dimensions"] == [{"Name": "FunctionName", "Value": deployment.outputs["FunctionName"]}]
    wait_until(lambda: told()[json.dumps(alarm["Dimensions"])] == 3, 10, "three letters in the alarm's metric")
    by_queue = [count for dimensions, count in told().items() if "FunctionName" not in dimensions and count]
    assert by_queue == [1, 1, 1]


def test_the_doctor_looks_at_every_queue(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=3, delay=60), topic, queues=["bills"])
    two_weeks = {"MessageRetentionPeriod": "1209600", "VisibilityTimeout": "180"}
    url, arn = create_queue(world.stack, world.name("bills-dlq"), topic, **two_weeks)
    deploy_queues(deployment, [arn])
    world.subscribe("bills", topic, arn)
    name, keys = deployment.outputs["FunctionName"], doctor_of(world)
    world.stack.client("lambda").put_function_recursion_config(FunctionName=name, RecursiveLoop="Allow")
    list_without_condition(world, name)
    _, findings = examined(deployment, keys)
    assert not [check for severity, check in findings if severity == "error"], findings

    world.stack.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "1"})
    _, findings = examined(deployment, keys)
    assert [check for severity, check in findings if severity == "error"] == ["queue-visibility"]


def alarms_of(world, deployment):
    cloudwatch = world.stack.client("cloudwatch")
    return cloudwatch.describe_alarms(AlarmNamePrefix=f"{deployment.name}-", MaxRecords=100)["MetricAlarms"]


@pytest.mark.parametrize("types", [("standard", "fifo"), ("fifo", "standard")])
def test_function_takes_further_queues_of_its_own_type_only(world, types):
    """Letters of standard queues have no group, so a FIFO requeue would refuse them, and a standard one loses order."""
    first, other = types
    topics = {"standard": "payments", "fifo": "payments.fifo"}
    deployment = world.deploy(policy(retries=1, delay=1), world.topic(topics[first]), QueueType=first)
    _, further = create_queue(world.stack, world.name(topics[other]), world.topic(topics[other]))
    with pytest.raises((ClientError, StackError), match=f"{other}-FunctionRoleName"):
        deploy_queues(deployment, [further], QueueType=other)


def test_order_is_kept_in_a_further_fifo_queue(world):
    topic = world.topic("payments.fifo")
    quick = policy(retries=20, delay=2, immediate=1)
    deployment = world.deploy(quick, topic, queues=["worker.fifo"], QueueType="fifo")
    url, arn = create_queue(world.stack, world.name("further.fifo"), topic)
    deploy_queues(deployment, [arn], QueueType="fifo")
    keeps_order(deployment, world.subscribe("worker.fifo", topic, arn), url)


@pytest.mark.parametrize("given", [{"BatchSize": 11, "MaximumBatchingWindow": 1}, {"MaximumBatchingWindow": 1}])
def test_batches_that_fifo_queues_do_not_take_are_refused_before_anything_is_made(world, given):
    deployment = world.deploy(policy(retries=1, delay=1), world.topic())
    with pytest.raises(ClientError, match="With FIFO queues"):
        deploy_queues(deployment, [f"arn:aws:sqs:{REGION}:{ACCOUNT}:other.fifo"], QueueType="fifo", **given)


def test_every_queue_has_a_mapping_and_two_alarms_that_name_it():
    resources = made()
    of = collections.Counter(resource["Type"] for resource in resources.values())
    assert (of["AWS::Lambda::EventSourceMapping"], of[ALARM]) == (2, 4)
    # A queue that is taken off the list leaves the others as they are.
    kept = {name: resource for name, resource in resources.items() if "bills" in name}
    assert len(kept) == 3 and kept.items() <= made(DeadLetterQueueArns=ARNS[1]).items()
    names = {r["Properties"]["AlarmName"] for r in resources.values() if r["Type"] == ALARM}
    assert names == {
        f"more-{what}-{name}" for what in ("silent", "in-flight") for name in ("payments-dlq", "bills-dlq")
    }
    for resource in resources.values():
        if resource["Type"] == ALARM:
            watched = list(sources_of(resource["Properties"].get("Metrics", [])))
            [dimension] = watched[0][2] if watched else resource["Properties"]["Dimensions"]
            assert resource["Properties"]["AlarmName"].endswith(f"-{dimension['Value']}")


def test_queues_whose_logical_ids_are_the_same_are_refused():
    """Logical ids have neither - nor _. What CloudFormation itself answers was never seen."""
    with pytest.raises(LanguageExtensionsError, match="already declares"):
        made(DeadLetterQueueArns=f"{ARNS[0]},{ARNS[0].replace('payments-dlq', 'payments_dlq')}")


def test_policies_have_the_path_that_is_given():
    for given, path in (({}, "/"), ({"RolePath": "/teams/payments/"}, "/teams/payments/")):
        resources = made(**given).values()
        assert [r["Properties"]["Path"] for r in resources if r["Type"] == "AWS::IAM::ManagedPolicy"] == [path] * 2
    of = [template_as_written(name)["Parameters"]["RolePath"] for name in ("template.yaml", "queues.yaml")]
    own = {"Default", "AllowedPattern", "MaxLength", "ConstraintDescription"}
    assert len({json.dumps({k: str(p[k]) for k in own}, sort_keys=True) for p in of}) == 1


def test_an_operator_may_wake_letters_of_these_queues_and_nothing_else():
    statements = made()["WakePolicy"]["Properties"]["PolicyDocument"]["Statement"]
    actions = ["sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes"]
    assert [(s["Action"], s["Resource"]) for s in statements] == [(actions, ARNS)]


@pytest.mark.parametrize("queue_type", ["standard", "fifo"])
def test_alarms_of_further_queues_are_those_of_the_first(queue_type):
    first = template_as_written()["Resources"]
    given = {"TopicArns": "none", "ExistingDeadLetterQueueArn": ARNS[0], "QueueType": queue_type}
    resolver = Resolver(template_as_written(), given)
    for what, name in (("SilentAlarm", "FunctionSilentAlarm"), ("InFlightAlarm", "InFlightAlarm")):
        further = made(QueueType=queue_type)
        found = next(r["Properties"] for n, r in further.items() if n.startswith(what) and "payments" in n)
        wanted = resolver.resolve(first[name]["Properties"])
        own = {"AlarmName", "AlarmDescription", "AlarmActions", "OKActions"}
        assert {k: str(v) for k, v in found.items() if k not in own} == {
            k: str(v) for k, v in wanted.items() if k not in own
        }


def test_one_more_queue_costs_what_the_limits_say():
    def cost(**parameters):
        before = made(DeadLetterQueueArns=ARNS[0], **parameters)
        more = [resource for name, resource in made(**parameters).items() if name not in before]
        alarms = [resource["Properties"].get("Metrics") for resource in more if resource["Type"] == ALARM]
        watched = sum(len(list(sources_of(metrics))) if metrics else 1 for metrics in alarms)
        [_] = [resource for resource in more if resource["Type"] == "AWS::Lambda::EventSourceMapping"]
        return METRIC * watched + A_MILLION_REQUESTS * POLLS / 1e6

    said = f"costs {cost():.2f} a month, a FIFO queue {cost(QueueType='fifo'):.2f}."
    assert said in (ROOT / "docs" / "limits.md").read_text()
