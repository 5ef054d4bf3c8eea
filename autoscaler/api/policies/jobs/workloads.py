"""Of a Workload people change spec.active alone: all else is what was asked for and granted, written by the runtime.

Roles decide who may patch Workloads at all; this decides what such a patch may contain. The garbage collector takes
owners that are gone off an object, and finalizers of its own, and may do that here too.
"""

from typing import Any, Final

from pydantic.alias_generators import to_camel

from autoscaler.api import version
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import identities
from autoscaler.api.policies.base import Operation, Request, ValidatingPolicy, Validation, ours
from autoscaler.api.resources.workloads import WorkloadSpec

_ACTIVE: Final = "active"
_ASKED: Final = tuple(to_camel(name) for name in WorkloadSpec.model_fields if name != _ACTIVE)
_NOTES: Final = ("labels", "annotations")
_TIES: Final = ("ownerReferences", "finalizers")
"""What Kubernetes' own controllers may change."""


def kept_by(runtime: str) -> ValidatingPolicy:
    """Write the policy that nobody but the runtime, who is this user, writes more of a Workload than spec.active."""
    message = (
        f"only the runtime ({runtime}) writes Workloads; others change spec.{_ACTIVE} alone: false takes the job out of"
        " its queue, true lets it in again (kubectl patch workload NAME --type merge -p"
        ' \'{"spec":{"active":false}}\'); to change what is asked for, change the job'
    )

    def refusal(request: Request) -> str | None:
        old, new = request.old_object or {}, request.object or {}
        is_kept = _ties(old) == _ties(new) or request.username in identities.CONTROLLERS
        return None if request.username == runtime or (is_kept and _rest(old) == _rest(new)) else message

    rest = [f"object.spec.?{name} == oldObject.spec.?{name}" for name in _ASKED]
    rest += [_is_same(name, "{}") for name in _NOTES]
    rest += ["object.?status.orValue({}) == oldObject.?status.orValue({})"]
    ties = " && ".join(_is_same(name, "[]") for name in _TIES)
    return ValidatingPolicy(
        name=f"runtime-alone-writes-workloads.{version.GROUP}",
        match=ours(
            "workloads",
            "workloads/status",
            operations=(Operation.UPDATE,),
            conditions={"not-by-the-runtime": f"request.userInfo.?username.orValue('') != '{runtime}'"},
        ),
        validations=(
            Validation(expression=" && ".join(rest), message=message),
            Validation(expression=f"{identities.is_one_of(identities.CONTROLLERS)} || {ties}", message=message),
        ),
        twin=refusal,
    )


def _is_same(name: str, absent: str) -> str:
    return f"object.metadata.?{name}.orValue({absent}) == oldObject.metadata.?{name}.orValue({absent})"


def _rest(workload: Manifest) -> list[Any]:
    spec, metadata = workload.get("spec") or {}, workload["metadata"]
    asked = [spec.get(name) for name in _ASKED]
    return [*asked, *(metadata.get(name) or {} for name in _NOTES), workload.get("status") or {}]


def _ties(workload: Manifest) -> list[Any]:
    return [workload["metadata"].get(name) or [] for name in _TIES]
