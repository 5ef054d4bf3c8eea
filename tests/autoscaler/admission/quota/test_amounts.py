"""How people read amounts."""

import pytest

from autoscaler.admission.quota import amounts

pytestmark = pytest.mark.accept("U4", part="amounts in units people use")


@pytest.mark.parametrize(
    ("resource", "amount", "want"),
    [
        ("cpu", 2000, "2 cpu"),
        ("cpu", 2500, "2.5 cpu"),
        ("cpu", 1, "0.001 cpu"),
        ("cpu", 0, "0 cpu"),
        ("memory", 8 << 30, "8Gi memory"),
        ("memory", 1 << 60, "1Ei memory"),
        ("memory", 1536 << 20, "1536Mi memory"),
        ("memory", 1000, "1000 memory"),
        ("memory", 0, "0 memory"),
        ("nvidia.com/gpu", 3, "3 nvidia.com/gpu"),
        ("nvidia.com/gpu", 1024, "1024 nvidia.com/gpu"),
        ("hugepages-2Mi", 4 << 20, "4Mi hugepages-2Mi"),
    ],
)
def test_an_amount_is_worded_as_people_write_it(resource: str, amount: int, want: str) -> None:
    assert amounts.worded(resource, amount) == want
