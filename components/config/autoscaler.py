"""The runtime's part of the config: every value of seed 000's chart, and what Sluice adds to them."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field

from autoscaler.api import keys
from autoscaler.api.permissions import WorkerScope
from autoscaler.api.resources.types import Count, DnsLabel, DnsName, Labels, Toleration
from autoscaler.api.settings import queued_jobs, sleepers
from autoscaler.api.settings.queue_access import Grants
from autoscaler.api.settings.scaling import EXPANDERS, Expander
from components.config.base import Problem, SecretName, Section, absent
from components.config.node_pools import repeated

Anything = dict[str, Any]
"""A part of a pod's spec, handed through as it is."""
Annotations = Annotated[dict[str, str], Field(max_length=64)]


TUNING: Final = frozenset({"SLUICE_LOG_LEVEL", "SLUICE_LEASE_SECONDS", "SLUICE_ALLOW_LOOPBACK_QUEUES"})
"""Settings of the runtime that have no key of their own."""


KUBERNETES_ROLES: Final = frozenset({"cluster-admin", "admin", "edit", "view"})


class NodeScaler(StrEnum):
    NATIVE = "native"
    CLUSTER_AUTOSCALER = "cluster-autoscaler"


class PullPolicy(StrEnum):
    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class PullSecret(Section):
    """A secret with which images are pulled."""

    name: DnsName
    """Its name, in the runtime's namespace."""
    value: SecretName | None = None
    """The key of sluice:secrets that holds a base64 .dockerconfigjson. Given: the stack creates the secret."""


class CustomResourceDefinitions(Section):
    """Which definitions the stack installs."""

    install_worker_pool: bool = True
    """false: the WorkerPool definition is left to somebody else; one that is there stays."""


class ServiceAccount(Section):
    """The runtime's ServiceAccount."""

    create: bool = True
    """false: it is there already; name must be given."""
    name: DnsName | None = None
    """Its name, where it is not the runtime's."""
    annotations: Annotations = {}
    """Its annotations."""
    labels: Labels = {}
    """Its labels."""

    def problems(self) -> Iterator[Problem]:
        if not self.create and self.name is None:
            yield absent("name", message="must be given where create is false")


class Rbac(Section):
    """The runtime's roles and their bindings."""

    create: bool = True
    """false: somebody else gives the runtime its rights."""
    name: DnsName | None = None
    """The roles' name, where it is not the runtime's."""

    def problems(self) -> Iterator[Problem]:
        if self.name in KUBERNETES_ROLES:
            yield Problem(path=("name",), value=self.name, message="is a role of Kubernetes' own; choose another one")


class Pod(Section):
    """The runtime's pods."""

    affinity: Anything | None = None
    """Affinity."""
    annotations: Annotations = {}
    """Annotations."""
    labels: Labels = {}
    """More labels."""
    node_selector: Labels | None = None
    """Labels of the nodes they run on. Default: node.type=k8s-services."""
    priority_class_name: DnsName = "system-cluster-critical"
    """Their PriorityClass. With the default one, users' pods make room for the runtime where nodes are full."""
    security_context: Anything | None = None
    """The pods' security context. Default: not root, the runtime's default seccomp profile."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = ()
    """More tolerations; they tolerate CriticalAddonsOnly, the taint of nodes for services."""
    volumes: Annotated[tuple[Anything, ...], Field(max_length=32)] = ()
    """More volumes."""

    def problems(self) -> Iterator[Problem]:
        yield from _keyed("volumes", self.volumes, key="name", needed=("name",))


class EnvironmentVariable(Section):
    """An environment variable, as in a pod's spec."""

    name: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[-._A-Za-z][-._A-Za-z0-9]*$")]
    """Its name."""
    value: str | None = None
    """Its value. Stack files are read by many: a secret belongs into a Secret, and valueFrom names it."""
    value_from: Anything | None = None
    """Where the value comes from."""


class Image(Section):
    """The runtime's image: given, or built from this checkout and kept in a repository of the stack's own."""

    repository: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[a-z0-9][a-z0-9._:/-]*$")] | None = None
    """The image's repository. Absent: the stack makes a repository and builds the image from this checkout."""
    tag: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")] | None = None
    """The image's tag. Default: the version of the stack."""
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    """The image's digest, which no push can change."""
    pull_policy: PullPolicy | None = None
    """When the image is pulled. Default: IfNotPresent with a digest, else Always."""

    def problems(self) -> Iterator[Problem]:
        for field in ("tag", "digest"):
            if self.repository is None and getattr(self, field) is not None:
                yield Problem(path=(field,), value=getattr(self, field), message="goes with repository")


