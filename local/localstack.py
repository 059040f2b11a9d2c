"""`make drill`: `redrivectl drill` on LocalStack, which really gives up on deliveries and writes dead letters.

Its Lambda needs Docker, so the mapping is ours: the built function runs as a process, with a runtime API around it, and
gets what lies in the queues that template.yaml makes. Policies are not checked here, but on the tests' local stack.

What `--record` writes here are LocalStack's answers. crates/sim/tests/recorded has those of AWS.
"""

import http.server
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from local.deploy import built_function, template_as_written, with_conditions
from local.stack import REGION, ROOT, StackError, loopback_socket, stop_on_signals, wait_until

# An access key of twelve digits is the account, for LocalStack.
ACCOUNT = "123456789012"
STACK = "payments"
# What of template.yaml the drill meets and LocalStack can make.
RESOURCES = ["DeadLetterQueue", "DeadLetterQueuePolicy", "RequeueQueue", "ArchiveBucket", "RedriveFunctionLogs"]
OUTPUTS = ["DeadLetterQueueArn", "RequeueArn", "ArchiveLocation", "ControlLocation", "LogGroupName"]
READY_WITHIN = 120
FUNCTION_SECONDS = 30


def main():
    stop_on_signals()
    python = ROOT / "local" / ".localstack" / "bin" / "python"
    try:
        with tempfile.TemporaryDirectory(prefix="sns-redrive-") as home, LocalStack(python, Path(home)) as cloud:
            outputs = deploy(cloud)
            with Function(cloud, outputs):
                # What is deleted there is gone at once.
                drill = ["drill", "--stack", STACK, "--yes", "--settle", "5", "--within", "5m", *sys.argv[1:]]
                command = [built_function().with_name("redrivectl"), *drill]
                code = subprocess.run(command, env=os.environ | cloud.environment(), check=False).returncode
                left = cloud.left()
    except KeyboardInterrupt:
        return 130
    except (StackError, TimeoutError, OSError, BotoCoreError, ClientError) as error:
        print(f"make drill: {error}", file=sys.stderr)
        return 1
    if left:
        print(f"make drill: the drill has left {', '.join(left)}", file=sys.stderr)
    return 1 if left else code


