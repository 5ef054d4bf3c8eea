"""The runtime's objects in the cluster, from config to manifests. Pure: values in, plain data out.

Everything that the process needs from its surroundings is written down in the Deployment: its command, the directory
with its token, the namespace and its own name. So the very same command runs on any host, with the paths rewritten and
with KUBERNETES_SERVICE_HOST and _PORT set, as a kubelet does.

What the config gives is merged by its key (a variable's name, a volume's name, a mount's path), since server-side apply
takes no key twice. A volume or a mount of the config wins. A variable of ours wins: the roles and the other node scaler
were made for what it says.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pulumi

from autoscaler.api import controllers as registry
from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.settings.queue_access import QueueAccess
from autoscaler.api.settings.queued_jobs import QueuedJobs
from autoscaler.api.settings.scaling import PriceList, Scaling
from components import specs
from components.config.autoscaler import Autoscaler, Image, NodeScaler, PullPolicy
from components.config.clusters import Cluster
from components.config.node_pools import SERVICES
from components.place import Place

PORT: Final = 8080
TOKEN_DIRECTORY: Final = "/var/run/secrets/sluice.dev/serviceaccount"  # noqa: S105  # where, not what
SCRATCH: Final = "/tmp"  # noqa: S108  # the container's own
COMMAND: Final = ("python", "-m", "autoscaler", "run")
USER: Final = 65532
GRACE_SECONDS: Final = 60
"""The runtime ends within 10 s for its cycles, 5 for events, 5 for the writes of each Lease and 10 for the Leases."""
RESTRICTED_POD: Final = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
RESTRICTED_CONTAINER: Final = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
_RESOURCES: Final = {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "1536Mi"}}
"""More than twice what the runtime was measured to take with 10,000 nodes and 100,000 pods (docs/performance.md)."""
METRICS: Final = "/metrics"
_SCRAPE: Final = {
    "prometheus.io/scrape": "true",
    "prometheus.io/port": str(PORT),
    "prometheus.io/path": METRICS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the runtime's Deployment is made from."""

    config: Cluster
    place: Place
    image: pulumi.Input[str]
    interruption_queue: pulumi.Input[str] | None = None
    """The URL of the stack's queue."""
    api_servers: pulumi.Input[str] | None = None
    """URLs of the cluster's own endpoint, which pods know by another name, with commas; None where the stack knows
    none."""
    prices: PriceList = field(default_factory=PriceList)
    """What instances of the cluster's pools cost."""

    @property
    def autoscaler(self) -> Autoscaler:
        return self.config.autoscaler


def controllers(autoscaler: Autoscaler) -> tuple[str, ...]:
    """Name the controllers that run: not capacity where the upstream cluster-autoscaler scales the nodes."""
    native = autoscaler.node_scaler is NodeScaler.NATIVE
    return tuple(name for name in registry.CONTROLLERS if native or name != registry.CAPACITY)


def worker_classes(autoscaler: Autoscaler) -> tuple[str | None, ...]:
    """Name the classes of the worker pools that are handled; None is the default class."""
    default: tuple[str | None, ...] = (None,) if autoscaler.default_class else ()
    return default if autoscaler.class_name is None else (*default, autoscaler.class_name)


def labels(autoscaler: Autoscaler) -> dict[str, str]:
    """Return the labels of all objects of the runtime."""
    return {**selector(autoscaler), "app.kubernetes.io/component": "autoscaler", **specs.STAMP}


def selector(autoscaler: Autoscaler) -> dict[str, str]:
    """Return the labels that its pods are found by, which cannot change."""
    name = autoscaler.name_override or "sluice"
    return {"app.kubernetes.io/name": name, "app.kubernetes.io/instance": autoscaler.name}


def metadata(autoscaler: Autoscaler) -> Manifest:
    """Return the metadata of an object of the runtime in its own namespace."""
    return {"name": autoscaler.name, "namespace": autoscaler.namespace, "labels": labels(autoscaler)}


def service_account(autoscaler: Autoscaler) -> Manifest:
    """Return the ServiceAccount's metadata."""
    account = autoscaler.service_account
    return {
        "name": autoscaler.service_account_name,
        "namespace": autoscaler.namespace,
        "labels": {**account.labels, **labels(autoscaler)},
        "annotations": account.annotations,
    }


