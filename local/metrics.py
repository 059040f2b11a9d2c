"""Metric data and alarms, as far as AWS would make them and the local stack does not.

The local stack counts no SQS traffic and no invocations by event source mappings, reads no metrics out of log lines,
and its alarms know neither metric math nor missing data, nor do they look at dimensions. So `Meter` turns what the
queues tell and what the function logs into metric data, works out metric math, and writes a zero where AWS would treat
missing data as not breaching (where less is worse, the threshold).
CloudWatch's own evaluation is not shown by this: it is the template's metrics,
dimensions, thresholds and comparisons that are.

Time is shortened: with `alarm_period` in seconds, every period of every alarm is that long.
The local stack takes an alarm's statistic over all of its evaluation periods together, and so goes off when one is bad.
"""

import functools
import json
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jsonschema

from local.intrinsics import Resolver
from local.stack import ACCOUNT, REGION

# Where worked out metric math goes; a stack's own, since the local stack's alarms do not look at dimensions.
MATH = "Local/{}"
ALARM, COMPOSITE = "AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"
REPORT = re.compile(r"^REPORT .*\tDuration: ([0-9.]+) ms")
QUERY = re.compile(r"SELECT SUM\((?P<metric>\w+)\) FROM SCHEMA\(\"(?P<namespace>[^\"]+)\", (?P<dimension>\w+)\)")


def lower_alarms(template, stack_name, period):
    """Makes alarms of metric math plain ones, in place. Returns their expressions and metrics, by logical id."""
    math = {}
    for name, resource in template["Resources"].items():
        if resource["Type"] != ALARM:
            continue
        properties = resource["Properties"]
        if "Metrics" in properties:
            math[name] = properties.pop("Metrics")
            least = properties["ComparisonOperator"].startswith("Less")
            properties |= {
                "Namespace": MATH.format(stack_name),
                "MetricName": name,
                "Dimensions": [],
                "Statistic": "Minimum" if least else "Maximum",
                "Period": 60,
            }
        if period:
            properties["Period"] = period
    return math


