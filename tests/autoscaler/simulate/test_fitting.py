"""A trace's jobs name queues, and its guests machines, that the stack has; else nothing is played."""

from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.pools import Architecture
from autoscaler.api.settings.node_groups import NodeGroupKey, NodeGroups, NodeGroupSpec
from autoscaler.simulate import fitting, trace
from autoscaler.simulate.stack import Stack

JOB = {"namespace": "research", "queue": "training", "requests": {"cpu": "1"}, "takes": ["1m", "1m"], "parallelism": 1}
DAY = trace.parse({"starts": "2026-06-30T06:00:00Z", "jobs": {"ranking": JOB}})


def with_queues(*queues: tuple[str, str]) -> Stack:
    objects: list[Manifest] = [{"kind": "Namespace", "metadata": {"name": "research"}}]
    objects += [{"kind": "LocalQueue", "metadata": {"namespace": space, "name": name}} for space, name in queues]
    return Stack(groups=NodeGroups(cluster="bench", region="us-east-1", groups=()), objects=tuple(objects))


def test_jobs_whose_queue_is_there_fit() -> None:
    fitting.check(DAY, with_queues(("research", "training")))


@pytest.mark.parametrize(
    ("queues", "has"),
    [((), "none"), ((("reports", "training"), ("research", "other")), "training in reports, other in research")],
)
def test_a_queue_that_is_not_there_is_named_beside_those_that_are(
    queues: tuple[tuple[str, str], ...], has: str
) -> None:
    with pytest.raises(trace.TraceError) as caught:
        fitting.check(DAY, with_queues(*queues))
    line = f"jobs.ranking.queue: the stack has no LocalQueue training in namespace research (it has: {has})"
    assert str(caught.value) == f"the trace does not fit the stack:\n  {line}"


GUEST: dict[str, Any] = {"namespace": "labs", "group": "notebooks", "type": "small", "takes": ["1m", "1m"]}


def asking(**fields: Any) -> trace.Trace:
    return trace.parse({"starts": "2026-06-30T06:00:00Z", "guests": {"notebook": {**GUEST, **fields}}})


def with_machines(*, namespaces: tuple[str, ...] = ("labs",), **types: tuple[str, ...]) -> Stack:
    """Make a stack with groups of these types, and namespaces whose pods get machines, beside one whose do not."""
    labels = {keys.INJECT_RESOURCE: keys.INJECT_ENABLED}
    objects: list[Manifest] = [{"kind": "Namespace", "metadata": {"name": "research"}}]
    objects += [{"kind": "Namespace", "metadata": {"name": name, "labels": labels}} for name in namespaces]
    objects += [
        {"kind": "Machine", "metadata": {"name": group}, "spec": {"machineTypes": [{"name": each} for each in named]}}
        for group, named in types.items()
    ]
    return Stack(groups=NodeGroups(cluster="bench", region="us-east-1", groups=()), objects=tuple(objects))


def test_guests_whose_machine_is_there_fit() -> None:
    fitting.check(asking(), with_machines(notebooks=("large", "small")))


@pytest.mark.parametrize(
    ("types", "has"),
    [
        ({}, "none"),
        ({"notebooks": ("large",)}, "large of notebooks"),
        (
            {"desks": ("small",), "notebooks": ("tiny", "large")},
            "small of desks, large of notebooks, tiny of notebooks",
        ),
    ],
)
def test_a_machine_that_is_not_there_is_named_beside_those_that_are(
    types: dict[str, tuple[str, ...]], has: str
) -> None:
    with pytest.raises(trace.TraceError) as caught:
        fitting.check(asking(), with_machines(**types))
    line = f"guests.notebook.type: the stack has no machine type small of group notebooks (it has: {has})"
    assert str(caught.value) == f"the trace does not fit the stack:\n  {line}"


