"""DaemonSets tolerate the taints of pools, claims and closed machines: their pods run the node and are no work.

The toleration goes into the pod template, for by that the DaemonSet controller chooses nodes before it makes a pod. A
write that leaves the template as it is stays as it is, so that nothing rolls out because a label was changed.
"""

from typing import Final

from autoscaler.api import keys, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies.base import Match, MutatingPolicy, Operation, Request

_TOLERATED: Final = (keys.INSTANCE_POOL, keys.RESERVED_FOR, keys.MACHINE_CLOSED)
_PATH: Final = "/spec/template/spec/tolerations"


def _tolerating(request: Request) -> Manifest:
    daemon_set, old = request.object or {}, request.old_object
    template = daemon_set["spec"]["template"]
    if old is not None and old["spec"]["template"] == template:
        return daemon_set
    present = template["spec"].get("tolerations") or []
    more = [{"key": key, "operator": "Exists"} for key in _TOLERATED if not _is_tolerated(key, present)]
    if not more:
        return daemon_set
    template = {**template, "spec": {**template["spec"], "tolerations": [*present, *more]}}
    return {**daemon_set, "spec": {**daemon_set["spec"], "template": template}}


def _is_tolerated(key: str, present: list[Manifest]) -> bool:
    return any(
        toleration.get("operator") == "Exists"
        and not toleration.get("effect")
        and toleration.get("key", "") in {"", key}
        for toleration in present
    )


_PRESENT: Final = "object.spec.template.spec.?tolerations.orValue([])"
_COVERS: Final = "t.?operator.orValue('') == 'Exists' && t.?effect.orValue('') == '' && t.?key.orValue('') in ['', k]"

POLICY: Final = MutatingPolicy(
    name=f"daemon-set-tolerations.{version.GROUP}",
    match=Match(
        group="apps",
        version="v1",
        resources=("daemonsets",),
        operations=(Operation.CREATE, Operation.UPDATE),
        conditions={"new-template": "oldObject == null || object.spec.template != oldObject.spec.template"},
    ),
    variables={
        "missing": "[" + ", ".join(f"'{key}'" for key in _TOLERATED) + f"].filter(k, !{_PRESENT}.exists(t, {_COVERS}))"
    },
    patches=(
        (
            "size(variables.missing) == 0 ? [] : (has(object.spec.template.spec.tolerations) ? []"
            f" : [JSONPatch{{op: 'add', path: '{_PATH}', value: []}}]) + variables.missing.map(k,"
            f" JSONPatch{{op: 'add', path: '{_PATH}/-', value: {{'key': string(k), 'operator': 'Exists'}}}})"
        ),
    ),
    twin=_tolerating,
)
