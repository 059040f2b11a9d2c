"""What `redrivectl doctor` says of a deployment as the template makes it, and of one that was changed by hand."""

import json
import re

from world import policy

from local.stack import ROOT
from local.tool import redrivectl

# What ministack calls the permissions for a function's recursion and for its reserved concurrency.
NAMES_OF_MINISTACK = ["lambda:GetFunction", "lambda:PutFunctionConcurrency"]


def permissions():
    """The actions that the manual names for the doctor."""
    manual = (ROOT / "docs" / "reference" / "redrivectl.md").read_text()
    chapter = manual.split("### Permissions of the doctor")[1].split("\n##")[0]
    return re.findall(r"`([a-z0-9]+:[A-Za-z]+)`", chapter)


def doctor_of(world):
    """The keys of a user who has the permissions that the manual names, and no other."""
    name = world.name("doctor")
    keys = world.stack.user(name)
    statement = {"Effect": "Allow", "Action": permissions() + NAMES_OF_MINISTACK, "Resource": "*"}
    world.stack.client("iam").put_user_policy(
        UserName=name,
        PolicyName="doctor",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
    )
    return keys


def examined(deployment, keys, *args):
    """Exit code and findings: severity and name of each check."""
    ran = redrivectl(deployment, "doctor", "--stack", deployment.name, "--json", *args, keys=keys)
    assert ran.returncode in (0, 1), ran.stderr
    findings = json.loads(ran.stdout)["findings"]
    return ran.returncode, {(finding["severity"], finding["check"]): finding["says"] for finding in findings}


def list_without_condition(world, name):
    """ministack's simulation of policies is told no prefix, so what the template grants for one counts as denied."""
    role = world.stack.client("lambda").get_function_configuration(FunctionName=name)["Role"].rpartition("/")[2]
    statement = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*"}
    world.stack.client("iam").put_role_policy(
        RoleName=role,
        PolicyName="list",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
    )


def test_doctor_finds_what_was_changed_by_hand(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=3, delay=60), topic, queues=["billing"])
    world.subscribe("billing", topic, deployment.queue_arn)
    keys = doctor_of(world)
    sqs, functions = world.stack.client("sqs"), world.stack.client("lambda")
    name = deployment.outputs["FunctionName"]
    # ministack does not take it from a template.
    functions.put_function_recursion_config(FunctionName=name, RecursiveLoop="Allow")
    list_without_condition(world, name)
    code, findings = examined(deployment, keys, "--write-test")
    assert code == 0, findings
    assert set(findings) == {
        # The operator is named.
        ("note", "requeue-senders"),
        # This deployment has no topics for alarms.
        ("warning", "alarm-actions"),
        # ministack does not tell a template's metadata.
        ("cannotTell", "function-version"),
        # It keeps letters for a year.
        ("note", "archive-lifecycle"),
    }, findings

    for mapping in functions.list_event_source_mappings(FunctionName=name)["EventSourceMappings"]:
        if mapping["EventSourceArn"] == deployment.queue_arn:
            functions.update_event_source_mapping(UUID=mapping["UUID"], FunctionResponseTypes=[])
    sqs.set_queue_attributes(QueueUrl=deployment.queue_url, Attributes={"VisibilityTimeout": "1", "Policy": ""})
    functions.put_function_recursion_config(FunctionName=name, RecursiveLoop="Terminate")
    world.subscribe("audit", topic, deployment.queue_arn)
    # As a change of the parameter Requeue leaves it.
    old = sqs.create_queue(QueueName=f"{deployment.name}-RequeueQueue-OLD")["QueueUrl"]
    sqs.send_message(QueueUrl=old, MessageBody="a letter")
    code, found = examined(deployment, keys)
    new = {check for severity, check in set(found) - set(findings) if severity == "error"}
    assert code == 1
    assert new == {
        "mapping-partial-answers",
        "queue-visibility",
        "queue-policy",
        "queue-left-behind",
        "function-recursion",
        "grant",
    }, found
    assert "about 1 letter," in found["error", "queue-left-behind"]
