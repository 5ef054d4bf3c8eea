"""The upstream cluster-autoscaler, where the stack chooses it instead of the runtime's capacity controller.

Never both: whoever makes this also leaves `capacity` out of the runtime's controllers.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_kubernetes as k8s

from components import cluster, kube, pod_identity, policies, runtime_rights
from components import cluster_autoscaler_manifests as manifests
from components.config.clusters import Cluster
from components.place import Place

_GROUP: Final = "rbac.authorization.k8s.io"


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
        rights = [*self._cluster_rights(), *self._own_rights()]
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

    def _cluster_rights(self) -> list[pulumi.Resource]:
        metadata = {"name": manifests.NAME, "labels": manifests.LABELS}
        role = kube.make(
            k8s.rbac.v1.ClusterRole, self._name, self._opts(), metadata=metadata, rules=manifests.cluster_rules()
        )
        binding = kube.make(
            k8s.rbac.v1.ClusterRoleBinding,
            self._name,
            self._opts(role),
            metadata=metadata,
            role_ref={"apiGroup": _GROUP, "kind": "ClusterRole", "name": manifests.NAME},
            subjects=_subjects(),
        )
        return [role, binding]

    def _own_rights(self) -> list[pulumi.Resource]:
        role = kube.make(
            k8s.rbac.v1.Role, self._name, self._opts(), metadata=manifests.METADATA, rules=manifests.own_rules()
        )
        binding = kube.make(
            k8s.rbac.v1.RoleBinding,
            self._name,
            self._opts(role),
            metadata=manifests.METADATA,
            role_ref={"apiGroup": _GROUP, "kind": "Role", "name": manifests.NAME},
            subjects=_subjects(),
        )
        return [role, binding]

    def _credentials(self) -> Sequence[pulumi.Resource]:
        """Give it a role in AWS, where the cluster can hand one to pods."""
        args = self._args
        if args.access.eks_name is None:
            return []
        document = policies.cluster_autoscaler(runtime_rights.home(args.place))
        role = pod_identity.PodRole(
            self._name,
            pod_identity.PodRoleArgs(
                place=args.place,
                access=args.access,
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


def _subjects() -> list[dict[str, str]]:
    return [{"kind": "ServiceAccount", "name": manifests.NAME, "namespace": manifests.NAMESPACE}]
