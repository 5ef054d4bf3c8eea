"""Auto Scaling groups of a plane, and the nodes that the registrar made of them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from tests.e2e import waiting
from tools.local.groups import GROUP_LABEL, Groups
from tools.local.plane import Plane


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """One group of a plane, and the nodes the registrar made of it."""

    plane: Plane
    name: str

    def set_desired(self, count: int) -> None:
        _of(self.plane).set_desired(self.name, count)

    def nodes(self) -> list[Any]:
        listed = self.plane.api.get("/api/v1/nodes", {"labelSelector": f"{GROUP_LABEL}={self.name}"})
        return list(listed["items"])

    def wait_for_nodes(self, count: int, *, within_seconds: float = 20.0) -> list[Any]:
        """Wait until exactly so many nodes are there, Ready and free of the taint every new node starts with."""

        def settled() -> bool:
            nodes = self.nodes()
            states = [is_schedulable(node) for node in nodes]
            assert states == [True] * count, f"{count} nodes wanted, schedulable: {states}"
            return True

        waiting.eventually(settled, within_seconds=within_seconds)
        return self.nodes()

    def delete(self) -> None:
        _of(self.plane).delete(self.name)


def create(
    plane: Plane,
    name: str,
    *,
    instance_type: str = "m5.large",
    zone: str = "a",
    desired: int = 0,
    template_tags: Mapping[str, str] | None = None,
) -> NodeGroup:
    """Make a group of one zone; its nodes carry the label `group=<name>`."""
    _of(plane).create(
        name, instance_type=instance_type, zone=f"{plane.region}{zone}", desired=desired, tags=template_tags
    )
    return NodeGroup(plane=plane, name=name)


def _of(plane: Plane) -> Groups:
    return Groups(endpoint=plane.aws_endpoint, region=plane.region)


def is_schedulable(node: Any) -> bool:
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions", []))
    fresh = any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", []))
    return ready and not fresh
