"""A policy that is too long for a parameter: an object in S3, read by the function, the doctor and a replay."""

import json

import pytest
from botocore.exceptions import ClientError
from world import outcome, policy

from local.sns import dead_letter, envelope
from local.stack import REGION, wait_until
from local.tool import redrivectl

BUCKET = "policies"
HERE = {"LocationConstraint": REGION}


def long_policy(world):
    """A policy that archives the letters of one subject, and has many rules that match nothing here."""
    rules = [{"name": f"rule-{n}", "match": {"subject": [f"subject-{n}"]}} for n in range(100)]
    rules.append({"name": "never", "match": {"subject": ["never"]}, "action": "archive"})
    return json.dumps(policy(retries=3, delay=1, rules=rules))


def test_a_policy_that_is_too_long_for_a_parameter_is_read_from_s3(world):
    s3, key = world.stack.client("s3"), world.name("policy.json")
    try:
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration=HERE)
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
            raise
    document = long_policy(world)
    assert len(document) > 3072
    s3.put_object(Bucket=BUCKET, Key=key, Body=document)
    topic, uri = world.topic(), f"s3://{BUCKET}/{key}"
    deployment = world.deploy("", topic, RedrivePolicyUri=uri)
    worker = world.subscribe("worker", topic, deployment.queue_arn)
    letter = dead_letter(deployment, envelope(topic, worker.subscription_arn, "m", subject="never"))
    assert outcome(deployment, letter, "archived")["rule"] == "never"
    read = [line for line in deployment.log_lines() if line.get("message") == "policy read"]
    assert read[0]["policy.uri"] == uri
    assert len(read[0]["policy.digest"]) == 16

    # Whoever replays needs the right to read it.
    shown = redrivectl(deployment, "replay", "--all", "--dry-run", "--json", "--stack", deployment.name)
    assert f"reading the policy {uri} (s3:GetObject) failed: AccessDenied" in shown.stderr, shown.stderr


@pytest.mark.parametrize("body", [None, "not a policy"])
def test_without_its_policy_the_function_touches_no_letter(world, body):
    s3, bucket = world.stack.client("s3"), world.name("bucket")
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration=HERE)
    if body:
        s3.put_object(Bucket=bucket, Key="policy.json", Body=body)
    topic = world.topic()
    deployment = world.deploy("", topic, RedrivePolicyUri=f"s3://{bucket}/policy.json")
    worker = world.subscribe("worker", topic, deployment.queue_arn)
    # For so long a failed invocation leaves its letters hidden. Not the template's 180 s.
    world.stack.client("sqs").set_queue_attributes(QueueUrl=deployment.queue_url, Attributes={"VisibilityTimeout": "5"})
    letter = dead_letter(deployment, envelope(topic, worker.subscription_arn, "m", subject="never"))

    def told():
        return [line for line in deployment.log_lines() if line.get("message") == "policy not read"]

    wait_until(told, 20, "the function to say that it has no policy")
    assert deployment.outcomes(letter) == []
    assert deployment.waiting() == 1
    s3.put_object(Bucket=bucket, Key="policy.json", Body=long_policy(world))
    assert outcome(deployment, letter, "archived", within=60)["rule"] == "never"
