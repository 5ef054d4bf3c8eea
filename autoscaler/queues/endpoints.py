"""Where a pool may ask: endpoints are user input, and the runtime stands where its users do not. Pure.

The address that is connected to decides, not the name: a name may mean one address when it is looked at and another
when it is used. Credentials of the node and of pods are given out on link-local addresses, so these above all.
"""

import ipaddress
from dataclasses import dataclass, field
from typing import Final

import yarl

from autoscaler.queues import access, port
from autoscaler.queues.access import Address

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_THIS_NETWORK: Final = ipaddress.IPv4Network("0.0.0.0/8")
_AWS_METADATA: Final = ipaddress.IPv6Network("fd00:ec2::/32")
_METADATA: Final = frozenset(
    ipaddress.ip_address(text) for text in ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd20:ce::254")
)
"""Where other clouds than AWS give credentials out, besides their link-local addresses."""
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_NAT64_LOCAL: Final = ipaddress.IPv6Network("64:ff9b:1::/48")
_TRANSLATED: Final = ipaddress.IPv6Network("::ffff:0:0:0/96")
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
"""Like NAT64's these end in an IPv4 address: the forgotten form `::1.2.3.4`."""
_API_NAMES: Final = ("kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A host, by name or address, and a port."""

    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> "Server":
        """Return whom a URL speaks of."""
        parsed = yarl.URL(url)
        return cls(host=parsed.host or "", port=parsed.port or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What no pool may ask, and what those of one namespace may."""

    api_servers: tuple[Server, ...] = ()
    """The cluster's own API server, under each name and address it is known by."""
    allow_loopback: bool = False
    """For development alone: queues on this computer may be asked."""
    queue_access: access.Access = field(default_factory=access.Access)


def parse(endpoint: str, *, namespace: str) -> yarl.URL:
    """Return the URL to ask; the short name of a Service in the pool's own namespace is made longer."""
    try:
        url = yarl.URL(endpoint)
        known = url.scheme in _DEFAULT_PORTS and url.host and url.port
    except ValueError as error:
        raise refused(endpoint, "it is not a URL") from error
    if not known:
        raise refused(endpoint, "it is not a URL with http or https and a host")
    if url.user is not None or url.password is not None:
        raise refused(str(url.with_user(None)), "it holds a user name; credentials belong into the Secret")
    return url.with_host(host_in(url.host or "", namespace)).with_fragment(None)


def host_in(host: str, namespace: str) -> str:
    """Return the host's longer name, where `<service>` or `<service>.<namespace>` is a Service in that namespace.

    Connections are shared by those who ask the same host: under the longer name nobody else asks it.
    """
    match host.split("."):
        case [service] if ":" not in service:
            return f"{host}.{namespace}.svc"
        case [_, owner] if owner == namespace:
            return f"{host}.svc"
        case _:
            return host


def redirected(url: yarl.URL, location: str) -> yarl.URL:
    """Return where an answer sends us, if that is the same server; raise QueueError if it is not.

    From http to https of the same host is allowed, both on their own ports. The way back is not: it shows the key.
    """
    try:
        target = url.join(yarl.URL(location)).with_fragment(None)
        allowed = target.user is None and (_server(target) == _server(url) or _is_upgrade(url, target))
    except ValueError:
        allowed = False
    if not allowed:
        raise port.QueueError(
            port.Reason.REDIRECTED,
            f"GET {shown(url)} was redirected to another host, which is not followed: name the final URL as endpoint",
        )
    return target


def shown(url: yarl.URL) -> str:
    """Return a URL as messages show it, without its query."""
    return str(url.with_query(None))


def check_host(url: yarl.URL, policy: Policy) -> None:
    """Refuse the API server's names; what it resolves to is checked when connecting."""
    host = (url.host or "").rstrip(".").lower()
    names = {server.host.rstrip(".").lower() for server in policy.api_servers if address(server.host) is None}
    if host in names or host in _API_NAMES or host.startswith("kubernetes.default.svc."):
        raise refused(shown(url), "it is the cluster's own API server")


def check_address(text: str, number: int, policy: Policy, *, api_addresses: frozenset[Address] = frozenset()) -> None:
    """Refuse an address that no pool may ask, by what it is, whichever way it is written."""
    target = address(text)
    if target is None:
        raise refused(text, "it is not an address")
    plain = unwrapped(target)
    if plain.is_loopback and policy.allow_loopback:
        # The API server of a development cluster is here as well, on a port of its own.
        if any(server.port == number for server in policy.api_servers):
            raise refused(text, "it is the cluster's own API server")
        return
    if what := _forbidden(plain):
        raise refused(text, f"{what} addresses are not for pools")
    known = {unwrapped(each) for server in policy.api_servers if (each := address(server.host))}
    if plain in known or plain in api_addresses:
        raise refused(text, "it is the cluster's own API server")


def check_access(target: access.Target, text: str, policy: Policy) -> None:
    """Refuse an address that this pool may not ask; check_address has seen it before."""
    found = address(text)
    if found is None:
        raise refused(text, "it is not an address")
    plain = unwrapped(found)
    if not (plain.is_loopback and policy.allow_loopback):
        access.check(target, plain)


def address(text: str) -> Address | None:
    """Return the address that a host is; None where it is a name."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def unwrapped(given: Address) -> Address:
    """Return the IPv4 address within an IPv6 address that stands for one."""
    if isinstance(given, ipaddress.IPv4Address):
        return given
    if inner := given.ipv4_mapped or given.sixtofour:
        return inner
    plain = ipaddress.IPv6Address(int(given))  # without the zone
    if any(plain in each for each in (_NAT64, _NAT64_LOCAL, _TRANSLATED)) or (
        plain in _COMPATIBLE and int(plain) > 0xFFFF
    ):  # ::1 is nobody's 0.0.0.1
        return ipaddress.IPv4Address(int(plain) & 0xFFFFFFFF)
    return plain


def _forbidden(plain: Address) -> str | None:
    if plain.is_link_local or plain in _AWS_METADATA or plain in _METADATA:
        return "link-local and metadata"
    if plain.is_loopback:
        return "loopback"
    if plain.is_unspecified or plain in _THIS_NETWORK:
        return "unspecified"
    if plain.is_multicast:
        return "multicast"
    return "reserved" if isinstance(plain, ipaddress.IPv4Address) and plain.is_reserved else None


def _server(url: yarl.URL) -> tuple[str, str | None, int | None]:
    return url.scheme, url.host, url.port


def _is_upgrade(url: yarl.URL, target: yarl.URL) -> bool:
    return (
        (url.scheme, target.scheme) == ("http", "https")
        and url.host == target.host
        and url.is_default_port()
        and target.is_default_port()
    )


def refused(endpoint: str, why: str) -> port.QueueError:
    """Return the error for an endpoint that is not asked."""
    return port.QueueError(
        port.Reason.ENDPOINT_REFUSED, f"{endpoint} is not asked: {why}. Name an endpoint that serves this pool's queue"
    )
