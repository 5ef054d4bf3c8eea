"""Pods get instances only of groups whose nodes they may use: selectors, affinity, taints."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from autoscaler.api import keys
from tests.e2e.capacity import conftest
from tests.e2e.capacity.site import Site, needs
from tools.local.asg.asg_rules import AsgRules
from tools.local.plane import Plane

GPU_TAINT = {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Groups that differ in all that pods may ask for."""

    site: Site
    groups: dict[str, str]


@pytest.fixture(scope="module")
def grid(capacity_plane: Plane, asg_rules: AsgRules, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    with contextlib.ExitStack() as stack:
        site = stack.enter_context(conftest.opened(capacity_plane, asg_rules))
        work, gpu = site.add_pool("work"), site.add_pool("gpu")
        worker = {keys.NODE_TYPE: "worker"}
        groups = {
            "gold": site.add_group(work, zone="a", labels={**worker, "tier": "gold", "generation": "5"}),
            "silver": site.add_group(work, zone="b", labels={**worker, "tier": "silver", "generation": "6"}),
            "plain": site.add_group(work, zone="c", kind="m5.xlarge", labels={**worker, "generation": "7"}),
            "gpu": site.add_group(
                gpu, zone="a", labels={keys.NODE_TYPE: "gpu"}, taints={"dedicated": "gpu:NoSchedule"}
            ),
        }
        stack.enter_context(conftest.replica(site, tmp_path_factory.mktemp("matching")))
        site.wait_known(*groups.values())
        yield Grid(site=site, groups=groups)


PODS: dict[str, tuple[str, dict[str, Any]]] = {
    "node-type": ("gpu", {"nodeSelector": {keys.NODE_TYPE: "gpu"}, "tolerations": [GPU_TAINT]}),
    "tolerates-all": ("gpu", {"nodeSelector": {keys.NODE_TYPE: "gpu"}, "tolerations": [{"operator": "Exists"}]}),
    "zone": ("silver", {"nodeSelector": {keys.ZONE: "eu-west-1b"}}),
    "zone-by-its-old-key": ("silver", {"nodeSelector": {keys.ZONE_BETA: "eu-west-1b"}}),
    "instance-type": ("plain", {"nodeSelector": {keys.INSTANCE_TYPE: "m5.xlarge"}}),
    "old-names": (
        "plain",
        {
            "nodeSelector": {
                keys.REGION: "eu-west-1",
                keys.REGION_BETA: "eu-west-1",
                keys.INSTANCE_TYPE_BETA: "m5.xlarge",
                keys.ARCHITECTURE_BETA: "amd64",
                keys.OS_BETA: "linux",
            }
        },
    ),
    "any-label": ("gold", {"nodeSelector": {"tier": "gold"}}),
    "in": ("gold", {"affinity": needs(("tier", "In", ["gold", "bronze"]))}),
    "not-in": ("plain", {"affinity": needs(("tier", "NotIn", ["gold", "silver"]))}),
    "exists": ("silver", {"affinity": needs(("tier", "Exists", []), (keys.ZONE, "NotIn", ["eu-west-1a"]))}),
    "does-not-exist": ("plain", {"affinity": needs(("tier", "DoesNotExist", []))}),
    "gt": ("plain", {"affinity": needs(("generation", "Gt", ["6"]))}),
    "lt": ("gold", {"affinity": needs(("generation", "Lt", ["6"]))}),
    "not-tolerated": ("plain", {"affinity": needs((keys.ZONE, "NotIn", ["eu-west-1b"]), ("tier", "DoesNotExist", []))}),
}
"""Each pod, and the one group that may serve it: taints keep the tainted group from all that do not tolerate them."""
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "untolerated": ("dedicated", {"nodeSelector": {keys.NODE_TYPE: "gpu"}}),
    "nowhere": ("tier", {"nodeSelector": {"tier": "bronze"}}),
    "wrong-zone": ("", {"nodeSelector": {"tier": "gold", keys.ZONE: "eu-west-1b"}}),
    "wrong-effect": (
        "dedicated",
        {"nodeSelector": {keys.NODE_TYPE: "gpu"}, "tolerations": [{**GPU_TAINT, "effect": "NoExecute"}]},
    ),
}
"""Pods that no group may serve, and a word of the reason."""


@pytest.mark.accept("G8")
def test_pods_land_in_the_groups_that_their_selectors_affinity_and_tolerations_allow(grid: Grid) -> None:
    site = grid.site
    for name, (_, spec) in {**PODS, **REFUSED}.items():
        site.add_pod(name, **spec)
    for name, (word, _) in REFUSED.items():
        site.wait_told(name, "NotTriggerScaleUp", word)
    site.wait_bound(*PODS)
    assert {name: site.group_of(name) for name in PODS} == {name: grid.groups[want] for name, (want, _) in PODS.items()}
    wants = [want for want, _ in PODS.values()]
    # Two such pods share a node of type m5.xlarge; all others have one to themselves.
    want = {grid.groups[key]: wants.count(key) for key in ("gold", "silver", "gpu")}
    assert site.desired() == {**want, grid.groups["plain"]: -(-wants.count("plain") // 2)}
    assert not set(site.bound()) & REFUSED.keys()