class Meter:
    """Feeds the alarms of one deployment. Call `read` every second or so.

    One deployment of a local stack can be metered: its alarms on SQS's metrics do not look at the queue.
    """

    def __init__(self, deployment, template, values, math, composites):
        self.deployment = deployment
        self.stack = deployment.stack
        self.cloudwatch = self.stack.client("cloudwatch")
        found = self.stack.client("cloudformation").describe_stack_resources(StackName=deployment.name)
        self.names = {r["LogicalResourceId"]: r["PhysicalResourceId"] for r in found["StackResources"]}
        pseudo = {"AWS::Region": REGION, "AWS::AccountId": ACCOUNT, "AWS::Partition": "aws"}
        pseudo["AWS::StackName"] = deployment.name
        resolver = Resolver(template, values, self.names, pseudo)
        self.math = {name: resolver.resolve(metrics) for name, metrics in math.items()}
        for name, resource in composites.items():
            if "Condition" in resource and not resolver.holds(resource["Condition"]):
                continue
            # The one thing that is not created by the template: the local stack has no such resource type.
            properties = resolver.resolve(resource["Properties"])
            self.names[name] = f"{deployment.name}-{name}"
            self.cloudwatch.put_composite_alarm(AlarmName=self.names[name], **properties)
        self.simple = [alarm for alarm in self.alarms().values() if not alarm["Namespace"].startswith("Local/")]
        arns = [deployment.queue_arn, deployment.outputs.get("RequeueArn")]
        sqs = self.stack.client("sqs")
        # Name to URL, the dead-letter queue first.
        names = [arn.rsplit(":", 1)[1] for arn in arns if arn]
        self.queues = {name: sqs.get_queue_url(QueueName=name)["QueueUrl"] for name in names}
        self.read_streams = set()
        # What waits to be published, by namespace. A call per namespace and not per value: each makes the local stack
        # evaluate every alarm.
        self.pending = {}
        # What was measured: namespace, metric, dimensions. Throttles the local stack counts by itself.
        self.measured = {key("AWS/Lambda", "Throttles", self._of_function())}
        self.sent = 0
        self.empty_at = {}
        # What the sources of metric math were when they were last read.
        self.before = {}

    def alarms(self):
        """The deployed metric alarms, by logical id."""
        found = self._described()["MetricAlarms"]
        logical = {physical: name for name, physical in self.names.items()}
        return {logical[a["AlarmName"]]: a for a in found if a["AlarmName"] in logical}

    def states(self):
        """OK, ALARM or INSUFFICIENT_DATA, by logical id."""
        found = self._described()
        logical = {physical: name for name, physical in self.names.items()}
        every = found["MetricAlarms"] + found["CompositeAlarms"]
        return {logical[a["AlarmName"]]: a["StateValue"] for a in every if a["AlarmName"] in logical}

    def gone_off(self):
        """The logical id of every alarm that went to ALARM, each time it did, in order.

        Its state can be OK again before one looks, where periods are seconds and the machine is busy.
        """
        logical = {physical: name for name, physical in self.names.items()}
        pages = self.cloudwatch.get_paginator("describe_alarm_history").paginate(
            AlarmTypes=["MetricAlarm", "CompositeAlarm"], HistoryItemType="StateUpdate", ScanBy="TimestampAscending"
        )
        entries = [entry for page in pages for entry in page["AlarmHistoryItems"] if entry["AlarmName"] in logical]
        new = [(logical[e["AlarmName"]], json.loads(e["HistoryData"])["newState"]["stateValue"]) for e in entries]
        return [name for name, state in new if state == "ALARM"]

    def _described(self):
        kinds = ["MetricAlarm", "CompositeAlarm"]
        prefix = f"{self.deployment.name}-"
        return self.cloudwatch.describe_alarms(AlarmTypes=kinds, AlarmNamePrefix=prefix, MaxRecords=100)

    def watched(self, name):
        """What an alarm watches, as in `measured`."""
        if name not in self.math:
            alarm = self.alarms()[name]
            return {key(alarm["Namespace"], alarm["MetricName"], alarm["Dimensions"])}
        if query := query_of(self.math[name]):
            return self._found_by(query)
        return {key(*source[:3]) for source in sources_of(self.math[name])}

    def _found_by(self, query):
        """The measured metrics that a query takes: those that have its dimension and no other."""
        wanted = query["namespace"], query["metric"], [query["dimension"]]
        return {
            (space, name, having)
            for space, name, having in self.measured
            if (space, name, [d for d, _ in having]) == wanted
        }

    def read(self):
        """Turns what happened since the last time into metric data. Returns the states of the alarms."""
        began = datetime.now(UTC)
        self._treat_missing()
        self._read_log()
        self._read_queues()
        self._publish()
        for name, value in self._values(began).items():
            self._add(MATH.format(self.deployment.name), name, [], value)
        self._publish()
        return self.states()

    def put(self, namespace, name, dimensions, value):
        """Publishes a value by hand."""
        self._measure(namespace, name, dimensions, value)
        self._publish()

    def _measure(self, namespace, name, dimensions, value, unit="None"):
        self.measured.add(key(namespace, name, dimensions))
        self._add(namespace, name, dimensions, value, unit)

    def _add(self, namespace, name, dimensions, value, unit="None"):
        """The local stack stamps the value with the time at which it is published."""
        datum = {"MetricName": name, "Dimensions": dimensions, "Value": value, "Unit": unit}
        self.pending.setdefault(namespace, []).append(datum)

    def _publish(self):
        for namespace, data in self.pending.items():
            self.cloudwatch.put_metric_data(Namespace=namespace, MetricData=data)
        self.pending = {}

    # --- sources

    def _treat_missing(self):
        for alarm in self.simple:
            least = alarm["ComparisonOperator"].startswith("Less")
            fine = alarm["Threshold"] if least else 0
            self._add(alarm["Namespace"], alarm["MetricName"], alarm["Dimensions"], fine)

    def _read_log(self):
        """Each invocation has a log stream of its own here, which is written when it has ended."""
        for stream, lines in self.deployment.log_streams().items():
            if stream in self.read_streams:
                continue
            self.read_streams.add(stream)
            embedded = [line for line in map(as_object, lines) if line is not None and "_aws" in line]
            for line in embedded:
                for namespace, metric, dimensions, value, unit in metrics_of(line):
                    self._measure(namespace, metric, dimensions, value, unit)
            # One that wrote no metrics has not come to its end.
            self._put_of_function("Invocations", 1)
            self._put_of_function("Errors", 0 if embedded else 1)
            for report in filter(None, map(REPORT.search, lines)):
                self._put_of_function("Duration", float(report[1]))

    def _put_of_function(self, name, value):
        self._measure("AWS/Lambda", name, self._of_function(), value)

    def _of_function(self):
        return [{"Name": "FunctionName", "Value": self.deployment.outputs["FunctionName"]}]

    def _read_queues(self):
        sqs = self.stack.client("sqs")
        sent = self.stack.sent[self.deployment.queue_url]
        self._put_of_queue(next(iter(self.queues)), "NumberOfMessagesSent", sent - self.sent)
        self.sent = sent
        for queue, url in self.queues.items():
            told = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
            visible, hidden = (int(told[f"ApproximateNumberOfMessages{which}"]) for which in ("", "NotVisible"))
            self._put_of_queue(queue, "ApproximateNumberOfMessagesVisible", visible)
            self._put_of_queue(queue, "ApproximateNumberOfMessagesNotVisible", hidden)
            # The queue does not tell the age of its oldest message: it is no older than the queue was last seen empty.
            if visible + hidden == 0 or queue not in self.empty_at:
                self.empty_at[queue] = time.time()
            self._put_of_queue(queue, "ApproximateAgeOfOldestMessage", int(time.time() - self.empty_at[queue]))

    def _put_of_queue(self, queue, name, value):
        self._measure("AWS/SQS", name, [{"Name": "QueueName", "Value": queue}], value)

    # --- metric math

    def _values(self, began):
        """The value of each alarm's expression over the period before `began` and all since, by logical id.

        However long the publishing took, what was published is in it.
        """
        # Namespace, metric, dimensions and statistic, by the id in the alarm's expression.
        sources = {}
        for name, metrics in self.math.items():
            if query := query_of(metrics):
                sources[name] = {index: (*found, "Sum") for index, found in enumerate(self._found_by(query))}
            else:
                sources[name] = {
                    identity: (*key(*source), statistic) for *source, statistic, identity in sources_of(metrics)
                }
        told = self._statistics({source for each in sources.values() for source in each.values()}, began)
        before, self.before = self.before, told
        values = {}
        for name, metrics in self.math.items():
            of_alarm = {identity: told[source] for identity, source in sources[name].items()}
            if query_of(metrics):
                values[name] = sum(value or 0 for value in of_alarm.values())
            else:
                earlier = {identity: before.get(source) for identity, source in sources[name].items()}
                # Not breaching where there is none.
                values[name] = worked_out(expression_of(metrics), of_alarm, earlier) or 0
        return values

    def _statistics(self, sources, began):
        """The statistic of each source over the last period; none where there was no data."""
        sources = list(sources)
        results = self.cloudwatch.get_metric_data(
            StartTime=began - timedelta(seconds=self.deployment.alarm_period or 60),
            EndTime=datetime.now(UTC) + timedelta(seconds=1),
            MetricDataQueries=[
                {
                    "Id": f"source{index}",
                    "MetricStat": {
                        "Metric": {
                            "Namespace": namespace,
                            "MetricName": name,
                            "Dimensions": [{"Name": d, "Value": value} for d, value in dimensions],
                        },
                        "Period": 60,
                        "Stat": statistic,
                    },
                }
                for index, (namespace, name, dimensions, statistic) in enumerate(sources)
            ],
        )["MetricDataResults"]
        told = {result["Id"]: result["Values"] for result in results}
        combine = {"Sum": sum, "Minimum": min, "Maximum": max}
        return {
            source: combine[source[-1]](told[f"source{index}"]) if told[f"source{index}"] else None
            for index, source in enumerate(sources)
        }


