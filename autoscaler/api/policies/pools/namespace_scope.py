"""A namespace is put into a scope, and taken out of one, only by those who may `use` that Scope.

The label sluice.dev/scope decides whose budget the namespace's pods spend and whose pools they enter. Whoever may write
namespaces could otherwise spend another scope's money; and by taking the label off, leave the limits of their own. So
a change needs the verb `use` on both, the scope that was and the one that will be. What is stored already is never in
the way of another change.

Labels can be changed through the subresources of a namespace as well.
"""

from typing import Final

from autoscaler.api import keys, resources, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies.base import Access, Match, Operation, Request, ValidatingPolicy, Validation
from autoscaler.api.policies.pools import scoping

VERB: Final = "use"
_SCOPES: Final = resources.Scope.definition.plural


def message(scope: str) -> str:
    """Say what is missing."""
    return (
        f"a namespace is put into scope {scope}, or taken out of it, by those who may use it: have somebody grant you"
        f" the verb {VERB} on {_SCOPES}.{version.GROUP}/{scope} by a ClusterRole (docs/security.md)"
    )


def _refusal(request: Request) -> str | None:
    old, new = _scope_of(request.old_object), _scope_of(request.object)
    if old == new:
        return None
    for scope in (new, old):
        access = Access(group=version.GROUP, resource=_SCOPES, name=scope, verb=VERB)
        if scope and not request.is_allowed(access):
            return message(scope)
    return None


def _scope_of(namespace: Manifest | None) -> str:
    return scoping.owner_of(namespace) if namespace else ""


_NEW: Final = scoping.owner("object")
_OLD: Final = f"(oldObject == null ? '' : {scoping.owner('oldObject')})"


def _may_use(scope: str) -> Validation:
    """Demand that the user may use a scope, given as an expression; none needs no right."""
    told = message(f"' + {scope} + '")
    may = f"authorizer.group('{version.GROUP}').resource('{_SCOPES}').name({scope}).check('{VERB}').allowed()"
    return Validation(
        expression=f"{scope} == '' || {may}",
        message=f"changing the label {keys.SCOPE} needs the verb {VERB} on that Scope",
        message_expression=f"'{told}'",
    )


POLICY: Final = ValidatingPolicy(
    name=f"namespace-scope.{version.GROUP}",
    match=Match(
        resources=("namespaces", "namespaces/status", "namespaces/finalize"),
        operations=(Operation.CREATE, Operation.UPDATE),
        conditions={"changes-scope": f"{_NEW} != {_OLD}"},
    ),
    variables={"new": _NEW, "old": _OLD},
    validations=(_may_use("variables.new"), _may_use("variables.old")),
    twin=_refusal,
)
