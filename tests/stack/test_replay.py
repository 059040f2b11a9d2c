"""From the archive back to the subscriber: by the operator's tool and by an event of the function."""

import json
import math
import signal
import time
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from world import outcome, policy

from local.sns import dead_letter, envelope
from local.stack import ACCOUNT, REGION, wait_until
from local.tool import begin, redrivectl

MANY = 10_000
# Letters of one batch of a replay, at most: what a crash can repeat.
BATCH = 500
# How long the lock of a replay that was killed holds.
LEASE = 30
# A letter archived less than this ago is not selected: it could still come to light elsewhere.
LAG = 5
PER_OBJECT = 400


def bury(world, deployment, subscriber, letters, reason="exhausted"):
    """Archives so many letters as the function does, several hundred an object. Returns the SQS message ids."""
    s3 = world.stack.client("s3")
    place, queue = deployment.outputs["ArchiveLocation"].removeprefix("s3://"), deployment.queue_arn
    bucket, prefix = place.split("/", 1)
    archived = datetime.now(UTC) - timedelta(hours=1)
    records = [record(deployment, subscriber, number, archived, reason) for number in range(letters)]
    for number in range(math.ceil(letters / PER_OBJECT)):
        lines = records[number * PER_OBJECT : (number + 1) * PER_OBJECT]
        stamp = f"date={archived:%Y-%m-%d}/{archived:%Y%m%dT%H%M%SZ}-{number:04}"
        key = f"{prefix}/queue={queue.rsplit(':', 1)[1]}/{stamp}.jsonl"
        s3.put_object(Bucket=bucket, Key=key, Body="".join(json.dumps(line) + "\n" for line in lines))
    time.sleep(LAG + 2)
    return [line["message"]["messageId"] for line in records]


def record(deployment, subscriber, number, archived, reason):
    sns_id, sent = str(uuid.uuid4()), int(archived.timestamp() * 1000) - 60_000
    body = envelope(subscriber.topic_arn, subscriber.subscription_arn, f"letter {number}", message_id=sns_id)
    return {
        "version": 1,
        "archivedAt": archived.isoformat().replace("+00:00", "Z"),
        "reason": reason,
        "queueArn": deployment.queue_arn,
        "letterId": f"{sns_id}/{subscriber.subscription_arn}",
        "origin": "sns",
        "topicArn": subscriber.topic_arn,
        "subscriptionArn": subscriber.subscription_arn,
        "rule": "default",
        "retry": {"number": 2, "of": 2},
        "message": {
            "messageId": str(uuid.uuid4()),
            "body": body,
            "attributes": {
                "ApproximateReceiveCount": "3",
                "SentTimestamp": str(sent),
                "SenderId": ACCOUNT,
                "ApproximateFirstReceiveTimestamp": str(sent + 100),
            },
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": deployment.queue_arn,
            "awsRegion": REGION,
        },
    }


class Copies:
    """How often each message has arrived at a subscriber, by SNS's id."""

    def __init__(self, subscriber):
        self.subscriber = subscriber
        self.bodies = []

    def take(self):
        """Takes what has arrived, in batches: there are many. Returns how many there are by now."""
        sqs, url = self.subscriber.stack.client("sqs"), self.subscriber.queue_url
        while batch := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=0).get("Messages"):
            entries = [{"Id": str(at), "ReceiptHandle": m["ReceiptHandle"]} for at, m in enumerate(batch)]
            sqs.delete_message_batch(QueueUrl=url, Entries=entries)
            self.bodies += [message["Body"] for message in batch]
        return len(self.bodies)

    def wait_for(self, letters, within=30):
        wait_until(lambda: self.take() >= letters, within, f"{letters} letters at {self.subscriber.name}")
        return self

    def texts(self):
        return sorted(json.loads(body)["Message"] for body in self.bodies)


def texts(numbers):
    return sorted(f"letter {number}" for number in numbers)


def replay(deployment, *args, given=None):
    """A replay that does not wait; its exit code, and its manifest where there is one."""
    ran = redrivectl(deployment, "replay", "--json", "--rate", 10_000, *args, given=given)
    return ran.returncode, json.loads(ran.stdout) if ran.stdout else ran.stderr


def ledgers(deployment):
    """How many batches were begun."""
    s3, bucket = deployment.stack.client("s3"), deployment.outputs["ArchiveBucketName"]
    found = s3.list_objects_v2(Bucket=bucket, Prefix="dead-letters/replays/").get("Contents", [])
    return sum(entry["Key"].endswith(".jsonl") for entry in found)


def in_requeue(deployment):
    sqs = deployment.stack.client("sqs")
    url = sqs.get_queue_url(QueueName=deployment.outputs["RequeueArn"].rsplit(":", 1)[1])["QueueUrl"]
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)
    return sum(int(found["Attributes"][name]) for name in names)


