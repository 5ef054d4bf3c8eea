"""What stays until the month is over: by where pods are, not by what is written of them yet."""

from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.capacity import work
from autoscaler.capacity.records.accounting import ScopePool
from autoscaler.capacity.scaleup.limits import lasting
from autoscaler.capacity.snapshot import Snapshot
from tests.autoscaler.capacity import books, seen


@pytest.mark.parametrize(
    ("owner", "policy", "want"),
    [
        ("ReplicaSet", "Always", True),
        ("ReplicationController", "Always", True),
        ("StatefulSet", "Always", True),
        ("Deployment", "Always", True),
        ("Job", "Always", False),
        ("WorkerPool", "Never", False),
        ("DaemonSet", "Always", False),
        ("", "Always", True),
        ("", "Never", False),
        ("", "OnFailure", False),
    ],
)
def test_who_does_not_end(owner: str, policy: str, want: bool) -> None:  # noqa: FBT001
    assert work.is_endless(seen.pod(owner=owner, restartPolicy=policy)) is want


def world(*pods: Any, minimum: int = 0) -> Snapshot:
    """Three instances, of which only the first one's pods are recorded."""
    nodes = [seen.node(f"n-{number}", instance=f"i-{number}") for number in (1, 2, 3)]
    instances = [
        books.instance(
            number,
            phase="Ready",
            providerID=f"aws:///a/i-{number}",
            running=[{"podUID": "one", "startedAt": books.date(seen.NOW)}] if number == 1 else [],
        ).resource
        for number in (1, 2, 3)
    ]
    group = seen.group("i-1", "i-2", "i-3", pool=books.POOL, minimum=minimum)
    scopes = {"default": {keys.SCOPE: "team"}}
    return seen.snapshot(pods=pods, nodes=nodes, groups=(group,), instances=instances, namespaces=scopes)


def names(found: lasting.Lasting) -> list[int]:
    return sorted(int(name.rpartition("-")[2]) for name in found.instances)


def test_instances_stay_with_pods_that_do_not_end() -> None:
    pods = [seen.pod("one", node="n-1"), seen.pod("two", node="n-2"), seen.pod("ends", node="n-3", owner="Job")]
    found = lasting.lasting(world(*pods), {books.POOL})
    assert (set(found.pods), names(found)) == ({"one", "two"}, [1, 2])
    assert +found.unrecorded == {ScopePool("team", books.POOL): 1}
    assert not lasting.lasting(world(*pods), {"other"}).instances


def test_a_minimum_keeps_as_many_those_first_that_stay_anyway() -> None:
    assert names(lasting.lasting(world(minimum=2), {books.POOL})) == [1, 2]
    assert names(lasting.lasting(world(seen.pod("two", node="n-2"), minimum=1), {books.POOL})) == [2]
    assert names(lasting.lasting(world(seen.pod("two", node="n-2"), minimum=2), {books.POOL})) == [1, 2]
