"""What the registrar reads from moto: tagged Auto Scaling groups, their instances and types. It writes nothing."""

import dataclasses
import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import boto3
import botocore.config
import botocore.exceptions

from autoscaler.cloud import catalogue
from autoscaler.cloud.aws import ec2_documents
from tools.local import components
from tools.local.registrar import registrar_nodes

if TYPE_CHECKING:
    from mypy_boto3_autoscaling import AutoScalingClient
    from mypy_boto3_autoscaling.type_defs import AutoScalingGroupTypeDef
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import InstanceTypeDef

BATCH = 100
ALIVE_STATES = frozenset({"pending", "running", "stopping", "stopped"})
log = logging.getLogger("node-registrar")


class CloudError(Exception):
    """Moto could not be reached or refused; nothing is known about the instances."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """What does not change in an instance's life, asked once."""

    type: catalogue.InstanceType
    launched_at: float
    private_address: str


def autoscaling_client(endpoint: str, region: str) -> "AutoScalingClient":
    return _session(region).client("autoscaling", endpoint_url=endpoint, config=_config())


def ec2_client(endpoint: str, region: str) -> "EC2Client":
    return _session(region).client("ec2", endpoint_url=endpoint, config=_config())


class Cloud:
    """The AWS that moto plays, seen from the registrar."""

    def __init__(self, endpoint: str, region: str) -> None:
        self._autoscaling = autoscaling_client(endpoint, region)
        self._ec2 = ec2_client(endpoint, region)
        self._details: dict[str, Details] = {}
        self._types: dict[str, catalogue.InstanceType] = {}
        self._refused: set[str] = set()

    def instances(self, now: float) -> tuple[registrar_nodes.Instance, ...]:
        """Return the live instances of all tagged groups."""
        try:
            members = {instance: group for group, ids in self._groups() for instance in ids}
            self._learn([instance for instance in members if instance not in self._details], now)
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
            raise CloudError(f"cannot read Auto Scaling groups and instances: {error}") from error
        self._details = {instance: known for instance, known in self._details.items() if instance in members}
        return tuple(
            registrar_nodes.Instance(
                identifier=instance,
                group=group,
                type=self._details[instance].type,
                launched_at=self._details[instance].launched_at,
                private_address=self._details[instance].private_address,
            )
            for instance, group in sorted(members.items())
            if instance in self._details
        )

    def alive(self, instances: Sequence[str]) -> frozenset[str]:
        """Return those of these instances that EC2 has not terminated, whether or not a group still holds them."""
        try:
            described = list(self._describe(instances))
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
            raise CloudError(f"cannot ask EC2 about {', '.join(instances)}: {error}") from error
        return frozenset(found["InstanceId"] for found in described if found["State"]["Name"] in ALIVE_STATES)

    def _groups(self) -> Iterator[tuple[registrar_nodes.Group, list[str]]]:
        pages = self._autoscaling.get_paginator("describe_auto_scaling_groups").paginate(
            Filters=[{"Name": "tag-key", "Values": [registrar_nodes.ENABLED_TAG]}], PaginationConfig={"PageSize": BATCH}
        )
        for found in itertools.chain.from_iterable(page["AutoScalingGroups"] for page in pages):
            group = self._group(found)
            if group is not None:
                live = (member for member in found["Instances"] if "Terminat" not in member["LifecycleState"])
                yield group, [member["InstanceId"] for member in live]

    def _group(self, found: "AutoScalingGroupTypeDef") -> registrar_nodes.Group | None:
        name = found["AutoScalingGroupName"]
        tags = {tag["Key"]: tag.get("Value", "") for tag in found.get("Tags", [])}
        try:
            zone = registrar_nodes.single_zone(found["AvailabilityZones"])
            return registrar_nodes.Group.from_tags(name, zone, tags)
        except ValueError as error:
            self._refuse(name, str(error))
            return None

    def _learn(self, instances: Sequence[str], now: float) -> None:
        described = list(self._describe(instances))
        self._learn_types({found["InstanceType"] for found in described} - self._types.keys())
        for found in described:
            kind = self._types.get(found["InstanceType"])
            if kind is None or found["State"]["Name"] not in ALIVE_STATES:
                continue
            self._details[found["InstanceId"]] = Details(
                type=kind,
                launched_at=registrar_nodes.launch_moment(found["LaunchTime"].timestamp(), first_seen=now),
                private_address=found.get("PrivateIpAddress", "127.0.0.1"),
            )

    def _learn_types(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            kind = catalogue.bundled().get(name) or self._described_type(name)
            if kind is None:
                self._refuse(name, "nobody knows the instance type, or nodes cannot have its processors")
            else:
                self._types[name] = kind

    def _described_type(self, name: str) -> catalogue.InstanceType | None:
        try:
            answer = self._ec2.describe_instance_types(InstanceTypes=[name])  # type: ignore[list-item]
        except botocore.exceptions.ClientError:
            return None
        return ec2_documents.instance_type(answer["InstanceTypes"][0])

    def _describe(self, instances: Sequence[str]) -> "Iterator[InstanceTypeDef]":
        # By filter, not by id: an unknown id would fail the whole call.
        for start in range(0, len(instances), BATCH):
            batch = list(instances[start : start + BATCH])
            pages = self._ec2.get_paginator("describe_instances").paginate(
                Filters=[{"Name": "instance-id", "Values": batch}]
            )
            for page in pages:
                for reservation in page["Reservations"]:
                    yield from reservation["Instances"]

    def _refuse(self, name: str, reason: str) -> None:
        if name not in self._refused:
            log.warning("refused name=%s reason=%s", name, reason)
            self._refused.add(name)


def _session(region: str) -> boto3.Session:
    return boto3.Session(
        aws_access_key_id=components.CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=components.CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        region_name=region,
    )


def _config() -> botocore.config.Config:
    return botocore.config.Config(
        connect_timeout=2, read_timeout=20, retries={"total_max_attempts": 1, "mode": "standard"}, proxies={}
    )
