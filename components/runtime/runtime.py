"""The runtime in a cluster: its namespace, its rights in Kubernetes and in AWS, and its Deployment, in this order.

What the objects hold is decided in deployment.py, rbac.py and runtime_rights.py; here is only what comes after what.
The Deployment comes last: its pods find all rights in place, and when the stack goes they are the first to go.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pulumi
import pulumi_kubernetes as k8s
from pulumi_kubernetes.flowcontrol import v1

from autoscaler.api.manifests import Manifest
from autoscaler.api.settings.scaling import PriceList
from components import kube
from components.access import policies, rbac
from components.config import reading
from components.config.autoscaler import Autoscaler
from components.config.clusters import Cluster
from components.eks import cluster, pod_identity
from components.objects import custom_resources
from components.place import Place
from components.runtime import deployment, flow_control, runtime_rights

_SKIP_AWAIT: Final = {"pulumi.com/skipAwait": "true"}
"""The Deployment is waited for; its Service has nothing to add to that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeArgs:
    """Which runtime, and where."""

    config: Cluster
    place: Place
    access: cluster.Access
    image: pulumi.Input[str]
    prices: PriceList = field(default_factory=PriceList)
    """What instances of the cluster's pools cost."""
    interruption_queue_url: pulumi.Input[str] | None = None
    interruption_queue_arn: pulumi.Input[str] | None = None
    namespaces: Mapping[str, pulumi.Resource] = field(default_factory=dict)
    """The namespaces of workloads that the stack makes or labels: a Role in one of them waits for it."""
    after: Sequence[pulumi.Resource] = ()
    """The definitions: the runtime refuses to start on older ones."""


