"""The simulated API server: reads a request, has it done, writes the answer."""

import http
from collections.abc import Mapping
from random import Random
from typing import Final

import msgspec

from autoscaler.api.manifests import Manifest
from autoscaler.clock import Clock
from autoscaler.kube import kinds, port
from autoscaler.simulation.cluster import definitions, failures, merging, paths, selectors, served
from autoscaler.simulation.cluster.admission import Admission, Policy
from autoscaler.simulation.cluster.kinds import pods
from autoscaler.simulation.cluster.paths import Target
from autoscaler.simulation.cluster.store import Entry, Key, Store
from autoscaler.simulation.cluster.verbs import deletes, evictions, reads, scales, watches, writes

_DECODER: Final = msgspec.json.Decoder()


VERSION_PATH: Final = "/version"
VERSION: Final = {"major": "1", "minor": "36", "gitVersion": "v1.36.4"}
"""The Kubernetes that the simulation is held to."""


class Server:
    """Everything that requests are done with. It has no identity, no connection and no faults: a client has."""

    def __init__(self, *, clock: Clock, random: Random, policies: tuple[Policy, ...]) -> None:
        self.clock = clock
        self.random = random
        self.store = Store()
        self.registry = served.Registry()
        for kind in self.registry:
            self.store.add_collection(kind.resource)
        self.admission = Admission(self.store, self.registry, policies)
        self.writes = writes.Writes(
            store=self.store, registry=self.registry, admission=self.admission, clock=clock, random=random
        )
        self.deletes = deletes.Deletes(store=self.store, admission=self.admission, clock=clock)
        self.reads = reads.Reads(self.store)
        self._evictions = evictions.Evictions(store=self.store, writes=self.writes, deletes=self.deletes, clock=clock)
        definitions.serve(self.store, self.registry)

    def handle(self, request: port.Request, user: str) -> port.Response:
        """Answer one request."""
        if request.path == VERSION_PATH:
            return port.Response(status=200, body=msgspec.json.encode(VERSION))
        try:
            return self._handle(request, user)
        except failures.Refusal as refusal:
            return refusal.response()

    def watch(self, path: str, query: Mapping[str, str], *, lag_seconds: float = 0.0) -> watches.Watch:
        """Open a watch; raise Refusal if there is nothing to watch."""
        target = paths.parse(path, self.registry)
        if target.name is not None:
            query = {**query, "fieldSelector": f"metadata.name={target.name}"}
        watch = watches.Watch(self.store, target.kind, target.namespace, query)
        watch.lag_seconds = lag_seconds
        watch.open(query, self.random)
        return watch

    def compact(self) -> None:
        """Forget the history: older watches and half-read lists must begin anew."""
        self.store.compact()
        self.reads.forget()

    def _handle(self, request: port.Request, user: str) -> port.Response:  # noqa: PLR0911  # one table of verbs
        target = paths.parse(request.path, self.registry)
        manner = writes.Manner(
            user=user,
            is_dry_run=request.query.get("dryRun") == "All",
            is_strict=request.query.get("fieldValidation") == "Strict",
            is_patch=request.method == "PATCH",
        )
        match request.method, target.name, target.subresource:
            case "GET", None, _:
                return self.reads.list(target.kind, target.namespace, request.query)
            case "GET", _, None | "status":
                return _answer(200, self._existing(target))
            case "POST", None, None:
                entry = self.writes.create(
                    target.kind.resource, _body(request), namespace=target.namespace, manner=manner
                )
                return _answer(201, entry)
            case (("PUT" | "PATCH"), str(), None | "status"):
                return self._update(target, request, manner)
            case "DELETE", str(), None:
                return self._delete(target, request, manner)
            case "DELETE", None, None:
                return self._delete_all(target, request, manner)
            case method, str(), "scale" if target.kind.scale:
                return self._scale(method, target, request, manner)
            case "POST", str(), "binding" | "eviction" if target.kind.resource == kinds.PODS:
                return self._act_on_pod(target, request, manner)
        raise failures.not_allowed() if target.subresource is None else failures.not_served()

    def _existing(self, target: Target) -> Entry:
        entry = self.store.find(target.kind.resource, target.key)
        if entry is None:
            raise failures.not_found(target.kind.resource, target.key.name)
        return entry

    def _update(self, target: Target, request: port.Request, manner: writes.Manner) -> port.Response:
        kind, resource, key = target.kind, target.kind.resource, target.key
        if target.subresource == "status" and not kind.has_status:
            raise failures.not_served()
        body = _body(request, keep_nulls=manner.is_patch)
        if not manner.is_patch:
            writes.check_kind(kind, body)
            if kind.is_made_by_put and self.store.find(resource, key) is None:
                return _answer(201, self.writes.create(resource, body, namespace=target.namespace, manner=manner))
        entry = self.writes.update(
            resource,
            key,
            (lambda old: merging.merge(old, body)) if manner.is_patch else (lambda _: body),
            manner=manner,
            subresource=target.subresource,
        )
        return _answer(200, entry)

    def _delete(self, target: Target, request: port.Request, manner: writes.Manner) -> port.Response:
        options = deletes.options_of(_body(request) if request.body else {}, request.query)
        done = self.deletes.delete(target.kind.resource, target.key, options, manner)
        if done.is_gone and not target.kind.returns_deleted:
            about = {**failures.details(target.kind.resource, target.key.name), "uid": done.entry.uid}
            return port.Response(status=200, body=msgspec.json.encode(success(about)))
        return _answer(200, done.entry)

    def _delete_all(self, target: Target, request: port.Request, manner: writes.Manner) -> port.Response:
        options = deletes.options_of(_body(request) if request.body else {}, request.query)
        listed = self.reads.list(target.kind, target.namespace, request.query)
        predicate = selectors.of_query(target.kind.resource, request.query)
        found = [
            key
            for key, entry in self.store.collection(target.kind.resource).within(target.namespace)
            if predicate(entry.object)
        ]
        for key in sorted(found):
            self.deletes.delete(target.kind.resource, key, options, manner)
        return listed

    def _scale(self, method: str, target: Target, request: port.Request, manner: writes.Manner) -> port.Response:
        kind = target.kind
        if method == "GET":
            entry = self._existing(target)
        elif method in {"PUT", "PATCH"}:
            body = _body(request, keep_nulls=True)
            change = scales.change(kind, body, is_patch=manner.is_patch)
            entry = self.writes.update(kind.resource, target.key, change, manner=manner, subresource="scale")
        else:
            raise failures.not_allowed()
        return port.Response(status=200, body=msgspec.json.encode(scales.of(kind, entry.object)))

    def _act_on_pod(self, target: Target, request: port.Request, manner: writes.Manner) -> port.Response:
        body = _body(request)
        if target.subresource == writes.BINDING:
            self.bind(target.key, body, manner)
        else:
            self._evictions.evict(target.key, body, manner)
        return port.Response(status=201, body=msgspec.json.encode({**success(None), "code": http.HTTPStatus.CREATED}))

    def bind(self, key: Key, binding: Manifest, manner: writes.Manner) -> None:
        """Assign a pod to a node."""
        if (binding.get("metadata") or {}).get("name") != key.name:
            raise failures.bad_request("name in URL does not match name in Binding object")
        self.writes.update(
            kinds.PODS,
            key,
            lambda pod: pods.bound(pod, binding, self.clock.now()),
            manner=manner,
            subresource=writes.BINDING,
        )


def success(details: Manifest | None) -> Manifest:
    """Make the Status of something that was done."""
    status: Manifest = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return status if details is None else {**status, "details": details}


def _answer(code: int, entry: Entry) -> port.Response:
    return port.Response(status=code, body=entry.encoded)


def _body(request: port.Request, *, keep_nulls: bool = False) -> Manifest:
    if request.method == "PATCH" and request.content_type != port.MERGE_PATCH:
        why = (
            "the body of the request was in an unknown format - accepted media types include:"
            f" application/json-patch+json, {port.MERGE_PATCH}, application/apply-patch+yaml"
        )
        raise failures.Refusal(415, "UnsupportedMediaType", why)
    raw = request.body or b""
    try:
        body = _DECODER.decode(raw)
    except msgspec.MsgspecError as error:
        raise failures.bad_request(f"error decoding the body: {error}") from error
    if not isinstance(body, dict):
        raise failures.bad_request("the body must be an object")
    is_clean = keep_nulls or b"null" not in raw
    whole: Manifest = body if is_clean else merging.without_nulls(body)
    return whole
