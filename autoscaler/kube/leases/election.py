"""Who of several replicas acts: a Lease, held fail-stop.

Leadership is a deadline on the monotonic clock, not a flag. It is counted from the moment a renewal was *sent*, and
ends a margin before anybody else may take the Lease. Whoever asks after a freeze, however long, learns that time is up.
An unanswered renewal does not move the deadline.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from autoscaler import clock
from autoscaler.kube import kinds, port
from autoscaler.kube.leases import lease

log = structlog.get_logger()
_RETRY_SECONDS: Final = 1.0
_SHORTEST_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How long a Lease is good for."""

    lease_seconds: int = 15
    """Another replica may take the Lease when it has not changed for so long."""
    margin_seconds: float = 5.0
    """We stop this long before that, calls under way included."""
    renew_seconds: float = 4.0

    @classmethod
    def of(cls, lease_seconds: int) -> "Terms":
        """Divide a Lease's time in the usual proportions."""
        return cls(lease_seconds=lease_seconds, margin_seconds=lease_seconds / 3, renew_seconds=lease_seconds / 4)

    @property
    def hold_seconds(self) -> float:
        """Return how long one renewal lets us act."""
        return self.lease_seconds - self.margin_seconds


class Elector:
    """Tries to hold one Lease, for as long as it runs."""

    def __init__(
        self,
        api: port.Api,
        time: clock.Clock,
        *,
        namespace: str,
        name: str,
        identity: str,
        terms: Terms = Terms(),  # noqa: B008  # frozen
    ) -> None:
        self.identity = identity
        self.name = name
        self._api = api
        self._time = time
        self._namespace = namespace
        self._terms = terms
        self._path = kinds.LEASES.path(name, namespace)
        self._seen: lease.Lease | None = None
        self._seen_at = 0.0
        self._deadline = float("-inf")
        self._create_after = float("-inf")
        self._leads = False
        self.vacant_since: float | None = None
        """When whoever led before us last renewed the Lease, by their clock; None: nobody did."""

    @property
    def holder(self) -> str | None:
        """Return who held the Lease when it was last seen."""
        return self._seen.spec.holder_identity or None if self._seen else None

    def remaining(self) -> float:
        """Return for how many seconds we may still act; 0 if we may not. Safe to ask from any thread."""
        return max(0.0, self._deadline - self._time.monotonic())

    async def run(self) -> None:
        """Acquire, renew and, when lost, acquire again, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(max(_SHORTEST_SECONDS, self._step_limit())):
                    await self._step()
            except (port.KubeError, TimeoutError, msgspec.MsgspecError) as error:
                log.warning("lease_call_failed", lease=self.name, remaining_seconds=self.remaining(), error=str(error))
            self._notice()
            await asyncio.sleep(self._pause())
            self._notice()

    async def release(self) -> None:
        """Give the Lease back, once all work has ended, so that another replica need not wait."""
        if self._seen is None or self.remaining() <= 0:
            return
        self._deadline = float("-inf")
        self._notice()
        try:
            await self._patch({"holderIdentity": "", "leaseDurationSeconds": 1})
        except (port.KubeError, msgspec.MsgspecError) as error:
            log.warning("lease_release_failed", lease=self.name, error=str(error))

    async def _step(self) -> None:
        """Do what is next: renew, take over, or just look."""
        if self.remaining() > 0:
            await self._renew()
            return
        seen = await self._look()
        if seen is None:
            if self._time.monotonic() >= self._create_after:
                await self._create()
        elif self._is_free(seen):
            await self._take(seen)

    async def _renew(self) -> None:
        try:
            await self._hold({})
        except port.NotFoundError:
            self._deadline = float("-inf")
            self._seen = None
        except port.ConflictError:
            seen = await self._look()
            if seen is None or seen.spec.holder_identity != self.identity:
                log.warning("lease_lost", lease=self.name, holder=self.holder)
                self._deadline = float("-inf")

    async def _take(self, seen: lease.Lease) -> None:
        self.vacant_since = seen.spec.renew_time.timestamp() if seen.spec.renew_time else None
        changes = {"acquireTime": self._now(), "leaseTransitions": (seen.spec.lease_transitions or 0) + 1}
        try:
            await self._hold(changes)
        except port.ConflictError:
            await self._look()

    async def _create(self) -> None:
        sent_at = self._time.monotonic()
        manifest = {
            "apiVersion": kinds.LEASES.api_version,
            "kind": kinds.LEASES.kind,
            "metadata": {"name": self.name, "namespace": self._namespace},
            "spec": {**self._claim(), "acquireTime": self._now(), "leaseTransitions": 0},
        }
        request = port.Request(
            method="POST",
            path=kinds.LEASES.collection(self._namespace),
            body=msgspec.json.encode(manifest),
            timeout_seconds=self._terms.renew_seconds,
        )
        try:
            self._see(lease.decode(port.required(await self._api.send(request))))
        except port.AlreadyExistsError:
            return
        self._deadline = sent_at + self._terms.hold_seconds

    async def _hold(self, changes: dict[str, object]) -> None:
        """Write our name and the present time; only an answer moves the deadline."""
        sent_at = self._time.monotonic()
        await self._patch({**self._claim(), **changes})
        self._deadline = sent_at + self._terms.hold_seconds

    async def _patch(self, spec: dict[str, object]) -> None:
        seen = self._seen
        if seen is None:
            raise AssertionError("a Lease is patched only after it was seen")
        metadata = {"uid": seen.metadata.uid, "resourceVersion": seen.metadata.resource_version}
        request = port.Request(
            method="PATCH",
            path=self._path,
            body=msgspec.json.encode({"metadata": metadata, "spec": {**spec, "renewTime": self._now()}}),
            content_type=port.MERGE_PATCH,
            timeout_seconds=self._terms.renew_seconds,
        )
        self._see(lease.decode(port.required(await self._api.send(request))))

    async def _look(self) -> lease.Lease | None:
        try:
            self._see(lease.decode(await port.get(self._api, self._path, timeout_seconds=self._terms.renew_seconds)))
        except port.NotFoundError:
            self._gone()
        return self._seen

    def _gone(self) -> None:
        """Note that somebody deleted the Lease; who held it may act until its time is up, so we wait for that."""
        seen, self._seen = self._seen, None
        if seen is not None and seen.spec.holder_identity not in (None, "", self.identity):
            self._create_after = self._time.monotonic() + self._duration(seen)

    def _see(self, seen: lease.Lease) -> None:
        """Remember since when the Lease has been as it is: only our own clock tells whether it is stale."""
        if self._seen is None or self._seen.metadata.resource_version != seen.metadata.resource_version:
            self._seen_at = self._time.monotonic()
        self._seen = seen

    def _is_free(self, seen: lease.Lease) -> bool:
        if seen.spec.holder_identity in (None, "", self.identity):
            return True  # ours: an earlier claim whose answer was lost
        return self._time.monotonic() - self._seen_at > self._duration(seen)

    def _duration(self, seen: lease.Lease) -> float:
        return max(seen.spec.lease_duration_seconds or 0, self._terms.lease_seconds)

    def _claim(self) -> dict[str, object]:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._terms.lease_seconds,
            "renewTime": self._now(),
        }

    def _now(self) -> str:
        return clock.to_rfc3339_micro(self._time.now())

    def _step_limit(self) -> float:
        return self.remaining() or 2 * self._terms.renew_seconds

    def _pause(self) -> float:
        """Wait until the next renewal is due, or, after a failed one, a moment; but not beyond the deadline."""
        remaining = self.remaining()
        if remaining <= 0:
            return _RETRY_SECONDS
        due = self._terms.renew_seconds - (self._terms.hold_seconds - remaining)
        return max(_SHORTEST_SECONDS, min(due if due > 0 else _RETRY_SECONDS, remaining))

    def _notice(self) -> None:
        leads = self.remaining() > 0
        if leads != self._leads:
            self._leads = leads
            log.info("leading" if leads else "not_leading", lease=self.name, identity=self.identity, holder=self.holder)
