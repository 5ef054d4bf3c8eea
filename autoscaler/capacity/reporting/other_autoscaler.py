"""Whether somebody else scales this cluster's nodes: two scalers on one group undo each other's work.

The cluster-autoscaler is known by its Lease, whatever that and its namespace are called, while it is renewed, and by a
Deployment of its image or its label that is not scaled to zero. Karpenter makes and ends nodes of its own only: it is
another scaler of ours where one of its NodePools makes nodes that say they are of one of our pools.
"""

import re
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Final

import msgspec
import structlog

from autoscaler import control
from autoscaler.api import keys, names
from autoscaler.api.resources.pools import InstancePool
from autoscaler.capacity.model import Reason, Rejection
from autoscaler.control import metrics, polling
from autoscaler.kube import kinds, objects, port, store, wire
from autoscaler.kube.leases import lease
from autoscaler.kube.reading import listing

log = structlog.get_logger()
NAME: Final = "cluster-autoscaler"
LOOK_SECONDS: Final = 15.0
DEPLOYMENTS_SECONDS: Final = 60.0
"""Deployments are many, and none of them comes and goes unseen for so short a time."""
LEASE_SECONDS_MAX: Final = 300.0
"""A Lease is believed to last no longer than this: whoever holds one renews it far more often."""
NOT_OF_NODES: Final = {"fieldSelector": "metadata.namespace!=kube-node-lease"}
"""Every node renews a Lease there."""
NODE_POOLS: Final = kinds.ResourceType(
    group="karpenter.sh", version="v1", plural="nodepools", kind="NodePool", namespaced=False
)
PATIENCE_SECONDS: Final = 30.0
"""What cannot be looked at for so long is told."""
_IMAGE: Final = re.compile(rf"(?:^|/){NAME}(?:-(?:amd64|arm64|ppc64le|s390x))?(?:[:@]|$)")
_LABELS: Final = ("app.kubernetes.io/name", "app", "k8s-app")
_FORBIDDEN: Final = 403


class _Container(msgspec.Struct, frozen=True):
    image: str = ""


class _Requirement(msgspec.Struct, frozen=True):
    key: str
    operator: str = "In"
    values: tuple[str, ...] = ()


class _TemplateSpec(msgspec.Struct, frozen=True):
    containers: tuple[_Container, ...] = ()
    requirements: tuple[_Requirement, ...] = ()


class _Template(msgspec.Struct, frozen=True):
    metadata: wire.ObjectMeta = wire.ObjectMeta()
    spec: _TemplateSpec = _TemplateSpec()


class _Spec(msgspec.Struct, frozen=True):
    replicas: int = 1
    template: _Template = _Template()


class Templated(msgspec.Struct, frozen=True):
    """A Deployment, or a NodePool of Karpenter's: what it makes."""

    metadata: wire.ObjectMeta = wire.ObjectMeta()
    spec: _Spec = _Spec()


_TEMPLATED: Final = msgspec.json.Decoder(Templated)


