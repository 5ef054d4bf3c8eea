"""A pool of one scope alone: who may list it, and whose pods land on its nodes."""

import pytest

from autoscaler.api import keys
from autoscaler.api.policies.pools import exclusive_pools, pool_tolerations
from tests.e2e import waiting
from tests.e2e.policies import ground
from tests.e2e.policies.ground import CUSTOM, Ground

OWN, OTHER = "own", "other"


@pytest.mark.accept("P4")
def test_only_pods_of_its_one_scope_land_on_an_exclusive_pool(here: Ground) -> None:
    team, strangers, pool = f"team-{here.id}", f"strangers-{here.id}", f"pool-{here.id}"
    here.add_pool(pool, owner=team)
    here.add_scope(team, **{pool: 1})
    here.add_scope(strangers)
    (node,) = here.add_exclusive_nodes("kept", 1, pool)
    namespaces = {
        OWN: here.add_namespace(f"own-{here.id}", team),
        OTHER: here.add_namespace(f"other-{here.id}", strangers),
        "none": here.add_namespace(f"none-{here.id}"),
    }
    here.await_toleration(namespaces[OWN], pool)
    for namespace in namespaces.values():
        here.add_pod(namespace, "work")
    assert here.nodes_of(namespaces[OWN], 1) == [node]
    for name in (OTHER, "none"):
        waiting.eventually(lambda name=name: here.is_refused_by_all_nodes(namespaces[name], "work"))  # type: ignore[misc]
    here.add_pod(namespaces["none"], "agent", tolerations=[{"operator": "Exists"}])
    path = f"/api/v1/namespaces/{namespaces['none']}/pods/agent"
    assert waiting.eventually(lambda: here.api.get(path)["spec"].get("nodeName")) == node


@pytest.mark.accept("P4")
def test_every_pod_may_use_an_instance_wide_pool_whether_its_scope_lists_it_or_not(here: Ground) -> None:
    team, others, pool = f"team-{here.id}", f"others-{here.id}", f"pool-{here.id}"
    here.add_pool(pool)
    here.add_scope(team, **{pool: 1})
    here.add_scope(others)
    (node,) = here.add_nodes("wide", 1, pool=pool)
    for name, scope in (("listing", team), ("silent", others), ("unscoped", None)):
        namespace = here.add_namespace(f"{name}-{here.id}", scope)
        here.add_pod(namespace, "work")
        assert here.nodes_of(namespace, 1) == [node]


@pytest.mark.accept("P4")
def test_a_second_scope_may_not_list_an_exclusive_pool(here: Ground) -> None:
    team, second, pool = f"team-{here.id}", f"second-{here.id}", f"pool-{here.id}"
    here.add_pool(pool, owner=team)
    here.add_scope(team, **{pool: 1})
    path = f"{CUSTOM}/scopes"
    want = exclusive_pools.second_scope_message(pool, team, second)
    waiting.eventually(
        lambda: (
            want in str(here.api.request("POST", path, ground.scope(second, {pool: 1}), query={"dryRun": "All"}).body)
        )
    )
    here.add_scope(second)
    listed = {"spec": {"pools": [{"name": pool}]}}
    answer = here.api.request("PATCH", f"{path}/{second}", listed, content_type="application/merge-patch+json")
    assert (answer.status, want in answer.body["message"]) == (422, True)
    assert here.api.merge(f"{path}/{team}", {"metadata": {"labels": {"seen": "true"}}})["spec"]["pools"]