class LocalStack:
    """`with LocalStack(python, home) as cloud:` is LocalStack on a free port of loopback."""

    def __init__(self, python, home):
        self.python, self.home, self.process = python, home, None
        with loopback_socket() as free:
            self.endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"

    def environment(self):
        """What a client or the function needs to come here."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCOUNT,
            "AWS_SECRET_ACCESS_KEY": "test",
        }

    def client(self, service):
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=ACCOUNT,
            aws_secret_access_key="test",
            config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
        )

    def __enter__(self):
        own = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "GATEWAY_LISTEN": self.endpoint.removeprefix("http://"),
            # Else it writes below /var.
            "OVERRIDE_IN_DOCKER": "0",
            "FILESYSTEM_ROOT": str(self.home / "localstack"),
            "SERVICES": "cloudformation,logs,s3,sns,sqs,sts",
            "DISABLE_EVENTS": "1",
            "SKIP_SSL_CERT_DOWNLOAD": "1",
        }
        with (self.home / "localstack.log").open("wb") as log:
            self.process = subprocess.Popen(
                [self.python, "-m", "localstack.runtime.main"],
                env=own,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            wait_until(self._answers, READY_WITHIN, "LocalStack to answer")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _answers(self):
        if self.process.poll() is not None:
            raise StackError((self.home / "localstack.log").read_text()[-3000:])
        try:
            urllib.request.urlopen(f"{self.endpoint}/_localstack/health", timeout=2).close()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False
        return True

    def left(self):
        """The topics, subscriptions and queues of drills."""
        sns, prefix = self.client("sns"), f"{STACK}-drill-"
        found = [topic["TopicArn"] for topic in sns.list_topics()["Topics"]]
        found += [one["SubscriptionArn"] for one in sns.list_subscriptions()["Subscriptions"]]
        found += self.client("sqs").list_queues(QueueNamePrefix=prefix).get("QueueUrls", [])
        return [name for name in found if prefix in name]


def deploy(cloud):
    """Makes what RESOURCES names of template.yaml. Returns the outputs of the stack."""
    values = {"TopicArns": f"arn:aws:sns:{REGION}:{ACCOUNT}:{STACK}", "Drill": "true"}
    template = with_conditions(template_as_written(), values)
    template["Resources"] = {name: template["Resources"][name] for name in RESOURCES}
    template["Outputs"] = {name: template["Outputs"][name] for name in OUTPUTS}
    # It cannot look up what a number is the key of.
    for name in ("DeadLetterQueue", "RequeueQueue"):
        template["Resources"][name]["Properties"]["VisibilityTimeout"] = 6 * FUNCTION_SECONDS
    for part in ("Transform", "Rules", "Metadata"):
        del template[part]
    formation = cloud.client("cloudformation")
    parameters = [{"ParameterKey": key, "ParameterValue": value} for key, value in values.items()]
    formation.create_stack(StackName=STACK, TemplateBody=json.dumps(template), Parameters=parameters)

    def settled():
        described = formation.describe_stacks(StackName=STACK)["Stacks"][0]
        return None if described["StackStatus"].endswith("_IN_PROGRESS") else described

    described = wait_until(settled, 60, "the stack")
    if described["StackStatus"] != "CREATE_COMPLETE":
        raise StackError(
            f"deploying the stack failed, it is {described['StackStatus']}: {described.get('StackStatusReason')}"
        )
    return {output["OutputKey"]: output["OutputValue"] for output in described["Outputs"]}


class Function:
    """The built function as a process, the runtime API that it asks for events, and the mapping of the two queues."""

    def __init__(self, cloud, outputs):
        self.cloud, self.outputs = cloud, outputs
        self.events, self.answers = queue.SimpleQueue(), queue.SimpleQueue()
        self.ends = threading.Event()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), runtime_api(self))
        self.process = None

    def __enter__(self):
        settings = {
            "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self.server.server_port}",
            "AWS_LAMBDA_FUNCTION_NAME": STACK,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "256",
            "AWS_LAMBDA_FUNCTION_VERSION": "1",
            "AWS_LAMBDA_LOG_FORMAT": "JSON",
            "ARCHIVE": self.outputs["ArchiveLocation"],
            "CONTROL": self.outputs["ControlLocation"],
            "REQUEUE_ARN": self.outputs["RequeueArn"],
        }
        self.process = subprocess.Popen(
            [built_function()],
            env=self.cloud.environment() | settings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        for run in (self.server.serve_forever, self.poll, self.pass_on_the_log):
            threading.Thread(target=run, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.process.kill()
        self.process.wait()
        self.server.shutdown()

    def poll(self):
        """Hands over what lies in the queues, and deletes what is not among the failures."""
        sqs = self.cloud.client("sqs")
        arns = [self.outputs["DeadLetterQueueArn"], self.outputs["RequeueArn"]]
        urls = [(arn, sqs.get_queue_url(QueueName=arn.rsplit(":", 1)[1])["QueueUrl"]) for arn in arns]
        while not self.ends.is_set():
            for arn, url in urls:
                messages = sqs.receive_message(
                    QueueUrl=url,
                    MaxNumberOfMessages=10,
                    WaitTimeSeconds=1,
                    MessageAttributeNames=["All"],
                    MessageSystemAttributeNames=["All"],
                ).get("Messages", [])
                if messages:
                    self.hand_over(sqs, arn, url, messages)

    def hand_over(self, sqs, arn, url, messages):
        self.events.put({"Records": [record(arn, message) for message in messages]})
        answer = self.answers.get()
        kept = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]} if answer else None
        for message in messages:
            # Of an invocation that failed all stay.
            if kept is not None and message["MessageId"] not in kept:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    def pass_on_the_log(self):
        logs, place = self.cloud.client("logs"), {"logGroupName": self.outputs["LogGroupName"], "logStreamName": "1"}
        logs.create_log_stream(**place)
        for line in self.process.stdout:
            event = {"timestamp": int(time.time() * 1000), "message": line.decode().rstrip("\n")}
            logs.put_log_events(**place, logEvents=[event])


def record(arn, message):
    """A message as Lambda's event has it."""
    attributes = {
        name: {
            "dataType": value["DataType"],
            **({"stringValue": value["StringValue"]} if "StringValue" in value else {}),
        }
        for name, value in message.get("MessageAttributes", {}).items()
    }
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "messageAttributes": attributes,
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": REGION,
    }


def runtime_api(function):
    """Lambda's runtime API: https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            body = json.dumps(function.events.get()).encode()
            deadline = int((time.time() + FUNCTION_SECONDS) * 1000)
            headers = {
                "Lambda-Runtime-Aws-Request-Id": str(uuid.uuid4()),
                "Lambda-Runtime-Deadline-Ms": str(deadline),
                "Lambda-Runtime-Invoked-Function-Arn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{STACK}",
                "Content-Type": "application/json",
            }
            self.answer(200, body, headers)

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path.endswith("/response"):
                function.answers.put(json.loads(body))
            else:
                print(f"make drill: the function reports an error: {body.decode()}", file=sys.stderr)
                function.answers.put(None)
            self.answer(202, b"{}", {})

        def answer(self, status, body, headers):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return Handler


if __name__ == "__main__":
    sys.exit(main())
