"""A scope's pods tolerate its own exclusive pools; nobody names another's, or a claim that is not their own."""

import pytest

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base
from autoscaler.api.policies.pools import pool_tolerations
from tests import builders

DAEMONS = pool_tolerations.DAEMON_CONTROLLERS[0]
OWN = {"key": keys.INSTANCE_POOL, "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
ALL_POOLS = {"key": keys.INSTANCE_POOL, "operator": "Exists"}
CLAIMED = {"key": keys.RESERVED_FOR, "operator": "Equal", "value": "uid-1", "effect": "NoSchedule"}
EVERYTHING = {"operator": "Exists"}


def pool(owner: str | None) -> Manifest:
    made = builders.resource("InstancePool", name="gpu", instanceWide=owner is None)
    return {**made, "metadata": {"name": "gpu", "labels": {keys.SCOPE: owner} if owner else {}}}


def pod(*tolerations: Manifest) -> Manifest:
    return {"metadata": {"name": "p", "uid": "uid-1"}, "spec": {"tolerations": list(tolerations)}}


def request(  # a test sets what matters to it
    body: Manifest,
    *,
    owner: str | None = "team",
    scope: str | None = "team",
    old: Manifest | None = None,
    namespace: str = "work",
    username: str = "somebody",
) -> base.Request:
    return base.Request(
        operation=base.Operation.CREATE if old is None else base.Operation.UPDATE,
        object=body,
        old_object=old,
        username=username,
        namespace_labels={"kubernetes.io/metadata.name": namespace, **({keys.SCOPE: scope} if scope else {})},
        param=pool(owner),
    )


@pytest.mark.parametrize(
    ("owner", "scope", "want"),
    [("team", "team", [OWN]), ("other", "team", []), (None, "team", []), ("team", None, []), ("team", "other", [])],
)
def test_the_toleration_is_given_to_the_scope_that_the_pool_is_for(
    owner: str | None, scope: str | None, want: list[Manifest]
) -> None:
    got = pool_tolerations.GRANT.twin(request(pod(), owner=owner, scope=scope))
    assert got["spec"]["tolerations"] == want


def test_a_toleration_that_is_there_is_not_given_twice_and_a_mild_one_does_not_count() -> None:
    for present in (OWN, {**OWN, "effect": ""}, {key: OWN[key] for key in ("key", "value")}):
        assert pool_tolerations.GRANT.twin(request(pod(present)))["spec"]["tolerations"] == [present]
    mild = {**OWN, "effect": "PreferNoSchedule"}
    assert pool_tolerations.GRANT.twin(request(pod(mild)))["spec"]["tolerations"] == [mild, OWN]


@pytest.mark.parametrize(
    ("body", "owner", "refused"),
    [
        (pod(OWN), "other", True),
        (pod({**OWN, "effect": "PreferNoSchedule"}), "other", False),
        (pod({**OWN, "value": "cpu"}), "other", False),
        (pod(EVERYTHING), "other", False),
        (pod(OWN), "team", False),
        (pod(OWN), None, False),
    ],
)
def test_another_scopes_pool_may_not_be_named(body: Manifest, owner: str | None, *, refused: bool) -> None:
    want = pool_tolerations.foreign_message("gpu", "other") if refused else None
    assert pool_tolerations.FOREIGN.twin(request(body, owner=owner)) == want


@pytest.mark.parametrize(
    ("body", "scope", "want"),
    [
        (pod(OWN), "team", None),
        (pod(OWN), None, pool_tolerations.UNNAMED_MESSAGE),
        (pod({**OWN, "effect": "PreferNoSchedule"}), None, None),
        (pod(ALL_POOLS), "team", pool_tolerations.UNNAMED_MESSAGE),
        (pod(EVERYTHING), None, None),
        (pod(CLAIMED), "team", pool_tolerations.CLAIM_MESSAGE),
        (pod({"key": keys.RESERVED_FOR, "operator": "Exists"}), "team", pool_tolerations.CLAIM_MESSAGE),
    ],
)
def test_a_toleration_of_ours_needs_a_ground(body: Manifest, scope: str | None, want: str | None) -> None:
    assert pool_tolerations.UNFOUNDED.twin(request(body, scope=scope)) == want


def test_a_pod_that_exists_may_be_given_the_claim_that_names_it() -> None:
    assert pool_tolerations.UNFOUNDED.twin(request(pod(CLAIMED), old=pod())) is None
    anothers = {**CLAIMED, "value": "uid-2"}
    assert pool_tolerations.UNFOUNDED.twin(request(pod(anothers), old=pod())) == pool_tolerations.CLAIM_MESSAGE


def test_what_a_pod_has_already_is_not_asked_about() -> None:
    old = pod(OWN, ALL_POOLS, {**CLAIMED, "value": "uid-2"})
    for policy in (pool_tolerations.FOREIGN, pool_tolerations.UNFOUNDED):
        assert policy.twin(request(old, old=old, owner="other")) is None


def test_the_system_is_not_asked() -> None:
    for policy in (pool_tolerations.FOREIGN, pool_tolerations.UNFOUNDED):
        assert policy.twin(request(pod(OWN, ALL_POOLS), owner="other", namespace="kube-system")) is None
        assert policy.twin(request(pod(OWN, ALL_POOLS), owner="other", username=DAEMONS)) is None
