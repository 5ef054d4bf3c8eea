"""A Machine's label sluice.dev/machine-group is required and equals its name.

So a group has one Machine. A CRD's own rules cannot see labels, hence a policy.
"""

from typing import Final

from autoscaler.api import keys, version
from autoscaler.api.policies.base import Operation, Request, ValidatingPolicy, Validation, ours

MESSAGE: Final = f"metadata.labels[{keys.MACHINE_GROUP}] must be set to metadata.name, the name of the machine group"


def _refusal(request: Request) -> str | None:
    metadata = (request.object or {})["metadata"]
    if "deletionTimestamp" in metadata:
        return None
    group = metadata.get("labels", {}).get(keys.MACHINE_GROUP)
    return None if group == metadata["name"] else MESSAGE


POLICY: Final = ValidatingPolicy(
    name=f"machine-group-label.{version.GROUP}",
    match=ours(
        "machines",
        operations=(Operation.CREATE, Operation.UPDATE),
        conditions={"lives": "!has(object.metadata.deletionTimestamp)"},
    ),
    validations=(
        Validation(
            expression=f"has(object.metadata.labels) && '{keys.MACHINE_GROUP}' in object.metadata.labels"
            f" && object.metadata.labels['{keys.MACHINE_GROUP}'] == object.metadata.name",
            message=MESSAGE,
        ),
    ),
    twin=_refusal,
)
