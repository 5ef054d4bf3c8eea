"""The upstream cluster-autoscaler, where the stack chooses it instead of the runtime's capacity controller.

Never both: whoever makes this also leaves `capacity` out of the runtime's controllers.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from autoscaler.api.manifests import Manifest
from components import kube
from components.access import policies
from components.config.clusters import Cluster
from components.eks import cluster, pod_identity
from components.place import Place
from components.third_party import cluster_autoscaler_manifests as manifests


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAutoscalerArgs:
    """Which cluster it scales."""

    config: Cluster
    place: Place
    access: cluster.Access
    after: Sequence[pulumi.Resource] = ()


class ClusterAutoscaler(pulumi.ComponentResource):
    """The upstream cluster-autoscaler, with a role of its own."""

    def __init__(self, name: str, args: ClusterAutoscalerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:ClusterAutoscaler", name, None, opts)
        self._name, self._args = name, args
        account = kube.make(k8s.core.v1.ServiceAccount, name, self._opts(), metadata=manifests.METADATA)
        rights = [
            *self._rights(manifests.CLUSTER_METADATA, manifests.cluster_rules()),
            *self._rights(manifests.METADATA, manifests.own_rules()),
        ]
        self.deployment = kube.make(
            k8s.apps.v1.Deployment,
            name,
            self._opts(account, *rights, *self._credentials(), *args.after),
            metadata=manifests.METADATA,
            spec=manifests.spec(args.config, args.place),
        )
        if (budget := manifests.disruption_budget(args.config)) is not None:
            kube.make(k8s.policy.v1.PodDisruptionBudget, name, self._opts(), metadata=manifests.METADATA, spec=budget)
        self.register_outputs({})

    def _rights(self, metadata: Manifest, rules: list[Manifest]) -> list[pulumi.Resource]:
        subject = kube.account(manifests.NAMESPACE, manifests.NAME)
        return kube.grant(self._name, self._opts(), metadata=metadata, rules=rules, subject=subject)

    def _credentials(self) -> Sequence[pulumi.Resource]:
        """Give it a role in AWS, where the cluster can hand one to pods."""
        args = self._args
        if args.access.eks_name is None:
            return []
        document = policies.cluster_autoscaler(args.place)
        role = pod_identity.PodRole(
            self._name,
            pod_identity.PodRoleArgs(
                place=args.place,
                cluster=args.access,
                namespace=manifests.NAMESPACE,
                service_account=manifests.NAME,
                policies={"scaling": json.dumps(document)},
                after=args.access.ready,
            ),
            pulumi.ResourceOptions(parent=self),
        )
        return role.ready

    def _opts(self, *after: pulumi.Resource) -> pulumi.ResourceOptions:
        access = self._args.access
        return pulumi.ResourceOptions(parent=self, provider=access.kubernetes, depends_on=[*access.ready, *after])
