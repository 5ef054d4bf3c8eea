"""Kubernetes roles, from the registry of controllers to rules: the runtime's own, and those for people. Pure.

The runtime gets what its controllers need and nothing else. People get three roles that Kubernetes adds to its own
view, edit and admin, and one for readers of plans. Queues decide whose quota a namespace's jobs spend, and so they are
admin's, not edit's. Bound in a namespace, these cannot reach kinds of the whole cluster: those are read by whoever has
view for the whole cluster, and written by cluster administrators alone. What only the runtime writes, no role for
people lets anybody write: a forged Workload or Instance would be forged quota or forged accounting. Of Workloads,
editors patch one field, which takes a job out of its queue; an admission policy sees to it that it is this one.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from autoscaler.api import controllers as registry
from autoscaler.api import keys, permissions, resources, version
from autoscaler.api.permissions import Where, WorkerScope

Rule = dict[str, Any]
"""A rule of a Role or ClusterRole, as Kubernetes writes it."""

VIEW: Final = "sluice-view"
EDIT: Final = "sluice-edit"
ADMIN: Final = "sluice-admin"
PLAN: Final = "sluice-plan"
"""For readers of plans: bound by whoever gives them away, and added to no role of Kubernetes' own."""
_AGGREGATE: Final = "rbac.authorization.k8s.io/aggregate-to-"
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")
WRITTEN_BY_ADMINS: Final = (resources.LocalQueue,)
PATCHED_BY_EDITORS: Final = (resources.Workload,)
WRITTEN_BY_THE_RUNTIME: Final = (resources.Workload, resources.Instance, resources.MachineNodePool)

