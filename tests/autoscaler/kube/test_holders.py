"""Who holds a Lease: alive while it was renewed in time, by whatever clock asks."""

import msgspec
import pytest

from autoscaler import clock
from autoscaler.kube import holders

NOW = 1_767_225_600.0


def lease(*, holder: str | None = "a", ago: float | None = 0.0) -> holders.Lease:
    spec: dict[str, object] = {"holderIdentity": holder, "leaseDurationSeconds": 15}
    if ago is not None:
        spec["renewTime"] = f"{clock.to_rfc3339(NOW - ago)[:-1]}.000000Z"
    return holders.decode(msgspec.json.encode({"metadata": {"name": "sluice"}, "spec": spec}))


@pytest.mark.parametrize(
    ("seen", "want"),
    [
        (lease(), True),
        (lease(ago=14), True),
        (lease(ago=15), False),
        (lease(holder=None), False),
        (lease(holder=""), False),  # given back
        (lease(ago=None), False),
    ],
)
def test_a_holder_lives_until_its_lease_has_run_out(seen: holders.Lease, *, want: bool) -> None:
    assert holders.is_alive(seen, NOW) is want
