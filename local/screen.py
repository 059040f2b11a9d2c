"""What a demo shows, and how it ends."""

import os
import sys
import time

from botocore.exceptions import BotoCoreError, ClientError

from local.stack import Stack, StackError, stop_on_signals


def run(tell, after=None):
    """Tells a demo on a local stack. Returns the exit code: 1 if a check of it did not hold, 130 after an interrupt."""
    stop_on_signals()
    screen = Screen()
    try:
        with Stack() as stack:
            sound = tell(stack, screen)
    except KeyboardInterrupt:
        screen.say("Interrupted. Nothing is left running.")
        return 130
    except (StackError, TimeoutError, OSError, BotoCoreError, ClientError) as error:
        print(f"make demo: {error}", file=sys.stderr)
        return 1
    screen.say("The local stack is stopped; nothing is left running.")
    if after:
        screen.more(after)
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

    def results(self, checks):
        """Prints checks with whether each holds. Returns whether all hold."""
        checks = list(checks)
        for what, holds in checks:
            mark = self.style("ok", 32) if holds else self.style("FAILED", 31)
            print(f"  {mark:<8}{what}")
        print()
        return all(holds for _, holds in checks)
