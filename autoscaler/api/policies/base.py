"""How a policy is written down, and the two objects, policy and binding, that it becomes.

A policy says what it matches and what it demands or changes. It fails closed: a rule that cannot be evaluated denies.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from autoscaler.api import keys, version
from autoscaler.api.manifests import Manifest

_API_VERSION: Final = "admissionregistration.k8s.io/v1"


class Operation(StrEnum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One verb on one object of the whole cluster, as a role grants it."""

    group: str
    resource: str
    name: str
    verb: str


def _everything(_: Access) -> bool:
    """Allow everything, as the simulated cluster does: it has no roles."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a policy sees of one write."""

    operation: Operation
    object: Manifest | None
    old_object: Manifest | None = None
    username: str = ""
    groups: tuple[str, ...] = ()
    """The groups that the user is in."""
    is_allowed: Callable[[Access], bool] = _everything
    """Whether the user's roles grant an access; in CEL, `authorizer`."""
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    param: Manifest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which writes a policy is asked about."""

    group: str = ""
    """Of the API; empty: Kubernetes' core."""
    version: str = "v1"
    resources: tuple[str, ...]
    operations: tuple[Operation, ...]
    conditions: Mapping[str, str] = field(default_factory=dict)
    """CEL conditions by name, all of which must hold; a write that does not meet them is left alone."""
    namespace_label: str | None = None
    """Only namespaces that have this label. Of the others nothing is evaluated, so that nothing can fail there."""
    namespace_value: str | None = None
    """Of these namespaces, those only where the label has this value."""
    object_selector: Manifest | None = None
    """Only objects that this label selector takes, before or after the write. It costs less than a condition, and comes
    before a param is looked for."""


def ours(*resources: str, operations: tuple[Operation, ...], conditions: Mapping[str, str] | None = None) -> Match:
    """Match writes of objects of our own kinds."""
    return Match(
        group=version.GROUP,
        version=version.API_VERSION,
        resources=resources,
        operations=operations,
        conditions=conditions or {},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """The objects a policy is evaluated with, one evaluation each; none there means nothing is done."""

    api_version: str
    kind: str
    name: str | None = None
    """The one object, or all of the kind."""
    namespace: str | None = None
    label: str | None = None
    """Of all of the kind, those only that have this label: an evaluation costs a quarter of a millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """A CEL expression that must be true, and what the user is told otherwise."""

    expression: str
    message: str
    message_expression: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatingPolicy:
    """Refuses writes that break a rule."""

    name: str
    match: Match
    validations: tuple[Validation, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    """CEL expressions by name; each may use those before it."""
    param: Param | None = None
    warns: bool = False
    """Warn instead of refusing: what breaks the rule is written all the same."""
    twin: Callable[[Request], str | None]
    """The same rule in Python: why a matching write is refused, or None."""

    def manifests(self) -> tuple[Manifest, Manifest]:
        """Make the policy and its binding."""
        spec = _policy_spec(self.match, self.param, self.variables)
        spec["validations"] = [_validation(validation) for validation in self.validations]
        action = "Warn" if self.warns else "Deny"
        binding = {**_binding_spec(self.name, self.param), "validationActions": [action]}
        return (
            _manifest("ValidatingAdmissionPolicy", self.name, spec),
            _manifest("ValidatingAdmissionPolicyBinding", self.name, binding),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MutatingPolicy:
    """Changes what is written."""

    name: str
    match: Match
    patches: tuple[str, ...]
    """CEL expressions, each a list of JSONPatch operations. Asked again after a change, they must have none left."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """CEL expressions by name; each may use those before it."""
    param: Param | None = None
    twin: Callable[[Request], Manifest]
    """The same change in Python: the object as it is stored."""

    def manifests(self) -> tuple[Manifest, Manifest]:
        """Make the policy and its binding."""
        spec = _policy_spec(self.match, self.param, self.variables)
        spec["reinvocationPolicy"] = "IfNeeded"
        spec["mutations"] = [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}} for patch in self.patches]
        return (
            _manifest("MutatingAdmissionPolicy", self.name, spec),
            _manifest("MutatingAdmissionPolicyBinding", self.name, _binding_spec(self.name, self.param)),
        )


def _manifest(kind: str, name: str, spec: Manifest) -> Manifest:
    labels = {"app.kubernetes.io/part-of": "sluice", keys.VERSION: version.VERSION}
    return {"apiVersion": _API_VERSION, "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": spec}


def _policy_spec(match: Match, param: Param | None, variables: Mapping[str, str]) -> Manifest:
    spec: Manifest = {
        "failurePolicy": "Fail",
        "matchConstraints": _constraints(match),
        "matchConditions": [
            {"name": name, "expression": expression} for name, expression in sorted(match.conditions.items())
        ],
    }
    if variables:
        spec["variables"] = [{"name": name, "expression": expression} for name, expression in variables.items()]
    if param:
        spec["paramKind"] = {"apiVersion": param.api_version, "kind": param.kind}
    return spec


def _constraints(match: Match) -> Manifest:
    rule = {
        "apiGroups": [match.group],
        "apiVersions": [match.version],
        "operations": [str(operation) for operation in match.operations],
        "resources": list(match.resources),
    }
    constraints: Manifest = {"resourceRules": [rule]}
    if match.namespace_label:
        constraints["namespaceSelector"] = _selector(match.namespace_label, match.namespace_value)
    if match.object_selector:
        constraints["objectSelector"] = match.object_selector
    return constraints


def _selector(label: str | None, value: str | None = None) -> Manifest:
    condition = {"operator": "Exists"} if value is None else {"operator": "In", "values": [value]}
    return {"matchExpressions": [{"key": label, **condition}]} if label else {}


def _binding_spec(policy: str, param: Param | None) -> Manifest:
    spec: Manifest = {"policyName": policy}
    if param:
        reference: dict[str, Any] = {"name": param.name} if param.name else {"selector": _selector(param.label)}
        if param.namespace:
            reference["namespace"] = param.namespace
        spec["paramRef"] = {**reference, "parameterNotFoundAction": "Allow"}
    return spec


def _validation(validation: Validation) -> Manifest:
    manifest = {"expression": validation.expression, "message": validation.message, "reason": "Invalid"}
    if validation.message_expression:
        manifest["messageExpression"] = validation.message_expression
    return manifest
