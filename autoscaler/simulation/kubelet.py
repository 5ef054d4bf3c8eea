"""The simulated kubelets: a node's pods start, run as the scenario says, end, restart and stop in their time.

A node becomes ready by itself. One that the scenario fails does nothing any more until it recovers, and the cluster
notices after a while.
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from autoscaler import clock
from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds
from autoscaler.simulation import pod_status
from autoscaler.simulation.cluster import SimulatedCluster
from autoscaler.simulation.cluster.kinds import conditions
from autoscaler.simulation.cluster.store import Change, Entry, Key
from autoscaler.simulation.cluster.verbs.deletes import Options
from autoscaler.simulation.cluster.verbs.writes import STATUS, Manner
from autoscaler.simulation.controllers import pods_by_node

RUN_FOR: Final = "local.sluice.dev/run-for"
"""Annotation: how long the pod's containers run, as `90s` or `1h30m`. Absent: until the pod is deleted."""
EXIT_CODE: Final = "local.sluice.dev/exit-code"
"""Annotation: what they end with. Absent: 0."""
_DURATION: Final = re.compile(r"([0-9.]+)(h|ms|m|s)")
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_BACKOFF_SECONDS: Final = 10.0
_BACKOFF_MOST_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What becomes of a pod on its node."""

    start_seconds: float = 1.0
    """From its binding until it runs and is ready."""
    run_seconds: float | None = None
    """How long its containers run; None: until it is deleted."""
    exit_code: int = 0
    stop_seconds: float = 0.5
    """From its deletion until it has stopped, cut short by its grace period."""


Script = Callable[[Manifest], Run]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How fast nodes are."""

    ready_seconds: float = 0.5
    """From a node's creation until it is ready."""
    unnoticed_seconds: float = 50.0
    """From a node's failure until the cluster says so."""


def as_annotated(pod: Manifest) -> Run:
    """Run a pod as its annotations say; a Job's pod that says nothing is done at once."""
    annotations = pod["metadata"].get("annotations") or {}
    is_of_job = any(owner["kind"] == "Job" for owner in pod["metadata"].get("ownerReferences") or ())
    run_for = annotations.get(RUN_FOR, "0s" if is_of_job else None)
    return Run(
        run_seconds=None if run_for is None else duration(run_for),
        exit_code=int(annotations.get(EXIT_CODE, "0")),
    )