def spec(around: Surroundings) -> Manifest:
    """Write the Deployment's spec."""
    autoscaler = around.autoscaler
    pod = autoscaler.pod
    return {
        "replicas": autoscaler.replicas,
        "revisionHistoryLimit": 3,
        "selector": {"matchLabels": selector(autoscaler)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "template": {
            "metadata": {
                "labels": {**pod.labels, **labels(autoscaler)},
                "annotations": {**_SCRAPE, **pod.annotations},
            },
            "spec": _pod(around),
        },
    }


def disruption_budget(autoscaler: Autoscaler) -> Manifest | None:
    """Write the budget's spec; None for a single replica, whose node could then never be drained."""
    if autoscaler.replicas < 2:
        return None
    return {
        "maxUnavailable": 1,
        "selector": {"matchLabels": selector(autoscaler)},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }


def network_policy(autoscaler: Autoscaler) -> Manifest:
    """Let nothing in but health checks and scrapes.

    What goes out stays open: besides DNS, the API server and AWS, the runtime asks the queues of worker pools, and
    those are wherever their users say.
    """
    return {
        "podSelector": {"matchLabels": selector(autoscaler)},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"port": PORT, "protocol": "TCP"}]}],
    }


def service(autoscaler: Autoscaler) -> Manifest:
    """Write the spec of the Service for metrics and pages."""
    return {
        "selector": selector(autoscaler),
        "ports": [{"name": "http", "port": PORT, "targetPort": "http", "protocol": "TCP"}],
    }


def service_monitor(autoscaler: Autoscaler) -> Manifest:
    """Write the spec by which the Prometheus operator has the runtime's metrics read."""
    return {
        "selector": {"matchLabels": selector(autoscaler)},
        "endpoints": [{"port": "http", "path": METRICS, "interval": "30s"}],
    }


def environment(around: Surroundings) -> list[Manifest]:
    """Return the container's variables: those of the config, but for the names that are ours."""
    autoscaler = around.autoscaler
    ours: list[Manifest] = [
        {"name": "SLUICE_NAMESPACE", **_field("metadata.namespace")},
        {"name": "SLUICE_POD_NAME", **_field("metadata.name")},
        {"name": "SLUICE_TOKEN_DIRECTORY", "value": TOKEN_DIRECTORY},
        {"name": "SLUICE_IDENTITY", "value": autoscaler.identity or autoscaler.name},
        {"name": "SLUICE_CONTROLLERS", "value": ",".join(controllers(autoscaler))},
        {"name": "SLUICE_OBSERVE", "value": _word(autoscaler.observe)},
        {"name": "SLUICE_DEFAULT_CLASS", "value": _word(autoscaler.default_class)},
        {"name": "SLUICE_SCOPE", "value": str(autoscaler.scope)},
        {"name": "SLUICE_SCALING", "value": scaling(autoscaler, around.prices).to_json()},
        {"name": "SLUICE_QUEUED_JOBS", "value": queued_jobs(autoscaler).to_json()},
        {"name": "SLUICE_SLEEPER_IMAGE", "value": autoscaler.sleeper_image},
        {"name": "SLUICE_CLUSTER", "value": around.place.cluster},
        {"name": "AWS_REGION", "value": around.place.region},
    ]
    if autoscaler.class_name is not None:
        ours.append({"name": "SLUICE_CLASS_NAME", "value": autoscaler.class_name})
    if around.interruption_queue is not None:
        ours.append({"name": "SLUICE_INTERRUPTION_QUEUE", "value": around.interruption_queue})
    if around.api_servers is not None:
        ours.append({"name": "SLUICE_API_SERVERS", "value": around.api_servers})
    if autoscaler.queue_access:
        ours.append({"name": "SLUICE_QUEUE_ACCESS", "value": QueueAccess(autoscaler.queue_access).to_json()})
    given = [specs.declared(one) for one in autoscaler.container.env]
    return _merged("name", given, ours)


