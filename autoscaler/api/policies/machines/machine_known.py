"""A guest names a machine group and type that exist; otherwise it is refused, and told which there are.

The catalogue says so, as it does for the injection (machine_injection.py). Without one nothing is said here: such a
guest was not injected, and is refused for that.
"""

from typing import Final

from autoscaler.api import keys, machine_catalogue, version
from autoscaler.api.policies.base import Operation, Request, ValidatingPolicy, Validation
from autoscaler.api.policies.machines import guests, machine_injection

NAME: Final = f"machine-known.{version.GROUP}"


def unknown_group(group: str, known: str) -> str:
    """Say that a group is not known."""
    return f"label {keys.MACHINE_GROUP}: there is no machine group '{group}'; the groups are: {known}"


def unknown_type(group: str, machine_type: str, known: str) -> str:
    """Say that a group has no such type."""
    return f"label {keys.MACHINE_TYPE}: group '{group}' has no machine type '{machine_type}'; its types are: {known}"


def _refusal(request: Request) -> str | None:
    if not guests.is_new_guest(request):
        return None
    data = (request.param or {}).get("data") or {}
    group, machine_type = (guests.labels_of(request.object)[key] for key in guests.ASKING)
    known = data.get(f"{group}.{machine_catalogue.TYPES}")
    if known is None:
        return unknown_group(group, data.get(machine_catalogue.GROUPS, ""))
    if machine_catalogue.find(data, group, machine_type) is None:
        return unknown_type(group, machine_type, known)
    return None


# The same in CEL

_GROUP: Final = guests.within("variables.group")
_TYPE: Final = guests.within("variables.type")
_TYPES: Final = f"variables.data[?variables.group + '.{machine_catalogue.TYPES}']"
_GROUPS: Final = f"variables.data[?'{machine_catalogue.GROUPS}'].orValue('')"


def policy(namespace: str) -> ValidatingPolicy:
    """Write the policy for a runtime in this namespace."""
    return ValidatingPolicy(
        name=NAME,
        match=guests.matching("pods", operation=Operation.CREATE),
        param=machine_injection.catalogue(namespace),
        variables={
            "group": guests.label(keys.MACHINE_GROUP),
            "type": guests.label(keys.MACHINE_TYPE),
            "data": "params.?data.orValue({})",
        },
        validations=(
            Validation(
                expression=f"{_TYPES}.hasValue()",
                message=f"label {keys.MACHINE_GROUP}: there is no such machine group",
                message_expression=guests.text(unknown_group(_GROUP, guests.within(_GROUPS))),
            ),
            Validation(
                expression=f"variables.group + '.' + variables.type + '.{machine_catalogue.CPU}' in variables.data",
                message=f"label {keys.MACHINE_TYPE}: the machine group has no such machine type",
                message_expression=guests.text(unknown_type(_GROUP, _TYPE, guests.within(f"{_TYPES}.orValue('')"))),
            ),
        ),
        twin=_refusal,
    )
