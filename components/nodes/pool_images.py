"""Whether a pool's instances can start from the images that a pipeline builds. Pure.

An image has the architecture of the instance it was built on; an instance of another one is refused by AWS, long
after `pulumi up` has ended.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence

from autoscaler.api.settings.node_groups import NodeGroupSpec
from components.config.base import Problem
from components.config.clusters import Cluster
from components.config.node_pools import NodePool
from components.config.stack import MachineImage
from components.regions.offerings import Offerings


def problems(
    images: Mapping[str, MachineImage], clusters: Mapping[str, Cluster], offerings: Offerings | None
) -> Iterator[Problem]:
    """Refuse pipelines on instance types that nobody offers, and pools of another architecture."""
    if offerings is None:
        return
    for name, image in images.items():
        if image.instance_type not in offerings.types:
            yield _unknown(name, image.instance_type, offerings)
    for key, cluster in clusters.items():
        for pool_name, pool in cluster.node_pools.items():
            used = images.get(_pipeline(pool))
            if used is not None and used.instance_type in offerings.types:
                path = ("clusters", key, "nodePools", pool_name, "image", "pipeline")
                yield from _other_architecture(path, pool, used, offerings)


def warnings(cluster: Cluster, groups: Sequence[NodeGroupSpec]) -> Iterator[str]:
    """Tell of pools with GPUs whose images have no driver, unless somebody put it into the base image."""
    gpus = {group.key.pool: group.key.instance_type for group in groups if group.gpus}
    for name, pool in cluster.node_pools.items():
        if name in gpus and _pipeline(pool):
            yield (
                f"pool {name} has GPUs ({gpus[name]}), and the pipeline {_pipeline(pool)} installs no NVIDIA driver: "
                "its nodes are never finished unless baseImageId has one"
            )


def _pipeline(pool: NodePool) -> str:
    return (pool.image.pipeline if pool.image else None) or ""


def _other_architecture(
    path: tuple[str, ...], pool: NodePool, image: MachineImage, offerings: Offerings
) -> Iterator[Problem]:
    built = offerings.types[image.instance_type].architecture
    types = [offerings.types[kind].architecture for kind in pool.types if kind in offerings.types]
    if types and built not in types:
        where = f"machineImages.{_pipeline(pool)}.instanceType ({image.instance_type})"
        message = f"is built for {built}, as {where} is, and the pool's types have {types[0]}"
        yield Problem(path=path, value=_pipeline(pool), message=message)


def _unknown(name: str, instance_type: str, offerings: Offerings) -> Problem:
    close = difflib.get_close_matches(instance_type, offerings.types, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    message = f"is offered nowhere in {offerings.region}{hint}"
    return Problem(path=("machineImages", name, "instanceType"), value=instance_type, message=message)
