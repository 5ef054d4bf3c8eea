"""The real world: the adapter for EC2 Auto Scaling on moto behind the ASG rules, over the wire."""

import asyncio
import base64
import contextlib
import functools
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3

from autoscaler.api import keys
from autoscaler.api.settings.node_groups import NodeGroupSpec
from autoscaler.cloud import port
from autoscaler.cloud.aws import ec2_accounts, ec2_autoscaling, ec2_calls, interruption_queue
from autoscaler.simulation.cloud.faults import Call, Effect
from tests.contract.cloud import worlds
from tools.local import ports
from tools.local.asg.asg_judge import Pace
from tools.local.asg.asg_orders import Trouble
from tools.local.asg.asg_rules import AsgRules

if TYPE_CHECKING:
    from mypy_boto3_autoscaling import AutoScalingClient
    from mypy_boto3_ec2 import EC2Client

REGION = "eu-west-1"
KEYS = ec2_accounts.AccessKeys(access_key_id="testing", secret_access_key="testing")
IMAGES = ("ami-12c6146b", "ami-1e749f67")
QUICK = ec2_calls.Patience(call_seconds=5.0, attempts=3, pause_seconds=0.02)
TROUBLES = {
    Effect.THROTTLE: Trouble.THROTTLE,
    Effect.REFUSE: Trouble.LOSE_REQUEST,
    Effect.LOSE_ANSWER: Trouble.LOSE_ANSWER,
    Effect.LOSE_REQUEST: Trouble.LOSE_REQUEST,
    Effect.DENY: Trouble.DENY,
}
READY_SECONDS = 30.0


@contextlib.contextmanager
def moto(log: Path) -> Iterator[str]:
    """Run a moto of our own and yield its URL."""
    [number] = ports.free(1)
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(number)]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            _wait_for(log, process)
            yield f"http://127.0.0.1:{number}"
        finally:
            process.terminate()


def _wait_for(log: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while "Running on" not in log.read_text():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"moto did not start: {log.read_text()[-2000:]}")
        time.sleep(0.05)


def account(asg_rules: AsgRules, **more: Any) -> ec2_accounts.Account:
    return ec2_accounts.Account(**{"region": REGION, "keys": KEYS, "endpoint": asg_rules.url, **more})


@functools.cache
def client(url: str, service: str) -> Any:
    """Return a client of the tests' own, with which they act behind the cluster's back."""
    return boto3.session.Session(
        aws_access_key_id="testing", aws_secret_access_key="testing", region_name=REGION
    ).client(service, endpoint_url=url)  # type: ignore[call-overload]


