"""What a node lacks before it is finished, and which nodes are waited for, given up, or neither."""

import dataclasses
from typing import Any

import msgspec
import pytest

from autoscaler.api import keys
from autoscaler.api.resources.types import Taint
from autoscaler.capacity.records import record_index
from autoscaler.capacity.scaledown import emptiness, unfinished
from autoscaler.capacity.scaleup import supply
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from tests.autoscaler.capacity import seen

KNOWN = {"key": "ebs.csi.aws.com/agent-not-ready", "effect": "NoSchedule"}
FOREIGN = {"key": "example.com/starting", "effect": "NoSchedule"}
GPUS = cloud.NodeTemplate(resources={keys.GPU_RESOURCE: 4})


def snapshot(*, age: float = 100.0, finished_once: bool = False, pods: Any = (), **node: Any) -> Snapshot:
    """One node of a group whose template declares GPUs, if the node has any."""
    template = GPUS if "gpus" in node else cloud.NodeTemplate()
    return seen.snapshot(
        now=seen.NOW + age,
        groups=(seen.group("i-1", node=template),),
        nodes=[seen.node(**node)],
        pods=pods,
        records=record_index.IndexedRecords(were_ready=frozenset({"aws:///a/i-1"} if finished_once else ())),
    )


def is_coming(found: Snapshot) -> bool:
    return supply.on_the_way(found, found.groups[0]) > 0


def is_idle(found: Snapshot) -> bool:
    return bool(emptiness.idle_since(found, {}))


@pytest.mark.parametrize("what", [{"taints": [KNOWN]}, {"taints": [FOREIGN]}, {"gpus": 0}], ids=str)
def test_a_young_node_that_lacks_something_is_on_its_way_and_not_idle(what: dict[str, Any]) -> None:
    assert is_coming(snapshot(**what))
    assert not is_idle(snapshot(**what))
    assert not is_coming(snapshot(age=900, **what))
    assert is_idle(snapshot(age=900, **what))


@pytest.mark.parametrize(
    "taint",
    [
        {"key": keys.REMOVING, "value": "Idle", "effect": "NoSchedule"},
        {"key": keys.machine_label("large"), "value": "group", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "example.com/rather-not", "effect": "PreferNoSchedule"},
    ],
    ids=lambda taint: taint["key"],
)
def test_what_we_or_people_put_on_a_node_does_not_make_it_unfinished(taint: dict[str, str]) -> None:
    assert not is_coming(snapshot(taints=[taint]))
    assert is_idle(snapshot(taints=[taint]))


def test_a_taint_of_the_template_is_no_sign_of_a_start() -> None:
    own = cloud.NodeTemplate(taints=(Taint.model_validate(FOREIGN),))
    assert unfinished.lacks(seen.node(taints=[FOREIGN]), seen.group(node=own), {}, is_new=True) is None


def test_a_taint_that_nobody_knows_means_nothing_once_a_pod_works_there_or_the_node_was_finished() -> None:
    used = snapshot(taints=[FOREIGN], pods=[seen.pod(node="node")])
    assert not is_coming(used)
    assert not is_coming(snapshot(taints=[FOREIGN], finished_once=True))


def test_a_node_that_was_finished_once_is_idle_whatever_it_lacks_now() -> None:
    assert is_idle(snapshot(gpus=0, finished_once=True))
    assert is_idle(snapshot(taints=[KNOWN], finished_once=True))
    assert unfinished.useless(snapshot(age=900, gpus=0, finished_once=True)) == set()


def test_a_listed_taint_counts_by_key_and_effect_and_by_value_where_one_is_named() -> None:
    one = {"key": "example.com/starting", "value": "now", "effect": "NoSchedule"}
    others = [{**one, "effect": "NoExecute"}, {**one, "key": "example.com/other"}, {**one, "value": "later"}]
    for listed, want in ((one, {"node"}), ({**one, "value": ""}, {"node"}), *((other, set()) for other in others)):
        found = snapshot(age=900, taints=[one])
        pools = {"workers": seen.pool(startupTaints=[listed])}
        assert unfinished.useless(dataclasses.replace(found, pools=pools)) == want


