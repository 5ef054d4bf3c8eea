"""Names derived from the longest legal names are still legal."""

import pytest

from autoscaler.api import names


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
