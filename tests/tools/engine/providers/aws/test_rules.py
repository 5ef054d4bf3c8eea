"""Names, default tags and replacements by type."""

from typing import Any

import pytest

from tests.tools.engine import builders
from tools.engine.providers import wire
from tools.engine.providers.aws import rules

GROUP = "aws:autoscaling/group:Group"
ROLE = "aws:iam/role:Role"


def test_a_name_is_made_up_once() -> None:
    made = rules.check(builders.check(ROLE, {}), {}).inputs
    again = rules.check(builders.check(ROLE, {}, old=made | {"name": "kept"}), {}).inputs
    assert made["name"].startswith("thing-")
    assert again["name"] == "kept"
    assert rules.check(builders.check(ROLE, {"name": "mine"}, old=made), {}).inputs == {"name": "mine"}


def test_default_tags_go_where_tags_are_a_map() -> None:
    tags = {"team": "x"}
    assert rules.check(builders.check(ROLE, {"name": "a"}), tags).inputs["tags"] == tags
    own = rules.check(builders.check(ROLE, {"name": "a", "tags": {"team": "y"}}), tags).inputs
    assert own["tags"] == {"team": "y"}
    assert "tags" not in rules.check(builders.check(GROUP, {"name": "a"}), tags).inputs
    assert "tags" not in rules.check(builders.check("aws:ec2/route:Route", {}), tags).inputs
    unknown = rules.check(builders.check(ROLE, {"name": "a", "tags": wire.UNKNOWN}), tags).inputs
    assert unknown["tags"] is wire.UNKNOWN


@pytest.mark.parametrize(
    ("resource_type", "old", "new", "want"),
    [
        (GROUP, {"name": "a", "maxSize": 1}, {"name": "a", "maxSize": 2}, set()),
        (GROUP, {"name": "a"}, {"name": "b"}, {("name",)}),
        ("aws:ec2/subnet:Subnet", {"cidrBlock": "10.0.0.0/24"}, {"cidrBlock": "10.1.0.0/24"}, {("cidrBlock",)}),
        ("aws:unknown/thing:Thing", {"a": 1}, {"a": 2}, set()),
    ],
)
def test_few_changes_need_a_replacement(
    resource_type: str, old: dict[str, Any], new: dict[str, Any], want: set[tuple[str, ...]]
) -> None:
    found = rules.difference(builders.diff(resource_type, old, new))
    assert found.changes
    assert found.replacing == want


def test_what_check_made_up_is_no_difference() -> None:
    asked = builders.diff(ROLE, {"name": "a", rules.DEFAULTS: ["name"]}, {"name": "a"})
    assert rules.difference(asked).changes == ()


def test_a_thing_with_a_name_of_its_own_is_deleted_first() -> None:
    own = rules.difference(builders.diff("aws:sqs/queue:Queue", {"name": "q"}, {"name": "q", "fifoQueue": True}))
    made_up = {"name": "q-123", rules.DEFAULTS: ["name"]}
    other = rules.difference(builders.diff("aws:sqs/queue:Queue", made_up, made_up | {"fifoQueue": True}))
    assert (own.delete_first, other.delete_first) == (True, False)
