"""The conditions in an object's status."""

from autoscaler.api.manifests import Manifest


def put(body: Manifest, condition: Manifest) -> Manifest:
    """Return the object with a condition set; the time of transition is kept while the status stays."""
    status = body.get("status") or {}
    others, kept = [], condition
    for other in status.get("conditions") or ():
        if other["type"] != condition["type"]:
            others.append(other)
        elif other["status"] == condition["status"]:
            kept = {**condition, "lastTransitionTime": other["lastTransitionTime"]}
    return {**body, "status": {**status, "conditions": [*others, kept]}}


def status(body: Manifest, name: str) -> str | None:
    """Return a condition's status, or None if it is not there."""
    for condition in (body.get("status") or {}).get("conditions") or ():
        if condition["type"] == name:
            said: str = condition["status"]
            return said
    return None