def deployed(world, policy, **parameters):
    topic = world.topic()
    deployment = world.deploy(policy, topic, queues=["billing"], AllowReplay="true", **parameters)
    return deployment, world.subscribe("billing", topic, deployment.queue_arn)


@pytest.mark.long
def test_many_letters_are_all_delivered_though_the_replay_is_killed_twice(world):
    # A large batch size does not help: the local stack hands over 10 at once, about 200 letters a second.
    deployment, billing = deployed(world, policy(retries=3, delay=2, immediate=1))
    bury(world, deployment, billing, MANY)
    arrived = Copies(billing)
    for batches in (7, 14):
        running = begin(deployment, "replay", "--ramp", "100", "--rate", 10_000)
        # A batch's ledger is there before it is sent. Sending takes about 0.3 s.
        wait_until(lambda wanted=batches: ledgers(deployment) >= wanted, 120, f"batch {batches}", every=0.02)
        time.sleep(0.1)
        running.send_signal(signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL
        code, said = replay(deployment, "--ramp", "100")
        assert (code, "another replay is under way" in said) == (1, True), said
        killed = time.monotonic()
        while time.monotonic() < killed + LEASE:
            arrived.take()
            time.sleep(0.5)
    assert len(arrived.bodies) < MANY, "it was killed in the middle"

    code, manifest = replay(deployment, "--ramp", "100")
    assert (code, manifest["status"], manifest["sent"]) == (0, "done", MANY)
    arrived.wait_for(MANY, within=120)
    wait_until(lambda: in_requeue(deployment) == 0, 60, "the requeue to be empty")
    arrived.take()
    assert set(arrived.texts()) == set(texts(range(MANY))), "nothing lost, nothing invented"
    repeats = len(arrived.bodies) - MANY
    # The manifest says which could be there twice; that is no more than a batch a crash.
    assert repeats <= manifest["repeated"] <= 2 * BATCH
    assert manifest["repeated"] > 0, "neither crash came in the middle of a batch"


def test_ctrl_c_ends_a_replay_in_good_order(world):
    deployment, billing = deployed(world, policy(retries=3, delay=2, immediate=1))
    bury(world, deployment, billing, 600)
    running = begin(deployment, "replay", "--ramp", "100", "--rate", 200)
    wait_until(lambda: ledgers(deployment) >= 1, 60, "the first batch", every=0.02)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=20)
    assert (running.returncode, err) == (1, ""), err
    assert "interrupted in step 1 of 1" in out, out

    # At once: nothing is locked. And nothing twice.
    code, manifest = replay(deployment, "--ramp", "100")
    assert (code, manifest["status"], manifest["sent"], manifest["repeated"]) == (0, "done", 600, 0)
    arrived = Copies(billing).wait_for(600)
    wait_until(lambda: in_requeue(deployment) == 0, 10, "the requeue to be empty")
    arrived.take()
    assert arrived.texts() == texts(range(600))


def test_ramp_stops_by_itself_while_letters_come_back_to_the_archive(world):
    deployment, billing = deployed(world, policy(retries=1, delay=1, immediate=1))
    bury(world, deployment, billing, 100)
    billing.unplug()
    ramp = ["--ramp", "5,20,100", "--settle", 5]
    code, manifest = replay(deployment, *ramp)
    assert (code, manifest["status"], manifest["sent"], manifest["step"]) == (1, "stopped", 5, 0)
    assert "5 back in the archive" in manifest["why"], manifest["why"]
    code, said = replay(deployment, *ramp)
    assert (code, "has stopped" in said) == (1, True), said

    billing.repair()
    code, manifest = replay(deployment, *ramp, "--resume")
    assert (code, manifest["status"], manifest["sent"]) == (0, "done", 100)
    arrived = Copies(billing).wait_for(95)
    # The five that came back are new letters of the archive, of the next generation.
    code, manifest = replay(deployment, "--ramp", "100")
    assert (code, manifest["sent"], manifest["counts"]["alreadyReplayed"]) == (0, 5, 100)
    assert arrived.wait_for(100).texts() == texts(range(100))


def test_ramp_stops_by_itself_while_letters_wait_in_the_requeue(world):
    deployment, billing = deployed(world, policy(retries=20, delay=5, immediate=1))
    bury(world, deployment, billing, 100)
    billing.unplug()
    ramp = ["--ramp", "5,20,100", "--settle", 3]
    code, manifest = replay(deployment, *ramp)
    assert (code, manifest["status"], manifest["sent"]) == (1, "stopped", 5)
    assert "5 more than before wait in the queues" in manifest["why"], manifest["why"]

    billing.repair()
    arrived = Copies(billing).wait_for(5)
    code, manifest = replay(deployment, *ramp, "--resume")
    assert (code, manifest["status"], manifest["sent"]) == (0, "done", 100)
    assert arrived.wait_for(100).texts() == texts(range(100))


