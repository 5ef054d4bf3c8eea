"""The stand-in for the docker-build provider: it builds nothing. An image's digest follows from its inputs."""

import hashlib
import json
from typing import Any

from tools.engine.providers import calls, changes, recorder, wire


class DockerBuild:
    """Images as written down; the digest is unknown until `up`, as if it had to be built."""

    name = "docker-build"
    identity: frozenset[str] = frozenset()

    def __init__(self, version: str, store: recorder.Recorder) -> None:
        self.version = version
        self._store = store

    def configure(self, settings: wire.Properties) -> None:
        """Need nothing: no registry is asked."""

    def cancel(self) -> None:
        """Wait for nothing."""

    def check(self, asked: calls.Check) -> calls.Checked:
        return calls.Checked(inputs=asked.news)

    def diff(self, asked: calls.Diff) -> calls.Difference:
        return calls.Difference(changes=changes.between(asked.old_inputs, asked.news))

    def create(self, asked: calls.Create) -> calls.State:
        if asked.preview:
            return calls.State(id="", outputs=asked.inputs)
        outputs = _built(asked.inputs)
        return self._store.create(asked.resource, str(outputs["digest"]), outputs)

    def read(self, asked: calls.Read) -> calls.State | None:
        return self._store.read(asked)

    def update(self, asked: calls.Update) -> calls.State:
        if asked.preview:
            unknown = dict.fromkeys(("digest", "ref", "contextHash"), wire.UNKNOWN)
            return calls.State(id=asked.id, outputs=asked.inputs | unknown)
        return self._store.update(asked, _built(asked.inputs))

    def delete(self, asked: calls.Delete) -> None:
        self._store.delete(asked)


def _built(inputs: wire.Properties) -> wire.Properties:
    plain: dict[str, Any] = wire.plain(inputs)
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    tags = plain.get("tags") or []
    repository = tags[0].rpartition(":")[0] if tags else "image"
    made = {"digest": f"sha256:{digest}", "contextHash": digest, "ref": f"{repository}@sha256:{digest}"}
    return inputs | made
