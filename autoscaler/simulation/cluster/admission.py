"""Our admission policies in force: each policy whose objects are installed is run by its Python twin."""

import dataclasses
from collections.abc import Iterator, Sequence

from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import base
from autoscaler.kube import kinds
from autoscaler.kube.kinds import ResourceType
from autoscaler.simulation.cluster import failures, served
from autoscaler.simulation.cluster.store import Key, Store

Policy = base.ValidatingPolicy | base.MutatingPolicy


class Admission:
    """Asks the installed policies about each write."""

    def __init__(self, store: Store, registry: served.Registry, policies: Sequence[Policy]) -> None:
        self._store = store
        self._registry = registry
        self._by_resource: dict[tuple[str, str, str], list[Policy]] = {}
        for policy in policies:
            for name in policy.match.resources:
                key = (policy.match.group, policy.match.version, name)
                self._by_resource.setdefault(key, []).append(policy)
        self._kinds = {(group, version, name.partition("/")[0]) for group, version, name in self._by_resource}

    def mutate(self, resource: ResourceType, subresource: str | None, request: base.Request) -> Manifest | None:
        """Return the object with all mutating policies' changes."""
        body = request.object
        for policy in self._asked(resource, subresource, request.operation):
            if isinstance(policy, base.MutatingPolicy) and self._is_installed(policy):
                for param in self._params(policy.param):
                    body = policy.twin(_with(request, body, param))
        return body

    def validate(self, resource: ResourceType, subresource: str | None, request: base.Request) -> None:
        """Refuse what a validating policy denies; nobody reads warnings here."""
        for policy in self._asked(resource, subresource, request.operation):
            if isinstance(policy, base.ValidatingPolicy) and not policy.warns and self._is_installed(policy):
                for param in self._params(policy.param):
                    why = policy.twin(_with(request, request.object, param))
                    if why is not None:
                        raise _denied(resource, request, policy.name, why)

    def request(
        self, operation: base.Operation, body: Manifest | None, old: Manifest | None, *, user: str
    ) -> base.Request:
        """Say what a policy may see of a write."""
        namespace = ((body or old or {}).get("metadata") or {}).get("namespace")
        entry = self._store.find(kinds.NAMESPACES, Key("", namespace)) if namespace else None
        labels = entry.object["metadata"].get("labels", {}) if entry else {}
        return base.Request(operation=operation, object=body, old_object=old, username=user, namespace_labels=labels)

    def is_asked(self, resource: ResourceType) -> bool:
        """Tell whether any policy is about a kind; most writes concern none."""
        return (resource.group, resource.version, resource.plural) in self._kinds

    def _asked(self, resource: ResourceType, subresource: str | None, operation: base.Operation) -> Iterator[Policy]:
        name = f"{resource.plural}/{subresource}" if subresource else resource.plural
        for policy in self._by_resource.get((resource.group, resource.version, name), ()):
            if operation in policy.match.operations:
                yield policy

    def _is_installed(self, policy: Policy) -> bool:
        is_mutating = isinstance(policy, base.MutatingPolicy)
        objects = (
            (served.MUTATING_POLICIES, served.MUTATING_BINDINGS)
            if is_mutating
            else (served.VALIDATING_POLICIES, served.VALIDATING_BINDINGS)
        )
        return all(self._store.find(resource, Key("", policy.name)) for resource in objects)

    def _params(self, param: base.Param | None) -> Sequence[Manifest | None]:
        """Return the objects a policy is evaluated with, once each; without a param it is evaluated once."""
        if param is None:
            return (None,)
        kind = self._registry.named(param.api_version, param.kind)
        if kind is None:
            return ()
        if param.name:
            entry = self._store.find(kind.resource, Key(param.namespace or "", param.name))
            return (entry.object,) if entry else ()
        found = self._store.collection(kind.resource).within(param.namespace)
        chosen = [entry.object for _, entry in sorted(found)]
        return [each for each in chosen if param.label is None or param.label in each["metadata"].get("labels", {})]


def _with(request: base.Request, body: Manifest | None, param: Manifest | None) -> base.Request:
    return dataclasses.replace(request, object=body, param=param)


def _denied(resource: ResourceType, request: base.Request, policy: str, why: str) -> failures.Refusal:
    name = (request.object or request.old_object or {}).get("metadata", {}).get("name", "")
    message = (
        f"{failures.resource_name(resource)} \"{name}\" is forbidden: ValidatingAdmissionPolicy '{policy}' with binding"
        f" '{policy}' denied request: {why}"
    )
    return failures.Refusal(422, "Invalid", message, details=failures.details(resource, name))
