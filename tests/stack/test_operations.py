"""operations.yaml: replays by a function of their own, and by a state machine of many."""

import json
import os
import re
import signal

import pytest
from test_replay import Copies, begun, bury, deployed, in_requeue, kept, replays, texts
from test_template import NamesOfAll, People, calls_of, refusals
from world import policy

from local.deploy import template_as_written
from local.intrinsics import Resolver
from local.stack import REGION, wait_until
from local.tool import redrivectl

QUICK = policy(retries=3, delay=2, immediate=1)

# A machine that does much besides may not have delivered a letter when the replay looks: that is no reason to stop.
PATIENT = {"settleSeconds": 3, "threshold": 100}


def with_operations(world, **parameters):
    deployment, billing = deployed(world, QUICK)
    return deployment, billing, world.operations(deployment, **parameters)


def configure(deployment, **variables):
    """Changes environment variables of the function that redrives, as an update of its stack does."""
    client, name = deployment.stack.client("lambda"), deployment.outputs["FunctionName"]
    before = client.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    client.update_function_configuration(FunctionName=name, Environment={"Variables": before | variables})


def resources(**parameters):
    """The resources of operations.yaml that the local stack does not show, with these parameters."""
    template = template_as_written("operations.yaml")
    resolver = Resolver(template, parameters, names=NamesOfAll(), pseudo={"AWS::StackName": "stack"})
    names = ("ReplayFunctionLogs", "ReplayFunctionRole", "ReplayStateMachineRole")
    return {name: resolver.resolve(template["Resources"][name]["Properties"]) for name in names}


def test_the_definition_asks_for_what_the_local_stack_does_not_show():
    machine = template_as_written("operations.yaml")["Resources"]["ReplayStateMachine"]["Properties"]["Definition"]
    states = machine["States"]
    send, lane = states["Send"], states["Send"]["ItemProcessor"]["States"]["Lane"]
    # As many lanes at once as there are; one that fails leaves its letters to the next round.
    assert (send["MaxConcurrency"], send["ToleratedFailurePercentage"]) == (1000, 100)
    assert "ItemBatcher" not in send
    assert send["ItemProcessor"]["ProcessorConfig"]["Mode"] == "DISTRIBUTED"
    # Whatever may have begun is not begun again: another Begin is another replay, another lane sends beside the first.
    for state in (states["Begin"], lane):
        assert [retry["ErrorEquals"] for retry in state["Retry"]] == [["Lambda.TooManyRequestsException"]]
    # A turn that is repeated goes on from what the first has written.
    assert ["States.ALL"] in [retry["ErrorEquals"] for retry in states["Turn"]["Retry"]]


# https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
CONCURRENCY_OF_NEW_ACCOUNTS = 10


def test_a_replay_by_default_leaves_concurrency_to_the_function_in_a_new_account():
    default = {
        name: template_as_written(template)["Parameters"][name]["Default"]
        for template, name in (("operations.yaml", "MaxWorkers"), ("template.yaml", "MaximumConcurrency"))
    }
    # The dead-letter queue and the requeue have a mapping each.
    assert default["MaxWorkers"] + 2 * default["MaximumConcurrency"] < CONCURRENCY_OF_NEW_ACCOUNTS


def test_roles_and_log_group_have_what_platform_teams_ask_for():
    boundary, key = "arn:aws:iam::123456789012:policy/boundary", "arn:aws:kms:eu-central-1:123456789012:key/1"
    plain = resources()
    asked = resources(RolePath="/teams/payments/", PermissionsBoundaryArn=boundary, LogKmsKeyArn=key, RoleName="replay")
    names = [asked[role]["RoleName"] for role in ("ReplayFunctionRole", "ReplayStateMachineRole")]
    assert names == ["replay", "replay-machine"]
    for role in ("ReplayFunctionRole", "ReplayStateMachineRole"):
        assert (asked[role]["Path"], asked[role]["PermissionsBoundary"]) == ("/teams/payments/", boundary)
        assert plain[role]["Path"] == "/" and not {"PermissionsBoundary", "RoleName"} & plain[role].keys()
    assert asked["ReplayFunctionLogs"]["KmsKeyId"] == key
    assert "KmsKeyId" not in plain["ReplayFunctionLogs"]


