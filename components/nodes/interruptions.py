"""What AWS tells about instances before or when it takes them: events, gathered in a queue that the runtime reads.

Rules cannot ask for an instance's tags, so most of them match all instances of the account's region; the runtime
leaves what is not its own. Events of Auto Scaling are matched by the group's name, which begins with the cluster's.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi
import pulumi_aws as aws

from components.access import policies
from components.place import Place

RETENTION_SECONDS: Final = 3600
"""Maintenance is announced once, days ahead: the news must survive an absence of the runtime. So do spot warnings,
which tell of instances that are gone after two minutes: whoever reads an old one has nothing to do."""
LONG_POLL_SECONDS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptionsArgs:
    """Whose instances."""

    place: Place


class Interruptions(pulumi.ComponentResource):
    """A queue, and the rules that fill it."""

    def __init__(self, name: str, args: InterruptionsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:Interruptions", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        owned = args.place.owned
        queue = aws.sqs.Queue(
            name,
            name=f"{args.place.cluster}-interruptions",
            message_retention_seconds=RETENTION_SECONDS,
            receive_wait_time_seconds=LONG_POLL_SECONDS,
            sqs_managed_sse_enabled=True,
            tags=owned,
            opts=child,
        )
        rules = {
            key: aws.cloudwatch.EventRule(
                f"{name}.{key}",
                description=f"{key} of cluster {args.place.cluster}",
                event_pattern=json.dumps(pattern),
                tags=owned,
                opts=child,
            )
            for key, pattern in patterns(args.place.cluster).items()
        }
        policy = aws.sqs.QueuePolicy(name, queue_url=queue.url, policy=_policy(queue, rules), opts=child)
        after = pulumi.ResourceOptions(parent=self, depends_on=[policy])
        for key, rule in rules.items():
            aws.cloudwatch.EventTarget(f"{name}.{key}", rule=rule.name, arn=queue.arn, opts=after)
        self.queue_url, self.queue_arn = queue.url, queue.arn
        self.register_outputs({"queueUrl": queue.url})


def patterns(cluster: str) -> dict[str, dict[str, Any]]:
    """Write the events to gather, by what they are."""
    return {
        "spot": _ec2("EC2 Spot Instance Interruption Warning"),
        "rebalance": _ec2("EC2 Instance Rebalance Recommendation"),
        "state": {
            **_ec2("EC2 Instance State-change Notification"),
            "detail": {"state": ["stopping", "stopped", "shutting-down", "terminated"]},
        },
        "groups": {
            "source": ["aws.autoscaling"],
            "detail-type": [
                "EC2 Instance Launch Successful",
                "EC2 Instance Launch Unsuccessful",
                "EC2 Instance Terminate Successful",
                "EC2 Instance Terminate Unsuccessful",
            ],
            "detail": {"AutoScalingGroupName": [{"prefix": f"{cluster}."}]},
        },
        "health": {
            "source": ["aws.health"],
            "detail-type": ["AWS Health Event"],
            "detail": {"service": ["EC2"], "eventTypeCategory": ["scheduledChange"]},
        },
    }


def _ec2(kind: str) -> dict[str, Any]:
    return {"source": ["aws.ec2"], "detail-type": [kind]}


def _policy(queue: aws.sqs.Queue, rules: Mapping[str, aws.cloudwatch.EventRule]) -> pulumi.Output[str]:
    """Let these rules, and nobody else, send to the queue."""
    arns = pulumi.Output.all(queue.arn, *[rule.arn for rule in rules.values()])
    return arns.apply(
        lambda found: json.dumps(policies.interruption_queue(queue_arn=found[0], rule_arns=found[1:]), sort_keys=True)
    )
