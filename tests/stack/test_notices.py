"""A topic is told of archived letters, each subscriber in a form that it can read."""

import json

from world import arrived, outcome, policy

from local.sns import dead_letter, envelope
from local.stack import wait_until


def test_notice_says_which_letters_were_archived(world):
    topic, notices = world.topic(), world.topic("notices")
    deployment = world.deploy(policy(retries=1, delay=1), topic, queues=["billing"], NoticeTopicArn=notices)
    billing = world.subscribe("billing", topic, deployment.queue_arn)
    on_call = world.subscribe("on-call", notices, world.queue_arn("on-call-dlq"))
    pager = world.subscribe_web("pager", notices, world.queue_arn("on-call-dlq"))
    billing.unplug()

    letter = dead_letter(deployment, envelope(topic, billing.subscription_arn, "a secret"))

    assert outcome(deployment, letter, "archived")["reason"] == "exhausted"
    [message] = arrived(on_call)
    notice = json.loads(message["Body"])
    assert notice["Subject"] == "sns-redrive archived 1 letter: exhausted"
    attributes = {name: it["Value"] for name, it in notice["MessageAttributes"].items()}
    assert (attributes["kind"], json.loads(attributes["topicArn"])) == ("archived", [topic])
    told = json.loads(notice["Message"])
    [kind] = told["kinds"]
    assert (told["letters"], told["archive"]) == (1, deployment.outputs["ArchiveLocation"])
    assert (kind["topicArn"], kind["subscriptionArn"]) == (topic, billing.subscription_arn)
    assert (kind["reason"], kind["errorCode"].rsplit(".", 1)[-1]) == ("exhausted", "NonExistentQueue")
    assert "a secret" not in message["Body"]
    [post] = wait_until(pager.posts, 10, "the notice at a web server")
    assert json.loads(json.loads(post.body)["Message"]) == told
