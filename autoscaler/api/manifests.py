"""Kubernetes objects as plain data, and as the YAML that people and `kubectl apply` read."""

from collections.abc import Iterable
from typing import Any

Manifest = dict[str, Any]


def dump(objects: Iterable[Manifest]) -> str:
    """Write objects as YAML documents; what is equal twice is written twice, as aliases confuse readers."""
    import yaml  # noqa: PLC0415  # the runtime, which writes no YAML, does not wait for it

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # the name is the library's
            return True

    return yaml.dump_all(objects, Dumper=Plain, sort_keys=False, allow_unicode=True, width=120, explicit_start=True)
