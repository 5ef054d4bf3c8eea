"""The registry: no wildcards, writes bound, Leases by name, and exactly what the engine's own calls need."""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import NamedTuple

import pytest

from autoscaler import control
from autoscaler.api import controllers, names, permissions, resources, version
from autoscaler.api.permissions import AwsResource, Where, WorkerScope
from autoscaler.kube import kinds, objects, port
from autoscaler.kube.leases import election
from autoscaler.kube.writing import events
from autoscaler.runtime import leadership, planning, process
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster, store
from tests import builders
from tests.autoscaler.kube.cluster import simulated

NAMESPACE = "sluice"
KUBE_RULES = controllers.kube_rules(controllers.CONTROLLERS, scope=WorkerScope.CLUSTER, classes=[None])
AWS_RULES = controllers.aws_rules(controllers.CONTROLLERS)
WORKERS, ADMISSION, MACHINES, CAPACITY = (
    controllers.CONTROLLERS[name] for name in ("workers", "admission", "machines", "capacity")
)
KUBE_VERBS = {"get", "list", "watch", "create", "patch", "delete"}


@pytest.mark.accept("S6")
@pytest.mark.parametrize("rule", KUBE_RULES, ids=str)
def test_a_kubernetes_rule_names_all_it_grants(rule: permissions.KubeRule) -> None:
    assert rule.resources
    assert rule.verbs
    assert set(rule.verbs) <= KUBE_VERBS
    assert not any("*" in text for text in (rule.group, *rule.resources, *rule.resource_names))
    assert len(set(rule.resources)) == len(rule.resources)


@pytest.mark.accept("S6")
@pytest.mark.parametrize("rule", AWS_RULES, ids=str)
def test_an_aws_rule_names_its_actions_and_binds_its_writes(rule: permissions.AwsRule) -> None:
    for action in rule.actions:
        assert re.fullmatch("[a-z0-9]+:[A-Za-z]+", action)
        if rule.resource is AwsResource.ANY:
            assert re.match("[a-z0-9]+:(Describe|List)", action)


@pytest.mark.accept("S6")
def test_secrets_are_read_one_by_one_in_declared_namespaces_only() -> None:
    rules = [rule for rule in KUBE_RULES if "secrets" in rule.resources]
    assert rules
    assert all(rule.verbs == ("get",) and rule.where is Where.SECRET_NAMESPACES for rule in rules)


def test_kube_system_is_entered_by_name_only_but_for_new_leases() -> None:
    rules = [rule for rule in KUBE_RULES if rule.where is Where.KUBE_SYSTEM]
    assert rules
    assert all(rule.resources == ("leases",) for rule in rules)
    assert all(rule.resource_names or rule.verbs == ("create",) for rule in rules)
    held = {name for rule in rules if "patch" in rule.verbs for name in rule.resource_names}
    assert held == {"sluice", "sluice-workers"}


def test_kinds_of_ours_are_named_as_they_are_served() -> None:
    served = {kind.definition.plural for kind in resources.KINDS}
    named = {name for rule in KUBE_RULES if rule.group == version.GROUP for name in rule.resources}
    assert {name.partition("/")[0] for name in named} <= served
    assert {name.partition("/")[2] for name in named} == {"", "status"}


def kube_rules(*asked: str, classes: Sequence[str | None] = (None,)) -> tuple[permissions.KubeRule, ...]:
    return controllers.kube_rules(asked, scope=WorkerScope.NAMESPACE, classes=classes)


def test_each_controller_adds_its_rules_and_those_of_its_lease_to_the_engines() -> None:
    assert kube_rules() == controllers.ENGINE
    workers = (*WORKERS.kube, *permissions.leading(Where.OWN_NAMESPACE, "sluice-workers"))
    capacity = (*CAPACITY.kube, *permissions.leading(Where.KUBE_SYSTEM, "sluice"))
    admission = (*ADMISSION.kube, *permissions.leading(Where.KUBE_SYSTEM, "sluice"))
    assert kube_rules("capacity", "workers") == (*controllers.ENGINE, *workers, *capacity)
    assert kube_rules("capacity", "admission") == (*controllers.ENGINE, *admission, *capacity)
    assert controllers.aws_rules(["workers"]) == WORKERS.aws