def test_keys_of_the_requeue_and_of_an_existing_bucket_are_both_granted():
    keys = [f"arn:aws:kms:eu-central-1:123456789012:key/{name}" for name in ("stack", "bucket")]
    for parameters, granted in [({}, []), ({"KmsKeyArns": ",".join(keys)}, [keys])]:
        for name in ("ReplayFunctionRole", "ReplayStateMachineRole"):
            [policy] = resources(**parameters)[name]["Policies"]
            statements = policy["PolicyDocument"]["Statement"]
            assert [s["Resource"] for s in statements if s["Sid"] == "UseOwnKeys"] == granted


def test_log_group_has_a_name_that_lambda_gives_to_none():
    """Lambda leaves /aws/lambda/NAME where a function of that name has run, and a stack that makes it again fails."""
    assert resources()["ReplayFunctionLogs"]["LogGroupName"] == "/sns-redrive/stack"


def test_there_is_a_dashboard_of_the_queues_that_are_named(world):
    deployment, _, _ = with_operations(world, DashboardQueues=["payments-dlq", "payments-requeue"])
    cloudwatch = world.stack.client("cloudwatch")
    [name] = [d["DashboardName"] for d in cloudwatch.list_dashboards()["DashboardEntries"] if world.prefix in str(d)]
    assert name == f"{deployment.name}-{REGION}"
    widgets = json.loads(cloudwatch.get_dashboard(DashboardName=name)["DashboardBody"])["widgets"]
    texts = [
        metric[0]["expression"] for w in widgets for metric in w["properties"].get("metrics", []) if len(metric) == 1
    ]
    assert len(texts) > 10
    for text in texts:
        assert '("payments-dlq" OR "payments-requeue")' in text
    everything = json.dumps(widgets)
    assert deployment.outputs["FunctionName"] in everything and deployment.outputs["LogGroupName"] in everything
    # CloudWatch fills these in.
    assert set(re.findall(r"\$\{[^}]*\}", everything)) == {"${PROP('Dim.QueueName')}", "${PROP('Dim.Queue')}"}


def test_without_names_of_queues_there_is_no_dashboard():
    template = template_as_written("operations.yaml")
    assert not Resolver(template, {}).holds(template["Resources"]["Dashboard"]["Condition"])


def test_replay_function_replays_what_fits_its_time(world):
    deployment, billing, operations = with_operations(world)
    bury(world, deployment, billing, 40)

    wish = {"select": {"reasons": ["exhausted"]}, "rate": 10_000, "ramp": [10, 100], **PATIENT}
    ok, counted = operations.invoke(replay={**wish, "dryRun": True})
    assert (ok, counted["status"], counted["counts"]) == (True, "dryRun", {"sent": 40}), counted
    ok, state = operations.invoke(replay={**wish, "why": "nightly"})
    assert (ok, state["status"], state["counts"]) == (True, "done", {"sent": 40}), state
    [known] = replays(deployment)
    assert (known["id"], known["by"], known["request"]["why"]) == (state["id"], "the replay function", "nightly")
    assert Copies(billing).wait_for(40).texts() == texts(range(40))
    ok, again = operations.invoke(replay={**wish, "ramp": [100]})
    assert (ok, again["status"], again["counts"]) == (True, "done", {"alreadyReplayed": 40}), again
    for request, why in [
        ({"select": {"reason": ["exhausted"]}}, "unknown field `reason`"),
        ({"resume": state["id"], "select": {}}, "unknown field `select`"),
        ({"resume": state["id"]}, "cannot be resumed: it is done"),
        ({}, "to confirm that, set all to true"),
    ]:
        ok, said = operations.invoke(replay=request)
        assert (ok, why in json.dumps(said)) == (False, True), said
    # Neither function takes what the other does.
    ok, said = operations.invoke(Records=[])
    assert (ok, "unknown variant `Records`" in json.dumps(said)) == (False, True), said
    name, payload = deployment.outputs["FunctionName"], json.dumps({"replay": wish})
    answer = deployment.stack.client("lambda").invoke(FunctionName=name, Payload=payload)
    assert "Send replays to the replay function" in answer["Payload"].read().decode()


