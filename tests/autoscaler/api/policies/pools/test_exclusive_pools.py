"""A pool that is not instance-wide is listed by the one scope that its label names."""

import pytest

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base
from autoscaler.api.policies.pools import exclusive_pools
from tests import builders

DELETED = "2026-11-16T06:00:00Z"


def pool(owner: str | None, *, is_wide: bool = False) -> Manifest:
    made = builders.resource("InstancePool", name="gpu", instanceWide=is_wide)
    return {**made, "metadata": {"name": "gpu", "labels": {keys.SCOPE: owner} if owner else {}}}


def scope(name: str, *pools: str) -> Manifest:
    return builders.resource("Scope", name=name, pools=[{"name": each} for each in pools])


def request(body: Manifest, *, old: Manifest | None = None, param: Manifest | None = None) -> base.Request:
    operation = base.Operation.CREATE if old is None else base.Operation.UPDATE
    return base.Request(operation=operation, object=body, old_object=old, param=param)


@pytest.mark.parametrize(
    ("body", "old", "refused"),
    [
        (pool(None), None, True),
        (pool("team"), None, False),
        (pool(None, is_wide=True), None, False),
        (pool(None), pool("team"), True),
        (pool(None), pool(None, is_wide=True), True),
        (pool(None), pool(None), False),
    ],
)
def test_an_exclusive_pool_says_whose_it_is(body: Manifest, old: Manifest | None, *, refused: bool) -> None:
    want = exclusive_pools.UNOWNED_MESSAGE if refused else None
    assert exclusive_pools.UNOWNED.twin(request(body, old=old)) == want


@pytest.mark.parametrize(
    ("body", "old", "listing", "refused"),
    [
        (pool("team"), None, scope("team", "gpu"), False),
        (pool("team"), None, scope("other", "gpu"), True),
        (pool("team"), None, scope("other", "cpu"), False),
        (pool("team"), pool(None, is_wide=True), scope("other", "gpu"), True),
        (pool("team"), pool("other"), scope("other", "gpu"), False),
        (pool(None, is_wide=True), None, scope("other", "gpu"), False),
        (pool(None), None, scope("other", "gpu"), False),
    ],
)
def test_a_pool_does_not_become_exclusive_while_another_scope_lists_it(
    body: Manifest, old: Manifest | None, listing: Manifest, *, refused: bool
) -> None:
    want = exclusive_pools.second_scope_message("gpu", "team", "other") if refused else None
    assert exclusive_pools.LISTED_ELSEWHERE.twin(request(body, old=old, param=listing)) == want


@pytest.mark.parametrize(
    ("body", "old", "param", "refused"),
    [
        (scope("other", "gpu"), None, pool("team"), True),
        (scope("other", "cpu", "gpu"), scope("other", "cpu"), pool("team"), True),
        (scope("other", "gpu"), scope("other", "gpu"), pool("team"), False),
        (scope("team", "gpu"), None, pool("team"), False),
        (scope("other", "gpu"), None, pool(None, is_wide=True), False),
        (scope("other"), None, pool("team"), False),
    ],
)
def test_a_second_scope_does_not_list_an_exclusive_pool(
    body: Manifest, old: Manifest | None, param: Manifest, *, refused: bool
) -> None:
    want = exclusive_pools.second_scope_message("gpu", "team", "other") if refused else None
    assert exclusive_pools.LISTS_ANOTHERS.twin(request(body, old=old, param=param)) == want


def test_what_is_being_deleted_is_let_go() -> None:
    leaving = pool(None)
    leaving["metadata"]["deletionTimestamp"] = DELETED
    assert exclusive_pools.UNOWNED.twin(request(leaving)) is None
    assert exclusive_pools.LISTED_ELSEWHERE.twin(request(leaving, param=scope("other", "gpu"))) is None
    going = scope("other", "gpu")
    going["metadata"]["deletionTimestamp"] = DELETED
    assert exclusive_pools.LISTS_ANOTHERS.twin(request(going, param=pool("team"))) is None