def test_admission_reads_queues_and_writes_what_is_granted_and_what_is_suspended() -> None:
    rights = {(resource, verb) for rule in ADMISSION.kube for resource in rule.resources for verb in rule.verbs}
    queues = {"clusterqueues", "localqueues", "resourceflavors"}
    assert {resource for resource, verb in rights if verb == "create"} == {"workloads", "events"}
    assert {resource for resource, verb in rights if verb == "delete"} == {"workloads", "pods"}
    assert {resource for resource, verb in rights if verb == "patch"} == {
        *("workloads", "workloads/status", *queues, *(f"{queue}/status" for queue in queues)),
        *("jobs", "rayclusters", "pods", "configmaps", "events"),
    }
    watched = {resource for resource, verb in rights if verb == "watch"}
    assert watched == {"workloads", *queues, "jobs", "rayclusters", "pods", "nodes", "priorityclasses"}
    assert all((resource, "list") in rights for resource in watched)
    assert not ADMISSION.aws
    assert not ADMISSION.needs_cluster


def test_machines_may_do_what_they_do_and_no_more() -> None:
    rights = {(name, verb) for rule in MACHINES.kube for name in rule.resources for verb in rule.verbs}
    watched = {resource for resource, verb in rights if verb == "watch"}
    assert watched == {"machines", "machinenodepools", "pods", "nodes", "statefulsets", "services"}
    assert all((resource, "list") in rights for resource in watched)
    cluster_wide = {
        (name, rule.verbs) for rule in MACHINES.kube if rule.where is Where.CLUSTER for name in rule.resources
    }
    written = {name for name, verbs in cluster_wide if {"create", "delete", "patch"} & set(verbs)}
    assert written == {"machines/status", "machinenodepools/status", "machinenodepools", "pods", "nodes", "events"}
    named = {rule.resource_names for rule in MACHINES.kube if "configmaps" in rule.resources if "patch" in rule.verbs}
    assert named == {(names.MACHINE_CATALOGUE,), (names.DRAIN_OBJECT,)}


@pytest.mark.parametrize("name", ["workerz", "machine"])
def test_a_controller_that_is_not_registered_is_refused(name: str) -> None:
    with pytest.raises(
        ValueError, match=f"{name} are no controllers: there are workers, admission, machines, capacity"
    ):
        kube_rules(name)


@pytest.mark.parametrize(
    ("classes", "want"),
    [
        ((None,), ["sluice-workers"]),
        (("heavy",), ["sluice-workers.heavy"]),
        ((None, "heavy"), ["sluice-workers", "sluice-workers.heavy"]),
    ],
)
def test_worker_leases_are_those_of_the_classes_and_no_others(classes: tuple[str | None, ...], want: list[str]) -> None:
    for scope, namespace in ((WorkerScope.NAMESPACE, None), (WorkerScope.CLUSTER, "kube-system")):
        made = controllers.leases(WORKERS, scope=scope, classes=classes)
        assert [(lease.name, lease.namespace) for lease in made] == [(name, namespace) for name in want]
    rules = [rule for rule in kube_rules("workers", classes=classes) if "leases" in rule.resources]
    assert {name for rule in rules if rule.verbs == ("get", "patch") for name in rule.resource_names} == set(want)
    unbound = [rule.verbs for rule in rules if not rule.resource_names]
    assert set(unbound) == {("create",), ("get",)}  # Kubernetes cannot bind that; whether operators of others live


def test_without_classes_there_are_no_names_to_bind_leases_to() -> None:
    with pytest.raises(ValueError, match="no class of worker pools"):
        kube_rules("workers", classes=[])


class Right(NamedTuple):
    group: str
    resource: str
    verb: str
    where: str


