"""Where the local stack answers otherwise than AWS did: what other tests here show of these is true of ministack alone.

Plays recorded cases about handles, groups and batches, on which the function relies. The account in memory plays all of
them (crates/sim/tests/recorded).
"""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError

from local.stack import ACCOUNT, REGION, ROOT

SAME = {
    "a message that has shown again can be hidden by its last handle",
    "a message that has shown again is deleted by its last handle",
    "each receive counts, also after no time at all",
    "FIFO: an id counts after its message is deleted",
}
TAKEN = "no error in place of InvalidParameterValue"
REFUSED = "ChangeMessageVisibility: ReceiptHandleIsInvalid in place of"
# What ministack does in place of what AWS does, as `differs` says it.
OTHERWISE = {
    # Such a letter is `receive_over` by the code alone.
    "a deleted message cannot be hidden": f"{REFUSED} InvalidParameterValue",
    # So waking never shows a letter twice.
    "an old handle shows a message that a later receive hides": f"{REFUSED} no error",
    "FIFO: a handle ends when its message shows again": f"DeleteMessage: {TAKEN}",
    "FIFO: what lies before a hidden message is handed out": "ReceiveMessage: [] handed out",
    "FIFO: a hidden message in the middle hides what is behind it": "ReceiveMessage: [] handed out",
    "FIFO: a group that was served goes behind the others": "ReceiveMessage: ['g2-1'] handed out",
    "FIFO: groups take turns": "ReceiveMessage: ['g1-1', 'g2-1', 'g2-2'] handed out",
    "FIFO: one entry without a group refuses its whole batch": f"SendMessageBatch: {TAKEN}",
    "FIFO: one entry without an id refuses its whole batch": f"SendMessageBatch: {TAKEN}",
    "one entry that is too long fails alone": (
        "SendMessageBatch: Failed.0.Message is One or more parameters are invalid. "
        "Reason: Message must be shorter than 1024 bytes."
    ),
}


def test_local_stack_differs_from_what_aws_answered_where_this_says_so(stack):
    cases = {case["case"]: case for case in json.loads((ROOT / "crates/sim/tests/recorded/queues.json").read_text())}
    names = sorted(SAME | OTHERWISE.keys())

    def differs(name):
        return Play(stack, names.index(name)).differs(cases[name]["steps"])

    with ThreadPoolExecutor(8) as pool:
        found = dict(zip(names, pool.map(differs, names), strict=True))
    assert {name: why for name, why in found.items() if why} == OTHERWISE


@pytest.mark.parametrize(
    ("then", "why"),
    [
        ({}, None),
        (
            {"bodies": ["a"], "has": {"Messages.0.Body": "a", "Messages.0.Tags|json.n": 1}, "lacks": ["Messages.1"]},
            None,
        ),
        ({"status": 200, "ok": ["1"], "failed": {"2": "Bad"}, "says": {"2": "is bad"}}, None),
        ({"anyOf": [["b"], ["a"]]}, None),
        ({"error": "Bad"}, "no error in place of Bad"),
        ({"bodies": []}, "['a'] handed out"),
        ({"anyOf": [["b"]]}, "['a'] handed out"),
        ({"status": 201}, "status 200"),
        ({"has": {"Messages.0.Body": "b"}}, "Messages.0.Body is a"),
        ({"has": {"Messages.1.Body": "*"}}, "Messages.1.Body is None"),
        ({"lacks": ["Messages.0.Body"]}, "Messages.0.Body is a"),
        ({"ok": ["1", "2"]}, "['1'] taken"),
        ({"failed": {}}, "{'2': 'Bad'} failed"),
        ({"says": {"2": "other words"}}, "2 says: it is bad"),
    ],
)
def test_wrong_answer_is_seen(then, why):
    message = {"Body": "a", "Tags": '{"n": 1}'}
    failed = {"Id": "2", "Code": "Bad", "Message": "it is bad"}
    answer = {"ResponseMetadata": {"HTTPStatusCode": 200}}
    answer |= {"Messages": [message], "Successful": [{"Id": "1"}], "Failed": [failed]}
    assert differs(answer, then) == why


def test_wrong_refusal_is_seen():
    error = {"Code": "Bad", "Message": "it is bad"}
    answer = {"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}}
    assert differs(answer, {"error": "Bad", "status": 400, "says": "is bad"}) is None
    assert differs(answer, {"error": "Ba*"}) is None
    assert differs(answer, {}) == "Bad in place of no error"
    assert differs(answer, {"error": "Worse"}) == "Bad in place of Worse"
    assert differs(answer, {"error": "Bad", "says": "other words"}) == "Bad says: it is bad"


def at(value, path):
    """What is at a path such as `Messages.0.Body|json.Type`, if anything."""
    for part in path.split("."):
        name = part.removesuffix("|json")
        if isinstance(value, list):
            value = value[int(name)] if int(name) < len(value) else None
        else:
            value = value.get(name) if isinstance(value, dict) else None
        if name != part and value is not None:
            value = json.loads(value)
    return value


def differs(answer, then):
    """How an answer differs from AWS's, as crates/sim/tests/doors/recorded.rs compares them."""
    error, expected = answer.get("Error", {}), then.get("error", "")
    code, status = error.get("Code", ""), answer["ResponseMetadata"]["HTTPStatusCode"]
    if code != expected and not (expected.endswith("*") and code.startswith(expected[:-1])):
        return f"{code or 'no error'} in place of {expected or 'no error'}"
    if status != then.get("status", status):
        return f"status {status}"
    says = then.get("says", "")
    if error and says not in error["Message"]:
        return f"{code} says: {error['Message']}"
    bodies = [message["Body"] for message in answer.get("Messages", [])]
    if bodies not in then.get("anyOf", [then.get("bodies", bodies)]):
        return f"{bodies} handed out"
    for path, value in then.get("has", {}).items():
        found = at(answer, path)
        if found is None or (value != "*" and found != value):
            return f"{path} is {found}"
    for path in then.get("lacks", []):
        if (found := at(answer, path)) is not None:
            return f"{path} is {found}"
    return entries_differ(answer, then)


def entries_differ(answer, then):
    """How the entries of a batch differ."""
    taken = sorted(entry["Id"] for entry in answer.get("Successful", []))
    if taken != then.get("ok", taken):
        return f"{taken} taken"
    failed = {entry["Id"]: entry for entry in answer.get("Failed", [])}
    codes = {name: entry["Code"] for name, entry in failed.items()}
    if codes != then.get("failed", codes):
        return f"{codes} failed"
    says = then.get("says", {})
    for name, words in says.items() if isinstance(says, dict) else ():
        if words not in failed[name].get("Message", ""):
            return f"{name} says: {failed[name].get('Message')}"
    return None


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
            answer = call(**self.filled(parameters))
        except ClientError as error:
            answer = error.response
        if why := differs(answer, self.filled({name: it for name, it in then.items() if name != "keep"})):
            return why
        self.kept |= {f"${name}": at(answer, path) for name, path in then.get("keep", {}).items()}
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
