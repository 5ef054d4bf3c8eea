"""Pod templates as quota sees them: what each pod requests and where it may go. Pure, and the same for all kinds.

Two things come upon a pod when it is made and are not known here: the overhead of its RuntimeClass and the defaults of
a LimitRange.
"""

import msgspec
from msgspec import structs

from autoscaler.admission.jobs.port import WantedPods
from autoscaler.admission.workloads.workload import Constraints, Requests
from autoscaler.kube import shapes, wire


class PodSpec(wire.PodSpec, frozen=True):
    """A pod's spec, with what only templates are read for."""

    priority_class_name: str = ""


class Template(msgspec.Struct, gc=False, frozen=True):
    """A pod template, as the API server sends it."""

    spec: PodSpec = PodSpec()


def wanted(name: str, spec: PodSpec, *, size: int, replica_pods: int = 1) -> WantedPods:
    """Describe a pod set whose pods are made from a template."""
    return WantedPods(
        name=name,
        size=size,
        requests=requests(spec),
        constraints=Constraints(node_selector=spec.node_selector, affinity=spec.affinity, tolerations=spec.tolerations),
        replica_pods=replica_pods,
    )


def requests(spec: PodSpec) -> Requests:
    """Sum up what each pod will request.

    A limit without a request becomes the request when the pod is made; in templates the API server leaves it missing.
    A limit of the whole pod does so where no container requests that resource.
    """
    filled = structs.replace(
        spec,
        containers=tuple(_filled(each) for each in spec.containers),
        init_containers=tuple(_filled(each) for each in spec.init_containers),
    )
    counted = shapes.requests(wire.Pod(metadata=wire.ObjectMeta(), spec=filled))
    return shapes.amounts(spec.resources.limits) | counted


def problem(name: str, spec: PodSpec) -> str | None:
    """Say why pods of a template cannot be counted against quota, and what to do; None: they can."""
    if not spec.resource_claims:
        return None
    return (
        f"the pods of {name} ask for devices by resource claims, which quota does not count: ask for them by resource"
        " requests, or take the queue label off"
    )


def _filled(container: wire.Container) -> wire.Container:
    resources = container.resources
    if not resources.limits:
        return container
    both = wire.Resources(requests=resources.limits | resources.requests)
    return structs.replace(container, resources=both)