class Recording:
    """An API server that remembers which rights its caller needs."""

    def __init__(self, api: port.Api) -> None:
        self.used: set[Right] = set()
        self._api = api

    async def send(self, request: port.Request) -> port.Response:
        self._note(request.method, request.path)
        return await self._api.send(request)

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Sequence[bytes], None]:
        self._note("WATCH", path)
        async for batch in self._api.watch(path, query):
            yield batch

    def _note(self, method: str, path: str) -> None:
        found = re.fullmatch(
            r"/(?:api|apis/(?P<group>[^/]+))/v1\w*(?:/namespaces/(?P<namespace>[^/]+))?/(?P<resource>\w+)"
            r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>\w+))?",
            path,
        )
        if not found:
            assert path == "/version"  # every user may read that
            return
        verbs = {"POST": "create", "PATCH": "patch", "DELETE": "delete", "WATCH": "watch"}
        verb = verbs.get(method, "get" if found["name"] else "list")
        resource = found["resource"] + (f"/{found['sub']}" if found["sub"] else "")
        self.used.add(Right(found["group"] or "", resource, verb, found["namespace"] or "everywhere"))


class Teller:
    """A controller that watches worker pools and tells the same thing over and over."""

    def __init__(self, context: control.ControllerContext) -> None:
        self._context = context
        context.watch(kinds.custom(resources.WorkerPool), objects.custom(resources.WorkerPool), NAMESPACE)

    async def reconcile(self, dirty: control.Dirty) -> float | None:
        del dirty
        where = events.Regarding(resource=kinds.PODS, key=objects.Key(NAMESPACE, "p"), uid="u")
        self._context.recorder.record(events.Event(regarding=where, reason="Told", message="again"))
        return self._context.clock.now() + 60


async def run_for(cluster: SimulatedCluster, seconds: float) -> set[Right]:
    """Run a replica with one controller, end it, and return what it needed."""
    api, clock = Recording(cluster.client("a")), virtual_time.clock()
    make = leadership.elector_maker(clock, namespace=NAMESPACE, identity="a", terms=election.Terms())
    around = process.Surroundings(
        api=api,
        clock=clock,
        leadership=leadership.InLoop(api, make),
        plan=planning.inline,
        namespace=NAMESPACE,
        identity="a",
    )
    running = process.Process(around, {"workers": process.Registration(lease="sluice-workers", build=Teller)})
    task = asyncio.create_task(running.run())
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return api.used


def granted(rules: Sequence[permissions.KubeRule]) -> set[Right]:
    return {
        Right(rule.group, resource, verb, "everywhere" if rule.where is Where.CLUSTER else NAMESPACE)
        for rule in rules
        for resource in rule.resources
        for verb in rule.verbs
    }


async def cluster_with_an_unreadable_pool() -> SimulatedCluster:
    cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=0.005)
    cluster.install_definitions()
    await cluster.settle()
    cluster.create(kinds.NAMESPACES, {"metadata": {"name": NAMESPACE}})
    pool = builders.resource("WorkerPool", name="old")
    pool["metadata"]["namespace"] = NAMESPACE
    kind = kinds.custom(resources.WorkerPool)
    cluster.create(kind, pool)
    old = cluster.server.store.find(kind, store.Key(NAMESPACE, "old"))
    assert old is not None
    old.object["spec"]["queue"]["interval"] = "10s"  # as if written before the rule
    return cluster


@pytest.mark.simulated
@simulated
async def test_the_engine_is_granted_exactly_what_it_calls() -> None:
    cluster = await cluster_with_an_unreadable_pool()
    used = await run_for(cluster, 300) | await run_for(cluster, 300)  # the second finds what the first left
    told = [rule for rule in WORKERS.kube if rule.resources in {("events",), ("workerpools",), ("workerpools/status",)}]
    controllers_own = {Right(version.GROUP, "workerpools", verb, NAMESPACE) for verb in ("get", "patch")}
    leading = permissions.leading(Where.OWN_NAMESPACE, "sluice-workers")
    assert used == granted([*controllers.ENGINE, *leading, *told]) - controllers_own
