"""What template.yaml promises beyond the function: grants, modes, queues, shapes."""

import json
import re
import time
import tomllib

import pytest
from botocore.exceptions import ClientError
from ministack.core.iam_evaluator import EvalContext, evaluate_resource_policy
from world import arrived, attributes_of_eventbridge, outcome, policy

from local.deploy import expand, template_as_written
from local.intrinsics import Resolver
from local.sns import dead_letter, envelope, mark
from local.stack import ACCOUNT, REGION, ROOT, ROOT_KEYS, Keys, wait_until
from local.subscribers import create_function, function_arn


def test_queue_that_is_not_granted_is_not_reached(world):
    """The stack checks the function's calls against the role of the template."""
    topic = world.topic()
    deployment = world.deploy(policy(retries=3, delay=30, immediate=1), topic, queues=["other"])
    billing = world.subscribe("billing", topic, deployment.queue_arn)

    letter = dead_letter(deployment, envelope(topic, billing.subscription_arn, "hello"))

    failed = outcome(deployment, letter, "deferred")
    error = (failed["error.code"], failed["error.class"])
    assert (failed["retry.number"], error) == (1, ("AccessDenied", "action_required"))
    assert deployment.waiting() == 1
    assert billing.receive() == []


def test_observe_mode_touches_nothing(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=3, delay=1, immediate=1), topic, queues=["billing"], RedriveMode="observe")
    billing = world.subscribe("billing", topic, deployment.queue_arn)

    letter = dead_letter(deployment, envelope(topic, billing.subscription_arn, "hello"))

    assert outcome(deployment, letter, "observed")["retry.number"] == 1
    assert deployment.waiting() == 1
    assert (billing.receive(), deployment.archive()) == ([], [])


@pytest.mark.parametrize("own_queue", [False, True])
def test_alarm_watches_the_arrivals_of_the_queue_in_use(world, own_queue):
    topic = world.topic()
    own = {"ExistingDeadLetterQueueArn": world.dead_letter_queue(topic)} if own_queue else {}
    deployment = world.deploy(policy(retries=1, delay=1), topic, **own)

    cloudwatch = world.stack.client("cloudwatch")
    names = [deployment.outputs["ArrivalAlarmName"]]
    [alarm] = cloudwatch.describe_alarms(AlarmNames=names)["MetricAlarms"]

    queue = deployment.queue_arn.rsplit(":", 1)[1]
    assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/SQS", "NumberOfMessagesSent")
    assert alarm["Dimensions"] == [{"Name": "QueueName", "Value": queue}]
    assert (alarm["Statistic"], alarm["ComparisonOperator"], alarm["Threshold"]) == ("Sum", "GreaterThanThreshold", 0)
    assert alarm["TreatMissingData"] == "notBreaching"
    if own_queue:
        assert deployment.queue_arn == own["ExistingDeadLetterQueueArn"]


def mappings(world, deployment):
    client, name = world.stack.client("lambda"), deployment.outputs["FunctionName"]
    found = client.list_event_source_mappings(FunctionName=name)["EventSourceMappings"]
    return {mapping["EventSourceArn"]: mapping for mapping in found}


def settings(world, deployment):
    name = deployment.outputs["FunctionName"]
    return world.stack.client("lambda").get_function_configuration(FunctionName=name)["Environment"]["Variables"]


def test_letter_in_the_requeue_is_retried_like_any_other(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=3, delay=1, immediate=1), topic, queues=["billing"])
    billing = world.subscribe("billing", topic, deployment.queue_arn)
    requeue = deployment.outputs["RequeueArn"]
    assert settings(world, deployment)["REQUEUE_ARN"] == requeue

    # As the function, or a replay, puts it there: the mark says which dead-letter queue it belongs to.
    value = mark("hello", "a-letter", 1, first=1793534398412, dlq=deployment.queue_arn)
    body = envelope(topic, billing.subscription_arn, "hello")
    deployment.put_into_requeue(body, {"sns-redrive": {"DataType": "String", "StringValue": value}})

    assert [message["Body"] for message in arrived(billing)] == [body]


# --- who may write to the requeue, where a mark is believed

EVERYTHING = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sqs:*", "Resource": "*"}]}
ANYBODY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole"}]}
# Where IAM Identity Center makes its roles; without a region for one that lives in us-east-1.
SSO = "/aws-reserved/sso.amazonaws.com/"


class People:
    """Users and roles of the account, each of whom may do everything with every queue."""

    def __init__(self, world):
        self.world, self.iam = world, world.stack.client("iam")

    def user(self, name):
        keys = self.world.stack.user(self.world.name(name))
        self.iam.put_user_policy(
            UserName=self.world.name(name), PolicyName="everything", PolicyDocument=json.dumps(EVERYTHING)
        )
        return keys

    def role(self, name, path="/"):
        """A session of a role."""
        document = json.dumps(ANYBODY)
        role = self.iam.create_role(RoleName=name, Path=path, AssumeRolePolicyDocument=document)["Role"]
        self.iam.put_role_policy(RoleName=name, PolicyName="everything", PolicyDocument=json.dumps(EVERYTHING))
        return self.session(role["Arn"])

    def session(self, role_arn):
        sts = self.world.stack.client("sts")
        found = sts.assume_role(RoleArn=role_arn, RoleSessionName="night-shift")["Credentials"]
        return Keys(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])

    def may_send(self, keys, url):
        """Whether a message is taken, and the same of a batch."""
        sqs = self.world.stack.client("sqs", keys)
        calls = [
            lambda: sqs.send_message(QueueUrl=url, MessageBody="forged"),
            lambda: sqs.send_message_batch(QueueUrl=url, Entries=[{"Id": "1", "MessageBody": "forged"}]),
        ]
        answers = {taken(call) for call in calls}
        assert len(answers) == 1, "a batch is judged like a single message"
        return answers.pop()


