"""Deploys template.yaml itself, with the built function, to the local stack."""

import copy
import functools
import hashlib
import io
import json
import logging
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

from local.intrinsics import Resolver
from local.metrics import COMPOSITE, Meter, as_object, lower_alarms
from local.plain import NoManagedPolicies
from local.stack import ACCOUNT, REGION, ROOT, Keys, Stack, StackError, wait_until

# Resource types that ministack 1.5.33 does not create. A template that has them is deployed without, and each is named.
# Of composite alarms a Meter makes up for it.
UNKNOWN_TYPES = {COMPOSITE, "AWS::Logs::QueryDefinition"}
# Statements that cannot hold here: the stack speaks plain HTTP on loopback.
TLS_ONLY = "OnlyByTls"
# What a condition calls the one who calls.
PRINCIPAL = "aws:PrincipalArn"
# IAM checks a batch call under the name of the single one. ministack checks it under a name that IAM does not have.
BATCH_NAMES = {
    "sqs:SendMessage": "sqs:SendMessageBatch",
    "sqs:ChangeMessageVisibility": "sqs:ChangeMessageVisibilityBatch",
    "sns:Publish": "sns:PublishBatch",
}

# It warns of its own usage figures, which only AWS collects.
logging.getLogger("samtranslator.metrics").setLevel(logging.ERROR)


@dataclass
class Deployment:
    """template.yaml, deployed under a name."""

    stack: Stack
    name: str
    outputs: dict
    code_sha: str
    # The keys of the person who replays. The requeue takes letters from nobody else but the function.
    operator: Keys
    # In seconds, where the template's periods were shortened.
    alarm_period: int | None = None
    # What makes metric data for its alarms.
    meter: Meter | None = None

    @property
    def queue_arn(self):
        return self.outputs["DeadLetterQueueArn"]

    @functools.cached_property
    def queue_url(self):
        name = self.queue_arn.rsplit(":", 1)[1]
        return self.stack.client("sqs").get_queue_url(QueueName=name)["QueueUrl"]

    def put_into_requeue(self, body, attributes=None):
        """Puts a message into the requeue, as the operator."""
        sqs, name = self.stack.client("sqs", self.operator), self.outputs["RequeueArn"].rsplit(":", 1)[1]
        sqs.send_message(
            # Anyone who may send need not be allowed to ask for the URL.
            QueueUrl=self.stack.client("sqs").get_queue_url(QueueName=name)["QueueUrl"],
            MessageBody=body,
            MessageAttributes=attributes or {},
        )

    def log_lines(self):
        """The function's own log lines, as objects, oldest first.

        ministack hands a line over when its invocation has ended, and stamps it with that time: `timestamp` in the line
        is the true one.
        """
        messages = [message for lines in self.log_streams().values() for message in lines]
        lines = [line for line in map(as_object, messages) if line is not None]
        return sorted(lines, key=lambda line: line.get("timestamp", ""))

    def log_streams(self):
        """Everything in the function's log group, by the name of the stream: one an invocation."""
        logs, group = self.stack.client("logs"), self.outputs["LogGroupName"]
        streams = {}
        for page in logs.get_paginator("filter_log_events").paginate(logGroupName=group):
            for event in page["events"]:
                streams.setdefault(event["logStreamName"], []).append(event["message"])
        return streams

    def outcomes(self, message_id=None):
        """The log lines that tell what became of a letter; with `message_id`, of that one."""
        return [
            line for line in self.log_lines() if "outcome" in line and message_id in (None, line.get("sqs.message_id"))
        ]

    def archive(self):
        """The archived records, each with the `key` of the object that holds it."""
        s3, bucket = self.stack.client("s3"), self.outputs["ArchiveBucketName"]
        # Without what others may have put there.
        prefix = self.outputs["ArchiveLocation"].removeprefix(f"s3://{bucket}/") + "/queue="
        records = []
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            for entry in page.get("Contents", []):
                body = s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()
                # Not splitlines: a letter may hold characters, as U+2028, that it takes for the end of a line.
                lines = body.decode().removesuffix("\n").split("\n")
                records += [{**json.loads(line), "key": entry["Key"]} for line in lines]
        return records

    def waiting(self):
        """How many letters are in the dead-letter queue, visible or hidden."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.stack.client("sqs").get_queue_attributes(QueueUrl=self.queue_url, AttributeNames=names)
        return sum(int(found["Attributes"][name]) for name in names)

    def wait_until_empty(self):
        """Waits until the dead-letter queue holds no letter: ministack shows the log first."""
        wait_until(lambda: self.waiting() == 0, 15, "the dead-letter queue to be empty")

    def bootstraps(self):
        """The ids of this function's processes, where it was deployed with a package of its own."""
        return self.stack.bootstraps(self.code_sha)


