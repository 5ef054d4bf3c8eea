"""Pods of a scope prefer nodes without a pool, then the scope's pools by their priority (seed 003).

It is a preference: what a pod requires stays as it is, and what it prefers already stays beside ours. A pod that says
anything about pools in its preferences has chosen for itself and is left alone. Unscoped pods go by the taint only.

The scheduler multiplies the weights so that the best node at hand has 100; what tells two pools apart is the ratio of
their weights. So weights fall with the third power of the rank: of two pools the lower has an eighth. They stay
different for all the pools a scope may list, and above the 0 of pools that it does not list.
"""

from typing import Any, Final

from autoscaler.api import keys, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies.base import Match, MutatingPolicy, Operation, Request
from autoscaler.api.policies.pools import scoping

STATIC_WEIGHT: Final = 100
_TERMS: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_PATH: Final = f"/spec/affinity/nodeAffinity/{_TERMS}"
_PREFERRED: Final = f"object.spec.?affinity.?nodeAffinity.?{_TERMS}"


def weight(rank: int, pools: int) -> int:
    """Return the weight of a pool; `rank` of the scope's `pools`, itself among them, have no higher priority."""
    steps = pools + 1
    return max(rank, STATIC_WEIGHT * rank**3 // steps**3)


def _preferring(request: Request) -> Manifest:
    pod, scope = request.object or {}, request.param or {}
    if scoping.namespace_scope_of(request) != scope["metadata"]["name"] or _has_chosen(pod):
        return pod
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    node_affinity = affinity.get("nodeAffinity") or {}
    terms = [*(node_affinity.get(_TERMS) or ()), *_terms(scoping.pools_of(scope))]
    affinity = {**affinity, "nodeAffinity": {**node_affinity, _TERMS: terms}}
    return {**pod, "spec": {**spec, "affinity": affinity}}


def _has_chosen(pod: Manifest) -> bool:
    terms = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(_TERMS) or ()
    return any(
        expression["key"] == keys.INSTANCE_POOL
        for term in terms
        for expression in term["preference"].get("matchExpressions") or ()
    )


def _terms(pools: list[Manifest]) -> list[Manifest]:
    static = {"key": keys.INSTANCE_POOL, "operator": "DoesNotExist"}
    return [_term(STATIC_WEIGHT, static), *(_pool_term(pool, pools) for pool in pools)]


def _pool_term(pool: Manifest, pools: list[Manifest]) -> Manifest:
    rank = sum(other.get("priority", 0) <= pool.get("priority", 0) for other in pools)
    return _term(weight(rank, len(pools)), {"key": keys.INSTANCE_POOL, "operator": "In", "values": [pool["name"]]})


def _term(weight: int, expression: dict[str, Any]) -> Manifest:
    return {"weight": weight, "preference": {"matchExpressions": [expression]}}


def _cel_term(weight: str, expression: str) -> str:
    return f"{{'weight': dyn({weight}), 'preference': dyn({{'matchExpressions': [{{{expression}}}]}})}}"


_CHOSEN: Final = (
    f"{_PREFERRED}.orValue([]).exists(t, t.preference.?matchExpressions.orValue([])"
    f".exists(e, e.key == '{keys.INSTANCE_POOL}'))"
)
_PRIORITY: Final = "int(p.?priority.orValue(0))"
_CUBE: Final = f"{STATIC_WEIGHT} * r.rank * r.rank * r.rank / (variables.steps * variables.steps * variables.steps)"
_STATIC_TERM: Final = _cel_term(
    str(STATIC_WEIGHT), f"'key': dyn('{keys.INSTANCE_POOL}'), 'operator': dyn('DoesNotExist')"
)
_POOL_TERM: Final = _cel_term(
    f"{_CUBE} > r.rank ? {_CUBE} : r.rank",
    f"'key': dyn('{keys.INSTANCE_POOL}'), 'operator': dyn('In'), 'values': dyn([r.name])",
)
_PARENTS: Final = (
    "(has(object.spec.affinity) ? [] : [JSONPatch{op: 'add', path: '/spec/affinity', value: {}}])"
    " + (object.spec.?affinity.?nodeAffinity.hasValue() ? []"
    " : [JSONPatch{op: 'add', path: '/spec/affinity/nodeAffinity', value: {}}])"
)

POLICY: Final = MutatingPolicy(
    name=f"node-preference.{version.GROUP}",
    match=Match(
        resources=("pods",),
        operations=(Operation.CREATE,),
        conditions={"undecided": f"!{_CHOSEN}"},
        namespace_label=keys.SCOPE,
    ),
    param=scoping.EVERY_SCOPE,
    variables={
        "pools": scoping.pools("params"),
        "steps": "size(variables.pools) + 1",
        "priorities": f"variables.pools.map(p, {_PRIORITY}).sort()",
        "ranked": (
            "variables.pools.map(p, {'name': dyn(string(p.name)),"
            f" 'rank': dyn(variables.priorities.lastIndexOf({_PRIORITY}) + 1)}})"
        ),
        "terms": f"[{_STATIC_TERM}] + variables.ranked.map(r, {_POOL_TERM})",
    },
    patches=(
        (
            f"{scoping.NAMESPACE_SCOPE} != params.metadata.name ? [] : {_PARENTS}"
            f" + [JSONPatch{{op: 'add', path: '{_PATH}', value: {_PREFERRED}.orValue([]) + variables.terms}}]"
        ),
    ),
    twin=_preferring,
)
