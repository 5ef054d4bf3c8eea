"""GPUs in a cluster: NVIDIA's device plugin and feature discovery, and what turns its findings into labels.

Made only where a node pool has GPUs (gpu_manifests.is_needed).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_kubernetes as k8s

from autoscaler.api.manifests import Manifest
from components import cluster, custom_resources, kube
from components import gpu_manifests as manifests

_GROUP: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSupportArgs:
    """Which cluster."""

    access: cluster.Access
    after: Sequence[pulumi.Resource] = ()


class GpuSupport(pulumi.ComponentResource):
    """Everything that a node with GPUs needs of its cluster."""

    def __init__(self, name: str, args: GpuSupportArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:GpuSupport", name, None, opts)
        self._name, self._args = name, args
        self._daemon_set(manifests.DEVICE_PLUGIN, manifests.device_plugin())
        definitions = [self._definition(one) for one in manifests.definitions()]
        rights = self._own_rights(manifests.FEATURE_DISCOVERY, manifests.feature_rules())
        self._daemon_set(manifests.FEATURE_DISCOVERY, manifests.feature_discovery(), *definitions, *rights)
        arguments = {manifests.NFD_MASTER: ["-extra-label-ns=nvidia.com"], manifests.NFD_COLLECTOR: []}
        for part, rules in manifests.node_rules().items():
            kube.make(
                k8s.apps.v1.Deployment,
                f"{name}-{part}",
                self._opts(*definitions, *self._cluster_rights(part, rules)),
                metadata=manifests.metadata(part),
                spec=manifests.nfd(part, *arguments[part]),
            )
        self.register_outputs({})

    def _daemon_set(self, key: str, spec: Manifest, *after: pulumi.Resource) -> pulumi.Resource:
        logical, metadata = f"{self._name}-{key}", manifests.metadata(key)
        return kube.make(k8s.apps.v1.DaemonSet, logical, self._opts(*after), metadata=metadata, spec=spec)

    def _definition(self, manifest: Manifest) -> pulumi.Resource:
        """Install a definition of NFD's, which others may use too: it is taken over and never removed."""
        access = self._args.access
        return kube.make(
            k8s.apiextensions.v1.CustomResourceDefinition,
            f"{self._name}-{manifest['metadata']['name']}",
            pulumi.ResourceOptions(
                parent=self,
                provider=access.definitions,
                retain_on_delete=True,
                depends_on=[*access.ready, *self._args.after],
            ),
            metadata={**manifest["metadata"], "annotations": custom_resources.PATCH_FORCE},
            spec=manifest["spec"],
        )

    def _account(self, key: str) -> pulumi.Resource:
        logical, metadata = f"{self._name}-{key}", manifests.metadata(key)
        return kube.make(k8s.core.v1.ServiceAccount, logical, self._opts(), metadata=metadata)

    def _cluster_rights(self, key: str, rules: list[Manifest]) -> list[pulumi.Resource]:
        logical, metadata = f"{self._name}-{key}", {"name": key, "labels": manifests.labels(key)}
        role = kube.make(k8s.rbac.v1.ClusterRole, logical, self._opts(), metadata=metadata, rules=rules)
        binding = kube.make(
            k8s.rbac.v1.ClusterRoleBinding,
            logical,
            self._opts(role),
            metadata=metadata,
            role_ref={"apiGroup": _GROUP, "kind": "ClusterRole", "name": key},
            subjects=_subjects(key),
        )
        return [self._account(key), role, binding]

    def _own_rights(self, key: str, rules: list[Manifest]) -> list[pulumi.Resource]:
        logical, metadata = f"{self._name}-{key}", manifests.metadata(key)
        role = kube.make(k8s.rbac.v1.Role, logical, self._opts(), metadata=metadata, rules=rules)
        binding = kube.make(
            k8s.rbac.v1.RoleBinding,
            logical,
            self._opts(role),
            metadata=metadata,
            role_ref={"apiGroup": _GROUP, "kind": "Role", "name": key},
            subjects=_subjects(key),
        )
        return [self._account(key), role, binding]

    def _opts(self, *after: pulumi.Resource) -> pulumi.ResourceOptions:
        access = self._args.access
        return pulumi.ResourceOptions(
            parent=self, provider=access.kubernetes, depends_on=[*access.ready, *self._args.after, *after]
        )


def _subjects(key: str) -> list[dict[str, str]]:
    return [{"kind": "ServiceAccount", "name": key, "namespace": manifests.NAMESPACE}]
