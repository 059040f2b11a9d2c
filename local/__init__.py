"""The local stack: SQS, SNS, S3, CloudFormation, CloudWatch and Lambda on this machine, without Docker and without an
AWS account. The demo, `make invoke` and the tests of `tests/stack` run on it.

stack.py        starts and stops it, and hands out clients
deploy.py       builds the function and deploys template.yaml itself
metrics.py      feeds its alarms what AWS would measure, and checks lines in the embedded metric format
intrinsics.py   resolves a template's functions, for what the stack itself does not create
subscribers.py  queues, web servers and functions that are subscribed to a topic
web.py          the web server among them, which records what it gets
sns.py          the dead letters that SNS would write
archived.py     letters in the archive, of earlier days
letters.py      what the function's log tells about a letter
console.py      the console of a deployment, through both of its doors
demo.py         `make demo`
overrides.py    what it does in the place of an operator
run.py          `make local`
invoke.py       `make invoke`
"""
