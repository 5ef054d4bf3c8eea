"""What pools of one namespace may ask besides public hosts and Services of their own. What a stack tells the runtime.

Values only, checked when they are read. Who may ask whom is decided in autoscaler.queues.access.
"""

import ipaddress
import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field, RootModel

from autoscaler.api.resources.base import Model
from autoscaler.api.resources.types import DnsLabel

WILDCARD: Final = "*."
"""Before a domain: every host under it, and not the domain itself."""
_NAME: Final = re.compile(r"[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?(\.[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?)*")
_SERVICE: Final = re.compile(r"(.*\.)?svc(\.cluster\.local)?")


def _host(text: str) -> str:
    name = text.removeprefix(WILDCARD)
    if not _NAME.fullmatch(name) or (name == text and "." not in name):
        raise ValueError("must be a full host name in lower case such as queue.corp.example, or *.corp.example")
    if name.rpartition(".")[2].isdecimal():
        raise ValueError("is an address: it belongs into cidrs")
    if _SERVICE.fullmatch(name):
        raise ValueError("is the name of a Service: its namespace belongs into namespaces")
    return text


def _cidr(text: str) -> str:
    try:
        network = ipaddress.ip_network(text)
        if "/" not in text:
            raise ValueError("its length is missing")  # noqa: TRY301  # told like the others
    except ValueError as error:
        raise ValueError(f"must be a block of addresses such as 10.32.0.0/16 or fd12::/16 ({error})") from None
    if network.is_loopback or network.is_link_local or network.is_multicast:
        raise ValueError("is loopback, link-local or multicast, which no worker pool may ask")
    return text


Host = Annotated[str, Field(min_length=1, max_length=253), AfterValidator(_host)]
"""A host's full name, or `*.` and a domain."""
AnyCidr = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_cidr)]
"""A block of IPv4 or IPv6 addresses."""


class QueueGrant(Model):
    """What worker pools of one namespace may ask besides public hosts and Services of their own namespace."""

    hosts: Annotated[tuple[Host, ...], Field(max_length=64)] = ()
    """Hosts with private addresses, by their full names; *.corp.example is every host under corp.example."""
    cidrs: Annotated[tuple[AnyCidr, ...], Field(max_length=64)] = ()
    """Private addresses, as blocks."""
    namespaces: Annotated[tuple[DnsLabel, ...], Field(max_length=64)] = ()
    """Namespaces whose Services may be asked, such as the one where Prometheus runs."""


Grants = Annotated[dict[DnsLabel, QueueGrant], Field(max_length=256)]
"""By the pools' namespace."""


class QueueAccess(RootModel[Grants]):
    """All grants, in the form in which they travel to the runtime."""

    root: Grants = {}

    def to_json(self) -> str:
        """Write it as the runtime reads it."""
        return self.model_dump_json(by_alias=True, exclude_defaults=True)
