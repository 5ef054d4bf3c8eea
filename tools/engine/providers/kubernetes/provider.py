"""The stand-in for the Kubernetes provider: what the real one was seen to do, on the real API server of a plane.

It creates by POST, so an object that is already there is an error, unless the provider upserts. It updates by
server-side apply under a manager of its own, without force, so a field that another manager wrote is an error; a
definition of custom resources is replaced by PUT. It waits until objects are well; one that is not in time stays in the
state and the next `up` tends to it. A delete waits until the object is gone.

An update is previewed by a dry run: the server checks it against what it has now, so a field that only the next
definition will have is an error already in the preview. Nothing is sent for unknown values and for kinds that are not
served yet; who cannot reach the cluster, or may not write to it, previews by the inputs. (The real one tries creations
as well; this one makes no call for them.)
"""

import contextlib
import http.client
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from tools.engine.providers import calls, journal, wire
from tools.engine.providers.kubernetes import client, objects, ownership, readiness, settings

WAIT_SECONDS = 600.0
TAKE_OVER_ATTEMPTS = 5


class Kubernetes:
    """One provider resource of the program."""

    name = "kubernetes"
    identity = frozenset({"clusterIdentifier"})

    def __init__(self, version: str, book: journal.Journal) -> None:
        self.version = version
        self._journal = book
        self._cancelled = threading.Event()
        self._options = settings.Settings.of({})
        self._client = client.Client(self._options, book)

    def configure(self, settings_given: wire.Properties) -> None:
        self._options = settings.Settings.of(settings_given)
        self._client = client.Client(self._options, self._journal)

    def cancel(self) -> None:
        self._cancelled.set()

    def check(self, asked: calls.Check) -> calls.Checked:
        return objects.check(asked)

    def diff(self, asked: calls.Diff) -> calls.Difference:
        kinds = {"ConfigMap": self._options.mutable_config_maps, "Secret": self._options.mutable_secrets}
        return objects.difference(asked, frozenset(kind for kind, is_mutable in kinds.items() if is_mutable))

    def create(self, asked: calls.Create) -> calls.State:
        if asked.preview:
            return calls.State(id="", outputs=objects.preview_outputs(asked.inputs))
        patch = objects.is_patch(asked.resource.type, asked.inputs["kind"])
        manager = objects.annotation(asked.inputs, objects.PATCH_MANAGER) or f"pulumi-kubernetes-{secrets.token_hex(4)}"
        body = objects.manifest(asked.inputs, patch=patch)
        path = self._path(body)
        if patch:
            client.required(
                self._client.send("GET", _item(path, body)),
                f"cannot patch {_called(body)}, because it must exist already",
            )
        if patch or self._options.upsert:
            live = self._apply(path, body, manager, force=self._is_forced(asked.inputs))
        else:
            answer = self._client.send("POST", path, body, query={"fieldManager": manager})
            live = client.required(answer, f"cannot create {_called(body)}")
        return self._settled(asked, live, manager)

    def read(self, asked: calls.Read) -> calls.State | None:
        live = self._live(asked.old_outputs or asked.old_inputs)
        if live is None:
            return None
        manager = str(asked.old_outputs.get(objects.MANAGER, ""))
        return calls.State(
            id=_identifier(live),
            outputs=objects.outputs(live, asked.old_inputs, manager),
            inputs=objects.inputs_now(asked.old_inputs, live),
        )

    def update(self, asked: calls.Update) -> calls.State:
        manager = str(asked.old_outputs.get(objects.MANAGER) or f"pulumi-kubernetes-{secrets.token_hex(4)}")
        if asked.preview:
            return self._foreseen(asked, manager)
        return self._settled(asked, self._changed(asked, manager), manager)

    def delete(self, asked: calls.Delete) -> None:
        body = objects.manifest(asked.old_outputs, patch=False)
        path = self._client.path(body, patient=False)
        if path is None:
            return  # its definition is gone, and all objects with it
        if objects.is_patch(asked.resource.type, body["kind"]):
            self._relinquish(path, body, str(asked.old_outputs[objects.MANAGER]))
            return
        answer = self._client.send("DELETE", _item(path, body), {"propagationPolicy": "Foreground"})
        if answer.status == http.client.NOT_FOUND:
            return
        client.required(answer, f"cannot delete {_called(body)}")
        uid = body["metadata"].get("uid")
        reason = self._wait(lambda: self._remnant(_item(path, body), uid), asked.timeout_seconds)
        if reason is not None:
            raise calls.RefusedError(f"cannot delete {_called(body)}: {reason}")

    def _foreseen(self, asked: calls.Update, manager: str) -> calls.State:
        """Ask the server what an update would make of the object; where it cannot be asked, go by the inputs."""
        if wire.is_known(asked.inputs) and self._can_be_asked(asked.inputs):
            with contextlib.suppress(client.ForbiddenError):  # who may only read may preview
                live = self._changed(asked, manager)
                return calls.State(id=asked.id, outputs=objects.outputs(live, asked.inputs, manager))
        return calls.State(id=asked.id, outputs=objects.preview_outputs(asked.inputs, asked.old_outputs))

    def _can_be_asked(self, inputs: Mapping[str, wire.Value]) -> bool:
        """Tell whether there is a server, and it serves this kind."""
        try:
            return self._client.path(objects.manifest(inputs, patch=False), patient=False) is not None
        except calls.RefusedError:
            return False

    def _changed(self, asked: calls.Update, manager: str) -> dict[str, Any]:
        """Send an update and return the object as it is then, or as it would be where this is a preview."""
        patch = objects.is_patch(asked.resource.type, asked.inputs["kind"])
        body = objects.manifest(asked.inputs, patch=patch)
        path = self._path(body)
        dry_run = client.DRY_RUN if asked.preview else {}
        if readiness.is_definition(body):
            return self._replace(_item(path, body), body, {"fieldManager": manager, **dry_run})
        if not self._options.server_side_apply and not patch:
            merge = _merge_patch(objects.manifest(asked.old_inputs, patch=False), body)
            query = {"fieldManager": manager, **dry_run}
            answer = self._client.send("PATCH", _item(path, body), merge, content_type=client.MERGE, query=query)
            return client.required(answer, f"cannot update {_called(body)}")
        forced = self._is_forced(asked.inputs)
        if asked.preview:
            entries = self._entries(_item(path, body), body)
            # What the update itself will take over first must not look like a conflict.
            forced = forced or (not patch and ownership.taken_over(entries, manager, body["apiVersion"]) is not None)
        else:
            entries = self._take_over(_item(path, body), manager, str(body["apiVersion"]), may_take=not patch)
        body = ownership.without_foreign(body, asked.ignored, entries, manager)
        return self._apply(path, body, manager, force=forced, more=dry_run)

    def _replace(self, item: str, body: dict[str, Any], query: Mapping[str, str]) -> dict[str, Any]:
        """Put an object in the place of the one that is there."""
        live = client.required(self._client.send("GET", item), f"cannot update {_called(body)}")
        metadata = body["metadata"] | {"resourceVersion": live["metadata"]["resourceVersion"]}
        answer = self._client.send("PUT", item, body | {"metadata": metadata}, query=query)
        return client.required(answer, f"cannot update {_called(body)}")

    def _entries(self, item: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        live = client.required(self._client.send("GET", item), f"cannot update {_called(body)}")
        entries: list[dict[str, Any]] = live["metadata"].get("managedFields", [])
        return entries

    def _settled(self, asked: calls.Create | calls.Update, live: dict[str, Any], manager: str) -> calls.State:
        """Wait until the object is well, then return it; or say what it lacks, with the state to keep."""
        latest = [live]

        def problem() -> str | None:
            latest[0] = self._live(live) or live
            return self._problem(latest[0])

        reason = None
        if objects.annotation(asked.inputs, objects.SKIP_AWAIT) != "true" and readiness.is_waited_for(live):
            reason = self._wait(problem, asked.timeout_seconds)
        state = calls.State(
            id=_identifier(live), outputs=objects.outputs(latest[0], asked.inputs, manager), inputs=asked.inputs
        )
        if reason is not None:
            raise calls.UnhealthyError(state, [f"{_called(live)} was made but is not well: {reason}"])
        return state

    def _problem(self, live: Mapping[str, Any]) -> str | None:
        found = readiness.problem(live)
        if found is not None:
            return found
        if readiness.needs_endpoints(live) and not self._has_endpoints(live):
            return "no pod stands behind it"
        for path in readiness.served_paths(live):
            if not self._client.send("GET", path, query={"limit": "1"}).ok:
                return f"{path} is not served"
        return None

    def _has_endpoints(self, live: Mapping[str, Any]) -> bool:
        metadata = live["metadata"]
        path = f"/apis/discovery.k8s.io/v1/namespaces/{metadata['namespace']}/endpointslices"
        query = {"labelSelector": f"kubernetes.io/service-name={metadata['name']}"}
        slices = client.required(self._client.send("GET", path, query=query), "cannot list endpoints")["items"]
        return any(
            endpoint.get("conditions", {}).get("ready") for each in slices for endpoint in each.get("endpoints") or ()
        )

    def _wait(self, problem: Callable[[], str | None], timeout_seconds: float | None) -> str | None:
        """Poll until there is no problem; return the last one if time runs out."""
        seconds = timeout_seconds or WAIT_SECONDS
        deadline = time.monotonic() + seconds
        while True:
            try:
                found = problem()
            except readiness.HopelessError as error:
                return str(error)
            if found is None:
                return None
            if time.monotonic() >= deadline:
                return f"{found} after {seconds:g} s"
            if self._cancelled.wait(client.POLL_SECONDS):
                return f"{found}, and the engine was stopped"

    def _remnant(self, item: str, uid: str | None) -> str | None:
        """Say why an object is still there, or None if it is gone."""
        answer = self._client.send("GET", item)
        if answer.status == http.client.NOT_FOUND or (answer.ok and uid and answer.body["metadata"]["uid"] != uid):
            return None
        finalizers = answer.body.get("metadata", {}).get("finalizers") if isinstance(answer.body, dict) else None
        return f"it is still there, held by the finalizers {finalizers}" if finalizers else "it is still there"

    def _apply(
        self, path: str, body: dict[str, Any], manager: str, *, force: bool, more: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        answer = self._client.send(
            "PATCH",
            _item(path, body),
            body,
            content_type=client.APPLY,
            query={"fieldManager": manager, "force": "true" if force else "false", **(more or {})},
        )
        return client.required(answer, f"cannot apply {_called(body)}")

    def _take_over(self, item: str, manager: str, api_version: str, *, may_take: bool) -> list[dict[str, Any]]:
        """Make what our POST, or kubectl, wrote the applier's; return the entries as they are then."""
        for _ in range(TAKE_OVER_ATTEMPTS):
            answer = self._client.send("GET", item)
            if not answer.ok:
                return []
            metadata = answer.body["metadata"]
            entries: list[dict[str, Any]] = metadata.get("managedFields", [])
            taken = ownership.taken_over(entries, manager, api_version) if may_take else None
            if taken is None:
                return entries
            patch = [
                {"op": "replace", "path": "/metadata/managedFields", "value": taken},
                {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
            ]
            if self._client.send("PATCH", item, patch, content_type=client.JSON_PATCH).ok:
                return taken
        raise calls.RefusedError(f"cannot update {item}: it changed {TAKE_OVER_ATTEMPTS} times meanwhile; try again")

    def _relinquish(self, path: str, body: dict[str, Any], manager: str) -> None:
        """Let go of a patch's fields: apply none of them. The object stays."""
        if self._client.send("GET", _item(path, body)).status == http.client.NOT_FOUND:
            return
        identity = {name: body["metadata"][name] for name in ("name", "namespace") if name in body["metadata"]}
        nothing = {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": identity}
        self._apply(path, nothing, manager, force=False)

    def _live(self, known: Mapping[str, wire.Value]) -> dict[str, Any] | None:
        body = objects.manifest(known, patch=False)
        path = self._client.path(body, patient=False)
        if path is None:
            return None
        answer = self._client.send("GET", _item(path, body))
        if answer.status == http.client.NOT_FOUND:
            return None
        return client.required(answer, f"cannot read {_called(body)}")

    def _path(self, body: Mapping[str, Any]) -> str:
        path = self._client.path(body)
        if path is None:
            raise calls.RefusedError(
                f"cannot make {_called(body)}: the cluster serves no {body['kind']} in {body['apiVersion']}; "
                "is its definition there, and does this resource depend on it?"
            )
        return path

    def _is_forced(self, inputs: Mapping[str, wire.Value]) -> bool:
        chosen = objects.annotation(inputs, objects.PATCH_FORCE)
        return self._options.patch_force if chosen is None else chosen == "true"


def _item(path: str, body: Mapping[str, Any]) -> str:
    return f"{path}/{body['metadata']['name']}"


def _identifier(live: Mapping[str, Any]) -> str:
    metadata = live["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def _called(body: Mapping[str, Any]) -> str:
    metadata = body.get("metadata", {})
    name = metadata.get("name") or metadata.get("generateName")
    return f"{body['kind']} {metadata['namespace']}/{name}" if metadata.get("namespace") else f"{body['kind']} {name}"


def _merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that leads from old to new inputs."""
    patch: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            below = _merge_patch(before, value)
            if below:
                patch[name] = below
        elif value != before:
            patch[name] = value
    return patch
