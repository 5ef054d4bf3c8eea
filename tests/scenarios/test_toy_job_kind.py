"""A third kind of job needs one class: with its line among the kinds, its jobs wait, are admitted, grow and end."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from autoscaler import control
from autoscaler.admission import controller
from autoscaler.admission.jobs import KINDS
from autoscaler.admission.state.job_state import Policy
from autoscaler.admission.workloads.workload import WORKLOADS
from autoscaler.api import names, policies, resources
from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds, port
from autoscaler.runtime import process
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster, served
from autoscaler.simulation.cluster.store import Key
from tests import builders, toy_jobs
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios import running

NAMESPACE = "default"
SETTLE_SECONDS = 30


class World:
    """A cluster that knows toys, with one queue that has quota for three of them."""

    def __init__(self) -> None:
        everything = (*policies.POLICIES, *toy_jobs.POLICIES)
        self.cluster = SimulatedCluster(virtual_time.clock(), admission_policies=everything)
        self.cluster.install_definitions()
        self.cluster.install_policies()
        self.cluster.create(kinds.DEFINITIONS, toy_jobs.DEFINITION)
        by_kind = {kind.resource.kind: kind.resource for kind in served.BUILT_IN}
        for manifest in (each for policy in toy_jobs.POLICIES for each in policy.manifests()):
            self.cluster.create(by_kind[manifest["kind"]], manifest)
        for kind in (resources.ResourceFlavor, resources.LocalQueue):
            self.cluster.create(kinds.custom(kind), builders.resource(kind.__name__))
        quota = {"name": "spot", "resources": [{"name": "cpu", "nominalQuota": 3}]}
        groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
        queue = builders.resource("ClusterQueue", resourceGroups=groups)
        self.cluster.create(kinds.custom(resources.ClusterQueue), queue)

    def make(self, name: str, *, replicas: int) -> Manifest:
        return self.cluster.create(toy_jobs.TOY_JOBS, toy_jobs.toy(name, replicas=replicas))

    async def change(self, name: str, patch: Manifest, subresource: str | None = None) -> None:
        path = toy_jobs.TOY_JOBS.path(name, NAMESPACE, subresource)
        body = json.dumps(patch).encode()
        request = port.Request(method="PATCH", path=path, query={}, body=body, content_type=port.MERGE_PATCH)
        port.required(await self.cluster.client().send(request))

    def is_suspended(self, name: str) -> bool:
        entry = self.cluster.server.store.find(toy_jobs.TOY_JOBS, Key(NAMESPACE, name))
        assert entry is not None
        return bool(entry.object["spec"]["suspend"])

    def granted(self) -> dict[str, int]:
        """Tell how many toys of each job have quota."""
        found: dict[str, int] = {}
        for entry in self.cluster.server.store.collection(WORKLOADS).entries.values():
            (owner,) = entry.object["metadata"]["ownerReferences"]
            admission: dict[str, Any] = entry.object.get("status", {}).get("admission") or {}
            for each in admission.get("podSetAssignments", ()):
                found[owner["name"]] = found.get(owner["name"], 0) + each["count"]
        return found


def build(context: control.ControllerContext) -> control.Controller:
    return controller.Controller(context, job_kinds=(*KINDS, toy_jobs.ToyJob()), policy=Policy())


@contextlib.asynccontextmanager
async def admitting(world: World) -> AsyncGenerator[None, None]:
    registration = process.Registration(lease=names.CLUSTER_LEASE, lease_namespace="kube-system", build=build)
    async with running.replica(world.cluster, {"admission": registration}):
        await asyncio.sleep(SETTLE_SECONDS)
        yield


@pytest.mark.accept("E2", part="a third kind needs one class")
@simulated
async def test_a_third_kind_waits_is_admitted_and_grows() -> None:
    world = World()
    first = world.make("first", replicas=2)
    assert first["spec"]["suspend"] is True
    assert first["spec"]["template"]["spec"]["schedulingGates"] == [{"name": "sluice.dev/admission"}]
    async with admitting(world):
        assert (world.is_suspended("first"), world.granted()) == (False, {"first": 2})
        world.make("second", replicas=2)
        await asyncio.sleep(SETTLE_SECONDS)
        assert (world.is_suspended("second"), world.granted()) == (True, {"first": 2})
        await world.change("first", {"spec": {"replicas": 3}})
        await asyncio.sleep(SETTLE_SECONDS)
        assert (world.is_suspended("first"), world.granted()) == (False, {"first": 3})
        await world.change("first", {"spec": {"replicas": 1}})
        await asyncio.sleep(SETTLE_SECONDS)
        assert (world.is_suspended("second"), world.granted()) == (False, {"first": 1, "second": 2})


@simulated
async def test_a_toy_that_has_ended_gives_its_quota_back() -> None:
    world = World()
    world.make("first", replicas=3)
    async with admitting(world):
        world.make("second", replicas=3)
        await asyncio.sleep(SETTLE_SECONDS)
        assert world.is_suspended("second")
        await world.change("first", {"status": {"phase": "Succeeded"}}, "status")
        await asyncio.sleep(SETTLE_SECONDS)
        assert not world.is_suspended("second")
