"""The admission policies in the cluster, each before its binding. The definitions they speak of must be there first."""

from dataclasses import dataclass

import pulumi
from pulumi_kubernetes.admissionregistration import v1

from autoscaler.api import policies
from autoscaler.api.manifests import Manifest

_RESOURCES = {
    "ValidatingAdmissionPolicy": v1.ValidatingAdmissionPolicy,
    "ValidatingAdmissionPolicyBinding": v1.ValidatingAdmissionPolicyBinding,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPoliciesArgs:
    """What the policies stand on."""

    definitions: pulumi.Resource
    """The custom resource definitions. A component's dependencies do not reach its children, so each child has it."""


class AdmissionPolicies(pulumi.ComponentResource):
    """What the API server checks and changes by itself, also while the runtime is away."""

    def __init__(self, name: str, args: AdmissionPoliciesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:AdmissionPolicies", name, None, opts)
        for policy in policies.POLICIES:
            made, binding = policy.manifests()
            resource = self._add(policy.name, made, after=args.definitions)
            self._add(f"{policy.name}-binding", binding, after=resource)
        self.register_outputs({})

    def _add(self, name: str, manifest: Manifest, *, after: pulumi.Resource) -> pulumi.Resource:
        opts = pulumi.ResourceOptions(parent=self, depends_on=[after])
        kind = _RESOURCES[manifest["kind"]]
        resource: pulumi.Resource = kind(name, metadata=manifest["metadata"], spec=manifest["spec"], opts=opts)
        return resource
