"""Which Auto Scaling groups leave the stack, and how many nodes they had: said in every preview and update.

The stack's file only says what stays, so the engine is asked for the stack's own state. No account and no cluster is
looked at: a preview without any credentials says the same. The numbers are those of the last update or refresh.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from autoscaler.api import keys

OUTPUTS: Final = "pulumi:pulumi:readStackOutputs"
RESOURCES: Final = "pulumi:pulumi:readStackResourceOutputs"
GROUP: Final = "aws:autoscaling/group:Group"
NAMED_MAX: Final = 10
"""So many groups of a pool are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownGroup:
    """A group as the state has it."""

    name: str
    nodes: int
    tags: Mapping[str, str]

    @property
    def pool(self) -> str:
        return self.tags.get(keys.INSTANCE_POOL, "")

    def is_of(self, clusters: Iterable[str]) -> bool:
        """Tell whether it is one of these clusters'."""
        return any(keys.cluster_tag(cluster) in self.tags for cluster in clusters)


def leaving(staying: Collection[str]) -> tuple[KnownGroup, ...]:
    """Read the groups that leave, given the names of those that stay; none if the state cannot be read."""
    name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    try:
        # The outputs name the groups. The state as a whole takes ten times as long to read, and is not there at first.
        if named(pulumi.runtime.invoke(OUTPUTS, {"name": name}).value["outputs"]) <= {*staying}:
            return ()
        resources = pulumi.runtime.invoke(RESOURCES, {"stackName": name}).value["outputs"]
    except Exception as error:  # noqa: BLE001  # the SDK raises nothing narrower, and no update depends on this
        pulumi.log.info(f"which Auto Scaling groups leave cannot be told: {error}")
        return ()
    return tuple(group for group in groups_in(resources) if group.name not in staying)


def named(outputs: Mapping[str, Any]) -> set[str]:
    """Return the names of all groups in the outputs of a stack."""
    clusters = (outputs.get("clusters") or {}).values()
    return {str(row["name"]) for cluster in clusters for row in cluster.get("autoScalingGroups") or ()}


def groups_in(resources: Mapping[str, Mapping[str, Any]]) -> Iterator[KnownGroup]:
    """Yield the groups of a state."""
    for resource in resources.values():
        if resource["type"] == GROUP:
            outputs = resource["outputs"]
            tags = {tag["key"]: tag["value"] for tag in outputs.get("tags") or ()}
            yield KnownGroup(name=str(outputs["name"]), nodes=int(outputs.get("desiredCapacity") or 0), tags=tags)


def warnings(found: Iterable[KnownGroup], *, undrained: Collection[str] = ()) -> Iterator[str]:
    """Tell of groups that leave, pool by pool; `undrained` names the clusters whose nodes somebody else scales."""
    pools: defaultdict[tuple[str, bool], list[KnownGroup]] = defaultdict(list)
    for group in found:
        pools[group.pool, not group.is_of(undrained)].append(group)
    for (pool, drained), groups in sorted(pools.items()):
        yield _told(pool, sorted(groups, key=lambda group: group.name), drained=drained)


def _told(pool: str, groups: list[KnownGroup], *, drained: bool) -> str:
    named = [f"{group.name} ({group.nodes})" for group in groups[:NAMED_MAX]]
    named += [f"{len(groups) - NAMED_MAX} more"] if len(groups) > NAMED_MAX else []
    nodes = sum(group.nodes for group in groups)
    then = (
        "their nodes are drained first, which takes as long as the work on them, and the pool's drainSeconds at most"
        if drained
        else "nobody drains them: their instances end with the work on them"
    )
    has = f"{_count(len(groups), 'Auto Scaling group')} with {_count(nodes, 'node')}"
    return f"pool {pool} loses {has}, as of the last update or refresh: {', '.join(named)}; {then}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
