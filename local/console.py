"""The console of a deployment, through its two doors: the widget, as CloudWatch calls it, and `redrivectl serve`."""

import json
import queue
import re
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from local.stack import ACCOUNT, StackError
from local.tool import command, environment

HOUR = 3_600_000
# How soon the tool prints its address.
SERVES_WITHIN = 30


def context(theme="light", hours=3, **more):
    """What a dashboard says of itself.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/add_custom_widget_dashboard_about.html
    """
    now = int(time.time() * 1000)
    return {
        "dashboardName": "payments",
        "widgetId": "widget-16",
        "accountId": ACCOUNT,
        "locale": "en",
        "timezone": {"label": "UTC", "offsetISO": "+00:00", "offsetInMinutes": 0},
        "period": 300,
        "isAutoPeriod": True,
        "timeRange": {
            "mode": "relative",
            "start": now - hours * HOUR,
            "end": now,
            "relativeStart": hours * HOUR,
        },
        "theme": theme,
        "linkCharts": True,
        "title": "sns-redrive",
        "forms": {"all": {}},
        "params": {"page": "now"},
        "width": 1200,
        "height": 600,
    } | more


def widget(operations, parameters, theme="light", hours=3, **more):
    """What the widget answers to a dashboard, which is a text."""
    event = {**parameters, "widgetContext": context(theme, hours, **more)}
    answer = operations.stack.client("lambda").invoke(
        FunctionName=operations.outputs["ConsoleFunctionArn"], Payload=json.dumps(event)
    )
    told = json.loads(answer["Payload"].read())
    if "FunctionError" in answer or not isinstance(told, str):
        raise StackError(f"the console function failed or returned no page: {told}")
    return told


class Served:
    """`with Served(deployment) as served:` is `redrivectl serve`; `served.url` ends with a slash."""

    def __init__(self, deployment, *options, keys=None):
        self.options = ["serve", "--stack", deployment.name, *options]
        self.environment = environment(deployment, keys)
        self.url = None
        self.said = []

    def __enter__(self):
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        self.folder = tempfile.TemporaryDirectory()
        here = self.folder.name
        environment = self.environment | {"HOME": here, "TMPDIR": here}
        self.process = subprocess.Popen(command(*self.options), cwd=here, env=environment, **pipes)
        found = queue.SimpleQueue()
        threading.Thread(target=self._read, args=[found], daemon=True).start()
        try:
            self.url = found.get(timeout=SERVES_WITHIN)
        except queue.Empty:
            self.url = None
        if self.url is None:
            self.__exit__()
            raise StackError(f"redrivectl serve printed no address: {''.join(self.said)}")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)
        with self.folder as folder:
            if written := [path.name for path in Path(folder).iterdir()]:
                raise StackError(f"redrivectl serve wrote {written}: what it shows must stay in its memory")

    def _read(self, found):
        for line in self.process.stdout:
            self.said.append(line)
            if address := re.search(r"http://127\.0\.0\.1:\d+/[^\s/]+/?", line):
                found.put(address[0].removesuffix("/") + "/")
        # It has ended.
        found.put(None)
