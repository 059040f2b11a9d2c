"""The role that deploys template.yaml: the policy in docs/reference/permissions.md, by the local stack's IAM."""

import functools
import json
import re
from pathlib import Path

import cfnlint

from local.deploy import expand
from local.stack import ACCOUNT, REGION, ROOT

MANAGED_CHARACTERS = 6_144
# How CloudFormation names what the stack makes, and where the package is.
STACK = "sns-redrive"
BUCKET = f"arn:aws:s3:::{STACK}-archivebucket-1a2b"
FUNCTION = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{STACK}-RedriveFunction-1a2b"
MAPPING = f"arn:aws:lambda:{REGION}:{ACCOUNT}:event-source-mapping:0f0e0d0c-1a2b-3c4d-5e6f-778899aabbcc"
LOG_GROUP = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/sns-redrive/{STACK}"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/{STACK}-RedriveFunctionRole-1a2b"
POLICY = f"arn:aws:iam::{ACCOUNT}:policy/{STACK}-OperatorPolicy-1a2b"
ALARM = f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{STACK}-UndeliveredAlarm-1a2b"
QUEUE = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{STACK}-DeadLetterQueue-1a2b"
PACKAGE = "arn:aws:s3:::my-releases/sns-redrive/0.1.0/sns-redrive-arm64.zip"
THE_STACK = f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{STACK}/1a2b"
TRANSFORM = f"arn:aws:cloudformation:{REGION}:aws:transform/Serverless-2016-10-31"

# What a type's handlers may do for a property that the template's resources do not have; by the property.
FOR_OTHER_PROPERTIES = {
    "AWS::S3::Bucket": {
        "AbacStatus": ["s3:PutBucketAbac"],
        "AccelerateConfiguration": ["s3:PutAccelerateConfiguration"],
        "AccessControl": ["s3:PutBucketAcl", "s3:PutObjectAcl"],
        "AnalyticsConfigurations": ["s3:PutAnalyticsConfiguration", "s3:DeleteBucketAnalyticsConfiguration"],
        "CorsConfiguration": ["s3:PutBucketCORS", "s3:DeleteBucketCors"],
        "IntelligentTieringConfigurations": ["s3:PutIntelligentTieringConfiguration"],
        "InventoryConfigurations": ["s3:PutInventoryConfiguration"],
        "MetadataTableConfiguration": [r"s3tables:\w+", r"s3:(Create|Delete|Update)BucketMetadata\w+"],
        "MetricsConfigurations": ["s3:PutMetricsConfiguration", "s3:DeleteBucketMetricsConfiguration"],
        "NotificationConfiguration": ["s3:PutBucketNotification"],
        "ReplicationConfiguration": [r"s3:(Put|Delete)(Bucket)?Replication(Configuration)?", "iam:PassRole"],
        "WebsiteConfiguration": ["s3:PutBucketWebsite", "s3:DeleteBucketWebsite", "s3:DeleteObject"],
    },
    "AWS::Lambda::Function": {
        "CapacityProviderConfig": [
            "lambda:PassCapacityProvider",
            "lambda:PutFunctionScalingConfig",
            "lambda:PublishVersion",
        ],
        "CodeSigningConfigArn": [r"lambda:(GetCodeSigningConfig|(Put|Delete)FunctionCodeSigningConfig)"],
        "FileSystemConfigs": ["elasticfilesystem:DescribeMountTargets", "s3files:ListMountTargets"],
        "KmsKeyArn": [r"kms:\w+"],
        "Layers": ["lambda:GetLayerVersion"],
        "ReservedConcurrentExecutions": ["lambda:PutFunctionConcurrency", "lambda:DeleteFunctionConcurrency"],
        "RuntimeManagementConfig": ["lambda:PutRuntimeManagementConfig"],
    },
    "AWS::Lambda::EventSourceMapping": {"KmsKeyArn": [r"kms:\w+"]},
    "AWS::Logs::LogGroup": {
        "BearerTokenAuthenticationEnabled": ["logs:PutBearerTokenAuthentication"],
        "DataProtectionPolicy": [
            r"logs:(Put|Delete)DataProtectionPolicy",
            "logs:CreateLogDelivery",
            "firehose:TagDeliveryStream",
        ],
        "DeletionProtectionEnabled": ["logs:PutLogGroupDeletionProtection"],
        "FieldIndexPolicies": [r"logs:(Put|Delete)IndexPolicy"],
        "ResourcePolicyDocument": [r"logs:(Put|Delete)ResourcePolicy"],
    },
    "AWS::IAM::ManagedPolicy": {
        "Groups": [r"iam:(At|De)tachGroupPolicy"],
        "Users": [r"iam:(At|De)tachUserPolicy"],
    },
}
# IAM has no such action: it has one for writing that also permits to delete, and no name like the last.
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
NO_ACTIONS = {
    "s3:DeleteBucketEncryption",
    "s3:DeleteBucketLifecycle",
    "s3:PutObjectLockConfiguration",
    "s3:REST.PUT.OBJECT",
}
# What whoever calls CloudFormation and uploads the package does himself.
BY_THE_CALLER = {
    ("cloudformation:CreateChangeSet", THE_STACK),
    ("cloudformation:CreateChangeSet", TRANSFORM),
    ("cloudformation:DescribeChangeSet", THE_STACK),
    ("cloudformation:ExecuteChangeSet", THE_STACK),
    ("cloudformation:DeleteChangeSet", THE_STACK),
    ("cloudformation:DescribeStacks", THE_STACK),
    ("cloudformation:DescribeStackEvents", THE_STACK),
    ("cloudformation:ListStackResources", THE_STACK),
    ("cloudformation:DeleteStack", THE_STACK),
    ("cloudformation:GetTemplateSummary", "*"),
    ("s3:PutObject", PACKAGE),
    ("s3:GetObject", PACKAGE),
}


