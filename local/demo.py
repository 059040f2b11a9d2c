"""`make demo`: the main features in one run.

A topic has four subscribers: two queues, a web server and a function. Three of them break. SNS gives up on their
messages, which become letters in the dead-letter queue. The function, deployed by template.yaml, retries each letter
on a schedule of seconds at the subscriber that failed, until that one is repaired, or until the schedule ends and the
letter is archived. One subscriber is down for three minutes, with letters that would wait for an hour: they arrive when
it takes the next letter, without a command. Overrides act on letters that would wait for an hour: hold, and when their
subscriber is repaired, retry now. When the last one is repaired too, the replay function of operations.yaml sends
its letter from the archive. The demo checks its own results: if a message is missing, changed or duplicated, the exit
code is 1.

An operator would use `redrivectl` for the overrides and the replay. The demo does without, since compiling it takes
minutes.
"""

import json
import sys
import time
from datetime import UTC, datetime

from local.deploy import deploy, deploy_operations
from local.letters import Letter, moment, news, sentence
from local.overrides import Control
from local.screen import run
from local.sns import dead_letter, envelope
from local.stack import ACCOUNT, PATIENCE, REGION, StackError, wait_until
from local.subscribers import function_arn, subscribe, subscribe_function, subscribe_web
from local.web import WebServer

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
        {"name": "invoices-to-everyone", "match": {"topicArn": [{"suffix": ":invoices"}]}, "target": "topic"},
        {
            "name": "hourly",
            "match": {"topicArn": [{"suffix": ":parcels"}, {"suffix": ":pallets"}]},
            "deliveryPolicy": {
                "healthyRetryPolicy": {
                    "minDelayTarget": 3600,
                    "maxDelayTarget": 3600,
                    "numRetries": 3,
                    "numNoDelayRetries": 1,
                }
            },
        },
    ],
}
# Seconds after the arrival: in the wait before retry 6, also on a slow machine.
REPAIR_AFTER = 14
# How late a retry may be: SQS is polled once a second, and the machine may be busy.
LATE = 5 * PATIENCE
# Every instance of the function has read an override by then.
HEARD_AFTER = 15
# An endpoint is down after two minutes in which every attempt failed.
DOWN_AFTER = 125
OUTAGE = 180
BETWEEN_PALLETS = 15
# How soon letters are there after they were woken.
WOKEN_WITHIN = 10 * PATIENCE
MARK = "sns-redrive"
TOPICS = ["payments", "returns", "invoices", "parcels", "pallets"]


def main():
    def tell(stack, screen):
        with WebServer() as web:
            return Story(stack, web, screen).tell()

    return run(
        tell, after="the console shows all this in the browser: make local prints its address (docs/guide/console.md)"
    )


