"""Disks in a new cluster: the StorageClass of claims that name none. EKS itself marks none as the default.

A cluster that is there already has its own default; a second one would take its claims over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_kubernetes as k8s

from autoscaler.api import keys
from components import kube, specs

NAME: Final = "gp3"


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageArgs:
    """Which cluster."""

    provider: k8s.Provider
    after: Sequence[pulumi.Resource] = ()


class Storage(pulumi.ComponentResource):
    """The default StorageClass: encrypted disks, each made in the zone of the first pod that needs it."""

    def __init__(self, name: str, args: StorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:Storage", name, None, opts)
        kube.make(
            k8s.storage.v1.StorageClass,
            name,
            pulumi.ResourceOptions(parent=self, provider=args.provider, depends_on=[*args.after]),
            metadata={"name": NAME, "labels": specs.STAMP, "annotations": {keys.DEFAULT_STORAGE_CLASS: "true"}},
            provisioner="ebs.csi.aws.com",
            parameters={"type": "gp3", "encrypted": "true"},
            volume_binding_mode="WaitForFirstConsumer",
            allow_volume_expansion=True,
        )
        self.register_outputs({})