@functools.cache
def handlers():
    """What AWS's own handlers of each resource type may call, by type: they ship with cfn-lint."""
    folder = Path(cfnlint.__file__).parent / "data" / "schemas" / "resources"
    schemas = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    return {
        schema["typeName"]: {
            # One of them is spelled with a capital.
            re.sub("^S3:", "s3:", action)
            for handler in ("create", "read", "update", "delete")
            for action in schema.get("handlers", {}).get(handler, {}).get("permissions", [])
        }
        | set((schema.get("tagging") or {}).get("permissions", []))
        for schema in schemas
        if "typeName" in schema
    }


@functools.cache
def resources():
    """The resources of the template as it is deployed, by type: each with the names of its properties."""
    found = {}
    for resource in expand({}, {"TopicArns": "none"})["Resources"].values():
        found.setdefault(resource["Type"], set()).update(resource["Properties"])
    return found


def needed():
    """Every action that the template's deployment needs, with a resource that it is for."""
    needs = set(BY_THE_CALLER)
    for kind in resources():
        others = [pattern for patterns in FOR_OTHER_PROPERTIES.get(kind, {}).values() for pattern in patterns]
        for action in handlers()[kind] - NO_ACTIONS:
            if not any(re.fullmatch(pattern, action) for pattern in others):
                needs.add((action, resource_of(kind, action)))
    return needs


def resource_of(kind, action):
    """The resource of an action: * where IAM knows none.

    https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
    """
    service = action.split(":")[0]
    unbound = r"ec2:.*|logs:Describe.*|cloudwatch:DescribeAlarms|lambda:CreateEventSourceMapping"
    if re.fullmatch(unbound, action):
        return "*"
    if service == "iam":
        return POLICY if kind == "AWS::IAM::ManagedPolicy" and "Role" not in action else ROLE
    if service == "lambda":
        return MAPPING if kind == "AWS::Lambda::EventSourceMapping" else FUNCTION
    if service == "s3":
        return PACKAGE if kind == "AWS::Lambda::Function" else BUCKET
    return {"sqs": QUEUE, "logs": LOG_GROUP, "cloudwatch": ALARM}[service]


def documented():
    """The policy of the page."""
    page = (ROOT / "docs" / "reference" / "permissions.md").read_text()
    return json.loads(re.search(r"## Whoever deploys\n.*?```json\n(.*?)```", page, re.DOTALL)[1])


def allowed(stack, asked):
    """Those of the actions and resources that the page's policy allows."""
    # The local stack takes no values for conditions.
    statements = [
        {key: value for key, value in statement.items() if key != "Condition"}
        for statement in documented()["Statement"]
    ]
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
    by_resource = {}
    for action, resource in asked:
        by_resource.setdefault(resource, []).append(action)
    found = set()
    for resource, actions in by_resource.items():
        told = stack.client("iam").simulate_custom_policy(
            PolicyInputList=[policy], ActionNames=sorted(actions), ResourceArns=[resource]
        )
        found |= {
            (result["EvalActionName"], resource)
            for result in told["EvaluationResults"]
            if result["EvalDecision"] == "allowed"
        }
    return found


def test_the_documented_policy_allows_every_action_of_a_deployment(stack):
    assert len(needed()) > 90
    assert needed() - allowed(stack, needed()) == set()


def test_it_allows_nothing_on_what_belongs_to_others(stack):
    def of_others(resource):
        return resource.replace(f"{STACK}-", "other-").replace(f"/{STACK}", "/other").replace("my-releases", "other")

    # Of a mapping only the function's name says whose it is: the condition of a statement.
    asked = {
        (action, of_others(resource)) for action, resource in needed() if resource not in ("*", MAPPING, TRANSFORM)
    }
    assert allowed(stack, asked) == set()
    conditions = [s["Condition"] for s in documented()["Statement"] if "Condition" in s]
    assert conditions == [{"ArnLike": {"lambda:FunctionArn": FUNCTION.replace("RedriveFunction-1a2b", "*")}}]


def test_it_allows_no_action_that_a_deployment_does_not_need():
    def is_needed(pattern):
        return any(re.fullmatch(pattern.replace("*", ".*"), action) for action, _ in needed())

    actions = [action for s in documented()["Statement"] for action in s["Action"]]
    assert [action for action in actions if not is_needed(action)] == []


def test_it_fits_into_a_managed_policy():
    assert len(json.dumps(documented(), separators=(",", ":"))) <= MANAGED_CHARACTERS


def test_what_is_left_out_is_for_properties_that_the_template_does_not_have():
    """Whoever adds such a property, or a newer handler, has to look at the policy again."""
    for kind, by_property in FOR_OTHER_PROPERTIES.items():
        assert by_property.keys() & resources()[kind] == set(), kind
        for pattern in (pattern for patterns in by_property.values() for pattern in patterns):
            assert any(re.fullmatch(pattern, action) for action in handlers()[kind]), (kind, pattern)
    assert set().union(*(handlers()[kind] for kind in resources())) >= NO_ACTIONS
