"""Ray's operator is started once its definitions are served, and listens on loopback alone."""

from pathlib import Path
from typing import Any

import pytest

from tools.local import api, kuberay

WHOLE: dict[str, Any] = {
    "metadata": {"name": "things.ray.io"},
    "spec": {
        "group": "ray.io",
        "names": {"plural": "things"},
        "versions": [{"name": "v1", "storage": True}, {"name": "v1alpha1", "storage": False}],
    },
}


class FakeClient:
    """Answers with what it is told, by method and path, the last one for ever, and remembers what was asked."""

    def __init__(self, **answers: list[api.Response]) -> None:
        self.asked: list[str] = []
        self._answers = answers

    def request(self, method: str, path: str, body: Any = None, query: object = None) -> api.Response:
        del body, query
        self.asked.append(f"{method} {path}")
        left = self._answers[path.rpartition("/")[2]]
        return left.pop(0) if len(left) > 1 else left[0]


def answer(status: int, body: object = None) -> api.Response:
    return api.Response(status=status, body=body)


def listing(*names: str) -> api.Response:
    return answer(200, {"resources": [{"name": name} for name in names]})


def test_the_operator_listens_on_loopback_alone_and_leads_at_once() -> None:
    arguments = kuberay.arguments(Path("/plane/pki/kubeconfig"))
    assert "-kubeconfig=/plane/pki/kubeconfig" in arguments
    assert "-enable-leader-election=false" in arguments
    addresses = [argument.partition("=")[2] for argument in arguments if "addr" in argument]
    assert addresses == ["127.0.0.1:0", "127.0.0.1:0"]


def test_only_the_stored_version_is_kept() -> None:
    assert [version["name"] for version in kuberay.stored_alone(WHOLE)["spec"]["versions"]] == ["v1"]
    assert len(WHOLE["spec"]["versions"]) == 2


def test_a_definition_that_is_there_already_is_fine_and_another_refusal_is_not() -> None:
    there = FakeClient(customresourcedefinitions=[answer(409)])
    kuberay.create(there, [WHOLE, WHOLE])  # type: ignore[arg-type]
    assert len(there.asked) == 2
    with pytest.raises(api.RefusedError, match="403"):
        kuberay.create(FakeClient(customresourcedefinitions=[answer(403, "no")]), [WHOLE])  # type: ignore[arg-type]


def test_a_kind_is_served_once_it_is_listed_and_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kuberay, "POLL_SECONDS", 0)
    groups = [answer(404), listing("others"), listing("others", "things")]
    client = FakeClient(v1=groups, things=[answer(404), answer(200)])
    kuberay.wait_until_served(client, [WHOLE])  # type: ignore[arg-type]
    things = "GET /apis/ray.io/v1/things"
    assert client.asked == [*["GET /apis/ray.io/v1"] * 3, things, "GET /apis/ray.io/v1", things]


def test_a_kind_that_is_never_served_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kuberay, "POLL_SECONDS", 0)
    monkeypatch.setattr(kuberay, "SERVED_SECONDS", 0)
    with pytest.raises(api.ApiError, match=r"things\.ray\.io"):
        kuberay.wait_until_served(FakeClient(v1=[answer(404)]), [WHOLE])  # type: ignore[arg-type]


def test_kinds_that_nobody_uses_may_hold_anything() -> None:
    definition = kuberay.unchecked("RayJob", "rayjobs")
    [version] = definition["spec"]["versions"]
    assert version["schema"]["openAPIV3Schema"]["x-kubernetes-preserve-unknown-fields"] is True
    assert definition["metadata"]["name"] == "rayjobs.ray.io"
