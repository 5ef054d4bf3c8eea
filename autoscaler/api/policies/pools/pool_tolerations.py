"""Who may go to nodes that are kept for somebody: pools of one scope alone, and ephemeral nodes claimed for one pod.

Pods of a scope get the toleration of its own exclusive pools, and nobody may name another's. A toleration that names a
claim is the runtime's to give, to a pod that exists; it then names that very pod, and so it is of no use to
another. Not asked: kube-system, DaemonSet pods, and pods that tolerate everything without naming a key. Those run the
cluster and are no work.

Only the taint that keeps pods away is tolerated. The one that says "rather not" stays, for static nodes come first.
"""

from typing import Final

from autoscaler.api import keys, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import identities
from autoscaler.api.policies.base import Match, MutatingPolicy, Operation, Request, ValidatingPolicy, Validation
from autoscaler.api.policies.pools import scoping

SYSTEM_NAMESPACE: Final = "kube-system"
DAEMON_CONTROLLERS: Final = identities.controller("daemon-set-controller")
"""Who makes DaemonSet pods."""
CLAIM_MESSAGE: Final = (
    f"a toleration of {keys.RESERVED_FOR} is given by the runtime, to the pod whose UID it names; leave it out"
)
UNNAMED_MESSAGE: Final = (
    f"a toleration of {keys.INSTANCE_POOL} must name one pool of the namespace's own scope (operator Equal), and a"
    f" namespace without the label {keys.SCOPE} has none; leave it out, or give it the effect PreferNoSchedule"
)
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
_SOFT: Final = "PreferNoSchedule"
_HARD: Final = "NoSchedule"


def foreign_message(pool: str, owner: str) -> str:
    """Say why a pool may not be named."""
    return f"InstancePool {pool} is for scope {owner} alone, and this namespace is in another: leave its toleration out"


# The twins


def _granting(request: Request) -> Manifest:
    pod, pool = request.object or {}, request.param or {}
    scope = scoping.namespace_scope_of(request)
    if not scope or not scoping.is_exclusive_pool(pool) or scoping.owner_of(pool) != scope:
        return pod
    present = pod["spec"].get("tolerations") or []
    name = pool["metadata"]["name"]
    if any(_names(toleration, name) for toleration in present):
        return pod
    granted = {"key": keys.INSTANCE_POOL, "operator": "Equal", "value": name, "effect": _HARD}
    return {**pod, "spec": {**pod["spec"], "tolerations": [*present, granted]}}


def _foreign(request: Request) -> str | None:
    pool, scope = request.param or {}, scoping.namespace_scope_of(request)
    owner = scoping.owner_of(pool)
    if not scope or _is_of_the_system(request) or not scoping.is_exclusive_pool(pool) or owner == scope:
        return None
    name = pool["metadata"]["name"]
    named = any(_is_hard(toleration) and toleration.get("value", "") == name for toleration in _added(request))
    return foreign_message(name, owner) if named else None


def _unfounded(request: Request) -> str | None:
    if _is_of_the_system(request):
        return None
    uid = (request.object or {})["metadata"].get("uid")
    for toleration in _added(request):
        is_given = request.operation is Operation.UPDATE and _value(toleration) == uid
        if toleration.get("key") == keys.RESERVED_FOR and not is_given:
            return CLAIM_MESSAGE
    if any(
        _is_hard(toleration) and (_value(toleration) is None or not scoping.namespace_scope_of(request))
        for toleration in _added(request)
    ):
        return UNNAMED_MESSAGE
    return None


def _is_of_the_system(request: Request) -> bool:
    is_there = request.namespace_labels.get(_NAMESPACE_NAME) == SYSTEM_NAMESPACE
    return is_there or request.username in DAEMON_CONTROLLERS


def _added(request: Request) -> list[Manifest]:
    """Return what a write adds: a pod that is there already may be changed in all else."""
    old = ((request.old_object or {}).get("spec") or {}).get("tolerations") or []
    new = (request.object or {})["spec"].get("tolerations") or []
    return [toleration for toleration in new if toleration not in old]


def _is_hard(toleration: Manifest) -> bool:
    return toleration.get("key") == keys.INSTANCE_POOL and toleration.get("effect") != _SOFT


def _value(toleration: Manifest) -> str | None:
    """Return the value that a toleration names; None where it takes all."""
    return toleration.get("value", "") if toleration.get("operator", "Equal") == "Equal" else None


def _names(toleration: Manifest, pool: str) -> bool:
    effect = toleration.get("effect") or _HARD
    return toleration.get("key") == keys.INSTANCE_POOL and _value(toleration) == pool and effect == _HARD


