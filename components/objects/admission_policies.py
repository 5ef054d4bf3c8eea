"""The admission policies in the cluster, each before its binding. The definitions they speak of must be there first."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_kubernetes as k8s
from pulumi_kubernetes.admissionregistration import v1

from autoscaler.api import policies
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import Policy, leaving
from components import kube
from components.config.autoscaler import Autoscaler

_RESOURCES: Final[Mapping[str, Callable[..., pulumi.Resource]]] = {
    "ValidatingAdmissionPolicy": v1.ValidatingAdmissionPolicy,
    "ValidatingAdmissionPolicyBinding": v1.ValidatingAdmissionPolicyBinding,
    "MutatingAdmissionPolicy": v1.MutatingAdmissionPolicy,
    "MutatingAdmissionPolicyBinding": v1.MutatingAdmissionPolicyBinding,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPoliciesArgs:
    """Which policies, and what they stand on."""

    provider: k8s.Provider
    policies: Sequence[Policy] = policies.POLICIES
    runtime: Autoscaler | None = None
    """Whose ServiceAccount alone may do what only the runtime may, and who may end it; None leaves the policies about
    that out."""
    after: Sequence[pulumi.Resource] = ()
    """The custom resource definitions. A component's dependencies do not reach its children, so each child has them."""


class AdmissionPolicies(pulumi.ComponentResource):
    """What the API server checks and changes by itself, also while the runtime is away."""

    def __init__(self, name: str, args: AdmissionPoliciesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:AdmissionPolicies", name, None, opts)
        self.made: list[pulumi.Resource] = []
        for policy in (*args.policies, *_about_the_runtime(args.runtime)):
            made, binding = policy.manifests()
            resource = self._add(f"{name}.{policy.name}", made, args.provider, after=args.after)
            bound = self._add(f"{name}.{policy.name}.binding", binding, args.provider, after=[resource])
            self.made += [resource, bound]
        self.register_outputs({})

    def _add(
        self, name: str, manifest: Manifest, provider: k8s.Provider, *, after: Sequence[pulumi.Resource]
    ) -> pulumi.Resource:
        opts = pulumi.ResourceOptions(parent=self, provider=provider, depends_on=[*after])
        kind = _RESOURCES[manifest["kind"]]
        return kube.make(kind, name, opts, metadata=manifest["metadata"], spec=manifest["spec"])


def _about_the_runtime(config: Autoscaler | None) -> Sequence[Policy]:
    if config is None:
        return ()
    return policies.about_runtime(
        policies.Runtime(
            namespace=config.namespace,
            service_account=config.service_account_name,
            deployers=leaving.Deployers(users=config.deployers.users, groups=config.deployers.groups),
        )
    )
