"""Who holds a Lease: alive while it was renewed in time, by whatever clock asks."""

import msgspec
import pytest

from autoscaler import clock
from autoscaler.kube.leases import lease

NOW = 1_767_225_600.0


def seen_lease(*, holder: str | None = "a", ago: float | None = 0.0) -> lease.Lease:
    spec: dict[str, object] = {"holderIdentity": holder, "leaseDurationSeconds": 15}
    if ago is not None:
        spec["renewTime"] = f"{clock.to_rfc3339(NOW - ago)[:-1]}.000000Z"
    return lease.decode(msgspec.json.encode({"metadata": {"name": "sluice"}, "spec": spec}))


@pytest.mark.parametrize(
    ("seen", "want"),
    [
        (seen_lease(), True),
        (seen_lease(ago=14), True),
        (seen_lease(ago=15), False),
        (seen_lease(holder=None), False),
        (seen_lease(holder=""), False),  # given back
        (seen_lease(ago=None), False),
    ],
)
def test_a_holder_lives_until_its_lease_has_run_out(seen: lease.Lease, *, want: bool) -> None:
    assert lease.is_alive(seen, NOW) is want
