"""`redrivectl attach` on sixty subscriptions: what each names before, after, and after it is taken back."""

import json
import re

from world import policy

from local.stack import ROOT
from local.tool import redrivectl


def attacher(world):
    """The keys of a user who has the permissions that the manual names, and no other."""
    manual = (ROOT / "docs" / "reference" / "redrivectl.md").read_text()
    chapter = manual.split("### Permissions of attach")[1].split("\n##")[0]
    actions = [*re.findall(r"`([a-z0-9]+:[A-Za-z]+)`", chapter), "cloudformation:DescribeStacks"]
    name = world.name("attacher")
    keys = world.stack.user(name)
    statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    world.stack.client("iam").put_user_policy(UserName=name, PolicyName="attach", PolicyDocument=document)
    return keys


def redrive_policies(world, arns):
    """What each subscription has; the local stack has an empty text where AWS has nothing."""
    sns = world.stack.client("sns")
    attributes = [sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"] for arn in arns]
    return [each.get("RedrivePolicy") or None for each in attributes]


def test_sixty_subscriptions_are_attached_by_one_command_and_given_back_what_they_had(world, tmp_path):
    topic, sns = world.topic(), world.stack.client("sns")
    deployment = world.deploy(policy(retries=1, delay=1), topic, queues=["billing"])
    old = json.dumps({"deadLetterTargetArn": deployment.queue_arn.rpartition(":")[0] + ":old-dlq"})
    arns = []
    for number in range(60):
        target = deployment.queue_arn.rpartition(":")[0] + f":{world.name('worker')}-{number}"
        given = {"RedrivePolicy": old} if number < 3 else {}
        subscribed = sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=target, Attributes=given)
        arns.append(subscribed["SubscriptionArn"])
    before, keys, record = redrive_policies(world, arns), attacher(world), tmp_path / "attach.json"
    assert before == [old] * 3 + [None] * 57

    def attach(*args):
        ran = redrivectl(deployment, "attach", *args, "--json", keys=keys)
        answer = json.loads(ran.stdout)
        return ran.returncode, [answer[name] for name in ("changed", "kept", "leftAlone", "failed")]

    chosen = ["--stack", deployment.name, "--topic", topic]
    assert attach(*chosen, "--dry-run") == (3, [0, 0, 3, 0])
    assert redrive_policies(world, arns) == before
    assert attach(*chosen, "--yes", "--record", record) == (3, [57, 0, 3, 0])
    now = [json.loads(each)["deadLetterTargetArn"] for each in redrive_policies(world, arns)[3:]]
    assert now == [deployment.queue_arn] * 57
    assert redrive_policies(world, arns)[:3] == before[:3]
    assert attach(*chosen, "--replace", "--yes", "--record", tmp_path / "more.json") == (0, [3, 57, 0, 0])
    for file, number in [(tmp_path / "more.json", 3), (record, 57)]:
        assert attach("--undo", file, "--yes") == (0, [number, 0, 0, 0])
    assert redrive_policies(world, arns) == before
