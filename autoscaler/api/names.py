"""How objects are named after each other, and how long a name may be so that its derivatives stay legal.

A name is always derived from values, never parsed back into them.
"""

import hashlib
from typing import Final

LABEL_VALUE_MAX: Final = 63
OBJECT_NAME_MAX: Final = 253

POD_SUFFIX_LENGTH: Final = 5
WORKER_POOL_MAX: Final = LABEL_VALUE_MAX - POD_SUFFIX_LENGTH - 1
"""A worker pod is `<pool>-<random>`, and its hostname must not be cut."""

INSTANCE_POOL_MAX: Final = 57
"""An instance is `<pool>-<number>`, and numbers of five digits must fit a label value."""

STATEFUL_SET_MAX: Final = 52
"""A StatefulSet's pods carry `<name>-<10 characters of hash>` as a label value."""

INSTANCE_NUMBER_MAX: Final = 99_999

CLUSTER_LEASE: Final = "sluice"
"""The Lease of the controllers that always see the whole cluster: admission, machines and capacity."""
WORKER_LEASE: Final = "sluice-workers"
"""The Lease of the worker pools without a class; those of the classes are named after it."""

WORKERS_PART: Final = "workers"
PART_MAX: Final = LABEL_VALUE_MAX - len("leaving-")
"""A finalizer's name is as long as a label's value at most."""

CLUSTER_LABEL: Final = "sluice_cluster"
"""The label of every metric that says which cluster it is of."""
DRAIN_OBJECT: Final = "sluice-leaving"
"""The ConfigMap in the runtime's namespace whose deletion asks the whole runtime to leave the cluster."""

NODE_GROUP_MAX: Final = 128
"""What a launch template's name may have; a group may have 255, and both share the name."""

MACHINE_CATALOGUE: Final = "sluice-machines"
"""The ConfigMap in the runtime's namespace with all machine groups and types, which admission policies read."""


def worker_lease(class_name: str | None) -> str:
    """Name the Lease of the worker pools of a class; None is the default class."""
    return _of_class(WORKER_LEASE, class_name, OBJECT_NAME_MAX, digits=64)


def worker_part(class_name: str | None) -> str:
    """Name the part of the runtime that handles the worker pools of a class, for its finalizer on the drain object."""
    return _of_class(WORKERS_PART, class_name, PART_MAX, digits=32)


def _of_class(prefix: str, class_name: str | None, longest: int, *, digits: int) -> str:
    """Name what belongs to a class; two classes never share one.

    A name too long to stand in another stands there as its hash, after a sign that no shorter name is written with.
    """
    if class_name is None:
        return prefix
    plain = f"{prefix}.{class_name}"
    if len(plain) <= longest:
        return plain
    return f"{prefix}-{hashlib.sha256(class_name.encode()).hexdigest()[:digits]}"


def instance(pool: str, number: int) -> str:
    """Name the instance of a pool, as seed 003 does: `{pool}-{number:03d}`."""
    return f"{pool}-{number:03d}"


def node_group(cluster: str, *, pool: str, zone: str, instance_type: str) -> str:
    """Name an Auto Scaling group; no part has a dot but the type, which is last, so that no two groups share a name."""
    rest = f"{zone}.{instance_type}"
    return f"{cluster}.{pool[: NODE_GROUP_MAX - len(cluster) - len(rest) - 2]}.{rest}"


def machine_node_pool(machine: str) -> str:
    """Name the MachineNodePool of a Machine."""
    return f"{machine}-node-pool"


def stateful_set(machine_type: str, group: str) -> str:
    """Name the StatefulSet and Service that hold the room of one machine type."""
    return f"{machine_type}-{group}"
