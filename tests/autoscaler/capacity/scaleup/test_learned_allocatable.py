"""What nodes really offer: the least of them, for one launch template, and kept in the pool's status."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from autoscaler.api import keys
from autoscaler.api.resources.pools import InstancePool
from autoscaler.capacity.records import record_index
from autoscaler.capacity.records.accounting import MonthToDate
from autoscaler.capacity.reporting import pool_status
from autoscaler.capacity.scaleup import learned_allocatable
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import catalogue
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects
from tests import builders
from tests.autoscaler.capacity import seen

TEMPLATE = cloud.TemplateRef(id="lt-1", version="3")
KIND = ("m5.xlarge", ())


def world(*offered: Mapping[str, int], template: cloud.TemplateRef | None = TEMPLATE, **more: Any) -> Snapshot:
    names = [f"i-{number}" for number in range(len(offered))]
    nodes = [
        msgspec.structs.replace(seen.node(name, instance=name), allocatable=dict(amounts))
        for name, amounts in zip(names, offered, strict=True)
    ]
    return seen.snapshot(groups=(seen.group(*names, template=template),), nodes=nodes, **more)


def learned(snapshot: Snapshot, known: learned_allocatable.Known | None = None) -> dict[str, int] | None:
    found = learned_allocatable.learn(known or {}, snapshot).get(learned_allocatable.kind_of(snapshot.groups[0]))
    return dict(found.amounts) if found is not None else None


def test_the_least_of_all_nodes_counts() -> None:
    assert learned(world({"cpu": 3900, "memory": 5}, {"cpu": 3800, "memory": 9})) == {"cpu": 3800, "memory": 5}


def test_a_device_counts_once_it_has_appeared() -> None:
    assert learned(world({"cpu": 1, keys.GPU_RESOURCE: 0})) == {"cpu": 1}
    assert learned(world({"cpu": 1, keys.GPU_RESOURCE: 4})) == {"cpu": 1, keys.GPU_RESOURCE: 4}


def test_nodes_of_another_template_teach_nothing() -> None:
    both = world({"cpu": 100}, {"cpu": 200}, outdated=frozenset({cloud.InstanceId("i-0")}))
    assert learned(both) == {"cpu": 200}


def test_what_was_learned_stays_when_the_nodes_are_gone_and_goes_with_the_template() -> None:
    known = learned_allocatable.learn({}, world({"cpu": 100}))
    assert learned(world(), known) == {"cpu": 100}
    newer = world(template=dataclasses.replace(TEMPLATE, version="4"))
    assert learned(newer, learned_allocatable.recall(known, [], newer.groups, newer.now)) is None


def test_groups_differ_by_what_their_nodes_are_made_from() -> None:
    plain = seen.group(template=TEMPLATE)
    others = [
        dataclasses.replace(plain, template=dataclasses.replace(TEMPLATE, version="4")),
        dataclasses.replace(plain, node=cloud.NodeTemplate(labels={"a": "b"})),
        dataclasses.replace(plain, node=cloud.NodeTemplate(resources={keys.GPU_RESOURCE: 1})),
    ]
    assert len({learned_allocatable.template_hash(group) for group in (plain, *others)}) == 4
    assert learned_allocatable.template_hash(
        dataclasses.replace(plain, desired=7)
    ) == learned_allocatable.template_hash(plain)


@pytest.mark.parametrize("template", [None, cloud.TemplateRef(id="lt-1", version="$Latest")], ids=["none", "latest"])
def test_a_template_that_may_change_unseen_is_not_kept(template: cloud.TemplateRef | None) -> None:
    assert learned_allocatable.template_hash(seen.group(template=template)) is None


def written(snapshot: Snapshot) -> InstancePool:
    """Return the pool with what is published of a snapshot."""
    pool = InstancePool.model_validate(builders.resource("InstancePool", name="workers"))
    month = pool_status.Month(to_date=MonthToDate(month="2026-01", seconds={}, scopes={}, cost_micros={}))
    changes = pool_status.changes(pool, snapshot, month, pool_status.Known())
    return InstancePool.model_validate({**builders.resource("InstancePool", name="workers"), "status": changes})


def test_what_a_pool_wrote_is_read_again_for_the_same_template_alone() -> None:
    snapshot = world({"cpu": 3850, "memory": 2**33, keys.GPU_RESOURCE: 2})
    known = learned_allocatable.learn({}, snapshot)
    pool = written(dataclasses.replace(snapshot, learned=known))
    assert learned_allocatable.recall({}, [pool], snapshot.groups, snapshot.now) == known
    changed = world(template=dataclasses.replace(TEMPLATE, version="4"))
    assert learned_allocatable.recall({}, [pool], changed.groups, snapshot.now) == {}
    assert learned_allocatable.recall(known, [], changed.groups, snapshot.now) == {}


def test_what_is_known_better_is_not_overwritten() -> None:
    snapshot = world({"cpu": 3850})
    known = learned_allocatable.learn({}, snapshot)
    pool = written(dataclasses.replace(snapshot, learned=known))
    better = learned_allocatable.learn({}, world({"cpu": 1}))
    assert learned_allocatable.recall(better, [pool], snapshot.groups, snapshot.now) == better


def test_when_it_is_tried_again_is_written_and_read_again() -> None:
    gone = world()
    known = learned_allocatable.learn(learned_allocatable.learn({}, world({"cpu": 100})), gone)
    for pause in (600, 1200, 2400):
        (each,) = known.values()
        assert each.retry_at == gone.now + pause
        assert learned_allocatable.next_retry(known, gone.now) == each.retry_at
        assert learned_allocatable.learn(known, gone) is known  # it does not begin anew in each cycle
        pool = written(dataclasses.replace(gone, learned=known))
        assert learned_allocatable.recall({}, [pool], gone.groups, gone.now) == known
        known = learned_allocatable.tried(known, gone, [gone.groups[0].key])
    assert learned_allocatable.learn(known, world({"cpu": 100}))[KIND] == dataclasses.replace(
        known[KIND], retry_at=None, is_tried=False
    )
    whole = learned_allocatable.learn(known, world(catalogue.bundled()["m5.xlarge"].allocatable()))
    assert (whole[KIND].retries, whole[KIND].retry_at) == (0, None)


def test_nodes_that_are_not_finished_teach_nothing() -> None:
    young = world({"cpu": 100})
    (node,) = young.by_provider.values()
    taint = objects.NodeTaint("node.cilium.io/agent-not-ready", "", "NoSchedule")
    for changed in ({"ready": False}, {"taints": (taint,)}):
        nodes = {node.provider_id: msgspec.structs.replace(node, **changed)}
        assert learned(dataclasses.replace(young, by_provider=nodes)) is None
    once = record_index.IndexedRecords(were_ready=frozenset({node.provider_id}))
    tainted = dataclasses.replace(young, by_provider=nodes, records=once)
    assert learned(tainted) == {"cpu": 100}  # it was finished before it got the taint
    away = {node.provider_id: msgspec.structs.replace(node, ready=False)}
    assert learned(dataclasses.replace(tainted, by_provider=away)) is None


def test_a_node_that_has_lost_a_device_does_not_teach_how_many_there_are() -> None:
    both = world({"cpu": 1, keys.GPU_RESOURCE: 7}, {"cpu": 1, keys.GPU_RESOURCE: 8})
    assert learned(both) == {"cpu": 1, keys.GPU_RESOURCE: 7}
    nodes = {
        name: msgspec.structs.replace(node, lost=frozenset({keys.GPU_RESOURCE}) if "i-0" in name else frozenset())
        for name, node in both.by_provider.items()
    }
    assert learned(dataclasses.replace(both, by_provider=nodes)) == {"cpu": 1, keys.GPU_RESOURCE: 8}


def test_groups_share_what_is_learned_unless_their_tags_promise_something_else() -> None:
    snapshot = world({"cpu": 100})
    (group,) = snapshot.groups
    elsewhere = group.key.model_copy(update={"pool": "other", "zone": "b"})
    same = dataclasses.replace(group, key=elsewhere, name=cloud.GroupName("same"), instances=())
    other = dataclasses.replace(same, node=cloud.NodeTemplate(resources={"ephemeral-storage": 5}))
    snapshot = dataclasses.replace(snapshot, groups=(group, same, other))
    snapshot = dataclasses.replace(snapshot, learned=learned_allocatable.learn({}, snapshot))
    offers = [learned_allocatable.offered(snapshot, each) or {} for each in snapshot.groups]
    assert [each["cpu"] for each in offers] == [100, 100, 3920]
    assert (learned_allocatable.offered(snapshot, same, whole=True) or {})["cpu"] == 3920


def test_of_very_many_resources_those_that_every_node_has_are_written() -> None:
    many = {f"example.com/device-{number:02}": 1 for number in range(20)} | {"cpu": 100, "memory": 5, "pods": 9}
    told = pool_status.quantities(many)
    assert len(told) == 16
    assert {"cpu": "100m", "memory": "5", "pods": "9"}.items() <= told.items()
