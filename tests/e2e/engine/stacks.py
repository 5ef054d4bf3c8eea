"""Stacks for the engine, and what they made, seen from the API server and from moto."""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

import boto3
import yaml

from tests.e2e import waiting
from tools.engine.engine import Engine
from tools.engine.layout import REPOSITORY
from tools.local.components import CREDENTIALS
from tools.local.plane import Plane

REGION = "eu-west-1"
ACCOUNT = "123456789012"
GROUPS = "/apis/sluice.dev/v1alpha1"
IMAGE = {"repository": "sluice/autoscaler", "digest": f"sha256:{'0' * 64}"}
DEPLOYERS = {"groups": ["system:masters"]}
"""The group of whom the engine acts as, on every cluster: the plane's administrator."""
SERVICES = {"nodeType": "k8s-services", "instanceTypes": ["m5.large"], "minPerGroup": 1, "maxPerGroup": 2}


def local() -> dict[str, Any]:
    """The repository's own stack for one computer."""
    document: dict[str, Any] = yaml.safe_load((REPOSITORY / "stacks" / "Pulumi.local.yaml").read_text())
    return document


def document(clusters: Mapping[str, Any], **sluice: Any) -> dict[str, Any]:
    """A stack with these clusters."""
    config = {"accountId": ACCOUNT, "clusters": copy.deepcopy(dict(clusters)), **sluice}
    return {"config": {"aws:region": REGION, **{f"sluice:{key}": value for key, value in config.items()}}}


def bare(**fields: Any) -> dict[str, Any]:
    """A cluster that is there already, without any instance of the stack's."""
    pod: dict[str, Any] = {"nodeSelector": {}}
    return {
        "kubernetesVersion": "1.36",
        "existing": {},
        "autoscaler": {
            "container": {"image": IMAGE},
            "pod": pod,
            "deployers": DEPLOYERS,
            **fields.pop("autoscaler", {}),
        },
        **fields,
    }


def eks(**fields: Any) -> dict[str, Any]:
    """A new cluster of EKS, which may be destroyed."""
    return {
        "kubernetesVersion": "1.36",
        "protect": False,
        "network": {"cidr": "10.32.0.0/16"},
        "endpoint": {"public": True, "allowedCidrs": ["203.0.113.0/24"]},
        "access": {"admins": [f"arn:aws:iam::{ACCOUNT}:role/deployer"]},
        "nodeImage": {"release": "1.36.2-20261101"},
        **fields,
        "nodePools": {"services": SERVICES, **fields.get("nodePools", {})},
        "autoscaler": {"container": {"image": IMAGE}, "deployers": DEPLOYERS, **fields.get("autoscaler", {})},
    }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Aws:
    """What moto has."""

    plane: Plane

    def client(self, service: str) -> Any:
        return boto3.client(
            service,  # type: ignore[call-overload]
            endpoint_url=self.plane.aws_endpoint,
            region_name=self.plane.region,
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )

    def groups(self) -> dict[str, dict[str, Any]]:
        """The Auto Scaling groups by name."""
        pages = self.client("autoscaling").get_paginator("describe_auto_scaling_groups").paginate()
        return {group["AutoScalingGroupName"]: group for page in pages for group in page["AutoScalingGroups"]}

    def templates(self) -> dict[str, dict[str, Any]]:
        """The newest data of the launch templates, by name."""
        ec2 = self.client("ec2")
        names = [one["LaunchTemplateName"] for one in ec2.describe_launch_templates()["LaunchTemplates"]]
        return {
            name: ec2.describe_launch_template_versions(LaunchTemplateName=name, Versions=["$Latest"])[
                "LaunchTemplateVersions"
            ][0]["LaunchTemplateData"]
            for name in names
        }

    def roles(self) -> list[str]:
        return [role["RoleName"] for role in self.client("iam").list_roles()["Roles"]]

    def queues(self) -> list[str]:
        return list(self.client("sqs").list_queues().get("QueueUrls", []))

    def networks(self) -> list[str]:
        """The networks that are not moto's own."""
        return [vpc["VpcId"] for vpc in self.client("ec2").describe_vpcs()["Vpcs"] if not vpc["IsDefault"]]

    def everything(self) -> list[str]:
        """Name all that stacks make here, and that is not moto's own."""
        ec2, iam = self.client("ec2"), self.client("iam")
        profiles = [one["InstanceProfileName"] for one in iam.list_instance_profiles()["InstanceProfiles"]]
        groups = [
            one["GroupId"] for one in ec2.describe_security_groups()["SecurityGroups"] if one["GroupName"] != "default"
        ]
        running = [
            instance["InstanceId"]
            for reservation in ec2.describe_instances()["Reservations"]
            for instance in reservation["Instances"]
            if instance["State"]["Name"] not in {"terminated", "shutting-down"}
        ]
        made = [*self.groups(), *self.templates(), *self.roles(), *self.queues(), *self.networks()]
        return [*made, *profiles, *groups, *running]