class Container(Section):
    """The runtime's container."""

    env: Annotated[tuple[EnvironmentVariable, ...], Field(max_length=64)] = ()
    """More environment variables, such as SLUICE_LOG_LEVEL."""
    env_from: Annotated[tuple[Anything, ...], Field(max_length=16)] = ()
    """Where more environment variables come from."""
    image: Image = Image()
    """The image."""
    resources: Anything | None = None
    """Requests and limits. Default: 250m and 512Mi requested, 1536Mi of memory at most."""
    security_context: Anything | None = None
    """The container's security context. Default: nothing may be gained, the file system is read-only."""
    volume_mounts: Annotated[tuple[Anything, ...], Field(max_length=32)] = ()
    """More volume mounts."""

    def problems(self) -> Iterator[Problem]:
        yield from _keyed("volumeMounts", self.volume_mounts, key="mountPath", needed=("name", "mountPath"))


def _keyed(field: str, entries: tuple[Anything, ...], *, key: str, needed: tuple[str, ...]) -> Iterator[Problem]:
    """Demand what each entry must have, and that its key is its own."""
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        for one in needed:
            if not isinstance(entry.get(one), str) or not entry[one]:
                yield absent(field, index, one, message="must be given, as text")
        value = entry.get(key)
        if isinstance(value, str) and value in seen:
            yield Problem(path=(field, index, key), value=value, message="is given twice")
        if isinstance(value, str):
            seen.add(value)


class Ceilings(Section):
    """What all node pools together may have, besides each pool's own limits. Absent: no limit."""

    nodes: Count | None = None
    """The most instances at once."""
    cores: Count | None = None
    """The most virtual processors at once."""
    launches_per_minute: Annotated[Count, Field(ge=1)] | None = None
    """The most instances that are asked for within a minute."""


Subject = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^\s]([^\r\n\t]*[^\s])?$")]
"""A user or group, as the API server names it."""
EVERYBODY: Final = frozenset({"system:authenticated", "system:unauthenticated", "system:anonymous"})


class Deployers(Section):
    """Who may delete the ConfigMap sluice-leaving; all others must confirm it first, administrators too."""

    users: Annotated[tuple[Subject, ...], Field(max_length=64)] = ()
    """Users, as the API server names them (kubectl auth whoami). A role's session on EKS is
    arn:aws:sts::ACCOUNT:assumed-role/ROLE/SESSION, not the role's ARN."""
    groups: Annotated[tuple[Subject, ...], Field(max_length=64)] = (keys.DEPLOYERS_GROUP,)
    """Groups. Everybody of access.admins is in sluice:deployers; on a cluster without access entries of EKS nobody is,
    unless you see to it. []: no group."""

    def problems(self) -> Iterator[Problem]:
        for field, subjects in (("users", self.users), ("groups", self.groups)):
            yield from repeated(field, subjects)
            for index, subject in enumerate(subjects):
                if subject in EVERYBODY:
                    yield Problem(path=(field, index), value=subject, message="is everybody; name who runs Pulumi")


