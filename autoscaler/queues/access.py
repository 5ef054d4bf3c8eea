"""Whom a pool of one namespace may ask. Pure.

Without a grant: Services of its own namespace and public hosts. The runtime can reach what its users cannot, and shows
the answer as a queue's length, so anything else would lead past other tenants' network policies.

A Service of the pool's own namespace is known by its name alone, and so its name must be one that nobody else can
answer for: it is looked up in full, with the cluster's domain and without any search list. All other names are looked
up as they stand, and judged by every address they mean.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from autoscaler.api.settings.queue_access import WILDCARD, QueueGrant
from autoscaler.queues import port

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

CLUSTER_DOMAIN: Final = "cluster.local"
CONFIG_KEY: Final = "autoscaler.queueAccess"
"""Where a stack's config grants more."""
_SERVICE: Final = "svc"
_SHORT_PARTS: Final = 2
"""`<service>.<namespace>`."""


NOTHING: Final = QueueGrant()


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may ask what besides."""

    grants: Mapping[str, QueueGrant] = field(default_factory=dict)
    """By the pools' namespace."""
    cluster_domain: str = CLUSTER_DOMAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A host that a pool of a namespace may ask, if its addresses are right."""

    host: str
    namespace: str
    """The pool's."""
    name: str
    """What to look up."""
    is_service: bool
    """Whether the name alone says that it may be asked, whatever cluster address it has."""
    grant: QueueGrant

    @property
    def is_literal(self) -> bool:
        """Whether the host is an address."""
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return True


def judge(host: str, namespace: str, access: Access) -> Target:
    """Return whom a pool means by a host; raise QueueError for a Service of a namespace that it may not ask."""
    grant = access.grants.get(namespace, NOTHING)
    plain = host.rstrip(".").lower()
    parts = _service_parts(host.lower(), {namespace, *grant.namespaces}, access.cluster_domain)
    if parts is None:
        name = f"{plain}." if "." in plain else plain
        return Target(host=plain, namespace=namespace, name=name, is_service=False, grant=grant)
    owner = parts[-1]
    if owner != namespace and owner not in grant.namespaces:
        raise not_allowed(f"{plain} is a Service of namespace {owner}", namespace, f"namespaces: [{owner}]")
    name = f"{'.'.join(parts)}.{_SERVICE}.{access.cluster_domain}."
    return Target(host=plain, namespace=namespace, name=name, is_service=True, grant=grant)


def check(target: Target, address: Address) -> None:
    """Refuse an address that is not public, unless the target's name or its namespace's grant allows it."""
    if is_public(address) or target.is_service:
        return
    if _allows_address(target.grant, address) or _allows_host(target.grant, target.host):
        return
    if target.is_literal:
        block = f"{address}/{address.max_prefixlen}"
        raise not_allowed(f"{target.host} is a private address", target.namespace, f"cidrs: [{block}]")
    what = f"{target.host} has the private address {address}"
    raise not_allowed(what, target.namespace, f"hosts: [{target.host}]")


def check_canonical(target: Target, canonical: str) -> None:
    """Refuse a Service that is but another name for a host elsewhere (type ExternalName)."""
    if target.is_service and canonical.rstrip(".").lower() != target.name.rstrip("."):
        raise port.QueueError(
            port.Reason.NOT_ALLOWED,
            f"{target.host} is not asked: it is another name for {canonical.rstrip('.')} (a Service of type "
            "ExternalName), and names that lead elsewhere are not followed. Name that host itself as endpoint",
        )


def is_public(address: Address) -> bool:
    """Tell whether an address, without the IPv6 forms of IPv4, is one of the internet."""
    return address.is_global and not (isinstance(address, ipaddress.IPv6Address) and address.is_site_local)


def not_allowed(what: str, namespace: str, grant: str) -> port.QueueError:
    """Return the error for what this namespace may not ask, with the config that would let it."""
    return port.QueueError(
        port.Reason.NOT_ALLOWED,
        f"the queue was not asked: {what}, and worker pools of namespace {namespace} may ask public hosts and "
        f"Services of their own namespace. The stack's config can allow it: {CONFIG_KEY}: {{{namespace}: {{{grant}}}}}",
    )


def _allows_host(grant: QueueGrant, host: str) -> bool:
    """Tell whether a host is granted, by itself or by a domain it is under."""
    parents = host.split(".")[1:]
    domains = {f"{WILDCARD}{'.'.join(parents[step:])}" for step in range(len(parents))}
    return host in grant.hosts or not domains.isdisjoint(grant.hosts)


def _allows_address(grant: QueueGrant, address: Address) -> bool:
    """Tell whether an address is in a block that is granted."""
    return any(address in ipaddress.ip_network(block) for block in grant.cidrs)


def _service_parts(host: str, known: set[str], domain: str) -> list[str] | None:
    """Return a Service's name and namespace, perhaps with a pod's before; None for a host that is none.

    `<service>.<namespace>` alone is one only for namespaces that are known: anybody may own a domain of two parts. One
    that ends with a dot is never a short form.
    """
    parts = host.rstrip(".").split(".")
    for suffix in ([_SERVICE], [_SERVICE, *domain.split(".")]):
        front = parts[: -len(suffix)]
        if parts[-len(suffix) :] == suffix and len(front) >= _SHORT_PARTS:
            return front
    if len(parts) == _SHORT_PARTS and parts[1] in known and not host.endswith("."):
        return parts
    return None
