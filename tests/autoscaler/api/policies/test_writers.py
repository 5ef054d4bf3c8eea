"""Only the runtime's own ServiceAccount makes and deletes Workloads, deletes Instances and writes their status."""

import pytest

from autoscaler.api import policies
from autoscaler.api.policies import base, identities, writers

RUNTIME = identities.account_user("sluice-system", "sluice")


@pytest.mark.parametrize("username", ["", "admin", "system:serviceaccount:kube-system:job-controller"])
def test_others_are_told_who_may_and_what_to_do(username: str) -> None:
    for policy in writers.policies(RUNTIME):
        why = policy.twin(base.Request(operation=policy.match.operations[0], object=None, username=username))
        assert RUNTIME in (why or "")
        assert ": " in (why or "")


def test_the_runtime_may() -> None:
    for policy in writers.policies(RUNTIME):
        request = base.Request(operation=policy.match.operations[0], object=None, username=RUNTIME)
        assert policy.twin(request) is None


def test_the_writes_are_those_that_could_forge_quota_or_erase_an_account() -> None:
    got = {(policy.match.resources, policy.match.operations) for policy in writers.policies(RUNTIME)}
    create, delete = (base.Operation.CREATE,), (base.Operation.DELETE,)
    update = (base.Operation.UPDATE,)
    want = {(("workloads",), create), (("workloads",), delete), (("instances",), delete)}
    assert got == want | {(("instances/status",), update)}


@pytest.mark.parametrize("controller", ["generic-garbage-collector", "namespace-controller"])
def test_controllers_that_clear_away_delete_workloads_and_nothing_else(controller: str) -> None:
    username = f"system:serviceaccount:kube-system:{controller}"
    requests = [
        (policy, base.Request(operation=policy.match.operations[0], object=None, username=username))
        for policy in writers.policies(RUNTIME)
    ]
    allowed = [policy.name for policy, request in requests if policy.twin(request) is None]
    assert allowed == ["runtime-alone-deletes-workloads.sluice.dev"]


@pytest.mark.parametrize("resource", ["instances", "instances/status"])
def test_a_refusal_names_the_binding_that_an_administrator_would_delete(resource: str) -> None:
    (policy,) = (each for each in writers.policies(RUNTIME) if each.match.resources == (resource,))
    _, binding = policy.manifests()
    assert binding["metadata"]["name"] in policy.validations[0].message


def test_all_policies_have_names_of_their_own() -> None:
    runtime = policies.Runtime(namespace="sluice-system", service_account="sluice")
    assert runtime.user == RUNTIME
    names = [policy.name for policy in policies.for_runtime(runtime)]
    assert len(set(names)) == len(names) == len(policies.POLICIES) + 13
    assert len(policies.manifests(runtime)) == 2 * len(names)
