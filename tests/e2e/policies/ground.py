"""Scopes, pools, nodes and pods on a plane where all our policies are in force, and who writes them."""

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from autoscaler.api import keys, policies, version
from autoscaler.api.policies import identities, leaving
from tests import builders
from tests.e2e import groups, waiting
from tools.local.api import Api, Response
from tools.local.kubeconfig import Access, BearerToken
from tools.local.plane import Plane

Object = dict[str, Any]
RUNTIME_NAMESPACE, RUNTIME_ACCOUNT = "sluice-system", "runtime"
RUNTIME = identities.account_user(RUNTIME_NAMESPACE, RUNTIME_ACCOUNT)
DEPLOYER_NAMESPACE = "deployers"
DEPLOYER = identities.account_user("default", "pipeline")
RUNTIME_IDENTITY = policies.Runtime(
    namespace=RUNTIME_NAMESPACE,
    service_account=RUNTIME_ACCOUNT,
    deployers=leaving.Deployers(users=(DEPLOYER,), groups=(f"system:serviceaccounts:{DEPLOYER_NAMESPACE}",)),
)
CUSTOM = f"/apis/{version.GROUP_VERSION}"
MEBI = 1 << 20
LEGACY = "legacy"
"""An exclusive pool without an owner that was there before the policies."""


@dataclasses.dataclass(kw_only=True)
class Ground:
    """What one test or module has made."""

    plane: Plane
    id: str = dataclasses.field(default_factory=lambda: secrets.token_hex(3))
    _made: list[str] = dataclasses.field(default_factory=list)

    @property
    def api(self) -> Api:
        """An administrator, who may do everything but is not the runtime."""
        return self.plane.api

    def as_account(self, namespace: str, name: str) -> Api:
        """Return the connection of a ServiceAccount."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        token = self.api.create(path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
        known = self.api.access
        bearer = BearerToken(token=token["status"]["token"])
        return Api(Access(server=known.server, authority_pem=known.authority_pem, credential=bearer))

    def make(self, path: str, body: Object) -> Object:
        """Create an object that goes with the test."""
        made: Object = self.api.create(path, body)
        self._made.append(f"{path}/{body['metadata']['name']}")
        return made

    def close(self) -> None:
        """Delete pods before nodes, so that nothing waits for a kubelet that is gone."""
        for path in reversed(self._made):
            if "/pods/" in path:
                self.api.request("DELETE", path, {"gracePeriodSeconds": 0})
            else:
                self.api.delete(path)

    def add_namespace(self, name: str, scope: str | None = None) -> str:
        labels = {} if scope is None else {keys.SCOPE: scope}
        self.make("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        waiting.eventually(lambda: self.api.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
        return name

    def add_pool(self, name: str, *, owner: str | None = None) -> str:
        """Make a pool: instance-wide, or of one scope alone."""
        self.make(f"{CUSTOM}/instancepools", pool(name, owner))
        return name

    def add_scope(self, name: str, **priorities: int) -> str:
        self.make(f"{CUSTOM}/scopes", scope(name, priorities))
        return name

    def add_node(
        self,
        name: str,
        *,
        pool: str | None = None,
        taints: Sequence[Object] = (),
        images: Mapping[str, int] | None = None,
    ) -> str:
        """Make a node of 4 CPUs as the stack's nodes register, static or of a pool, with more taints if given."""
        own = [{"key": keys.INSTANCE_POOL, "value": pool, "effect": "PreferNoSchedule"}] if pool else []
        resources = {"cpu": "4", "memory": "16Gi", "pods": "110"}
        zone = {keys.ZONE: "eu-west-1a", keys.HOSTNAME: name}
        self.make(
            "/api/v1/nodes",
            {
                "metadata": {
                    "name": name,
                    "labels": {**zone, **({keys.INSTANCE_POOL: pool} if pool else {})},
                    "annotations": {"kwok.x-k8s.io/node": "fake"},
                },
                "spec": {"taints": [*own, *taints]},
                "status": {
                    "capacity": resources,
                    "allocatable": resources,
                    "images": [{"names": [key], "sizeBytes": size} for key, size in (images or {}).items()],
                },
            },
        )
        return name

    def add_nodes(self, prefix: str, count: int, **node: Any) -> set[str]:
        """Make nodes that are alike, and wait until pods may go there."""
        names = {self.add_node(f"{prefix}-{number}-{self.id}", **node) for number in range(count)}
        for name in sorted(names):
            waiting.eventually(lambda name=name: groups.is_schedulable(self.api.get(f"/api/v1/nodes/{name}")))  # type: ignore[misc]
        return names

    def add_exclusive_nodes(self, prefix: str, count: int, pool: str) -> set[str]:
        """Make nodes of a pool of one scope alone."""
        return self.add_nodes(prefix, count, pool=pool, taints=[taint(keys.INSTANCE_POOL, pool)])

    def add_pod(self, namespace: str, name: str, **spec: Any) -> Object:
        return self.make(f"/api/v1/namespaces/{namespace}/pods", pod(name, **spec))

    def would_be(self, namespace: str, name: str = "probe", **spec: Any) -> Object:
        """Return the pod's spec as it would be stored."""
        stored: Object = self.try_pod(namespace, pod(name, **spec)).required()["spec"]
        return stored

    def try_pod(self, namespace: str, body: Object, api: Api | None = None) -> Response:
        return (api or self.api).request("POST", f"/api/v1/namespaces/{namespace}/pods", body, query={"dryRun": "All"})

    def nodes_of(self, namespace: str, count: int) -> list[str]:
        """Wait until so many pods of a namespace are bound; return where, in the order of their names."""

        def bound() -> list[str]:
            pods = self.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
            nodes = [
                each["spec"].get("nodeName") for each in sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))
            ]
            assert len(nodes) == count, nodes
            assert all(nodes), nodes
            return nodes

        return waiting.eventually(bound)

    def is_refused_by_all_nodes(self, namespace: str, name: str) -> bool:
        """Tell whether the scheduler has looked at a pod and found no node."""
        status = self.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["status"]
        return any(each.get("reason") == "Unschedulable" for each in status.get("conditions", ()))

    def await_toleration(self, namespace: str, pool: str) -> None:
        """Wait until a new pool of one scope is known to the policies."""
        waiting.eventually(lambda: toleration(pool) in self.would_be(namespace)["tolerations"])

    def await_terms(self, namespace: str, count: int) -> None:
        """Wait until a new scope is known to the policies, and gives so many preferences."""
        waiting.eventually(lambda: len(terms(self.would_be(namespace))) == count)


