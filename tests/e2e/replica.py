"""A replica of the runtime with small controllers, for tests of the engine: `python -m tests.e2e.replica run …`.

`copies` keeps one ConfigMap `<name>-copy` per ConfigMap labelled role=source. `beats` creates a ConfigMap ten times a
second, so that a test sees who acts when. `pools` only watches worker pools.
"""

import argparse
import contextlib
import sys
from collections.abc import Mapping
from typing import Final

from autoscaler import control
from autoscaler.api import resources
from autoscaler.kube import kinds, objects, port
from autoscaler.kube.writing import writer
from autoscaler.runtime import process, settings
from autoscaler.runtime.commands import run

LEASE: Final = "engine-test"
BEAT_SECONDS: Final = 0.1


class Copies:
    """One copy per source, and no copy without a source."""

    def __init__(self, context: control.ControllerContext) -> None:
        self._context = context
        self._table = context.watch(kinds.CONFIG_MAPS, objects.simple)
        self._target = writer.Target(resource=kinds.CONFIG_MAPS, decode=objects.simple, table=self._table)

    async def reconcile(self, dirty: control.Dirty) -> float | None:
        del dirty
        sources = {stored.meta.key for stored in self._table if stored.meta.labels.get("role") == "source"}
        copies = {stored.meta.key: stored for stored in self._table if stored.meta.labels.get("role") == "copy"}
        wanted = {objects.Key(key.namespace, f"{key.name}-copy") for key in sources}
        for key in sorted(wanted - copies.keys()):
            manifest = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"namespace": key.namespace, "name": key.name, "labels": {"role": "copy"}},
            }
            await self._context.writer.create(self._target, manifest)
        for key in sorted(copies.keys() - wanted):
            await self._context.writer.delete(self._target, key, only_if=writer.Precondition.of(copies[key]))
        return None


class Beats:
    """A mark of life, again and again."""

    def __init__(self, context: control.ControllerContext, identity: str, namespace: str) -> None:
        self._context = context
        self._identity = identity
        self._namespace = namespace
        self._target = writer.Target(resource=kinds.CONFIG_MAPS, decode=objects.simple)
        self._number = 0

    async def reconcile(self, dirty: control.Dirty) -> float | None:
        del dirty
        self._number += 1
        name = f"beat-{self._identity}-{self._number:06d}"
        labels = {"role": "beat", "by": self._identity}
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": self._namespace, "name": name, "labels": labels},
        }
        with contextlib.suppress(port.AlreadyExistsError):  # an earlier attempt whose answer was lost
            await self._context.writer.create(self._target, manifest)
        return self._context.clock.now() + BEAT_SECONDS


class Pools:
    """Nothing but a watch of worker pools."""

    def __init__(self, context: control.ControllerContext) -> None:
        context.watch(kinds.custom(resources.WorkerPool), objects.custom(resources.WorkerPool))

    async def reconcile(self, dirty: control.Dirty) -> float | None:
        del dirty
        return None


def registrations(identity: str, namespace: str) -> Mapping[str, process.Registration]:
    """Return the controllers."""
    return {
        "copies": process.Registration(lease=LEASE, build=Copies),
        "pools": process.Registration(lease=LEASE, build=Pools),
        "beats": process.Registration(lease=LEASE, build=lambda context: Beats(context, identity, namespace)),
    }


def _chosen(chosen: settings.Settings) -> Mapping[str, process.Registration]:
    made = registrations(chosen.identity, chosen.namespace)
    return {name: made[name] for name in chosen.controllers}


def main() -> int:
    """Run as the real command does."""
    parser = argparse.ArgumentParser()
    known = ("copies", "beats", "pools")
    settings.add_arguments(parser, known)
    chosen = settings.read(parser.parse_args(), known)
    return run.run(chosen, _chosen)


if __name__ == "__main__":
    sys.exit(main())
