"""What counts as work on a node, and keeps its machine. Pure."""

from autoscaler.kube import objects


def is_work(pod: objects.Pod) -> bool:
    """Tell whether a pod keeps its node: all but what ended, what every node runs, and what a node runs for itself."""
    owner = pod.meta.controller
    is_daemon = owner is not None and owner.kind in {"DaemonSet", "Node"}
    return not pod.is_terminal and not is_daemon and objects.MIRROR not in pod.meta.annotations