def pool(name: str, owner: str | None = None) -> Object:
    made = builders.resource("InstancePool", name=name, instanceWide=owner is None)
    return made if owner is None else {**made, "metadata": {"name": name, "labels": {keys.SCOPE: owner}}}


def unowned_pool(name: str) -> Object:
    """Write an exclusive pool that does not say whose it is."""
    return builders.resource("InstancePool", name=name, instanceWide=False)


def scope(name: str, priorities: Mapping[str, int]) -> Object:
    listed = [{"name": each, "priority": priority} for each, priority in priorities.items()]
    return builders.resource("Scope", name=name, pools=listed)


def pod(name: str, *, cpu: str = "100m", image: str = "app:1", labels: Object | None = None, **spec: Any) -> Object:
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}}}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"containers": [container], **spec}}


def terms(spec: Object) -> list[Object]:
    """Return what a pod prefers of nodes."""
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    preferred: list[Object] = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", [])
    return preferred


def taint(key: str, value: str) -> Object:
    """Write a taint that keeps pods away."""
    return {"key": key, "value": value, "effect": "NoSchedule"}


def toleration(pool: str | None, effect: str | None = "NoSchedule", key: str = keys.INSTANCE_POOL) -> Object:
    """Write a toleration of one value, or of all."""
    named = {"operator": "Exists"} if pool is None else {"operator": "Equal", "value": pool}
    return {"key": key, **named, **({"effect": effect} if effect else {})}