def test_state_machine_replays_in_steps_by_several_functions(world):
    deployment, billing, operations = with_operations(world, MaxWorkers=3)
    for hours in range(1, 4):
        bury(world, deployment, billing, 200, hours=hours, first=hours * 200 - 200)
    execution = operations.execute({"all": True, "rate": 10_000, "ramp": [50, 100], "why": "mended", **PATIENT})
    status, output = operations.ended(execution)
    assert (status, output["replay"]["status"]) == ("SUCCEEDED", "done"), output["replay"].get("because", output)
    assert output["replay"]["counts"] == {"sent": 600}
    [state] = replays(deployment)
    assert (state["by"], state["request"]["why"]) == (execution, "mended")
    arrived = Copies(billing).wait_for(600, within=600)
    wait_until(lambda: in_requeue(deployment) == 0, 30, "the requeue to be empty")
    arrived.take()
    assert arrived.texts() == texts(range(600)), "none twice"
    # Half of the letters lie in two of the hours, and each hour has one worker.
    lanes = [key for key in kept(deployment) if "/rounds/000001/" in key and "units" not in key]
    assert {key.rsplit("/", 1)[1] for key in lanes} == {"0000.json", "0001.json"}, lanes


def test_state_machine_is_stopped_by_an_operator_and_another_execution_goes_on(world):
    deployment, billing, operations = with_operations(world, MaxWorkers=2)
    bury(world, deployment, billing, 400)
    wish = ["replay", "--all", "--yes", "--rate", "20", "--ramp", "100", "--why", "billing is mended"]
    started = redrivectl(deployment, *wish, "--stack", deployment.name, "--detach", "--json")
    assert started.returncode == 0, started.stderr
    execution, begun_id = (json.loads(started.stdout)[field] for field in ("executionArn", "id"))
    wait_until(lambda: begun(deployment) >= 1, 600, "the first batch")
    [state] = replays(deployment)
    assert state["id"] == begun_id
    stopped = redrivectl(deployment, "replay", "stop", state["id"], "--why", "it is down again", "--by", "jo")
    assert stopped.returncode == 0, stopped.stderr
    status, output = operations.ended(execution, within=40)
    # That somebody stopped it is no failure of the execution.
    assert (status, output["replay"]["status"]) == ("SUCCEEDED", "stopped"), output
    assert output["replay"]["because"] == "jo stopped it: it is down again"
    sent = output["replay"]["counts"]["sent"]
    assert 0 < sent < 400

    shown = redrivectl(deployment, "replay", "show", state["id"])
    for word in (execution, "billing is mended", "stopped in step 1 of 1"):
        assert word in shown.stdout, shown.stdout

    resumed = redrivectl(
        deployment, "replay", "--yes", "--resume", state["id"], "--rate", "10000", "--stack", deployment.name, "--json"
    )
    assert resumed.returncode == 0, resumed.stderr
    done = json.loads(resumed.stdout)
    assert (done["id"], done["status"], done["counts"]) == (begun_id, "done", {"sent": 400})
    assert done["executionArn"] != execution
    arrived = Copies(billing).wait_for(400, within=600)
    wait_until(lambda: in_requeue(deployment) == 0, 30, "the requeue to be empty")
    arrived.take()
    assert arrived.texts() == texts(range(400)), "none twice"


@pytest.mark.long
def test_killed_worker_of_the_state_machine_is_made_up_for(world):
    deployment, billing, operations = with_operations(world, MaxWorkers=2)
    for hours in (1, 2):
        bury(world, deployment, billing, 1500, hours=hours, first=hours * 1500 - 1500)
    execution = operations.execute({"all": True, "rate": 400, "ramp": [100]})
    wait_until(lambda: begun(deployment) >= 500, 600, "half of the letters", every=0.02)
    workers = operations.bootstraps()
    assert workers
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    status, output = operations.ended(execution, within=300)
    state = output["replay"]
    assert (status, state["status"], state["counts"]["sent"]) == ("SUCCEEDED", "done", 3000), output
    arrived = Copies(billing).wait_for(3000, within=120)
    wait_until(lambda: in_requeue(deployment) == 0, 600, "the requeue to be empty")
    arrived.take()
    assert set(arrived.texts()) == set(texts(range(3000))), "nothing lost, nothing invented"
    assert len(arrived.bodies) - 3000 <= state["counts"].get("repeated", 0)


