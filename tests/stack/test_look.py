"""From a queue with letters and nothing deployed to a stack that works, and nobody types an ARN."""

import json
import subprocess
import tomllib
from datetime import UTC, datetime

from samcli.cli.types import CfnParameterOverridesType
from world import arrived

from local.deploy import deploy
from local.sns import envelope
from local.stack import ACCOUNT, REGION, ROOT
from local.subscribers import create_queue
from local.tool import account, command

# As the manual has it, for `look` and `look --init`.
ACTIONS = ["sqs:ReceiveMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes"]


def permissions():
    """The actions that the manual names for `look`."""
    manual = (ROOT / "docs" / "reference" / "redrivectl.md").read_text().split("## Permissions")[1]
    rows = manual.split("| `look`", 1)[1].split("| overrides, `waiting`")[0]
    return [part for part in rows.split("`")[1::2] if ":" in part]


def newcomer(world):
    """The environment of a user who has only the permissions that the manual names for `look`."""
    name = world.name("newcomer")
    keys = world.stack.user(name)
    actions = permissions()
    assert set(ACTIONS) <= set(actions)
    # ministack checks batch calls, and the function's configuration, under names that IAM does not have.
    names = ["sqs:ChangeMessageVisibilityBatch", "lambda:GetFunction"]
    statement = {"Effect": "Allow", "Action": actions + names, "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    world.stack.client("iam").put_user_policy(UserName=name, PolicyName="look", PolicyDocument=policy)
    return account(world.stack, keys)


def look(env, *args):
    ran = subprocess.run(command("look", *args), check=False, env=env, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_from_a_queue_with_letters_to_a_stack_that_delivers_them(world, tmp_path):
    topic = world.topic()
    url, queue_arn = create_queue(world.stack, world.name("dlq"), topic)
    sqs = world.stack.client("sqs")
    subscribers = {name: world.subscribe(name, topic, queue_arn) for name in ("billing", "audit")}
    subscribers["billing"].unplug()
    for name, subscriber in subscribers.items():
        for number in range(3):
            body = envelope(topic, subscriber.subscription_arn, f"{name} {number}")
            sqs.send_message(QueueUrl=url, MessageBody=body)

    env = newcomer(world)
    seen = json.loads(look(env, "--queue", world.name("dlq"), "--yes", "--json"))
    groups = {group["target"].rsplit("-", 1)[-1]: group for group in seen["groups"]}
    assert {name: group["letters"] for name, group in groups.items()} == {"billing": 3, "audit": 3}
    assert groups["billing"]["endpoint"] == {"finding": "broken", "says": "the queue does not exist"}
    assert groups["audit"]["endpoint"]["finding"] != "cannotTell"

    file = tmp_path / "samconfig.toml"
    told = look(env, "--queue", world.name("dlq"), "--yes", "--init", file)
    assert f"sam deploy --config-file {file}" in told
    config = tomllib.loads(file.read_text())["default"]["deploy"]["parameters"]
    # As the SAM CLI reads it.
    parameters = CfnParameterOverridesType().convert(tuple(config["parameter_overrides"]), None, None)
    assert parameters["RedriveMode"] == "observe"
    subscribers["billing"].repair()
    # As the printed command switches it on. Letters that were looked at wait for 20 seconds then.
    active = {"RedriveMode": "active", "ScheduleFrom": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    deployment = deploy(world.stack, world.prefix, **(parameters | active))
    world.deployments.append(deployment)
    assert deployment.queue_arn == f"arn:aws:sqs:{REGION}:{ACCOUNT}:{world.name('dlq')}"
    for name, subscriber in subscribers.items():
        bodies = []
        while len(bodies) < 3:
            bodies += [json.loads(message["Body"])["Message"] for message in arrived(subscriber, within=60)]
        assert sorted(bodies) == [f"{name} {number}" for number in range(3)]
    deployment.wait_until_empty()