class Runtime(pulumi.ComponentResource):
    """The reconciler, and all it needs."""

    def __init__(self, name: str, args: RuntimeArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:Runtime", name, None, opts)
        self._name, self._args = name, args
        config = args.config.autoscaler
        self.namespace = custom_resources.add_namespace(name, config.namespace, args.config, opts=self._opts())
        secrets = list(self._pull_secrets(config))
        account = list(self._service_account(config))
        rights = list(self._rights(config)) if config.rbac.create else []
        inside, metadata = self._opts(self.namespace), deployment.metadata(config)
        kube.make(
            k8s.networking.v1.NetworkPolicy, name, inside, metadata=metadata, spec=deployment.network_policy(config)
        )
        self.deployment = kube.make(
            k8s.apps.v1.Deployment,
            name,
            self._opts(
                self.namespace,
                *secrets,
                *account,
                *rights,
                self._flow(config),
                *self._credentials(config),
                *args.after,
            ),
            metadata=metadata,
            spec=deployment.spec(self._surroundings()),
        )
        if (budget := deployment.disruption_budget(config)) is not None:
            kube.make(k8s.policy.v1.PodDisruptionBudget, name, inside, metadata=metadata, spec=budget)
        scraped = {**metadata, "annotations": _SKIP_AWAIT}
        kube.make(k8s.core.v1.Service, name, inside, metadata=scraped, spec=deployment.service(config))
        self.register_outputs({})

    def _surroundings(self) -> deployment.Surroundings:
        args = self._args
        return deployment.Surroundings(
            config=args.config,
            place=args.place,
            image=args.image,
            interruption_queue=args.interruption_queue_url,
            api_servers=_joined(args.access.api_servers),
            prices=args.prices,
        )

    def _pull_secrets(self, config: Autoscaler) -> Iterator[pulumi.Resource]:
        for secret in config.image_pull_secrets:
            if secret.value is not None:
                yield kube.make(
                    k8s.core.v1.Secret,
                    f"{self._name}.{secret.name}",
                    self._opts(self.namespace),
                    metadata={**deployment.metadata(config), "name": secret.name},
                    type="kubernetes.io/dockerconfigjson",
                    data={".dockerconfigjson": reading.secret(secret.value)},
                )

    def _service_account(self, config: Autoscaler) -> Iterator[pulumi.Resource]:
        if config.service_account.create:
            metadata = deployment.service_account(config)
            yield kube.make(k8s.core.v1.ServiceAccount, self._name, self._opts(self.namespace), metadata=metadata)

    def _rights(self, config: Autoscaler) -> Iterator[pulumi.Resource]:
        """Give the runtime what its controllers need, and people what Kubernetes' own roles lack."""
        name = config.rbac.name or config.name
        roles = rbac.runtime_roles(
            deployment.controllers(config),
            scope=config.scope,
            classes=deployment.worker_classes(config),
        )
        yield from self._grant(self._name, {"name": name, "labels": deployment.labels(config)}, roles.cluster)
        yield from self._role(name, config.namespace, roles.own_namespace)
        yield from self._role(name, "kube-system", roles.kube_system)
        for namespace in config.readable_namespaces:
            yield from self._role(f"{name}-secrets", namespace, roles.secret_namespaces)
        for role, (labels, rules) in rbac.people_roles().items():
            suffix = role.removeprefix("sluice-")
            metadata = {"name": f"{name}-{suffix}", "labels": labels}
            logical = f"{self._name}.{suffix}"
            yield kube.make(k8s.rbac.v1.ClusterRole, logical, self._opts(), metadata=metadata, rules=[*rules])
        metadata = {**deployment.metadata(config), "name": f"{name}-plan", "namespace": config.namespace}
        proxy, after = [*rbac.plan_proxy()], self._opts(self.namespace)
        yield kube.make(k8s.rbac.v1.Role, f"{self._name}.plan", after, metadata=metadata, rules=proxy)

    def _role(self, name: str, namespace: str, rules: Sequence[rbac.Rule]) -> list[pulumi.Resource]:
        """Give rights in one namespace; none where there are no rules."""
        if not rules:
            return []
        config = self._args.config.autoscaler
        known = {**self._args.namespaces, config.namespace: self.namespace}
        place = [known[namespace]] if namespace in known else []
        metadata = {**deployment.metadata(config), "name": name, "namespace": namespace}
        return self._grant(f"{self._name}.{namespace}/{name}", metadata, rules, after=place)

    def _grant(
        self, logical: str, metadata: Manifest, rules: Sequence[rbac.Rule], *, after: Sequence[pulumi.Resource] = ()
    ) -> list[pulumi.Resource]:
        config = self._args.config.autoscaler
        subject = kube.account(config.namespace, config.service_account_name)
        return kube.grant(logical, self._opts(*after), metadata=metadata, rules=rules, subject=subject)

    def _flow(self, config: Autoscaler) -> pulumi.Resource:
        """Have the API server serve the runtime whatever others ask of it."""
        metadata = {"name": config.name, "labels": deployment.labels(config)}
        level = kube.make(
            v1.PriorityLevelConfiguration,
            self._name,
            self._opts(),
            metadata=metadata,
            spec=flow_control.priority_level(),
        )
        spec = flow_control.flow_schema(config)
        return kube.make(v1.FlowSchema, self._name, self._opts(level), metadata=metadata, spec=spec)

    def _credentials(self, config: Autoscaler) -> Sequence[pulumi.Resource]:
        """Give the runtime a role in AWS, where the cluster can hand it to pods and there is something to do."""
        args = self._args
        if args.access.eks_name is None or not self._document(None)["Statement"]:
            return []
        document = pulumi.Output.from_input(args.interruption_queue_arn).apply(
            lambda arn: json.dumps(self._document(arn))
        )
        role = pod_identity.PodRole(
            self._name,
            pod_identity.PodRoleArgs(
                place=args.place,
                cluster=args.access,
                namespace=config.namespace,
                service_account=config.service_account_name,
                policies={"runtime": document},
                after=args.access.ready,
            ),
            pulumi.ResourceOptions(parent=self),
        )
        return role.ready

    def _document(self, interruption_queue_arn: str | None) -> policies.Document:
        args = self._args
        return runtime_rights.document(args.config, args.place, interruption_queue_arn=interruption_queue_arn)

    def _opts(self, *after: pulumi.Resource) -> pulumi.ResourceOptions:
        access = self._args.access
        return pulumi.ResourceOptions(parent=self, provider=access.kubernetes, depends_on=[*access.ready, *after])


def _joined(urls: Sequence[pulumi.Input[str]]) -> pulumi.Input[str] | None:
    """Write URLs as the runtime reads them, each once."""
    if not urls:
        return None
    return pulumi.Output.all(*urls).apply(lambda known: ",".join(dict.fromkeys(filter(None, known))))
