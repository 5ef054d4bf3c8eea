"""A worker pod: a copy of the source's pod template, made into a worker of its pool. Pure.

Only what makes it a worker is changed: it runs once, it belongs to its pool, and the one container that does the work
is told its pool and for how long it may find no job. Everything else stays as the template has it.
"""

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from autoscaler.api import keys, names, version
from autoscaler.api.manifests import Manifest
from autoscaler.workers.model import Pool

IDLE_TIMEOUT: Final = "SLUICE_IDLE_TIMEOUT_MINUTES"
"""In the worker's container: exit after so many minutes without a job."""
POOL: Final = "SLUICE_WORKER_POOL"
"""In the worker's container: the name of its pool."""
_TEMPLATE_HASH: Final = "pod-template-hash"
"""The mark of a ReplicaSet: with it, the source's own ReplicaSet would take the worker for one of its pods."""


class TemplateError(Exception):
    """The source's template cannot be made into a worker; the message says why and what to change."""


def name(pool: str, suffix: str) -> str:
    """Name a worker: `<pool>-<random>`."""
    if len(suffix) != names.POD_SUFFIX_LENGTH:
        raise ValueError(f"a worker's suffix has {names.POD_SUFFIX_LENGTH} characters, not {len(suffix)}")
    return f"{pool}-{suffix}"


@dataclass(frozen=True, slots=True)
class Prototype:
    """A worker without a name."""

    manifest: Manifest
    template: str
    """A hash of what it is made from: the template, and what the pool adds to it."""

    def named(self, suffix: str) -> Manifest:
        """Return a worker of this kind. It shares its parts with all others: it is for sending, not for changing."""
        metadata = self.manifest["metadata"]
        pool = metadata["labels"][keys.WORKER_POOL]
        return {**self.manifest, "metadata": {**metadata, "name": name(pool, suffix)}}


def make(template: Mapping[str, Any], pool: Pool) -> Prototype:
    """Make a worker from a pod template; raise TemplateError if it has no such container."""
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != _TEMPLATE_HASH}
    spec = copy.deepcopy(dict(template.get("spec") or {}))
    spec["restartPolicy"] = "Never"
    spec["containers"] = _containers(spec.get("containers") or (), pool)
    labels[keys.WORKER_POOL] = pool.meta.key.name
    annotations = dict(metadata.get("annotations") or {})
    content = msgspec.json.encode((labels, annotations, spec), order="sorted")
    digest = hashlib.sha256(content).hexdigest()[:16]
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": pool.meta.key.namespace,
            "labels": labels,
            "annotations": {**annotations, keys.TEMPLATE_HASH: digest},
            "finalizers": [keys.FINALIZER],
            "ownerReferences": [_owner(pool)],
        },
        "spec": spec,
    }
    return Prototype(manifest, digest)


def _containers(containers: Sequence[Mapping[str, Any]], pool: Pool) -> list[Mapping[str, Any]]:
    known = [str(container.get("name")) for container in containers]
    wanted = pool.resource.spec.worker_spec.pod_template.container_name
    if wanted not in known:
        raise TemplateError(
            f"the template has no container {wanted}; it has {', '.join(known) or 'none'}: "
            "set spec.workerSpec.podTemplate.containerName to one of them"
        )
    return [_working(each, pool) if each.get("name") == wanted else each for each in containers]


def _working(container: Mapping[str, Any], pool: Pool) -> Mapping[str, Any]:
    """Tell the container what it is, first of all, so that its own variables may refer to it as `$(…)`.

    Its own variables of these names give way.
    """
    ours = {IDLE_TIMEOUT: str(pool.resource.spec.worker_spec.idle_timeout_minutes), POOL: pool.meta.key.name}
    kept = [variable for variable in container.get("env") or () if variable.get("name") not in ours]
    return {**container, "env": [*({"name": key, "value": value} for key, value in ours.items()), *kept]}


def _owner(pool: Pool) -> Manifest:
    return {
        "apiVersion": version.GROUP_VERSION,
        "kind": "WorkerPool",
        "name": pool.meta.key.name,
        "uid": pool.meta.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
