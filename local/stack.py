"""Starts ministack on a free loopback port, and stops it again, with the functions that it started."""

import collections
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import typing
import urllib.error
import urllib.request
from pathlib import Path

import boto3
from botocore.config import Config

ROOT = Path(__file__).resolve().parent.parent
ACCOUNT = "123456789012"
REGION = "eu-central-1"

# ministack takes what a function wrote to be all when nothing more came for 5 ms. On a busy machine the last line, that
# of the metrics, can come later: ministack tells of it with the next invocation, or never. So it waits longer here.
#
# It listens on the socket that we hand over. A port that it opened itself, seconds after we have found it free, could
# be another server's by then, and one that answers 200 to everything would pass for the stack.
MINISTACK = """
import sys

from hypercorn.config import Config
from ministack.app import main
from ministack.core.lambda_runtime import Worker

# Until the first line, after each line, and in all, in seconds.
Worker._drain_stderr_bounded.__defaults__ = (0.5, 0.05, 1.0)
listener = f"fd://{sys.argv.pop()}"
Config.bind = property(lambda _: [listener], lambda *_: None)
main()
"""

# How many times as long everything may take. Tests set it, since they share the machine with others.
PATIENCE = int(os.environ.get("PATIENCE", "1"))
STOPPING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
READY_WITHIN = 60


class Keys(typing.NamedTuple):
    """What signs the calls of a user, or of a role's session."""

    id: str
    secret: str
    token: str | None = None


# ministack takes these for the account's root user.
ROOT_KEYS = Keys("test", "test")


class StackError(Exception):
    """The local stack did not do what it had to."""


def wait_until(check, timeout, what, every=0.2):
    """Calls `check` until it returns something true, and returns that; PATIENCE times `timeout` seconds at most."""
    limit = timeout * PATIENCE
    deadline = time.monotonic() + limit
    while not (found := check()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {limit} s for {what}")
        time.sleep(every)
    return found


def stop_on_signals():
    """Turns SIGTERM and a closed terminal into an exception, as Ctrl-C is one, so that `with Stack()` cleans up."""

    def stop(number, _frame):
        sys.exit(128 + number)

    for number in STOPPING - {signal.SIGINT}:
        signal.signal(number, stop)
    # A shell starts what runs in its background with Ctrl-C ignored, and Python would leave it so.
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Stack:
    """`with Stack() as stack:` is a running stack; `stack.client("sqs")` talks to it."""

    def __init__(self):
        self.home = None
        self.endpoint = None
        # How many messages this process has sent, by the queue's URL. The local stack does not count.
        self.sent = collections.Counter()
        self._process = None
        self._clients = {}

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind, _error, _trace):
        self.stop(keep_log=kind not in (None, KeyboardInterrupt, SystemExit))

    @property
    def log(self):
        """What ministack wrote: requests, and warnings about functions that failed."""
        return self.home / "ministack.log"

    @property
    def port(self):
        return int(self.endpoint.rsplit(":", 1)[1])

    def client(self, service, keys=ROOT_KEYS):
        """A client of the account's root user, or of anyone else the keys belong to."""
        if (service, keys) not in self._clients:
            self._clients[service, keys] = boto3.client(
                service,
                endpoint_url=self.endpoint,
                region_name=REGION,
                aws_access_key_id=keys.id,
                aws_secret_access_key=keys.secret,
                aws_session_token=keys.token,
                # Fail early: everything is on this machine. Path style, since bucket names are no host names here.
                config=Config(
                    retries={"total_max_attempts": 2},
                    read_timeout=70,
                    s3={"addressing_style": "path"},
                ),
            )
            if service == "sqs":
                events = self._clients[service, keys].meta.events
                events.register("provide-client-params.sqs.SendMessage", self._count_sent)
        return self._clients[service, keys]

    def user(self, name):
        """Creates a user of IAM, who may do nothing yet. Returns the user's keys."""
        iam = self.client("iam")
        iam.create_user(UserName=name)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        return Keys(key["AccessKeyId"], key["SecretAccessKey"])

    def _count_sent(self, params, **_):
        self.sent[params["QueueUrl"]] += 1

    def bootstraps(self, code_sha=None):
        """The ids of the function processes that this stack started; with `code_sha`, those of one package."""
        if self._process is None:
            return []
        folder = str(self.home / f"ministack-provided-code-{self.port}")
        if code_sha is not None:
            folder = f"{folder}/{code_sha}"
        return [number for number, command in processes() if command.startswith(folder)]

    def stop(self, keep_log=False):
        # A second Ctrl-C must not interrupt the cleaning up.
        previous = {number: signal.signal(number, signal.SIG_IGN) for number in STOPPING}
        try:
            if self._process is not None:
                self._end_processes()
            if keep_log and self.home is not None and self.log.exists():
                kept = ROOT / "local" / ".run" / "ministack.log"
                kept.parent.mkdir(exist_ok=True)
                shutil.copyfile(self.log, kept)
                print(f"The local stack's log is in {kept.relative_to(ROOT)}", file=sys.stderr)
            if self.home is not None:
                shutil.rmtree(self.home, ignore_errors=True)
                self.home = None
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _start(self):
        self.home = Path(tempfile.mkdtemp(prefix="sns-redrive-")).resolve()
        with loopback_socket() as listener:
            self.endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
            self._process = self._spawn(listener)
        if not self._ready():
            raise StackError(f"the local stack does not start; the end of its log:\n{self.log.read_text()[-3000:]}")

    def _spawn(self, listener):
        environment = {
            # Functions inherit this environment, so it holds nothing of the user's: no profile, no real credentials.
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "GATEWAY_PORT": str(self.port),
            "BIND_HOST": "127.0.0.1",
            "MINISTACK_HOST": "127.0.0.1",
            "MINISTACK_ACCOUNT_ID": ACCOUNT,
            "MINISTACK_REGION": REGION,
            "S3_DATA_DIR": str(self.home / "s3"),
            "STATE_DIR": str(self.home / "state"),
            # Access is checked against the function's role, so a statement that template.yaml lacks is noticed here.
            "AUTH": "true",
            # ministack hands this to the functions: their SDK calls come back to it.
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
            # Servers that it would open on fixed ports.
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
        }
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-c", MINISTACK, str(listener.fileno())],
                pass_fds=[listener.fileno()],
                cwd=self.home,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # A process group of its own: a Ctrl-C in the terminal reaches us alone, and the functions that it
                # leaves behind can be found.
                start_new_session=True,
            )

    def _ready(self):
        def answers():
            if self._process.poll() is not None:
                return "exited"
            with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                urllib.request.urlopen(f"{self.endpoint}/_ministack/health", timeout=2).close()
                return "ready"
            return None

        return wait_until(answers, READY_WITHIN, "the local stack to answer") == "ready"

    def _end_processes(self):
        """Ends ministack and its process group at once: its functions would outlive it, and its state is deleted."""
        process, self._process = self._process, None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def loopback_socket():
    """A socket on a free port, which is nobody else's for as long as the socket is open."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    return listener


def processes():
    """The id and the command line of every process."""
    if not Path("/proc/self/cmdline").exists():
        listing = subprocess.run(["ps", "-axwwo", "pid=,command="], capture_output=True, text=True, check=True).stdout
        return [(int(number), command) for number, command in (line.split(maxsplit=1) for line in listing.splitlines())]
    # A small Linux image has no ps.
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        # It may end while we look.
        with contextlib.suppress(OSError):
            found.append((int(entry.name), (entry / "cmdline").read_bytes().decode(errors="replace")))
    return found
