"""What is remembered of a group's template and status is what making them anew says, whatever changes."""

import dataclasses
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.capacity.reporting import pool_status
from autoscaler.capacity.scaleup import learned_allocatable, templates
from autoscaler.capacity.snapshot import Learned
from autoscaler.cloud import catalogue
from autoscaler.cloud import port as cloud
from tests.autoscaler.capacity import builders, seen

TYPES = catalogue.bundled()
CHANGE = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["m5.xlarge", "m5.2xlarge"]),
        "labels": st.sampled_from([{}, {"a": "1"}, {"a": "2"}]),
        "resources": st.sampled_from([{}, {"nvidia.com/gpu": 1}]),
        "version": st.sampled_from(["1", "2", "$Latest"]),
        "learned": st.sampled_from([{}, {"cpu": 1000}, {"cpu": 2000, "memory": 5}]),
        "whole": st.booleans(),
        "daemons": st.sampled_from([(), (builders.shape(100, 1),), (builders.shape(200, 1),)]),
        "desired": st.integers(0, 2),
        "types": st.sampled_from([{}, TYPES, TYPES]),
    }
)


def said(change: dict[str, Any]) -> tuple[object, object]:
    """Return template, status and hash of the group as they are remembered, and the same made anew."""
    node = cloud.NodeTemplate(labels=change["labels"], resources=change["resources"])
    ref = cloud.TemplateRef(id="lt-1", version=change["version"])
    group = dataclasses.replace(
        seen.group(desired=change["desired"]),
        key=seen.group(kind=change["kind"]).key,
        node=node,
        template=ref,
    )
    amounts, whole = change["learned"], change["whole"]
    learned = {learned_allocatable.kind_of(group): Learned(amounts=amounts, templates={})} if amounts else {}
    snapshot = seen.snapshot(groups=(group,), types=change["types"], learned=learned, daemons=change["daemons"])
    template, named = templates.of(snapshot, group, whole=whole), (group.name, whole)
    kind, fresh = change["types"].get(change["kind"]), None
    if kind is not None:
        offered = learned_allocatable._offered._function(named, kind, node, amounts)
        fresh = templates._of._function(named, group.key, node, kind, offered, {}, change["daemons"])
    hashed = learned_allocatable.template_hash(group)
    made = learned_allocatable._template_hash._function(group.name, change["kind"], ref, node)
    return (
        (template, pool_status._stated(group.name, group, template), hashed),
        (
            fresh,
            pool_status._stated._function(group.name, group, fresh),
            made if change["version"].isdecimal() else None,
        ),
    )


@given(st.lists(CHANGE, min_size=1, max_size=12))
def test_what_is_remembered_of_a_group_is_what_making_it_anew_says(changes: list[dict[str, Any]]) -> None:
    for change in changes:
        remembered, anew = said(change)
        assert remembered == anew
