"""What capacity watches of the cluster: tables and indexes that are kept current. It decides nothing."""

from collections.abc import Mapping
from typing import Any, Final

from autoscaler import control
from autoscaler.api import resources
from autoscaler.api.resources.machines import MachineSpec
from autoscaler.capacity.custom import MACHINES, POOLS, SCOPES
from autoscaler.capacity.indexes import afresh, node_index, pod_index, remembered
from autoscaler.capacity.scaledown import group_lists
from autoscaler.capacity.scaleup import daemons
from autoscaler.capacity.scaleup.storage import needs as storage
from autoscaler.capacity.scaleup.storage import volume_objects
from autoscaler.kube import kinds, objects, store

INDEXED_PORTION: Final = 1000
"""So many pods or nodes are taken into an index that is made afresh in one cycle."""


class Watched:
    """The tables of one cluster."""

    def __init__(self, context: control.ControllerContext) -> None:
        self.pods: store.Table[objects.Pod] = context.watch(kinds.PODS, objects.pod)
        self.nodes: store.Table[objects.Node] = context.watch(kinds.NODES, objects.node)
        self.pod_index = pod_index.PodIndex(self.pods)
        self.node_index = node_index.NodeIndex(self.nodes)
        self.namespaces: store.Table[objects.Simple] = context.watch(kinds.NAMESPACES, objects.simple)
        self.pools = context.watch(POOLS, objects.custom(resources.InstancePool))
        self.scopes = context.watch(SCOPES, objects.custom(resources.Scope))
        self.machines = context.watch(MACHINES, objects.custom(resources.Machine))
        self.group_lists: store.Table[group_lists.Listed] = context.watch(
            kinds.CONFIG_MAPS, group_lists.decode, namespace=context.namespace
        )
        self.daemons: store.Table[daemons.DaemonSet] = context.watch(kinds.DAEMON_SETS, daemons.decode)
        self.volumes: store.Table[volume_objects.Volume] = context.watch(kinds.VOLUMES, volume_objects.volume)
        self.volume_claims: store.Table[volume_objects.Claim] = context.watch(kinds.CLAIMS, volume_objects.claim)
        self.storage_classes = context.watch(kinds.STORAGE_CLASSES, volume_objects.storage_class)
        self.attach_limits = context.watch(kinds.CSI_NODES, volume_objects.attach_limits)
        self._in_order = remembered.Remembered(_in_order)
        self._storage = remembered.Remembered(_storage)

    def machines_in_order(self) -> dict[str, MachineSpec]:
        """Return machine groups that stay, the oldest first."""
        return self._in_order(self.machines.snapshot())

    def storage(self) -> storage.Storage:
        """Return volumes, claims and classes, and how many volumes nodes attach."""
        return self._storage(
            self.volume_claims.snapshot(),
            self.volumes.snapshot(),
            self.storage_classes.snapshot(),
            self.attach_limits.snapshot(),
        )

    def afresh(self) -> dict[str, afresh.Afresh[Any]]:
        """Make each index a second time beside itself, some objects at a time."""
        return {
            "pod_index": afresh.Afresh(self.pods, self.pod_index, pod_index.PodIndex, portion=INDEXED_PORTION),
            "node_index": afresh.Afresh(self.nodes, self.node_index, node_index.NodeIndex, portion=INDEXED_PORTION),
        }


def _storage(
    claims: Mapping[objects.Key, volume_objects.Claim],
    found: Mapping[objects.Key, volume_objects.Volume],
    classes: Mapping[objects.Key, volume_objects.StorageClass],
    limits: Mapping[objects.Key, volume_objects.AttachLimits],
) -> storage.Storage:
    return storage.Storage(claims=claims, volumes=found, classes=classes, attach_limits=limits)


def _in_order(machines: Mapping[objects.Key, objects.Custom[resources.Machine]]) -> dict[str, MachineSpec]:
    """Return machine groups that stay; those that are older have their nodes first."""
    staying = [each for each in machines.values() if each.meta.deleted_at is None]
    staying.sort(key=lambda each: (each.meta.created_at, each.meta.key.name))
    return {each.meta.key.name: each.resource.spec for each in staying}
