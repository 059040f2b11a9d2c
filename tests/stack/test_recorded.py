"""Where the local stack answers otherwise than AWS did: what other tests here show of these is true of ministack alone.

Plays recorded cases about handles, groups and batches, on which the function relies. The account in memory plays all of
them (sim/tests/recorded).
"""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor

from botocore.exceptions import ClientError

from local.stack import ACCOUNT, REGION, ROOT

SAME = {
    "a message that has shown again can be hidden by its last handle",
    "a message that has shown again is deleted by its last handle",
    "each receive counts, also after no time at all",
    "FIFO: an id counts after its message is deleted",
    "one entry that is too long fails alone",
}
# What ministack does in place of what AWS does.
OTHERWISE = {
    "a deleted message cannot be hidden": "ReceiptHandleIsInvalid: such a letter is failed, hide, and not receive_over",
    "an old handle shows a message that a later receive hides": "refuses the handle, so waking never shows one twice",
    "FIFO: a handle ends when its message shows again": "takes the handle",
    "FIFO: what lies before a hidden message is handed out": "hands out nothing of the group",
    "FIFO: a hidden message in the middle hides what is behind it": "hands out nothing of the group",
    "FIFO: a group that was served goes behind the others": "hands out one message of a group",
    "FIFO: groups take turns": "hands out the messages in another order",
    "FIFO: one entry without a group refuses its whole batch": "takes it",
    "FIFO: one entry without an id refuses its whole batch": "takes it",
}


def test_local_stack_differs_from_what_aws_answered_where_this_says_so(stack):
    cases = {case["case"]: case for case in json.loads((ROOT / "sim/tests/recorded/queues.json").read_text())}
    names = sorted(SAME | OTHERWISE.keys())

    def differs(name):
        return Play(stack, names.index(name)).differs(cases[name]["steps"])

    with ThreadPoolExecutor(8) as pool:
        found = dict(zip(names, pool.map(differs, names), strict=True))
    assert {name for name, why in found.items() if why} == set(OTHERWISE), found


class Play:
    """One case, with queues of its own, in real time."""

    def __init__(self, stack, number):
        self.sqs = stack.client("sqs")
        self.names = {
            "{q}": f"recorded-{number}",
            "{q2}": f"recorded-{number}-other",
            "{r}": REGION,
            "{a}": ACCOUNT,
        }
        self.kept = {}

    def differs(self, steps):
        """What the first step that differs does."""
        for step in steps:
            if step[0] == "wait":
                time.sleep(step[1])
            elif why := self.step(*step):
                return f"{step[0]}: {why}"
        return None

    def step(self, operation, parameters, then):
        call = getattr(self.sqs, re.sub(r"(?<!^)(?=[A-Z])", "_", operation).lower())
        try:
            answer, code = call(**self.filled(parameters)), ""
        except ClientError as error:
            answer, code = {}, error.response["Error"]["Code"]
        expected = then.get("error", "")
        if code != expected:
            return f"{code or 'no error'} in place of {expected or 'none'}"
        bodies = [message["Body"] for message in answer.get("Messages", [])]
        if bodies not in then.get("anyOf", [then.get("bodies", bodies)]):
            return f"{bodies} in place of what AWS handed out"
        failed = {entry["Id"]: entry["Code"] for entry in answer.get("Failed", [])}
        if failed != then.get("failed", failed):
            return f"{failed} failed in place of {then['failed']}"
        for name, path in then.get("keep", {}).items():
            value = answer
            for part in path.split("."):
                value = value[int(part) if part.isdigit() else part]
            self.kept[f"${name}"] = value
        return None

    def filled(self, value):
        """Puts names and kept values into what a step says. `a*129` is that many letters."""
        if isinstance(value, dict):
            return {name: self.filled(it) for name, it in value.items()}
        if isinstance(value, list):
            return [self.filled(it) for it in value]
        if not isinstance(value, str):
            return value
        if repeated := re.fullmatch(r"(.)\*(\d+)", value):
            return repeated[1] * int(repeated[2])
        for name, filled in self.names.items():
            value = value.replace(name, filled)
        return self.kept.get(value, value)
