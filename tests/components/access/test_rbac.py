"""Roles: what the table grants and not a right more, wherever it holds; and people's roles reach what people write."""

import itertools
from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api import controllers as registry
from autoscaler.api import resources
from autoscaler.api.permissions import Where, WorkerScope
from autoscaler.kube import kinds
from components.access import rbac

SETS = [
    chosen
    for size in range(len(registry.CONTROLLERS) + 1)
    for chosen in itertools.combinations(registry.CONTROLLERS, size)
]
CLASSES = (None, "heavy")
Right = tuple[str, str, str, str]


def made_roles(
    controllers: Iterable[str] = registry.CONTROLLERS,
    *,
    everywhere: bool = False,
    classes: tuple[str | None, ...] = CLASSES,
) -> rbac.RuntimeRoles:
    return rbac.runtime_roles(controllers, scope=scope_of(everywhere=everywhere), classes=classes)


def scope_of(*, everywhere: bool) -> WorkerScope:
    return WorkerScope.CLUSTER if everywhere else WorkerScope.NAMESPACE


def rights(rules: Iterable[rbac.Rule]) -> list[Right]:
    return [
        (group, resource, verb, name)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    ]


def places(roles: rbac.RuntimeRoles) -> dict[Where, tuple[rbac.Rule, ...]]:
    return {
        Where.CLUSTER: roles.cluster,
        Where.OWN_NAMESPACE: roles.own_namespace,
        Where.SECRET_NAMESPACES: roles.secret_namespaces,
        Where.KUBE_SYSTEM: roles.kube_system,
    }


def asked(controllers: Iterable[str], where: Iterable[Where], *, everywhere: bool) -> set[Right]:
    return {
        (rule.group, resource, verb, name)
        for rule in registry.kube_rules(controllers, scope=scope_of(everywhere=everywhere), classes=CLASSES)
        if rule.where in where
        for resource in rule.resources
        for verb in rule.verbs
        for name in rule.resource_names or ("",)
    }


@pytest.mark.accept("S6")
@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("controllers", SETS, ids="-".join)
def test_a_role_grants_what_the_table_says_and_nothing_else(
    controllers: tuple[str, ...],
    everywhere: bool,  # noqa: FBT001
) -> None:
    made = places(made_roles(controllers, everywhere=everywhere))
    of = partial(asked, controllers, everywhere=everywhere)
    in_cluster = of({Where.CLUSTER} | ({Where.WORKER_SCOPE} if everywhere else set()))
    in_own = of({Where.OWN_NAMESPACE} | (set() if everywhere else {Where.WORKER_SCOPE, Where.WORKER_LEASES}))
    assert set(rights(made[Where.CLUSTER])) == in_cluster
    assert set(rights(made[Where.OWN_NAMESPACE])) == in_own - in_cluster
    assert set(rights(made[Where.SECRET_NAMESPACES])) == of({Where.SECRET_NAMESPACES})
    assert set(rights(made[Where.KUBE_SYSTEM])) == of(
        {Where.KUBE_SYSTEM} | ({Where.WORKER_LEASES} if everywhere else set())
    )


@pytest.mark.accept("S6")
@pytest.mark.parametrize("everywhere", [False, True])
def test_no_role_holds_a_wildcard_or_says_a_thing_twice(everywhere: bool) -> None:  # noqa: FBT001
    roles = made_roles(everywhere=everywhere)
    groups = [*places(roles).values(), *(role.rules for role in rbac.people_roles().values())]
    for rules in groups:
        granted = rights(rules)
        assert granted
        assert not any("*" in text for right in granted for text in right)
        assert len(granted) == len(set(granted))


@given(st.permutations(list(registry.CONTROLLERS)))
def test_the_order_of_controllers_does_not_matter(controllers: list[str]) -> None:
    assert made_roles(controllers) == made_roles()


def test_rules_are_few_sorted_and_as_kubernetes_writes_them() -> None:
    roles = made_roles([])
    assert roles.cluster == (
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["list"]},
    )
    assert roles.own_namespace == ()  # nobody leads, so there is no Lease
    assert roles.secret_namespaces == ()
    assert roles.kube_system == ()


def test_worker_pools_are_a_matter_of_the_own_namespace_unless_the_scope_is_the_cluster() -> None:
    def about_pools(rules: tuple[rbac.Rule, ...]) -> bool:
        return any("workerpools" in rule["resources"] for rule in rules)

    narrow, wide = made_roles(), made_roles(everywhere=True)
    assert (about_pools(narrow.cluster), about_pools(narrow.own_namespace)) == (False, True)
    assert (about_pools(wide.cluster), about_pools(wide.own_namespace)) == (True, False)
    assert ("sluice.dev", "scopes", "watch", "") in rights(narrow.cluster)


