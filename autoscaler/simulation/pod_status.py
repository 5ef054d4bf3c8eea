"""What a kubelet says of a pod: it runs, it ended, it waits to be restarted."""

from typing import Final

from autoscaler.api.manifests import Manifest

TERMINATED: Final = 143
"""What a process ends with that was told to."""


def running(pod: Manifest, *, now: str, address: str) -> Manifest:
    """All containers run and are ready; plain init containers are done."""
    spec, status = pod["spec"], pod["status"]
    types = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
    gates = [gate["conditionType"] for gate in spec.get("readinessGates") or ()]
    said: Manifest = {
        **status,
        "phase": "Running",
        "startTime": now,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": _conditions(status, dict.fromkeys((*types, *gates), "True"), now, ""),
        "containerStatuses": [
            _container(container, {"running": {"startedAt": now}}, is_ready=True) for container in spec["containers"]
        ],
    }
    if spec.get("initContainers"):
        said["initContainerStatuses"] = [_init_container(container, now) for container in spec["initContainers"]]
    return {**pod, "status": said}


def ended(pod: Manifest, *, now: str, exit_code: int) -> Manifest:
    """All containers ended, and will not be started again."""
    status = pod["status"]
    return {
        **pod,
        "status": {
            **status,
            "phase": "Succeeded" if exit_code == 0 else "Failed",
            "conditions": _not_ready(status, now, "PodCompleted" if exit_code == 0 else "PodFailed"),
            "containerStatuses": [
                {**container, "ready": False, "started": False, "state": _terminated(container, now, exit_code)}
                for container in status.get("containerStatuses") or ()
            ],
        },
    }


def backing_off(pod: Manifest, *, now: str, exit_code: int) -> Manifest:
    """All containers ended, and wait to be started again."""
    status = pod["status"]
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    return {
        **pod,
        "status": {
            **status,
            "conditions": _not_ready(status, now, "ContainersNotReady"),
            "containerStatuses": [
                {
                    **container,
                    "ready": False,
                    "started": False,
                    "state": waiting,
                    "lastState": _terminated(container, now, exit_code),
                }
                for container in status["containerStatuses"]
            ],
        },
    }


def restarted(pod: Manifest, *, now: str) -> Manifest:
    """All containers run once more."""
    status = pod["status"]
    return {
        **pod,
        "status": {
            **status,
            "conditions": _conditions(status, {"ContainersReady": "True", "Ready": "True"}, now, ""),
            "containerStatuses": [
                {
                    **container,
                    "ready": True,
                    "started": True,
                    "restartCount": container["restartCount"] + 1,
                    "state": {"running": {"startedAt": now}},
                }
                for container in status["containerStatuses"]
            ],
        },
    }


def restarts(pod: Manifest) -> int:
    """Return how often the pod's containers were started again."""
    return max((container["restartCount"] for container in pod["status"]["containerStatuses"]), default=0)


def _container(container: Manifest, state: Manifest, *, is_ready: bool) -> Manifest:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "restartCount": 0,
        "ready": is_ready,
        "started": is_ready,
        "state": state,
        "lastState": {},
    }


def _init_container(container: Manifest, now: str) -> Manifest:
    if container.get("restartPolicy") == "Always":
        return _container(container, {"running": {"startedAt": now}}, is_ready=True)
    done = {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}
    return {**_container(container, {"terminated": done}, is_ready=True), "started": False}


def _terminated(container: Manifest, now: str, exit_code: int) -> Manifest:
    started = (container["state"].get("running") or {}).get("startedAt", now)
    reason = "Completed" if exit_code == 0 else "Error"
    return {"terminated": {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": now}}


def _not_ready(status: Manifest, now: str, reason: str) -> list[Manifest]:
    return _conditions(status, {"ContainersReady": "False", "Ready": "False"}, now, reason)


def _conditions(status: Manifest, wanted: dict[str, str], now: str, reason: str) -> list[Manifest]:
    kept = [condition for condition in status.get("conditions") or () if condition["type"] not in wanted]
    said = [
        {"type": name, "status": value, "lastTransitionTime": now, **({"reason": reason} if reason else {})}
        for name, value in wanted.items()
    ]
    return [*kept, *said]
