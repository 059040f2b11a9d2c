"""`make demo`: the main job, told as one story.

Two topics have subscribers that SNS cannot reach. What SNS gives up on lies in the dead-letter queue, and the function,
deployed by template.yaml, retries it on a schedule of seconds: until the subscriber is repaired, or until the schedule
ends. The demo checks its own story: a letter that is missing or changed makes the exit code 1.
"""

import json
import os
import sys
import time
from datetime import UTC, datetime

from botocore.exceptions import BotoCoreError, ClientError

from local.deploy import deploy
from local.letters import Letter, sentence
from local.sns import dead_letter, envelope, subscribe
from local.stack import ACCOUNT, REGION, Stack, StackError, stop_on_signals, wait_until

# All four phases in 42 seconds.
DELAYS = [0, 2, 2, 2, 4, 8, 12, 12]
POLICY = {
    "default": {
        "target": "origin",
        "deliveryPolicy": {
            "healthyRetryPolicy": {
                "minDelayTarget": 2,
                "maxDelayTarget": 12,
                "numRetries": len(DELAYS),
                "numNoDelayRetries": 1,
                "numMinDelayRetries": 2,
                "numMaxDelayRetries": 1,
                "backoffFunction": "exponential",
            }
        },
        "jitter": 0,
    },
    "rules": [
        {"name": "payments-to-everyone", "match": {"topicArn": [{"suffix": ":payments"}]}, "target": "topic"},
    ],
}
# Seconds after the arrival: in the wait before retry 6, also on a slow machine.
REPAIR_AFTER = 14
# How late a retry may be: SQS is polled once a second, and the machine may be busy.
LATE = 5
# CloudWatch's period of the arrival alarm, after which an arrival is forgotten.
ALARM_PERIOD = 60
MARK = "sns-redrive"


def main():
    stop_on_signals()
    screen = Screen()
    try:
        with Stack() as stack:
            sound = Story(stack, screen).tell()
    except KeyboardInterrupt:
        screen.say("Interrupted. Nothing is left running.")
        return 130
    except (StackError, TimeoutError, OSError, BotoCoreError, ClientError) as error:
        print(f"make demo: {error}", file=sys.stderr)
        return 1
    screen.say("The local stack is stopped; nothing is left running.")
    return 0 if sound else 1


class Screen:
    """Progress lines with the seconds since the start."""

    def __init__(self):
        self.started = time.time()
        self.styled = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def title(self, text):
        print(f"\n{self.style(text, 1)}\n", flush=True)

    def say(self, text):
        print(f"{self.style(f'{time.time() - self.started:6.1f} s', 2)}  {text}", flush=True)

    def more(self, text):
        print(f"          {self.style(text, 2)}", flush=True)

    def style(self, text, code):
        return f"\033[{code}m{text}\033[0m" if self.styled else text


