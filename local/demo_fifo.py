"""`make demo FIFO=1`: a FIFO topic, in one run.

Two customers have a message group each, and a third one has a message that its queue never takes. The queue of the
subscriber breaks, so SNS gives up on their messages, which become letters in the FIFO dead-letter queue. The function,
deployed by template.yaml with QueueType=fifo, retries the first letter of each group and holds those behind it, until
the queue is repaired. Where a rule says step-aside, a group goes on without the letter that fails, which moves to the
FIFO requeue and ends in the archive. The demo checks its own results: if a message is missing, changed, duplicated or
out of order, the exit code is 1.
"""

import json
import sys
import time

from local.deploy import deploy
from local.letters import Letter, news, sentence
from local.screen import run
from local.sns import create_topic, dead_letter, envelope
from local.stack import ACCOUNT, REGION, wait_until
from local.subscribers import subscribe

# Retries at 0, 3, 6 and so on seconds after the arrival.
SCHEDULE = {"minDelayTarget": 3, "maxDelayTarget": 3, "numRetries": 20, "numNoDelayRetries": 1}
NOWHERE = f"arn:aws:sqs:{REGION}:{ACCOUNT}:nowhere.fifo"
POLICY = {
    "default": {"deliveryPolicy": {"healthyRetryPolicy": SCHEDULE}, "jitter": 0},
    "rules": [
        {
            "name": "poison",
            "match": {"subject": ["carol 1"]},
            "target": NOWHERE,
            "fifo": "step-aside",
            "deliveryPolicy": {"healthyRetryPolicy": SCHEDULE | {"numRetries": 3}},
        }
    ],
}
GROUPS = {"alice": 4, "bob": 2, "carol": 3}
REPAIR_AFTER = 8


def main():
    return run(lambda stack, screen: Story(stack, screen).tell())


class Story:
    def __init__(self, stack, screen):
        self.stack, self.screen = stack, screen
        self.letters, self.received = [], []

    def tell(self):
        screen = self.screen
        screen.title("1. A FIFO topic, and FIFO queues for its dead letters")
        topic = create_topic(self.stack, "payments.fifo")
        self.deployment = deploy(
            self.stack,
            "demo",
            say=screen.more,
            TopicArns=[topic],
            QueueType="fifo",
            TargetQueueArns=[f"arn:aws:sqs:{REGION}:{ACCOUNT}:worker.fifo", NOWHERE],
            RedrivePolicy=POLICY,
        )
        screen.say("template.yaml is deployed with QueueType=fifo: dead-letter queue and requeue are FIFO")
        self.worker = subscribe(self.stack, "worker.fifo", topic, self.deployment.queue_arn)
        self.worker.unplug()
        screen.say("the queue of worker, which is subscribed to the topic, is deleted")

        screen.title("2. Letters of three message groups")
        for number in range(1, max(GROUPS.values()) + 1):
            for group, letters in GROUPS.items():
                if number <= letters:
                    self.put(group, number)
        screen.say("alice 1 to 4, bob 1 and 2, carol 1 to 3 are in the dead-letter queue")
        screen.more("carol 1 has a target that does not exist, and its rule lets it step aside")
        # A busy machine may not have tried any letter by then: letters must have been held before the queue takes them.
        self.watch(lambda: time.time() > self.letters[0].arrived + REPAIR_AFTER and self.held())
        self.worker.repair()
        screen.say(screen.style("the queue of worker is created again", 1))
        self.watch(lambda: all(letter.outcome for letter in self.letters if letter.name != "carol 1"))
        wait_until(lambda: self.deployment.archive(), 60, "carol 1 to be archived")
        self.received += self.worker.bodies()

        screen.title("3. Checks")
        return screen.results(self.checks())

    def put(self, group, number):
        name = f"{group} {number}"
        message = json.dumps({"id": name, "note": "50 € für Jürgen"}, ensure_ascii=False)
        body = envelope(self.worker.topic_arn, self.worker.subscription_arn, message, subject=name)
        arrived = time.time()
        letter = dead_letter(self.deployment, body, group=group)
        self.letters.append(Letter(name, self.worker, body, letter, arrived))

    def watch(self, until):
        """Prints what the function logs, until a condition holds."""

        def advanced():
            for letters, lines in news(self.letters, self.deployment):
                self.screen.say(f"{', '.join(letter.name for letter in letters)}: {sentence(lines)}")
            return until()

        wait_until(advanced, 60, "the letters to be settled", every=0.3)

    def held(self):
        """The letters that were held behind another of their group."""
        return [letter for letter in self.letters if any(line["outcome"] == "held" for line in letter.lines)]

    def checks(self):
        """Yields each check and whether it holds."""
        arrived = [json.loads(body)["Subject"] for body in self.received]
        for group, letters in GROUPS.items():
            first = 2 if group == "carol" else 1
            yield (
                f"worker has {group} {first} to {letters} in order, each exactly once",
                [name for name in arrived if name.startswith(group)]
                == [f"{group} {number}" for number in range(first, letters + 1)],
            )
        sent = {letter.body for letter in self.letters}
        yield "all are unchanged byte for byte", set(self.received) <= sent
        yield "letters were held behind the one of their group that failed", len(self.held()) > 0
        poison = next(letter for letter in self.letters if letter.name == "carol 1")
        archived = [(record["reason"], record["message"]["body"]) for record in self.deployment.archive()]
        yield "carol 1 stepped aside", [line["outcome"] for line in poison.lines] == ["requeued"]
        yield "and is in the archive, unchanged, after its last retry", archived == [("exhausted", poison.body)]
        yield "the dead-letter queue is empty", self.deployment.waiting() == 0


if __name__ == "__main__":
    sys.exit(main())
