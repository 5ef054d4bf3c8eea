"""From the registry's names to controllers that can run: each one's room is found by its name. It starts nothing.

Only the rooms of controllers that run are imported.
"""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from autoscaler.api import controllers
from autoscaler.options import Build, Options
from autoscaler.runtime import process


def registrations(
    asked: Iterable[str], options: Options, *, classes: Sequence[str | None] = (None,)
) -> dict[str, process.Registration]:
    """Return what these controllers run as, by name: one for each Lease, and worker pools have one for each class."""
    options = replace(options, classes=frozenset(classes))
    return {
        lease.title: _registration(lease, options)
        for each in controllers.chosen(asked)
        for lease in controllers.leases(each, scope=options.scope, classes=classes)
    }


def lease_namespaces(made: Mapping[str, process.Registration]) -> dict[str, str]:
    """Return the namespaces of the Leases that are not in the runtime's own."""
    return {each.lease: each.lease_namespace for each in made.values() if each.lease_namespace}


def _registration(lease: controllers.Lease, options: Options) -> process.Registration:
    return process.Registration(
        lease=lease.name,
        lease_namespace=lease.namespace,
        build=partial(_room(lease.controller), options=replace(options, class_name=lease.class_name)),
    )


def _room(name: str) -> Build:
    build: Build = importlib.import_module(f"autoscaler.{name}").build
    return build
