"""Tags: what AWS takes, and those of EC2 resources on the wire."""

from collections.abc import Mapping
from typing import Any, Final

from tools.engine.providers import calls, wire
from tools.engine.providers.aws import cloud

KEY_MAX: Final = 128


def listed(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return tags as AWS lists them."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def demand_short_keys(inputs: Mapping[str, Any]) -> None:
    """Refuse tags whose keys AWS would find too long, wherever a resource has them."""
    for tags in (inputs.get("tags"), *(each.get("tags") for each in inputs.get("tagSpecifications") or ())):
        given = tags or ()
        for key in given if isinstance(given, Mapping) else [tag["key"] for tag in given]:
            if len(key) > KEY_MAX:
                raise calls.RefusedError(f"InvalidParameterValue: the tag key {key} is over {KEY_MAX} characters")


def specification(resource_type: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the argument that tags a resource as it is made, or nothing."""
    given = inputs.get("tags")
    return {"TagSpecifications": [{"ResourceType": resource_type, "Tags": listed(given)}]} if given else {}


def update(aws: cloud.Cloud, identifier: str, asked: calls.Update) -> None:
    """Send the tags that changed."""
    old: dict[str, str] = wire.plain(asked.old_inputs).get("tags") or {}
    new: dict[str, str] = wire.plain(asked.inputs).get("tags") or {}
    changed = {key: value for key, value in new.items() if old.get(key) != value}
    removed = {key: value for key, value in old.items() if key not in new}
    if changed:
        aws.call("ec2", "create_tags", Resources=[identifier], Tags=listed(changed))
    if removed:
        aws.call("ec2", "delete_tags", Resources=[identifier], Tags=listed(removed))
