"""SQS queues and their policies in moto."""

import json
from collections.abc import Mapping
from typing import Any, Final

from tools.engine.providers import calls, wire
from tools.engine.providers.aws import cloud

QUEUE: Final = "aws:sqs/queue:Queue"
POLICY: Final = "aws:sqs/queuePolicy:QueuePolicy"
_ATTRIBUTES: Final[Mapping[str, str]] = {
    "contentBasedDeduplication": "ContentBasedDeduplication",
    "delaySeconds": "DelaySeconds",
    "fifoQueue": "FifoQueue",
    "kmsMasterKeyId": "KmsMasterKeyId",
    "maxMessageSize": "MaximumMessageSize",
    "messageRetentionSeconds": "MessageRetentionPeriod",
    "policy": "Policy",
    "receiveWaitTimeSeconds": "ReceiveMessageWaitTimeSeconds",
    "redrivePolicy": "RedrivePolicy",
    "sqsManagedSseEnabled": "SqsManagedSseEnabled",
    "visibilityTimeoutSeconds": "VisibilityTimeout",
}


def create(aws: cloud.Cloud, asked: calls.Create) -> calls.State:
    inputs: dict[str, Any] = wire.plain(asked.inputs)
    answer = aws.call(
        "sqs",
        "create_queue",
        QueueName=inputs["name"],
        Attributes=_attributes(inputs, frozenset(inputs)),
        tags=inputs.get("tags") or {},
    )
    url = str(answer["QueueUrl"])
    return calls.State(id=url, outputs=asked.inputs | _described(aws, url))


def read(aws: cloud.Cloud, asked: calls.Read) -> calls.State | None:
    answer = aws.find("sqs", "get_queue_attributes", QueueUrl=asked.id, AttributeNames=["All"])
    if answer is None:
        return None
    live = answer["Attributes"]
    inputs = dict(asked.old_inputs)
    for name, wire_name in _ATTRIBUTES.items():
        if name in inputs and wire_name in live and _sent(wire.plain(inputs[name])) != live[wire_name]:
            inputs[name] = live[wire_name]
    return calls.State(id=asked.id, outputs=asked.old_outputs | inputs, inputs=inputs)


def update(aws: cloud.Cloud, asked: calls.Update) -> calls.State:
    inputs: dict[str, Any] = wire.plain(asked.inputs)
    attributes = _attributes(inputs, asked.changed)
    if attributes:
        aws.call("sqs", "set_queue_attributes", QueueUrl=asked.id, Attributes=attributes)
    if "tags" in asked.changed:
        old = wire.plain(asked.old_inputs).get("tags") or {}
        new = inputs.get("tags") or {}
        if new:
            aws.call("sqs", "tag_queue", QueueUrl=asked.id, Tags=new)
        if old.keys() - new.keys():
            aws.call("sqs", "untag_queue", QueueUrl=asked.id, TagKeys=sorted(old.keys() - new.keys()))
    return calls.State(id=asked.id, outputs=asked.old_outputs | asked.inputs)


def delete(aws: cloud.Cloud, asked: calls.Delete) -> None:
    aws.find("sqs", "delete_queue", QueueUrl=asked.id)


def create_policy(aws: cloud.Cloud, asked: calls.Create) -> calls.State:
    url = str(wire.plain(asked.inputs)["queueUrl"])
    _set_policy(aws, url, wire.plain(asked.inputs)["policy"])
    return calls.State(id=url, outputs=asked.inputs)


def read_policy(aws: cloud.Cloud, asked: calls.Read) -> calls.State | None:
    answer = aws.find("sqs", "get_queue_attributes", QueueUrl=asked.id, AttributeNames=["Policy"])
    if answer is None or not answer.get("Attributes", {}).get("Policy"):
        return None
    return calls.State(id=asked.id, outputs=asked.old_outputs, inputs=asked.old_inputs)


def update_policy(aws: cloud.Cloud, asked: calls.Update) -> calls.State:
    _set_policy(aws, asked.id, wire.plain(asked.inputs)["policy"])
    return calls.State(id=asked.id, outputs=asked.inputs)


def delete_policy(aws: cloud.Cloud, asked: calls.Delete) -> None:
    aws.find("sqs", "set_queue_attributes", QueueUrl=asked.id, Attributes={"Policy": ""})


def _attributes(inputs: Mapping[str, Any], names: frozenset[str]) -> dict[str, str]:
    return {
        wire_name: _sent(inputs[name])
        for name, wire_name in _ATTRIBUTES.items()
        if name in names and inputs.get(name) is not None
    }


def _sent(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, (dict, list)) else str(value)


def _described(aws: cloud.Cloud, url: str) -> wire.Properties:
    live = aws.call("sqs", "get_queue_attributes", QueueUrl=url, AttributeNames=["QueueArn"])
    return {"url": url, "arn": live["Attributes"]["QueueArn"]}


def _set_policy(aws: cloud.Cloud, url: str, policy: object) -> None:
    aws.call("sqs", "set_queue_attributes", QueueUrl=url, Attributes={"Policy": _sent(policy)})
