"""Which pods are guests of a machine group, in Python and in CEL; the policies about machines share it.

A guest has both labels, sluice.dev/machine-group and sluice.dev/machine-type, and is no sleeper. It is in a namespace
that lets guests in: elsewhere the labels mean nothing.
"""

from collections.abc import Mapping
from typing import Final

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies.base import Match, Operation, Request

ASKING: Final = (keys.MACHINE_GROUP, keys.MACHINE_TYPE)
"""The two labels by which a pod asks for a machine."""
KEPT: Final = (*ASKING, keys.POD_ROLE, keys.INJECTING_CONTAINER)
"""The labels by which guests and sleepers are known."""


# In Python


def labels_of(pod: Manifest | None) -> Mapping[str, str]:
    """Return a pod's labels."""
    return ((pod or {}).get("metadata") or {}).get("labels") or {}


def asks(labels: Mapping[str, str]) -> bool:
    """Tell whether labels name a machine group and type, be they a guest's or a sleeper's."""
    return all(label in labels for label in ASKING)


def lets_guests_in(request: Request) -> bool:
    """Tell whether the namespace that is written to is one for guests."""
    return request.namespace_labels.get(keys.INJECT_RESOURCE) == keys.INJECT_ENABLED


def is_new_guest(request: Request) -> bool:
    """Tell whether the pod that is written is a guest."""
    labels = labels_of(request.object)
    return lets_guests_in(request) and asks(labels) and labels.get(keys.POD_ROLE) != keys.ROLE_RESERVATION


def container_index(pod: Manifest) -> int | None:
    """Return the number of the container that receives the machine's resources; None where the pod has no such one."""
    containers = [container["name"] for container in pod["spec"]["containers"]]
    chosen = labels_of(pod).get(keys.INJECTING_CONTAINER)
    if chosen is None:
        return 0
    return containers.index(chosen) if chosen in containers else None


# The same in CEL


def label(key: str, pod: str = "object") -> str:
    """Write a label of a pod; empty where the pod does not have it."""
    return f"{pod}.metadata.?labels[?'{key}'].orValue('')"


SELECTOR_OF_ASKING: Final[Manifest] = {"matchExpressions": [{"key": key, "operator": "Exists"} for key in ASKING]}
"""Guests and sleepers, as label selectors select."""
SELECTOR_OF_GUESTS: Final[Manifest] = {
    "matchExpressions": [
        *SELECTOR_OF_ASKING["matchExpressions"],
        {"key": keys.POD_ROLE, "operator": "NotIn", "values": [keys.ROLE_RESERVATION]},
    ]
}
CONTAINER_INDEX: Final = (
    f"object.metadata.?labels[?'{keys.INJECTING_CONTAINER}']"
    ".optMap(n, object.spec.containers.map(c, c.name).indexOf(n)).orValue(0)"
)
"""The number of the container that receives the machine's resources; -1 where the pod has no such one."""
NODE_NAME: Final = "object.spec.?nodeName.orValue('')"


def text(written: str) -> str:
    """Write a text, in which expressions may stand."""
    return f'"{written}"'


def within(expression: str) -> str:
    """Write an expression that stands within a text."""
    return f'" + {expression} + "'


def matching(*resources: str, operation: Operation) -> Match:
    """Match writes of guests, in namespaces that let them in."""
    return Match(
        resources=resources,
        operations=(operation,),
        namespace_label=keys.INJECT_RESOURCE,
        namespace_value=keys.INJECT_ENABLED,
        object_selector=SELECTOR_OF_GUESTS,
    )
