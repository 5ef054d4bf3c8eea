"""The small types that fields are made of: names, quantities, endpoints and Kubernetes' own vocabulary."""

from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from autoscaler.api import quantities
from autoscaler.api.resources.base import LIST_SET, Model, Rule, checked, rules

DNS_LABEL_MAX: Final = 63
DNS_LABEL: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DnsLabel = Annotated[str, Field(min_length=1, max_length=DNS_LABEL_MAX, pattern=DNS_LABEL)]
"""A name as Kubernetes gives to containers and namespaces."""

DnsName = Annotated[
    str,
    Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
]
"""A name as Kubernetes gives to most objects."""

LabelKey = Annotated[
    str,
    Field(
        min_length=1,
        max_length=317,
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    ),
]
LabelValue = Annotated[str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")]
LABELS_MAX: Final = 64

Labels = Annotated[dict[LabelKey, LabelValue], Field(max_length=LABELS_MAX)]
"""Labels as on a node: at most 64, each key and value as Kubernetes allows."""

ResourceName = LabelKey
"""The name of a resource, which has a label key's form: cpu, memory, nvidia.com/gpu."""

Uid = Annotated[str, Field(min_length=1, max_length=64)]
Count = Annotated[int, Field(ge=0, le=2_147_483_647)]
Seconds = Annotated[int, Field(ge=0, le=4_000_000_000)]


def _text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _quantity(value: str) -> str:
    quantities.exact(value)
    return value


def _positive_quantity(value: str) -> str:
    if quantities.exact(value) <= 0:
        raise ValueError(f"{value} must be more than 0")
    return value


def _quantity_schema(comparison: str, message: str) -> dict[str, Any]:
    # The form is checked first: reading 1e9999999 alone would keep the API server busy for seconds.
    rule = Rule(
        expression=f"string(self).matches('{quantities.FORM}') && isQuantity(string(self))"
        f" && quantity(string(self)).compareTo(quantity('0')) {comparison} 0",
        message=message,
    )
    return {"x-kubernetes-int-or-string": True, "maxLength": 32, **rules(rule)}


PositiveQuantity = Annotated[
    str,
    BeforeValidator(_text),
    AfterValidator(_positive_quantity),
    WithJsonSchema(_quantity_schema(">", "must be a quantity above 0 such as 500m, 2 or 48Gi")),
]
Quantity = Annotated[
    str,
    BeforeValidator(_text),
    AfterValidator(_quantity),
    WithJsonSchema(_quantity_schema(">=", "must be a quantity of 0 or more such as 500m, 2 or 48Gi")),
]

QUANTITIES_MAX = 16
Quantities = Annotated[dict[ResourceName, Quantity], Field(max_length=QUANTITIES_MAX)]
"""Amounts by resource name."""


class TaintEffect(StrEnum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class TolerationOperator(StrEnum):
    EQUAL = "Equal"
    EXISTS = "Exists"


class Taint(Model):
    """A mark on a node that keeps pods away unless they tolerate it."""

    key: LabelKey
    """The taint's key."""
    value: LabelValue = ""
    """The taint's value."""
    effect: TaintEffect
    """What happens to pods that do not tolerate it."""


class Toleration(Model):
    """A pod's readiness to run on a node with a matching taint, as in a pod's spec."""

    model_config = checked(
        Rule(
            expression="self.operator != 'Exists' || !has(self.value) || self.value == ''",
            message="value must be empty where operator is Exists",
            field=".value",
        ),
        Rule(
            expression="has(self.key) || self.operator == 'Exists'",
            message="operator must be Exists where key is absent (it then tolerates every taint)",
            field=".operator",
        ),
        Rule(
            expression="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            message="effect must be NoExecute where tolerationSeconds is set",
            field=".effect",
        ),
    )

    key: LabelKey | None = None
    """The taint's key; absent, with operator Exists, means every taint."""
    operator: TolerationOperator = TolerationOperator.EQUAL
    """Equal compares the value, Exists takes any."""
    value: LabelValue | None = None
    """The taint's value."""
    effect: TaintEffect | None = None
    """The taint's effect; absent means all of them."""
    toleration_seconds: Annotated[int, Field(ge=-2_147_483_648, le=2_147_483_647)] | None = None
    """How long a pod stays on a node that got a NoExecute taint; absent means for good."""


Tolerations = Annotated[tuple[Toleration, ...], Field(max_length=32)]


class SelectorOperator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class SelectorRequirement(Model):
    """One condition on a label."""

    model_config = checked(
        Rule(
            expression="self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0"
            " : !has(self.values) || size(self.values) == 0",
            message="values must be given with In and NotIn, and left out with Exists and DoesNotExist",
            field=".values",
        )
    )

    key: LabelKey
    """The label's key."""
    operator: SelectorOperator
    """How the label's value relates to `values`."""
    values: Annotated[tuple[LabelValue, ...], Field(max_length=64, json_schema_extra=LIST_SET)] = ()
    """The values compared with."""


class LabelSelector(Model):
    """Selects objects by their labels; an empty selector selects all."""

    match_labels: Labels = {}
    """Labels an object must have."""
    match_expressions: Annotated[tuple[SelectorRequirement, ...], Field(max_length=32)] = ()
    """Conditions that must hold besides."""


AnyObject = Annotated[dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})]
"""A part of a pod's spec that we hand through as it is."""
