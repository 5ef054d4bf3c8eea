"""A guest of an unknown group or type is refused, with the known ones named."""

from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.api.policies.machines import machine_known
from tests.autoscaler.api.policies import machine_requests
from tests.autoscaler.api.policies.machine_requests import GUEST, pod, request

pytestmark = pytest.mark.accept("M2", part="unknown groups and types, in Python")
POLICY = machine_known.policy(machine_requests.NAMESPACE)


def refusal(group: str, machine_type: str, **fields: Any) -> str | None:
    labels = {keys.MACHINE_GROUP: group, keys.MACHINE_TYPE: machine_type}
    return POLICY.twin(request(pod(labels), **fields))


@pytest.mark.parametrize("group", ["nobody", "", "general.medium"])
def test_an_unknown_group_is_refused_with_the_groups_named(group: str) -> None:
    assert "the groups are: general, spare" in (refusal(group, "medium") or "")


@pytest.mark.parametrize("machine_type", ["huge", "", "medium.cpu"])
def test_an_unknown_type_is_refused_with_the_groups_types_named(machine_type: str) -> None:
    said = refusal("general", machine_type) or ""
    assert f"'{machine_type}'" in said
    assert "its types are: medium, slice, xlarge" in said


def test_what_is_known_or_no_guest_is_not_refused() -> None:
    assert refusal("general", "medium") is None
    assert refusal("nobody", "medium", namespace_labels={}) is None
    assert POLICY.twin(request(pod({**GUEST, keys.MACHINE_TYPE: "x", keys.POD_ROLE: "reservation"}))) is None


def test_a_catalogue_without_data_knows_nothing() -> None:
    assert "no machine group 'general'" in (refusal("general", "medium", param={"metadata": {}}) or "")
