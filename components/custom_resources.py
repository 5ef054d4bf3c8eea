"""The custom resource definitions in the cluster. It must never delete one: that would delete all its objects."""

from dataclasses import dataclass

import pulumi
from pulumi_kubernetes.apiextensions import v1

from autoscaler.api import crds


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionsArgs:
    """Which definitions to install."""

    install_worker_pool: bool = True
    """False leaves the WorkerPool definition to somebody else."""


class Definitions(pulumi.ComponentResource):
    """The definitions of all kinds. They outlive the stack, with all objects of their kinds."""

    def __init__(self, name: str, args: DefinitionsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:Definitions", name, None, opts)
        for manifest in crds.all_crds():
            kind = manifest["spec"]["names"]["kind"]
            if kind == "WorkerPool" and not args.install_worker_pool:
                continue
            v1.CustomResourceDefinition(
                kind.lower(),
                metadata=manifest["metadata"],
                spec=manifest["spec"],
                opts=pulumi.ResourceOptions(parent=self, retain_on_delete=True),
            )
        self.register_outputs({})
