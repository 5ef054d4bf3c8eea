"""The converter says in a structural schema exactly what the model says, or refuses."""

from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from autoscaler.api import schema


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    """An inner thing."""

    size: int = 3
    note: str | None = None


def convert(annotation: Any, default: Any = ..., *, defaults: bool = True) -> schema.Schema:
    """Convert a model with one field `field` and return that field's schema."""
    model = type("Outer", (BaseModel,), {"__annotations__": {"field": annotation}, "field": Field(default)})
    converted = schema.structural(model, defaults=defaults)
    field: schema.Schema = converted["properties"]["field"]
    return field


def test_references_are_inlined_and_titles_dropped() -> None:
    want = {
        "description": "An inner thing.",
        "type": "object",
        "properties": {"size": {"type": "integer", "default": 3}, "note": {"type": "string"}},
    }
    assert convert(Inner) == want


def test_optional_is_the_type_itself_and_null_is_no_default() -> None:
    assert convert(Annotated[int, Field(ge=1)] | None, None) == {"type": "integer", "minimum": 1}


def test_nullable_is_kept_where_asked() -> None:
    assert convert(Annotated[str, Field(json_schema_extra={"nullable": True})] | None, None) == {
        "type": "string",
        "nullable": True,
    }


def test_enums_and_literals_become_enums() -> None:
    assert convert(Colour, Colour.RED) == {"type": "string", "default": "red", "enum": ["red", "blue"]}
    assert convert(Literal["only"]) == {"type": "string", "enum": ["only"]}


def test_an_object_defaults_to_empty_so_that_its_own_defaults_fill_it() -> None:
    assert convert(Inner, Inner())["default"] == {}


@pytest.mark.parametrize("default", [(), None])
def test_an_empty_default_is_left_out(default: Any) -> None:
    assert "default" not in convert(tuple[str, ...] | None, default)


def test_falsy_defaults_that_say_something_are_kept() -> None:
    assert convert(int, 0)["default"] == 0
    assert convert(bool, False)["default"] is False


def test_a_status_has_no_defaults() -> None:
    assert convert(int, 3, defaults=False) == {"type": "integer"}
    assert "default" not in convert(Inner, Inner(), defaults=False)["properties"]["size"]


def test_demands_on_keys_become_a_rule() -> None:
    got = convert(dict[Annotated[str, Field(pattern=r"^a\.'b$")], int])
    assert got["additionalProperties"] == {"type": "integer"}
    assert got["x-kubernetes-validations"] == [
        {"rule": r"self.all(key, key.matches('^a\\.\'b$'))", "message": r"each key must match ^a\.'b$"}
    ]


def test_the_length_of_keys_is_demanded_too() -> None:
    got = convert(dict[Annotated[str, Field(pattern="^a*$", max_length=9)], int])
    assert got["x-kubernetes-validations"][0]["rule"] == "self.all(key, size(key) <= 9 && key.matches('^a*$'))"


def test_rules_of_field_and_type_are_both_kept() -> None:
    inner = Annotated[str, Field(json_schema_extra={"x-kubernetes-validations": [{"rule": "inner"}]})]
    outer = Annotated[inner | None, Field(json_schema_extra={"x-kubernetes-validations": [{"rule": "outer"}]})]
    assert convert(outer, None)["x-kubernetes-validations"] == [{"rule": "inner"}, {"rule": "outer"}]


@pytest.mark.parametrize(
    ("annotation", "names"),
    [
        (int | str, "choice between types"),
        (Annotated[int, Field(gt=3)], "exclusiveMinimum"),
        (tuple[int, str], "prefixItems"),
        (dict[Annotated[str, Field(max_length=3)], int], "pattern"),
    ],
)
def test_what_a_crd_cannot_express_is_an_error_that_names_the_field(annotation: Any, names: str) -> None:
    with pytest.raises(schema.NotStructuralError, match=rf"Outer\.field.*{names}"):
        convert(annotation)


def test_lines_of_a_paragraph_are_joined() -> None:
    assert schema.paragraphs("one\n  two\n\nthree\n") == "one two\n\nthree"
