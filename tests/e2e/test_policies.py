"""Admission policies on the real API server: they take effect, and their Python twins say the same."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.api import crds, keys, manifests, policies, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base
from autoscaler.api.policies.machines import machine_group
from tests import builders
from tests.e2e import waiting
from tools.local.plane import Plane

MACHINES = f"/apis/{version.GROUP_VERSION}/machines"


def refusal(plane: Plane, machine: Manifest) -> str | None:
    answer = plane.api.request("POST", MACHINES, machine, query={"dryRun": "All"})
    if answer.ok:
        return None
    message: str = answer.body["message"]
    return message


@pytest.fixture(scope="module")
def guarded(plane: Plane) -> Plane:
    """The plane with our policies in force."""
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=manifests.dump(crds.all_crds()))
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=manifests.dump(policies.manifests()))
    nameless = {**builders.resource("Machine"), "metadata": {"name": "nameless"}}
    waiting.eventually(lambda: machine_group.MESSAGE in (refusal(plane, nameless) or ""))
    return plane


@pytest.mark.accept("M8")
def test_a_machine_without_its_group_label_is_refused_with_the_label_named(guarded: Plane) -> None:
    machine = {**builders.resource("Machine"), "metadata": {"name": "general"}}
    assert keys.MACHINE_GROUP in (refusal(guarded, machine) or "")
    assert refusal(guarded, builders.resource("Machine")) is None


@pytest.mark.accept("M8")
def test_the_group_label_cannot_be_changed_later(guarded: Plane) -> None:
    guarded.api.create(MACHINES, builders.resource("Machine", name="steady"))
    try:
        patch = {"metadata": {"labels": {keys.MACHINE_GROUP: "other"}}}
        answer = guarded.api.request("PATCH", f"{MACHINES}/steady", patch, content_type="application/merge-patch+json")
        assert answer.status == 422
        assert machine_group.MESSAGE in answer.body["message"]
    finally:
        guarded.api.delete(f"{MACHINES}/steady")


LABELS = st.dictionaries(
    st.sampled_from([keys.MACHINE_GROUP, keys.MACHINE_TYPE, "app"]), st.sampled_from(["alpha", "beta", "", "Alpha"])
)


@pytest.mark.accept("M8")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(["alpha", "beta"]), labels=st.none() | LABELS)
def test_the_twin_agrees_with_the_api_server(guarded: Plane, name: str, labels: dict[str, str] | None) -> None:
    metadata: Manifest = {"name": name} if labels is None else {"name": name, "labels": labels}
    machine = {**builders.resource("Machine"), "metadata": metadata}
    request = base.Request(operation=base.Operation.CREATE, object=machine)
    said = refusal(guarded, machine)
    want = machine_group.POLICY.twin(request)
    assert (said is None) == (want is None)
    assert (want or "") in (said or "")


@pytest.fixture
def stamped(plane: Plane) -> Iterator[Plane]:
    """The plane with a mutating policy that copies a param's word onto ConfigMaps which ask for it."""
    policy = base.MutatingPolicy(
        name="stamp.test.sluice.dev",
        match=base.Match(
            group="",
            version="v1",
            resources=("configmaps",),
            operations=(base.Operation.CREATE,),
            conditions={"asked": "has(object.data) && 'stamp' in object.data"},
        ),
        patches=('[JSONPatch{op: "replace", path: "/data/stamp", value: string(params.data.word)}]',),
        param=base.Param(api_version="v1", kind="ConfigMap", name="stamp", namespace="default"),
        twin=lambda request: request.object or {},
    )
    param = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stamp"}, "data": {"word": "sluice"}}
    plane.api.create("/api/v1/namespaces/default/configmaps", param)
    made = manifests.dump(policy.manifests())
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=made)
    yield plane
    plane.kubectl("delete", "-f", "-", stdin=made)
    plane.api.delete("/api/v1/namespaces/default/configmaps/stamp")


def test_a_mutating_policy_changes_what_it_matches_and_nothing_else(stamped: Plane) -> None:
    def stored(data: dict[str, str]) -> dict[str, str]:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "subject"}, "data": data}
        query = {"dryRun": "All"}
        got: dict[str, str] = stamped.api.request(
            "POST", "/api/v1/namespaces/default/configmaps", body, query=query
        ).required()["data"]
        return got

    waiting.eventually(lambda: stored({"stamp": "?"}) == {"stamp": "sluice"})
    assert stored({"other": "?"}) == {"other": "?"}
