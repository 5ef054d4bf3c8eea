"""The drain object: a ConfigMap that is made last, and so deleted first, which asks the runtime to leave.

The runtime holds it by finalizers of its own until the work on its pools has ended and nothing hangs on the runtime;
a stack whose runtime never ran has nobody to wait for. It must have no data: a change of that would replace it, and a
replacement would be a farewell.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from autoscaler.api import names
from components import kube, specs
from components.config.clusters import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainObjectArgs:
    """Whose runtime is asked, and what must still be there when it is."""

    config: Cluster
    provider: k8s.Provider
    after: Sequence[pulumi.Resource]
    """Everything that work needs until it has ended, the runtime first of all."""


class DrainObject(pulumi.ComponentResource):
    """The object whose deletion begins the end of a stack."""

    def __init__(self, name: str, args: DrainObjectArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:DrainObject", name, None, opts)
        metadata = {
            "name": names.DRAIN_OBJECT,
            "namespace": args.config.autoscaler.namespace,
            "labels": {"app.kubernetes.io/part-of": "sluice"},
        }
        timeouts = pulumi.CustomTimeouts(delete=f"{seconds(args.config)}s")
        opts = pulumi.ResourceOptions(
            parent=self, provider=args.provider, depends_on=[*args.after], custom_timeouts=timeouts
        )
        kube.make(k8s.core.v1.ConfigMap, name, opts, metadata=metadata)
        self.register_outputs({})


def seconds(config: Cluster) -> int:
    """Return how long leaving may take: as long as the slowest pool."""
    drained = [pool.drain_seconds for pool in config.node_pools.values()]
    drained += [pool.drain_seconds for pool in config.instance_pools.values()]
    return specs.removal_seconds(max(drained, default=0))
