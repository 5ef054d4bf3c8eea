"""What viewers see of a cluster: everything but Secrets. Their entries in EKS put them into a group; here it is bound.

Kubernetes' own view has our kinds too (rbac.people_roles), and reaches those of the whole cluster where it is bound
for the whole cluster. It lacks nodes and disks, which come with a role of ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from autoscaler.api import keys
from components import kube, specs
from components.access import rbac
from components.config.clusters import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewersArgs:
    """Which cluster."""

    config: Cluster
    provider: k8s.Provider
    after: Sequence[pulumi.Resource] = ()


class Viewers(pulumi.ComponentResource):
    """The rights of viewers; nothing where the config names none."""

    def __init__(self, name: str, args: ViewersArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:Viewers", name, None, opts)
        if args.config.access.viewers:
            self._bind(name, args)
        self.register_outputs({})

    def _bind(self, name: str, args: ViewersArgs) -> None:
        child = pulumi.ResourceOptions(parent=self, provider=args.provider, depends_on=[*args.after])
        autoscaler, people = args.config.autoscaler, kube.group(keys.VIEWERS_GROUP)
        prefix = autoscaler.rbac.name or autoscaler.name
        metadata = {"name": f"{prefix}-viewers", "labels": specs.STAMP}
        kube.bind(f"{name}.view", child, metadata=metadata, role="view", subject=people)
        nodes = {"name": f"{prefix}-nodes-view", "labels": specs.STAMP}
        kube.grant(f"{name}.nodes", child, metadata=nodes, rules=rbac.nodes_view(), subject=people)
