"""A third kind of job, made by following docs/adding-a-job-kind.md: toys have a template, a size and never any pods.

So a benchmark can queue thousands of them, as Kueue's own does with bare Workloads.
"""

from typing import Any, Final

import msgspec

from autoscaler.admission.jobs import belonging, templates
from autoscaler.admission.jobs.port import Finished, Job
from autoscaler.api import keys, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies.base import Match, MutatingPolicy, Operation, Request
from autoscaler.api.policies.jobs import job_queue, queued
from autoscaler.kube import kinds, objects, wire

TOY_JOBS: Final = kinds.ResourceType(
    group="example.com", version="v1", plural="toyjobs", kind="ToyJob", namespaced=True
)
POD_SET: Final = "main"
_ENDS: Final = {"Succeeded": True, "Failed": False}


# The one class


class ToyJob:
    """The kind `ToyJob`."""

    resource: Final = TOY_JOBS

    def decode(self, raw: bytes | msgspec.Raw) -> Job:
        """Read a toy."""
        read = _DECODER.decode(raw)
        meta, template, phase = objects.meta(read.metadata), read.spec.template.spec, read.status.phase
        return Job(
            meta=meta,
            kind=self.resource.kind,
            api_version=self.resource.api_version,
            queue=belonging.queue_of(meta),
            is_suspended=read.spec.suspend,
            pod_sets=(templates.wanted(POD_SET, template, size=read.spec.replicas),),
            priority_class=template.priority_class_name,
            finished=Finished(succeeded=_ENDS[phase], message=f"it has {phase}") if phase in _ENDS else None,
            left_alone=belonging.run_by_another(meta),
            problem=templates.problem(POD_SET, template),
        )

    def pod_set_of(self, pod: objects.Pod) -> str:  # noqa: ARG002  # all pods of a toy would be alike
        """Return the one pod set that toys have."""
        return POD_SET

    def place_of(self, pod: objects.Pod) -> int | None:  # noqa: ARG002  # a shrink spares the oldest
        """Return nothing: the pods of a toy would have no numbers."""
        return None

    def suspension(self, *, is_suspended: bool) -> Manifest:
        """Write the merge patch that suspends a toy, or resumes it."""
        return {"spec": {"suspend": is_suspended}}


class _Spec(msgspec.Struct, gc=False, frozen=True):
    replicas: int = 1
    suspend: bool = False
    template: templates.Template = templates.Template()


class _Status(msgspec.Struct, gc=False, frozen=True):
    phase: str = ""


class _ToyJob(msgspec.Struct, gc=False, frozen=True):
    metadata: wire.ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()


_DECODER: Final = msgspec.json.Decoder(_ToyJob)


# Its policies, each with its twin

QUEUED: Final = queued.Kind(
    group=TOY_JOBS.group, version=TOY_JOBS.version, plural=TOY_JOBS.plural, name="toy-job", called="ToyJob"
)
_GATE: Final = f"'{queued.GATE}'"
_PRESENT: Final = queued.gates("object.spec.template.spec")
_SET_GATES: Final = queued.set_gates("'/spec/template/spec'", f"({_PRESENT} + [{_GATE}])")


def _held(request: Request) -> Manifest:
    toy, old = request.object or {}, request.old_object
    if not queued.queue_of(toy):
        return toy
    spec, pods = toy["spec"], toy["spec"]["template"]["spec"]
    gates = queued.gates_of(pods)
    if queued.GATE not in gates:
        spec = {**spec, "template": {**spec["template"], "spec": queued.with_gates(pods, [*gates, queued.GATE])}}
    is_new = queued.queue_of(old) != queued.queue_of(toy)
    return {**toy, "spec": {**spec, "suspend": True} if is_new else spec}


GATES: Final = MutatingPolicy(
    name=f"{QUEUED.name}-gates.{version.GROUP}",
    match=Match(
        group=QUEUED.group,
        version=QUEUED.version,
        resources=(QUEUED.plural,),
        operations=(Operation.CREATE, Operation.UPDATE),
        conditions={"is-queued": f"{queued.queue('object')} != ''"},
    ),
    patches=(
        (
            f"oldObject != null && {queued.queue('oldObject')} == {queued.queue('object')}"
            f" || {queued.suspended('object')} ? [] : [JSONPatch{{op: 'add', path: '/spec/suspend', value: true}}]"
        ),
        f"{_GATE} in {_PRESENT} ? [] : [{_SET_GATES}]",
    ),
    twin=_held,
)
QUEUE: Final = job_queue.policy(QUEUED, queued.is_suspended, queued.suspended("oldObject"))
POLICIES: Final = (GATES, QUEUE)


# What a cluster needs to know of them, and one of them


def _object(**properties: Manifest) -> Manifest:
    return {"type": "object", "properties": properties}


DEFINITION: Final[Manifest] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{TOY_JOBS.plural}.{TOY_JOBS.group}"},
    "spec": {
        "group": TOY_JOBS.group,
        "names": {"kind": TOY_JOBS.kind, "listKind": "ToyJobList", "plural": TOY_JOBS.plural, "singular": "toyjob"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": TOY_JOBS.version,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": _object(
                        spec=_object(
                            suspend={"type": "boolean"},
                            replicas={"type": "integer", "minimum": 0},
                            template={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        ),
                        status=_object(phase={"type": "string"}),
                    )
                },
            }
        ],
    },
}


def toy(name: str, *, namespace: str = "default", queue: str = "door", replicas: int = 1, cpu: Any = 1) -> Manifest:
    """Make a toy that waits in a queue."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": TOY_JOBS.api_version,
        "kind": TOY_JOBS.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": {keys.QUEUE_NAME: queue}},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [container]}}},
    }
