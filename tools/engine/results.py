"""What a run of the engine did, read from its event log. Pure; the engine has already blacked secrets out."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

ENGINES_OWN = frozenset({"pulumi:pulumi:Stack", "pulumi:providers:pulumi"})
"""What nobody made: the stack itself, and the provider through which a program reads its own state."""
UNCHANGED = frozenset({"same", "read", "refresh"})
# A replacement is told in up to four steps; this is the one that a reader looks for.
_REPLACING = frozenset({"create-replacement", "delete-replaced", "replace", "discard-replaced"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What happened, or would happen, to one resource."""

    urn: str
    operation: str
    changed: tuple[str, ...] = ()  # property paths
    replacing: tuple[str, ...] = ()  # the properties that make it a replacement

    @property
    def type(self) -> str:
        return self.urn.split("::")[2].rpartition("$")[2]

    @property
    def name(self) -> str:
        return self.urn.split("::", 3)[3]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A run of the engine."""

    steps: Mapping[str, Step]  # by URN, the engine's own left out
    failed: frozenset[str]  # URNs whose operation failed
    diagnostics: str
    output: str

    @property
    def changes(self) -> tuple[Step, ...]:
        """The steps that change something, in the order of their URNs."""
        return tuple(step for _, step in sorted(self.steps.items()) if step.operation not in UNCHANGED)

    def of(self, operation: str, *, type: str = "") -> tuple[Step, ...]:  # noqa: A002 - the engine's word
        """Return the steps of one operation, of one resource type if given."""
        return tuple(
            step for _, step in sorted(self.steps.items()) if step.operation == operation and type in {"", step.type}
        )

    def step(self, name: str, *, type: str = "") -> Step:  # noqa: A002 - the engine's word
        """Return the one step of a resource by its name in the program."""
        found = [step for step in self.steps.values() if step.name == name and type in {"", step.type}]
        if len(found) != 1:
            raise KeyError(f"{len(found)} steps are named {name!r}; there are {sorted(self.steps)}")
        return found[0]


def read(events: Iterable[str], output: str) -> Result:
    """Read the lines of an event log."""
    steps: dict[str, Step] = {}
    failed: set[str] = set()
    diagnostics: list[str] = []
    for line in events:
        event: dict[str, Any] = json.loads(line)
        if "diagnosticEvent" in event and event["diagnosticEvent"]["severity"] != "debug":
            diagnostics.append(event["diagnosticEvent"]["message"])
        for kind in ("resourcePreEvent", "resOutputsEvent", "resOpFailedEvent"):
            if kind in event:
                _note(steps, event[kind]["metadata"])
        if "resOpFailedEvent" in event:
            failed.add(event["resOpFailedEvent"]["metadata"]["urn"])
    return Result(steps=steps, failed=frozenset(failed), diagnostics="".join(diagnostics), output=output)


def _note(steps: dict[str, Step], metadata: Mapping[str, Any]) -> None:
    if metadata["type"] in ENGINES_OWN:
        return
    detailed = metadata.get("detailedDiff") or {}
    known = steps.get(metadata["urn"])
    changed = tuple(sorted(detailed or metadata.get("diffs") or ()))
    steps[metadata["urn"]] = Step(
        urn=metadata["urn"],
        operation="replace" if metadata["op"] in _REPLACING else metadata["op"],
        changed=changed or (known.changed if known else ()),
        replacing=tuple(sorted(metadata.get("keys") or ())) or (known.replacing if known else ()),
    )
