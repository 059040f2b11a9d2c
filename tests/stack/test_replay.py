"""From the archive back to the subscriber, by the operator's tool."""

import json
import signal
import time

import pytest
from world import outcome, policy

from local import archived
from local.sns import dead_letter, envelope
from local.stack import ACCOUNT, wait_until
from local.tool import begin, redrivectl

MANY = 5_000
# Letters of one batch of a replay, at most: what a crash can repeat.
BATCH = 1000
# A letter archived less than this ago is not selected: it could still come to light elsewhere.
LAG = 5


def bury(world, deployment, subscriber, letters, reason="exhausted", hours=1, first=0):
    """The same as `archived.bury`, and waits until the letters are old enough to be selected."""
    ids = archived.bury(deployment, subscriber, letters, reason, hours, first)
    time.sleep(LAG + 2)
    return ids


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
    """A replay that goes fast; its exit code, and how it stands, or what is wrong."""
    ran = redrivectl(deployment, "replay", "--yes", "--json", "--rate", 10_000, *args, given=given)
    return ran.returncode, json.loads(ran.stdout) if ran.stdout else ran.stderr


def replays(deployment):
    """The replays that are kept, the latest first."""
    ran = redrivectl(deployment, "replay", "list", "--json")
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    return json.loads(ran.stdout)["replays"]


def kept(deployment):
    """What replays keep, by the end of its key."""
    s3 = deployment.stack.client("s3")
    bucket, control = deployment.outputs["ControlLocation"].removeprefix("s3://").split("/", 1)
    found = s3.list_objects_v2(Bucket=bucket, Prefix=f"{control}/replays/").get("Contents", [])
    keys = [entry["Key"] for entry in found]
    return {key.split("/replays/")[1]: s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}


def noted(deployment, *lists):
    """How many letters are in these lists of the ledgers."""
    ledgers = [
        json.loads(text)
        for key, text in kept(deployment).items()
        if key.startswith("queues/") and not key.endswith("cuts.json")
    ]
    return sum(len(entry.get(name, [])) for ledger in ledgers for entry in ledger["entries"] for name in lists)


def begun(deployment):
    """How many letters replays have sent, or are sending."""
    return noted(deployment, "sent", "sending")


def killed_in_a_batch(deployment, running):
    """Kills a replay whose ledger lists letters as being sent. Frozen first: it could be done with them meanwhile."""

    def is_frozen():
        assert running.poll() is None, "the replay ended"
        running.send_signal(signal.SIGSTOP)
        # What it had already asked for takes effect.
        before, after = None, kept(deployment)
        while before != after:
            time.sleep(0.2)
            before, after = after, kept(deployment)
        if noted(deployment, "sending"):
            return True
        running.send_signal(signal.SIGCONT)
        return False

    wait_until(is_frozen, 600, "letters that are being sent", every=0.02)
    running.send_signal(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL


def in_requeue(deployment):
    sqs = deployment.stack.client("sqs")
    url = sqs.get_queue_url(QueueName=deployment.outputs["RequeueArn"].rsplit(":", 1)[1])["QueueUrl"]
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)
    return sum(int(found["Attributes"][name]) for name in names)


def deployed(world, policy, **parameters):
    topic = world.topic()
    deployment = world.deploy(policy, topic, queues=["billing"], **parameters)
    return deployment, world.subscribe("billing", topic, deployment.queue_arn)


@pytest.mark.long
def test_many_letters_are_all_delivered_though_the_replay_is_killed_twice(world):
    # A large batch size does not help: the local stack hands over 10 at once, about 200 letters a second. On a busy
    # machine letters wait for longer than the minute of a claim, which would stop the replay below a threshold of 100.
    deployment, billing = deployed(world, policy(retries=3, delay=2, immediate=1))
    bury(world, deployment, billing, MANY)
    running = begin(deployment, "replay", "--all", "--yes", "--ramp", "100", "--threshold", "100", "--rate", 10_000)
    for letters in (500, 2_500):
        wait_until(lambda wanted=letters: begun(deployment) >= wanted, 120, f"{letters} letters", every=0.02)
        killed_in_a_batch(deployment, running)
        [state] = replays(deployment)
        # It waits until the claim of the one that was killed is over.
        running = begin(deployment, "replay", "--yes", "--resume", state["id"], "--json", "--rate", 10_000)
    assert begun(deployment) < MANY, "it was killed in the middle"
    out, err = running.communicate(timeout=180)
    state = json.loads(out)
    assert (running.returncode, err, state.get("because"), state["counts"]["sent"]) == (0, "", None, MANY)
    assert state["status"] == "done"

    arrived = Copies(billing).wait_for(MANY, within=120)
    wait_until(lambda: in_requeue(deployment) == 0, 600, "the requeue to be empty")
    arrived.take()
    assert set(arrived.texts()) == set(texts(range(MANY))), "nothing lost, nothing invented"
    repeats = len(arrived.bodies) - MANY
    # The replay says which could be there twice; that is no more than a batch a crash.
    assert max(repeats, 1) <= state["counts"]["repeated"] <= 2 * BATCH


