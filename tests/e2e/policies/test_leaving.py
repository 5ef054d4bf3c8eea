"""The drain object on the real API server: deployers delete it, others confirm first, it goes with its namespace."""

import dataclasses
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.api import keys, manifests, names
from autoscaler.api.policies import base, identities, leaving
from tests.e2e import waiting
from tests.e2e.policies import ground
from tests.e2e.policies.ground import DEPLOYER_NAMESPACE, RUNTIME_IDENTITY, RUNTIME_NAMESPACE, Ground
from tools.local.api import Api
from tools.local.plane import Plane

DRAIN_OBJECTS = f"/api/v1/namespaces/{RUNTIME_NAMESPACE}/configmaps"
DRAIN_OBJECT = f"{DRAIN_OBJECTS}/{names.DRAIN_OBJECT}"
ONLY_IT = {"fieldSelector": f"metadata.name={names.DRAIN_OBJECT}"}
DRY = {"dryRun": "All"}
Account = tuple[str, str]
People = dict[Account, Api]
"""Those who may write ConfigMaps in the runtime's namespace, by namespace and name of their ServiceAccount."""
ADMIN: Account = ("", "admin")
"""The plane's own administrator, who is no ServiceAccount."""
PIPELINE = ("default", "pipeline")
MEMBER = (DEPLOYER_NAMESPACE, "default")
STRANGER = ("default", "stranger")
CONTROLLERS = (("kube-system", "namespace-controller"), ("kube-system", "generic-garbage-collector"))
REAL = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def people(policed_plane: Plane) -> Iterator[People]:
    made = Ground(plane=policed_plane)
    made.add_namespace(DEPLOYER_NAMESPACE)
    for namespace, name in (PIPELINE, STRANGER):
        made.make(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    everybody = {"kind": "Group", "name": "system:serviceaccounts", "apiGroup": "rbac.authorization.k8s.io"}
    edit = {"kind": "ClusterRole", "name": "edit", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "everybody"}, "roleRef": edit, "subjects": [everybody]}
    made.make(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{RUNTIME_NAMESPACE}/rolebindings", binding)
    accounts = (PIPELINE, STRANGER, MEMBER, *CONTROLLERS)
    apis = {account: made.as_account(*account) for account in accounts}
    yield {ADMIN: made.api, **apis}
    for api in apis.values():
        api.close()
    made.close()


@pytest.fixture
def drain_object(policed_plane: Plane, people: People) -> Iterator[Plane]:
    api = policed_plane.api
    if api.request("GET", DRAIN_OBJECT).status == 404:
        api.create(DRAIN_OBJECTS, {"metadata": {"name": names.DRAIN_OBJECT}})
    waiting.eventually(lambda: api.request("DELETE", DRAIN_OBJECT, query=DRY).status == 422)
    waiting.eventually(lambda: people[STRANGER].request("GET", DRAIN_OBJECT).ok)
    yield policed_plane
    people[PIPELINE].delete(DRAIN_OBJECT)


@pytest.mark.accept("S23")
def test_deleting_it_is_refused_and_both_ways_are_told(drain_object: Plane, people: People) -> None:
    for api in (people[ADMIN], people[STRANGER]):
        for answer in (
            api.request("DELETE", DRAIN_OBJECT),
            api.request("DELETE", DRAIN_OBJECTS, query=ONLY_IT),
            api.request("DELETE", DRAIN_OBJECT, {"gracePeriodSeconds": 0, "propagationPolicy": "Foreground"}),
        ):
            assert answer.status == 422, answer.body
            assert "autoscaler.deployers" in answer.body["message"]
            assert f"{keys.CONFIRM_LEAVING}=true" in answer.body["message"]
    assert "deletionTimestamp" not in drain_object.api.get(DRAIN_OBJECT)["metadata"]


@pytest.mark.accept("S23")
@pytest.mark.parametrize("who", [PIPELINE, MEMBER], ids=["user", "group"])
@pytest.mark.usefixtures("drain_object")
def test_a_deployer_deletes_it(people: People, who: Account) -> None:
    assert people[who].request("DELETE", DRAIN_OBJECT).ok
    assert people[ADMIN].request("GET", DRAIN_OBJECT).status == 404


@pytest.mark.accept("S23")
def test_whoever_confirmed_it_deletes_it(drain_object: Plane, people: People) -> None:
    told = people[STRANGER].request("DELETE", DRAIN_OBJECT).body["message"]
    command = told[told.index("kubectl ") : told.index(")", told.index("kubectl "))].split()
    drain_object.kubectl(*command[1:])
    assert people[STRANGER].request("DELETE", DRAIN_OBJECT).ok
    assert people[ADMIN].request("GET", DRAIN_OBJECT).status == 404


@pytest.mark.accept("S23")
def test_the_garbage_collector_cannot_be_made_to_delete_it(drain_object: Plane, people: People) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "12345678-0000-0000-0000-000000000000"}
    owned = {"metadata": {"ownerReferences": [owner]}}
    merge = "application/merge-patch+json"
    for who in (ADMIN, STRANGER):
        assert people[who].request("PATCH", DRAIN_OBJECT, owned, content_type=merge).status == 422
    assert people[PIPELINE].request("PATCH", DRAIN_OBJECT, owned, content_type=merge, query=DRY).ok
    held = {"metadata": {"finalizers": [keys.part_finalizer("workers")]}}
    drain_object.api.merge(DRAIN_OBJECT, held)
    drain_object.api.merge(DRAIN_OBJECT, {"metadata": {"finalizers": None}})