def test_leases_of_other_autoscalers_are_listed_and_our_own_alone_is_held() -> None:
    group = "coordination.k8s.io"
    roles = made_roles(["capacity"])
    assert [verb for _, what, verb, _ in rights(roles.cluster) if what == "leases"] == ["list"]
    assert set(rights(roles.kube_system)) == {
        (group, "leases", "create", ""),
        (group, "leases", "get", "sluice"),
        (group, "leases", "patch", "sluice"),
    }


@pytest.mark.accept("S6")
def test_operators_of_the_whole_cluster_meet_on_leases_of_their_classes_alone() -> None:
    roles = made_roles(["workers"], everywhere=True, classes=("heavy",))
    group = "coordination.k8s.io"
    assert set(rights(roles.kube_system)) == {
        (group, "leases", "create", ""),
        (group, "leases", "get", ""),  # whether operators of other classes live
        (group, "leases", "get", "sluice-workers.heavy"),
        (group, "leases", "patch", "sluice-workers.heavy"),
    }
    assert not [right for right in rights(roles.cluster) if right[1] == "leases"]


def test_an_operator_of_one_namespace_has_no_rights_in_kubernetes_own() -> None:
    roles = made_roles(["workers"], classes=("heavy",))
    assert roles.kube_system == ()
    leases = {right for right in rights(roles.own_namespace) if right[1] == "leases"}
    group = "coordination.k8s.io"
    assert leases == {
        (group, "leases", "create", ""),
        (group, "leases", "get", ""),
        (group, "leases", "get", "sluice-workers.heavy"),
        (group, "leases", "patch", "sluice-workers.heavy"),
    }


def test_whoever_views_a_namespace_sees_all_kinds_and_changes_none() -> None:
    role = rbac.people_roles()[rbac.VIEW]
    granted = rights(role.rules)
    assert {verb for _, _, verb, _ in granted} == {"get", "list", "watch"}
    seen = {resource for _, resource, _, _ in granted}
    assert {kind.definition.plural for kind in resources.KINDS} <= seen
    assert "workloads/status" in seen
    assert aggregates(role) == {"view", "edit", "admin"}


def test_whoever_edits_a_namespace_writes_what_people_write_there() -> None:
    role = rbac.people_roles()[rbac.EDIT]
    granted = rights(role.rules)
    assert {resource for _, resource, _, _ in granted} == {"workerpools", "workerpools/scale", "workloads"}
    assert {verb for _, resource, verb, _ in granted if resource == "workloads"} == {"patch"}
    assert {verb for _, resource, verb, _ in granted if resource == "workerpools"} == {
        "create",
        "delete",
        "deletecollection",
        "patch",
        "update",
    }
    assert aggregates(role) == {"edit", "admin"}


@pytest.mark.accept("S23")
def test_queues_are_written_by_admins_of_a_namespace_and_not_by_its_editors() -> None:
    role = rbac.people_roles()[rbac.ADMIN]
    assert {resource for _, resource, _, _ in rights(role.rules)} == {"localqueues"}
    assert {verb for _, _, verb, _ in rights(role.rules)} == {"create", "delete", "deletecollection", "patch", "update"}
    assert aggregates(role) == {"admin"}


@pytest.mark.accept("U1", part="a role for readers of plans")
def test_whoever_reads_plans_reads_what_plan_and_explain_do_and_reaches_the_runtimes_pods_alone() -> None:
    role = rbac.people_roles()[rbac.PLAN]
    granted = rights(role.rules)
    assert {verb for _, _, verb, _ in granted} == {"get", "list"}
    assert ("coordination.k8s.io", "leases", "list", "") in granted
    assert ("", "pods", "list", "") in granted
    of_volumes = [kinds.CLAIMS, kinds.VOLUMES, kinds.STORAGE_CLASSES, kinds.CSI_NODES]
    assert {(kind.group, kind.plural, "list", "") for kind in of_volumes} <= set(granted)
    seen = {resource for _, resource, _, _ in granted}
    assert not seen & {"secrets", "configmaps", "pods/proxy", "pods/exec", "pods/log"}
    assert aggregates(role) == set()
    assert rights(rbac.plan_proxy()) == [("", "pods/proxy", "get", "")]


@pytest.mark.parametrize("kind", rbac.WRITTEN_BY_THE_RUNTIME)
def test_nobody_is_given_the_right_to_write_what_the_runtime_writes_but_to_patch_workloads(kind: Any) -> None:
    writes = {
        (resource, verb)
        for role in rbac.people_roles().values()
        for _, resource, verb, _ in rights(role.rules)
        if verb not in {"get", "list", "watch"}
    }
    got = [(resource, verb) for resource, verb in writes if resource.startswith(kind.definition.plural)]
    assert got == ([("workloads", "patch")] if kind in rbac.PATCHED_BY_EDITORS else [])


def aggregates(role: rbac.PeopleRole) -> set[str]:
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    return {
        key.removeprefix(prefix) for key, value in role.labels.items() if key.startswith(prefix) and value == "true"
    }
