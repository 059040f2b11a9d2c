"""Runs `redrivectl` against a deployment on the local stack."""

import os
import subprocess

from local.deploy import built_function
from local.stack import REGION


def command(*args):
    """The built tool, with these arguments."""
    return [str(built_function().with_name("redrivectl")), *map(str, args)]


def account(stack, keys):
    """The stack's endpoint, and somebody's keys."""
    return {
        "PATH": os.environ["PATH"],
        "AWS_ENDPOINT_URL": stack.endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": keys.id,
        "AWS_SECRET_ACCESS_KEY": keys.secret,
    }


def environment(deployment, keys=None):
    """Where archive, requeue and overrides are, the stack's endpoint, and the operator's keys or those given."""
    return account(deployment.stack, keys or deployment.operator) | {
        "ARCHIVE": deployment.outputs["ArchiveLocation"],
        "CONTROL": deployment.outputs["ControlLocation"],
        "REQUEUE_ARN": deployment.outputs["RequeueArn"],
    }


def redrivectl(deployment, *args, given=None, keys=None):
    """Runs it to its end. `given` is its standard input. Without `keys` it is the operator who runs it."""
    run = {"env": environment(deployment, keys), "input": given, "capture_output": True, "text": True, "timeout": 120}
    return subprocess.run(command(*args), check=False, **run)


def begin(deployment, *args):
    """Starts it, and leaves it running."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command(*args), env=environment(deployment), stdin=subprocess.DEVNULL, **pipes)