def test_gpus_that_no_tag_declares_are_waited_for_but_nobody_goes_for_lack_of_them() -> None:
    group = seen.group("i-1", kind="p3.8xlarge")
    young = dataclasses.replace(snapshot(), groups=(group,))
    assert is_coming(young)
    assert not is_idle(young)
    late = dataclasses.replace(young, now=seen.NOW + 900)
    assert not is_coming(late)
    assert unfinished.useless(late) == set()
    assert not is_coming(dataclasses.replace(snapshot(gpus=4), groups=(group,)))


def test_parts_of_a_device_that_have_another_name_count_as_the_device() -> None:
    cut = msgspec.structs.replace(seen.node(), allocatable={"nvidia.com/mig-1g.5gb": 7})
    assert unfinished.lacks(cut, seen.group(node=GPUS), {}, is_new=True) is None


def test_late_nodes_are_of_no_use_where_they_lack_what_they_should_have_and_nothing_works_there() -> None:
    assert unfinished.useless(snapshot(age=900, gpus=0)) == {"node"}
    assert unfinished.useless(snapshot(age=900, taints=[KNOWN])) == {"node"}
    assert unfinished.useless(snapshot(age=900, taints=[FOREIGN])) == set()
    assert unfinished.useless(snapshot(age=900, gpus=0, pods=[seen.pod(node="node")])) == set()
    assert unfinished.useless(snapshot(age=899, gpus=0)) == set()


def test_our_mark_for_it_does_not_make_a_node_finished() -> None:
    mark = {"key": keys.REMOVING, "value": "NeverFinished", "effect": "NoSchedule"}
    assert unfinished.useless(snapshot(age=900, gpus=0, finished_once=True, taints=[mark])) == {"node"}


def test_an_unfinished_node_of_a_pool_that_leaves_or_that_is_interrupted_is_not_waited_for() -> None:
    found = snapshot(gpus=0)
    assert is_idle(dataclasses.replace(found, leaving={"workers": 0.0}))
    assert is_idle(dataclasses.replace(found, leaving_groups={found.groups[0].key: 0.0}))
    assert is_idle(dataclasses.replace(found, doomed=frozenset({cloud.InstanceId("i-1")})))


def test_an_instance_of_no_use_goes_at_once_and_is_replaced_where_its_group_is_at_its_minimum() -> None:
    found = snapshot(age=900, gpus=0)
    group = dataclasses.replace(found.groups[0], minimum=1)
    (gone,) = emptiness.choose(dataclasses.replace(found, groups=(group,)), {"node": found.now}, frozenset()).removals
    assert (gone.reason, gone.decrement) == ("NeverFinished", False)


def test_a_node_that_is_not_ready_is_not_finished_and_others_decide_what_becomes_of_it() -> None:
    assert unfinished.lacks(seen.node(ready=False), seen.group(), {}, is_new=False) == "it is not ready"
    assert list(unfinished.never_finished(snapshot(ready=False))) == []
    assert unfinished.coming(snapshot(ready=False), seen.group()) == [seen.node(ready=False)]


def test_a_node_that_is_marked_or_whose_instance_leaves_is_not_on_its_way() -> None:
    mark = {"key": keys.REMOVING, "value": "Idle", "effect": "NoSchedule"}
    found = snapshot(taints=[KNOWN])
    assert unfinished.coming(found, found.groups[0])
    assert unfinished.coming(snapshot(taints=[KNOWN, mark]), seen.group()) == []
    (one,) = found.groups[0].instances
    leaving = dataclasses.replace(one, lifecycle=cloud.Lifecycle.LEAVING)
    gone = dataclasses.replace(found, groups=(dataclasses.replace(found.groups[0], instances=(leaving,)),))
    assert unfinished.coming(gone, gone.groups[0]) == []