class RealWorld:
    """A cluster of the test's own on the shared moto; names are kept apart by a prefix."""

    def __init__(self, asg_rules: AsgRules) -> None:
        self._asg_rules = asg_rules
        self._cluster = f"contract-{secrets.token_hex(3)}"
        self._asg: AutoScalingClient = client(asg_rules.url, "autoscaling")
        self._ec2: EC2Client = client(asg_rules.url, "ec2")
        self._sqs = client(asg_rules.url, "sqs")
        self._queue = self._sqs.create_queue(QueueName=f"{self._cluster}-interruptions")["QueueUrl"]
        self._made: list[str] = []
        self._before = dict(asg_rules.calls)
        self.cloud: port.Cloud = ec2_autoscaling.Ec2AutoScaling(
            account(asg_rules), cluster=self._cluster, calls=ec2_calls.Calls(QUICK)
        )
        self.interruptions: port.Interruptions = interruption_queue.SqsInterruptions(
            account(asg_rules), self._queue, long_poll_seconds=1
        )

    def now(self) -> float:
        return time.time()

    async def add(
        self,
        spec: NodeGroupSpec,
        *,
        cluster: str = worlds.CLUSTER,
        desired: int | None = None,
        is_protecting: bool = True,
    ) -> port.GroupName:
        owner = self._cluster if cluster == worlds.CLUSTER else cluster
        await asyncio.to_thread(self._create, spec, owner, desired, is_protecting=is_protecting)
        return port.GroupName(spec.name)

    def _create(self, spec: NodeGroupSpec, owner: str, desired: int | None, *, is_protecting: bool) -> None:
        data: Any = {
            "ImageId": IMAGES[0],
            "InstanceType": spec.key.instance_type,
            "UserData": base64.b64encode(b"first").decode(),
        }
        wanted: Any = {} if desired is None else {"DesiredCapacity": desired}
        made = self._ec2.create_launch_template(LaunchTemplateName=spec.name, LaunchTemplateData=data)
        self._made.append(spec.name)
        self._asg.create_auto_scaling_group(
            AutoScalingGroupName=spec.name,
            MinSize=spec.minimum,
            MaxSize=spec.maximum,
            **wanted,
            AvailabilityZones=[spec.key.zone],
            LaunchTemplate={"LaunchTemplateId": made["LaunchTemplate"]["LaunchTemplateId"], "Version": "1"},
            NewInstancesProtectedFromScaleIn=is_protecting,
            Tags=[_tag(spec.name, key, value) for key, value in self._tags(spec, owner).items()],
        )

    def _tags(self, spec: NodeGroupSpec, owner: str) -> dict[str, str]:
        return {**spec.tags, keys.cluster_tag(owner): "owned"}

    async def remove(self, name: port.GroupName) -> None:
        await asyncio.to_thread(self._asg.delete_auto_scaling_group, AutoScalingGroupName=name, ForceDelete=True)

    async def give_away(self, name: port.GroupName, cluster: str) -> None:
        ours, theirs = keys.cluster_tag(self._cluster), keys.cluster_tag(cluster)
        await asyncio.to_thread(self._asg.create_or_update_tags, Tags=[_tag(name, theirs, "owned")])
        await asyncio.to_thread(self._asg.delete_tags, Tags=[_tag(name, ours, "owned")])

    async def resize(self, name: port.GroupName, *, minimum: int, maximum: int) -> None:
        await asyncio.to_thread(
            self._asg.update_auto_scaling_group, AutoScalingGroupName=name, MinSize=minimum, MaxSize=maximum
        )

    async def retemplate(self, name: port.GroupName) -> None:
        await asyncio.to_thread(self._new_version, name)

    def _new_version(self, name: port.GroupName) -> None:
        made = self._ec2.create_launch_template_version(
            LaunchTemplateName=name,
            LaunchTemplateData={
                "ImageId": IMAGES[1],
                "InstanceType": "m5.large",
                "UserData": base64.b64encode(b"second").decode(),
            },
        )["LaunchTemplateVersion"]
        self._asg.update_auto_scaling_group(
            AutoScalingGroupName=name,
            LaunchTemplate={"LaunchTemplateId": made["LaunchTemplateId"], "Version": str(made["VersionNumber"])},
        )

    async def desired_of(self, name: port.GroupName) -> int:
        answer = await asyncio.to_thread(self._asg.describe_auto_scaling_groups, AutoScalingGroupNames=[name])
        return answer["AutoScalingGroups"][0]["DesiredCapacity"]

    async def protected_of(self, name: port.GroupName) -> set[str]:
        answer = await asyncio.to_thread(self._asg.describe_auto_scaling_groups, AutoScalingGroupNames=[name])
        members = answer["AutoScalingGroups"][0]["Instances"]
        return {one["InstanceId"] for one in members if one["ProtectedFromScaleIn"]}

    def hinder(self, failure: port.LaunchFailure, *, zone: str, instance_type: str) -> None:
        orders = self._asg_rules.orders
        order = {
            port.LaunchFailure.INSUFFICIENT_CAPACITY: orders.withhold,
            port.LaunchFailure.UNSUPPORTED: orders.stop_offering,
        }[failure]
        order(zone=zone, instance_type=instance_type)

    def relieve(self) -> None:
        self._asg_rules.orders.relieve()

    def fault(self, effect: Effect, call: Call, *, times: int | None = 1) -> None:
        self._asg_rules.orders.add(TROUBLES[effect], call, times=times)

    def clear_faults(self) -> None:
        self._asg_rules.orders.clear()

    def sent(self, call: Call) -> int:
        return self._asg_rules.calls[call] - self._before.get(call, 0)

    async def announce_interruption(self, instance: port.InstanceId) -> None:
        await self._announce("EC2 Spot Instance Interruption Warning", instance)

    async def announce_rebalance(self, instance: port.InstanceId) -> None:
        await self._announce("EC2 Instance Rebalance Recommendation", instance)

    async def _announce(self, kind: str, instance: port.InstanceId) -> None:
        document = {
            "version": "0",
            "source": "aws.ec2",
            "detail-type": kind,
            "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": REGION,
            "detail": {"instance-id": instance, "instance-action": "terminate"},
        }
        await asyncio.to_thread(self._sqs.send_message, QueueUrl=self._queue, MessageBody=json.dumps(document))

    async def aclose(self) -> None:
        """Remove what the test made, and end what it ordered."""
        self._asg_rules.orders.clear()
        self._asg_rules.orders.relieve()
        await self.cloud.aclose()
        await self.interruptions.aclose()
        await asyncio.to_thread(self._clean)

    def _clean(self) -> None:
        listed = self._asg.get_paginator("describe_auto_scaling_groups").paginate()
        here = {group["AutoScalingGroupName"] for page in listed for group in page["AutoScalingGroups"]}
        for name in self._made:
            if name in here:
                self._asg.delete_auto_scaling_group(AutoScalingGroupName=name, ForceDelete=True)
            self._ec2.delete_launch_template(LaunchTemplateName=name)


def _tag(name: str, key: str, value: str) -> Any:
    return {
        "ResourceId": name,
        "ResourceType": "auto-scaling-group",
        "Key": key,
        "Value": value,
        "PropagateAtLaunch": False,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RealStage:
    """All tests share a moto and a proxy of the ASG rules, and tidy up after themselves."""

    asg_rules: AsgRules

    def run(self, test: worlds.Test) -> None:
        async def act() -> None:
            world = await asyncio.to_thread(RealWorld, self.asg_rules)
            async with contextlib.aclosing(world):
                await test(world)

        asyncio.run(act())


@contextlib.contextmanager
def with_asg_rules(directory: Path) -> Iterator[AsgRules]:
    """Run a moto and the ASG rules before it."""
    with moto(directory / "moto.log") as url, AsgRules.start(url, Pace(pending_seconds=0.6)) as asg_rules:
        yield asg_rules
