"""What `status` prints: the numbers of each kind, who waits, and what conditions say is wrong."""

import json
from typing import Any

import msgspec

from autoscaler import clock
from autoscaler.api import keys, resources
from autoscaler.kube import objects
from autoscaler.runtime.commands import status_tables
from autoscaler.runtime.commands.status_tables import Seen
from tests import builders
from tests.autoscaler.capacity import seen as capacity

NOW = 1_782_799_200.0


def condition(kind: str, holds: str, reason: str = "Because", message: str = "it is so") -> dict[str, Any]:
    at = "2026-06-30T06:00:00Z"
    return {"type": kind, "status": holds, "reason": reason, "message": message, "lastTransitionTime": at}


def made(model: Any, name: str, spec: dict[str, Any], status: dict[str, Any], namespace: str = "") -> Any:
    body = builders.resource(model.__name__, name=name)
    body["metadata"] |= {"uid": name, "resourceVersion": "1", **({"namespace": namespace} if namespace else {})}
    raw = json.dumps({**body, "spec": {**body["spec"], **spec}, "status": status})
    return objects.custom(model)(msgspec.Raw(raw.encode()))


POOL = made(
    resources.InstancePool,
    "spot",
    {"limits": {"maxActiveInstances": 40, "targetMaxSecondsPerMonth": 36_000}},
    {"activeInstances": 12, "month": "2026-06", "secondsThisMonth": 9_000, "costThisMonth": "12.50"},
)
SCOPE = made(
    resources.Scope, "builds", {"pools": [{"name": "spot"}]}, {"pools": [{"name": "spot", "secondsThisMonth": 7200}]}
)


def rows(text: str, title: str) -> list[list[str]]:
    part = text.partition(f"\n{title}\n")[2].partition("\n\n")[0]
    return [[cell for cell in line.split("  ") if cell] for line in part.splitlines()]


def waiting(name: str, namespace: str, since: float, *gates: str) -> objects.Pod:
    metadata = {"namespace": namespace, "creationTimestamp": clock.to_rfc3339(since)}
    return capacity.pod(name, metadata=metadata, schedulingGates=[{"name": gate} for gate in gates])


def test_pools_show_what_they_have_and_may_have() -> None:
    (head, row) = rows(status_tables.text(Seen(at=NOW, pools=(POOL,))), "Instance pools")
    assert [cell.strip() for cell in head] == [
        "POOL",
        "INSTANCES",
        "AT MOST",
        "MONTH HOURS",
        "OF HOURS",
        "MONTH COST",
        "OF COST",
    ]
    assert [cell.strip() for cell in row] == ["spot", "12", "40", "2.5", "10.0", "12.50", "-"]


def test_pods_that_wait_are_counted_by_scope_and_those_behind_gates_apart() -> None:
    pods = (
        waiting("a", "team", NOW - 90),
        waiting("b", "team", NOW - 30, "sluice.dev/quota"),
        waiting("c", "elsewhere", NOW - 10),
    )
    namespaces = {"team": {keys.SCOPE: "builds"}, "elsewhere": {keys.SCOPE: "gone"}}
    said = json.loads(status_tables.as_json(Seen(at=NOW, scopes=(SCOPE,), waiting=pods, namespaces=namespaces)))
    assert said["scopes"] == [
        {"scope": "builds", "podsWaiting": 1, "behindGates": 1, "oldest": "1 min 30 s", "monthHours": 2.0},
        {"scope": "none", "podsWaiting": 1, "behindGates": 0, "oldest": "10 s", "monthHours": None},
    ]


def test_what_conditions_say_is_wrong_is_told_and_what_is_well_is_not() -> None:
    states = [
        condition("Ready", "False", "NoAccount", "no such account"),
        condition("UpToDate", "False"),
        condition("WithinBudget", "True"),
    ]
    sick = made(resources.InstancePool, "sick", {}, {"conditions": states})
    paused = made(resources.WorkerPool, "encode", {}, {"conditions": [condition("RuntimePaused", "True")]}, "team")
    told = json.loads(status_tables.as_json(Seen(at=NOW, pools=(sick, POOL), worker_pools=(paused,))))["trouble"]
    assert [(each["kind"], each["name"], each["reason"]) for each in told] == [
        ("workerpool", "team/encode", "Because"),
        ("instancepool", "sick", "NoAccount"),
    ]
    assert "instancepool sick: NoAccount: no such account" in status_tables.text(Seen(at=NOW, pools=(sick,)))


def test_quota_and_machines_are_shown_by_what_is_used() -> None:
    flavors = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "32"}]}]
    queue = made(
        resources.ClusterQueue,
        "research",
        {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}]},
        {"pending": 3, "admitted": 2, "usage": [{"name": "f", "resources": [{"name": "cpu", "total": "12"}]}]},
    )
    usage = {"maximum": 4, "reserved": 1, "used": 2, "waiting": 1}
    machine = made(resources.Machine, "desk", {}, {"availableMachines": [{"name": "small", "usage": usage}]})
    text = status_tables.text(Seen(at=NOW, queues=(queue,), machines=(machine,)))
    assert [cell.strip() for cell in rows(text, "ClusterQueues")[1]] == ["research", "-", "3", "2", "cpu 12 of 32"]
    assert [cell.strip() for cell in rows(text, "Machines")[1]] == ["desk", "small", "4", "1", "2", "1"]


def test_a_system_of_which_nothing_can_be_read_says_so() -> None:
    text = status_tables.text(Seen(at=NOW, unread=("pods: forbidden",)))
    assert "led by nobody: does the runtime run?" in text
    assert text.endswith("Not read: pods: forbidden")


def test_a_pod_of_a_clock_that_is_ahead_waits_since_now() -> None:
    seen = Seen(at=NOW, waiting=(waiting("a", "x", NOW + 500),))
    assert rows(status_tables.text(seen), "Scopes, and pods without a node")[1][3].strip() == "0 s"
