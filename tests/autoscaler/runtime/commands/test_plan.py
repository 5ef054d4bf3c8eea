"""The command asks the leaders through the API server, follows them, and says what is missing."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from autoscaler.control.plans import Command
from autoscaler.kube import port
from autoscaler.kube.leases import lease
from autoscaler.runtime.commands import plan
from autoscaler.runtime.plans.plan_document import Document, Section, State

NOW = 1_000_000.0
A, B = "sluice_a_0", "sluice_b_0"


def document(**leaders: str | None) -> bytes:
    """Write what a replica says that leads the controllers whose leader is called "me"."""
    sections = tuple(
        Section(controller=name, leader=leader, state=State.STANDBY)
        if leader != "me"
        else Section(
            controller=name, leader=leader, state=State.ACTING, commands=(Command(verb="a", what="b", why="c"),)
        )
        for name, leader in leaders.items()
    )
    return msgspec.json.encode(Document(at=datetime.fromtimestamp(NOW, UTC), controllers=sections))


def held(holder: str = A, name: str = "sluice", age_seconds: float = 0.0) -> dict[str, Any]:
    renewed = datetime.fromtimestamp(NOW - age_seconds, UTC).isoformat()
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
    return {"metadata": {"name": name, "namespace": "kube-system"}, "spec": spec}


def listed(*items: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": items})


def pod(name: str, namespace: str = "sluice-system") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "1"}}


class Server:
    """An API server that gives these answers: a body, or a refusal."""

    def __init__(self, answers: Mapping[str, bytes | tuple[int, bytes]]) -> None:
        self._answers = answers
        self.asked: list[str] = []

    async def send(self, request: port.Request) -> port.Response:
        assert request.method == "GET"
        path = "?".join([request.path, *request.query.get("fieldSelector", "").split("=")[1:]])
        self.asked.append(path)
        answer = self._answers.get(path, (404, b'{"reason": "NotFound", "message": "nothing there"}'))
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        return port.Response(status=status, body=body)

    def watch(self, path: str, query: Mapping[str, str]) -> Any:
        raise AssertionError((path, query))


LEASES = "/apis/coordination.k8s.io/v1/leases"
PODS = "/api/v1/pods"
FORBIDDEN = (403, b'{"reason": "Forbidden", "message": "user joe cannot"}')


def proxied(name: str, namespace: str = "sluice-system") -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}/proxy/plan"


def asked(answers: Mapping[str, bytes | tuple[int, bytes]], namespace: str | None = None) -> Document:
    return asyncio.run(plan.of_leaders(Server(answers), namespace, now=NOW))


def test_the_leader_is_asked_through_the_proxy_to_its_pod() -> None:
    found = asked(
        {LEASES: listed(held()), f"{PODS}?a": listed(pod("a")), proxied("a"): document(workers="me", capacity="me")}
    )
    assert [each.controller for each in found.controllers] == ["capacity", "workers"]


def test_every_lease_has_a_leader_of_its_own_and_whoever_leads_now_is_followed() -> None:
    found = asked(
        {
            LEASES: listed(held(A), held(A, "sluice-workers"), held("someone", "other"), held(B, "sluice", 60)),
            f"{PODS}?a": listed(pod("a")),
            f"{PODS}?b": listed(pod("b")),
            proxied("a"): document(workers="me", capacity=B),
            proxied("b"): document(workers=A, capacity="me"),
        }
    )
    assert [(each.controller, each.state) for each in found.controllers] == [
        ("capacity", State.ACTING),
        ("workers", State.ACTING),
    ]


def test_two_that_name_each_other_are_each_asked_once() -> None:
    answers = {proxied("a", "n"): document(workers=B), proxied("b", "n"): document(workers=A)}
    leases = f"{LEASES.removesuffix('leases')}namespaces/"
    there = {f"{leases}kube-system/leases": listed(held()), f"{leases}n/leases": listed(), **answers}
    found = asked(there, "n")
    assert [each.state for each in found.controllers] == [State.STANDBY]


@pytest.mark.parametrize(
    ("answers", "want"),
    [
        ({LEASES: listed()}, "nobody leads"),
        ({LEASES: listed(held(age_seconds=60))}, "nobody leads"),
        ({LEASES: FORBIDDEN}, "the right to list leases.coordination.k8s.io: user joe cannot"),
        ({LEASES: listed(held()), f"{PODS}?a": FORBIDDEN}, "the right to list pods in all namespaces"),
        ({LEASES: listed(held()), f"{PODS}?a": listed()}, "the leader a is no pod of this cluster: give .* --url"),
        ({LEASES: listed(held()), f"{PODS}?a": listed(pod("a"), pod("a", "x"))}, "give --namespace, one of sluice-sy"),
        (
            {LEASES: listed(held()), f"{PODS}?a": listed(pod("a")), proxied("a"): FORBIDDEN},
            "the right to get pods/proxy in namespace sluice-system: user joe cannot",
        ),
        ({LEASES: listed(held()), f"{PODS}?a": listed(pod("a")), proxied("a"): (404, b"404: Not Found")}, "too old"),
        ({LEASES: listed(held()), f"{PODS}?a": listed(pod("a"))}, "pod sluice-system/a could not be asked: 404"),
        (
            {LEASES: listed(held()), f"{PODS}?a": listed(pod("a")), proxied("a"): (503, b"not started: x")},
            "could not be asked: 503 : not started: x",
        ),
        ({LEASES: listed(held()), f"{PODS}?a": listed(pod("a")), proxied("a"): b"<html>"}, "gave no plan"),
        (
            {
                LEASES: listed(held()),
                f"{PODS}?a": listed(pod("a")),
                proxied("a"): b'{"version": 2, "at": "2026-11-17T17:20:03Z", "controllers": []}',
            },
            "gave a plan of version 2",
        ),
    ],
)
def test_what_is_missing_is_named(answers: Mapping[str, bytes | tuple[int, bytes]], want: str) -> None:
    with pytest.raises(plan.PlanError, match=want):
        asked(answers)


def test_only_leases_of_ours_that_are_held_have_holders() -> None:
    leases = [held(A), held(B, "sluice-workers.x"), held("c", "kube-scheduler"), held("d", "sluice", 60), held("")]
    decoded = [lease.decode(msgspec.Raw(msgspec.json.encode(each))) for each in leases]
    assert list(plan.holders(decoded, NOW)) == [A, B]
