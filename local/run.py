"""`make local`: a deployment for experiments, until Ctrl-C.

It deploys template.yaml with its alarms to the local stack, prints what happens to letters and alarms, and reads
commands from the terminal, one a line. With `--fifo` topic and queues are FIFO.
"""

import json
import queue
import sys
import threading
import time

from botocore.exceptions import BotoCoreError, ClientError

from local.archived import bury
from local.console import Served
from local.deploy import deploy
from local.letters import sentence, sort_of
from local.screen import Screen
from local.sns import create_topic, dead_letter, envelope
from local.stack import ACCOUNT, REGION, ROOT_KEYS, Stack, StackError, stop_on_signals
from local.subscribers import subscribe

# Retries at 0, 2, 4, 8, 16 and 32 seconds after the arrival; for a slow letter at 0 seconds and then each hour.
POLICY = {
    "default": {
        "deliveryPolicy": {
            "healthyRetryPolicy": {
                "minDelayTarget": 2,
                "maxDelayTarget": 16,
                "numRetries": 6,
                "numNoDelayRetries": 1,
                "numMinDelayRetries": 1,
                "backoffFunction": "exponential",
            }
        },
        "jitter": 0,
    },
    "rules": [
        {
            "name": "slow",
            "match": {"subject": ["slow"]},
            "deliveryPolicy": {
                "healthyRetryPolicy": {
                    "minDelayTarget": 3600,
                    "maxDelayTarget": 3600,
                    "numRetries": 6,
                    "numNoDelayRetries": 1,
                }
            },
        }
    ],
}
# What the function says of endpoints that are down or back.
ENDPOINT_LINES = ("outage", "letters woken")
ALARM_PERIOD = 10
# Commands that make sense in FIFO queues only.
FIFO_HELP = """\
  other    put a letter of another message group there: it does not wait for those of the first
"""
HELP = """\
  letter   put a letter of the queue billing into the dead-letter queue
  slow     put one there whose second retry comes after an hour. After two minutes of failures, repair
           and the next letter that is delivered wake it
  raw      put a letter there that names no subscription
{further}  break    delete the queue billing: retries fail
  repair   create the queue again: the next retry of each letter is delivered
  alarms   show the alarms that are in ALARM
  archive  show the letters in the archive
  help     show this list
  quit     stop, as Ctrl-C does"""


def main():
    stop_on_signals()
    try:
        with Stack() as stack:
            running = Running(stack, Screen(), fifo="--fifo" in sys.argv[1:])
            with Served(running.deployment, "--operate", keys=ROOT_KEYS) as console:
                running.until_stopped(console.url)
    except KeyboardInterrupt:
        pass
    except (StackError, TimeoutError, OSError, BotoCoreError, ClientError) as error:
        print(f"make local: {error}", file=sys.stderr)
        return 1
    print("\nThe local stack is stopped; nothing is left running.")
    return 0