@pytest.mark.parametrize(("namespaces", "has"), [((), "none"), (("labs", "desks"), "desks, labs")])
def test_a_namespace_whose_pods_get_no_machines_is_named(namespaces: tuple[str, ...], has: str) -> None:
    with pytest.raises(trace.TraceError) as caught:
        fitting.check(asking(namespace="research"), with_machines(namespaces=namespaces, notebooks=("small",)))
    line = f"pods of namespace research get no machines in the stack (those of these do: {has})"
    assert str(caught.value) == f"the trace does not fit the stack:\n  guests.notebook.namespace: {line}"


def test_everything_that_does_not_fit_is_named_at_once() -> None:
    day = trace.parse({"starts": "2026-06-30T06:00:00Z", "jobs": {"ranking": JOB}, "guests": {"notebook": GUEST}})
    with pytest.raises(trace.TraceError) as caught:
        fitting.check(day, with_machines(namespaces=()))
    assert [line.split(":")[0].strip() for line in str(caught.value).splitlines()[1:]] == [
        "jobs.ranking.queue",
        "guests.notebook.type",
        "guests.notebook.namespace",
    ]


def group(pool: str = "workers", zone: str = "us-east-1a", kind: str = "m5.large", **labels: str) -> NodeGroupSpec:
    return NodeGroupSpec(
        key=NodeGroupKey(pool=pool, zone=zone, instance_type=kind),
        name=f"{pool}-{zone}-{kind}",
        minimum=0,
        maximum=1,
        architecture=Architecture.AMD64,
        vcpus=2,
        memory_bytes=1,
        max_pods=10,
        labels={keys.NODE_TYPE: "worker", keys.ZONE: zone, **labels},
    )


GRID = Stack(groups=NodeGroups(cluster="bench", region="us-east-1", groups=(group(), group("gpu"))), objects=())
WORK = {"namespace": "research", "requests": {"cpu": "1"}, "takes": ["1m", "1m"]}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (
            {"secondsUsedThisMonth": {"worker": 1}},
            "secondsUsedThisMonth.worker: the stack has no such pool: did you mean workers?",
        ),
        (
            {"secondsUsedThisMonth": {"zzz": 1}},
            "secondsUsedThisMonth.zzz: the stack has no such pool (there are: gpu, workers)",
        ),
        (
            {"shortages": [{"zone": "us-east-1z", "from": "06:00", "to": "07:00"}]},
            "shortages.0.zone: the stack has no node group in us-east-1z: did you mean us-east-1a?",
        ),
        (
            {"shortages": [{"zone": "us-east-1a", "instanceTypes": ["m5.lrge"], "from": "06:00", "to": "07:00"}]},
            "shortages.0.instanceTypes.0: no node group of the stack has m5.lrge: did you mean m5.large?",
        ),
        (
            {"pods": {"a": {**WORK, "nodeSelector": {"node.type": "workr"}}}},
            "pods.a.nodeSelector.node.type: no node group of the stack has node.type=workr: did you mean worker?",
        ),
        (
            {"pods": {"a": {**WORK, "nodeSelector": {"node.typ": "worker"}}}},
            "pods.a.nodeSelector.node.typ: no node group of the stack has the label node.typ: did you mean node.type?",
        ),
        (
            {"queues": {"a": {**WORK, "poolCapacity": 1, "nodeSelector": {keys.ZONE: "mars-1a"}}}},
            (
                f"queues.a.nodeSelector.{keys.ZONE}: no node group of the stack has {keys.ZONE}=mars-1a"
                " (there are: us-east-1a)"
            ),
        ),
    ],
)
def test_pools_zones_types_and_labels_that_are_not_there_are_named_with_a_guess(given: Any, want: str) -> None:
    with pytest.raises(trace.TraceError) as caught:
        fitting.check(trace.parse({"starts": "2026-06-30T06:00:00Z", **given}), GRID)
    assert str(caught.value) == f"the trace does not fit the stack:\n  {want}"


def test_labels_that_nodes_have_or_may_get_from_kubernetes_fit() -> None:
    selector = {"node.type": "worker", keys.ZONE: "us-east-1a", "kubernetes.io/os": "linux"}
    pods = {"a": {**WORK, "nodeSelector": selector}}
    fitting.check(trace.parse({"starts": "2026-06-30T06:00:00Z", "pods": pods}), GRID)
