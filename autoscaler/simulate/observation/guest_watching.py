"""Watch guests of machines go by: was room held when each came, when did it run, what was used. It changes nothing.

All of it is counted from pods; what the runtime says of its Machines is not asked.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from autoscaler import clock
from autoscaler.api import keys, resources
from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds
from autoscaler.simulate.observation.guest_record import GuestLife, Guests, MachineName, MachineUse
from autoscaler.simulate.trace import Guest
from autoscaler.simulation.cluster import SimulatedCluster
from autoscaler.simulation.cluster.kinds.pods import TERMINAL
from autoscaler.simulation.cluster.store import Change, Key

_MACHINES = kinds.custom(resources.Machine)


@dataclass(slots=True)
class _Pods:
    """The pods of one machine type now, and the most that ever were."""

    held: set[Key] = field(default_factory=set)
    """Sleepers with a node."""
    used: set[Key] = field(default_factory=set)
    """Guests with a node."""
    waiting: set[Key] = field(default_factory=set)
    """Guests without one."""
    open: set[Key] = field(default_factory=set)
    """Guests and sleepers that were let through."""
    most_used: int = 0
    most_open: int = 0

    def put(self, key: Key, pod: Manifest | None) -> None:
        """Take in how a pod stands; None: it is gone."""
        for each in (self.held, self.used, self.waiting, self.open):
            each.discard(key)
        if pod is None or pod["status"]["phase"] in TERMINAL:
            return
        if _is_open(pod):
            self.open.add(key)
        if _role(pod) == keys.ROLE_GUEST:
            (self.used if _has_node(pod) else self.waiting).add(key)
        elif _has_node(pod) and "deletionTimestamp" not in pod["metadata"]:
            self.held.add(key)
        self.most_used, self.most_open = max(self.most_used, len(self.used)), max(self.most_open, len(self.open))


class GuestWatcher:
    """Sees what happens to guests in a cluster."""

    def __init__(self, cluster: SimulatedCluster, time: clock.Clock) -> None:
        self._store = cluster.server.store
        self._clock = time
        self._lives: dict[Key, GuestLife] = {}
        self._pods: defaultdict[MachineName, _Pods] = defaultdict(_Pods)
        self._store.collection(kinds.PODS).listeners.append(self._on_pod)

    def comes(self, name: str, guest: Guest) -> None:
        """Take in that a guest comes, before it is made."""
        machine = MachineName(group=guest.group, type=guest.type)
        there = self._pods[machine]
        key = Key(guest.namespace, name)
        self._lives[key] = GuestLife(
            namespace=guest.namespace,
            name=name,
            machine=machine,
            came_at=self._clock.now(),
            is_room_held=len(there.held) > len(there.waiting),
        )

    def seen(self) -> Guests:
        """Return all that was seen until now."""
        uses = tuple(sorted(self._uses(), key=lambda each: each.machine))
        beyond = max((self._pods[each.machine].most_open - each.maximum for each in uses), default=0)
        return Guests(lives=tuple(self._lives.values()), uses=uses, beyond_maximum=max(0, beyond))

    def _uses(self) -> Iterator[MachineUse]:
        for key, entry in self._store.collection(_MACHINES).entries.items():
            for each in entry.object["spec"]["machineTypes"]:
                machine = MachineName(group=key.name, type=each["name"])
                yield MachineUse(machine=machine, maximum=each["available"], most_used=self._pods[machine].most_used)

    def _on_pod(self, change: Change) -> None:
        entry = change.after or change.before
        labels = (entry.object["metadata"].get("labels") or {}) if entry else {}
        if keys.POD_ROLE not in labels:
            return
        pod = change.after.object if change.after is not None else None
        machine = MachineName(group=labels[keys.MACHINE_GROUP], type=labels[keys.MACHINE_TYPE])
        self._pods[machine].put(change.key, pod)
        life = self._lives.get(change.key)
        if life is not None and life.began_at is None and pod is not None and pod["status"]["phase"] == "Running":
            self._lives[change.key] = replace(life, began_at=self._clock.now())


def _role(pod: Manifest) -> str:
    return str(pod["metadata"]["labels"][keys.POD_ROLE])


def _has_node(pod: Manifest) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _is_open(pod: Manifest) -> bool:
    return all(gate["name"] != keys.MACHINE_GATE for gate in pod["spec"].get("schedulingGates") or ())
