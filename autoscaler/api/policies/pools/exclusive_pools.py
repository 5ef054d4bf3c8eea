"""A pool that is not instance-wide is of exactly one scope: its label sluice.dev/scope says of which (ADR 0020).

No other scope may list it, whichever of the two is written first. What is stored already is never in the way of another
change: only a write that makes it wrong is refused, and a pool may be handed on by changing its label.
"""

from typing import Final

from autoscaler.api import keys, version
from autoscaler.api.policies.base import Operation, Request, ValidatingPolicy, Validation, ours
from autoscaler.api.policies.pools import scoping

UNOWNED_MESSAGE: Final = (
    f"spec.instanceWide is false, so metadata.labels[{keys.SCOPE}] must name the one scope that the pool is for"
)
_LIVES: Final = {"lives": "!has(object.metadata.deletionTimestamp)"}
_WRITES: Final = (Operation.CREATE, Operation.UPDATE)


def second_scope_message(pool: str, owner: str, scope: str) -> str:
    """Say why a scope may not list a pool."""
    return (
        f"InstancePool {pool} is for scope {owner} alone, and scope {scope} may not list it:"
        f" take it out there, set spec.instanceWide to true, or change the label {keys.SCOPE} of the pool"
    )


# The twins


def _unowned(request: Request) -> str | None:
    pool, old = request.object or {}, request.old_object
    if "deletionTimestamp" in pool["metadata"]:
        return None
    is_wrong = scoping.is_exclusive_pool(pool) and not scoping.owner_of(pool)
    was_wrong = old is not None and scoping.is_exclusive_pool(old) and not scoping.owner_of(old)
    return UNOWNED_MESSAGE if is_wrong and not was_wrong else None


def _listed_elsewhere(request: Request) -> str | None:
    pool, old, scope = request.object or {}, request.old_object, request.param or {}
    if "deletionTimestamp" in pool["metadata"] or not scoping.is_exclusive_pool(pool):
        return None
    was_exclusive = old is not None and scoping.is_exclusive_pool(old)
    name, owner, other = pool["metadata"]["name"], scoping.owner_of(pool), scope["metadata"]["name"]
    is_listed = any(listed["name"] == name for listed in scoping.pools_of(scope))
    is_anothers = bool(owner) and owner != other
    return second_scope_message(name, owner, other) if is_listed and is_anothers and not was_exclusive else None


def _lists_anothers(request: Request) -> str | None:
    scope, pool = request.object or {}, request.param or {}
    if "deletionTimestamp" in scope["metadata"] or not scoping.is_exclusive_pool(pool):
        return None
    name, owner, other = pool["metadata"]["name"], scoping.owner_of(pool), scope["metadata"]["name"]
    is_listed = any(listed["name"] == name for listed in scoping.pools_of(scope))
    was_listed = any(listed["name"] == name for listed in scoping.pools_of(request.old_object))
    return second_scope_message(name, owner, other) if is_listed and owner != other and not was_listed else None


# The same in CEL


def _refusal(pool: str, scope: str, *, unless: str) -> Validation:
    """Refuse that a scope lists a pool that is another's, unless it was so before."""
    name, owner, other = f"{pool}.metadata.name", scoping.owner(pool), f"{scope}.metadata.name"
    listed = f"{scoping.pools(scope)}.exists(p, p.name == {name})"
    message = second_scope_message(*(f"' + {part} + '" for part in (name, owner, other)))
    return Validation(
        expression=f"!{listed} || {owner} == {other} || {unless}",
        message="a pool that is not instance-wide may be listed by one scope only",
        message_expression=f"'{message}'",
    )


def _is_unowned(pool: str) -> str:
    return f"({scoping.is_exclusive(pool)} && {scoping.owner(pool)} == '')"


UNOWNED: Final = ValidatingPolicy(
    name=f"exclusive-pool-scope.{version.GROUP}",
    match=ours("instancepools", operations=_WRITES, conditions=_LIVES),
    validations=(
        Validation(
            expression=f"!{_is_unowned('object')} || oldObject != null && {_is_unowned('oldObject')}",
            message=UNOWNED_MESSAGE,
        ),
    ),
    twin=_unowned,
)

LISTED_ELSEWHERE: Final = ValidatingPolicy(
    name=f"exclusive-pool-listed.{version.GROUP}",
    match=ours(
        "instancepools",
        operations=_WRITES,
        conditions={
            **_LIVES,
            "exclusive": scoping.is_exclusive("object"),
            "owned": f"{scoping.owner('object')} != ''",  # the other policy speaks of those that are not
        },
    ),
    param=scoping.EVERY_SCOPE,
    validations=(_refusal("object", "params", unless=f"oldObject != null && {scoping.is_exclusive('oldObject')}"),),
    twin=_listed_elsewhere,
)

LISTS_ANOTHERS: Final = ValidatingPolicy(
    name=f"scope-lists-exclusive-pool.{version.GROUP}",
    match=ours("scopes", operations=_WRITES, conditions={**_LIVES, "exclusive": scoping.is_exclusive("params")}),
    param=scoping.EVERY_POOL,
    validations=(
        _refusal(
            "params",
            "object",
            unless=f"oldObject != null && {scoping.pools('oldObject')}.exists(p, p.name == params.metadata.name)",
        ),
    ),
    twin=_lists_anothers,
)
