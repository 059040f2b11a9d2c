"""`redrivectl drill` on a deployment as the template makes it: the whole way of a letter, and nothing left of it.

The local stack never dead-letters a subscription, so the test does what SNS would: it writes the letters when the drill
says that it has published.
"""

import json
import re
import signal

import pytest
from world import policy

from local.sns import dead_letter, envelope
from local.stack import ACCOUNT, REGION, ROOT, wait_until
from local.tool import begin, redrivectl

# What ministack calls the permission to delete messages in a batch.
NAMES_OF_MINISTACK = ["sqs:DeleteMessageBatch"]


def permissions(heading):
    """The actions that the manual names below a heading."""
    chapter = (ROOT / "docs" / "reference" / "redrivectl.md").read_text().split(heading)[1].split("\n##")[0]
    return re.findall(r"`([a-z0-9]+:[A-Za-z]+)`", chapter)


class Drill:
    """A drill that runs, and what SNS would do about what it publishes."""

    def __init__(self, world, deployment, *options):
        self.world, self.deployment = world, deployment
        iam = world.stack.client("iam")
        statement = {
            "Effect": "Allow",
            "Action": permissions("### Permissions of the drill") + NAMES_OF_MINISTACK,
            "Resource": "*",
        }
        iam.put_user_policy(
            UserName=f"{deployment.name}-operator",
            PolicyName="drill",
            PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
        )
        # SQS takes a minute to delete a queue; the local stack does not.
        quick = ["--settle", "1", "--watch", "3", "--within", "60"]
        self.process = begin(deployment, "drill", "--stack", deployment.name, "--yes", *quick, *options)
        self.lines = []

    def until(self, words):
        """Reads what it prints until a line has these words, and returns the line."""
        for line in self.process.stdout:
            self.lines.append(line)
            if words in line:
                return line
        raise AssertionError("".join(self.lines) + self.process.stderr.read())

    def sns_gives_up(self):
        """Writes the letters of what was published for the queue that is broken."""
        topic = self.topic()
        fifo = ".fifo" if topic.endswith(".fifo") else ""
        broken = f"{topic.removesuffix(fifo)}-broken{fifo}".replace(":sns:", ":sqs:")
        sns = self.world.stack.client("sns")
        found = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
        [subscription] = [one["SubscriptionArn"] for one in found if one["Endpoint"] == broken]
        retried, archived = re.search(
            r"published (\S+) to retry, and (\S+) to archive", self.until("published ")
        ).groups()
        for message_id, kind in [(retried, "retry"), (archived, "give-up")]:
            attributes = {"drill": ("String", kind)}
            body = envelope(topic, subscription, "{}", attributes=attributes, message_id=message_id)
            dead_letter(self.deployment, body, group=kind)

    def topic(self):
        name = re.search(r"the topic (\S+),", self.until("creates")).group(1)
        self.until("seen     arn:aws:sns:")
        return f"arn:aws:sns:{REGION}:{ACCOUNT}:{name}"

    def ended(self):
        self.lines += self.process.stdout
        return self.process.wait(), "".join(self.lines) + self.process.stderr.read()


def left_by_drills(world, deployment):
    """Everything that is there of any drill of the deployment."""
    prefix, clients = f"{deployment.name}-drill-", world.stack.client
    queues = clients("sqs").list_queues(QueueNamePrefix=prefix).get("QueueUrls", [])
    topics = [topic["TopicArn"] for topic in clients("sns").list_topics()["Topics"]]
    subscriptions = [one["Endpoint"] for one in clients("sns").list_subscriptions()["Subscriptions"]]
    # What a replay keeps of itself stays: by it no letter is replayed twice.
    bucket, s3 = deployment.outputs["ArchiveBucketName"], clients("s3")
    versions = s3.list_object_versions(Bucket=bucket)
    keys = [version["Key"] for kind in ("Versions", "DeleteMarkers") for version in versions.get(kind, [])]
    kept = re.compile(r"-control/(replays/|overrides\.json|waiting/)")
    return (
        queues,
        [topic for topic in topics if prefix in topic],
        [endpoint for endpoint in subscriptions if prefix in endpoint],
        [key for key in keys if not kept.search(key)],
        deployment.waiting(),
    )


