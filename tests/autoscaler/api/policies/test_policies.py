"""Policies become two objects each, fail closed, and their twins say what they say."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from autoscaler.api import keys, policies, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base
from autoscaler.api.policies.machines import machine_group
from tests import builders


def by_kind(manifests: tuple[Manifest, ...]) -> dict[str, Manifest]:
    return {manifest["kind"]: manifest for manifest in manifests}


def test_every_policy_fails_closed_and_is_bound_under_its_own_name() -> None:
    for policy in policies.POLICIES:
        made, binding = policy.manifests()
        assert made["spec"]["failurePolicy"] == "Fail"
        assert binding["spec"]["policyName"] == made["metadata"]["name"] == policy.name
        assert made["metadata"]["labels"][keys.VERSION] == version.VERSION


def test_the_page_about_security_names_every_policy_that_refuses() -> None:
    page = (Path(__file__).parents[4] / "docs" / "security.md").read_text(encoding="utf-8")
    runtime = policies.Runtime(namespace="sluice-system", service_account="sluice")
    refusing = [each for each in policies.for_runtime(runtime) if isinstance(each, base.ValidatingPolicy)]
    want = {policy.name.removesuffix(f".{version.GROUP}") for policy in refusing}
    assert {name for name in want if f"`{name}`" not in page} == set()


@pytest.mark.parametrize(
    ("param", "want"),
    [
        (base.Param(api_version="v1", kind="ConfigMap", name="c", namespace="n"), {"name": "c", "namespace": "n"}),
        (base.Param(api_version=version.GROUP_VERSION, kind="Scope"), {"selector": {}}),
        (
            base.Param(api_version=version.GROUP_VERSION, kind="InstancePool", label="l"),
            {"selector": {"matchExpressions": [{"key": "l", "operator": "Exists"}]}},
        ),
    ],
)
def test_a_param_is_one_object_or_all_of_a_kind_or_those_with_a_label(param: base.Param, want: dict[str, Any]) -> None:
    policy = base.MutatingPolicy(
        name="p",
        match=base.Match(group="", version="v1", resources=("pods",), operations=(base.Operation.CREATE,)),
        patches=("[]",),
        param=param,
        twin=lambda request: request.object or {},
    )
    made, binding = policy.manifests()
    assert made["spec"]["paramKind"] == {"apiVersion": param.api_version, "kind": param.kind}
    assert binding["spec"]["paramRef"] == {**want, "parameterNotFoundAction": "Allow"}


def test_a_policy_with_params_about_pods_cannot_fail_where_it_is_not_asked_for() -> None:
    """A param that cannot be read denies; pods of other namespaces, the system's above all, must not depend on it."""
    scoped = {"key": keys.SCOPE, "operator": "Exists"}
    with_guests = {"key": keys.INJECT_RESOURCE, "operator": "In", "values": ["enabled"]}
    runtime = policies.Runtime(namespace="sluice-system", service_account="sluice")
    for policy in policies.for_runtime(runtime):
        if policy.param is not None and "pods" in policy.match.resources:
            made, _ = policy.manifests()
            want = with_guests if policy in policies.about_guests("sluice-system") else scoped
            assert made["spec"]["matchConstraints"]["namespaceSelector"] == {"matchExpressions": [want]}


@pytest.mark.parametrize(("warns", "want"), [(False, ["Deny"]), (True, ["Warn"])])
def test_a_validating_policy_denies_or_warns(*, warns: bool, want: list[str]) -> None:
    policy = dataclasses.replace(machine_group.POLICY, warns=warns)
    assert by_kind(policy.manifests())["ValidatingAdmissionPolicyBinding"]["spec"]["validationActions"] == want


def test_objects_that_a_selector_does_not_take_are_not_looked_at() -> None:
    match = dataclasses.replace(machine_group.POLICY.match, object_selector={"matchLabels": {"a": "b"}})
    made, _ = dataclasses.replace(machine_group.POLICY, match=match).manifests()
    assert made["spec"]["matchConstraints"]["objectSelector"] == {"matchLabels": {"a": "b"}}


def test_variables_keep_their_order() -> None:
    policy = base.ValidatingPolicy(
        name="p",
        match=base.Match(group="", version="v1", resources=("pods",), operations=(base.Operation.CREATE,)),
        variables={"second": "1", "first": "variables.second"},
        validations=(),
        twin=lambda _: None,
    )
    made, _ = policy.manifests()
    assert [each["name"] for each in made["spec"]["variables"]] == ["second", "first"]


@pytest.mark.accept("M8")
@pytest.mark.parametrize(
    ("metadata", "refused"),
    [
        ({"name": "general", "labels": {keys.MACHINE_GROUP: "general"}}, False),
        ({"name": "general", "labels": {keys.MACHINE_GROUP: "other"}}, True),
        ({"name": "general", "labels": {}}, True),
        ({"name": "general"}, True),
        ({"name": "general", "deletionTimestamp": "2026-11-16T06:00:00Z"}, False),
    ],
)
def test_a_machines_group_label_is_its_name(metadata: Manifest, *, refused: bool) -> None:
    machine = {**builders.resource("Machine"), "metadata": metadata}
    refusal = machine_group.POLICY.twin(base.Request(operation=base.Operation.CREATE, object=machine))
    assert (refusal is not None) == refused