def test_dry_run_counts_what_is_sent_then(world):
    deployment, billing = deployed(world, policy(retries=3, delay=2, immediate=1))
    bury(world, deployment, billing, 30, reason="permanent")
    bury(world, deployment, billing, 50)
    chosen = ["--reason", "exhausted", "--topic", billing.topic_arn, "--since", "2026-01-01"]
    code, counted = replay(deployment, *chosen, "--dry-run")
    assert (code, counted["status"], counted["counts"]["selected"]) == (0, "dryRun", 50)
    assert (ledgers(deployment), in_requeue(deployment)) == (0, 0)
    code, done = replay(deployment, *chosen, "--ramp", "100")
    assert (code, done["sent"], done["counts"]) == (0, 50, counted["counts"])
    assert Copies(billing).wait_for(50).texts() == texts(range(50))
    code, counted = replay(deployment, *chosen, "--dry-run")
    assert (code, counted["counts"]["selected"], counted["counts"]["alreadyReplayed"]) == (0, 0, 50)


def test_whoever_is_not_named_replays_nothing(world):
    deployment, billing = deployed(world, policy(retries=3, delay=2, immediate=1))
    bury(world, deployment, billing, 20)
    stranger, everything = world.stack.user(world.name("stranger")), {"Effect": "Allow", "Action": "*", "Resource": "*"}
    world.stack.client("iam").put_user_policy(
        UserName=world.name("stranger"),
        PolicyName="everything",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [everything]}),
    )

    ran = redrivectl(deployment, "replay", "--ramp", "100", keys=stranger)

    assert ran.returncode == 1
    assert "because   the requeue does not take letters: AccessDenied" in ran.stdout, (ran.stdout, ran.stderr)
    assert (in_requeue(deployment), billing.receive()) == (0, [])


def test_letter_is_edited_by_a_pipe_and_goes_in_the_place_of_the_original(world):
    deployment, billing = deployed(world, policy(retries=1, delay=1, immediate=1))
    billing.unplug()
    letter = dead_letter(deployment, envelope(billing.topic_arn, billing.subscription_arn, "poison"))
    assert outcome(deployment, letter, "archived")["reason"] == "exhausted"
    billing.repair()
    time.sleep(LAG + 2)
    shown = redrivectl(deployment, "archive", "show", "--json", letter)
    assert (shown.returncode, shown.stderr) == (0, "")
    record = json.loads(shown.stdout)
    record["message"]["body"] = record["message"]["body"].replace("poison", "remedy")
    code, manifest = replay(deployment, "--from", "-", given=json.dumps(record) + "\n")
    assert (code, manifest["sent"]) == (0, 1)
    arrived = Copies(billing).wait_for(1)
    assert arrived.bodies == [record["message"]["body"]]
    code, manifest = replay(deployment)
    assert (code, manifest["sent"], manifest["counts"]["alreadyReplayed"]) == (0, 0, 1)
    time.sleep(2)
    arrived.take()
    assert arrived.texts() == ["remedy"], "never both"


def test_event_of_the_function_replays_too_and_goes_on_where_its_time_ended(world):
    deployment, billing = deployed(world, policy(retries=3, delay=2, immediate=1))
    bury(world, deployment, billing, 40)

    def invoke(**request):
        name, payload = deployment.outputs["FunctionName"], json.dumps({"replay": request})
        answer = deployment.stack.client("lambda").invoke(FunctionName=name, Payload=payload)
        return "FunctionError" not in answer, json.loads(answer["Payload"].read())

    wish = {"select": {"reasons": ["exhausted"]}, "rate": 10_000, "ramp": [10, 100], "settleSeconds": 6}
    ok, counted = invoke(**wish, dryRun=True)
    assert (ok, counted["status"], counted["counts"]["selected"]) == (True, "dryRun", 40), counted
    ok, manifest = invoke(**wish)
    # The function has 5 seconds.
    assert (ok, manifest["status"], manifest["sent"]) == (True, "settling", 4), manifest
    time.sleep(6)
    ok, manifest = invoke(**wish)
    assert (ok, manifest["status"], manifest["sent"], manifest["counts"]) == (True, "done", 40, counted["counts"])
    assert Copies(billing).wait_for(40).texts() == texts(range(40))
    ok, said = invoke(select={"reason": ["exhausted"]})
    assert (ok, "reason" in json.dumps(said)) == (False, True), said