def test_without_a_state_machine_the_terminal_replays(world):
    deployment, billing = deployed(world, QUICK)
    bury(world, deployment, billing, 20)
    configure(deployment, REDRIVE_MODE="observe")
    ran = redrivectl(deployment, "replay", "--all", "--yes", "--ramp", "100", "--stack", deployment.name)
    assert (ran.returncode, "is observe: only dryRun" in ran.stderr) == (2, True), ran
    configure(deployment, REDRIVE_MODE="active")
    ran = redrivectl(deployment, "replay", "--all", "--yes", "--ramp", "100", "--stack", deployment.name)
    assert (ran.returncode, "does not exist, so this terminal replays" in ran.stderr, "20 letters" in ran.stdout) == (
        0,
        True,
        True,
    ), ran
    assert Copies(billing).wait_for(20).texts() == texts(range(20))


def test_whoever_is_not_named_in_the_requeue_sends_nothing_by_the_state_machine_either(world):
    deployment, billing = deployed(world, QUICK)
    bury(world, deployment, billing, 20)
    operations = world.operations(deployment, admitted=False)
    status, output = operations.ended(operations.execute({"all": True, "ramp": [100]}))
    assert (status, output["replay"]["status"]) == ("SUCCEEDED", "stopped"), output
    assert "the requeue does not take letters: AccessDenied" in output["replay"]["because"]
    assert (in_requeue(deployment), billing.receive()) == (0, [])


def test_replays_go_by_the_mode_and_the_policy_that_the_other_stack_has_by_then(world):
    deployment, billing, operations = with_operations(world)
    bury(world, deployment, billing, 20)
    # SQS has moved none of them, so none has a source.
    nowhere = policy(retries=3, delay=2, target="source")
    configure(deployment, REDRIVE_MODE="observe", REDRIVE_POLICY=json.dumps(nowhere))
    name, wish = deployment.outputs["FunctionArn"], {"all": True, "ramp": [100]}
    ok, said = operations.invoke(replay=wish)
    assert (ok, f"REDRIVE_MODE of {name} is observe: only dryRun" in json.dumps(said)) == (False, True), said
    refused = redrivectl(deployment, "replay", "--all", "--yes", "--stack", deployment.name)
    assert (refused.returncode, "is observe: only dryRun" in refused.stderr) == (2, True), refused.stderr
    assert (kept(deployment), in_requeue(deployment)) == ({}, 0)
    # By the index alone a dry run knows of no target; by the origin it reads the letters.
    status, output = operations.ended(operations.execute({"select": {"origins": ["sns"]}, "dryRun": True}))
    counts = {"notReplayable": {"noTarget": 20}}
    assert (status, output["replay"]["counts"]) == ("SUCCEEDED", counts), output
    configure(deployment, REDRIVE_MODE="active", REDRIVE_POLICY=json.dumps(QUICK))
    status, output = operations.ended(operations.execute(wish))
    assert (status, output["replay"]["status"]) == ("SUCCEEDED", "done"), output
    assert Copies(billing).wait_for(20).texts() == texts(range(20))


def test_dry_run_and_bad_wishes_of_the_state_machine_write_nothing(world):
    deployment, billing, operations = with_operations(world)
    bury(world, deployment, billing, 30)
    status, output = operations.ended(operations.execute({"all": True, "dryRun": True}))
    assert (status, output["replay"]["status"], output["replay"]["counts"]) == ("SUCCEEDED", "dryRun", {"sent": 30})
    status, _ = operations.ended(operations.execute({"select": {"reason": ["exhausted"]}}))
    assert status == "FAILED"
    assert (kept(deployment), in_requeue(deployment)) == ({}, 0)


def test_grants_of_the_replay_function_are_to_read_letters_keep_replays_and_fill_the_requeue(world):
    deployment, _, operations = with_operations(world)
    calls = calls_of(world, deployment, People(world).session(operations.outputs["ReplayRoleArn"]))

    assert set(calls) - refusals(calls) == {
        "read archive",
        "list archive",
        "read replays",
        "write replays",
        "list replays",
        "send requeue",
        "count requeue",
        "count dead-letter queue",
        "read configuration",
    }
