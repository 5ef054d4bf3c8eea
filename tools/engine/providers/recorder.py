"""Resources that no server plays: written down, one file each, with outputs that somebody else makes up.

A test may edit or remove a file, as somebody would change or remove the thing itself. Secrets are blacked out in the
files; for them a Read trusts the state.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.engine.providers import calls, projection, wire


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recorder:
    """The recorded resources of one provider."""

    directory: Path

    def create(self, resource: calls.Resource, identifier: str, outputs: Mapping[str, wire.Value]) -> calls.State:
        """Write a resource down."""
        self._write(resource, identifier, outputs)
        return calls.State(id=identifier, outputs=dict(outputs))

    def read(self, asked: calls.Read) -> calls.State | None:
        """Return a resource as its file says, or None if there is none."""
        path = self.path(asked.resource.type, asked.id)
        if not path.exists():
            return None
        recorded: dict[str, Any] = json.loads(path.read_text())["outputs"]
        outputs = {
            name: asked.old_outputs.get(name)
            if _is_redacted(value)
            else wire.covered(value, asked.old_inputs.get(name))
            for name, value in recorded.items()
        }
        inputs = projection.as_now(asked.old_inputs, wire.plain(outputs), lambda one, other: bool(one == other))
        return calls.State(id=asked.id, outputs=outputs, inputs=inputs)

    def update(self, asked: calls.Update, outputs: Mapping[str, wire.Value]) -> calls.State:
        """Write a resource down as it is now."""
        if not self.path(asked.resource.type, asked.id).exists():
            raise calls.RefusedError(f"cannot update {asked.resource.name}: {asked.id} is gone; run a refresh")
        self._write(asked.resource, asked.id, outputs)
        return calls.State(id=asked.id, outputs=dict(outputs))

    def delete(self, asked: calls.Delete) -> None:
        """Forget a resource; one that is gone is fine."""
        self.path(asked.resource.type, asked.id).unlink(missing_ok=True)

    def path(self, resource_type: str, identifier: str) -> Path:
        """Return the file of a resource."""
        kind = resource_type.replace(":", "-").replace("/", "-")
        return self.directory / f"{kind}-{hashlib.sha256(identifier.encode()).hexdigest()[:16]}.json"

    def _write(self, resource: calls.Resource, identifier: str, outputs: Mapping[str, wire.Value]) -> None:
        facts = {
            "id": identifier,
            "type": resource.type,
            "name": resource.name,
            "outputs": {name: wire.redacted(value) for name, value in outputs.items()},
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        self.path(resource.type, identifier).write_text(json.dumps(facts, indent=1))


def _is_redacted(value: object) -> bool:
    return wire.REDACTED in json.dumps(value)