class OtherAutoscaler:
    """Looks for another scaler, and wakes the controller when that changes."""

    def __init__(self, context: control.ControllerContext, pools: store.Table[objects.Custom[InstancePool]]) -> None:
        self._context = context
        self._pools = pools
        self._seen: dict[objects.Key, tuple[datetime | None, float]] = {}
        """When each Lease was last renewed by its holder's clock, and since when by ours it has said so."""
        self._deployment: str | None = None
        self._deployments_at = 0.0
        """When Deployments are looked at again."""
        self._is_known = False
        self._who: str | None = None
        """Who else scales nodes; None if nobody does."""
        self._failing_since: float | None = None
        self._problem: str | None = None
        """Why nobody could look for a while."""
        polling.Polling(context, "other autoscaler", self._look_once)
        context.measure(self._measure)

    @property
    def is_tried(self) -> bool:
        """Whether anything is known: who else scales nodes, or why nobody can tell."""
        return self._is_known or self._problem is not None

    def holds(self) -> Rejection | None:
        """Return why nothing may be started or ended: somebody else does that, or nobody ever could look for one."""
        if self._who is not None:
            return Rejection(reason=Reason.OTHER_AUTOSCALER, what=self._who)
        return self.unseen() if not self._is_known else None

    def unseen(self) -> Rejection | None:
        """Return why nobody can tell who else scales nodes now; None: we look."""
        if self._problem is None:
            return None
        return Rejection(reason=Reason.AUTOSCALERS_UNSEEN, message=self._problem)

    async def _look_once(self) -> float:
        now = self._context.clock.monotonic()
        try:
            who = await self._find(now)
        except port.KubeError as error:
            self._not_seen(str(error), now)
            raise
        self._failing_since = None
        if (True, None, who) != (self._is_known, self._problem, self._who):
            self._is_known, self._problem, self._who = True, None, who
            self._wake()
        return LOOK_SECONDS

    def _not_seen(self, problem: str, now: float) -> None:
        """Tell of what cannot be looked at for a while; until then what is known stands, if anything is."""
        self._failing_since = now if self._failing_since is None else self._failing_since
        if now >= self._failing_since + PATIENCE_SECONDS and problem != self._problem:
            log.warning("other_autoscalers_not_seen", kind=kinds.LEASES.kind, error=problem)
            self._problem = problem
            self._wake()

    def _wake(self) -> None:
        self._context.wake(kinds.LEASES.kind, objects.Key("", NAME))

    def _measure(self) -> list[metrics.Metric]:
        acts, since = self._context.held_back() is None, self._failing_since
        seconds = self._context.clock.monotonic() - since if since is not None else 0.0
        text = "For how long nobody could see whether another autoscaler scales this cluster's nodes."
        return [metrics.gauge("sluice_autoscalers_unseen_seconds", text, [({}, seconds)] if acts else [])]

    async def _find(self, now: float) -> str | None:
        """Return who else scales nodes."""
        holder = await self._lease_holder(now)
        if now >= self._deployments_at:
            self._deployment = next(_deployments(await self._read(kinds.DEPLOYMENTS)), None)
            self._deployments_at = now + DEPLOYMENTS_SECONDS
        ours = {pool.meta.key.name for pool in self._pools}
        node_pool = next(_node_pools(await self._read(NODE_POOLS), ours), None)
        return holder or self._deployment or node_pool

    async def _lease_holder(self, now: float) -> str | None:
        listed, _ = await listing.read_readable(self._context.api, kinds.LEASES, lease.decode, query=NOT_OF_NODES)
        found = {objects.Key(each.metadata.namespace, each.metadata.name): each for each in listed if is_lease(each)}
        self._seen = {key: seen for key, seen in self._seen.items() if key in found}
        alive = [each for key, each in sorted(found.items()) if self._is_renewed(key, each, now)]
        return f"{NAME} ({alive[0].spec.holder_identity})" if alive else None

    def _is_renewed(self, key: objects.Key, each: lease.Lease, now: float) -> bool:
        """Tell by our own clock alone: one that we see for the first time counts until it stood still."""
        if not each.spec.holder_identity or each.spec.renew_time is None:
            return False
        if key not in self._seen or self._seen[key][0] != each.spec.renew_time:
            self._seen[key] = (each.spec.renew_time, now)
        lasts = min(LEASE_SECONDS_MAX, max(LOOK_SECONDS, float(each.spec.lease_duration_seconds or 0)))
        return now - self._seen[key][1] <= 2 * lasts

    async def _read(self, resource: kinds.ResourceType) -> list[Templated]:
        """Return objects that make sense to us; none where they may not be read: a Lease still tells."""
        try:
            found, _ = await listing.read_readable(self._context.api, resource, _TEMPLATED.decode)
        except port.ApiError as error:
            if error.status != _FORBIDDEN:
                raise
            log.warning("other_autoscalers_not_seen", kind=resource.kind, error=str(error))
            return []
        return found


def is_lease(each: lease.Lease) -> bool:
    """Tell whether a Lease is a cluster-autoscaler's, by its name or by who holds it; ours are not."""
    name = each.metadata.name
    return not name.startswith(names.CLUSTER_LEASE) and (NAME in name or NAME in (each.spec.holder_identity or ""))


def _deployments(found: Collection[Templated]) -> Iterator[str]:
    for each in found:
        images = [container.image for container in each.spec.template.spec.containers]
        labels = {**each.spec.template.metadata.labels, **each.metadata.labels}
        is_named = any(labels.get(key, "").endswith(NAME) for key in _LABELS)
        if each.spec.replicas and (is_named or any(map(_IMAGE.search, images))):
            yield f"{NAME} (Deployment {each.metadata.namespace}/{each.metadata.name})"


def _node_pools(found: Collection[Templated], pools: set[str]) -> Iterator[str]:
    for each in found:
        required = [one for one in each.spec.template.spec.requirements if one.key == keys.INSTANCE_POOL]
        named = {each.spec.template.metadata.labels.get(keys.INSTANCE_POOL, "")}
        named |= {value for one in required for value in one.values if one.operator == "In"}
        if named & pools or any(one.operator == "Exists" for one in required):
            yield f"Karpenter (NodePool {each.metadata.name})"
