"""When is an object well: what the provider waits for, kind by kind. Pure.

Waited for: Deployments, StatefulSets, DaemonSets, Jobs, Pods, definitions of custom resources, and Services that
select pods. All else is well once it exists.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

Facts = Mapping[str, Any]
DEFINITION: Final = ("apiextensions.k8s.io", "CustomResourceDefinition")


class HopelessError(Exception):
    """The object will not become well any more."""


def problem(found: Facts) -> str | None:
    """Say what an object still lacks, or None if it is well; raise HopelessError if waiting is no use."""
    check = _CHECKS.get(_key(found))
    return None if check is None else check(found)


def is_waited_for(found: Facts) -> bool:
    """Tell whether the provider waits for this object at all."""
    return _key(found) in _CHECKS or needs_endpoints(found)


def needs_endpoints(found: Facts) -> bool:
    """Tell whether an object is a Service that stands for pods."""
    spec = found.get("spec") or {}
    return (
        found["apiVersion"] == "v1"
        and found["kind"] == "Service"
        and bool(spec.get("selector"))
        and spec.get("clusterIP") != "None"
        and spec.get("type") != "ExternalName"
    )


def is_definition(found: Facts) -> bool:
    """Tell whether an object defines a kind of custom resources."""
    return _key(found) == DEFINITION


def served_paths(found: Facts) -> tuple[str, ...]:
    """Return the lists that must be served before a definition of custom resources is of any use."""
    if not is_definition(found):
        return ()
    spec = found["spec"]
    return tuple(
        f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
        for version in spec["versions"]
        if version["served"]
    )


def _key(found: Facts) -> tuple[str, str]:
    return str(found["apiVersion"]).rpartition("/")[0], str(found["kind"])


def _deployment(found: Facts) -> str | None:
    spec, status = found["spec"], found.get("status") or {}
    if spec.get("paused"):
        return None
    wanted = spec.get("replicas", 1)
    if _is_unseen(found):
        return "the change has not been seen by its controller"
    if status.get("updatedReplicas", 0) < wanted:
        return f"{status.get('updatedReplicas', 0)} of {wanted} pods are new"
    if status.get("replicas", 0) > status.get("updatedReplicas", 0):
        return f"{status['replicas'] - status['updatedReplicas']} old pods are still there"
    if status.get("availableReplicas", 0) < wanted:
        return f"{status.get('availableReplicas', 0)} of {wanted} pods are available"
    return None


def _stateful_set(found: Facts) -> str | None:
    wanted, status = found["spec"].get("replicas", 1), found.get("status") or {}
    if _is_unseen(found):
        return "the change has not been seen by its controller"
    ready = min(status.get("readyReplicas", 0), status.get("updatedReplicas", 0))
    return None if ready >= wanted else f"{ready} of {wanted} pods are new and ready"


def _daemon_set(found: Facts) -> str | None:
    status = found.get("status") or {}
    if _is_unseen(found):
        return "the change has not been seen by its controller"
    wanted = status.get("desiredNumberScheduled", 0)
    ready = min(status.get("numberAvailable", 0), status.get("updatedNumberScheduled", 0))
    return None if ready >= wanted else f"{ready} of {wanted} pods are new and available"


def _job(found: Facts) -> str | None:
    if found["spec"].get("suspend"):
        return None
    failure = _condition(found, "Failed")
    if failure.get("status") == "True":
        raise HopelessError(f"the Job failed: {failure.get('message', 'no reason given')}")
    return None if _condition(found, "Complete").get("status") == "True" else "the Job is not complete"


def _pod(found: Facts) -> str | None:
    phase = (found.get("status") or {}).get("phase")
    if phase == "Failed":
        raise HopelessError("the Pod failed")
    is_well = phase == "Succeeded" or _condition(found, "Ready").get("status") == "True"
    return None if is_well else f"the Pod is {phase} and not ready"


def _definition(found: Facts) -> str | None:
    refusal = _condition(found, "NamesAccepted")
    if refusal.get("status") == "False":
        raise HopelessError(f"its names are taken: {refusal.get('message')}")
    return None if _condition(found, "Established").get("status") == "True" else "it is not established"


def _is_unseen(found: Facts) -> bool:
    seen = (found.get("status") or {}).get("observedGeneration", 0)
    return bool(seen < found["metadata"].get("generation", 0))


def _condition(found: Facts, name: str) -> Facts:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == name), {})


_CHECKS: Final[Mapping[tuple[str, str], Callable[[Facts], str | None]]] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("", "Pod"): _pod,
    DEFINITION: _definition,
}
