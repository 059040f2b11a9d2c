"""Every alarm of template.yaml goes off when it should, and is OK again when that is over.

What AWS would measure is measured by local/metrics.py; what the local stack cannot show of it is said there and in
docs/guide/runbook.md. The periods of all alarms are shortened.
"""

import collections
import contextlib
import itertools
import json
import re
import time

import pytest
from world import World, policy

from local.deploy import template_as_written
from local.intrinsics import Resolver
from local.metrics import ALARM, COMPOSITE, expression_of, in_alarm, period_of, query_of, sources_of, worked_out
from local.sns import dead_letter, envelope
from local.stack import ROOT, Stack, wait_until
from local.subscribers import create_queue

PERIOD = 2
# The queue's, in seconds: less than a delay of the rule for slow topics.
RETENTION = 600
# Seconds after which a letter counts as near its end.
LATE = 6
PAGING = "LettersInDangerAlarm"
SILENT = ["FunctionSilentAlarm", "RequeueSilentAlarm"]
PAGES = {
    "MessagesLostAlarm",
    "LettersFailAlarm",
    "ArchiveRefusesAlarm",
    "ExpiredAlarm",
    "ExpiryNearAlarm",
    "OldestLetterAlarm",
    "InFlightAlarm",
    "RequeueInFlightAlarm",
    "FunctionErrorsAlarm",
    "FunctionSilentAlarm",
    "RequeueSilentAlarm",
}
RULES = [
    # Longer than the queue keeps a letter.
    {
        "name": "too-slow",
        "match": {"topicArn": [{"suffix": "-slow"}]},
        "deliveryPolicy": {"healthyRetryPolicy": {"minDelayTarget": 3600, "maxDelayTarget": 3600, "numRetries": 2}},
    },
    {"name": "patient", "match": {"topicArn": [{"suffix": "-patient"}]}, "action": "hold"},
]


