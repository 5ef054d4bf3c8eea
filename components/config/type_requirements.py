"""Instance types by what they must have, instead of by name. Which ones these are is decided in `nodes/type_choice`."""

import re
from collections.abc import Iterator
from typing import Annotated, Final, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field

from autoscaler.api.resources.pools import Architecture
from components.config.base import Problem, Section

NO_GPU: Final = "none"
ANY_GPU: Final = "any"
_RANGE: Final = re.compile(r"(?P<least>[0-9]{0,9})-(?P<most>[0-9]{0,9})|(?P<exactly>[0-9]{1,9})")
_FORM: Final = "must be a number or a range: 8, 8-16, 8- (8 or more) or -16 (16 or fewer)"


class Span(NamedTuple):
    """From least to most, both included."""

    least: float
    most: float

    def has(self, number: float) -> bool:
        """Tell whether a number is within."""
        return self.least <= number <= self.most


def span(text: str | int | None) -> Span:
    """Read a range as it is written."""
    found = _RANGE.fullmatch(str(text)) if text is not None else None
    if found is None:
        return Span(0, float("inf"))
    if found["exactly"]:
        return Span(int(found["exactly"]), int(found["exactly"]))
    return Span(int(found["least"] or 0), int(found["most"]) if found["most"] else float("inf"))


def _written(value: object) -> object:
    """Refuse what is neither number nor text here, or it would be told once for each of them."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(_FORM)  # noqa: TRY004  # pydantic wants it
    return value


def _range(text: str | int) -> str | int:
    if not _RANGE.fullmatch(str(text)) or str(text) == "-":
        raise ValueError(_FORM)
    if span(text).least > span(text).most:
        raise ValueError("must be a range from the smaller to the larger number, such as 8-16")
    return text


Range = Annotated[str | int, BeforeValidator(_written), AfterValidator(_range)]
"""A number or a range of numbers: 8, 8-16, 8- or -16."""


class InstanceTypeRequirements(Section):
    """Instance types by what they have: those of the region's offerings that fit, which previews list.

    A type that AWS offers newly comes with the next `make offerings`, never by itself.
    """

    vcpus: Range | None = None
    """How many virtual processors, such as 8-16."""
    memory_gib: Range | None = None
    """How much memory, such as 32- for 32 GiB or more."""
    architectures: Annotated[tuple[Architecture, ...], Field(min_length=1, max_length=2)] = (Architecture.AMD64,)
    """amd64, arm64 or both."""
    generations: Range | None = None
    """The number in the type's name: 7 in m7i.large. 6- leaves out what is old."""
    families: Annotated[tuple[str, ...], Field(max_length=32)] = ()
    """The letters before it, such as m and c. None: all of them."""
    gpu: Annotated[str, Field(min_length=1, max_length=32)] = NO_GPU
    """none; any; or the name of an NVIDIA GPU, such as V100."""
    bare_metal: bool = False
    """Whether instances without a hypervisor are among them: they take many minutes to start."""

    def problems(self) -> Iterator[Problem]:
        for field, values in (("families", self.families), ("architectures", self.architectures)):
            for index, value in enumerate(values):
                if value in values[:index]:
                    yield Problem(path=(field, index), value=str(value), message="is given twice")
