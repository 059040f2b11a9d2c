"""The log lines of a letter, for the demo's progress lines and its table."""

import hashlib
import re
from dataclasses import dataclass, field
from datetime import datetime

from local.subscribers import Subscriber


@dataclass
class Letter:
    name: str
    subscriber: Subscriber
    body: str
    message_id: str
    arrived: float
    # The function's log lines about it, in order.
    lines: list = field(default_factory=list)

    @property
    def outcome(self):
        """`delivered` or `archived`; None while it waits."""
        final = [line["outcome"] for line in self.lines if line["outcome"] in ("delivered", "archived")]
        return final[-1] if final else None

    def retries(self):
        """Each attempt: number, of, phase, target, planned and real seconds after the arrival, and the result."""
        planned = self.arrived
        for line in self.lines:
            if "retry.number" in line:
                yield {
                    "number": line["retry.number"],
                    "of": line["retry.of"],
                    "phase": line["retry.phase"],
                    "target": place(line),
                    "planned": planned - self.arrived,
                    "real": moment(line["timestamp"]) - self.arrived,
                    "result": result_of(line),
                }
            if "due" in line:
                planned = moment(line["due"])


def news(letters, deployment):
    """What the function has logged since the last look, as letters and lines: those of the same event at a time."""
    found = {}
    for letter in letters:
        lines = deployment.outcomes(letter.message_id)
        for line in lines[len(letter.lines) :]:
            found.setdefault(sort_of(line), []).append((letter, line))
        letter.lines = lines
    return [zip(*told, strict=True) for told in found.values()]


def sentence(lines):
    """Log lines of the same event for several letters, in words."""
    line = lines[0]
    places = ", ".join(dict.fromkeys(map(place, lines)))
    attempt = ""
    if "retry.number" in line:
        attempt = f"retry {line['retry.number']} of {line['retry.of']} ({line['retry.phase']}) "
    match line["outcome"]:
        case "delivered":
            return f"{attempt}delivered to {places}"
        case "archived" if attempt:
            return f"{attempt}failed at {places}; archived, {line.get('reason')}"
        case "deferred" if attempt:
            return f"{attempt}failed at {places}; the next in {line.get('delay_s')} s"
        case "deferred" if line.get("reason") == "overridden":
            return "held by an override"
        case "held":
            return "held, behind an earlier letter of its group"
        case outcome:
            return f"{attempt}{outcome}, {line.get('reason', 'no reason')}"


def sort_of(line):
    """A key that is equal for lines that fit into one sentence."""
    return tuple(line.get(name) for name in ("outcome", "reason", "retry.number", "delay_s"))


def place(line):
    """`billing` of a queue's or function's ARN, or the host of a web server."""
    if arn := line.get("target.arn"):
        return arn.rsplit(":", 1)[-1]
    return line.get("target.url", "?").split("//")[-1].split("#")[0]


def name_of_url(url):
    """The name of a URL in logs, records and lists."""
    server, rest = re.fullmatch("([a-z]+://[^/]*)(.*)", url).groups()
    return f"{server}#{hashlib.sha256(rest.encode()).hexdigest()[:12]}"


def result_of(line):
    if line["outcome"] == "delivered":
        early = ", before its time" if line.get("retry.early") else ""
        return "delivered" + (", by an override" if "override.id" in line else early)
    failed = f"failed, {short(line.get('error.code'))}"
    return failed if line["outcome"] == "deferred" else f"{failed}; {line['outcome']}, {line.get('reason')}"


def short(code):
    """`NonExistentQueue` of `AWS.SimpleQueueService.NonExistentQueue`."""
    return str(code).rsplit(".", 1)[-1]


def moment(text):
    return datetime.fromisoformat(text).timestamp()
