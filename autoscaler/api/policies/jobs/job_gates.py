"""Queued jobs are suspended when they enter their queue, and their pod templates carry the gate sluice.dev/admission.

So whatever pod such a job gets waits for quota, also while the runtime is away, and also if somebody resumes the job by
hand. The gate is put back whenever a write leaves it out, as a manifest that is applied once more does: nothing is
refused for that. A batch Job's template cannot be changed while it has pods, so there the gates come out as they are
stored; a Job that runs and never had the gate keeps its template, and the label is refused to it (job_queue.py).
"""

from typing import Any, Final

from autoscaler.api import version
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies.base import Match, MutatingPolicy, Operation, Request
from autoscaler.api.policies.jobs import queued

# The twins


def _job(request: Request) -> Manifest:
    job, old = request.object or {}, request.old_object
    if not queued.queue_of(job):
        return job
    spec = {**job["spec"], **_suspended(job, old)}
    pods = spec["template"]["spec"]
    present = queued.gates_of(pods)
    stored = queued.gates_of(old["spec"]["template"]["spec"]) if old else []
    is_open_to_change = old is None or queued.GATE in stored or queued.is_at_rest(old)
    if queued.GATE not in present and is_open_to_change:
        is_as_stored = [name for name in stored if name != queued.GATE] == present and queued.GATE in stored
        gates = stored if is_as_stored else [*present, queued.GATE]
        spec["template"] = {**spec["template"], "spec": queued.with_gates(pods, gates)}
    return {**job, "spec": spec}


def _ray_cluster(request: Request) -> Manifest:
    cluster, old = request.object or {}, request.old_object
    if not queued.queue_of(cluster):
        return cluster
    spec = {**cluster["spec"], **_suspended(cluster, old)}
    if "headGroupSpec" in spec:
        spec["headGroupSpec"] = _gated(spec["headGroupSpec"])
    if "workerGroupSpecs" in spec:
        spec["workerGroupSpecs"] = [_gated(group) for group in spec["workerGroupSpecs"]]
    return {**cluster, "spec": spec}


def _suspended(job: Manifest, old: Manifest | None) -> dict[str, Any]:
    is_new = old is None or queued.queue_of(old) != queued.queue_of(job)
    return {"suspend": True} if is_new else {}


def _gated(group: Manifest) -> Manifest:
    pods = group.get("template", {}).get("spec")
    if pods is None or queued.GATE in queued.gates_of(pods):
        return group
    gated = queued.with_gates(pods, [*queued.gates_of(pods), queued.GATE])
    return {**group, "template": {**group["template"], "spec": gated}}


# The same in CEL

_SUSPEND: Final = (
    f"oldObject != null && {queued.queue('oldObject')} == {queued.queue('object')}"
    " ? [] : [JSONPatch{op: 'add', path: '/spec/suspend', value: true}]"
)
_GATE: Final = f"'{queued.GATE}'"
_AS_STORED: Final = f"{_GATE} in variables.stored && variables.stored.filter(n, n != {_GATE}) == variables.present"
_JOB_GATE: Final = (
    f"{_GATE} in variables.present"
    f" || oldObject != null && !({_GATE} in variables.stored) && !{queued.at_rest('oldObject')} ? [] : ["
    + queued.set_gates("'/spec/template/spec'", f"({_AS_STORED} ? variables.stored : variables.present + [{_GATE}])")
    + "]"
)


def _lacks_gate(group: str) -> str:
    return f"{group}.?template.?spec.hasValue() && !({_GATE} in {queued.gates(f'{group}.template.spec')})"


def _gate(group: str, path: str) -> str:
    return queued.set_gates(f"{path} + '/template/spec'", f"({queued.gates(f'{group}.template.spec')} + [{_GATE}])")


_HEAD: Final = "object.spec.headGroupSpec"
_HEAD_PATH: Final = "'/spec/headGroupSpec'"
_HEAD_GATE: Final = f"object.spec.?headGroupSpec.hasValue() && {_lacks_gate(_HEAD)} ? [{_gate(_HEAD, _HEAD_PATH)}] : []"
_WORKER_PATH: Final = "'/spec/workerGroupSpecs/' + string(i)"
_WORKER_GATES: Final = (
    f"object.spec.?workerGroupSpecs.orValue([]).transformList(i, w, {_lacks_gate('w')}, {_gate('w', _WORKER_PATH)})"
)


def _match(kind: queued.Kind) -> Match:
    return Match(
        group=kind.group,
        version=kind.version,
        resources=(kind.plural,),
        operations=(Operation.CREATE, Operation.UPDATE),
        conditions={"is-queued": f"{queued.queue('object')} != ''"},
    )


JOB: Final = MutatingPolicy(
    name=f"{queued.JOB.name}-gates.{version.GROUP}",
    match=_match(queued.JOB),
    variables={
        "present": queued.gates("object.spec.template.spec"),
        "stored": f"oldObject == null ? [] : {queued.gates('oldObject.spec.template.spec')}",
    },
    patches=(_SUSPEND, _JOB_GATE),
    twin=_job,
)

RAY_CLUSTER: Final = MutatingPolicy(
    name=f"{queued.RAY_CLUSTER.name}-gates.{version.GROUP}",
    match=_match(queued.RAY_CLUSTER),
    patches=(_SUSPEND, _HEAD_GATE, _WORKER_GATES),
    twin=_ray_cluster,
)