class Watched:
    """One deployment whose alarms are watched, and what can happen to it."""

    def __init__(self, world):
        self.world, self.stack = world, world.stack
        self.topics = {name: world.topic(name) for name in ("payments", "slow", "patient")}
        own = world.dead_letter_queue(self.topics["payments"])
        sqs = self.stack.client("sqs")
        url = sqs.get_queue_url(QueueName=own.rsplit(":", 1)[1])["QueueUrl"]
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"MessageRetentionPeriod": str(RETENTION)})
        self.deployment = world.deploy(
            policy(retries=1, delay=1, immediate=1, rules=RULES),
            self.topics["payments"],
            # The second one for an archive in SQS, which the template does not make.
            queues=["billing", "archive"],
            metered=True,
            alarm_period=PERIOD,
            # The least: FunctionSlowAlarm goes off after four fifths of it.
            seconds=5,
            ExistingDeadLetterQueueArn=own,
            # Somebody who is paged: without one there is no alarm for that.
            PageTopicArn=world.topic("pages"),
            InFlightWarning=1,
            OldestLetterSeconds=PERIOD,
            ExpiryWarningSeconds=RETENTION - LATE,
        )
        self.meter = self.deployment.meter
        self.billing = world.subscribe("billing", self.topics["payments"], self.deployment.queue_arn)
        self.shop = world.subscribe_web("shop", self.topics["payments"], self.deployment.queue_arn)

    def letter(self, subscriber=None, topic="payments"):
        subscription = (subscriber or self.billing).subscription_arn
        return dead_letter(self.deployment, envelope(self.topics[topic], subscription, "hello"))

    def in_alarm(self):
        """Reads the alarms. Returns those in ALARM: the one that pages among them wherever one that shall page is."""
        found = {name for name, state in self.meter.read().items() if state == "ALARM"}
        assert (PAGING in found) == bool(PAGES & found)
        return found

    def wait_for_alarms(self, before, *alarms):
        """Waits until each has gone off, not counting the first `before` times that any did.

        The first may be OK again when the last one goes off.
        """

        def gone_off():
            self.in_alarm()
            paging = {PAGING} if PAGES & set(alarms) else set()
            return (paging | set(alarms)).issubset(self.meter.gone_off()[before:])

        wait_until(gone_off, 45, f"{', '.join(alarms)} to go off", every=0.3)

    def wait_for_quiet(self):
        """Waits until every alarm is OK."""

        def quiet():
            return set(self.meter.read().values()) == {"OK"}

        wait_until(quiet, 45, "every alarm to be OK", every=0.3)

    def function(self, **settings):
        """Changes the function's environment variables."""
        client, name = self.stack.client("lambda"), self.deployment.outputs["FunctionName"]
        variables = client.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        client.update_function_configuration(FunctionName=name, Environment={"Variables": variables | settings})
        return variables

    @contextlib.contextmanager
    def settings(self, **settings):
        before = self.function(**settings)
        try:
            yield
        finally:
            self.function(**{name: before[name] for name in settings})

    @contextlib.contextmanager
    def mappings_off(self):
        client = self.stack.client("lambda")
        mappings = client.list_event_source_mappings(FunctionName=self.deployment.outputs["FunctionName"])
        ids = [mapping["UUID"] for mapping in mappings["EventSourceMappings"]]
        for mapping in ids:
            client.update_event_source_mapping(UUID=mapping, Enabled=False)
        # The poller may have seen just before that it is on.
        time.sleep(1)
        try:
            yield
        finally:
            for mapping in ids:
                client.update_event_source_mapping(UUID=mapping, Enabled=True)

    def empty(self):
        """Empties the dead-letter queue, of hidden letters too."""
        self.stack.client("sqs").purge_queue(QueueUrl=self.deployment.queue_url)

    @contextlib.contextmanager
    def hidden_letters(self, queue_arn):
        for _ in range(2):
            body = envelope(self.topics["patient"], self.billing.subscription_arn, "hello")
            if queue_arn == self.deployment.queue_arn:
                dead_letter(self.deployment, body)
            else:
                self.deployment.put_into_requeue(body)
        yield
        sqs = self.stack.client("sqs")
        sqs.purge_queue(QueueUrl=sqs.get_queue_url(QueueName=queue_arn.rsplit(":", 1)[1])["QueueUrl"])


@pytest.fixture(scope="module")
def watched(web):
    # A stack of its own: alarms of the local stack do not look at dimensions, and would hear of other tests.
    with Stack() as stack:
        yield Watched(World(stack, web, "alarms"))


# --- what makes each alarm go off, and what ends it. Each is a context: ALARM inside, OK after it.

CASES = {}


def case(*alarms):
    def keep(what):
        CASES[what.__name__.replace("_", "-")] = (alarms, contextlib.contextmanager(what))
        return what

    return keep


@case("DeadLettersArriveAlarm", "LettersArriveAlarm")
def a_letter_arrives(watched):
    watched.letter()
    yield


@case("UndeliveredAlarm")
def a_letter_is_archived_after_its_last_retry(watched):
    watched.shop.unplug()
    watched.letter(watched.shop)
    yield
    watched.shop.repair()


@case("NowhereToGoAlarm")
def a_letter_names_nobody(watched):
    dead_letter(watched.deployment, "a raw delivery")
    yield


@case("ExpiredAlarm")
def a_schedule_is_longer_than_the_retention(watched):
    watched.letter(topic="slow")
    yield


@case("ActionRequiredAlarm")
def a_target_is_gone(watched):
    watched.billing.unplug()
    watched.letter()
    yield
    watched.billing.repair()


@case("OverridesUnreadAlarm")
def the_overrides_are_broken(watched):
    bucket, control = watched.deployment.outputs["ControlLocation"].removeprefix("s3://").split("/")
    place = {"Bucket": bucket, "Key": f"{control}/overrides.json"}
    watched.stack.client("s3").put_object(**place, Body=b"{")
    # So long the function believes what it read before.
    time.sleep(16)
    watched.letter()
    yield
    watched.stack.client("s3").delete_object(**place)
    # An instance that has never read any hides letters for a minute.
    watched.empty()