def steps(err, ended):
    """The steps that a replay tells of where there is no terminal; its last line says how it ended."""
    *lines, last = err.splitlines()
    assert last.endswith(f" letters sent: {ended}"), err
    return [line.rpartition(", ")[2] for line in lines]


def test_ctrl_c_ends_a_replay_in_good_order(world):
    deployment, billing = deployed(world, policy(retries=3, delay=2, immediate=1))
    bury(world, deployment, billing, 600)
    running = begin(deployment, "replay", "--all", "--yes", "--ramp", "100", "--rate", 10)
    wait_until(lambda: begun(deployment) >= 1, 600, "the first batch", every=0.02)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=180)
    assert (running.returncode, steps(err, "interrupted")) == (4, ["step 1 of 1"]), err
    [state] = replays(deployment)
    assert "unfinished, in step 1 of 1" in out, out
    assert f"To continue: redrivectl replay --resume {state['id']}" in out, out

    # At once: nothing is claimed. And nothing twice.
    code, state = replay(deployment, "--resume", state["id"])
    assert (code, state["status"], state["counts"]) == (0, "done", {"sent": 600})
    arrived = Copies(billing).wait_for(600)
    wait_until(lambda: in_requeue(deployment) == 0, 10, "the requeue to be empty")
    arrived.take()
    assert arrived.texts() == texts(range(600))


def test_replay_is_listed_shown_and_stopped_from_anywhere(world):
    deployment, billing = deployed(world, policy(retries=3, delay=2, immediate=1))
    bury(world, deployment, billing, 800)
    running = begin(deployment, "replay", "--all", "--yes", "--ramp", "100", "--rate", 10, "--why", "billing is mended")
    wait_until(lambda: begun(deployment) >= 1, 600, "the first batch")
    [state] = replays(deployment)
    listed = redrivectl(deployment, "replay", "list").stdout
    assert state["id"] in listed and "running" in listed, listed

    stopped = redrivectl(deployment, "replay", "stop", state["id"], "--why", "it is down again", "--by", "jo")
    assert (stopped.returncode, stopped.stderr) == (0, ""), stopped.stderr
    out, err = running.communicate(timeout=180)
    assert (running.returncode, steps(err, "stopped")) == (4, ["step 1 of 1"]), err
    assert "jo stopped it: it is down again" in out, out
    [state] = replays(deployment)
    assert state["counts"]["sent"] < 800, "it was stopped, not done"
    shown = redrivectl(deployment, "replay", "show", state["id"])
    operator = f"arn:aws:iam::{ACCOUNT}:user/{deployment.name}-operator"
    assert all(word in shown.stdout for word in ("stopped in step 1 of 1", "billing is mended", operator)), shown.stdout

    code, state = replay(deployment, "--resume", state["id"])
    assert (code, state["status"], state["counts"]) == (0, "done", {"sent": 800})
    unknown = redrivectl(deployment, "replay", "show", "20261101T120000Z-none")
    assert (unknown.returncode, "there is no replay" in unknown.stderr) == (1, True), unknown.stderr


def test_ramp_stops_by_itself_while_letters_come_back_to_the_archive(world):
    deployment, billing = deployed(world, policy(retries=1, delay=1, immediate=1))
    bury(world, deployment, billing, 100)
    billing.unplug()
    code, state = replay(deployment, "--all", "--ramp", "5,20,100", "--settle", 20)
    assert (code, state["status"], state["counts"], state["step"]) == (4, "stopped", {"sent": 5}, 1)
    assert "5 back in the archive" in state["because"], state["because"]

    billing.repair()
    code, state = replay(deployment, "--resume", state["id"], "--threshold", "100", "--settle", 1)
    assert (code, state["status"], state["counts"]) == (0, "done", {"sent": 100})
    arrived = Copies(billing).wait_for(95)
    # The five that came back are new letters of the archive, of the next generation.
    code, state = replay(deployment, "--all", "--ramp", "100")
    assert (code, state["counts"]) == (0, {"sent": 5, "alreadyReplayed": 100})
    assert arrived.wait_for(100).texts() == texts(range(100))


