"""`python -m autoscaler explain pod …` of a guest: read the live cluster once, and say why it waits for a machine."""

from collections.abc import Iterator

from autoscaler.api import resources
from autoscaler.control import plans
from autoscaler.kube import kinds, objects, port, store
from autoscaler.kube.reading import listing
from autoscaler.machines import explaining
from autoscaler.machines.state import known


async def of_pod(api: port.Api, pod: objects.Pod, *, now: float) -> list[str]:
    """Explain how a pod stands with its machine group; nothing where it is no guest."""
    explanation = explaining.of_guest(await _tables(api), pod, now)
    return [] if explanation is None else list(_written(explanation))


def _written(explanation: explaining.Explanation) -> Iterator[str]:
    yield explanation.title
    yield from plans.facts(explanation.facts)
    if explanation.rows:
        rows = [("NODE", "SAYS"), *((row.node, row.says) for row in explanation.rows)]
        yield from (f"  {line}" for line in plans.table(rows))


async def _tables(api: port.Api) -> known.Tables:
    """Read everything that machines are decided on."""
    return known.Tables(
        machines=await listing.table(api, kinds.custom(resources.Machine), objects.custom(resources.Machine)),
        node_pools=store.Table(),
        nodes=await listing.table(api, kinds.NODES, objects.node),
        pods=await listing.table(api, kinds.PODS, objects.pod),
        namespaces=await listing.table(api, kinds.NAMESPACES, objects.simple),
        stateful_sets=store.Table(),
        services=store.Table(),
    )
