"""The commands of the AWS CLI on the pages: each is one, with its options, by the models of AWS's own SDK."""

import re
import shlex

import pytest
from botocore import xform_name
from botocore.session import get_session

from local.stack import ROOT

# What the CLI has beside the API: commands, and options of every command.
OWN = {("s3", "cp"), ("s3", "sync"), ("s3", "rm"), ("s3", "ls"), ("cloudformation", "deploy"), ("logs", "tail")}
GLOBAL = {"query", "output", "region", "profile", "endpoint-url"}
SERVICES = {"s3api": "s3"}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands():
    for page in PAGES:
        text = page.read_text()
        blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
        prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
        for is_whole, codes in ((True, blocks), (False, re.findall(r"`(aws [^`]+)`", prose))):
            for code in codes:
                for found in re.findall(r"\baws [a-z0-9]+ [a-z].*", code.replace("\\\n", " ")):
                    yield f"{page.name}: {found}", found, is_whole


def words_of(command):
    """Returns the words of a command up to where the shell goes on with another."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    words = []
    for word in lexer:
        if set(word) <= set("|&;<>()"):
            break
        words.append(word)
    return words


@pytest.mark.parametrize(("command", "is_whole"), [pytest.param(*it[1:], id=it[0]) for it in commands()])
def test_a_command_of_the_aws_cli_is_one(command, is_whole):
    _, service, name, *rest = words_of(command)
    if (service, name) in OWN:
        return
    session = get_session()
    model = session.get_service_model(SERVICES.get(service, service))
    operations = {xform_name(operation, "-"): operation for operation in model.operation_names}
    assert name in operations, command
    shape = model.operation_model(operations[name]).input_shape
    members = {xform_name(member, "-"): member for member in (shape.members if shape else {})}
    given = {word.removeprefix("--") for word in rest if word.startswith("--")}
    known = GLOBAL | set(members) | {f"no-{member}" for member in members}
    assert given <= known, command
    if is_whole:
        required = {option for option, member in members.items() if member in shape.required_members}
        assert required <= given, command


def test_the_pages_have_such_commands():
    assert len(list(commands())) > 25
