"""Makes templates without a Transform out of those that have one: StackSets of an organisation refuse transforms."""

import os

import yaml
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

from local.stack import REGION

SAM, LOOPS = "AWS::Serverless-2016-10-31", "AWS::LanguageExtensions"
# queues.yaml has a list of queues, and resources for each. Without a loop each queue has a parameter, so that one that
# is taken off changes nothing about the others.
QUEUES, QUEUE, LOOP = "DeadLetterQueueArns", "DeadLetterQueueArn{}", "Fn::ForEach::Queues"
MOST_QUEUES = 20
FIRST = (
    "An SQS queue of this account and region, of the QueueType. Set its policy, retention (advised: 14 days) and "
    "visibility timeout (at least FunctionTimeout) yourself."
)


class NoManagedPolicies:
    """SAM would ask IAM for these; the templates use none."""

    def load(self):
        return {}


def plain_text(name, text):
    """Returns a template's text without its Transform: what the transform makes of it on AWS."""
    template = {SAM: without_sam, LOOPS: without_loop}[yaml_parse(text)["Transform"]](yaml_parse(text))
    said = yaml.dump(template, Dumper=Plain, sort_keys=False, width=120)
    return f"# Made by `make release` of {name}, which has the comments.\n{said}"


class Plain(yaml.SafeDumper):
    """Writes what is there twice twice: CloudFormation takes no aliases."""

    def ignore_aliases(self, _data):
        return True


def without_sam(template):
    os.environ.setdefault("AWS_DEFAULT_REGION", REGION)
    return transform(template, {}, NoManagedPolicies())


def without_loop(template):
    """Returns queues.yaml with a parameter for each queue, and with the resources that its loop makes of one."""
    del template["Transform"]
    numbers = range(1, MOST_QUEUES + 1)
    listed = template["Parameters"].pop(QUEUES)
    variable, _, resources = template["Resources"].pop(LOOP)
    needed = {
        "AllowedPattern": listed["AllowedPattern"],
        "ConstraintDescription": "the ARN of an SQS queue",
    }
    optional = {
        "Default": "",
        "AllowedPattern": f"^$|{needed['AllowedPattern']}",
        "ConstraintDescription": f"empty, or {needed['ConstraintDescription']}",
    }
    for number in numbers:
        kind = needed if number == 1 else optional
        text = FIRST if number == 1 else "Another such queue. Leave it empty if there is none."
        template["Parameters"][QUEUE.format(number)] = {"Type": "String", **kind, "Description": text}
        if number > 1:
            template["Conditions"][f"HasQueue{number}"] = {
                "Fn::Not": [{"Fn::Equals": [{"Ref": QUEUE.format(number)}, ""]}]
            }
    for number in numbers:
        for name, resource in resources.items():
            own = replaced(resource, {"Ref": variable}, {"Ref": QUEUE.format(number)})
            condition = {} if number == 1 else {"Condition": f"HasQueue{number}"}
            template["Resources"][name.replace(f"&{{{variable}}}", str(number))] = {
                "Type": own.pop("Type"),
                **condition,
                **own,
            }
    every = [{"Ref": QUEUE.format(1)}]
    every += [{"Fn::If": [f"HasQueue{n}", {"Ref": QUEUE.format(n)}, {"Ref": "AWS::NoValue"}]} for n in numbers[1:]]
    template["Resources"] = replaced(template["Resources"], {"Ref": QUEUES}, every)
    for group in template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]:
        names = group["Parameters"]
        if QUEUES in names:
            at = names.index(QUEUES)
            names[at : at + 1] = [QUEUE.format(number) for number in numbers]
    return template


def replaced(node, old, new):
    """Returns a part of a template with every `old` in it made `new`."""
    if node == old:
        return new
    if isinstance(node, list):
        return [replaced(value, old, new) for value in node]
    return {key: replaced(value, old, new) for key, value in node.items()} if isinstance(node, dict) else node
