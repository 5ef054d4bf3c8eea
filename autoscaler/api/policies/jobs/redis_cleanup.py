"""The Job by which KubeRay clears a Redis store when a RayCluster is gone does not wait for quota.

KubeRay builds its pod from the head's, with the gate sluice.dev/admission that a queued RayCluster's head carries. The
Job is in no queue, so nobody would open that gate, and the RayCluster would stay until KubeRay gives up after five
minutes. The gate is taken out as the Job is made. Whoever calls a Job of theirs so gains nothing by it: one that is in
no queue needs no quota, gate or no gate.
"""

from typing import Final

from autoscaler.api import keys, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies.base import Match, MutatingPolicy, Operation, Request
from autoscaler.api.policies.jobs import queued

_NODE_TYPE: Final = "redis-cleanup"
_OWNER: Final = ("ray.io/", "RayCluster")


def _opened(request: Request) -> Manifest:
    job = request.object or {}
    if queued.queue_of(job) or not _cleans_up(job):
        return job
    template = job["spec"]["template"]
    gates = queued.gates_of(template["spec"])
    if queued.GATE not in gates:
        return job
    left = queued.with_gates(template["spec"], [name for name in gates if name != queued.GATE])
    return {**job, "spec": {**job["spec"], "template": {**template, "spec": left}}}


def _cleans_up(job: Manifest) -> bool:
    group, kind = _OWNER
    owners = [each for each in job["metadata"].get("ownerReferences") or () if each.get("controller", False)]
    is_of_cluster = any(each["apiVersion"].startswith(group) and each["kind"] == kind for each in owners)
    return is_of_cluster and (job["metadata"].get("labels") or {}).get(keys.RAY_NODE_TYPE) == _NODE_TYPE


_IS_OF_CLUSTER: Final = (
    "object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false)"
    f" && o.apiVersion.startsWith('{_OWNER[0]}') && o.kind == '{_OWNER[1]}')"
)
_GATES: Final = queued.gates("object.spec.template.spec")
_OTHERS: Final = f"{_GATES}.filter(n, n != '{queued.GATE}')"

POLICY: Final = MutatingPolicy(
    name=f"redis-cleanup.{version.GROUP}",
    match=Match(
        group=queued.JOB.group,
        version=queued.JOB.version,
        resources=(queued.JOB.plural,),
        operations=(Operation.CREATE,),
        conditions={
            "is-not-queued": f"{queued.queue('object')} == ''",
            "cleans-up": f"object.metadata.?labels[?'{keys.RAY_NODE_TYPE}'].orValue('') == '{_NODE_TYPE}'",
            "is-of-a-ray-cluster": _IS_OF_CLUSTER,
            "is-gated": f"'{queued.GATE}' in {_GATES}",
        },
    ),
    patches=("[" + queued.set_gates("'/spec/template/spec'", _OTHERS) + "]",),
    twin=_opened,
)
