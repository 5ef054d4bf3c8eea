"""`python -m autoscaler explain pod …` of a guest: read the live cluster once, and say why it waits for a machine."""

import asyncio
import textwrap
from collections.abc import Iterator
from typing import Any, Final

from autoscaler.api import resources
from autoscaler.control import plans
from autoscaler.kube import kinds, listing, objects, port, store
from autoscaler.machines import explaining, known

_NAMES: Final = 13
"""How wide the names of facts are."""


async def of_pod(api: port.Api, pod: objects.Pod, *, now: float) -> list[str]:
    """Explain how a pod stands with its machine group; nothing where it is no guest."""
    explanation = explaining.of_guest(await _tables(api), pod, now)
    return [] if explanation is None else list(_written(explanation))


def _written(explanation: explaining.Explanation) -> Iterator[str]:
    yield explanation.title
    for name, fact in explanation.facts:
        yield textwrap.fill(
            fact, plans.WIDTH, initial_indent=f"  {name:<{_NAMES}}", subsequent_indent=" " * (_NAMES + 2)
        )
    width = max((len(row.node) for row in explanation.rows), default=0)
    if explanation.rows:
        yield f"  {'NODE':<{max(width, 4)}}  SAYS"
    for row in explanation.rows:
        yield f"  {row.node:<{max(width, 4)}}  {row.says}"


async def _tables(api: port.Api) -> known.Tables:
    """Read everything that machines are decided on."""

    async def read(resource: kinds.ResourceType, decode: Any) -> store.Table[Any]:  # noqa: ANN401  # any decoder
        table: store.Table[Any] = store.Table()
        listed, version = await listing.read_at(api, resource, decode)
        table.replace(listed, version)
        return table

    machines, nodes, pods, namespaces = await asyncio.gather(
        read(kinds.custom(resources.Machine), objects.custom(resources.Machine)),
        read(kinds.NODES, objects.node),
        read(kinds.PODS, objects.pod),
        read(kinds.NAMESPACES, objects.simple),
    )
    return known.Tables(
        machines=machines,
        node_pools=store.Table(),
        nodes=nodes,
        pods=pods,
        namespaces=namespaces,
        stateful_sets=store.Table(),
        services=store.Table(),
    )
