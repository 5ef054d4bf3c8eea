"""What all kinds share: how models are configured, how rules are written down, and the object around a spec."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A CEL rule that the API server checks, with a message a person can act on."""

    expression: str
    message: str
    message_expression: str | None = None
    field: str | None = None
    """The field the error points at, as `.name`, where the rule itself stands on the object around it."""


def checked(*items: Rule) -> ConfigDict:
    """Attach rules to a model (its `model_config`)."""
    return ConfigDict(json_schema_extra=rules(*items))


def rules(*items: Rule) -> dict[str, Any]:
    """Attach rules to a field (its `json_schema_extra`)."""
    return {"x-kubernetes-validations": [_validation(rule) for rule in items]}


def cel_string(text: str) -> str:
    """Write a text as CEL does."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def list_map(*keys: str) -> dict[str, Any]:
    """Make an array's items unique by these fields (its `json_schema_extra`)."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


LIST_SET: Final[dict[str, Any]] = {"x-kubernetes-list-type": "set"}
"""Make an array's items unique (its `json_schema_extra`)."""

NULLABLE: Final[dict[str, Any]] = {"nullable": True}
"""Accept an explicit null for an optional field (its `json_schema_extra`)."""


def immutable(field: str) -> Rule:
    """Refuse a change of a field once it is set."""
    return Rule(
        expression=f"self.{field} == oldSelf.{field}",
        message=f"{field} cannot be changed after creation: delete the object and create it anew",
        field=f".{field}",
    )


class Model(BaseModel):
    """A part of a custom resource. Unknown fields are ignored: a newer stack may have written them."""

    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
        extra="ignore",
    )

    def to_json(self) -> str:
        """Write it as a stack tells it to the runtime, without what is the default."""
        return self.model_dump_json(by_alias=True, exclude_defaults=True)


class Named(Model):
    """A reference by name."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """The name of what is referred to."""


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Model):
    """One aspect of an object's state, in the form all Kubernetes tools understand."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """What this condition is about."""
    status: ConditionStatus
    """Whether it holds."""
    reason: Annotated[str, Field(max_length=1024)] = ""
    """Why, as one word that programs may compare."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Why, as a sentence with the numbers compared."""
    last_transition_time: datetime
    """When the status last changed."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the spec this was said about."""


Conditions = Annotated[tuple[Condition, ...], Field(max_length=16, json_schema_extra=list_map("type"))]


class ObjectMeta(Model):
    """Of an object's metadata what a model must know. The API server checks it, so it is in no schema of ours."""

    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False
    """Shown only with `-o wide`."""
    description: str = ""


AGE: Final = Column(name="Age", path=".metadata.creationTimestamp", type="date")


def condition_column(condition: str) -> Column:
    """Show a condition's status under the condition's name."""
    return Column(name=condition, path=f'.status.conditions[?(@.type=="{condition}")].status')


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Where the scale subresource finds its numbers."""

    spec_replicas: str
    status_replicas: str
    selector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What a CRD says about a kind besides its schema."""

    plural: str
    short_names: tuple[str, ...] = ()
    namespaced: bool = False
    columns: tuple[Column, ...] = (AGE,)
    rules: tuple[Rule, ...] = ()
    """Rules that also read the object's name."""
    scale: Scale | None = None


class Resource(Model):
    """A custom resource as the API server stores it; each kind narrows `spec` and `status`."""

    definition: ClassVar[Definition]

    metadata: ObjectMeta


def name_rule(limit: int, why: str) -> Rule:
    """Demand an object name that may serve as a label value and as part of other names."""
    return Rule(
        expression=f"self.metadata.name.size() <= {limit} && !self.metadata.name.contains('.')",
        message=f"metadata.name must have at most {limit} characters and no dots: {why}",
    )


def _validation(rule: Rule) -> dict[str, str]:
    parts = {
        "rule": rule.expression,
        "message": rule.message,
        "messageExpression": rule.message_expression,
        "fieldPath": rule.field,
    }
    return {key: value for key, value in parts.items() if value is not None}