def taken(call):
    try:
        return not call().get("Failed")
    except ClientError as error:
        assert error.response["Error"]["Code"] == "AccessDenied"
        return False


def policy_of(world, queue_arn):
    """The URL of a queue, and its policy."""
    sqs = world.stack.client("sqs")
    url = sqs.get_queue_url(QueueName=queue_arn.rsplit(":", 1)[1])["QueueUrl"]
    return url, json.loads(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]["Policy"])


def attributes(world, queue_arn):
    """All attributes of a queue."""
    sqs = world.stack.client("sqs")
    url = sqs.get_queue_url(QueueName=queue_arn.rsplit(":", 1)[1])["QueueUrl"]
    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]


def test_only_the_function_and_those_named_may_send_to_the_requeue(world):
    """By calls of people who may do everything with every queue, which the local stack checks against its policy."""
    people, operators = People(world), f"{SSO}*AWSReservedSSO_{world.prefix}-operator_*"
    deployment = world.deploy(
        policy(retries=1, delay=1),
        world.topic(),
        # Nothing is handled, so that nothing is sent but what this test sends.
        RedriveMode="observe",
        RequeueSenderArns=[
            f"arn:aws:iam::{ACCOUNT}:user/{world.name('named')}",
            f"arn:aws:iam::{ACCOUNT}:role{operators}",
        ],
    )
    requeue, _ = policy_of(world, deployment.outputs["RequeueArn"])
    strangers = {
        "a user": people.user("stranger"),
        "a role": people.role(world.name("stranger")),
        "a role of Identity Center": people.role(f"AWSReservedSSO_{world.prefix}-viewer_0a1b", f"{SSO}eu-central-1/"),
        "the root user": ROOT_KEYS,
    }
    named = {
        "the function": people.session(deployment.outputs["FunctionRoleArn"]),
        "a user": people.user("named"),
        "a role of Identity Center": people.role(f"AWSReservedSSO_{world.prefix}-operator_0a1b", f"{SSO}eu-central-1/"),
        "one of us-east-1": people.role(f"AWSReservedSSO_{world.prefix}-operator_2c3d", SSO),
    }

    assert {who for who, keys in strangers.items() if people.may_send(keys, requeue)} == set()
    assert {who for who, keys in named.items() if people.may_send(keys, requeue)} == set(named)
    # It is the requeue's policy that keeps them out, and nothing else.
    assert all(people.may_send(keys, deployment.queue_url) for keys in strangers.values())


def test_without_a_list_nobody_but_the_function_may_send_to_the_requeue(world):
    people = People(world)
    deployment = world.deploy(policy(retries=1, delay=1), world.topic(), RedriveMode="observe", RequeueSenderArns="")
    requeue, _ = policy_of(world, deployment.outputs["RequeueArn"])

    assert not people.may_send(people.user("stranger"), requeue)
    assert people.may_send(people.session(deployment.outputs["FunctionRoleArn"]), requeue)


def test_requeue_takes_nothing_from_a_service_even_where_its_policy_allows_one(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=1, delay=1), topic, RedriveMode="observe")
    arn = deployment.outputs["RequeueArn"]
    url, document = policy_of(world, arn)
    sns, sqs = world.stack.client("sns"), world.stack.client("sqs")
    allowed = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": arn,
    }
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)

    def arrives(statements):
        changed = json.dumps(document | {"Statement": statements})
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": changed})
        before = held(sqs, url)
        sns.publish(TopicArn=topic, Message="hello")
        time.sleep(1)
        return held(sqs, url) > before

    assert not arrives([*document["Statement"], allowed])
    # It does where nothing forbids it.
    assert arrives([allowed])


