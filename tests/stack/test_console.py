"""The console on a dashboard: the function of operations.yaml, called as CloudWatch calls it."""

import json

import pytest
from test_operations import QUICK
from test_replay import deployed
from test_template import NamesOfAll, People, calls_of, refusals
from world import World, outcome

from local.console import context, widget
from local.deploy import template_as_written
from local.intrinsics import Resolver
from local.sns import dead_letter, envelope
from local.stack import REGION

PAGES = ("now", "groups", "group", "waiting")
READ_ONLY = {
    "s3:ListBucket",
    "s3:GetObject",
    "s3:GetLifecycleConfiguration",
    "cloudwatch:GetMetricData",
    "cloudwatch:DescribeAlarms",
    "lambda:GetFunctionConfiguration",
    "kms:Decrypt",
}


@pytest.fixture(scope="module")
def shown(stack, web):
    """A deployment with a console and one archived letter, which no test changes."""
    deployment, billing, operations = with_console(World(stack, web, "console"))
    billing.unplug()
    message_id = dead_letter(deployment, envelope(billing.topic_arn, billing.subscription_arn, "a secret"))
    outcome(deployment, message_id, "archived", within=30)
    return deployment, operations


def with_console(world):
    deployment, billing = deployed(world, QUICK)
    queue = deployment.queue_arn.rsplit(":", 1)[1]
    return deployment, billing, world.operations(deployment, ConsoleWidget="on", DashboardQueues=[queue])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_page_is_html_without_what_cloudwatch_removes(shown, theme):
    deployment, operations = shown
    for page in PAGES:
        html = widget(operations, {"page": page}, theme)
        assert html.startswith("<style>") and f'class="redrive widget {theme}"' in html, html[:300]
        for removed in ("<script", "<iframe", "<use", "javascript:", " onload=", " onclick="):
            assert removed not in html, (page, removed)
        # Links call the function itself, and nothing acts.
        assert f'endpoint="{operations.outputs["ConsoleFunctionArn"]}"' in html
        assert "a secret" not in html and "confirmation=" not in html and "<form" not in html


def test_dashboard_has_the_console_where_it_is_wanted(shown, world):
    deployment, operations = shown
    body = world.stack.client("cloudwatch").get_dashboard(DashboardName=f"{deployment.name}-{REGION}")["DashboardBody"]
    [custom] = [w for w in json.loads(body)["widgets"] if w["type"] == "custom"]
    assert custom["properties"] == {
        "title": "sns-redrive",
        "endpoint": operations.outputs["ConsoleFunctionArn"],
        "params": {"page": "now"},
        "updateOn": {"refresh": True, "resize": True, "timeRange": True},
    }
    # It lies on none of the others.
    others = [w for w in json.loads(body)["widgets"] if w["type"] != "custom"]
    assert custom["y"] >= max(w["y"] + w["height"] for w in others)


def test_console_is_off_unless_it_is_wanted(world):
    deployment, _ = deployed(world, QUICK)
    operations = world.operations(deployment, DashboardQueues=["payments-dlq"])
    assert "ConsoleFunctionArn" not in operations.outputs
    body = world.stack.client("cloudwatch").get_dashboard(DashboardName=f"{deployment.name}-{REGION}")["DashboardBody"]
    assert "custom" not in {w["type"] for w in json.loads(body)["widgets"]}
    functions = world.stack.client("lambda").list_functions()["Functions"]
    assert not [f for f in functions if deployment.name in f["FunctionName"] and "Console" in f["FunctionName"]]


def test_who_asks_what_it_is_gets_its_documentation(shown):
    _, operations = shown
    said = widget(operations, {"describe": True})
    assert said.startswith("## The console of sns-redrive") and "**page**" in said


def test_bad_parameters_are_told_to_who_looks(shown):
    _, operations = shown
    for parameters, said in [
        ({"page": "letters"}, "there is no page"),
        ({"page": "now", "do": "hold"}, "the page has no parameter"),
        ({"page": "groups", "by": "weather"}, "by must be topic"),
        ({"page": 1}, "must be a text"),
        ({"Records": []}, "must be a text"),
        ({"page": "letter", "id": "1"}, "is shown by redrivectl serve"),
        ({"page": "<cwdb-action action='call'>"}, "there is no page"),
    ]:
        html = widget(operations, parameters)
        assert said in html, html[-600:]
        assert "<cwdb-action action='call'" not in html
    # Nothing is asked, and the time range is nonsense: still a page.
    assert "<main" in widget(operations, {"widgetContext": None})


def test_what_the_role_may_not_read_is_told_on_the_page(world):
    _, _, operations = with_console(world)
    iam = world.stack.client("iam")
    role = function_of(world, operations)["Role"].rsplit("/", 1)[1]
    iam.delete_role_policy(RoleName=role, PolicyName="show")
    for page in ("now", "groups", "waiting"):
        html = widget(operations, {"page": page})
        assert "AccessDenied" in html, (page, html[-1500:])


def function_of(world, operations):
    name = operations.outputs["ConsoleFunctionArn"]
    return world.stack.client("lambda").get_function_configuration(FunctionName=name)


def test_settings_that_are_wrong_keep_it_from_starting_and_all_are_told(world):
    _, _, operations = with_console(world)
    client, name = world.stack.client("lambda"), operations.outputs["ConsoleFunctionArn"]
    before = function_of(world, operations)["Environment"]["Variables"]
    wrong = before | {"ARCHIVE": "nowhere", "QUEUES": "overrides dlq"}
    client.update_function_configuration(FunctionName=name, Environment={"Variables": wrong})
    event = {"page": "now", "widgetContext": context()}
    answer = client.invoke(FunctionName=name, Payload=json.dumps(event))
    said = answer["Payload"].read().decode()
    assert "FunctionError" in answer, said


def test_role_reads_archive_and_control_and_writes_nothing(shown, world):
    deployment, operations = shown
    calls = calls_of(world, deployment, People(world).session(function_of(world, operations)["Role"]))

    assert set(calls) - refusals(calls) == {
        "read archive",
        "list archive",
        "read overrides",
        "read ended overrides",
        "read recoveries",
        "read waiting letters",
        "read replays",
        "list control",
        "list replays",
        "read configuration",
    }


def test_every_grant_but_that_of_its_log_is_to_read():
    template = template_as_written("operations.yaml")
    resolver = Resolver(template, {"KmsKeyArns": "arn:aws:kms:eu-central-1:123456789012:key/1"}, names=NamesOfAll())
    [policy] = resolver.resolve(template["Resources"]["ConsoleFunctionRole"]["Properties"]["Policies"])
    statements = {s["Sid"]: s for s in policy["PolicyDocument"]["Statement"]}
    log = statements.pop("WriteLogs")
    assert (log["Action"], log["Resource"]) == (["logs:CreateLogStream", "logs:PutLogEvents"], "ConsoleFunctionLogs")
    granted = [s["Action"] if isinstance(s["Action"], list) else [s["Action"]] for s in statements.values()]
    assert {action for actions in granted for action in actions} == READ_ONLY