def duration(text: str) -> float:
    """Read a duration such as `1h30m`."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration such as 90s or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


class Kubelets:
    """The kubelets of all nodes of a cluster."""

    def __init__(
        self, cluster: SimulatedCluster, *, script: Script = as_annotated, timing: Timing | None = None
    ) -> None:
        self._server = cluster.server
        self._script = script
        self._timing = timing or Timing()
        self._failed: set[str] = set()
        self._addresses = 0
        self._by_node = pods_by_node.index(self._server.store)
        self._server.store.collection(kinds.NODES).listeners.append(self._on_node)
        self._server.store.collection(kinds.PODS).listeners.append(self._on_pod)

    def fail(self, node: str) -> None:
        """Stop a node's kubelet; the node is seen to be unreachable after a while."""
        self._failed.add(node)
        self._later(self._timing.unnoticed_seconds, self._report_unknown, node)

    def recover(self, node: str) -> None:
        """Let a failed node's kubelet go on: what was deleted meanwhile stops, what was bound starts."""
        self._failed.discard(node)
        self._report(node, "True", "KubeletReady", "kubelet is posting ready status")
        for key in list(self._by_node.get(node, ())):
            entry = self._server.store.find(kinds.PODS, key)
            if entry is not None:
                self._see(key, None, entry)

    def _on_node(self, change: Change) -> None:
        if change.before is None and change.after is not None:
            if conditions.status(change.after.object, "Ready") is None:
                self._later(self._timing.ready_seconds, self._begin_node, change.key.name)
        elif change.after is None:
            self._failed.discard(change.key.name)

    def _begin_node(self, node: str) -> None:
        if node not in self._failed:
            self._report(node, "True", "KubeletReady", "kubelet is posting ready status")

    def _report_unknown(self, node: str) -> None:
        if node in self._failed:
            self._report(node, "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")

    def _report(self, node: str, ready: str, reason: str, message: str) -> None:
        key = Key("", node)
        if self._server.store.find(kinds.NODES, key) is None:
            return
        condition = {
            "type": "Ready",
            "status": ready,
            "lastTransitionTime": clock.to_rfc3339(self._server.clock.now()),
            "reason": reason,
            "message": message,
        }
        self._server.writes.update(
            kinds.NODES,
            key,
            lambda body: conditions.put(body, condition),
            manner=_manner(node),
            subresource=STATUS,
        )

    def _on_pod(self, change: Change) -> None:
        if change.after is not None and change.after.object["spec"].get("nodeName"):
            self._see(change.key, change.before, change.after)

    def _see(self, key: Key, before: Entry | None, after: Entry) -> None:
        """Begin a pod that is new on its node, and end one that is newly deleted."""
        pod, old, uid = after.object, before.object if before else None, after.uid
        if "deletionTimestamp" in pod["metadata"]:
            if old is None or _deadline(old) != _deadline(pod):
                run = self._script(pod)
                grace = float(pod["metadata"]["deletionGracePeriodSeconds"])
                self._later(min(run.stop_seconds, grace), self._finish, key, uid)
        elif (old is None or not old["spec"].get("nodeName")) and pod["status"]["phase"] == "Pending":
            run = self._script(pod)
            self._later(run.start_seconds, self._start, key, uid, run)

    def _start(self, key: Key, uid: str, run: Run) -> None:
        pod = self._mine(key, uid)
        if pod is None or pod["status"]["phase"] != "Pending" or "deletionTimestamp" in pod["metadata"]:
            return
        self._addresses += 1
        address = f"10.{128 + self._addresses // 65536 % 64}.{self._addresses // 256 % 256}.{self._addresses % 256}"
        self._write(key, pod, lambda body, now: pod_status.running(body, now=now, address=address))
        if run.run_seconds is not None:
            self._later(run.run_seconds, self._exit, key, uid, run)

    def _exit(self, key: Key, uid: str, run: Run) -> None:
        pod = self._mine(key, uid)
        if pod is None or pod["status"]["phase"] != "Running" or "deletionTimestamp" in pod["metadata"]:
            return
        policy = pod["spec"]["restartPolicy"]
        if policy == "Never" or (policy == "OnFailure" and run.exit_code == 0):
            self._write(key, pod, lambda body, now: pod_status.ended(body, now=now, exit_code=run.exit_code))
            return
        restarts = pod_status.restarts(pod)
        backoff = min(_BACKOFF_SECONDS * 2**restarts, _BACKOFF_MOST_SECONDS)
        self._write(key, pod, lambda body, now: pod_status.backing_off(body, now=now, exit_code=run.exit_code))
        self._later(backoff, self._restart, key, uid, run)

    def _restart(self, key: Key, uid: str, run: Run) -> None:
        pod = self._mine(key, uid)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        self._write(key, pod, lambda body, now: pod_status.restarted(body, now=now))
        if run.run_seconds is not None:
            self._later(run.run_seconds, self._exit, key, uid, run)

    def _finish(self, key: Key, uid: str) -> None:
        """Say that a deleted pod has stopped, and let it go."""
        pod = self._mine(key, uid)
        if pod is None:
            return
        if pod["status"]["phase"] == "Running":
            self._write(key, pod, lambda body, now: pod_status.ended(body, now=now, exit_code=pod_status.TERMINATED))
        manner = _manner(pod["spec"]["nodeName"])
        self._server.deletes.delete(kinds.PODS, key, Options(uid=uid, grace_seconds=0), manner)

    def _mine(self, key: Key, uid: str) -> Manifest | None:
        """Return the pod if it is still the same and its node is there and works."""
        entry = self._server.store.find(kinds.PODS, key)
        if entry is None or entry.uid != uid:
            return None
        node: str = entry.object["spec"]["nodeName"]
        is_served = node not in self._failed and self._server.store.find(kinds.NODES, Key("", node)) is not None
        return entry.object if is_served else None

    def _write(self, key: Key, pod: Manifest, change: Callable[[Manifest, str], Manifest]) -> None:
        now = clock.to_rfc3339(self._server.clock.now())
        manner = _manner(pod["spec"]["nodeName"])
        self._server.writes.update(kinds.PODS, key, lambda body: change(body, now), manner=manner, subresource=STATUS)

    @staticmethod
    def _later(seconds: float, act: Callable[..., None], *arguments: object) -> None:
        asyncio.get_running_loop().call_later(seconds, act, *arguments)


def _manner(node: str) -> Manner:
    return Manner(user=f"system:node:{node}")


def _deadline(pod: Manifest) -> object:
    return pod["metadata"].get("deletionTimestamp"), pod["metadata"].get("deletionGracePeriodSeconds")
