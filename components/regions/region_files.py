"""Data about a region of AWS, kept in the repository as YAML and reviewed like code: how such a file is read.

Strictly: an unknown key is an error, and each error names its place. What the files say is decided elsewhere.
"""

from typing import Annotated, Any, Final, TypeVar

import pydantic
import yaml
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Region = Annotated[str, Field(pattern=r"^[a-z]{2,}(-[a-z]+)+-[0-9]+$")]
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where it is there: ten times as fast."""
_PROBLEMS_SHOWN: Final = 5


class Strict(BaseModel):
    """A part of such a file."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )


M = TypeVar("M", bound=Strict)


def parse(text: str, model: type[M]) -> M:
    """Read a file's text; raise ValueError that names what is wrong."""
    try:
        data: Any = yaml.load(text, Loader=_LOADER)  # noqa: S506  # a safe loader, in C
        return model.model_validate(data)
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {error}") from error
    except pydantic.ValidationError as error:
        raise ValueError(_problems(error)) from error


def _problems(error: pydantic.ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    told = [f"{'.'.join(map(str, each['loc'])) or 'the file'}: {each['msg']}" for each in found[:_PROBLEMS_SHOWN]]
    more = len(found) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")
