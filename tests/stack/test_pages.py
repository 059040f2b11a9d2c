"""The pages, beside what they describe.

Their commands of the AWS CLI exist, by the models of AWS's own SDK. Their permissions are those of the templates. The
log messages that they quote are logged.
"""

import json
import re
import shlex

import pytest
from botocore import xform_name
from botocore.session import get_session

from local.deploy import template_as_written
from local.stack import ROOT

# What the CLI has beside the API: commands, and options of every command.
OWN = {("s3", "cp"), ("s3", "sync"), ("s3", "rm"), ("s3", "ls"), ("cloudformation", "deploy"), ("logs", "tail")}
GLOBAL = {"query", "output", "region", "profile", "endpoint-url"}
SERVICES = {"s3api": "s3"}
# Options that have another name in the CLI.
RENAMED = {("sns", "subscribe", "endpoint"): "notification-endpoint"}
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
    named = {member: xform_name(member, "-") for member in (shape.members if shape else {})}
    members = {RENAMED.get((service, name, option), option): member for member, option in named.items()}
    given = {word.removeprefix("--") for word in rest if word.startswith("--")}
    known = GLOBAL | set(members) | {f"no-{member}" for member in members}
    assert given <= known, command
    if is_whole:
        required = {option for option, member in members.items() if member in shape.required_members}
        assert required <= given, command


def test_the_pages_have_such_commands():
    assert len(list(commands())) > 25


# --- keys


def test_the_key_that_lets_sns_in_asks_for_the_topic_alone():
    """Whether SNS gives KMS its account is not known, and a condition on what is not there lets nobody in."""
    page = (ROOT / "docs" / "security.md").read_text().split("\n## Encryption\n")[1]
    [statement] = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    assert statement["Principal"] == {"Service": "sns.amazonaws.com"}
    assert [list(keys) for keys in statement["Condition"].values()] == [["aws:SourceArn"]]


# --- permissions

ROLES = {
    ("template.yaml", "RedriveFunctionRole"): "The function",
    ("operations.yaml", "ReplayFunctionRole"): "The replay function of operations.yaml",
    ("operations.yaml", "ReplayStateMachineRole"): "The state machine of operations.yaml",
    ("operations.yaml", "ConsoleFunctionRole"): "The function of ConsoleWidget",
}


def actions_in(value, is_action=False):
    """Returns the actions of all statements within a part of a template, whatever conditions they have."""
    if isinstance(value, str):
        return {value} if is_action and ":" in value else set()
    if isinstance(value, dict):
        parts = [(one, is_action or name == "Action") for name, one in value.items()]
    else:
        parts = [(one, is_action) for one in value] if isinstance(value, list) else []
    return {action for part in parts for action in actions_in(*part)}


@pytest.mark.parametrize(("of", "chapter"), ROLES.items(), ids=[role for _, role in ROLES])
def test_permissions_page_has_the_actions_of_each_role(of, chapter):
    template, role = of
    page = (ROOT / "docs" / "reference" / "permissions.md").read_text()
    rows = page.split(f"\n## {chapter}\n")[1].split("\n## ")[0]
    resources = template_as_written(template)["Resources"]
    properties = resources[role]["Properties"]
    # Each is there if its condition holds.
    attached = [resources[policy["Fn::If"][1]["Ref"]] for policy in properties.get("ManagedPolicyArns", [])]
    granted = actions_in([properties["Policies"], attached])
    # The page's introduction has the log's actions. Of a VPC's the page says only how many there are.
    granted = {action for action in granted if not action.startswith(("logs:", "ec2:"))}
    assert set(re.findall(r"`([a-z0-9]+:[A-Z]\w+)`", rows)) == granted


def test_every_role_of_the_templates_is_on_the_permissions_page():
    resources = {path.name: template_as_written(path.name)["Resources"] for path in ROOT.glob("*.yaml")}
    # A loop over resources is a list.
    all_of_them = [
        (file, name, it) for file in resources for name, it in resources[file].items() if isinstance(it, dict)
    ]
    roles = {(file, name) for file, name, it in all_of_them if it["Type"] == "AWS::IAM::Role"}
    assert roles == set(ROLES)


# --- what the function logs, and who reads it

# The second folder has what every function logs as it starts.
LOGS = [ROOT / "src" / "telemetry" / "mod.rs", ROOT / "crates" / "aws" / "src" / "log" / "mod.rs"]
SOURCE = "".join(path.read_text() for log in LOGS for path in sorted(log.parent.glob("*.rs")))
# How a page quotes a message.
SAYS = r"\blog(?: line|\s+says|\s+warns)\s+`([a-z][^`]+)`"


def test_queries_compare_the_message_only_with_a_text_that_the_source_logs():
    """A filter by any other text finds nothing, and looks like a quiet night. Letters' lines are told by `outcome`."""
    for path in [*sorted(ROOT.glob("*.yaml")), *PAGES]:
        compared = re.findall(r"\bmessage`? *(?:=|like) *['\"]([^'\"]+)", path.read_text())
        assert [text for text in compared if f'"{text}"' not in SOURCE] == [], path.name


def test_pages_quote_messages_that_the_source_logs():
    logs = (ROOT / "docs" / "reference" / "logs.md").read_text()
    cells = re.findall(r"^\| (`[^|]+) \|", logs.partition("## Messages\n")[2], re.MULTILINE)
    rows = re.findall(r"`([^`]+)`", "".join(cells))
    quoted = [" ".join(text.split()) for page in PAGES for text in re.findall(SAYS, page.read_text())]
    assert len(quoted) >= 3 and len(rows) > 10
    assert [text for text in quoted + rows if f'"{text}' not in SOURCE] == []
    # A text after an arrow is a part of a message.
    source = re.sub(r'=>\s*"[^"]+"', "", "".join(log.read_text() for log in LOGS))
    logged = re.findall(r'"([a-z]+ [^"]+)"', source)
    assert len(logged) > 15
    assert [text for text in logged if not text.startswith(tuple(rows))] == [], "no row"
