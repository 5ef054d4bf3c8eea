"""Watch a day go by: the pods' waits, the runtime's log and events. It changes nothing.

Pods that hold the room of machines are not looked at: they are no work.
"""

import contextlib
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import structlog

from autoscaler import clock
from autoscaler.api import keys
from autoscaler.kube import kinds
from autoscaler.simulate.observation.record import Logged, Told
from autoscaler.simulate.observation.waits import PodWait, Wait
from autoscaler.simulation.cluster import SimulatedCluster
from autoscaler.simulation.cluster.store import Change, Entry, Key

WORK: Final = "simulate.sluice.dev/work"
"""Label: what kind of work of the trace a pod is."""


class Observer:
    """Sees what happens in a cluster."""

    def __init__(self, cluster: SimulatedCluster, time: clock.Clock) -> None:
        self._store = cluster.server.store
        self._clock = time
        self._came_at: dict[Key, tuple[str, float]] = {}
        self._waits: dict[str, list[Wait]] = {}
        self._logs: list[Logged] = []
        self._told: list[Told] = []
        self._pods: list[PodWait] = []
        self.running = 0
        self._store.collection(kinds.PODS).listeners.append(self._on_pod)
        self._store.collection(kinds.EVENTS).listeners.append(self._on_event)

    @property
    def waiting(self) -> int:
        """How many pods wait for a node now; those that wait for quota do not yet."""
        return len(self._came_at)

    @property
    def pods_by_pool(self) -> Mapping[str, int]:
        """How many pods began in each pool."""
        return Counter(each.pool for each in self._pods)

    @property
    def pods(self) -> tuple[PodWait, ...]:
        """The waits of all pods, those that still wait last."""
        still = (
            PodWait(scope=self._scope(key), pool="", wait=Wait(came_at=at, began_at=None))
            for key, (_, at) in self._came_at.items()
        )
        return (*self._pods, *still)

    @property
    def logs(self) -> tuple[Logged, ...]:
        return tuple(self._logs)

    @property
    def told(self) -> tuple[Told, ...]:
        return tuple(self._told)

    def waits(self, work: str) -> tuple[Wait, ...]:
        """Return the waits of pods of one kind, those that still wait last."""
        still = [Wait(came_at=at, began_at=None) for name, at in self._came_at.values() if name == work]
        return (*self._waits.get(work, ()), *still)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Keep the runtime's log lines instead of writing them."""
        before = structlog.get_config()
        structlog.configure(
            processors=[self._keep],
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            cache_logger_on_first_use=False,
        )
        try:
            yield
        finally:
            structlog.configure(**before)

    def _keep(self, logger: object, method: str, fields: Any) -> Any:  # noqa: ANN401  # the library's
        del logger, method
        event = str(fields.pop("event"))
        self._logs.append(Logged(at=self._clock.now(), event=event, fields=dict(fields)))
        raise structlog.DropEvent

    def _on_pod(self, change: Change) -> None:
        after, before = change.after, change.before
        if _is_sleeper(after or before):
            return
        was, phase = _phase(before), _phase(after)
        if after is not None and not _is_gated(after) and (before is None or _is_gated(before)):
            work = (after.object["metadata"].get("labels") or {}).get(WORK, "")
            self._came_at[change.key] = (work, self._clock.now())
        elif phase == "Running" and was != "Running" and after is not None:
            self._began(change.key, after.object["spec"]["nodeName"])
        elif was == "Running" and phase != "Running":
            self.running -= 1
        if after is None:
            self._came_at.pop(change.key, None)

    def _began(self, key: Key, node: str) -> None:
        work, came_at = self._came_at.pop(key)
        self.running += 1
        wait = Wait(came_at=came_at, began_at=self._clock.now())
        self._waits.setdefault(work, []).append(wait)
        found = self._store.find(kinds.NODES, Key("", node))
        labels = found.object["metadata"].get("labels", {}) if found else {}
        self._pods.append(PodWait(scope=self._scope(key), pool=labels.get(keys.INSTANCE_POOL, ""), wait=wait))

    def _scope(self, key: Key) -> str:
        found = self._store.find(kinds.NAMESPACES, Key("", key.namespace))
        return str(found.object["metadata"].get("labels", {}).get(keys.SCOPE, "")) if found else ""

    def _on_event(self, change: Change) -> None:
        if change.after is None:
            return
        body = change.after.object
        about = body["involvedObject"]
        self._told.append(
            Told(
                at=self._clock.now(),
                reason=body["reason"],
                message=body["message"],
                kind=about["kind"],
                namespace=about.get("namespace", ""),
                name=about["name"],
            )
        )


def _is_gated(entry: Entry) -> bool:
    """Tell whether a pod waits for its job's quota."""
    return any(gate["name"] == keys.ADMISSION_GATE for gate in entry.object["spec"].get("schedulingGates") or ())


def _is_sleeper(entry: Entry | None) -> bool:
    """Tell whether a pod does nothing but hold the room of a machine."""
    labels = (entry.object["metadata"].get("labels") or {}) if entry else {}
    return bool(labels.get(keys.POD_ROLE) == keys.ROLE_RESERVATION)


def _phase(entry: Any) -> str | None:  # noqa: ANN401  # an Entry or nothing
    return None if entry is None else entry.object["status"].get("phase")
