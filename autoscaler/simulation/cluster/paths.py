"""What a request is about, read from its path."""

from dataclasses import dataclass

from autoscaler.simulation.cluster import failures, served
from autoscaler.simulation.cluster.store import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A collection, an object or a subresource of one."""

    kind: served.Kind
    namespace: str | None = None
    """None: the whole cluster."""
    name: str | None = None
    subresource: str | None = None

    @property
    def key(self) -> Key:
        if self.name is None:
            raise failures.not_allowed()
        return Key(self.namespace or "", self.name)


def parse(path: str, registry: served.Registry) -> Target:
    """Read a path; refuse one that nothing is served under."""
    match path.strip("/").split("/"):
        case ["api", "v1", *rest]:
            return _target("", "v1", rest, registry)
        case ["apis", group, version, *rest]:
            return _target(group, version, rest, registry)
        case _:
            raise failures.not_served()


def _target(group: str, version: str, rest: list[str], registry: served.Registry) -> Target:
    plural, namespace, tail = _split(rest)
    kind = registry.find(group, version, plural)
    if kind is None or len(tail) > 2:
        raise failures.not_served()
    is_cluster_wide = namespace is None
    if kind.resource.namespaced == is_cluster_wide and (tail or not is_cluster_wide):
        raise failures.not_served()  # a namespaced object without its namespace, or the other way round
    return Target(
        kind=kind,
        namespace=namespace,
        name=tail[0] if tail else None,
        subresource=tail[1] if len(tail) > 1 else None,
    )


def _split(rest: list[str]) -> tuple[str, str | None, list[str]]:
    """Tell apart plural, namespace and what follows; a namespace is itself an object with subresources."""
    match rest:
        case ["namespaces", name, "status" | "finalize" as subresource]:
            return "namespaces", None, [name, subresource]
        case ["namespaces", namespace, plural, *tail]:
            return plural, namespace, tail
        case [plural, *tail]:
            return plural, None, tail
        case _:
            raise failures.not_served()
