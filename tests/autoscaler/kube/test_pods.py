"""Pods are found by node, owner, pool and, while they wait, by shape; and no longer when that changes."""

from typing import Any

import msgspec

from autoscaler.api import keys
from autoscaler.kube import objects, pods, store


def pod(version: int, *, spec: dict[str, Any] | None = None, **more: Any) -> objects.Pod:
    labels = {keys.WORKER_POOL: "cloudworkers"}
    owners = [{"apiVersion": "v1", "kind": "WorkerPool", "name": "cloudworkers", "uid": "o", "controller": True}]
    metadata = {
        "name": "p",
        "namespace": "n",
        "resourceVersion": str(version),
        "labels": labels,
        "ownerReferences": owners,
        **more.pop("metadata", {}),
    }
    return objects.pod(msgspec.json.encode({"metadata": metadata, "spec": spec or {}, **more}))


WAITING = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
SINCE = {"conditions": [{**WAITING["conditions"][0], "lastTransitionTime": "2026-11-16T06:00:00Z"}]}


def test_a_pod_moves_from_waiting_to_its_node() -> None:
    table: store.Table[objects.Pod] = store.Table()
    waiting, nodes = table.index(pods.unschedulable_shape), table.index(pods.node)
    table.seen(pod(1, status=SINCE))
    (shape,) = waiting
    assert len(waiting.get(shape)) == 1
    table.seen(pod(2, spec={"nodeName": "node-1"}, status=SINCE))
    assert len(waiting) == 0
    assert list(nodes) == ["node-1"]


def test_a_pod_that_is_leaving_or_has_ended_waits_no_more() -> None:
    table: store.Table[objects.Pod] = store.Table()
    waiting = table.index(pods.unschedulable_shape)
    table.seen(pod(1, status=SINCE, metadata={"deletionTimestamp": "2026-11-16T06:00:00Z"}))
    assert len(waiting) == 0
    table.seen(pod(2, status={**SINCE, "phase": "Failed"}))
    assert len(waiting) == 0


def test_a_pod_is_found_by_owner_and_pool() -> None:
    table: store.Table[objects.Pod] = store.Table()
    table.seen(pod(1))
    assert list(table.index(pods.owner)) == ["o"]
    assert list(table.index(pods.worker_pool)) == [objects.Key("n", "cloudworkers")]


def test_one_index_serves_all_who_ask() -> None:
    table: store.Table[objects.Pod] = store.Table()
    assert table.index(pods.node) is table.index(pods.node)
