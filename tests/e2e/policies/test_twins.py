"""The Python twins say what the API server says, for pods, pools, scopes and DaemonSets of many kinds."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.api import keys, policies
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base
from autoscaler.api.policies.pools import daemon_sets, exclusive_pools, node_preference, pool_tolerations
from autoscaler.api.resources.scopes import POOLS_MAX
from tests.e2e.policies import ground
from tests.e2e.policies.ground import Ground
from tools.local.plane import Plane

REAL = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SCOPES: Mapping[str, Mapping[str, int]] = {
    "empty": {},
    "one": {"mine": 5},
    "many": {"wide": 10, "twin": 10, "many-own": -3, "absent": 0},
    "full": {f"pool-{number}": number % 50 for number in range(POOLS_MAX)},
}
POOLS = {"wide": None, "twin": None, "mine": "one", "many-own": "many"}
NAMESPACES = {"in-empty": "empty", "in-one": "one", "in-many": "many", "in-full": "full", "astray": "nowhere"}
UNSCOPED = "unscoped"
_DEFAULTED = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Field:
    """A ground with these scopes, pools and namespaces."""

    ground: Ground
    params: Mapping[str, list[Manifest]]

    def expected(self, request: base.Request, resource: str) -> tuple[Manifest, list[str]]:
        """Run the twins of all policies about a resource."""
        asked = [policy for policy in policies.POLICIES if resource in policy.match.resources]
        changed = request.object or {}
        for policy in asked:
            if isinstance(policy, base.MutatingPolicy):
                for param in self._params(policy):
                    changed = policy.twin(dataclasses.replace(request, object=changed, param=param))
        told: list[str] = []
        for policy in asked:
            if isinstance(policy, base.ValidatingPolicy):
                for param in self._params(policy):
                    why = policy.twin(dataclasses.replace(request, object=changed, param=param))
                    told += [why] if why is not None else []
        return changed, told

    def _params(self, policy: policies.Policy) -> list[Any]:
        if policy.param is None:
            return [None]
        label = policy.param.label
        known = self.params[policy.param.kind]
        return [each for each in known if label is None or label in each["metadata"].get("labels", {})]


@pytest.fixture(scope="module")
def field(policed_plane: Plane) -> Iterator[Field]:
    made = Ground(plane=policed_plane)
    for name, owner in POOLS.items():
        made.add_pool(name, owner=owner)
    for name, priorities in SCOPES.items():
        made.make(f"{ground.CUSTOM}/scopes", ground.scope(name, priorities))
    for name, scope in NAMESPACES.items():
        made.add_namespace(name, scope)
    made.add_namespace(UNSCOPED)
    for name, scope in NAMESPACES.items():
        made.await_terms(name, 1 + len(SCOPES[scope]) if scope in SCOPES else 0)
    made.await_toleration("in-many", "many-own")
    params = {
        kind: list(made.api.get(f"{ground.CUSTOM}/{plural}")["items"])
        for kind, plural in (("Scope", "scopes"), ("InstancePool", "instancepools"))
    }
    yield Field(ground=made, params=params)
    made.close()


EFFECTS = st.sampled_from([None, "NoSchedule", "PreferNoSchedule", "NoExecute"])
TOLERATIONS = st.one_of(
    st.builds(
        lambda key, value, effect, explicit: {
            "key": key,
            "value": value,
            **({"operator": "Equal"} if explicit else {}),
            **({"effect": effect} if effect else {}),
        },
        st.sampled_from([keys.INSTANCE_POOL, keys.RESERVED_FOR, "app"]),
        st.sampled_from([*POOLS, "unknown", "none"]),
        EFFECTS,
        st.booleans(),
    ),
    st.builds(
        lambda key, effect: {"key": key, "operator": "Exists", **({"effect": effect} if effect else {})},
        st.sampled_from([keys.INSTANCE_POOL, keys.RESERVED_FOR, "app"]),
        EFFECTS,
    ),
    st.just({"operator": "Exists"}),
)
EXPRESSIONS = st.sampled_from(
    [
        {"key": keys.ZONE, "operator": "In", "values": ["a"]},
        {"key": keys.INSTANCE_POOL, "operator": "In", "values": ["wide"]},
    ]
)
TERMS = st.builds(
    lambda weight, expression: {"weight": weight, "preference": {"matchExpressions": [expression]}},
    st.integers(1, 100),
    EXPRESSIONS,
)
FIELD_TERM = {
    "weight": 1,
    "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
}
REQUIRED = {"nodeSelectorTerms": [{"matchExpressions": [{"key": keys.INSTANCE_POOL, "operator": "Exists"}]}]}
NODE_AFFINITIES = st.fixed_dictionaries(
    {},
    optional={
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(TERMS | st.just(FIELD_TERM), max_size=3),
        "requiredDuringSchedulingIgnoredDuringExecution": st.just(REQUIRED),
    },
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "affinity": st.fixed_dictionaries({}, optional={"nodeAffinity": NODE_AFFINITIES}),
        "tolerations": st.lists(TOLERATIONS, max_size=3),
    },
)


@REAL
@given(namespace=st.sampled_from([*NAMESPACES, UNSCOPED, "kube-system"]), spec=SPECS)
def test_pods_are_changed_and_refused_alike(field: Field, namespace: str, spec: Manifest) -> None:
    body = ground.pod("subject", **spec)
    scope = NAMESPACES.get(namespace)
    labels = {"kubernetes.io/metadata.name": namespace, **({keys.SCOPE: scope} if scope else {})}
    request = base.Request(operation=base.Operation.CREATE, object=body, namespace_labels=labels, username="admin")
    want, told = field.expected(request, "pods")
    answer = field.ground.try_pod(namespace, body)
    if told:
        assert answer.status == 422, answer.body
        assert any(why in answer.body["message"] for why in told), answer.body["message"]
        return
    got = answer.required()["spec"]
    assert ground.terms(got) == ground.terms(want["spec"])
    assert got.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution") == (
        spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    )
    assert _plain(got) == _plain(want["spec"])


def _plain(spec: Manifest) -> list[Manifest]:
    """Return tolerations as they are meant, without those that Kubernetes gives to every pod and without repeats."""
    meant = [
        {name: value for name, value in {"operator": "Equal", **each}.items() if value}
        for each in spec.get("tolerations") or ()
        if each.get("key") not in _DEFAULTED
    ]
    return [each for index, each in enumerate(meant) if each not in meant[:index]]


@REAL
@given(
    name=st.sampled_from([*POOLS, ground.LEGACY, "absent", "free"]),
    is_wide=st.booleans(),
    owner=st.sampled_from([None, "", "one", "many"]),
)
def test_pools_are_refused_alike(field: Field, name: str, is_wide: bool, owner: str | None) -> None:  # noqa: FBT001
    metadata: Manifest = {"name": name, **({} if owner is None else {"labels": {keys.SCOPE: owner}})}
    body = {**ground.pool(name), "metadata": metadata, "spec": {"providerAccount": "aws", "instanceWide": is_wide}}
    _compare(field, "instancepools", body)


@REAL
@given(
    name=st.sampled_from([*SCOPES, "new"]),
    listed=st.lists(st.sampled_from([*POOLS, ground.LEGACY, "absent"]), unique=True),
)
def test_scopes_are_refused_alike(field: Field, name: str, listed: list[str]) -> None:
    _compare(field, "scopes", ground.scope(name, dict.fromkeys(listed, 1)))


def _compare(field: Field, plural: str, body: Manifest) -> None:
    """Create the object, or update it where it is there, and compare what is said."""
    path, name = f"{ground.CUSTOM}/{plural}", body["metadata"]["name"]
    kind: str = body["kind"]
    old = next((each for each in field.params[kind] if each["metadata"]["name"] == name), None)
    query = {"dryRun": "All"}
    if old is None:
        operation, answer = base.Operation.CREATE, field.ground.api.request("POST", path, body, query=query)
    else:
        operation = base.Operation.UPDATE
        version = {"resourceVersion": old["metadata"]["resourceVersion"]}
        put = {**body, "metadata": {**body["metadata"], **version}}
        answer = field.ground.api.request("PUT", f"{path}/{name}", put, query=query)
    request = base.Request(operation=operation, object=body, old_object=old, username="admin")
    _, told = field.expected(request, plural)
    assert answer.ok == (not told), (answer.body, told)
    assert answer.ok or any(why in answer.body["message"] for why in told), (answer.body["message"], told)


@REAL
@given(tolerations=st.none() | st.lists(TOLERATIONS, max_size=3))
def test_daemon_sets_are_changed_alike(field: Field, tolerations: list[Manifest] | None) -> None:
    labels = {"app": "agent"}
    spec: Manifest = ground.pod("p")["spec"] | ({} if tolerations is None else {"tolerations": tolerations})
    body: Manifest = {
        "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }
    path = "/apis/apps/v1/namespaces/default/daemonsets"
    got = field.ground.api.request("POST", path, body, query={"dryRun": "All"}).required()
    want = daemon_sets.POLICY.twin(base.Request(operation=base.Operation.CREATE, object=body))
    assert _plain(got["spec"]["template"]["spec"]) == _plain(want["spec"]["template"]["spec"])


def test_every_policy_about_pools_is_compared() -> None:
    compared = {"pods", "instancepools", "scopes", "daemonsets"}
    modules = (node_preference, pool_tolerations, exclusive_pools, daemon_sets)
    for module in modules:
        for policy in vars(module).values():
            if isinstance(policy, base.MutatingPolicy | base.ValidatingPolicy):
                assert set(policy.match.resources) <= compared
                assert policy in policies.POLICIES