NOTHING = ([], [], [], [], 0)


def deployed(world, **parameters):
    return world.deploy(policy(retries=5, delay=5, immediate=1), world.topic(), Drill="true", **parameters)


@pytest.fixture
def deployment(world):
    return deployed(world)


@pytest.mark.long
@pytest.mark.parametrize("queue_type", ["standard", "fifo"])
def test_drill_shows_the_whole_way_of_a_letter_and_leaves_nothing(world, queue_type):
    deployment = deployed(world, QueueType=queue_type)
    drill = Drill(world, deployment)
    drill.sns_gives_up()
    code, said = drill.ended()

    assert code == 0, said
    steps = [
        "create",
        "break",
        "override",
        "publish",
        "healthy",
        "retry",
        "archive",
        "repair",
        "deliver",
        "replay",
        "count",
    ]
    assert re.findall(r"^\S+ +(\w+) +planned", said, re.MULTILINE) == steps, said
    assert "retry 1 of 5 (immediate) failed" in said
    assert "4 messages arrived, each once" in said
    assert said.endswith("all steps went as planned; all of its resources are removed.\n"), said
    assert left_by_drills(world, deployment) == NOTHING
    shown = redrivectl(deployment, "overrides", "--stack", deployment.name)
    assert shown.stdout == "No override is in force.\n"


@pytest.mark.long
def test_drill_that_is_interrupted_takes_everything_away(world, deployment):
    drill = Drill(world, deployment)
    drill.sns_gives_up()
    drill.until("retry     planned")
    drill.process.send_signal(signal.SIGINT)
    code, said = drill.ended()

    assert code == 4, said
    assert "interrupted" in said
    assert left_by_drills(world, deployment) == NOTHING, said


@pytest.mark.long
def test_letters_that_a_killed_drill_left_on_their_way_are_archived_first(world, deployment):
    drill = Drill(world, deployment)
    drill.sns_gives_up()
    drill.until("retry     planned")
    drill.process.kill()
    drill.process.communicate()

    cleaned = redrivectl(deployment, "drill", "--clean", "--yes", "--stack", deployment.name)
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert "removed: 2 records in the archive" in cleaned.stdout, cleaned.stdout
    assert left_by_drills(world, deployment) == NOTHING, cleaned.stdout


def test_what_a_drill_has_left_is_found_by_its_tag(world, deployment):
    drill = Drill(world, deployment)
    drill.until("override  planned")
    drill.process.kill()
    drill.process.communicate()
    wait_until(lambda: left_by_drills(world, deployment) != NOTHING, 5, "something that is left")
    # Of others, though its name is like a drill's.
    sqs = world.stack.client("sqs")
    url = sqs.create_queue(QueueName=f"{deployment.name}-drill-0a1b2c3d-broken")["QueueUrl"]

    cleaned = redrivectl(deployment, "drill", "--clean", "--yes", "--stack", deployment.name)
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert left_by_drills(world, deployment) == ([url], [], [], [], 0), cleaned.stdout
    again = redrivectl(deployment, "drill", "--clean", "--yes", "--stack", deployment.name)
    assert again.stdout == f"No drill of {deployment.name} has left anything.\n", again.stderr


def test_stack_without_the_parameter_permits_no_drill(world):
    deployment = world.deploy(policy(retries=1, delay=1), world.topic())
    refused = redrivectl(deployment, "drill", "--yes", "--stack", deployment.name)

    assert (refused.returncode, "Drill=true" in refused.stderr) == (2, True), refused.stderr
    assert left_by_drills(world, deployment) == NOTHING