@pytest.mark.accept("P4")
def test_a_pool_that_two_scopes_list_cannot_become_exclusive(here: Ground) -> None:
    team, second, pool = f"team-{here.id}", f"second-{here.id}", f"pool-{here.id}"
    here.add_pool(pool)
    here.add_scope(team, **{pool: 1})
    here.add_scope(second, **{pool: 1})
    path = f"{CUSTOM}/instancepools/{pool}"
    change = {"metadata": {"labels": {keys.SCOPE: team}}, "spec": {"instanceWide": False}}

    def refusal() -> str:
        answer = here.api.request(
            "PATCH", path, change, content_type="application/merge-patch+json", query={"dryRun": "All"}
        )
        return str(answer.body.get("message", ""))

    want = exclusive_pools.second_scope_message(pool, team, second)
    waiting.eventually(lambda: want in refusal())
    here.api.merge(f"{CUSTOM}/scopes/{second}", {"spec": {"pools": []}})
    waiting.eventually(lambda: not refusal())
    unlabelled = {"spec": {"instanceWide": False}}
    answer = here.api.request("PATCH", path, unlabelled, content_type="application/merge-patch+json")
    assert exclusive_pools.UNOWNED_MESSAGE in answer.body["message"]


def test_a_pool_is_handed_on_by_its_label_and_old_pods_may_still_be_changed(here: Ground) -> None:
    first, then, pool = f"first-{here.id}", f"then-{here.id}", f"pool-{here.id}"
    here.add_pool(pool, owner=first)
    here.add_scope(first, **{pool: 1})
    here.add_scope(then)
    before = here.add_namespace(f"before-{here.id}", first)
    namespace = here.add_namespace(f"work-{here.id}", then)
    here.await_toleration(before, pool)
    here.add_pod(before, "old", schedulerName="nobody")
    here.api.merge(f"{CUSTOM}/instancepools/{pool}", {"metadata": {"labels": {keys.SCOPE: then}}})
    listed = {"spec": {"pools": [{"name": pool}]}}
    waiting.eventually(lambda: here.api.merge(f"{CUSTOM}/scopes/{then}", listed))
    here.await_toleration(namespace, pool)
    here.api.merge(f"/api/v1/namespaces/{before}/pods/old", {"metadata": {"labels": {"seen": "true"}}})


def test_a_toleration_that_is_anothers_cannot_be_added_later(here: Ground) -> None:
    team, strangers, pool = f"team-{here.id}", f"strangers-{here.id}", f"pool-{here.id}"
    here.add_pool(pool, owner=team)
    here.add_scope(strangers)
    inside = here.add_namespace(f"inside-{here.id}", strangers)
    outside = here.add_namespace(f"outside-{here.id}")
    wanted = {inside: pool_tolerations.foreign_message(pool, team), outside: pool_tolerations.UNNAMED_MESSAGE}
    waiting.eventually(
        lambda: here.try_pod(inside, ground.pod("probe", tolerations=[ground.toleration(pool)])).status == 422
    )
    for namespace, want in wanted.items():
        made = here.add_pod(namespace, "sly", schedulerName="nobody")
        path = f"/api/v1/namespaces/{namespace}/pods/sly"
        more = {"spec": {"tolerations": [*made["spec"]["tolerations"], ground.toleration(pool)]}}
        answer = here.api.request("PATCH", path, more, content_type="application/merge-patch+json")
        assert (answer.status, want in answer.body["message"]) == (422, True), answer.body
        here.api.merge(path, {"metadata": {"labels": {"seen": "true"}}})


def test_a_claim_is_tolerated_by_the_pod_that_it_names_alone(here: Ground) -> None:
    namespace = here.add_namespace(f"work-{here.id}")
    victim = here.add_pod(namespace, "victim", schedulerName="nobody")
    uid = victim["metadata"]["uid"]
    claim = ground.toleration(uid, key=keys.RESERVED_FOR)
    forged = ground.pod("thief", tolerations=[claim])
    forged["metadata"]["uid"] = uid
    assert pool_tolerations.CLAIM_MESSAGE in here.try_pod(namespace, forged).body["message"]
    thief = here.add_pod(namespace, "thief", schedulerName="nobody")

    def give_claim(pod: ground.Object) -> int:
        path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
        more = {"spec": {"tolerations": [*pod["spec"]["tolerations"], claim]}}
        return here.api.request("PATCH", path, more, content_type="application/merge-patch+json").status

    assert give_claim(thief) == 422
    assert give_claim(victim) == 200