def expression_of(metrics):
    return next(metric["Expression"] for metric in metrics if "Expression" in metric)


def query_of(metrics):
    """Metric, namespace and dimension of an alarm's query; none where its expression is metric math."""
    expression = expression_of(metrics)
    query = QUERY.fullmatch(expression)
    if expression.startswith("SELECT") and query is None:
        raise ValueError(f"the local stack does not support the query {expression}")
    return query


class Reading(float):
    """A value of a metric, and the one of the period before; none where there was no data."""

    def __new__(cls, value, before):
        reading = super().__new__(cls, value)
        reading.before = before
        return reading


def worked_out(expression, values, before, hour=12):
    """An expression of the template, with the functions of metric math that it uses; none where it has no value.

    `hour` is the hour of the day in UTC, which is noon unless a test says otherwise.

    `before` are the values of the period before. Without data they are none, and what is worked out from them as well.
    """
    if any(value is None for value in values.values()):
        return None
    functions = {
        "DIFF": lambda reading: None if reading.before is None else reading - reading.before,
        "HOUR": lambda _: hour,
        "IF": lambda condition, yes, no: yes if condition else no,
    }
    readings = {name: Reading(value, before.get(name)) for name, value in values.items()}
    try:
        return float(eval(expression, {"__builtins__": {}}, functions | readings))
    except TypeError:
        # Something of nothing.
        return None


