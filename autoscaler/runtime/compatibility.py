"""Whether this version may work with what is installed, asked once at start: too old is refused, newer is fine.

Definitions are updated before the Deployment, so a runtime meets definitions of its own minor version or newer.
"""

import re
from typing import Final

import msgspec

from autoscaler.api import keys, version
from autoscaler.kube import kinds, objects, port
from autoscaler.kube.reading import listing

_PART_OF: Final = {"labelSelector": "app.kubernetes.io/part-of=sluice"}


class IncompatibleError(Exception):
    """What is installed is too old for this version; the message says what to do."""


class _Version(msgspec.Struct):
    major: str = "0"
    minor: str = "0"
    git_version: str = msgspec.field(name="gitVersion", default="")


async def check(api: port.Api) -> None:
    """Raise IncompatibleError if Kubernetes or a definition of ours is too old."""
    served = msgspec.json.decode(await port.get(api, "/version"), type=_Version)
    kubernetes(served.major, served.minor, served.git_version)
    for found in await listing.read(api, kinds.DEFINITIONS, objects.simple, query=_PART_OF):
        definition(found.meta.key.name, found.meta.labels.get(keys.VERSION, ""))


def kubernetes(major: str, minor: str, full: str) -> None:
    """Refuse a Kubernetes that lacks what we stand on."""
    digits = tuple(int(re.sub(r"\D.*", "", part) or 0) for part in (major, minor))
    if digits < version.MINIMUM_KUBERNETES:
        want = ".".join(map(str, version.MINIMUM_KUBERNETES))
        raise IncompatibleError(
            f"Kubernetes {full} is too old: Sluice needs {want} or newer; upgrade the cluster first"
        )


def definition(name: str, stamp: str) -> None:
    """Refuse a definition that an older minor version installed; one of somebody else's group is not ours to judge."""
    if not name.endswith(f".{version.GROUP}"):
        return
    if _minor(stamp) < _minor(version.VERSION):
        raise IncompatibleError(
            f"the definition {name} is of version {stamp or 'unknown'}, too old for Sluice {version.VERSION}:"
            " run `pulumi up` of this version, or apply what `python -m autoscaler crds` prints"
        )


def _minor(stamp: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)\.", stamp)
    return (int(found[1]), int(found[2])) if found else (0, 0)
