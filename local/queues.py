"""Deploys queues.yaml beside a deployment: further dead-letter queues for its function."""

from ministack.services.cloudformation.language_extensions import apply

from local.deploy import create, template_as_written, with_batch_names, with_conditions, with_numbers, written
from local.metrics import lower_alarms


def expanded(values):
    """queues.yaml with a mapping and alarms for each queue, by the local stack's own AWS::LanguageExtensions."""
    template = apply(template_as_written("queues.yaml"), values)
    del template["Transform"]
    return template


def deploy_queues(deployment, arns, **parameters):
    """Deploys queues.yaml for these queues. Returns its outputs."""
    name = f"{deployment.name}-queues"
    parameters |= {"Stack": deployment.name, "DeadLetterQueueArns": arns}
    values = {key: written(value) for key, value in parameters.items()}
    template = with_conditions(with_batch_names(with_numbers(expanded(values), values)), values)
    lower_alarms(template, name, None)
    return create(deployment.stack, "s3://packages-shared", name, template, values)