def created(engine: Engine) -> list[str]:
    """The order in which resources were made, as `type name`."""
    return [f"{entry.type} {entry.name}" for entry in engine.journal() if entry.method == "create" and not entry.error]


def before(order: list[str], first: str, then: str) -> bool:
    """Tell whether everything that begins with `first` came before anything that begins with `then`."""
    firsts = [index for index, one in enumerate(order) if first in one]
    thens = [index for index, one in enumerate(order) if then in one]
    assert firsts, f"nothing is {first}"
    assert thens, f"nothing is {then}"
    return max(firsts) < min(thens)


def objects(plane: Plane, plural: str) -> dict[str, Any]:
    """Objects of ours by name."""
    return {one["metadata"]["name"]: one for one in plane.api.get(f"{GROUPS}/{plural}")["items"]}


# What comes and goes by itself, or belongs to the instances.
_RESTLESS = frozenset({"events", "leases", "nodes", "csinodes", "pods", "ipaddresses", "endpointslices", "endpoints"})
# Our definitions; and what a cluster puts into every namespace, in its own time.
_EXPECTED = (".sluice.dev", "/kube-root-ca.crt")


def inventory(plane: Plane) -> set[str]:
    """Every object of every kind in a cluster, but for what comes and goes by itself, and for our definitions."""
    found: set[str] = set()
    for base in ("/api/v1", *_group_versions(plane)):
        for kind in plane.api.get(base)["resources"]:
            if "list" in kind["verbs"] and kind["name"] not in _RESTLESS:
                listed = plane.api.get(f"{base}/{kind['name']}").get("items") or ()
                names = [(one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in listed]
                found |= {f"{kind['name']} {namespace}/{name}" for namespace, name in names}
    return {one for one in found if not one.endswith(_EXPECTED)}


def records(plane: Plane) -> set[str]:
    """Name the books of instances as an inventory does: they outlive pools and stacks."""
    return {f"instances /{name}" for name in objects(plane, "instances")}


def only_left(plane: Plane, want: set[str]) -> None:
    """Wait until a cluster holds exactly these objects; fail with those that are too many or too few."""

    def settled() -> bool:
        found = inventory(plane)
        assert found == want, f"left: {sorted(found - want)}; gone: {sorted(want - found)}"
        return True

    waiting.eventually(settled)


def _group_versions(plane: Plane) -> list[str]:
    groups = plane.api.get("/apis")["groups"]
    return [f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups]


def inputs(engine: Engine, stack: str, kind: str) -> dict[str, dict[str, Any]]:
    """What the program said about resources of a type, by name."""
    return {
        one["urn"].rpartition("::")[2]: one.get("inputs", {})
        for one in engine.resources(stack)
        if one["type"] == kind and one.get("custom")
    }


def definitions(plane: Plane) -> set[str]:
    """Our definitions that are there."""
    listed = plane.api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    names = {one["metadata"]["name"] for one in listed}
    return {name for name in names if name.endswith(".sluice.dev")}
