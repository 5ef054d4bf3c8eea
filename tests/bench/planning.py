"""How fast waiting pods become a plan, and how many nodes it takes: on Karpenter's own mix, and on many shapes.

Every result is judged by the independent checker of the tests; one that breaks a constraint stops the measurement.
Peer figures were measured on the same kind of computer (2 cores). Karpenter times its solver alone; here everything is
in, from values to plan. One thread plans, so core seconds are the seconds of a quiet computer; they make the ratio.
"""

import gc
import random
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from autoscaler.api import keys
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity import model
from autoscaler.capacity.scaleup import placement
from autoscaler.kube import objects, wire
from autoscaler.kube import shapes as pod_shapes
from tests.autoscaler.capacity import checker
from tests.bench import results

SIZES: Final = (100, 1_000, 5_000, 10_000, 20_000)
PEER: Final = {
    "mixed": {100: (0.30, 20), 1_000: (3.8, 200), 5_000: (20.3, 1_000), 10_000: (44.7, 2_000), 20_000: (137.0, 4_000)},
    "plain": {100: (0.08, 1), 1_000: (0.46, 3), 5_000: (2.6, 12), 10_000: (5.6, 24), 20_000: (13.8, 49)},
}
"""Karpenter 1.15's seconds and nodes."""
ZONES: Final = ("z1", "z2", "z3")
INSTANCE_TYPES: Final = 400
GROUPS: Final = 200
CPU_MILLIS: Final = (100, 250, 500, 1000, 1500)
MEMORY_MIB: Final = (100, 256, 512, 1024, 2048, 4096)
LABELS: Final = "abcdefg"
MIB: Final = 2**20
_RUNS: Final = 5


def planning(scale: float) -> None:
    """Karpenter's scheduling benchmark, 400 types in 3 zones (bar: 10 times as fast, no more nodes)."""
    groups = karpenter_groups()
    for mix in ("plain", "mixed"):
        for pods in SIZES:
            if pods <= max(SIZES) * scale:
                situation = model.Situation(demands=karpenter_demands(pods, mixed=mix == "mixed"), groups=groups)
                figures = _measure(situation)
                peer_seconds, peer_nodes = PEER[mix][pods]
                results.tell(
                    f"planning-{mix}",
                    **figures,
                    peer_nodes=peer_nodes,
                    pods_per_core_second=int(pods / figures["core_seconds"]),
                    times_faster=peer_seconds / figures["core_seconds"],
                )


def shapes(scale: float) -> None:
    """2,000 shapes over 200 groups with 5, 50 and 500 pods each (bar: 1 s for 100,000 pods), and in a shortage."""
    count = int(2_000 * scale)
    for each in (5, 50, 500):
        results.tell("planning-shapes", **_measure(many_shapes(count, each, more=100_000)))
    results.tell("planning-shortage", **_measure(many_shapes(count, 50, more=10)))


def karpenter_groups() -> tuple[model.Group, ...]:
    """The i-th type has i vCPU, 2 i GiB and takes 10 i pods; 100m and 10 Mi are reserved; price by vCPU and GB."""
    found = []
    for size in range(1, INSTANCE_TYPES + 1):
        capacity = {"cpu": size * 1000, "memory": size * 2048 * MIB, "pods": size * 10}
        free = {"cpu": size * 1000 - 100, "memory": size * 2048 * MIB - 10 * MIB, "pods": size * 10}
        for zone in ZONES:
            key = NodeGroupKey(pool="pool", zone=zone, instance_type=f"type.{size}xlarge")
            labels = {keys.ZONE: zone, keys.INSTANCE_TYPE: key.instance_type, keys.ARCHITECTURE: "amd64"}
            template = model.Template(labels=labels, allocatable=free, capacity=capacity)
            price = int((0.1 * size + 0.1 * capacity["memory"] / 1e9) * 1e6)
            found.append(model.Group(key=key, template=template, more=100_000, price_micros=price))
    return tuple(found)


def karpenter_demands(pods: int, *, mixed: bool, seed: int = 42) -> tuple[model.Demand, ...]:
    """The pods of the benchmark, by shape."""
    dice = random.Random(seed)  # noqa: S311
    manifests = [_plain(dice) for _ in range(pods)] if not mixed else list(_mixed(pods, dice))
    return demands_of(manifests)


def demands_of(manifests: Iterable[dict[str, Any]]) -> tuple[model.Demand, ...]:
    """Count pods by shape and labels, as ingest would."""
    counts: Counter[tuple[pod_shapes.Shape, tuple[tuple[str, str], ...]]] = Counter()
    for manifest in manifests:
        pod = wire.POD.decode(msgspec.json.encode(manifest))
        counts[pod_shapes.of(pod), tuple(sorted(pod.metadata.labels.items()))] += 1
    return tuple(
        model.Demand(shape=shape, count=count, namespace="default", labels=dict(labels))
        for (shape, labels), count in counts.items()
    )


def many_shapes(count: int, each: int, *, more: int) -> model.Situation:
    """As many shapes, of many sizes; a third asks for one pool, a tenth for a zone, some spread or stay apart."""
    dice = random.Random(7)  # noqa: S311
    manifests = [_varied(dice, number) for number in range(count)]
    demands = [
        model.Demand(shape=one.shape, count=each, namespace="default", labels=one.labels)
        for one in demands_of(manifests)
    ]
    return model.Situation(demands=tuple(demands), groups=tuple(_fleet(GROUPS, more)))