@case("LettersFailAlarm")
def the_archive_takes_nothing(watched):
    with watched.settings(ARCHIVE="s3://a-bucket-that-is-not-there/letters"):
        dead_letter(watched.deployment, "a raw delivery")
        yield
    # It can be hidden for long, and other alarms hear of what is hidden.
    watched.empty()


@case("ArchiveRefusesAlarm")
def the_archive_takes_no_letter_of_this_size(watched):
    _, small = create_queue(watched.stack, watched.world.name("archive"), "none", MaximumMessageSize="1024")
    with watched.settings(ARCHIVE=small):
        dead_letter(watched.deployment, "a raw delivery" * 100)
        yield
    watched.empty()


@case("FunctionErrorsAlarm")
def the_function_does_not_start(watched):
    with watched.settings(REDRIVE_MODE="nonsense"):
        watched.letter()
        yield
    # It is hidden for half a minute.
    watched.empty()


@case("FunctionSlowAlarm")
def a_target_answers_late(watched):
    watched.world.web.delays[watched.shop.path] = 10
    watched.letter(watched.shop)
    yield
    del watched.world.web.delays[watched.shop.path]


@case("FunctionSilentAlarm", "OldestLetterAlarm")
def the_mapping_is_off(watched):
    with watched.mappings_off():
        watched.letter()
        yield


@case("RequeueSilentAlarm")
def the_mapping_of_the_requeue_is_off(watched):
    with watched.mappings_off():
        watched.deployment.put_into_requeue(
            envelope(watched.topics["payments"], watched.billing.subscription_arn, "hello")
        )
        yield


@case("ExpiryNearAlarm")
def a_letter_that_stays_was_received_late(watched):
    with watched.mappings_off():
        watched.letter(topic="patient")
        time.sleep(LATE + 2)
    yield
    watched.empty()


@case("FunctionThrottlesAlarm")
def the_function_is_throttled(watched):
    client, name = watched.stack.client("lambda"), watched.deployment.outputs["FunctionName"]
    client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    try:
        # The local stack counts throttles of direct calls.
        with pytest.raises(client.exceptions.TooManyRequestsException):
            client.invoke(FunctionName=name, Payload=b'{"Records": []}')
        yield
    finally:
        client.delete_function_concurrency(FunctionName=name)


@case("MessagesLostAlarm")
def sns_cannot_write_to_the_queue(watched):
    """The local stack does no dead-lettering: the metric is written by hand, for a topic that no parameter names."""
    dimensions = [{"Name": "TopicName", "Value": watched.world.name("patient")}]
    watched.meter.put("AWS/SNS", "NumberOfNotificationsFailedToRedriveToDlq", dimensions, 1)
    yield


@case("InFlightAlarm")
def letters_are_hidden(watched):
    with watched.hidden_letters(watched.deployment.queue_arn):
        yield


@case("RequeueInFlightAlarm")
def letters_of_the_requeue_are_hidden(watched):
    with watched.hidden_letters(watched.deployment.outputs["RequeueArn"]):
        yield


@pytest.mark.parametrize("alarms,happens", CASES.values(), ids=CASES)
def test_alarm_goes_off_and_is_ok_again(watched, alarms, happens):
    watched.wait_for_quiet()
    before = len(watched.meter.gone_off())
    with happens(watched):
        watched.wait_for_alarms(before, *alarms)
        for alarm in alarms:
            # The local stack's alarms do not look at dimensions.
            assert watched.meter.watched(alarm) & watched.meter.measured
    watched.wait_for_quiet()


def test_every_alarm_is_seen(watched):
    seen = {alarm for alarms, _ in CASES.values() for alarm in alarms}
    assert seen | {PAGING} == set(watched.meter.states())


# --- what the deployment above does not show


