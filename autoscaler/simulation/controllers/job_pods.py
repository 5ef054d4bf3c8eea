"""A Job's pods as the Job controller sees them: which are active, which go first, and what new ones look like. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.simulation.cluster.kinds import jobs, pods

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
"""On pods that are not counted yet."""
_PHASES: Final = ("Pending", "Unknown", "Running")


def is_tracked(pod: Manifest) -> bool:
    """Tell whether a pod is not counted yet."""
    return FINALIZER in pod["metadata"].get("finalizers", ())


def is_active(pod: Manifest) -> bool:
    return pod["status"]["phase"] not in pods.TERMINAL and "deletionTimestamp" not in pod["metadata"]


def is_terminating(pod: Manifest) -> bool:
    return pod["status"]["phase"] not in pods.TERMINAL and "deletionTimestamp" in pod["metadata"]


def has_succeeded(pod: Manifest) -> bool:
    return bool(pod["status"]["phase"] == "Succeeded")


def has_failed(job: Manifest, pod: Manifest) -> bool:
    """A pod that is being deleted counts as failed at once, unless the Job says to wait for its end."""
    if job["spec"]["podReplacementPolicy"] != "Failed" and is_terminating(pod):
        return True
    return bool(pod["status"]["phase"] == "Failed")


def index(pod: Manifest) -> int | None:
    """Return a pod's completion index."""
    text = (pod["metadata"].get("annotations") or {}).get(keys.JOB_COMPLETION_INDEX)
    return int(text) if text is not None else None


def is_counted(job: Manifest, pod: Manifest) -> bool:
    """Tell whether a pod's end counts: that of an index that is no longer wanted does not."""
    if not jobs.is_indexed(job):
        return True
    place = index(pod)
    return place is not None and place < job["spec"]["completions"]


def surplus(job: Manifest, active: Sequence[Manifest], wanted: int) -> list[Manifest]:
    """Choose the active pods to delete: those of indexes that are no longer wanted, then those that have done least."""
    unwanted = [pod for pod in active if not is_counted(job, pod)]
    others = sorted((pod for pod in active if is_counted(job, pod)), key=_removal_rank)
    return unwanted + others[: max(0, len(others) - wanted)]


def _removal_rank(pod: Manifest) -> tuple[float, ...]:
    """Order pods as all controllers do: what is not on a node, does not run, is not ready or is young goes first."""
    status, ready = pod["status"], pods.is_ready(pod)
    return (
        bool(pod["spec"].get("nodeName")),
        _PHASES.index(status["phase"]),
        ready,
        -_ready_since(pod) if ready else 0,
        -max((container["restartCount"] for container in status.get("containerStatuses") or ()), default=0),
        -_seconds(pod["metadata"]["creationTimestamp"]),
    )


def _ready_since(pod: Manifest) -> float:
    times = [each["lastTransitionTime"] for each in pod["status"]["conditions"] if each["type"] == "Ready"]
    return _seconds(times[0])


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def free_indexes(taken: Iterable[int], completions: int, most: int) -> list[int]:
    """Return the lowest indexes that nobody completes or has completed."""
    known = frozenset(taken)
    return list(islice((each for each in range(completions) if each not in known), most))


def read_indexes(text: str, completions: int) -> set[int]:
    """Read a list like `1,3-5,7`, as far as it is about indexes that are still wanted."""
    found: set[int] = set()
    for interval in filter(None, text.split(",")):
        first, _, last = interval.partition("-")
        found.update(range(int(first), min(completions, int(last or first) + 1)))
    return found


def write_indexes(indexes: Iterable[int]) -> str:
    """Write a list like `1,3-5,7`."""
    runs: list[list[int]] = []
    for each in sorted(indexes):
        if runs and runs[-1][-1] == each - 1:
            runs[-1].append(each)
        else:
            runs.append([each])
    return ",".join(_run(run) for run in runs)


def _run(run: Sequence[int]) -> str:
    return f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run))  # as upstream writes it


def new(job: Manifest, place: int | None) -> Manifest:
    """Make a pod of a Job from its template, for a completion index if the Job has them."""
    template, owner = job["spec"]["template"], job["metadata"]
    given, name = template["metadata"], owner["name"]
    metadata = {
        "generateName": f"{name}-" if place is None else f"{name}-{place}-",
        "labels": given["labels"],
        "annotations": given.get("annotations") or {},
        "finalizers": [*given.get("finalizers", ()), FINALIZER],
        "ownerReferences": [_reference(job)],
    }
    spec = template["spec"]
    if place is not None:
        mark = {keys.JOB_COMPLETION_INDEX: str(place)}
        metadata |= {"labels": metadata["labels"] | mark, "annotations": metadata["annotations"] | mark}
        spec = {**spec, "hostname": f"{name}-{place}"}
    return {"metadata": metadata, "spec": spec}


def _reference(job: Manifest) -> Manifest:
    kept = {name: job["metadata"][name] for name in ("name", "uid")}
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        **kept,
        "controller": True,
        "blockOwnerDeletion": True,
    }
