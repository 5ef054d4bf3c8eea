"""`python -m autoscaler usage`: read the live cluster once, and say what was used in a month. It only reads."""

import asyncio
import contextlib

from autoscaler import clock
from autoscaler.api import resources
from autoscaler.capacity.records import accounting
from autoscaler.capacity.reporting import usage
from autoscaler.kube import kinds, objects, port
from autoscaler.kube.connection import client, credentials
from autoscaler.kube.reading import listing


def read(origin: credentials.Origin, month: str | None) -> usage.Usage:
    """Return what was used in a month, by default the present one; raise UsageError if that cannot be told."""
    try:
        return asyncio.run(_connect(origin, month))
    except (port.KubeError, credentials.CredentialsError) as error:
        raise usage.UsageError(f"cannot tell what was used: {error}") from error


async def _connect(origin: credentials.Origin, month: str | None) -> usage.Usage:
    async with contextlib.aclosing(await client.Client.connect(origin)) as api:
        return await of_cluster(api, month, now=clock.SystemClock().now())


async def of_cluster(api: port.Api, month: str | None, *, now: float) -> usage.Usage:
    """Read Instances and pools, and sum a month up."""
    instances, pools = await asyncio.gather(
        listing.read(api, kinds.custom(resources.Instance), objects.custom(resources.Instance)),
        listing.read(api, kinds.custom(resources.InstancePool), objects.custom(resources.InstancePool)),
    )
    return usage.usage(
        (each.resource for each in instances),
        (each.resource for each in pools),
        month or accounting.month_of(now),
        now,
    )
