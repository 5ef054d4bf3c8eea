"""What a guest may not do: choose its node or a container it has not, come uninjected, or become another guest later.

By its labels a guest is counted, so they stay as they were when it was made; and its container has its machine's
resources, so they are not resized. A pod with only one of the two labels is no guest: it is let in, with a warning.
"""

from typing import Any, Final

from autoscaler.api import keys, names, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import identities
from autoscaler.api.policies.base import Match, Operation, Request, ValidatingPolicy, Validation
from autoscaler.api.policies.machines import guests

HAS_NODE: Final = (
    f"spec.nodeName is set, so no scheduling gate can hold this guest until there is room on a machine: leave it out,"
    f" or leave out the labels {keys.MACHINE_GROUP} and {keys.MACHINE_TYPE}"
)
LABELS_KEPT: Final = (
    f"the labels {', '.join(guests.KEPT)} of a guest or sleeper are those it was made with, for by them it is counted:"
    " delete the pod and make it anew"
)
SIZE_KEPT: Final = (
    "a guest's containers keep the resources they were made with, for its machine has no more: for more, delete the pod"
    " and make it anew with another machine type"
)
HALF_LABELLED: Final = (
    f"the pod has one of the labels {keys.MACHINE_GROUP} and {keys.MACHINE_TYPE} and not the other: it is no guest, and"
    " gets no machine"
)


def no_container(name: str) -> str:
    """Say that a guest has no container of this name."""
    return f"label {keys.INJECTING_CONTAINER}: the pod has no container '{name}'"


def uninjected(namespace: str) -> str:
    """Say that nobody knows any machines."""
    return (
        f"the guest got no gate {keys.MACHINE_GATE}, for there is no ConfigMap {names.MACHINE_CATALOGUE} in namespace"
        f" {namespace} that says what machines have: the runtime makes it, so try again soon, and see whether it runs"
    )


# The twins


def _made(request: Request, namespace: str) -> str | None:
    pod = request.object or {}
    if not guests.is_new_guest(request):
        return None
    if pod["spec"].get("nodeName"):
        return HAS_NODE
    if guests.container_index(pod) is None:
        return no_container(guests.labels_of(pod)[keys.INJECTING_CONTAINER])
    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
    is_guest = guests.labels_of(pod).get(keys.POD_ROLE) == keys.ROLE_GUEST
    return None if keys.MACHINE_GATE in gates and is_guest else uninjected(namespace)


def _relabelled(request: Request) -> str | None:
    new, old = guests.labels_of(request.object), guests.labels_of(request.old_object)
    is_kept = all(new.get(key) == old.get(key) for key in guests.KEPT)
    return None if is_kept or not (guests.asks(new) or guests.asks(old)) else LABELS_KEPT


def _bound_with(request: Request) -> str | None:
    """Refuse labels in a binding, which go to the pod."""
    labels = guests.labels_of(request.object)
    return LABELS_KEPT if any(key in labels for key in guests.KEPT) else None


def _resized(request: Request) -> str | None:
    is_same = _resources(request.object) == _resources(request.old_object)
    return None if is_same or not guests.is_new_guest(request) else SIZE_KEPT


def _resources(pod: Manifest | None) -> list[Any]:
    spec = (pod or {})["spec"]
    return [spec.get("resources"), *(container.get("resources") for container in spec["containers"])]


def _half_labelled(request: Request) -> str | None:
    labels = guests.labels_of(request.object)
    is_half = sum(key in labels for key in guests.ASKING) == 1
    return HALF_LABELLED if is_half and guests.lets_guests_in(request) else None


# The same in CEL

_IS_GATED: Final = f"object.spec.?schedulingGates.orValue([]).exists(g, g.name == '{keys.MACHINE_GATE}')"
_IS_GUEST: Final = f"{guests.label(keys.POD_ROLE)} == '{keys.ROLE_GUEST}'"
_ASKING: Final = identities.texts(guests.ASKING)
_KEPT: Final = identities.texts(guests.KEPT)
_LABELS: Final = "object.metadata.?labels.orValue({})"
_CHOSEN: Final = guests.within(guests.label(keys.INJECTING_CONTAINER))


def made_in_order(namespace: str) -> ValidatingPolicy:
    """Write the policy about new guests, for a runtime in this namespace."""
    return ValidatingPolicy(
        name=f"machine-guests.{version.GROUP}",
        match=guests.matching("pods", operation=Operation.CREATE),
        validations=(
            Validation(expression=f"{guests.NODE_NAME} == ''", message=HAS_NODE),
            Validation(
                expression=f"{guests.CONTAINER_INDEX} >= 0",
                message=no_container("..."),
                message_expression=guests.text(no_container(_CHOSEN)),
            ),
            Validation(expression=f"{_IS_GATED} && {_IS_GUEST}", message=uninjected(namespace)),
        ),
        twin=lambda request: _made(request, namespace),
    )


LABELS: Final = ValidatingPolicy(
    name=f"machine-labels-are-kept.{version.GROUP}",
    match=Match(
        resources=("pods", "pods/status"),
        operations=(Operation.UPDATE,),
        object_selector=guests.SELECTOR_OF_ASKING,
    ),
    validations=(
        Validation(
            expression=f"{_KEPT}.all(k, object.metadata.?labels[?k] == oldObject.metadata.?labels[?k])",
            message=LABELS_KEPT,
        ),
    ),
    twin=_relabelled,
)

BINDINGS: Final = ValidatingPolicy(
    name=f"machine-labels-are-not-bound.{version.GROUP}",
    match=Match(resources=("pods/binding", "bindings"), operations=(Operation.CREATE,)),
    validations=(Validation(expression=f"!{_KEPT}.exists(k, k in {_LABELS})", message=LABELS_KEPT),),
    twin=_bound_with,
)

SIZE: Final = ValidatingPolicy(
    name=f"machine-resources-are-kept.{version.GROUP}",
    match=guests.matching("pods/resize", operation=Operation.UPDATE),
    validations=(
        Validation(
            expression="object.spec.?resources == oldObject.spec.?resources"
            " && object.spec.containers.map(c, c.resources) == oldObject.spec.containers.map(c, c.resources)",
            message=SIZE_KEPT,
        ),
    ),
    twin=_resized,
)

HALF: Final = ValidatingPolicy(
    name=f"machine-half-labelled.{version.GROUP}",
    match=Match(
        resources=("pods",),
        operations=(Operation.CREATE,),
        namespace_label=keys.INJECT_RESOURCE,
        namespace_value=keys.INJECT_ENABLED,
    ),
    validations=(Validation(expression=f"!{_ASKING}.exists_one(k, k in {_LABELS})", message=HALF_LABELLED),),
    warns=True,
    twin=_half_labelled,
)