@pytest.mark.accept("S23")
def test_it_goes_with_its_namespace(here: Ground) -> None:
    namespace = here.add_namespace(f"home-{here.id}")
    policy = dataclasses.replace(leaving.policy(namespace, leaving.Deployers()), name=f"leaving-{here.id}.sluice.dev")
    here.plane.kubectl("apply", "-f", "-", stdin=manifests.dump(policy.manifests()))
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    here.api.create(path, {"metadata": {"name": names.DRAIN_OBJECT}})
    try:
        waiting.eventually(lambda: here.api.request("DELETE", f"{path}/{names.DRAIN_OBJECT}", query=DRY).status == 422)
        here.api.delete(f"/api/v1/namespaces/{namespace}")
        gone = f"/api/v1/namespaces/{namespace}"
        waiting.eventually(lambda: here.api.request("GET", gone).status == 404, within_seconds=60.0)
    finally:
        here.plane.kubectl("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", policy.name)


@pytest.mark.accept("S23")
@REAL
@given(
    who=st.sampled_from([ADMIN, PIPELINE, MEMBER, STRANGER, *CONTROLLERS]),
    confirmed=st.sampled_from([None, "true", "false", "", "True"]),
    as_collection=st.booleans(),
)
def test_the_twin_says_what_the_api_server_says(
    drain_object: Plane,
    people: People,
    who: Account,
    confirmed: str | None,
    as_collection: bool,  # noqa: FBT001
) -> None:
    old = drain_object.api.merge(DRAIN_OBJECT, {"metadata": {"annotations": {keys.CONFIRM_LEAVING: confirmed}}})
    request = base.Request(
        operation=base.Operation.DELETE,
        object=None,
        old_object=old,
        username="admin" if who == ADMIN else identities.account_user(*who),
        groups=("system:masters",) if who == ADMIN else (f"system:serviceaccounts:{who[0]}",),
    )
    want = leaving.policy(RUNTIME_NAMESPACE, RUNTIME_IDENTITY.deployers).twin(request)
    if as_collection:
        answer = people[who].request("DELETE", DRAIN_OBJECTS, query={**ONLY_IT, **DRY})
    else:
        answer = people[who].request("DELETE", DRAIN_OBJECT, query=DRY)
    assert answer.ok == (want is None), answer.body
    assert answer.ok or (want or "refused for nothing") in answer.body["message"]


def test_other_config_maps_there_and_that_name_elsewhere_are_free(here: Ground) -> None:
    namespace = here.add_namespace(f"free-{here.id}")
    for place, name in ((namespace, names.DRAIN_OBJECT), (RUNTIME_NAMESPACE, f"other-{here.id}")):
        path = f"/api/v1/namespaces/{place}/configmaps"
        here.api.create(path, {"metadata": {"name": name}})
        assert here.api.request("DELETE", f"{path}/{name}").ok


def test_the_deployers_of_the_ground_are_those_of_the_policy() -> None:
    assert RUNTIME_IDENTITY.deployers.users == (ground.DEPLOYER,) == (identities.account_user(*PIPELINE),)
