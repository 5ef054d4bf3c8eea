"""What the runtime notes on a pod whose gate it opens is written by the runtime alone: by it such pods are counted.

A pod that carries these annotations counts against a queue also when its job and Workload are gone. Forged ones would
use up somebody's quota; without them a pod would run that nobody counts. So it is with the machines of guests and the
room of sleepers. The scheduler's binding can set annotations
too, and so can a write of a pod's status. Pods that have none of them pay for two look-ups each.
"""

from typing import Final

from autoscaler.api import keys, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import identities
from autoscaler.api.policies.base import Match, Operation, Request, ValidatingPolicy, Validation

_OF_JOBS: Final = (keys.JOB_UID, keys.POD_SET, keys.CLUSTER_QUEUE, keys.FLAVORS, keys.OPENED_AT)
_OF_MACHINES: Final = (keys.MACHINE_PROMISED, keys.MACHINE_TRIED, keys.MACHINE_TRYING_SINCE, keys.MACHINE_PINNED)
STAMPS: Final = (*_OF_JOBS, *_OF_MACHINES)
_NAME: Final = f"stamps-are-kept.{version.GROUP}"
_PRESENT: Final = "object.metadata.?annotations.orValue({})"
_STORED: Final = "(oldObject == null ? {} : oldObject.metadata.?annotations.orValue({}))"


def kept_by(runtime: str) -> ValidatingPolicy:
    """Write the policy that nobody but the runtime, who is this user, writes these annotations of pods."""
    message = (
        f"only the runtime ({runtime}) writes the annotations {', '.join(STAMPS)} of pods, by which it counts"
        " quota and machines:"
        " leave them out of pods and pod templates, and leave them on pods that have them; to take a pod out of the"
        " count, delete it"
    )

    def refusal(request: Request) -> str | None:
        is_allowed = request.username == runtime or _stamps(request.object) == _stamps(request.old_object)
        return None if is_allowed else message

    stamps = identities.texts(STAMPS)
    return ValidatingPolicy(
        name=_NAME,
        match=Match(
            resources=("pods", "pods/status", "pods/binding", "bindings"),
            operations=(Operation.CREATE, Operation.UPDATE),
            conditions={"has-a-stamp": f"{stamps}.exists(k, k in {_PRESENT} || k in {_STORED})"},
        ),
        validations=(
            Validation(
                expression=f"request.userInfo.username == '{runtime}'"
                f" || {stamps}.all(k, {_PRESENT}[?k] == {_STORED}[?k])",
                message=message,
            ),
        ),
        twin=refusal,
    )


def _stamps(pod: Manifest | None) -> dict[str, str]:
    annotations = ((pod or {}).get("metadata") or {}).get("annotations") or {}
    return {key: annotations[key] for key in STAMPS if key in annotations}
