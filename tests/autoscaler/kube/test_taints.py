"""A node's taints are written as they were read: a merge patch replaces the whole list."""

import msgspec

from autoscaler.kube import objects, taints

TAINTS = [
    {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
    {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:01Z"},
    {"key": "dedicated", "effect": "NoSchedule", "value": "gpu"},
]


def node(*given: dict[str, str]) -> objects.Node:
    return objects.node(msgspec.json.encode({"metadata": {"name": "n", "uid": "u"}, "spec": {"taints": given}}))


def test_taints_of_others_are_written_back_with_their_times() -> None:
    read = node(*TAINTS)
    assert taints.written(read.taints, read.tainted_at) == TAINTS


def test_an_empty_list_is_taken_away() -> None:
    assert taints.written((), {}) is None


def test_times_do_not_make_taints_differ() -> None:
    assert node(TAINTS[0]).taints == node({**TAINTS[0], "timeAdded": "2026-02-01T00:00:00Z"}).taints