def held(sqs, url):
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    return sum(map(int, sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"].values()))


def test_policy_of_the_requeue_means_on_aws_what_it_says(world):
    """On AWS `aws:PrincipalArn` is the ARN of the role, and absent where there is no principal of IAM. The local stack
    has a session's ARN, or `*`. So its evaluator is given what AWS would give it, and the policy as the template says.
    """
    deployment = world.deploy(
        policy(retries=1, delay=1),
        world.topic(),
        RequeueSenderArns=[
            f"arn:aws:iam::{ACCOUNT}:role/ops/replay",
            f"arn:aws:iam::{ACCOUNT}:role{SSO}*AWSReservedSSO_Operator_*",
        ],
    )
    _, document = policy_of(world, deployment.outputs["RequeueArn"])
    named = [
        deployment.outputs["FunctionRoleArn"],
        f"arn:aws:iam::{ACCOUNT}:role/ops/replay",
        f"arn:aws:iam::{ACCOUNT}:role{SSO}eu-central-1/AWSReservedSSO_Operator_0a1b",
        f"arn:aws:iam::{ACCOUNT}:role{SSO}AWSReservedSSO_Operator_0a1b",
    ]
    strangers = [
        # The same name in another place: anyone who may create roles could take it.
        f"arn:aws:iam::{ACCOUNT}:role/team/AWSReservedSSO_Operator_0a1b",
        f"arn:aws:iam::{ACCOUNT}:role/replay",
        "arn:aws:iam::210987654321:role/ops/replay",
        f"arn:aws:iam::{ACCOUNT}:root",
        # A service, or somebody anonymous.
        None,
    ]

    def denied(caller, action):
        context = EvalContext(
            principal_arn=caller,
            principal_type="AssumedRole",
            principal_account=ACCOUNT,
            action=action,
            resource_arn=deployment.outputs["RequeueArn"],
            region=REGION,
        )
        # A policy that says nothing leaves it to the caller's own permissions.
        return evaluate_resource_policy(without_sessions(document), context).decision == "Deny"

    assert [who for who in named + strangers if denied(who, "sqs:SendMessage")] == strangers
    assert [who for who in named + strangers if denied(who, "sqs:ReceiveMessage")] == []


def without_sessions(node):
    """The policy without what local/deploy.py has added to it."""
    if isinstance(node, list):
        return [
            without_sessions(value) for value in node if ":assumed-role/" not in str(value) or isinstance(value, dict)
        ]
    return {key: without_sessions(value) for key, value in node.items()} if isinstance(node, dict) else node


def test_sqs_moves_nothing_into_the_requeue(world):
    """It asks for no permission to send when it moves what was received too often."""
    deployment = world.deploy(policy(retries=1, delay=1), world.topic())

    sqs = world.stack.client("sqs")
    url, _ = policy_of(world, deployment.outputs["RequeueArn"])
    told = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedriveAllowPolicy"])["Attributes"]
    assert json.loads(told["RedriveAllowPolicy"]) == {"redrivePermission": "denyAll"}


@pytest.mark.parametrize("queue_type,batch_size,window", [("standard", 25, 2), ("fifo", 5, 0)])
def test_requeue_is_like_the_dead_letter_queue(world, queue_type, batch_size, window):
    parameters = {"BatchSize": batch_size, "MaximumBatchingWindow": window, "MaximumConcurrency": 7}
    deployment = world.deploy(policy(retries=1, delay=1), world.topic(), QueueType=queue_type, **parameters)

    found = mappings(world, deployment)
    queue, other = found.pop(deployment.queue_arn), found.pop(deployment.outputs["RequeueArn"])
    assert found == {}
    for mapping in (queue, other):
        assert (mapping["BatchSize"], mapping["MaximumBatchingWindowInSeconds"]) == (batch_size, window)
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert mapping["ScalingConfig"] == {"MaximumConcurrency": 7}
    told = [attributes(world, arn) for arn in (deployment.queue_arn, deployment.outputs["RequeueArn"])]
    high = {"FifoQueue": "true", "DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
    wanted = high if queue_type == "fifo" else dict.fromkeys(high)
    assert [{name: it.get(name) for name in high} for it in told] == [wanted, wanted]
    assert [it["QueueArn"].endswith(".fifo") for it in told] == [queue_type == "fifo"] * 2


def test_without_a_requeue_there_is_one_queue_and_one_mapping(world):
    deployment = world.deploy(policy(retries=1, delay=1), world.topic(), Requeue="off")

    assert list(mappings(world, deployment)) == [deployment.queue_arn]
    assert "REQUEUE_ARN" not in settings(world, deployment)
    assert "RequeueArn" not in deployment.outputs


# --- who may give overrides


def refusals(calls):
    """The names of the calls for which there is no permission. What they ask for need not exist."""
    found = set()
    for name, call in calls.items():
        try:
            call()
        except ClientError as error:
            if error.response["Error"]["Code"] in ("AccessDenied", "AccessDeniedException"):
                found.add(name)
    return found


def calls_of(world, deployment, keys):
    """Calls on the archive and on what is beside it, by somebody's keys."""
    s3, sqs = world.stack.client("s3", keys), world.stack.client("sqs", keys)
    bucket, archive = deployment.outputs["ArchiveLocation"].removeprefix("s3://").split("/")
    control = f"{archive}-control"
    assert deployment.outputs["ControlLocation"] == f"s3://{bucket}/{control}"
    queues = {"dead-letter queue": deployment.queue_url}
    queues["requeue"] = sqs_url(world, deployment.outputs["RequeueArn"])
    calls = {}
    for name, key in {
        "overrides": f"{control}/overrides.json",
        "ended overrides": f"{control}/overrides/1.json",
        "waiting letters": f"{control}/waiting/queue=dlq/1.jsonl",
        "recoveries": f"{control}/recoveries.json",
        "replays": f"{control}/replays/1/replay.json",
        "archive": f"{archive}/queue=dlq/1.jsonl",
    }.items():
        calls[f"read {name}"] = lambda key=key: s3.get_object(Bucket=bucket, Key=key)
        calls[f"write {name}"] = lambda key=key: s3.put_object(Bucket=bucket, Key=key, Body=b"{}")
        calls[f"delete {name}"] = lambda key=key: s3.delete_object(Bucket=bucket, Key=key)
    prefixes = {"control": f"{control}/", "replays": f"{control}/replays/", "archive": f"{archive}/", "everything": ""}
    for name, prefix in prefixes.items():
        calls[f"list {name}"] = lambda prefix=prefix: s3.list_objects_v2(Bucket=bucket, Prefix=prefix)
    for name, url in queues.items():
        calls |= {
            f"wake {name}": lambda url=url: sqs.change_message_visibility(
                QueueUrl=url, ReceiptHandle="none", VisibilityTimeout=0
            ),
            f"count {name}": lambda url=url: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"]),
            f"send {name}": lambda url=url: sqs.send_message(QueueUrl=url, MessageBody="forged"),
            f"receive {name}": lambda url=url: sqs.receive_message(QueueUrl=url),
            f"delete from {name}": lambda url=url: sqs.delete_message(QueueUrl=url, ReceiptHandle="none"),
        }
    name = deployment.outputs["FunctionName"]
    client = world.stack.client("lambda", keys)
    calls["invoke"] = lambda: client.invoke(FunctionName=name, Payload=b"{}")
    calls["read configuration"] = lambda: client.get_function_configuration(FunctionName=name)
    return calls


def sqs_url(world, arn):
    return world.stack.client("sqs").get_queue_url(QueueName=arn.rsplit(":", 1)[1])["QueueUrl"]


def test_operator_may_give_overrides_and_wake_letters_and_nothing_else(world):
    deployment = world.deploy(policy(retries=1, delay=1), world.topic(), RedriveMode="observe")
    name, iam = world.name("gives-overrides"), world.stack.client("iam")
    calls = calls_of(world, deployment, world.stack.user(name))
    assert refusals(calls) == set(calls), "without the policy"
    iam.attach_user_policy(UserName=name, PolicyArn=deployment.outputs["OperatorPolicyArn"])

    assert set(calls) - refusals(calls) == {
        "read overrides",
        "write overrides",
        "read ended overrides",
        "write ended overrides",
        "read recoveries",
        "read waiting letters",
        "list control",
        "list replays",
        "wake dead-letter queue",
        "wake requeue",
        "count dead-letter queue",
        "count requeue",
    }


def operator_statements(**parameters):
    """What the operators' policy says with these parameters, by its statements' names."""
    statements = resolved(**parameters)["OperatorPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    return {statement["Sid"]: statement for statement in statements}


def test_operator_may_ask_for_the_stack_by_its_name():
    """An ARN with the stack's id permits no DescribeStacks by name."""
    assert operator_statements()["ReadStack"]["Resource"].endswith(":stack/stack/*")


def test_operator_may_use_the_key_of_a_bucket_that_is_there():
    """Through S3 alone, and no keys of targets where the template makes the bucket."""
    key = "arn:aws:kms:eu-central-1:123456789012:key/1"
    statement = operator_statements(ExistingArchiveBucket="own", TargetKmsKeyArns=key)["UseKeyOfExistingBucket"]
    assert statement["Resource"] == [key]
    assert statement["Condition"] == {"StringLike": {"kms:ViaService": "s3.x.*"}}
    for without in ({"TargetKmsKeyArns": key}, {"ExistingArchiveBucket": "own"}):
        assert "UseKeyOfExistingBucket" not in operator_statements(**without)


def test_function_without_overrides_has_no_right_to_them(world):
    deployment = world.deploy(policy(retries=1, delay=1), world.topic(), RedriveMode="observe", Overrides="off")

    assert settings(world, deployment)["CONTROL"] == "off"
    assert not {"ControlLocation", "OperatorPolicyArn"} & deployment.outputs.keys()
    cloudwatch = world.stack.client("cloudwatch")
    alarms = cloudwatch.describe_alarms(AlarmNamePrefix=deployment.name, MaxRecords=100)["MetricAlarms"]
    assert alarms and not [alarm["AlarmName"] for alarm in alarms if "OverridesUnread" in alarm["AlarmName"]]
    name = deployment.outputs["FunctionRoleArn"].rsplit("/", 1)[1]
    granted = world.stack.client("iam").get_role_policy(RoleName=name, PolicyName="redrive")["PolicyDocument"]
    assert "-control" not in json.dumps(granted)


def allowed_to_function(world, deployment):
    """What the function may do with the archive and with what is beside it."""
    calls = calls_of(world, deployment, People(world).session(deployment.outputs["FunctionRoleArn"]))
    things = ("overrides", "letters", "recoveries", "archive", "control", "replays", "everything")
    calls = {name: call for name, call in calls.items() if any(thing in name for thing in things)}
    return set(calls) - refusals(calls)


@pytest.mark.parametrize("listed", ["on", "off"])
def test_function_may_hear_overrides_and_list_letters_but_give_no_overrides(world, listed):
    topic = world.topic()
    deployment = world.deploy(policy(retries=1, delay=1), topic, RedriveMode="observe", WaitingList=listed)

    kept = {f"{do} {what}" for do in ("read", "write") for what in ("waiting letters", "recoveries")}
    more = {"write archive"} | (kept if listed == "on" else set())
    assert allowed_to_function(world, deployment) == {"read overrides", "list control", "list replays"} | more
    assert settings(world, deployment)["CONTROL"] == deployment.outputs["ControlLocation"]
    assert settings(world, deployment)["WAITING_LIST"] == listed


def test_overrides_and_replays_outlive_the_archive_and_the_waiting_list_does_not():
    rules = resolved(ArchiveRetentionDays=90)["ArchiveBucket"]["Properties"]["LifecycleConfiguration"]["Rules"]
    ends = {rule.get("Prefix"): rule["ExpirationInDays"] for rule in rules if "ExpirationInDays" in rule}
    assert ends == {"dead-letters/": 90, "dead-letters-control/waiting/": 1}


BUILT_IN = ""


@pytest.mark.parametrize("own_queue", [False, True])
def test_listed_origins_are_the_policy_of_a_stack_without_one(world, own_queue):
    topic = world.topic()
    own = {"ExistingDeadLetterQueueArn": world.dead_letter_queue(topic)} if own_queue else {}
    deployment = world.deploy(BUILT_IN, topic, LetterOrigins=["eventbridge", "lambda-destination"], **own)

    queue = own.get("ExistingDeadLetterQueueArn", deployment.queue_arn)
    composed = json.loads(settings(world, deployment)["REDRIVE_POLICY"])
    assert composed == {"origins": {queue: ["eventbridge", "lambda-destination"]}}


def test_without_listed_origins_the_policy_is_the_built_in_one(world):
    assert "REDRIVE_POLICY" not in settings(world, world.deploy(BUILT_IN, world.topic()))


def test_origins_are_listed_in_the_policy_where_there_is_one(world):
    with pytest.raises(ClientError, match='list the origins in RedrivePolicy: {"origins"'):
        world.deploy(policy(retries=1, delay=1), world.topic(), LetterOrigins=["eventbridge"])


@pytest.mark.parametrize("listed", [["eventbridge"], []])
def test_letter_that_names_its_target_is_followed_only_where_its_origin_is_listed(world, listed):
    deployment = world.deploy(BUILT_IN, world.topic(), functions=["projector"], LetterOrigins=listed)
    name = world.name("projector")
    create_function(world.stack, name, world.web)

    letter = dead_letter(deployment, '{"detail":{"id":7}}', attributes_of_eventbridge(function_arn(name)))

    if listed:
        assert outcome(deployment, letter, "delivered")["letter.origin"] == "eventbridge"
        assert len(world.web.at(f"/{name}")) == 1
    else:
        archived = outcome(deployment, letter, "archived")
        assert (archived["reason"], archived["letter.origin"]) == ("unrecognised", "raw")
        assert "origins" in archived["detail"]
        assert world.web.at(f"/{name}") == []


def resolved(**parameters):
    """The resources whose shape the local stack does not show, with these parameters."""
    template = template_as_written()
    resolver = Resolver(
        template,
        parameters | {"TopicArns": "none"},
        names=NamesOfAll(),
        pseudo={"AWS::Region": "x", "AWS::StackName": "stack"},
    )
    names = ("ArchiveBucket", "OperatorPolicy", "RedriveFunctionRole")
    return {name: resolver.resolve(template["Resources"][name]) for name in names}


class NamesOfAll(dict):
    def __missing__(self, name):
        return name


def test_new_queues_and_the_archive_use_the_key_that_is_given(world):
    key = world.stack.client("kms").create_key()["KeyMetadata"]["Arn"]
    deployment = world.deploy(policy(retries=1, delay=1), world.topic(), KmsKeyArn=key)

    sqs = world.stack.client("sqs")
    for arn in (deployment.queue_arn, deployment.outputs["RequeueArn"]):
        url = sqs.get_queue_url(QueueName=arn.rsplit(":", 1)[1])["QueueUrl"]
        told = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        assert told["KmsMasterKeyId"] == key
    # The local stack encrypts no bucket as its template says.
    properties = resolved(KmsKeyArn=key)["ArchiveBucket"]["Properties"]
    [rule] = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    encryption = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}
    assert rule == {"ServerSideEncryptionByDefault": encryption, "BucketKeyEnabled": True}
    assert "UseOwnKey" in str(resolved(KmsKeyArn=key)["RedriveFunctionRole"])


SHAPES = {
    "key": (
        {"TargetKmsKeyArns": "arn:aws:kms:eu-central-1:123456789012:key/1"},
        {"kms:Decrypt", "kms:GenerateDataKey"},
    ),
    "tracing": ({"Tracing": "Active"}, {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}),
    "discovery": ({"DiscoverSubscription": "true"}, {"sns:ListSubscriptions"}),
    "network": (
        {"SubnetIds": "subnet-0a1b", "SecurityGroupIds": "sg-0a1b"},
        {
            "ec2:CreateNetworkInterface",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSubnets",
            "ec2:DeleteNetworkInterface",
            "ec2:AssignPrivateIpAddresses",
            "ec2:UnassignPrivateIpAddresses",
        },
    ),
    "notices": (
        {"NoticeTopicArn": "arn:aws:sns:eu-central-1:123456789012:notices"},
        # The local stack wants the batch call named as well.
        {"sns:Publish", "sns:PublishBatch"},
    ),
    "plain-text": ({"LogFormat": "Text"}, set()),
    "other-processor": ({"Architecture": "x86_64"}, set()),
}


@pytest.mark.parametrize("parameters,more", SHAPES.values(), ids=SHAPES)
def test_what_a_parameter_does_not_ask_for_is_not_granted(world, parameters, more):
    def granted(name, **given):
        deployment = world.deploy(policy(retries=1, delay=1), world.topic(), name=name, **given)
        role = deployment.outputs["FunctionRoleArn"].rsplit("/", 1)[1]
        found = world.stack.client("iam").get_role_policy(RoleName=role, PolicyName="redrive")["PolicyDocument"]
        document = json.loads(found) if isinstance(found, str) else found
        actions = [s["Action"] if isinstance(s["Action"], list) else [s["Action"]] for s in document["Statement"]]
        return {action for each in actions for action in each}

    assert granted("with", **parameters) - granted("without") == more


@pytest.mark.parametrize(
    "given,lacking",
    [({"SubnetIds": "subnet-0a1b"}, "SecurityGroupIds"), ({"SecurityGroupIds": "sg-0a1b"}, "SubnetIds")],
)
def test_subnets_and_security_groups_are_given_together(world, given, lacking):
    with pytest.raises(ClientError, match=f"needs {lacking}"):
        world.deploy(policy(retries=1, delay=1), world.topic(), **given)


@pytest.mark.parametrize(
    "given,why",
    [
        ({"BatchSize": 11}, "BatchSize above 10 needs a MaximumBatchingWindow"),
        ({"BatchSize": 10000}, "BatchSize above 10 needs a MaximumBatchingWindow"),
        ({"QueueType": "fifo", "BatchSize": 11, "MaximumBatchingWindow": 1}, "BatchSize must be at most 10"),
        ({"QueueType": "fifo", "MaximumBatchingWindow": 1}, "MaximumBatchingWindow must be 0"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_made(world, given, why):
    with pytest.raises(ClientError, match=why):
        world.deploy(policy(retries=1, delay=1), world.topic(), **given)


def test_notices_do_not_go_to_a_topic_whose_dead_letters_are_handled(world):
    topic = world.topic()
    with pytest.raises(ClientError, match="NoticeTopicArn must not be one of TopicArns"):
        world.deploy(policy(retries=1, delay=1), topic, NoticeTopicArn=topic)


def test_samconfig_gives_parameters_that_the_template_has_and_touches_nothing():
    config = tomllib.loads((ROOT / "samconfig.toml").read_text())
    given = dict(pair.split("=", 1) for pair in config["default"]["deploy"]["parameters"]["parameter_overrides"])
    parameters = template_as_written()["Parameters"]
    assert given.keys() <= parameters.keys()
    # Without a default: what a first deployment has to say.
    assert {name for name, parameter in parameters.items() if "Default" not in parameter} <= given.keys()
    assert given["RedriveMode"] == "observe"
    # Else the alarms call nobody, and nobody can replay.
    assert {"AlarmTopicArn", "PageTopicArn", "RequeueSenderArns"} <= given.keys()


def test_guide_leads_from_nothing_to_a_stack_that_is_active():
    """Its steps name, in this order, what a stack needs that calls somebody and lets somebody replay."""
    guide = (ROOT / "docs" / "guide" / "deploying.md").read_text()
    steps = guide.split("## From nothing to active\n")[1].split("\n## ")[0]
    numbered = dict(re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |\Z)", steps, re.MULTILINE | re.DOTALL))
    named = {
        "1": ["sns create-topic", "sns subscribe"],
        "2": ["RequeueSenderArns"],
        "3": ["AlarmTopicArn", "PageTopicArn", "RequeueSenderArns", "RedriveMode=observe"],
        "4": ["OperatorPolicyArn"],
        "5": ["operations.yaml", "ReplayRoleArn"],
        "6": ["redrivectl attach"],
        "7": ["redrivectl doctor", "set-alarm-state"],
        "9": ["RedriveMode=active", "ScheduleFrom"],
    }
    assert {step: [name for name in names if name not in numbered[step]] for step, names in named.items()} == {
        step: [] for step in named
    }
    outputs = template_as_written()["Outputs"]
    assert {"OperatorPolicyArn", "ArrivalAlarmName", "SubscriptionRedrivePolicy"} <= outputs.keys()


# --- what platform teams ask for


def test_archive_and_overrides_may_lie_in_a_bucket_that_is_there(world):
    s3, bucket = world.stack.client("s3"), world.name("own-archive")
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    deployment = world.deploy(policy(retries=1, delay=1), world.topic(), ExistingArchiveBucket=bucket)
    made = world.stack.client("cloudformation").describe_stack_resources(StackName=deployment.name)["StackResources"]
    assert "AWS::S3::Bucket" not in {resource["ResourceType"] for resource in made}
    assert deployment.outputs["ArchiveLocation"] == f"s3://{bucket}/dead-letters"
    letter = dead_letter(deployment, "a raw delivery")
    assert outcome(deployment, letter, "archived")
    assert [record["message"]["body"] for record in deployment.archive()] == ["a raw delivery"]
    allowed = allowed_to_function(world, deployment)
    kept = {f"{do} {what}" for do in ("read", "write") for what in ("waiting letters", "recoveries")}
    assert allowed == {"read overrides", "list control", "list replays", "write archive"} | kept


@pytest.mark.parametrize("given", [{"AccessLogBucket": "logs"}, {"ArchiveLockDays": 1}])
def test_a_bucket_that_is_there_keeps_its_settings(world, given):
    with pytest.raises(ClientError, match="apply only to a new bucket"):
        world.deploy(policy(retries=1, delay=1), world.topic(), ExistingArchiveBucket="own", **given)


@pytest.mark.parametrize("given,enabled", [({}, True), ({"EventSourceMappings": "disabled"}, False)])
def test_mappings_are_disabled_by_a_parameter(given, enabled):
    """The local stack enables every mapping that it makes."""
    resolver = Resolver(template_as_written(), {"TopicArns": "none"} | given)
    found = [resources()[name]["Properties"]["Enabled"] for name in ("DeadLetterMapping", "RequeueMapping")]
    assert [resolver.resolve(value) for value in found] == [enabled] * 2


def test_role_has_the_name_the_path_and_the_boundary_that_are_given(world):
    boundary = f"arn:aws:iam::{ACCOUNT}:policy/boundary"
    given = {"RolePath": "/teams/payments/", "PermissionsBoundaryArn": boundary, "RoleName": world.name("role")}
    deployment = world.deploy(policy(retries=1, delay=1), world.topic(), **given)
    arn = deployment.outputs["FunctionRoleArn"]
    assert arn.endswith(f":role/teams/payments/{world.name('role')}")
    assert ":policy/teams/payments/" in deployment.outputs["OperatorPolicyArn"]
    # The requeue's policy names the role with its path.
    _, document = policy_of(world, deployment.outputs["RequeueArn"])
    assert arn in json.dumps(document)
    # The local stack makes no boundary.
    assert resolved(**given)["RedriveFunctionRole"]["Properties"]["PermissionsBoundary"] == boundary
    plain = resolved()["RedriveFunctionRole"]["Properties"]
    assert "PermissionsBoundary" not in plain and "RoleName" not in plain


def test_new_bucket_is_logged_and_locked_where_that_is_asked_for():
    plain = resolved()["ArchiveBucket"]["Properties"]
    assert not {"LoggingConfiguration", "ObjectLockEnabled", "ObjectLockConfiguration"} & plain.keys()
    asked = resolved(AccessLogBucket="logs", ArchiveLockDays=30)["ArchiveBucket"]["Properties"]
    assert asked["LoggingConfiguration"]["DestinationBucketName"] == "logs"
    assert asked["ObjectLockEnabled"] is True
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 30}}
    assert asked["ObjectLockConfiguration"] == {"ObjectLockEnabled": "Enabled", "Rule": rule}


def test_log_group_has_the_key_that_is_given():
    properties = resources()["RedriveFunctionLogs"]["Properties"]
    key = "arn:aws:kms:eu-central-1:123456789012:key/1"
    assert (
        Resolver(template_as_written(), {"TopicArns": "none", "LogKmsKeyArn": key}).resolve(properties["KmsKeyId"])
        == key
    )


def test_the_archive_forgets_in_the_end():
    rules = resolved()["ArchiveBucket"]["Properties"]["LifecycleConfiguration"]["Rules"]
    assert {"dead-letters/": 365}.items() <= {r.get("Prefix"): r.get("ExpirationInDays") for r in rules}.items()


def test_no_mapping_has_pollers_of_its_own():
    """Lambda takes no MaximumConcurrency with them, by which the function divides its rates.

    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
    """
    for name in ("DeadLetterMapping", "RequeueMapping"):
        properties = resources()[name]["Properties"]
        assert "MaximumConcurrency" in properties["ScalingConfig"] and "ProvisionedPollerConfig" not in properties


@pytest.mark.parametrize("given,told", [({}, None), ({"InFlightLimit": 500_000}, 500_000)])
def test_function_is_told_of_a_limit_in_flight_that_support_has_raised(given, told):
    """Otherwise it moves letters to the requeue, and warns, as if SQS allowed 120,000. An alarm can follow."""
    variables = made(**given)["RedriveFunction"]["Properties"]["Environment"]["Variables"]
    assert variables.get("IN_FLIGHT_LIMIT") == told
    most = template_as_written()["Parameters"]["InFlightLimit"]["MaxValue"]
    for name in ("template.yaml", "queues.yaml"):
        assert template_as_written(name)["Parameters"]["InFlightWarning"]["MaxValue"] == most


@pytest.mark.parametrize("given,told", [({}, "Allow"), ({"RecursiveLoop": "off"}, None)])
def test_lambda_is_told_of_the_loop_where_it_knows_that_setting(given, told):
    assert made(**given)["RedriveFunction"]["Properties"].get("RecursiveLoop") == told


def test_log_group_has_a_name_that_lambda_gives_to_none(world):
    """`cargo lambda deploy sns-redrive` leaves /aws/lambda/sns-redrive behind; the stack has that name too."""
    topic = world.topic()
    world.stack.client("logs").create_log_group(logGroupName=f"/aws/lambda/{world.prefix}")
    deployment = world.deploy(policy(retries=1, delay=1), topic)
    assert deployment.outputs["LogGroupName"] == f"/sns-redrive/{world.prefix}"
    letter = dead_letter(deployment, "a raw delivery")
    assert outcome(deployment, letter, "archived")


# --- what comes and goes with the stack


def resources():
    return template_as_written()["Resources"]


def named_in(node):
    """Everything that a part of the template refers to, by any name in it."""
    if isinstance(node, dict):
        inner = set().union(*map(named_in, node.values())) if node else set()
        return inner | ({node["Ref"]} if isinstance(node.get("Ref"), str) else set())
    if isinstance(node, list):
        return set().union(*map(named_in, node)) if node else set()
    # !GetAtt and !Sub, with what is behind the dot.
    return {name.split(".")[0] for name in re.findall(r"\w+(?:\.\w+)?", str(node))}


def made(**parameters):
    """The resources that these parameters make, resolved but for their names."""
    template = template_as_written()
    pseudo = {"AWS::Region": "x", "AWS::StackName": "stack"}
    resolver = Resolver(template, {"TopicArns": "none"} | parameters, names=NamesOfAll(), pseudo=pseudo)
    return {
        name: resolver.resolve(resource)
        for name, resource in template["Resources"].items()
        if "Condition" not in resource or resolver.holds(resource["Condition"])
    }


def waits_for(name, among, found=None):
    """What has to be there before a resource is made."""
    found = set() if found is None else found
    resource = among[name]
    for other in (named_in([resource.get("Properties", {}), resource.get("DependsOn", [])]) & among.keys()) - found:
        found.add(other)
        waits_for(other, among, found)
    return found


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"Alarms": "essential"},
        {"Overrides": "off"},
        {"Requeue": "off"},
        {"QueueType": "fifo"},
        {"ExistingDeadLetterQueueArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:dlq", "ExistingArchiveBucket": "own"},
        {"PageTopicArn": f"arn:aws:sns:{REGION}:{ACCOUNT}:pages"},
    ],
    ids=str,
)
def test_the_mapping_of_the_dead_letter_queue_is_made_last(parameters):
    """Before that no letter moves, so a creation that fails deletes none."""
    resources = made(**parameters)
    assert resources.keys() - waits_for("DeadLetterMapping", resources) == {"DeadLetterMapping"}
    assert "Requeue" in parameters or "RequeuePolicy" in waits_for("RequeueMapping", resources)


# https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html
TAG_VALUE = re.compile(r"[\w\s.:/=+@-]{0,256}")


def test_tags_that_make_the_mapping_wait_are_values_of_tags():
    """A path may have 512 characters, and some that a tag may not."""
    arn = f"arn:aws-iso-b:iam::{ACCOUNT}:policy/{'!' * 510}/{'n' * 128}"
    alarm = f"arn:aws-iso-b:cloudwatch:us-isob-east-1:{ACCOUNT}:alarm:{'n' * 255}"
    resolver = Resolver(
        template_as_written(),
        {"TopicArns": "none", "PageTopicArn": "pages"},
        names=NamesOfAll(OperatorPolicy=arn, LettersInDangerAlarm=alarm),
    )
    tags = resolver.resolve(resources()["DeadLetterMapping"]["Properties"]["Tags"])
    assert len(tags) == 7
    assert [tag["Key"] for tag in tags if not TAG_VALUE.fullmatch(tag["Value"])] == []


# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
INLINE_CHARACTERS, MANAGED_CHARACTERS, MANAGED_POLICIES = 10_240, 6_144, 10
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
PARAMETER_BYTES = 4_096
TARGETS = {
    "TargetQueueArns": f"arn:aws:sqs:{REGION}:{ACCOUNT}:",
    "TargetTopicArns": f"arn:aws:sns:{REGION}:{ACCOUNT}:",
    "TargetFunctionArns": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:",
    "TargetStreamArns": f"arn:aws:firehose:{REGION}:{ACCOUNT}:deliverystream/",
    "TargetKmsKeyArns": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/",
}


def full(beginning, number=46):
    """The value of a parameter that lists as many ARNs, and is as long as it may be."""
    length = (PARAMETER_BYTES + 1) // number - 1
    return ",".join(f"{beginning}{nth:02}".ljust(length, "x") for nth in range(number))


def test_role_takes_as_many_targets_as_its_parameters_do():
    """Of the template as it is deployed: with everything else that a parameter can switch on."""
    given = {name: full(beginning) for name, beginning in TARGETS.items()} | {
        "TopicArns": "none",
        "NoticeTopicArn": f"arn:aws:sns:{REGION}:{ACCOUNT}:{'n' * 256}",
        "KmsKeyArn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/{'k' * 36}",
        "ExistingArchiveBucket": "b" * 63,
        "ArchivePrefix": "p" * 256,
        "SubnetIds": "subnet-0a1b",
        "SecurityGroupIds": "sg-0a1b",
        "Tracing": "Active",
        "Drill": "true",
        "DiscoverSubscription": "true",
    }
    assert all(PARAMETER_BYTES - 90 < len(given[name]) <= PARAMETER_BYTES for name in TARGETS)
    template = expand({}, given)
    pseudo = {"AWS::Partition": "aws", "AWS::Region": REGION, "AWS::AccountId": ACCOUNT, "AWS::StackName": "s" * 128}
    resolver = Resolver(template, given, names=NamesOfAll(RedriveFunctionLogs="l" * 512), pseudo=pseudo)

    def characters(document):
        # White space does not count.
        return len(json.dumps(resolver.resolve(document), separators=(",", ":")))

    role = template["Resources"]["RedriveFunctionRole"]["Properties"]
    assert sum(characters(policy["PolicyDocument"]) for policy in role["Policies"]) <= INLINE_CHARACTERS
    attached = resolver.resolve(role["ManagedPolicyArns"])
    assert len(attached) == len(TARGETS) - 1 < MANAGED_POLICIES
    for name in attached:
        assert characters(template["Resources"][name]["Properties"]["PolicyDocument"]) <= MANAGED_CHARACTERS
    # They are all there.
    said = json.dumps([role["Policies"], *(template["Resources"][name] for name in attached)])
    assert [name for name in TARGETS if f'{{"Ref": "{name}"}}' not in said] == []


# A changed word replaces a policy, since AWS cannot change its description, and the old one stays attached to roles.
# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-iam-managedpolicy.html
FROZEN_DESCRIPTIONS = {
    ("template.yaml", "OperatorPolicy"): "Overrides to sns-redrive",
    ("queues.yaml", "DrainQueuesPolicy"): "sns-redrive on further queues",
    ("queues.yaml", "WakePolicy"): "Overrides to sns-redrive on further queues",
}


def test_descriptions_of_managed_policies_never_change():
    described = {
        (name, logical): resource["Properties"]["Description"]
        for name in ("template.yaml", "operations.yaml", "queues.yaml")
        for logical, resource in template_as_written(name)["Resources"].items()
        if isinstance(resource, dict)
        and resource["Type"] == "AWS::IAM::ManagedPolicy"
        and "Description" in resource["Properties"]
    }
    assert described == FROZEN_DESCRIPTIONS


def test_resources_wait_by_name_for_none_that_a_condition_leaves_out():
    """AWS takes no such name in a DependsOn."""
    for name, resource in resources().items():
        named = resource.get("DependsOn", [])
        for other in [named] if isinstance(named, str) else named:
            assert resources()[other].get("Condition") in (None, resource.get("Condition")), (name, other)


KEPT = {
    "DeadLetterQueue",
    "RequeueQueue",
    "ArchiveBucket",
    "DeadLetterQueuePolicy",
    "RequeuePolicy",
    "ArchiveBucketPolicy",
}


def test_what_holds_letters_is_kept_with_its_policy_and_goes_with_a_creation_that_failed():
    told = {name: (r.get("DeletionPolicy"), r.get("UpdateReplacePolicy")) for name, r in resources().items()}
    assert {name for name, kept in told.items() if kept == ("RetainExceptOnCreate", "Retain")} == KEPT
    assert not [name for name in told.keys() - KEPT if "Retain" in str(told[name])]


def test_dead_letters_are_taken_when_the_stack_is_gone(world):
    topic = world.topic()
    deployment = world.deploy(policy(retries=1, delay=1), topic)
    arns = deployment.queue_arn, deployment.outputs["RequeueArn"]
    before = [policy_of(world, arn) for arn in arns]
    formation = world.stack.client("cloudformation")
    formation.delete_stack(StackName=deployment.name)

    def gone():
        try:
            return formation.describe_stacks(StackName=deployment.name)["Stacks"][0]["StackStatus"] == "DELETE_COMPLETE"
        except ClientError:
            return True

    wait_until(gone, 600, "the stack to be gone")
    world.deployments.clear()
    assert [policy_of(world, arn) for arn in arns] == before
    statements = before[0][1]["Statement"]
    assert [s["Condition"]["ArnLike"] for s in statements if s["Effect"] == "Allow"] == [{"aws:SourceArn": [topic]}]
    world.stack.client("s3").head_bucket(Bucket=deployment.outputs["ArchiveBucketName"])


def test_an_existing_queue_as_sqs_makes_it_will_do():
    """Lambda refuses a queue whose visibility timeout is shorter than the function's; SQS's default is 30 seconds.

    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
    """
    assert template_as_written()["Parameters"]["FunctionTimeout"]["Default"] <= 30