def in_alarm(alarm, values):
    """Whether an alarm is in ALARM after these values, one a period, the newest last; none for one without data.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html
    """
    breaches = {
        "GreaterThanThreshold": lambda value: value > alarm["Threshold"],
        "GreaterThanOrEqualToThreshold": lambda value: value >= alarm["Threshold"],
        "LessThanThreshold": lambda value: value < alarm["Threshold"],
    }[alarm["ComparisonOperator"]]
    looked_at = values[-alarm["EvaluationPeriods"] :]
    bad = sum(1 for value in looked_at if value is not None and breaches(value))
    return bad >= alarm.get("DatapointsToAlarm", alarm["EvaluationPeriods"])


def period_of(alarm):
    """The seconds of an alarm's period."""
    metrics = alarm.get("Metrics", [])
    periods = {alarm[key] for key in ["Period"] if key in alarm}
    periods |= {
        metric.get("Period") or metric["MetricStat"]["Period"]
        for metric in metrics
        if metric.keys() & {"Period", "MetricStat"}
    }
    [period] = periods
    return period


def sources_of(metrics):
    """Namespace, metric, dimensions, statistic and id of everything that an alarm's expression is worked out from."""
    for metric in metrics:
        if "MetricStat" in metric:
            what, statistic = metric["MetricStat"]["Metric"], metric["MetricStat"]["Stat"]
            yield what["Namespace"], what["MetricName"], what["Dimensions"], statistic, metric["Id"]


def key(namespace, name, dimensions):
    return namespace, name, tuple(sorted((d["Name"], d["Value"]) for d in dimensions))


def as_object(line):
    """A log line that is a JSON object; none for any other."""
    try:
        parsed = json.loads(line)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def metrics_of(line):
    """What CloudWatch takes from a line in the embedded metric format. A line that it would not take is an error."""
    jsonschema.validate(line, emf_schema())
    for directive in line["_aws"]["CloudWatchMetrics"]:
        for names in directive["Dimensions"]:
            dimensions = [{"Name": name, "Value": line[name]} for name in names]
            for metric in directive["Metrics"]:
                # A metric without a value is one that the format allows and CloudWatch skips.
                if metric["Name"] in line:
                    unit = metric.get("Unit", "None")
                    yield directive["Namespace"], metric["Name"], dimensions, line[metric["Name"]], unit


@functools.cache
def emf_schema():
    return json.loads((Path(__file__).parent / "emf.schema.json").read_text())