def _varied(dice: random.Random, number: int) -> dict[str, Any]:
    app = {"app": f"app-{number}"}
    spec: dict[str, Any] = {}
    if number % 3 == 0:
        spec["nodeSelector"] = {keys.NODE_TYPE: f"pool-{dice.randrange(4)}"}
    if number % 10 == 1:
        spec["nodeSelector"] = {keys.ZONE: dice.choice(ZONES)}
    if number % 20 == 2:
        spec["topologySpreadConstraints"] = [_spread(keys.ZONE, app)]
    if number % 40 == 5:
        spec["affinity"] = {"podAntiAffinity": _required(keys.HOSTNAME, app)}
    cpu, memory = dice.randrange(100, 4000, 10), dice.randrange(128, 16384)
    return _pod(f"{cpu}m", f"{memory}Mi", labels=app, **spec)


def _fleet(count: int, more: int) -> Iterable[model.Group]:
    """Compute, general and memory types of five sizes, in five pools and three zones, one pool tainted."""
    number = 0
    for size in (1, 2, 4, 8, 12):
        for ratio in (2, 4, 8):
            for pool in range(5):
                for zone in ZONES:
                    if number == count:
                        return
                    number += 1
                    yield _fleet_group(size, ratio, pool, zone, more=more)


def _fleet_group(size: int, ratio: int, pool: int, zone: str, *, more: int) -> model.Group:
    key = NodeGroupKey(pool=f"pool-{pool}", zone=zone, instance_type=f"r{ratio}.{size}xlarge")
    cpu, memory = size * 8000, size * 8 * ratio * 1024 * MIB
    labels = {keys.ZONE: zone, keys.INSTANCE_TYPE: key.instance_type, keys.NODE_TYPE: key.pool}
    template = model.Template(
        labels=labels,
        allocatable={"cpu": cpu - 200, "memory": memory - 700 * MIB, "pods": 110},
        capacity={"cpu": cpu, "memory": memory, "pods": 110},
        taints=(objects.NodeTaint("only", "gpu", "NoSchedule"),) if pool == 4 else (),
    )
    return model.Group(key=key, template=template, more=more)


def _mixed(pods: int, dice: random.Random) -> Iterable[dict[str, Any]]:
    fifth = pods // 5
    for _ in range(fifth):
        yield _plain(dice, labels=_label(dice))
    for topology in (keys.ZONE, keys.HOSTNAME):
        for _ in range(fifth):
            yield _plain(dice, labels=_label(dice), topologySpreadConstraints=[_spread(topology, _label(dice))])
    for _ in range(fifth):
        friends = {"my-affinity": dice.choice(LABELS)}
        yield _plain(dice, labels=friends, affinity={"podAffinity": _required(keys.ZONE, friends)})
    for _ in range(fifth):
        nginx = {"app": "nginx"}
        yield _plain(dice, labels=nginx, affinity={"podAntiAffinity": _required(keys.HOSTNAME, nginx)})
    for _ in range(pods - 5 * fifth):
        yield _plain(dice, labels=_label(dice))


def _label(dice: random.Random) -> dict[str, str]:
    return {"my-label": dice.choice(LABELS)}


def _spread(topology: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": topology,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }


def _required(topology: str, labels: dict[str, str]) -> dict[str, Any]:
    term = {"topologyKey": topology, "labelSelector": {"matchLabels": labels}}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _plain(dice: random.Random, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return _pod(f"{dice.choice(CPU_MILLIS)}m", f"{dice.choice(MEMORY_MIB)}Mi", labels=labels or {}, **spec)


def _pod(cpu: str, memory: str, *, labels: dict[str, str], **spec: Any) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    containers = [{"name": "main", "image": "none", "resources": {"requests": requests}}]
    return {
        "metadata": {"name": "pod", "namespace": "default", "labels": labels},
        "spec": {"containers": containers, **spec},
    }


def _measure(situation: model.Situation) -> dict[str, Any]:
    """Return the median of a few runs, preparation included, and what came of it, checked."""
    seconds, core_seconds = [], []
    for _ in range(_RUNS):
        gc.collect()
        started, used = time.perf_counter(), results.cpu_seconds()
        placed = placement.place(situation)
        seconds.append(time.perf_counter() - started)
        core_seconds.append(results.cpu_seconds() - used)
    wrong = checker.violations(situation, placed)
    if wrong:
        raise RuntimeError(f"the plan breaks {len(wrong)} constraints, first: {wrong[0]}")
    return {
        "pods": sum(demand.count for demand in situation.demands),
        "shapes": len(situation.demands),
        "groups": len(situation.groups),
        "seconds": sorted(seconds)[_RUNS // 2],
        "core_seconds": sorted(core_seconds)[_RUNS // 2],
        "nodes": sum(placed.new_nodes().values()),
        "runs": len(placed.launches),
        "unplaced": sum(one.count for one in placed.unplaced),
        "peak_mb": _peak_mb(situation),
    }


def _peak_mb(situation: model.Situation) -> float:
    """Return how much memory a plan takes at most; measured apart, for it slows everything down."""
    tracemalloc.start()
    placement.place(situation)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / MIB
