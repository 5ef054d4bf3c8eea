"""What workers are modelled on: the template of the Deployment that a pool names.

Reads the Deployment each time: workers follow the template as it is when they are made. Makes nothing.
"""

from typing import Any, Final

import msgspec

from autoscaler.kube import kinds, port
from autoscaler.workers import pods
from autoscaler.workers.model import Pool


class _Source(msgspec.Struct, frozen=True):
    template: dict[str, Any] = {}


class _Deployment(msgspec.Struct, frozen=True):
    spec: _Source = _Source()


_DEPLOYMENT: Final = msgspec.json.Decoder(_Deployment)


async def read(api: port.Api, pool: Pool) -> dict[str, Any]:
    """Return the template that a pool's workers are made from; raise TemplateError if it is not there."""
    source, namespace = pool.resource.spec.worker_spec.pod_template.source, pool.meta.key.namespace
    try:
        found = await port.get(api, kinds.DEPLOYMENTS.path(source.name, namespace))
        return _DEPLOYMENT.decode(found).spec.template
    except port.NotFoundError as error:
        raise pods.TemplateError(
            f"{source.kind} {source.name}, from whose template workers are made, is not in namespace "
            f"{namespace}: create it, or correct spec.workerSpec.podTemplate.source.name"
        ) from error
