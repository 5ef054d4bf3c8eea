"""GPUs in a cluster: NVIDIA's device plugin and feature discovery, and what turns its findings into labels.

Whether a cluster needs them is its caller's to decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from autoscaler.api.manifests import Manifest
from components import kube
from components.eks import cluster
from components.third_party import gpu_manifests as manifests


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
        finder = manifests.FEATURE_DISCOVERY
        rights = self._rights(finder, manifests.feature_rules(), manifests.metadata(finder))
        self._daemon_set(finder, manifests.feature_discovery(), *definitions, *rights)
        arguments = {manifests.NFD_MASTER: ["-extra-label-ns=nvidia.com"], manifests.NFD_COLLECTOR: []}
        for part, rules in manifests.node_rules().items():
            kube.make(
                k8s.apps.v1.Deployment,
                f"{name}.{part}",
                self._opts(*definitions, *self._rights(part, rules, manifests.cluster_metadata(part))),
                metadata=manifests.metadata(part),
                spec=manifests.nfd(part, *arguments[part]),
            )
        self.register_outputs({})

    def _daemon_set(self, key: str, spec: Manifest, *after: pulumi.Resource) -> pulumi.Resource:
        logical, metadata = f"{self._name}.{key}", manifests.metadata(key)
        return kube.make(k8s.apps.v1.DaemonSet, logical, self._opts(*after), metadata=metadata, spec=spec)

    def _definition(self, manifest: Manifest) -> pulumi.Resource:
        """Install a definition of NFD's; where somebody else's is there already, this fails instead of changing it."""
        name = f"{self._name}.{manifest['metadata']['name']}"
        kind = k8s.apiextensions.v1.CustomResourceDefinition
        return kube.make(kind, name, self._opts(), metadata=manifest["metadata"], spec=manifest["spec"])

    def _rights(self, key: str, rules: list[Manifest], metadata: Manifest) -> list[pulumi.Resource]:
        """Make a part's ServiceAccount, and give it rights where the metadata says."""
        logical, own = f"{self._name}.{key}", manifests.metadata(key)
        account = kube.make(k8s.core.v1.ServiceAccount, logical, self._opts(), metadata=own)
        subject = kube.account(manifests.NAMESPACE, key)
        return [account, *kube.grant(logical, self._opts(), metadata=metadata, rules=rules, subject=subject)]

    def _opts(self, *after: pulumi.Resource) -> pulumi.ResourceOptions:
        access = self._args.access
        return pulumi.ResourceOptions(
            parent=self, provider=access.kubernetes, depends_on=[*access.ready, *self._args.after, *after]
        )