def scaling(autoscaler: Autoscaler, prices: PriceList) -> Scaling:
    """Say how the runtime scales nodes."""
    ceilings = autoscaler.ceilings
    return Scaling(
        nodes=ceilings.nodes,
        cores=ceilings.cores,
        launches_per_minute=ceilings.launches_per_minute,
        expanders=autoscaler.expanders,
        prices=prices,
    )


def queued_jobs(autoscaler: Autoscaler) -> QueuedJobs:
    """Say how the runtime handles queued jobs."""
    return QueuedJobs(
        feature_gates=autoscaler.feature_gates, pods_ready_timeout_minutes=autoscaler.pods_ready_timeout_minutes
    )


def _pod(around: Surroundings) -> Manifest:
    autoscaler = around.autoscaler
    pod = autoscaler.pod
    return {
        "serviceAccountName": autoscaler.service_account_name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "nodeSelector": {keys.NODE_TYPE: SERVICES} if pod.node_selector is None else pod.node_selector,
        "securityContext": {**RESTRICTED_POD, "runAsUser": USER, "runAsGroup": USER}
        if pod.security_context is None
        else pod.security_context,
        "topologySpreadConstraints": [_spread(autoscaler, key) for key in (keys.ZONE, keys.HOSTNAME)],
        "priorityClassName": pod.priority_class_name,
        "tolerations": [specs.TOLERATES_SERVICES, *(specs.declared(one) for one in pod.tolerations)],
        **({} if pod.affinity is None else {"affinity": pod.affinity}),
        **_pull_secrets(autoscaler),
        "containers": [_container(around)],
        "volumes": _merged("name", [_token_volume(), {"name": "sluice-tmp", "emptyDir": {}}], pod.volumes),
    }


def _container(around: Surroundings) -> Manifest:
    container = around.autoscaler.container
    mounts: list[Manifest] = [
        {"name": "sluice-token", "mountPath": TOKEN_DIRECTORY, "readOnly": True},
        {"name": "sluice-tmp", "mountPath": SCRATCH},
    ]
    return {
        "name": "sluice",
        "image": around.image,
        "imagePullPolicy": str(container.image.pull_policy or _pull_policy(container.image)),
        "command": list(COMMAND),
        "env": environment(around),
        **({"envFrom": list(container.env_from)} if container.env_from else {}),
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "resources": _RESOURCES if container.resources is None else container.resources,
        "securityContext": RESTRICTED_CONTAINER if container.security_context is None else container.security_context,
        "startupProbe": {**_probe("/healthz"), "periodSeconds": 2, "failureThreshold": 60},
        "livenessProbe": {**_probe("/healthz"), "periodSeconds": 10, "failureThreshold": 6},
        "readinessProbe": {**_probe("/readyz"), "periodSeconds": 5, "failureThreshold": 3},
        "volumeMounts": _merged("mountPath", mounts, container.volume_mounts),
    }


def _probe(path: str) -> Manifest:
    return {"httpGet": {"path": path, "port": "http"}, "timeoutSeconds": 5}


def _spread(autoscaler: Autoscaler, key: str) -> Manifest:
    """Spread the replicas, but never keep one from starting: on one node there is nowhere else to go."""
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": selector(autoscaler)},
        "matchLabelKeys": ["pod-template-hash"],
    }


def _token_volume() -> Manifest:
    sources: list[Manifest] = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    return {"name": "sluice-token", "projected": {"sources": sources}}


def _pull_secrets(autoscaler: Autoscaler) -> Manifest:
    named = [{"name": secret.name} for secret in autoscaler.image_pull_secrets]
    return {"imagePullSecrets": named} if named else {}


def _pull_policy(image: Image) -> PullPolicy:
    """Ask each time for a tag that a push can change; what has a digest, or is built here, never changes."""
    return PullPolicy.ALWAYS if image.repository and not image.digest else PullPolicy.IF_NOT_PRESENT


def _field(path: str) -> Manifest:
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}


def _word(truth: bool) -> str:  # noqa: FBT001  # the truth is what it is about
    return "true" if truth else "false"


def _merged(key: str, weaker: Iterable[Mapping[str, Any]], stronger: Iterable[Mapping[str, Any]]) -> list[Manifest]:
    """Put the stronger entries after the weaker ones, and in the place of those with the same key."""
    return list({one[key]: dict(one) for one in (*weaker, *stronger)}.values())
