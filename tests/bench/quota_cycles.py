"""Admission: what one cycle costs beside many Workloads that have no chance. No API server."""

import statistics
import time
from typing import Final

from autoscaler.admission.quota import cycle
from autoscaler.admission.quota.cache import books
from tests.autoscaler.admission import applying, builders
from tests.bench import results

SIZES: Final = (0, 1_000, 10_000, 50_000)
SHAPES: Final = (1, 1_000)
ROUNDS: Final = 200
QUOTA: Final = 100


def cycles(scale: float) -> None:
    """A small Workload comes, is admitted and goes, beside 0 to 50,000 that are too large for what is free."""
    for shapes in SHAPES:
        for size in SIZES:
            _measure(int(size * scale), shapes)


def _measure(hopeless: int, shapes: int) -> None:
    """Keep 99 of 100 cpu in use; each Workload that waits wants from 2 cpu on."""
    queue = builders.cluster_queue(flavors={"spot": {"cpu": QUOTA}})
    cluster = applying.Cluster(builders.tables(builders.flavor(), queue, builders.local_queue()))
    cluster.put(builders.workload_manifest("large", count=QUOTA - 1, granted=QUOTA - 1))
    for number in range(hopeless):
        millis = 2000 + number % shapes
        cluster.put(builders.workload_manifest(f"waits-{number:06d}", cpu=f"{millis}m", age=1000))
    kept = books.Books(cluster.tables)
    first = _decide(kept, cluster)
    come, gone, idle = [], [], []
    for number in range(ROUNDS):
        name = f"small-{number:03d}"
        cluster.put(builders.workload_manifest(name, cpu=1, age=1))
        come.append(_decide(kept, cluster))
        idle.append(_decide(kept, cluster))
        cluster.remove(name)
        gone.append(_decide(kept, cluster))
    results.tell(
        "cycles",
        hopeless=hopeless,
        shapes=min(shapes, hopeless),
        first_ms=1000 * first,
        come_ms=1000 * statistics.median(come),
        idle_ms=1000 * statistics.median(idle),
        gone_ms=1000 * statistics.median(gone),
    )


def _decide(kept: books.Books, cluster: applying.Cluster) -> float:
    """Decide, carry it out, and return what deciding cost."""
    started = time.process_time()
    plan = cycle.decide(kept, now=builders.NOW, most=500)
    seconds = time.process_time() - started
    cluster.apply(plan.writes)
    return seconds
