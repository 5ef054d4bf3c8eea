"""Kubernetes objects as plain data, and as the YAML that people and `kubectl apply` read."""

from collections.abc import Iterable
from typing import Any

import yaml

Manifest = dict[str, Any]


class _Plain(yaml.SafeDumper):
    """Writes what is equal twice, instead of once with an alias: aliases confuse readers and some parsers."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # the name is the library's
        return True


def dump(objects: Iterable[Manifest]) -> str:
    """Write objects as YAML documents."""
    return yaml.dump_all(objects, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=120, explicit_start=True)