class Story:
    def __init__(self, stack, screen):
        self.stack = stack
        self.screen = screen
        self.letters = []
        self.alarms_seen = []

    def tell(self):
        self.set_up()
        self.break_subscribers()
        self.write_dead_letters()
        self.watch(until=lambda: time.time() > self.arrived + REPAIR_AFTER)
        self.repair()
        self.watch(until=lambda: all(letter.outcome for letter in self.letters), at_most=120)
        self.wait_for_calm()
        return self.conclude()

    # --- the acts

    def set_up(self):
        screen, sns = self.screen, self.stack.client("sns")
        screen.title("1. A topic with a broken subscriber")
        screen.say(f"the local stack answers on {self.stack.endpoint}")
        orders = sns.create_topic(Name="orders")["TopicArn"]
        payments = sns.create_topic(Name="payments")["TopicArn"]
        names = ["billing", "legacy", "ledger", "audit"]
        self.deployment = deploy(
            self.stack,
            "demo",
            say=screen.more,
            TopicArns=[orders, payments],
            TargetQueueArns=[f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}" for name in names],
            TargetTopicArns=[payments],
            RedrivePolicy=POLICY,
        )
        screen.say("template.yaml is deployed: dead-letter queue, function, archive bucket, alarm")
        topics = [orders, orders, payments, payments]
        self.billing, self.legacy, self.ledger, self.audit = (
            subscribe(self.stack, name, topic, self.deployment.queue_arn)
            for name, topic in zip(names, topics, strict=True)
        )
        screen.say("subscribed: billing and legacy to orders, ledger and audit to payments")
        screen.say(f"retries wait {', '.join(str(delay) for delay in DELAYS)} seconds")
        self.feed_alarm(0)

    def break_subscribers(self):
        self.billing.unplug()
        self.legacy.unplug()
        self.screen.say("the queues of billing and legacy are deleted")

    def write_dead_letters(self):
        screen = self.screen
        screen.title("2. SNS gives up, the function does not")
        for name, subscriber in [
            ("order-1", self.billing),
            ("order-2", self.billing),
            ("order-3", self.billing),
            ("poison", self.legacy),
            ("payment", self.ledger),
        ]:
            self.put(name, subscriber)
        self.arrived = self.letters[0].arrived
        screen.say(f"{len(self.letters)} letters are in the dead-letter queue: {self.names(self.letters)}")
        screen.more("written as SNS would write them: the local stack does no dead-lettering")
        self.feed_alarm(len(self.letters))
        screen.more("the alarm's metric is fed by the demo: the local stack counts no SQS traffic")
        wait_until(lambda: self.alarm() == "ALARM", 10, "the alarm to go off")

    def repair(self):
        self.billing.repair()
        self.screen.say(self.screen.style("billing is repaired: its queue exists again", 1))

    def wait_for_calm(self):
        remaining = self.arrived + ALARM_PERIOD - time.time()
        if remaining > 0:
            self.screen.say(f"every letter is settled; the alarm forgets the arrivals in {remaining:.0f} s")

        def calm():
            self.feed_alarm(0)
            return self.alarm() == "OK"

        wait_until(calm, ALARM_PERIOD + 30, "the alarm to be OK again", every=1)

    def conclude(self):
        self.screen.title("3. What became of the letters")
        self.print_table()
        self.print_end_state()
        self.screen.title("4. Does the story hold?")
        checks = list(self.checks())
        for what, holds in checks:
            mark = self.screen.style("ok", 32) if holds else self.screen.style("NOT SO", 31)
            print(f"  {mark:<8}{what}")
        print()
        return all(holds for _, holds in checks)

    # --- what happens in them

    def put(self, name, subscriber):
        body = envelope(
            subscriber.topic_arn,
            subscriber.subscription_arn,
            json.dumps({"id": name, "note": "50 € für Jürgen"}, ensure_ascii=False),
            subject=f"Event {name}",
            attributes={"tenant": ("String", "gold"), "amount": ("Number", "49.90")},
        )
        arrived = time.time()
        message_id = dead_letter(self.deployment, body)
        self.letters.append(Letter(name, subscriber, body, message_id, arrived))

    def watch(self, until, at_most=60):
        """Tells what the function logs, until the story goes on."""
        fed = time.time()

        def advanced():
            nonlocal fed
            self.tell_news()
            # CloudWatch gets a zero for every minute in which nothing arrives; here one every few seconds.
            if time.time() - fed > 5:
                fed = time.time()
                self.feed_alarm(0)
            return until()

        wait_until(advanced, at_most, "the letters to be settled", every=0.3)

    def tell_news(self):
        """One progress line for letters to which the same happened at the same time."""
        news = {}
        for letter in self.letters:
            lines = self.deployment.outcomes(letter.message_id)
            for line in lines[len(letter.lines) :]:
                news.setdefault(sentence(line), []).append(letter)
            letter.lines = lines
        for what, letters in news.items():
            self.screen.say(f"{self.names(letters)}: {what}")

    def feed_alarm(self, arrivals):
        self.stack.client("cloudwatch").put_metric_data(
            Namespace="AWS/SQS",
            MetricData=[
                {
                    "MetricName": "NumberOfMessagesSent",
                    "Dimensions": [{"Name": "QueueName", "Value": self.deployment.queue_arn.rsplit(":", 1)[1]}],
                    "Timestamp": datetime.now(UTC),
                    "Value": arrivals,
                }
            ],
        )
        self.alarm()

    def alarm(self):
        name = self.deployment.outputs["ArrivalAlarmName"]
        found = self.stack.client("cloudwatch").describe_alarms(AlarmNames=[name])["MetricAlarms"]
        state = found[0]["StateValue"]
        if state != (self.alarms_seen or [None])[-1]:
            self.alarms_seen.append(state)
            self.screen.say(f"the alarm on arrivals is {state}")
        return state

    def names(self, letters):
        return ", ".join(letter.name for letter in letters)

    # --- the end

    def print_table(self):
        print("  letter    retry  phase         planned       real  outcome")
        for letter in self.letters:
            name = letter.name
            for retry in letter.retries():
                print(
                    f"  {name:<8}  {retry['number']}/{retry['of']:<3}  {retry['phase']:<12}"
                    f"{retry['planned']:>7.1f} s  {retry['real']:>7.1f} s  {retry['result']}"
                )
                name = ""
        print("\n  Seconds after the arrival. Each wait counts from the attempt before it.")

    def print_end_state(self):
        print(f"\n  Alarm     {' -> '.join(self.alarms_seen)}")
        print(f"  Waiting   {self.deployment.waiting()} letters in the dead-letter queue")
        self.archived = self.deployment.archive()
        for record in self.archived:
            names = [letter.name for letter in self.letters if letter.message_id == record["message"]["messageId"]]
            print(f"  Archive   {', '.join(names)}, {record['reason']}")
            print(f"            {self.deployment.outputs['ArchiveBucketName']}/{record['key']}")

    def checks(self):
        """Each claim of the story, and whether it holds."""
        orders, poison, payment = self.letters[:3], self.letters[3], self.letters[4]
        delivered = [message["Body"] for message in self.billing.receive()]
        yield (
            "billing has its three letters, each once, unchanged byte for byte",
            sorted(delivered) == sorted(letter.body for letter in orders),
        )
        archived = [(record["reason"], record["message"]["body"]) for record in self.archived]
        yield (
            "the archive holds the poison letter, unchanged, and nothing else",
            archived == [("exhausted", poison.body)],
        )
        yield (
            "ledger and audit have the payment, with the mark that counts its passes",
            all(self.has_republished(subscriber, payment) for subscriber in (self.ledger, self.audit)),
        )
        yield (
            f"the poison letter was tried {len(DELAYS)} times, numbered without a gap",
            [retry["number"] for retry in poison.retries()] == list(range(1, len(DELAYS) + 1)),
        )
        planned = [line["delay_s"] for line in poison.lines if "retry.number" in line and "delay_s" in line]
        yield "its waits are the delivery policy's", planned == DELAYS[1:]
        retries = [retry for letter in self.letters for retry in letter.retries()]
        yield (
            f"no retry was early, and none {LATE} seconds late",
            all(-1 <= retry["real"] - retry["planned"] < LATE for retry in retries),
        )
        yield "the dead-letter queue is empty", self.deployment.waiting() == 0
        yield "the alarm went off and is OK again", self.alarms_seen[-2:] == ["ALARM", "OK"]

    def has_republished(self, subscriber, letter):
        received = [json.loads(message["Body"]) for message in subscriber.receive()]
        original = json.loads(letter.body)
        return len(received) == 1 and (
            received[0]["Message"] == original["Message"]
            and received[0]["Subject"] == original["Subject"]
            and {**original["MessageAttributes"], MARK: received[0]["MessageAttributes"].get(MARK)}
            == received[0]["MessageAttributes"]
            and json.loads(received[0]["MessageAttributes"][MARK]["Value"])["spent"] == 1
        )


if __name__ == "__main__":
    sys.exit(main())