_EXPLAINED: Final = (
    *(("", name) for name in ("events", "namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods")),
    *(("storage.k8s.io", name) for name in ("storageclasses", "csinodes")),
)
_EXPLAINED_KINDS: Final = (
    resources.ClusterQueue,
    resources.Instance,
    resources.InstancePool,
    resources.LocalQueue,
    resources.Machine,
    resources.ProviderAccount,
    resources.ResourceFlavor,
    resources.Scope,
    resources.WorkerPool,
    resources.Workload,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeRoles:
    """The runtime's rules by the place they hold in; a place without rules needs no role."""

    cluster: tuple[Rule, ...]
    """For a ClusterRole and its ClusterRoleBinding."""
    own_namespace: tuple[Rule, ...]
    """For a Role in the runtime's namespace."""
    secret_namespaces: tuple[Rule, ...]
    """For a Role in each namespace whose Secrets the runtime may read."""
    kube_system: tuple[Rule, ...]
    """For a Role in kube-system."""


class PeopleRole(NamedTuple):
    """A ClusterRole for people."""

    labels: Mapping[str, str]
    """They add it to Kubernetes' own roles."""
    rules: tuple[Rule, ...]


class _Right(NamedTuple):
    """One verb on one resource, the smallest thing that can be granted."""

    group: str
    resource: str
    verb: str
    name: str
    """Empty means objects of all names."""


def runtime_roles(controllers: Iterable[str], *, scope: WorkerScope, classes: Sequence[str | None]) -> RuntimeRoles:
    """Make the runtime's rules: merged, sorted, and nothing in a namespace that holds in the whole cluster anyway."""
    rights: dict[Where, set[_Right]] = defaultdict(set)
    for rule in registry.kube_rules(controllers, scope=scope, classes=classes):
        rights[_place(rule.where, scope)].update(_rights(rule))
    everywhere = rights[Where.CLUSTER]
    return RuntimeRoles(
        cluster=_merged(everywhere),
        own_namespace=_merged(rights[Where.OWN_NAMESPACE] - everywhere),
        secret_namespaces=_merged(rights[Where.SECRET_NAMESPACES] - everywhere),
        kube_system=_merged(rights[Where.KUBE_SYSTEM] - everywhere),
    )


def people_roles() -> Mapping[str, PeopleRole]:
    """Make the ClusterRoles for people, by name."""
    return {
        VIEW: PeopleRole(labels=_labels("view", "edit", "admin"), rules=_merged(_view())),
        EDIT: PeopleRole(labels=_labels("edit", "admin"), rules=_merged((*_write(_is_editors), *_patch()))),
        ADMIN: PeopleRole(labels=_labels("admin"), rules=_merged(_write(_is_admins))),
        PLAN: PeopleRole(labels=_labels(), rules=_merged(_plan())),
    }


def plan_proxy() -> tuple[Rule, ...]:
    """Make the rules by which the runtime's pods are asked for their plans, for a Role in its namespace alone."""
    return _merged([_Right("", "pods/proxy", "get", "")])


def nodes_view() -> tuple[Rule, ...]:
    """Make the rules by which people see machines and disks, which Kubernetes' own view leaves out."""
    seen = [("", "nodes"), ("", "namespaces"), ("", "persistentvolumes"), ("storage.k8s.io", "storageclasses")]
    return _merged(_Right(group, resource, verb, "") for group, resource in seen for verb in _READ)


def _labels(*roles: str) -> dict[str, str]:
    stamp = {"app.kubernetes.io/part-of": "sluice", keys.VERSION: version.VERSION}
    return {**{f"{_AGGREGATE}{role}": "true" for role in roles}, **stamp}


def _view() -> Iterable[_Right]:
    for kind in resources.KINDS:
        for resource in _resources(kind):
            yield from (_Right(version.GROUP, resource, verb, "") for verb in _READ)


def _plan() -> Iterable[_Right]:
    """Yield what `plan`, `status`, `usage` and `explain` read of the whole cluster."""
    seen = [("coordination.k8s.io", "leases"), *_EXPLAINED]
    seen += [(version.GROUP, kind.definition.plural) for kind in _EXPLAINED_KINDS]
    yield from (_Right(group, resource, "list", "") for group, resource in seen)
    asked_by_name = [("", "pods"), ("batch", "jobs"), ("ray.io", "rayclusters")]
    yield from (_Right(group, resource, "get", "") for group, resource in asked_by_name)


def _is_editors(kind: type[resources.Resource]) -> bool:
    return kind.definition.namespaced and kind not in (*WRITTEN_BY_THE_RUNTIME, *WRITTEN_BY_ADMINS)


def _is_admins(kind: type[resources.Resource]) -> bool:
    return kind in WRITTEN_BY_ADMINS


def _write(is_written: Callable[[type[resources.Resource]], bool]) -> Iterable[_Right]:
    for kind in resources.KINDS:
        if is_written(kind):
            plural = kind.definition.plural
            yield from (_Right(version.GROUP, plural, verb, "") for verb in _WRITE)
            if kind.definition.scale:
                yield from (_Right(version.GROUP, f"{plural}/scale", verb, "") for verb in ("patch", "update"))


def _patch() -> Iterable[_Right]:
    for kind in PATCHED_BY_EDITORS:
        yield _Right(version.GROUP, kind.definition.plural, "patch", "")


def _resources(kind: type[resources.Resource]) -> Iterable[str]:
    plural = kind.definition.plural
    yield plural
    if "status" in kind.model_fields:
        yield f"{plural}/status"
    if kind.definition.scale:
        yield f"{plural}/scale"


def _place(where: Where, scope: WorkerScope) -> Where:
    """Return the place of a role that a right goes into."""
    everywhere = scope is WorkerScope.CLUSTER
    match where:
        case Where.WORKER_SCOPE:
            return Where.CLUSTER if everywhere else Where.OWN_NAMESPACE
        case Where.WORKER_LEASES:
            return Where.KUBE_SYSTEM if everywhere else Where.OWN_NAMESPACE
        case Where.CLUSTER | Where.OWN_NAMESPACE | Where.SECRET_NAMESPACES | Where.KUBE_SYSTEM:
            return where


def _rights(rule: permissions.KubeRule) -> Iterable[_Right]:
    for resource in rule.resources:
        for verb in rule.verbs:
            yield from (_Right(rule.group, resource, verb, name) for name in rule.resource_names or ("",))


def _merged(rights: Iterable[_Right]) -> tuple[Rule, ...]:
    """Write rights as few rules: first the verbs of each resource, then the resources with equal verbs."""
    verbs: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for right in rights:
        verbs[right.group, right.name, right.resource].add(right.verb)
    together: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, name, resource), allowed in sorted(verbs.items()):
        together[group, name, tuple(sorted(allowed))].append(resource)
    return tuple(
        {
            "apiGroups": [group],
            "resources": names,
            **({"resourceNames": [name]} if name else {}),
            "verbs": list(allowed),
        }
        for (group, name, allowed), names in sorted(together.items())
    )