# The same in CEL

_TOLERATIONS: Final = "object.spec.?tolerations.orValue([])"
_OLD: Final = "(oldObject == null ? [] : oldObject.spec.?tolerations.orValue([]))"
_IS_POOL: Final = f"t.?key.orValue('') == '{keys.INSTANCE_POOL}'"
_IS_CLAIM: Final = f"t.?key.orValue('') == '{keys.RESERVED_FOR}'"
_IS_HARD: Final = f"{_IS_POOL} && t.?effect.orValue('') != '{_SOFT}'"
_IS_EQUAL: Final = "t.?operator.orValue('Equal') == 'Equal'"
_CONTROLLERS: Final = identities.texts(DAEMON_CONTROLLERS)
_CONDITIONS: Final = {
    "not-of-the-system": f"request.namespace != '{SYSTEM_NAMESPACE}' && !(request.userInfo.username in {_CONTROLLERS})",
    "tolerates-ours": f"{_TOLERATIONS}.exists(t, {_IS_POOL} || {_IS_CLAIM})",
}
_ADDED: Final = {"old": _OLD, "added": f"{_TOLERATIONS}.filter(t, !(t in variables.old))"}
_POOL: Final = "string(params.metadata.name)"
_TEXT: Final = "' + {} + '"
"""An expression within a text."""
_EFFECT: Final = f"t.?effect.orValue('{_HARD}') in ['{_HARD}', '']"
_IS_GRANTED: Final = (
    f"{_TOLERATIONS}.exists(t, {_IS_POOL} && {_IS_EQUAL} && t.?value.orValue('') == {_POOL} && {_EFFECT})"
)
_GRANT: Final = (
    f"JSONPatch{{op: 'add', path: '/spec/tolerations/-', value: {{'key': '{keys.INSTANCE_POOL}', 'operator': 'Equal',"
    f" 'value': {_POOL}, 'effect': '{_HARD}'}}}}"
)

GRANT: Final = MutatingPolicy(
    name=f"pool-toleration.{version.GROUP}",
    match=Match(
        resources=("pods",),
        operations=(Operation.CREATE,),
        conditions={"exclusive": scoping.is_exclusive("params")},
        namespace_label=keys.SCOPE,
    ),
    param=scoping.OWNED_POOLS,
    patches=(
        (
            f"{scoping.NAMESPACE_SCOPE} == '' || {scoping.owner('params')} != {scoping.NAMESPACE_SCOPE}"
            f" || {_IS_GRANTED} ? [] : (has(object.spec.tolerations) ? []"
            f" : [JSONPatch{{op: 'add', path: '/spec/tolerations', value: []}}]) + [{_GRANT}]"
        ),
    ),
    twin=_granting,
)

FOREIGN: Final = ValidatingPolicy(
    name=f"foreign-pool-toleration.{version.GROUP}",
    match=Match(
        resources=("pods",),
        operations=(Operation.CREATE, Operation.UPDATE),
        conditions={**_CONDITIONS, "exclusive": scoping.is_exclusive("params")},
        namespace_label=keys.SCOPE,
    ),
    param=scoping.OWNED_POOLS,
    variables=_ADDED,
    validations=(
        Validation(
            expression=f"{scoping.NAMESPACE_SCOPE} == '' || {scoping.owner('params')} == {scoping.NAMESPACE_SCOPE}"
            f" || !variables.added.exists(t, {_IS_HARD} && t.?value.orValue('') == {_POOL})",
            message="the pod tolerates the taint of another scope's InstancePool; leave that toleration out",
            message_expression=f"'{foreign_message(_TEXT.format(_POOL), _TEXT.format(scoping.owner('params')))}'",
        ),
    ),
    twin=_foreign,
)

UNFOUNDED: Final = ValidatingPolicy(
    name=f"unfounded-toleration.{version.GROUP}",
    match=Match(resources=("pods",), operations=(Operation.CREATE, Operation.UPDATE), conditions=_CONDITIONS),
    variables=_ADDED,
    validations=(
        Validation(
            expression=f"variables.added.all(t, !({_IS_CLAIM}) || request.operation == 'UPDATE' && {_IS_EQUAL}"
            " && t.?value.orValue('') == object.metadata.uid)",
            message=CLAIM_MESSAGE,
        ),
        Validation(
            expression=f"variables.added.all(t, !({_IS_HARD}) || {_IS_EQUAL} && {scoping.NAMESPACE_SCOPE} != '')",
            message=UNNAMED_MESSAGE,
        ),
    ),
    twin=_unfounded,
)
