"""Who may put a namespace into a scope, on the real API server with real roles."""

import dataclasses
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.api import keys, resources, version
from autoscaler.api.policies import base
from autoscaler.api.policies.pools import namespace_scope
from tests.e2e import waiting
from tests.e2e.policies.ground import Ground, Object
from tools.local.api import Api, Response
from tools.local.plane import Plane

RBAC = "/apis/rbac.authorization.k8s.io/v1"
NAMESPACES = "/api/v1/namespaces"
DRY = {"dryRun": "All"}
MERGE = "application/merge-patch+json"
USABLE = ("mine", "ours")
BEFORE = {"of-none": None, "of-mine": "mine", "of-theirs": "theirs", "of-empty": ""}
REAL = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tenancy:
    """Namespaces in scopes, and somebody who may write every namespace and use two scopes."""

    admin: Api
    tenant: Api

    def change(self, name: str, scope: str | None, api: Api | None = None, subresource: str = "") -> Response:
        """Try to change a namespace's scope."""
        if subresource == "finalize":  # which is put, not patched
            body = self.admin.get(f"{NAMESPACES}/{name}")
            labels = {key: value for key, value in body["metadata"]["labels"].items() if key != keys.SCOPE}
            body["metadata"]["labels"] = {**labels, **({} if scope is None else {keys.SCOPE: scope})}
            return (api or self.tenant).request("PUT", f"{NAMESPACES}/{name}/finalize", body, query=DRY)
        body = {"metadata": {"labels": {keys.SCOPE: scope}}}
        path = f"{NAMESPACES}/{name}/{subresource}".rstrip("/")
        return (api or self.tenant).request("PATCH", path, body, content_type=MERGE, query=DRY)

    def create(self, labels: Object, api: Api | None = None) -> Response:
        body = {"metadata": {"name": "fresh", "labels": labels}}
        return (api or self.tenant).request("POST", NAMESPACES, body, query=DRY)


@pytest.fixture(scope="module")
def tenancy(policed_plane: Plane) -> Iterator[Tenancy]:
    made = Ground(plane=policed_plane)
    made.make("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "tenant"}})
    written = {
        "apiGroups": [""],
        "resources": ["namespaces", "namespaces/status", "namespaces/finalize"],
        "verbs": ["create", "update", "patch"],
    }
    used = {
        "apiGroups": [version.GROUP],
        "resources": [resources.Scope.definition.plural],
        "resourceNames": list(USABLE),
        "verbs": [namespace_scope.VERB],
    }
    read = {**used, "resourceNames": [], "verbs": ["get", "list", "watch"]}  # to see a scope is not to use it
    made.make(f"{RBAC}/clusterroles", {"metadata": {"name": "tenant"}, "rules": [written, used, read]})
    subject = {"kind": "ServiceAccount", "namespace": "default", "name": "tenant"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tenant"}
    made.make(f"{RBAC}/clusterrolebindings", {"metadata": {"name": "tenant"}, "roleRef": role, "subjects": [subject]})
    for name, scope in BEFORE.items():
        made.add_namespace(name, scope)
    with made.as_account("default", "tenant") as tenant:
        found = Tenancy(admin=made.api, tenant=tenant)
        waiting.eventually(lambda: found.create({}).ok and found.create({keys.SCOPE: "theirs"}).status == 422)
        waiting.eventually(lambda: found.create({keys.SCOPE: "mine"}).ok)
        yield found
    made.close()


@pytest.mark.accept("S23")
def test_only_who_may_use_a_scope_puts_a_namespace_into_it(tenancy: Tenancy) -> None:
    for answer in (tenancy.create({keys.SCOPE: "theirs"}), tenancy.change("of-none", "theirs")):
        assert answer.status == 422
        assert "the verb use on scopes.sluice.dev/theirs" in answer.body["message"]
    assert tenancy.create({keys.SCOPE: "mine"}).ok
    assert tenancy.change("of-none", "ours").ok
    assert tenancy.change("of-none", "theirs", tenancy.admin).ok


@pytest.mark.accept("S23")
def test_only_who_may_use_a_scope_takes_a_namespace_out_of_it(tenancy: Tenancy) -> None:
    for scope in (None, "mine", ""):
        assert tenancy.change("of-theirs", scope).status == 422
    assert tenancy.change("of-mine", None).ok
    assert tenancy.change("of-theirs", None, tenancy.admin).ok


@pytest.mark.accept("S23")
@pytest.mark.parametrize("subresource", ["status", "finalize"])
def test_a_subresource_is_no_way_around_it(tenancy: Tenancy, subresource: str) -> None:
    changed = tenancy.change("of-none", "theirs", tenancy.admin, subresource)
    assert changed.required()["metadata"]["labels"][keys.SCOPE] == "theirs"  # so labels do change that way
    assert tenancy.change("of-none", "theirs", subresource=subresource).status == 422
    assert tenancy.change("of-none", "mine", subresource=subresource).ok


@pytest.mark.accept("S23")
def test_other_changes_of_a_namespace_in_anothers_scope_are_free(tenancy: Tenancy) -> None:
    path = f"{NAMESPACES}/of-theirs"
    labelled = {"metadata": {"labels": {"team": "b"}}}
    assert tenancy.tenant.request("PATCH", path, labelled, content_type=MERGE, query=DRY).ok
    assert tenancy.tenant.request("PUT", path, tenancy.admin.get(path), query=DRY).ok


@pytest.mark.accept("S23")
@REAL
@given(
    name=st.sampled_from([None, *BEFORE]),
    scope=st.sampled_from([None, "", "mine", "ours", "theirs", "nobodys"]),
    subresource=st.sampled_from(["", "status", "finalize"]),
)
def test_the_twin_says_what_the_api_server_says(
    tenancy: Tenancy, name: str | None, scope: str | None, subresource: str
) -> None:
    def labelled(value: str | None) -> Object:
        return {"metadata": {"name": "n", "labels": {} if value is None else {keys.SCOPE: value}}}

    request = base.Request(
        operation=base.Operation.CREATE if name is None else base.Operation.UPDATE,
        object=labelled(scope),
        old_object=None if name is None else labelled(BEFORE[name]),
        is_allowed=lambda access: access.name in USABLE and access.verb == "use" and access.resource == "scopes",
    )
    want = namespace_scope.POLICY.twin(request)
    labels = {} if scope is None else {keys.SCOPE: scope}
    answer = tenancy.create(labels) if name is None else tenancy.change(name, scope, subresource=subresource)
    assert answer.ok == (want is None), answer.body
    assert answer.ok or (want or "refused for nothing") in answer.body["message"]
