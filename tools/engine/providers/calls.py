"""What the engine asks a stand-in provider and what it answers, without gRPC. Values and errors only."""

import dataclasses
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from tools.engine.providers import changes, wire

Paths: TypeAlias = frozenset[changes.Path]


class RefusedError(Exception):
    """The provider will not or cannot do what was asked; the message goes to the user."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Which resource of the program is meant."""

    urn: str
    type: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    resource: Resource
    old_inputs: wire.Properties
    news: wire.Properties
    seed: bytes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An input that is wrong."""

    path: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    inputs: wire.Properties
    failures: tuple[Failure, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """A resource as it was and as the program wants it now."""

    resource: Resource
    id: str
    old_inputs: wire.Properties
    old_outputs: wire.Properties
    news: wire.Properties
    ignored: tuple[changes.Path, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    changes: tuple[changes.Change, ...]
    replacing: Paths = frozenset()  # those of the changes that an update cannot make
    delete_first: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    resource: Resource
    inputs: wire.Properties
    preview: bool
    timeout_seconds: float | None = None  # None: the provider's own


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    resource: Resource
    id: str
    old_inputs: wire.Properties
    old_outputs: wire.Properties


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    resource: Resource
    id: str
    old_inputs: wire.Properties
    old_outputs: wire.Properties
    inputs: wire.Properties
    preview: bool
    ignored: tuple[changes.Path, ...] = ()
    timeout_seconds: float | None = None

    @property
    def changes(self) -> tuple[changes.Change, ...]:
        return changes.between(self.old_inputs, self.inputs)

    @property
    def changed(self) -> frozenset[str]:
        """The names of the properties in which something changed."""
        return frozenset(str(change.path[0]) for change in self.changes)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    resource: Resource
    id: str
    old_inputs: wire.Properties
    old_outputs: wire.Properties
    timeout_seconds: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A resource as it is. The inputs are those of a Read alone: what the user manages, as it is now."""

    id: str
    outputs: wire.Properties
    inputs: wire.Properties = dataclasses.field(default_factory=dict)


class UnhealthyError(Exception):
    """The resource was made or changed, but is not well; it stays in the state and the next `up` tends to it."""

    def __init__(self, state: State, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.state = state
        self.reasons = tuple(reasons)


class Provider(Protocol):
    """A stand-in. Its methods are called by many threads at once."""

    name: str
    version: str
    identity: frozenset[str]
    """The options whose change makes another provider, and replaces whatever is in it."""

    def configure(self, settings: wire.Properties) -> None: ...

    def check(self, asked: Check) -> Checked: ...

    def diff(self, asked: Diff) -> Difference: ...

    def create(self, asked: Create) -> State: ...

    def read(self, asked: Read) -> State | None:
        """Return what is there now, or None if it is gone."""

    def update(self, asked: Update) -> State: ...

    def delete(self, asked: Delete) -> None: ...

    def cancel(self) -> None:
        """Give up waiting; the engine is being stopped."""
