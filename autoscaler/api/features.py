"""Feature gates: what can be switched off while it is new. The set is closed, and the stack tells it to the runtime.

Values only, and how they are written on a command line.
"""

import difflib
from typing import Self

from pydantic.alias_generators import to_camel

from autoscaler.api.resources.base import Model


class FeatureGates(Model):
    """What can be switched off while it is new."""

    elastic_jobs: bool = True
    """Whether a queued job may grow without being suspended: what it grows by waits for quota by itself. false: a job
    that grows is suspended and queued again as a whole."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read gates such as `elasticJobs=false`, with commas between; raise ValueError where one cannot be."""
        fields = {to_camel(field): field for field in cls.model_fields}
        given: dict[str, bool] = {}
        for part in filter(None, map(str.strip, text.split(","))):
            name, _, value = part.partition("=")
            if name not in fields:
                raise ValueError(_unknown(name, sorted(fields)))
            if value not in {"true", "false"}:
                raise ValueError(f"{part!r} must be {name}=true or {name}=false")
            if fields[name] in given:
                raise ValueError(f"{name} is given twice")
            given[fields[name]] = value == "true"
        return cls(**given)

    def to_text(self) -> str:
        """Write all gates as `parse` reads them."""
        return ",".join(f"{to_camel(name)}={'true' if value else 'false'}" for name, value in self)


def _unknown(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{name!r} is no feature gate; {hint}there are {', '.join(known)}"
