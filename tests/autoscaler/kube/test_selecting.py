"""Selectors and tolerations read as Kubernetes documents them."""

import pytest

from autoscaler.kube import objects, selecting, wire


@pytest.mark.parametrize(
    ("operator", "values", "value", "want"),
    [
        ("In", ("a", "b"), "a", True),
        ("In", ("a",), None, False),
        ("NotIn", ("a",), "b", True),
        ("NotIn", ("a",), None, True),
        ("NotIn", ("a",), "a", False),
        ("Exists", (), "", True),
        ("Exists", (), None, False),
        ("DoesNotExist", (), None, True),
        ("DoesNotExist", (), "x", False),
        ("Gt", ("9",), "10", True),
        ("Gt", ("10",), "10", False),
        ("Gt", ("1",), "x", False),
        ("Gt", ("1",), None, False),
        ("Lt", ("10",), "9", True),
        ("Lt", ("x",), "9", False),
    ],
)
def test_operators(operator: str, values: tuple[str, ...], value: str | None, want: bool) -> None:  # noqa: FBT001
    assert selecting.holds(wire.Requirement(key="k", operator=operator, values=values), value) is want


def test_an_empty_selector_takes_all_and_an_absent_one_nothing() -> None:
    assert selecting.labels_match(wire.LabelSelector(), {"a": "b"})
    assert not selecting.labels_match(None, {"a": "b"})


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        (wire.Toleration(key="k", value="v"), True),
        (wire.Toleration(key="k", value="w"), False),
        (wire.Toleration(key="k", operator="Exists"), True),
        (wire.Toleration(operator="Exists"), True),
        (wire.Toleration(operator="Equal", value="v"), False),
        (wire.Toleration(key="k", value="v", effect="NoExecute"), False),
        (wire.Toleration(key="k", value="v", effect="NoSchedule"), True),
    ],
)
def test_tolerations(toleration: wire.Toleration, want: bool) -> None:  # noqa: FBT001
    taint = objects.NodeTaint("k", "v", "NoSchedule")
    assert (selecting.untolerated((taint,), (toleration,)) is None) is want