class Autoscaler(Section):
    """The runtime, and who scales the nodes."""

    node_scaler: NodeScaler = NodeScaler.NATIVE
    """native: the runtime scales the node pools. cluster-autoscaler: the upstream cluster-autoscaler does, and the
    runtime's capacity controller is off."""
    ceilings: Ceilings = Ceilings()
    """What all node pools together may have."""
    expanders: Annotated[tuple[Expander, ...], Field(min_length=1, max_length=len(Expander))] = EXPANDERS
    """How to choose among groups that fit: each keeps the best and leaves ties to the next. least-waste: what fills
    its instances best. price: what costs least for what is used, by stacks/prices/<region>.yaml. balanced: the zone
    with the fewest instances of the pool. With nodeScaler native only."""
    feature_gates: queued_jobs.FeatureGates = queued_jobs.FeatureGates()
    """What can be switched off while it is new."""
    pods_ready_timeout_minutes: queued_jobs.Minutes = queued_jobs.PODS_READY_TIMEOUT_MINUTES
    """A queued job whose pods were not all ready this long after its admission gives its quota back and waits for
    another turn. At least twice the longest registrationTimeoutSeconds of the cluster's pools, so that one instance may
    fail to start."""
    sleeper_image: sleepers.Image = sleepers.IMAGE
    """The image of sleepers, the pods that hold the room of machines. It runs without arguments until it is told to
    end, as a user who is not root."""
    namespace: DnsLabel = "sluice-system"
    """The runtime's namespace, which the stack makes."""
    deployers: Deployers = Deployers()
    """Who may delete the ConfigMap sluice-leaving, as `pulumi destroy` does: it drains all pools and ends the runtime.
    Others are refused, unless it carries the annotation sluice.dev/confirm-leaving=true."""
    replicas: Annotated[int, Field(ge=1, le=10)] = 2
    """How many replicas; one acts, the others are warm."""
    observe: bool = False
    """true: the runtime plans and tells, and changes nothing."""
    name_override: DnsLabel | None = None
    """The name in labels. Default: sluice."""
    fullname_override: Annotated[DnsLabel, Field(max_length=40)] | None = None
    """The name of the runtime's objects. Default: nameOverride, or sluice."""
    image_pull_secrets: Annotated[tuple[PullSecret, ...], Field(max_length=8)] = ()
    """Secrets with which the image is pulled."""
    crds: CustomResourceDefinitions = CustomResourceDefinitions()
    """Which definitions the stack installs."""
    class_name: DnsName | None = None
    """Only worker pools of this class are handled, and those without a class where defaultClass is true."""
    default_class: bool = True
    """Whether worker pools without a class are handled."""
    scope: WorkerScope = WorkerScope.NAMESPACE
    """Which worker pools are handled: those of the runtime's namespace, or of the whole cluster. The other
    controllers always see the whole cluster."""
    identity: DnsName | None = None
    """The name under which the runtime acts: in events and in managedBy. Default: the runtime's name."""
    secret_namespaces: Annotated[tuple[DnsLabel, ...], Field(max_length=64)] | None = None
    """Namespaces whose Secrets the runtime may read. Default: its own alone."""
    queue_access: Grants = {}
    """What worker pools may ask besides public hosts and Services of their own namespace, by the pools' namespace.
    Loopback and link-local addresses and the API server are never asked."""
    service_account: ServiceAccount = ServiceAccount()
    """The runtime's ServiceAccount."""
    rbac: Rbac = Rbac()
    """The runtime's roles and their bindings."""
    pod: Pod = Pod()
    """The runtime's pods."""
    container: Container = Container()
    """The runtime's container."""

    @property
    def name(self) -> str:
        """The name of the runtime's objects."""
        return self.fullname_override or self.name_override or "sluice"

    @property
    def service_account_name(self) -> str:
        return self.service_account.name or self.name

    @property
    def readable_namespaces(self) -> tuple[str, ...]:
        """The namespaces whose Secrets the runtime may read."""
        return (self.namespace,) if self.secret_namespaces is None else self.secret_namespaces

    def problems(self) -> Iterator[Problem]:
        for index, variable in enumerate(self.container.env):
            if variable.name.startswith("SLUICE_") and variable.name not in TUNING:
                path = ("container", "env", index, "name")
                yield Problem(path=path, value=variable.name, message="is set by Sluice itself")
        yield from self._choice()
        yield from repeated("secretNamespaces", self.secret_namespaces or ())
        names = tuple(secret.name for secret in self.image_pull_secrets)
        for index, name in enumerate(names):
            if name in names[:index]:
                yield Problem(path=("imagePullSecrets", index, "name"), value=name, message="is given twice")
        if self.class_name is None and not self.default_class:
            yield absent("className", message="must be given where defaultClass is false, or no pool would be handled")

    def _choice(self) -> Iterator[Problem]:
        yield from repeated("expanders", self.expanders)
        if self.expanders != EXPANDERS and self.node_scaler is not NodeScaler.NATIVE:
            chosen = [str(one) for one in self.expanders]
            yield Problem(path=("expanders",), value=chosen, message="goes with nodeScaler: native")