@dataclass
class Operations:
    """operations.yaml, deployed beside a Deployment."""

    stack: Stack
    outputs: dict
    code_sha: str

    def bootstraps(self):
        """The ids of the replay function's processes."""
        return self.stack.bootstraps(self.code_sha)

    def execute(self, replay):
        """Starts a replay by the state machine. Returns the execution's ARN."""
        machine, states = self.outputs["ReplayStateMachineArn"], self.stack.client("stepfunctions")
        return states.start_execution(stateMachineArn=machine, input=json.dumps({"replay": replay}))["executionArn"]

    def ended(self, execution, within=120):
        """Waits until an execution has ended. Returns its status, and what it put out."""

        def described():
            told = self.stack.client("stepfunctions").describe_execution(executionArn=execution)
            return None if told["status"] == "RUNNING" else told

        told = wait_until(described, within, "the end of the execution")
        return told["status"], json.loads(told.get("output") or "null")

    def invoke(self, **event):
        """Calls the replay function. Returns whether it answered without an error, and what."""
        name, payload = self.outputs["ReplayFunctionName"], json.dumps(event)
        answer = self.stack.client("lambda").invoke(FunctionName=name, Payload=payload)
        return "FunctionError" not in answer, json.loads(answer["Payload"].read())


def deploy_operations(deployment, admitted=True, **parameters):
    """Deploys operations.yaml beside a deployment. `admitted`: its role is named in the requeue's policy, as an update
    of RequeueSenderArns does."""
    stack, name = deployment.stack, f"{deployment.name}-ops"
    values = {"Stack": deployment.name, **{key: written(value) for key, value in parameters.items()}}
    package_uri, code_sha = uploaded(stack, name, "sns-redrive-replay")
    packages = {"sns-redrive-replay": package_uri}
    if values.get("ConsoleWidget") == "on":
        packages["sns-redrive-widget"], _ = uploaded(stack, f"{name}-console", "sns-redrive-widget")
    template = expand(packages, values, "operations.yaml")
    template = with_conditions(with_batch_names(with_numbers(template, values)), values)
    leave_out(template)
    outputs = create(stack, package_uri, name, template, values)
    if admitted:
        name_sessions(stack, deployment.outputs["RequeueArn"], outputs["ReplayRoleArn"])
    return Operations(stack, outputs, code_sha)


def deploy(
    stack,
    name,
    say=lambda _line: None,
    own_package=False,
    settings=None,
    alarm_period=None,
    metered=False,
    **parameters,
):
    """Deploys template.yaml under `name`. `parameters` are the template's; lists and objects are written out.

    Deployments share one package, which is uploaded once; `own_package` gives this one its own, so that the function's
    processes can be told from others. `settings` are environment variables of the function that the template never
    sets, by name. `alarm_period` shortens the periods of all alarms to so many seconds. `metered` gives the deployment
    a Meter. An operator who may give overrides and replay is created with it, and named in RequeueSenderArns unless
    that is given.
    """
    package_uri, code_sha = uploaded(stack, name if own_package else "shared")
    operator = stack.user(f"{name}-operator")
    parameters.setdefault("RequeueSenderArns", f"arn:aws:iam::{ACCOUNT}:user/{name}-operator")
    values = {key: written(value) for key, value in parameters.items()}
    template = expand({"sns-redrive": package_uri}, values)
    template = with_conditions(with_batch_names(with_numbers(template, values)), values)
    for resource in template["Resources"].values():
        if settings and resource["Type"] == "AWS::Lambda::Function":
            resource["Properties"]["Environment"]["Variables"] |= settings
    composites = {key: r for key, r in template["Resources"].items() if r["Type"] == COMPOSITE}
    math = lower_alarms(template, name, alarm_period)
    for what in leave_out(template):
        if not (metered and COMPOSITE in what):
            say(f"left out, because the local stack does not support it: {what}")

    outputs = create(stack, package_uri, name, template, values)
    deployment = Deployment(stack, name, outputs, code_sha, operator, alarm_period)
    give_lifecycle(deployment, template, values)
    if "OperatorPolicyArn" in outputs:
        stack.client("iam").attach_user_policy(UserName=f"{name}-operator", PolicyArn=outputs["OperatorPolicyArn"])
    if "RequeueArn" in outputs:
        name_sessions(stack, outputs["RequeueArn"])
        permit_replays(deployment)
    if metered:
        deployment.meter = Meter(deployment, template, values, math, composites)
    return deployment


