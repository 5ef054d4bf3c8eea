"""An auditor of machine groups: watches every change of pods, and remembers what must never be.

Nothing here calls what it judges: pods are counted by its own reading of them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from autoscaler.api import keys, resources
from autoscaler.kube import kinds
from autoscaler.simulation.cluster.store import Change, Key, Store

Body = dict[str, Any]
MACHINES = kinds.custom(resources.Machine)


class Kind(NamedTuple):
    """A machine type of a group."""

    group: str
    type: str


class Audit:
    """Counts open sleepers and guests at every opening, and marks that machine groups put on nodes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.problems: list[str] = []
        self.most_open: Counter[Kind] = Counter()
        """The most pods of each type that were open at once, guests and sleepers."""
        self.opened: Counter[str] = Counter()
        """How often a pod was opened, by its role."""
        self._open: dict[Kind, set[Key]] = defaultdict(set)
        """The guests and sleepers of each type that have no gate, and have not ended."""
        store.collection(kinds.PODS).listeners.append(self._on_pod)

    def check(self) -> None:
        """Fail if anything was ever wrong."""
        assert not self.problems, "\n".join(self.problems)

    def _on_pod(self, change: Change) -> None:
        for entry in (change.before, change.after):
            if entry is not None and (kind := kind_of(entry.object)) is not None:
                is_there = entry is change.after and is_open(entry.object)
                (self._open[kind].add if is_there else self._open[kind].discard)(change.key)
        if change.after is None or not is_open(change.after.object):
            return
        if change.before is not None and is_open(change.before.object):
            return
        pod = change.after.object
        kind = kind_of(pod)
        if kind is None or not _is_stamped(pod):
            return
        self.opened[role(pod)] += 1
        there = len(self._open[kind])
        self.most_open[kind] = max(self.most_open[kind], there)
        self.problems.extend(self._judged(kind, there, pod))

    def _judged(self, kind: Kind, there: int, pod: Body) -> Iterator[str]:
        maximum = self._maximum(kind)
        if maximum is not None and there > maximum:
            name = pod["metadata"]["name"]
            yield f"{name} was opened: {there} pods of {kind.type} are open, and there are {maximum} machines"

    def _maximum(self, kind: Kind) -> int | None:
        """Return how many machines there are; None: the Machine or its type is gone."""
        entry = self._store.find(MACHINES, Key("", kind.group))
        types = entry.object["spec"]["machineTypes"] if entry is not None else ()
        return next((each["available"] for each in types if each["name"] == kind.type), None)


def kind_of(pod: Body) -> Kind | None:
    """Return the machine type of a guest or a sleeper; None: the pod is neither."""
    labels = pod["metadata"].get("labels") or {}
    if keys.MACHINE_GROUP not in labels or keys.MACHINE_TYPE not in labels or keys.POD_ROLE not in labels:
        return None
    return Kind(labels[keys.MACHINE_GROUP], labels[keys.MACHINE_TYPE])


def role(pod: Body) -> str:
    """Return whether a pod is a guest or a sleeper."""
    said: str = (pod["metadata"].get("labels") or {}).get(keys.POD_ROLE, "")
    return said


def gates(pod: Body) -> set[str]:
    """Return the names of a pod's gates."""
    return {each["name"] for each in pod["spec"].get("schedulingGates") or ()}


def is_open(pod: Body) -> bool:
    """Tell whether a pod has no gate of ours, and has not ended."""
    is_over = pod["status"]["phase"] in {"Succeeded", "Failed"}
    return not is_over and keys.MACHINE_GATE not in gates(pod)


def _is_stamped(pod: Body) -> bool:
    """Tell whether the runtime wrote on a pod: one that was never gated is nobody's guest."""
    stamps = {keys.MACHINE_PROMISED, keys.MACHINE_PINNED, keys.MACHINE_TRYING_SINCE}
    return not stamps.isdisjoint(pod["metadata"].get("annotations") or {})