class Story:
    def __init__(self, stack, web, screen):
        self.stack = stack
        self.web = web
        self.screen = screen
        self.published = []
        self.letters = []
        self.parcels = []
        self.pallets = []
        self.alarms_seen = []

    def tell(self):
        self.set_up()
        self.begin_outage()
        self.break_and_publish()
        self.write_other_letters()
        self.watch(until=lambda: time.time() > self.arrived + REPAIR_AFTER)
        self.repair()
        self.watch(until=lambda: all(letter.outcome for letter in self.letters), at_most=120)
        self.hold_mend_and_retry()
        self.end_outage()
        self.replay()
        return self.conclude()

    # --- the acts

    def set_up(self):
        screen, sns = self.screen, self.stack.client("sns")
        screen.title("1. A topic with four subscribers")
        screen.say(f"the local stack answers on {self.stack.endpoint}")
        topics = [sns.create_topic(Name=name)["TopicArn"] for name in TOPICS]
        self.payments, returns, invoices, parcels, pallets = topics
        queues = ["billing", "warehouse", "legacy", "ledger", "audit", "courier", "depot"]
        self.deployment = deploy(
            self.stack,
            "demo",
            say=screen.more,
            # The web server is on this machine. The template does not allow that.
            settings={"ALLOW_LOOPBACK_HTTP": "true"},
            TopicArns=topics,
            TargetQueueArns=[f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}" for name in queues],
            TargetFunctionArns=[function_arn("notifier")],
            TargetTopicArns=[invoices],
            RedrivePolicy=POLICY,
        )
        screen.say("template.yaml is deployed: dead-letter queue, function, archive bucket, alarm")
        queue_topics = [self.payments, self.payments, returns, invoices, invoices, parcels, pallets]
        self.billing, self.warehouse, self.legacy, self.ledger, self.audit, self.courier, self.depot = (
            subscribe(self.stack, name, topic, self.deployment.queue_arn)
            for name, topic in zip(queues, queue_topics, strict=True)
        )
        common = (self.payments, self.deployment.queue_arn, self.web)
        self.shop = subscribe_web(self.stack, "shop", *common)
        self.notifier = subscribe_function(self.stack, "notifier", *common)
        screen.say(
            "subscribed to payments: the queues billing and warehouse, the web server shop, the function notifier"
        )
        screen.more(
            "and legacy to returns; ledger and audit to invoices, for which a rule republishes letters to the topic"
        )
        screen.more("and courier to parcels and depot to pallets, for which a rule makes letters wait for an hour")
        screen.say(f"retries wait {', '.join(str(delay) for delay in DELAYS)} seconds")
        self.feed_alarm(0)

    def begin_outage(self):
        """The outage of a subscriber, whose letters fail once and then would wait for an hour."""
        screen = self.screen
        self.depot.unplug()
        screen.say(f"the queue of depot is deleted, for {OUTAGE} s")
        self.down = time.time()
        self.pallets += [self.put(name, self.depot) for name in ("pallet-1", "pallet-2")]
        self.watch(until=lambda: all(pallet.lines for pallet in self.pallets))

    def break_and_publish(self):
        screen = self.screen
        screen.title("2. SNS gives up, and the function retries")
        self.billing.unplug()
        self.legacy.unplug()
        screen.say("the queues of billing and legacy are deleted")
        self.publish("payment-1")
        screen.say("payment-1 is published: warehouse, shop and notifier get it, billing does not")
        self.shop.unplug()
        self.notifier.unplug()
        screen.say("the web server shop answers 503, the function notifier is deleted")
        self.publish("payment-2")
        screen.say("payment-2 is published: only warehouse gets it")

    def publish(self, name):
        """Publishes to all, and waits until those got it that can: SNS delivers to web servers and functions later."""
        message, subject, attributes = content(name)
        attributes = {key: {"DataType": kind, "StringValue": value} for key, (kind, value) in attributes.items()}
        sns = self.stack.client("sns")
        answer = sns.publish(TopicArn=self.payments, Message=message, Subject=subject, MessageAttributes=attributes)
        self.published.append(answer["MessageId"])
        expected = len(self.published)
        wait_until(lambda: len(self.shop.posts()) == expected, 10, "SNS's post to shop")
        if not self.shop.is_broken():
            wait_until(lambda: len(self.notifier.posts()) == expected, 10, "SNS's call of notifier")

    def write_other_letters(self):
        screen = self.screen
        first, second = self.published
        for name, subscriber, message_id in [
            ("payment-1", self.billing, first),
            ("payment-2", self.billing, second),
            ("payment-2", self.shop, second),
            ("payment-2", self.notifier, second),
            ("return", self.legacy, None),
            ("invoice", self.ledger, None),
        ]:
            self.letters.append(self.put(name, subscriber, message_id))
        self.arrived = self.letters[0].arrived
        screen.say(f"{len(self.letters)} letters are in the dead-letter queue: {self.names(self.letters)}")
        screen.more("the demo writes them as SNS would: the local stack writes no dead letters")
        self.feed_alarm(len(self.letters))
        screen.more("the demo also writes the alarm's metric: the local stack does not count SQS traffic")
        wait_until(lambda: self.alarm() == "ALARM", 10, "the alarm to go off")

    def repair(self):
        for subscriber in (self.billing, self.shop, self.notifier):
            subscriber.repair()
        self.screen.say(self.screen.style("billing, shop and notifier are repaired; legacy is not", 1))

    def hold_mend_and_retry(self):
        """Overrides hold and retry letters that would wait for an hour."""
        screen = self.screen
        screen.title("3. Overrides of an operator act within seconds")
        self.courier.unplug()
        screen.say("the queue of courier is deleted")
        self.parcels.append(self.put("parcel-1", self.courier))
        self.watch(until=lambda: self.parcels[0].lines)
        control = Control(self.deployment)
        self.override("hold", "courier is being repaired")
        control.give("hold", "parcels", "courier is being repaired")
        self.wait_until_heard()
        self.parcels.append(self.put("parcel-2", self.courier))
        self.watch(until=lambda: self.parcels[1].lines)
        self.courier.repair()
        screen.say(screen.style("courier is repaired", 1))
        self.override("retry", "courier is back")
        control.give("retry", "parcels", "courier is back")
        self.wait_until_heard()
        screen.say(f"{control.wake('parcels')} hidden letters are shown to the function")
        woken = time.time()
        self.watch(until=lambda: all(parcel.outcome for parcel in self.parcels))
        self.woken_for = time.time() - woken
        self.override("overrides release", "courier is back")
        control.release("parcels")

    def end_outage(self):
        """The subscriber is repaired, and nobody says so: the next letter that it takes wakes the others."""
        screen = self.screen
        screen.title("4. An endpoint is back, and nobody has to ask")
        # Of the first failures, and not of when the queue was deleted: the function may come to them seconds later.
        failed = max(moment(pallet.lines[0]["timestamp"]) for pallet in self.pallets)
        self.watch(until=lambda: time.time() > failed + DOWN_AFTER, at_most=DOWN_AFTER)
        self.put_pallets(until=lambda: self.said_of_depot("outage:"), at_most=2 * DOWN_AFTER)
        screen.say(screen.style("the function's log: depot is down", 1))
        self.watch(until=lambda: time.time() > self.down + OUTAGE, at_most=OUTAGE)
        self.depot.repair()
        screen.say(screen.style(f"depot is repaired, {time.time() - self.down:.0f} s after it broke", 1))
        self.waited = len(self.pallets)
        self.put_pallets(until=lambda: all(pallet.outcome for pallet in self.pallets), at_most=60)
        delivered = [moment(pallet.lines[-1]["timestamp"]) for pallet in self.pallets]
        self.back_for = max(delivered) - min(delivered)
        screen.say(f"all pallets are there, {self.back_for:.1f} s after the first that depot took")

    def put_pallets(self, until, at_most):
        """Goes on as a publisher would: what one letter shows is lost if its instance has no time to write it down."""
        due = 0

        def comes():
            nonlocal due
            if time.time() > due and all(pallet.lines for pallet in self.pallets):
                due = time.time() + BETWEEN_PALLETS
                self.pallets.append(self.put(f"pallet-{len(self.pallets) + 1}", self.depot))
            return until()

        self.watch(until=comes, at_most=at_most)

    def said_of_depot(self, beginning):
        lines = [line for line in self.deployment.log_lines() if line.get("message", "").startswith(beginning)]
        return [line for line in lines if line.get("target.arn", "").endswith(":depot")]

    def replay(self):
        """Replays the archived letter with the replay function."""
        screen = self.screen
        screen.title("5. A replay from the archive")
        self.legacy.repair()
        screen.say("legacy is repaired, but its letter, the return, is in the archive")
        operations = deploy_operations(self.deployment)
        screen.say("operations.yaml is deployed: the replay function")
        screen.say(screen.style("the function replays the letters of returns", 1))
        screen.more("an operator would type: redrivectl replay --topic returns --why 'legacy is back'")
        answered, state = operations.invoke(replay={"select": {"topics": ["returns"]}, "why": "legacy is back"})
        if not answered:
            raise StackError(f"the replay function failed: {state}")
        self.replayed = state["status"], state["counts"]
        screen.more(f"the function answered: {self.replayed[0]}, {json.dumps(self.replayed[1])}")

        def delivered():
            lines = [
                line
                for line in self.deployment.outcomes()
                if line["queue.arn"] == self.deployment.outputs["RequeueArn"]
            ]
            return [line for line in lines if line["outcome"] == "delivered"]

        self.after_replay = wait_until(delivered, 20, "the replayed letter at legacy")
        screen.say(f"return, from the requeue: {sentence(self.after_replay)}")

    def conclude(self):
        self.screen.title("6. The letters")
        self.print_table()
        self.print_end_state()
        self.screen.title("7. Checks")
        return self.screen.results(self.checks())

    # --- what happens in them

    def put(self, name, subscriber, message_id=None):
        message, subject, attributes = content(name)
        body = envelope(
            subscriber.topic_arn, subscriber.subscription_arn, message, subject, attributes, message_id=message_id
        )
        arrived = time.time()
        return Letter(name, subscriber, body, dead_letter(self.deployment, body), arrived)

    def override(self, action, why):
        """Tells of an override for the topic parcels."""
        self.screen.say(self.screen.style(f"an override for parcels: {action}, {why}", 1))
        self.screen.more(f"an operator would type: redrivectl {action} --topic parcels --why '{why}'")

    def wait_until_heard(self):
        self.screen.more(f"the function obeys within {HEARD_AFTER} s")
        time.sleep(HEARD_AFTER + 1)

    def watch(self, until, at_most=60):
        """Prints what the function logs, until a condition holds."""

        def advanced():
            self.tell_news()
            return until()

        wait_until(advanced, at_most, "the letters to be settled", every=0.3)

    def tell_news(self):
        """One progress line for letters to which the same happened at the same time."""
        for letters, lines in news(self.letters + self.parcels + self.pallets, self.deployment):
            self.screen.say(f"{self.names(letters)}: {sentence(lines)}")

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
        return ", ".join(dict.fromkeys(letter.name for letter in letters))

    # --- the end

    def print_table(self):
        print("  letter    target    retry  phase         planned       real  outcome")
        for letter in self.letters + self.parcels + self.pallets:
            name = letter.name
            for retry in letter.retries():
                target = retry["target"] if name else ""
                print(
                    f"  {name:<8}  {target:<8}  {retry['number']}/{retry['of']:<3}  {retry['phase']:<12}"
                    f"{retry['planned']:>7.1f} s  {retry['real']:>7.1f} s  {retry['result']}"
                )
                name = ""
        print("\n  Seconds after the arrival. Each wait counts from the attempt before it.")

    def print_end_state(self):
        print(f"\n  Alarm     {' -> '.join(self.alarms_seen)}, until the last arrival is fifteen minutes old")
        print(f"  Waiting   {self.deployment.waiting()} letters in the dead-letter queue")
        self.archived = self.deployment.archive()
        for record in self.archived:
            names = [letter.name for letter in self.letters if letter.message_id == record["message"]["messageId"]]
            print(f"  Archive   {', '.join(names)}, {record['reason']}")
            print(f"            {self.deployment.outputs['ArchiveBucketName']}/{record['key']}")

    def checks(self):
        """Yields each check and whether it holds."""
        *payments, poison, invoice = self.letters
        received = self.received()
        for name, kind in [
            ("warehouse", "a queue that never failed"),
            ("billing", "a queue"),
            ("shop", "a web server"),
            ("notifier", "a function"),
        ]:
            ids = [json.loads(body)["MessageId"] for body in received[name]]
            yield (
                f"{name}, {kind}, has payment-1 and payment-2, each exactly once",
                sorted(ids) == sorted(self.published),
            )
        yield (
            "the letters delivered to billing and shop are unchanged byte for byte",
            all(letter.body in received[letter.subscriber.name] for letter in payments[:3]),
        )
        yield "shop got its letter with SNS's headers", self.has_headers(self.shop.posts()[-1])
        yield "notifier got the event that SNS would send, with the mark", self.has_event(payments[3])
        archived = [(record["reason"], record["message"]["body"]) for record in self.archived]
        yield (
            "the archive holds the return, unchanged, and nothing else",
            archived == [("exhausted", poison.body)],
        )
        yield (
            "ledger and audit have the invoice, with the mark that counts its passes",
            all(self.has_republished(subscriber, invoice) for subscriber in (self.ledger, self.audit)),
        )
        # An endpoint that fails slowly, as on a busy machine, is left out for a while: that takes the place of a retry.
        numbers = [retry["number"] for retry in poison.retries()]
        left_out = sum(line.get("reason") == "endpoint_down" for line in poison.lines)
        gaps = set(range(1, len(DELAYS) + 1)) - set(numbers)
        yield (
            f"each of the return's {len(DELAYS)} retries was made, or left out while its endpoint was down",
            numbers == sorted(set(numbers)) and numbers[-1] == len(DELAYS) and len(gaps) <= left_out,
        )
        planned = {
            line["retry.number"]: line["delay_s"] for line in poison.lines if {"retry.number", "delay_s"} <= set(line)
        }
        yield (
            "the waits between its retries are those of the delivery policy",
            planned == {number: DELAYS[number] for number in numbers[:-1]},
        )
        retries = [retry for letter in self.letters for retry in letter.retries()]
        yield (
            f"no retry was early, and none was {LATE} seconds late",
            all(-1 <= retry["real"] - retry["planned"] < LATE for retry in retries),
        )
        yield (
            "legacy has the return, exactly once and unchanged byte for byte",
            self.legacy.bodies() == [poison.body],
        )
        yield (
            "the replayed return had a fresh schedule: retry 1 delivered it",
            self.replayed == ("done", {"sent": 1})
            and [(line["letter.id"], line["retry.number"]) for line in self.after_replay]
            == [(poison.lines[-1]["letter.id"], 1)],
        )
        held = [line["reason"] for line in self.parcels[1].lines[:1] if "retry.number" not in line]
        yield "parcel-2 was held, with no attempt", held == ["overridden"]
        yield (
            f"courier has both parcels, each exactly once, within {WOKEN_WITHIN} seconds after they were woken",
            sorted(self.courier.bodies()) == sorted(parcel.body for parcel in self.parcels)
            and self.woken_for < WOKEN_WITHIN,
        )
        early = [pallet.lines[-1].get("retry.early") for pallet in self.pallets]
        came_later = len(self.pallets) - self.waited
        yield (
            f"depot has all pallets, each exactly once, within {WOKEN_WITHIN} seconds after the first that it took",
            sorted(self.depot.bodies()) == sorted(pallet.body for pallet in self.pallets)
            and self.back_for < WOKEN_WITHIN,
        )
        yield (
            "the attempts with the pallets that waited took no number",
            early == [True] * self.waited + [None] * came_later,
        )
        yield "the dead-letter queue is empty", self.deployment.waiting() == 0
        yield "the alarm on arrivals was OK and went off", self.alarms_seen == ["OK", "ALARM"]

    def received(self):
        """The bodies that each subscriber of payments got. A function gets its event a moment after it was accepted."""
        wait_until(lambda: len(self.notifier.posts()) >= len(self.published), 10, "the call of notifier")
        return {s.name: s.bodies() for s in (self.warehouse, self.billing, self.shop, self.notifier)}

    def has_headers(self, post):
        return [post.header(f"x-amz-sns-{name}") for name in ("message-type", "message-id", "subscription-arn")] == [
            "Notification",
            self.published[1],
            self.shop.subscription_arn,
        ]

    def has_event(self, letter):
        [record] = self.notifier.events()[-1]["Records"]
        original, sns = json.loads(letter.body), record["Sns"]
        mark = json.loads(sns["MessageAttributes"].pop(MARK)["Value"])
        same = ("MessageId", "TopicArn", "Subject", "Message", "Timestamp", "Signature", "MessageAttributes")
        return (
            all(sns[name] == original[name] for name in same)
            and record["EventSubscriptionArn"] == self.notifier.subscription_arn
            and mark["spent"] > 0
        )

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


def content(name):
    """Message, subject and attributes."""
    message = json.dumps({"id": name, "note": "50 € für Jürgen"}, ensure_ascii=False)
    return message, f"Event {name}", {"tenant": ("String", "gold"), "amount": ("Number", "49.90")}


if __name__ == "__main__":
    sys.exit(main())