def create(stack, package_uri, name, template, values):
    """Creates a stack, and waits for it. Returns its outputs."""
    formation = stack.client("cloudformation")
    formation.create_stack(
        StackName=name,
        TemplateURL=put_template(stack, package_uri, name, template),
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in values.items()],
        Capabilities=["CAPABILITY_NAMED_IAM"],
    )

    def settled():
        described = formation.describe_stacks(StackName=name)["Stacks"][0]
        return None if described["StackStatus"].endswith("_IN_PROGRESS") else described

    described = wait_until(settled, 60, f"the deployment of {name}")
    if described["StackStatus"] != "CREATE_COMPLETE":
        events = formation.describe_stack_events(StackName=name)["StackEvents"]
        reasons = "; ".join(e["ResourceStatusReason"] for e in events if "ResourceStatusReason" in e)
        raise StackError(f"{name} is {described['StackStatus']}: {reasons}")
    return {output["OutputKey"]: output["OutputValue"] for output in described["Outputs"]}


def built_function(name="sns-redrive"):
    """The binary that `make build` left, or with BUILT=demo `make functions`."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", "target"))
    binary = ROOT / target / os.environ.get("BUILT", "debug") / name
    if not binary.exists():
        raise StackError(f"{binary} does not exist; run make build")
    return binary


@functools.cache
def uploaded(stack, name, binary="sns-redrive"):
    """Uploads the package `name` to the stack, once. Returns its address and its SHA-256."""
    package, bucket, s3 = package_of(name, binary), f"packages-{name}", stack.client("s3")
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket=bucket, Key="package.zip", Body=package)
    return f"s3://{bucket}/package.zip", hashlib.sha256(package).hexdigest()


def put_template(stack, package_uri, name, template):
    """Puts a template beside the package, as SAM does: CloudFormation takes one of this size from S3 only."""
    bucket = package_uri.removeprefix("s3://").split("/")[0]
    stack.client("s3").put_object(Bucket=bucket, Key=f"{name}.template", Body=json.dumps(template))
    return f"{stack.endpoint}/{bucket}/{name}.template"


def package_of(name, binary):
    """Packs a built function. The name in the package makes it differ from others."""
    package = io.BytesIO(compressed(binary))
    with zipfile.ZipFile(package, "a") as archive:
        archive.writestr("package.txt", name)
    return package.getvalue()


@functools.cache
def compressed(binary):
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        entry = zipfile.ZipInfo("bootstrap")
        entry.external_attr = 0o755 << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, built_function(binary).read_bytes(), compresslevel=1)
    return package.getvalue()


def template_as_written(name="template.yaml"):
    """Returns a template as objects, which the caller may change."""
    return copy.deepcopy(parsed(name))


@functools.cache
def parsed(name):
    return yaml_parse((ROOT / name).read_text())


def expand(packages, values, name="template.yaml"):
    """A template as CloudFormation, which is what SAM makes of it on AWS. `packages` are their addresses, by binary."""
    template = template_as_written(name)
    # SAM accepts nothing else than an S3 address here; `sam package` puts one in as well. A function that a condition
    # leaves out has none.
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            binary = resource["Metadata"]["BuildProperties"]["Binary"]
            resource["Properties"]["CodeUri"] = packages.get(binary, "s3://none/none")
    os.environ.setdefault("AWS_DEFAULT_REGION", REGION)
    return transform(template, dict(values), NoManagedPolicies())


def with_numbers(template, values):
    """The template with parameters of type Number filled in, except for environment variables, which are text.

    AWS makes a number or a text of them, whichever is due; ministack passes the parameter's text on, and its poller
    then compares it with a number, fails, and polls nothing.
    """
    numbers = {
        name: int(values.get(name, parameter.get("Default")))
        for name, parameter in template["Parameters"].items()
        if parameter["Type"] == "Number"
    }

    def fill(node):
        if isinstance(node, dict):
            if set(node) == {"Ref"} and node["Ref"] in numbers:
                return numbers[node["Ref"]]
            return {key: value if key == "Environment" else fill(value) for key, value in node.items()}
        if isinstance(node, list):
            return [fill(value) for value in node]
        return node

    return {**template, "Resources": fill(template["Resources"])}


def with_conditions(template, values):
    """The template with its conditions decided. ministack knows no Fn::Join there: every list would count as given."""
    resolver = Resolver(template, values)
    decided = {name: {"Fn::Equals": [str(resolver.holds(name)), "True"]} for name in template["Conditions"]}
    return {**template, "Conditions": decided}


def with_batch_names(node):
    """The template with BATCH_NAMES next to the actions that permit them on AWS."""
    if isinstance(node, list):
        return [with_batch_names(value) for value in node]
    if not isinstance(node, dict):
        return node
    node = {key: with_batch_names(value) for key, value in node.items()}
    if node.get("Effect") == "Allow":
        actions = node["Action"] if isinstance(node["Action"], list) else [node["Action"]]
        node["Action"] = actions + [BATCH_NAMES[action] for action in actions if action in BATCH_NAMES]
    return node


def name_sessions(stack, queue_arn, *more):
    """Adds the sessions of roles to the roles that the queue's policy names, and `more` roles with theirs.

    On AWS `aws:PrincipalArn` is the role's ARN, with its path. On ministack it is the ARN of the role's session, which
    has no path.
    """
    sqs = stack.client("sqs")
    url = sqs.get_queue_url(QueueName=queue_arn.rsplit(":", 1)[1])["QueueUrl"]
    policy = json.loads(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]["Policy"])
    for statement in policy["Statement"]:
        for keys in statement.get("Condition", {}).values():
            if PRINCIPAL in keys:
                named = keys[PRINCIPAL] if isinstance(keys[PRINCIPAL], list) else [keys[PRINCIPAL]]
                named = [*named, *more]
                sessions = [session_of(arn) for arn in named if ":role/" in arn]
                keys[PRINCIPAL] = named + [arn for arn in sessions if arn not in named]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(policy)})


def session_of(role_arn):
    """The ARN of any session of a role."""
    account, role = role_arn.split(":")[4], role_arn.rsplit("/", 1)[1]
    return f"arn:aws:sts::{account}:assumed-role/{role}/*"


def permit_replays(deployment):
    """Gives the operator the permissions that docs/reference/redrivectl.md names, and no other."""
    archive, requeue = deployment.outputs["ArchiveLocation"].removeprefix("s3://"), deployment.outputs["RequeueArn"]
    replays = f"arn:aws:s3:::{archive}-control/replays/*"
    log = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{deployment.outputs['LogGroupName']}*"
    permissions = [
        (["s3:ListBucket", "s3:GetLifecycleConfiguration"], f"arn:aws:s3:::{deployment.outputs['ArchiveBucketName']}"),
        (["s3:GetObject"], f"arn:aws:s3:::{archive}/*"),
        (["s3:GetObject", "s3:PutObject"], replays),
        (["sqs:SendMessage", "sqs:GetQueueAttributes", "sqs:ListQueueTags"], requeue),
        (["sqs:GetQueueAttributes"], deployment.queue_arn),
        (["cloudformation:DescribeStacks"], f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{deployment.name}/*"),
        (["lambda:GetFunctionConfiguration"], deployment.outputs["FunctionArn"]),
        (["states:StartExecution"], f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:{deployment.name}-replay"),
        (
            ["states:GetExecutionHistory"],
            f"arn:aws:states:{REGION}:{ACCOUNT}:execution:{deployment.name}-replay:*",
        ),
        # What the pages of `redrivectl serve` read besides.
        (["cloudwatch:GetMetricData", "cloudwatch:DescribeAlarms"], "*"),
        (["logs:StartQuery"], log),
        (["logs:GetQueryResults"], "*"),
    ]
    statements = [{"Effect": "Allow", "Action": actions, "Resource": on} for actions, on in permissions]
    deployment.stack.client("iam").put_user_policy(
        UserName=f"{deployment.name}-operator",
        PolicyName="replay",
        PolicyDocument=json.dumps(with_batch_names({"Version": "2012-10-17", "Statement": statements})),
    )


def give_lifecycle(deployment, template, values):
    """Gives the archive's bucket its lifecycle rules: ministack takes them from a call, and not from a template."""
    if values.get("ExistingArchiveBucket"):
        return
    written = template["Resources"]["ArchiveBucket"]["Properties"]["LifecycleConfiguration"]
    rules = Resolver(template, values).resolve(written)["Rules"]
    for rule in rules:
        rule["ID"] = rule.pop("Id")
        rule["Filter"] = {"Prefix": rule.pop("Prefix", "")}
        if "ExpirationInDays" in rule:
            rule["Expiration"] = {"Days": int(rule.pop("ExpirationInDays"))}
    deployment.stack.client("s3").put_bucket_lifecycle_configuration(
        Bucket=deployment.outputs["ArchiveBucketName"], LifecycleConfiguration={"Rules": rules}
    )


def leave_out(template):
    """Removes resources that the local stack does not support. Returns their names."""
    left_out = []
    for name, resource in list(template["Resources"].items()):
        if resource["Type"] in UNKNOWN_TYPES:
            left_out.append(f"{name} ({resource['Type']})")
            del template["Resources"][name]
            forget(template, name)
            continue
        statements = resource.get("Properties", {}).get("PolicyDocument", {}).get("Statement", [])
        for statement in [s for s in statements if s.get("Sid") == TLS_ONLY]:
            left_out.append(f"{name}, statement {TLS_ONLY}")
            statements.remove(statement)
    return left_out


def forget(template, name):
    """Removes the outputs that refer to a resource that is not there."""
    refers = f'"{name}"'
    template["Outputs"] = {key: out for key, out in template["Outputs"].items() if refers not in json.dumps(out)}


def written(value):
    if isinstance(value, list):
        return ",".join(value)
    if isinstance(value, dict):
        return json.dumps(value, separators=(",", ":"))
    return str(value)
