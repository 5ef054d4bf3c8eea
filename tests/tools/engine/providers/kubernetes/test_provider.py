"""Updates and their previews, as they are sent to the API server."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.tools.engine import builders
from tools.engine.providers import calls, journal, wire
from tools.engine.providers.kubernetes import objects
from tools.engine.providers.kubernetes.provider import Kubernetes
from tools.local import api

POOL = "kubernetes:sluice.dev/v1alpha1:InstancePool"
CRD = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"


@dataclasses.dataclass(slots=True, kw_only=True)
class FakeClient:
    """Remembers what is sent; a write is answered as told, or by the object as it would be."""

    live: Mapping[str, Any]
    refusal: api.Response | None = None
    is_served: bool = True
    sent: list[tuple[str, str, Any, dict[str, str]]] = dataclasses.field(default_factory=list)

    def path(self, body: Mapping[str, Any], *, patient: bool = True) -> str | None:
        del body, patient
        return "/things" if self.is_served else None

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> api.Response:
        del content_type
        if method == "GET":
            return api.Response(status=200, body=self.live)
        self.sent.append((method, path, body, dict(query or {})))
        return self.refusal or api.Response(status=200, body=dict(self.live) | dict(body))


def thing(kind: str, **fields: Any) -> dict[str, Any]:
    group = "sluice.dev/v1alpha1" if kind == "InstancePool" else "apiextensions.k8s.io/v1"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "x"}, **fields}


def previewed(tmp_path: Path, fake: FakeClient, resource_type: str, news: dict[str, Any]) -> calls.State:
    provider = Kubernetes("1.0.0", journal.Journal(tmp_path / "journal", "kubernetes"))
    provider._client = fake  # type: ignore[assignment]
    old = {**fake.live, objects.MANAGER: "ours"}
    return provider.update(builders.update(resource_type, old, news, outputs=old, preview=True))


def test_an_update_is_previewed_by_a_dry_run(tmp_path: Path) -> None:
    fake = FakeClient(live=thing("InstancePool", spec={"a": 1}))
    state = previewed(tmp_path, fake, POOL, thing("InstancePool", spec={"a": 2}))
    ((method, path, body, query),) = fake.sent
    assert (method, path, body["spec"]) == ("PATCH", "/things/x", {"a": 2})
    assert query == {"fieldManager": "ours", "force": "false", "dryRun": "All"}
    assert state.outputs["spec"] == {"a": 2}


def test_what_was_made_by_post_is_no_conflict_in_a_preview(tmp_path: Path) -> None:
    made = [{"manager": "ours", "operation": "Update", "fieldsV1": {"f:spec": {}}}]
    fake = FakeClient(live=thing("InstancePool", spec={"a": 1}, metadata={"name": "x", "managedFields": made}))
    previewed(tmp_path, fake, POOL, thing("InstancePool", spec={"a": 2}))
    ((_, _, _, query),) = fake.sent
    assert query["force"] == "true"


def test_a_definition_is_replaced_as_it_is_now(tmp_path: Path) -> None:
    fake = FakeClient(live=thing("CustomResourceDefinition", spec={}, metadata={"name": "x", "resourceVersion": "7"}))
    previewed(tmp_path, fake, CRD, thing("CustomResourceDefinition", spec={"a": 2}))
    ((method, _, body, query),) = fake.sent
    assert (method, body["metadata"]["resourceVersion"], query["dryRun"]) == ("PUT", "7", "All")


def test_a_refused_dry_run_fails_the_preview(tmp_path: Path) -> None:
    refusal = api.Response(status=500, body={"message": ".spec.a: field not declared in schema"})
    fake = FakeClient(live=thing("InstancePool", spec={}), refusal=refusal)
    with pytest.raises(calls.RefusedError, match="field not declared in schema"):
        previewed(tmp_path, fake, POOL, thing("InstancePool", spec={"a": 2}))


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"a": wire.UNKNOWN}, {}),
        ({"a": 2}, {"is_served": False}),
        ({"a": 2}, {"refusal": api.Response(status=403, body={"message": "forbidden"})}),
    ],
)
def test_who_cannot_ask_the_server_previews_by_the_inputs(
    tmp_path: Path, spec: dict[str, Any], fields: dict[str, Any]
) -> None:
    fake = FakeClient(live=thing("InstancePool", spec={"a": 1}), **fields)
    state = previewed(tmp_path, fake, POOL, thing("InstancePool", spec=spec))
    assert state.outputs["spec"] == spec
    assert not [query for *_, query in fake.sent if "dryRun" not in query]
