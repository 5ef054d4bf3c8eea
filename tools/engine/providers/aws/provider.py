"""The stand-in for the AWS provider: it sorts resources by type to moto or to the recorder.

Previews make no call: what only AWS could tell is unknown in them. Nothing is sent that the program did not give.
"""

import dataclasses
import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tools.engine.providers import calls, journal, recorder, wire
from tools.engine.providers.aws import (
    cloud,
    groups,
    identities,
    networks,
    plausible,
    queues,
    rules,
    settings,
    tags,
    templates,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """How moto plays one type."""

    create: Callable[[cloud.Cloud, calls.Create], calls.State]
    read: Callable[[cloud.Cloud, calls.Read], calls.State | None]
    update: Callable[[cloud.Cloud, calls.Update], calls.State]
    delete: Callable[[cloud.Cloud, calls.Delete], None]


_NETWORK = Played(create=networks.create, read=networks.read, update=networks.update, delete=networks.delete)
PLAYED: Final[Mapping[str, Played]] = {
    networks.VPC: _NETWORK,
    networks.SUBNET: _NETWORK,
    networks.GATEWAY: _NETWORK,
    networks.SECURITY_GROUP: _NETWORK,
    groups.TYPE: Played(create=groups.create, read=groups.read, update=groups.update, delete=groups.delete),
    templates.TYPE: Played(
        create=templates.create, read=templates.read, update=templates.update, delete=templates.delete
    ),
    identities.ROLE: Played(
        create=identities.create_role,
        read=identities.read_role,
        update=identities.update_role,
        delete=identities.delete_role,
    ),
    identities.ROLE_POLICY: Played(
        create=identities.create_role_policy,
        read=identities.read_role_policy,
        update=identities.update_role_policy,
        delete=identities.delete_role_policy,
    ),
    identities.POLICY: Played(
        create=identities.create_policy,
        read=identities.read_policy,
        update=identities.update_policy,
        delete=identities.delete_policy,
    ),
    identities.ATTACHMENT: Played(
        create=identities.create_attachment,
        read=identities.read_attachment,
        update=identities.update_attachment,
        delete=identities.delete_attachment,
    ),
    identities.PROFILE: Played(
        create=identities.create_profile,
        read=identities.read_profile,
        update=identities.update_profile,
        delete=identities.delete_profile,
    ),
    queues.QUEUE: Played(create=queues.create, read=queues.read, update=queues.update, delete=queues.delete),
    queues.POLICY: Played(
        create=queues.create_policy,
        read=queues.read_policy,
        update=queues.update_policy,
        delete=queues.delete_policy,
    ),
}


class Aws:
    """One provider resource of the program."""

    name = "aws"
    identity: frozenset[str] = frozenset()

    def __init__(self, version: str, book: journal.Journal, store: recorder.Recorder, clusters: Path) -> None:
        self.version = version
        self._journal = book
        self._store = store
        self._clusters = clusters
        self._recording = threading.Lock()
        self._cloud = cloud.Cloud(settings.Settings.of({}, os.environ), book)

    def configure(self, settings_given: wire.Properties) -> None:
        self._cloud = cloud.Cloud(settings.Settings.of(settings_given, os.environ), self._journal)

    def cancel(self) -> None:
        """Wait for nothing that takes long."""

    def check(self, asked: calls.Check) -> calls.Checked:
        return rules.check(asked, self._cloud.settings.default_tags)

    def diff(self, asked: calls.Diff) -> calls.Difference:
        return rules.difference(asked)

    def create(self, asked: calls.Create) -> calls.State:
        if asked.preview:
            return calls.State(id="", outputs=asked.inputs)
        self._cloud.demand_allowed_account()
        tags.demand_short_keys(wire.plain(asked.inputs))
        played = PLAYED.get(asked.resource.type)
        if played is not None:
            return _covered(played.create(self._cloud, asked), asked.inputs)
        clusters = json.loads(self._clusters.read_text())
        identifier, made = plausible.made(asked.resource, wire.plain(asked.inputs), self._cloud.settings, clusters)
        with self._recording:
            self._demand_new(asked.resource, identifier)
            return self._store.create(asked.resource, identifier, asked.inputs | wire.covered(made, asked.inputs))

    def read(self, asked: calls.Read) -> calls.State | None:
        played = PLAYED.get(asked.resource.type)
        found = self._store.read(asked) if played is None else played.read(self._cloud, asked)
        return None if found is None else _covered(found, asked.old_inputs)

    def update(self, asked: calls.Update) -> calls.State:
        if asked.preview:
            return calls.State(id=asked.id, outputs=_foreseen(asked))
        tags.demand_short_keys(wire.plain(asked.inputs))
        played = PLAYED.get(asked.resource.type)
        if played is not None:
            return _covered(played.update(self._cloud, asked), asked.inputs)
        return self._store.update(asked, _carried_over(asked))

    def delete(self, asked: calls.Delete) -> None:
        played = PLAYED.get(asked.resource.type)
        if played is None:
            self._store.delete(asked)
        else:
            played.delete(self._cloud, asked)

    def _demand_new(self, resource: calls.Resource, identifier: str) -> None:
        if resource.type in plausible.UNIQUE and self._store.path(resource.type, identifier).exists():
            raise calls.RefusedError(
                f"ResourceInUseException (409): {resource.type} {identifier} is already in use; "
                "the program must make it once"
            )


def _covered(state: calls.State, inputs: wire.Properties) -> calls.State:
    """Keep secret what was secret as an input."""
    return dataclasses.replace(state, outputs=wire.covered(state.outputs, inputs))


def _carried_over(asked: calls.Update) -> wire.Properties:
    """Return new inputs over old outputs, without what was taken out of the inputs."""
    kept = {
        name: value for name, value in asked.old_outputs.items() if name not in asked.old_inputs or name in asked.inputs
    }
    merged = {
        name: {**kept[name], **value} if isinstance(value, Mapping) and _is_nested(asked, name) else value
        for name, value in asked.inputs.items()
    }
    return kept | merged


def _is_nested(asked: calls.Update, name: str) -> bool:
    """Tell whether AWS added fields of its own to an input, such as the security group of a cluster's network."""
    old_output, old_input = asked.old_outputs.get(name), asked.old_inputs.get(name)
    return isinstance(old_output, Mapping) and isinstance(old_input, Mapping) and old_output.keys() > old_input.keys()


def _foreseen(asked: calls.Update) -> wire.Properties:
    """Return what a preview knows of a changed resource."""
    unknown: wire.Properties = {}
    if asked.resource.type == templates.TYPE and templates.makes_version(asked):
        unknown = {"latestVersion": wire.UNKNOWN, "defaultVersion": wire.UNKNOWN}
    return _carried_over(asked) | unknown
