"""Names derived from the longest legal names are still legal."""

import hashlib
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autoscaler.api import names

LONGEST = "c" * names.OBJECT_NAME_MAX
SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
CLASSES = st.none() | st.one_of(
    st.from_regex(SUBDOMAIN, fullmatch=True).filter(lambda name: len(name) <= names.OBJECT_NAME_MAX),
    st.builds(lambda sign, length: sign * length, st.sampled_from("ab0"), st.integers(230, names.OBJECT_NAME_MAX)),
)


@pytest.mark.parametrize(
    ("number", "want"), [(1, "gpu-001"), (42, "gpu-042"), (999, "gpu-999"), (1000, "gpu-1000"), (12345, "gpu-12345")]
)
def test_instances_are_numbered_with_three_digits_or_more(number: int, want: str) -> None:
    assert names.instance("gpu", number) == want


def test_the_longest_instance_name_fits_a_label() -> None:
    longest = names.instance("p" * names.INSTANCE_POOL_MAX, names.INSTANCE_NUMBER_MAX)
    assert len(longest) == names.LABEL_VALUE_MAX


def test_the_longest_worker_pod_name_fits_a_hostname() -> None:
    assert names.WORKER_POOL_MAX + 1 + names.POD_SUFFIX_LENGTH == names.LABEL_VALUE_MAX


def test_names_after_a_machine() -> None:
    assert names.machine_node_pool("general-machine") == "general-machine-node-pool"
    assert names.stateful_set("compute-xlarge", "general-machine") == "compute-xlarge-general-machine"


@pytest.mark.parametrize(("name", "want"), [(None, "sluice-workers"), ("heavy", "sluice-workers.heavy")])
def test_a_lease_is_named_after_its_class(name: str | None, want: str) -> None:
    assert names.worker_lease(name) == want


@given(CLASSES)
@example(LONGEST)
def test_a_lease_is_named_legally_whatever_its_class(name: str | None) -> None:
    lease = names.worker_lease(name)
    assert len(lease) <= names.OBJECT_NAME_MAX
    assert re.fullmatch(SUBDOMAIN, lease)


@given(CLASSES, CLASSES)
@example("c" * 252 + "a", "c" * 252 + "b")
@example(LONGEST, hashlib.sha256(LONGEST.encode()).hexdigest())
def test_two_classes_never_share_a_lease(one: str | None, other: str | None) -> None:
    assert (names.worker_lease(one) == names.worker_lease(other)) == (one == other)
    assert names.worker_lease(one) != names.CLUSTER_LEASE