def test_every_alarm_that_shall_page_does():
    """Some never go off alone."""
    rule = str(template_as_written()["Resources"][PAGING]["Properties"]["AlarmRule"])
    assert set(re.findall(r"ALARM\(\"\$\{(\w+)\}", rule)) == PAGES


def alarms_of_the_template(**parameters):
    """Properties of the template's alarms that these parameters make, by logical id."""
    template = template_as_written()
    resolver = Resolver(template, parameters | {"TopicArns": "none"}, names=collections.defaultdict(str))
    alarms = {name: r for name, r in template["Resources"].items() if r["Type"] == ALARM}
    made = {name: r for name, r in alarms.items() if "Condition" not in r or resolver.holds(r["Condition"])}
    return {name: resolver.resolve(r["Properties"]) for name, r in made.items()}


def test_no_alarm_rests_on_what_cloudwatch_makes_of_a_metric_without_data():
    """FILL, and arithmetic on metrics of which one may have data and another none."""
    # There while the queue is active, by every version of the page; of the others the versions differ.
    # https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
    certain = {"ApproximateNumberOfMessagesVisible", "ApproximateNumberOfGroupsWithInflightMessages"}
    computed = 0
    for parameters in ({}, {"QueueType": "fifo"}, {"Requeue": "off"}):
        for name, alarm in alarms_of_the_template(**parameters).items():
            assert alarm["TreatMissingData"] == "notBreaching", name
            if "Metrics" not in alarm or query_of(alarm["Metrics"]):
                continue
            computed += 1
            assert "FILL" not in expression_of(alarm["Metrics"])
            sources = list(sources_of(alarm["Metrics"]))
            assert {metric for _, metric, *_ in sources} <= certain, name
            assert len({str(dimensions) for _, _, dimensions, *_ in sources}) == 1, "of one queue"
    assert computed == 5


def test_alarms_on_what_the_function_tells_wait_for_late_data():
    """Log lines can be late, and a period that is not looked at again would be lost."""
    alarms = alarms_of_the_template(QueueType="fifo")
    late = {n: a for n, a in alarms.items() if namespace_of(a) == "SnsRedrive"}
    assert len(late) == 9
    for name, alarm in late.items():
        assert alarm["DatapointsToAlarm"] < alarm["EvaluationPeriods"], name


# The namespaces whose data come late: SNS's every five minutes, SQS's irregularly.
LATE_NAMESPACES = {"AWS/SNS", "AWS/SQS"}


def namespace_of(alarm):
    if "Metrics" not in alarm:
        return alarm["Namespace"]
    query = query_of(alarm["Metrics"])
    return query["namespace"] if query else next(sources_of(alarm["Metrics"]))[0]


