"""Indexes of pods as controllers keep them, for measuring what they cost: by node, owner, worker pool and shape.

Each is handed to `Table.index`, which keeps one index for it however many controllers ask.
"""

from collections.abc import Collection

from autoscaler.api import keys
from autoscaler.kube import objects, shapes


def node(pod: objects.Pod) -> Collection[str]:
    """Index by the node a pod is bound to."""
    return (pod.node_name,) if pod.node_name else ()


def owner(pod: objects.Pod) -> Collection[str]:
    """Index by the UID of the object that controls a pod."""
    controller = pod.meta.controller
    return (controller.uid,) if controller else ()


def worker_pool(pod: objects.Pod) -> Collection[objects.Key]:
    """Index by the worker pool a pod belongs to."""
    pool = pod.meta.labels.get(keys.WORKER_POOL)
    return (objects.Key(pod.meta.key.namespace, pool),) if pool else ()


def unschedulable_shape(pod: objects.Pod) -> Collection[shapes.Shape]:
    """Index pods that the scheduler found no node for, by what they ask for."""
    waits = pod.unschedulable_since is not None and not pod.node_name and pod.meta.deleted_at is None
    return (pod.shape,) if waits and not pod.is_terminal else ()