def test_ramp_stops_by_itself_while_letters_wait_in_the_requeue(world):
    deployment, billing = deployed(world, policy(retries=20, delay=5, immediate=1))
    bury(world, deployment, billing, 100)
    billing.unplug()
    ramp = ["--all", "--ramp", "5,20,100", "--settle", 3]
    code, state = replay(deployment, *ramp)
    assert (code, state["status"], state["counts"]) == (4, "stopped", {"sent": 5})
    assert "5 more than before wait in the requeue" in state["because"], state["because"]

    billing.repair()
    arrived = Copies(billing).wait_for(5)
    # Without its id another begins, which says so, and leaves alone what was sent.
    again = ["replay", "--yes", "--json", "--rate", 10_000, *ramp, "--threshold", "100"]
    ran = redrivectl(deployment, *again, given="")
    assert f"to continue the other one: redrivectl replay --resume {state['id']}" in ran.stderr, ran.stderr
    other = json.loads(ran.stdout)
    assert (ran.returncode, other["status"], other["counts"]) == (0, "done", {"sent": 95, "alreadyReplayed": 5})
    assert other["id"] != state["id"]
    assert arrived.wait_for(100).texts() == texts(range(100))


def test_dry_run_counts_what_is_sent_then(world):
    deployment, billing = deployed(world, policy(retries=3, delay=2, immediate=1))
    bury(world, deployment, billing, 30, reason="permanent")
    bury(world, deployment, billing, 50)
    chosen = ["--reason", "exhausted", "--topic", billing.topic_arn, "--since", "2026-01-01"]
    code, counted = replay(deployment, *chosen, "--dry-run")
    assert (code, counted["status"], counted["counts"]) == (0, "dryRun", {"sent": 50})
    assert (kept(deployment), in_requeue(deployment)) == ({}, 0)
    code, done = replay(deployment, *chosen, "--ramp", "100")
    assert (code, done["counts"]) == (0, counted["counts"])
    assert Copies(billing).wait_for(50).texts() == texts(range(50))
    code, counted = replay(deployment, *chosen, "--dry-run")
    assert (code, counted["counts"]) == (0, {"alreadyReplayed": 50})


def test_whole_archive_goes_only_when_it_is_asked_for(world):
    deployment, billing = deployed(world, policy(retries=3, delay=2, immediate=1))
    bury(world, deployment, billing, 1)

    code, said = replay(deployment)

    assert (code, said["kind"], "--all for the whole archive" in said["error"]) == (2, "input", True), said
    assert (kept(deployment), in_requeue(deployment)) == ({}, 0)


def test_queue_without_the_tag_of_a_requeue_gets_nothing(world):
    deployment, billing = deployed(world, policy(retries=3, delay=2, immediate=1))
    bury(world, deployment, billing, 1)
    # Of other queues the operator may not read the tags.
    code, said = replay(deployment, "--all", "--requeue", deployment.queue_arn)
    assert (code, said["kind"]) == (6, "denied"), said
    sqs = world.stack.client("sqs")
    requeue = sqs.get_queue_url(QueueName=deployment.outputs["RequeueArn"].rsplit(":", 1)[1])["QueueUrl"]
    sqs.untag_queue(QueueUrl=requeue, TagKeys=["sns-redrive"])
    for options in (["--dry-run"], []):
        code, said = replay(deployment, "--all", *options)
        assert (code, "has no tag sns-redrive=requeue" in said["error"]) == (2, True), said
    assert (kept(deployment), in_requeue(deployment), billing.receive()) == ({}, 0, [])


def test_whoever_is_not_named_replays_nothing(world):
    deployment, billing = deployed(world, policy(retries=3, delay=2, immediate=1))
    bury(world, deployment, billing, 20)
    stranger, everything = world.stack.user(world.name("stranger")), {"Effect": "Allow", "Action": "*", "Resource": "*"}
    world.stack.client("iam").put_user_policy(
        UserName=world.name("stranger"),
        PolicyName="everything",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [everything]}),
    )

    ran = redrivectl(deployment, "replay", "--all", "--yes", "--ramp", "100", keys=stranger)

    assert ran.returncode == 4
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
    code, state = replay(deployment, "--from", "-", given=json.dumps(record) + "\n")
    assert (code, state["counts"]) == (0, {"sent": 1})
    arrived = Copies(billing).wait_for(1)
    assert arrived.bodies == [record["message"]["body"]]
    code, state = replay(deployment, "--all")
    assert (code, state["counts"]) == (0, {"alreadyReplayed": 1})
    wait_until(lambda: in_requeue(deployment) == 0, 30, "the requeue to be empty")
    arrived.take()
    assert arrived.texts() == ["remedy"], "never both"