def sees(alarm, late):
    """Whether the alarm goes off for one bad value that CloudWatch gets so many seconds after it was measured.

    CloudWatch looks once a minute at the periods that end then.
    """
    value = {"LessThanThreshold": -1}.get(alarm["ComparisonOperator"], alarm["Threshold"] + 1)
    period = period_of(alarm)
    for now in range(late, 3600, 60):
        periods = [None] * (3600 // period)
        periods[-1 - now // period] = value
        if in_alarm(alarm, periods):
            return True
    return False


def test_alarms_on_metrics_of_sns_and_sqs_see_what_comes_ten_minutes_late():
    alarms = alarms_of_the_template(QueueType="fifo")
    late = {name: alarm for name, alarm in alarms.items() if namespace_of(alarm) in LATE_NAMESPACES}
    # They need bad data in all of their periods: what is late makes them late, and nothing else.
    late = {name: alarm for name, alarm in late.items() if name not in SILENT}
    assert late.keys() == {
        "DeadLettersArriveAlarm",
        "MessagesLostAlarm",
        "OldestLetterAlarm",
        "InFlightAlarm",
        "RequeueInFlightAlarm",
    }
    assert [name for name, alarm in late.items() if not sees(alarm, 600)] == []


@pytest.mark.parametrize("name", SILENT)
@pytest.mark.parametrize(
    "queue_type,letters,groups,calls",
    [
        ("standard", [3, 3, 3, 3], None, True),
        # Letters of a function that is off, of which more arrive.
        ("standard", [20, 21, 22, 23], None, True),
        # The function has as many in hand: they are visible only between two receives, and not always as many.
        ("standard", [3, 4, 4, 4], None, False),
        ("standard", [20, 20, 20, 19], None, False),
        # They get fewer: somebody receives them.
        ("standard", [40, 30, 30, 30], None, False),
        ("standard", [40, 41, 30, 31], None, False),
        ("standard", [0, 0, 0, 0], None, False),
        # The first one has nothing before it.
        ("standard", [None, 3, 3, 3], None, False),
        ("standard", [None, None, None, None], None, False),
        ("fifo", [None, 3, 4, 3], [None, 0, 0, 0], True),
        # Followers, behind the head of their group.
        ("fifo", [3, 3, 3, 3], [0, 0, 1, 0], False),
        ("fifo", [3, 3, 3, 3], [0, None, None, None], False),
    ],
)
def test_function_counts_as_silent_where_letters_could_be_received(name, queue_type, letters, groups, calls):
    alarm = alarms_of_the_template(QueueType=queue_type, BatchSize=10, MaximumConcurrency=2)[name]
    told = [{"letters": number} for number in letters]
    if groups:
        told = [{"letters": number, "groups": hidden} for number, hidden in zip(letters, groups, strict=True)]
    values = [
        worked_out(expression_of(alarm["Metrics"]), now, before) for before, now in itertools.pairwise([{}, *told])
    ]
    assert in_alarm(alarm, values) == calls


def test_few_letters_are_as_many_as_the_function_has_in_hand():
    """CloudFormation cannot multiply, so the expression does."""
    alarm = alarms_of_the_template(BatchSize=100, MaximumConcurrency=5)["FunctionSilentAlarm"]
    values = [worked_out(expression_of(alarm["Metrics"]), {"letters": n}, {"letters": n - 1}) for n in (500, 501)]
    assert values == [0, 501]


def test_alarm_of_observe_mode_goes_off_every_day():
    assert "LettersObservedAlarm" not in alarms_of_the_template()
    alarm = alarms_of_the_template(RedriveMode="observe")["LettersObservedAlarm"]
    assert alarm["DatapointsToAlarm"] < alarm["EvaluationPeriods"], "log lines can be late"
    expression = expression_of(alarm["Metrics"])
    assert [hour for hour in range(24) if worked_out(expression, {"old": 3}, {}, hour) <= alarm["Threshold"]] == [8]
    assert worked_out(expression, {"old": None}, {}) is None


def test_alarm_goes_off_while_observe_mode_leaves_a_letter_alone_for_more_than_a_day(web):
    with Stack() as stack:
        world = World(stack, web, "observed")
        given = {"metered": True, "alarm_period": PERIOD, "RedriveMode": "observe"}
        deployment = world.deploy(policy(retries=1, delay=1), world.topic(), **given)

        def is_on():
            return deployment.meter.read()["LettersObservedAlarm"] == "ALARM"

        event = json.loads((ROOT / "events" / "envelope.json").read_text())
        for days in (0, 2):
            for record in event["Records"]:
                record["eventSourceARN"] = deployment.queue_arn
                record["attributes"]["SentTimestamp"] = str(int(time.time() * 1000) - days * 86_400_000)
            function = deployment.outputs["FunctionName"]
            stack.client("lambda").invoke(FunctionName=function, Payload=json.dumps(event))
            if days:
                wait_until(is_on, 45, "the alarm to go off", every=0.3)
            else:
                assert not any(is_on() for _ in range(5))
        wait_until(lambda: not is_on(), 45, "the alarm to be OK", every=0.3)


def test_the_runbook_names_the_metric_of_sns_sqs_and_lambda_that_an_alarm_watches():
    entries = (ROOT / "docs" / "guide" / "runbook.md").read_text().split("\n### ")
    unnamed = []
    for name, alarm in alarms_of_the_template().items():
        if namespace_of(alarm) == "SnsRedrive":
            continue
        [entry] = [entry for entry in entries if entry.startswith(f"{name}\n")]
        query = query_of(alarm["Metrics"]) if "Metrics" in alarm else None
        metrics = [query["metric"]] if query else [metric for _, metric, *_ in sources_of(alarm.get("Metrics", []))]
        unnamed += [(name, metric) for metric in metrics or [alarm["MetricName"]] if metric not in entry]
    assert unnamed == []


def test_without_somebody_to_page_there_is_no_alarm_for_it():
    template = template_as_written()
    resolver = Resolver(template, {"TopicArns": "none"})
    assert not resolver.holds(template["Resources"][PAGING]["Condition"])


@pytest.mark.parametrize(
    "parameters,alarms",
    [({}, 19), ({"Overrides": "off"}, 18), ({"Requeue": "off"}, 17), ({"Alarms": "essential"}, 12)],
    ids=["all", "without-overrides", "without-requeue", "essential"],
)
def test_there_are_as_many_alarms_as_the_settings_page_says(parameters, alarms):
    assert len(alarms_of_the_template(**parameters)) == alarms


def test_the_parameter_says_how_many_alarms_it_leaves():
    left, of = len(alarms_of_the_template(Alarms="essential")), len(alarms_of_the_template())
    said = template_as_written()["Parameters"]["Alarms"]["Description"]
    assert said == f"essential creates {left} of {of} alarms: docs/reference/metrics.md#alarms."


# --- what it costs


# USD a month, list prices of us-east-1; docs/limits.md has the same.
# https://aws.amazon.com/cloudwatch/pricing/ https://aws.amazon.com/sqs/pricing/
METRIC, COMPOSITE_ALARM, A_MILLION_REQUESTS = 0.10, 0.50, 0.40
# Five pollers of an event source mapping, each a request every 20 seconds.
POLLS = 5 * 3 * 60 * 24 * 30


def cost(**parameters):
    """What a stack with these parameters costs while nothing happens."""
    template = template_as_written()
    resolver = Resolver(template, parameters | {"TopicArns": "none"}, names=collections.defaultdict(str))
    made = [r for r in template["Resources"].values() if "Condition" not in r or resolver.holds(r["Condition"])]
    of = collections.Counter(resource["Type"] for resource in made)
    watched = 0
    for alarm in (resolver.resolve(r["Properties"]) for r in made if r["Type"] == ALARM):
        metrics = alarm.get("Metrics", [])
        # A query is billed by the metrics that it finds: of one topic here.
        watched += 1 if not metrics or query_of(metrics) else len(list(sources_of(metrics)))
    return round(
        METRIC * watched
        + COMPOSITE_ALARM * of[COMPOSITE]
        + A_MILLION_REQUESTS * POLLS * of["AWS::Lambda::EventSourceMapping"] / 1e6,
        2,
    )


PAGED = {"PageTopicArn": "arn:aws:sns:eu-central-1:123456789012:pages"}


@pytest.mark.parametrize(
    "row,parameters,most",
    [
        ("by default", {}, 4),
        ("`Alarms=essential`", {"Alarms": "essential"}, 2),
        ("`PageTopicArn`", PAGED, 4),
        ("`Alarms=essential`, `PageTopicArn`", {"Alarms": "essential"} | PAGED, 4),
        ("`QueueType=fifo`", {"QueueType": "fifo"}, 4),
        ("`Requeue=off`", {"Requeue": "off"}, 4),
    ],
)
def test_a_stack_costs_what_the_limits_say_while_nothing_happens(row, parameters, most):
    assert cost(**parameters) < most
    limits = (ROOT / "docs" / "limits.md").read_text()
    assert f"| {row} | {cost(**parameters):.2f} |" in limits