class Running:
    def __init__(self, stack, screen, fifo):
        self.stack, self.screen, self.fifo = stack, screen, fifo
        self.help = HELP.format(further=FIFO_HELP if fifo else "")
        end = ".fifo" if fifo else ""
        self.topic = create_topic(stack, f"payments{end}")
        self.deployment = deploy(
            stack,
            "local",
            say=screen.more,
            metered=True,
            alarm_period=ALARM_PERIOD,
            TopicArns=[self.topic],
            QueueType="fifo" if fifo else "standard",
            TargetQueueArns=[f"arn:aws:sqs:{REGION}:{ACCOUNT}:billing{end}"],
            RedrivePolicy=POLICY,
        )
        self.billing = subscribe(stack, f"billing{end}", self.topic, self.deployment.queue_arn)
        self.remember()
        self.told = self.said = 0
        self.states = dict.fromkeys(self.deployment.meter.read(), "OK")
        self.commands = queue.SimpleQueue()

    def remember(self):
        """Archives letters as if earlier, so that the console has something to show."""
        gone = {"code": "AWS.SimpleQueueService.NonExistentQueue", "class": "action_required"}
        slow = {"code": "AWS.SimpleQueueService.RequestThrottled", "class": "throttling"}
        for hours, letters, error in ((1, 34, gone), (2, 12, gone), (26, 7, slow), (50, 3, slow)):
            bury(self.deployment, self.billing, letters, hours=hours, error=error, targetArn=self.billing.queue_arn)

    def until_stopped(self, console):
        self.introduce(console)
        threading.Thread(target=self.read_commands, daemon=True).start()
        while True:
            while not self.commands.empty():
                command = self.commands.get()
                if command == "quit":
                    return
                self.do(command)
            self.tell_letters()
            self.tell_alarms(self.deployment.meter.read())
            time.sleep(0.5)

    def introduce(self, console):
        outputs, operator = self.deployment.outputs, self.deployment.operator
        self.screen.say("template.yaml is deployed, with its alarms")
        self.screen.more(f"the period of an alarm is {ALARM_PERIOD} seconds here; some alarms look at five periods")
        self.screen.more("this program writes the metrics that AWS would measure")
        print(
            f"""
  Console             {console}
                      for the browser; it shows letters that failed in the last days. The doctor's errors
                      "function-recursion" and "s3:ListBucket" are the local stack's: AWS knows both

  Dead-letter queue   {self.deployment.queue_url}
  Requeue             {outputs["RequeueArn"]}
  Archive             {outputs["ArchiveLocation"]}
  Function            {outputs["FunctionName"]}

  With the AWS CLI, in another terminal, for example:
  AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION={REGION} \\
    aws --endpoint-url {self.stack.endpoint} cloudwatch describe-alarms

  With the operator's tool (see docs/reference/redrivectl.md):
  export AWS_ACCESS_KEY_ID={operator.id} AWS_SECRET_ACCESS_KEY={operator.secret} \\
    AWS_REGION={REGION} AWS_ENDPOINT_URL={self.stack.endpoint} \\
    ARCHIVE={outputs["ArchiveLocation"]} REQUEUE_ARN={outputs["RequeueArn"]} \\
    CONTROL={outputs["ControlLocation"]}
  target/debug/redrivectl archive list

  Type a command and press Enter. For example: break, letter, alarms, repair.

{self.help}
""",
            flush=True,
        )

    def read_commands(self):
        for line in sys.stdin:
            if line.strip():
                self.commands.put(line.strip())

    def do(self, command):
        match command:
            case "letter" | "slow" | "other":
                subject = "slow" if command == "slow" else "A test"
                body = envelope(self.topic, self.billing.subscription_arn, "hello", subject)
                dead_letter(self.deployment, body, group="other" if command == "other" else "first")
                self.screen.say(f"letter {json.loads(body)['MessageId'][:8]} is in the dead-letter queue")
            case "raw":
                message_id = dead_letter(self.deployment, "hello")
                self.screen.say(f"letter {message_id[:8]}, which names no subscription, is in the dead-letter queue")
            case "break":
                self.billing.unplug()
                self.screen.say("the queue billing is deleted")
            case "repair":
                self.billing.repair()
                self.screen.say("the queue billing is created again")
            case "alarms":
                raised = [name for name, state in self.states.items() if state == "ALARM"]
                self.screen.say(f"{len(self.states)} alarms, in ALARM: {', '.join(raised) or 'none'}")
            case "archive":
                for record in self.deployment.archive():
                    self.screen.say(f"letter {record['letterId'][:8]}: {record['reason']}")
                    self.screen.more(record["key"])
            case _:
                print(self.help, flush=True)

    def tell_letters(self):
        lines = self.deployment.outcomes()
        news = {}
        for line in lines[self.told :]:
            news.setdefault(sort_of(line), []).append(line)
        self.told = len(lines)
        said = [line for line in self.deployment.log_lines() if line.get("message", "").startswith(ENDPOINT_LINES)]
        for line in said[self.said :]:
            woken = f" {line['letters']}" if "letters" in line else ""
            self.screen.say(f"{line['message']}{woken}")
        self.said = len(said)
        for alike in news.values():
            letters = ", ".join(line["letter.id"][:8] for line in alike)
            self.screen.say(f"letter {letters}: {sentence(alike)}")

    def tell_alarms(self, states):
        for name, state in states.items():
            if state != self.states[name]:
                self.screen.say(self.screen.style(f"{name} is {state}", 31 if state == "ALARM" else 32))
        self.states = states


if __name__ == "__main__":
    sys.exit(main())
