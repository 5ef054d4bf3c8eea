"""Capacity in virtual time: waiting pods become instances, idle instances become nothing."""

import asyncio
import math
from collections import Counter

import pytest
import structlog

from autoscaler import clock
from autoscaler.api import keys, resources
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds
from autoscaler.simulation.cloud import faults
from autoscaler.simulation.cloud.model import Obstacle
from tests import builders
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import World, runtime

POOLS = kinds.custom(resources.InstancePool)


@pytest.mark.accept("G7", "P8")
@simulated
async def test_a_waiting_pod_brings_an_instance_and_its_end_takes_it_away() -> None:
    world = World()
    world.add_pool(limits__maxIdleSeconds=600)
    async with runtime(world):
        await asyncio.sleep(30)
        assert world.nodes() == []
        world.add_pod("one")
        await asyncio.sleep(1)
        assert sum(world.desired().values()) == 1
        await asyncio.sleep(60)
        assert set(world.bound()) == {"one"}
        (event,) = world.events("TriggeredScaleUp")
        assert event["message"].startswith("pod triggered scale-up: [{workers-")
        assert "0->1 (max: 10)" in event["message"]
        world.delete_pod("one")
        await asyncio.sleep(500)
        assert len(world.nodes()) == 1
        await asyncio.sleep(200)
        assert world.nodes() == []
        assert world.desired() == {}


@pytest.mark.accept("G13")
@simulated
async def test_a_burst_is_one_plan_and_fills_zones_evenly() -> None:
    world = World()
    world.add_pool(limits__maxIdleSeconds=600)
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(36):
            world.add_pod(f"p-{number}")
        await asyncio.sleep(120)
        assert len(world.bound()) == 36
        zones = Counter(node["metadata"]["labels"][keys.ZONE] for node in world.nodes())
        assert sum(zones.values()) == 12  # three pods fit on each
        assert set(zones.values()) == {4}
        assert len(world.cloud.instances) == 12  # not one too many was ever started


@pytest.mark.accept("G9")
@simulated
async def test_a_shortage_in_one_zone_is_passed_by_and_taken_back() -> None:
    world = World()
    world.add_pool()
    world.cloud.hinder(Obstacle(failure=cloud.LaunchFailure.INSUFFICIENT_CAPACITY, zone="a"))
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(9):
            world.add_pod(f"p-{number}", nodeSelector={})
        await asyncio.sleep(180)
        assert len(world.bound()) == 9
        assert world.desired().get("workers-a-m5.xlarge", 0) == 0


@pytest.mark.accept("G9")
@simulated
async def test_a_shortage_everywhere_is_told_and_overcome_once_it_is_over() -> None:
    world = World()
    world.add_pool()
    world.cloud.hinder(Obstacle(failure=cloud.LaunchFailure.INSUFFICIENT_CAPACITY))
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one")
        await asyncio.sleep(120)
        assert world.desired() == {}
        assert "InsufficientCapacity" in world.events("NotTriggerScaleUp")[0]["message"]
        world.cloud.relieve()
        await asyncio.sleep(400)
        assert set(world.bound()) == {"one"}


@pytest.mark.accept("G7")
@simulated
async def test_a_pod_that_fits_nowhere_is_told_why_with_the_numbers() -> None:
    world = World()
    world.add_pool()
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("huge", cpu="64")
        world.add_pod("elsewhere", nodeSelector={"node.type": "gpu"})
        await asyncio.sleep(30)
        told = {event["involvedObject"]["name"]: event["message"] for event in world.events("NotTriggerScaleUp")}
        assert "cpu: wants 64, has 3.92" in told["huge"]
        assert "its nodes do not have the label node.type=gpu" in told["elsewhere"]
        assert world.desired() == {}


@simulated
async def test_a_scope_uses_its_pools_in_order_and_nobody_else_its_own() -> None:
    world = World()
    world.add_pool("common", types=("m5.xlarge",))
    world.add_pool("own", types=("c5.2xlarge",), instanceWide=False, scope="research")
    world.cluster.create(kinds.custom(resources.Scope), builders.resource("Scope", pools=[{"name": "own"}]))
    world.cluster.create(kinds.NAMESPACES, {"metadata": {"name": "team", "labels": {keys.SCOPE: "research"}}})
    await asyncio.sleep(2)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("theirs", namespace="team")
        world.add_pod("anybodys")
        await asyncio.sleep(1)
        grown = sorted(name.split("-")[0] for name in world.desired())
        assert grown == ["common", "own"]


@pytest.mark.accept("G11")
@simulated
async def test_a_node_that_got_a_pod_while_it_was_marked_is_spared() -> None:
    world = World()
    world.add_pool(limits__maxIdleSeconds=60)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one")
        await asyncio.sleep(90)
        (node,) = world.nodes()
        world.delete_pod("one")
        await asyncio.sleep(63)
        assert any(taint["key"] == keys.REMOVING for taint in world.nodes()[0]["spec"].get("taints", []))
        world.add_pod("two", nodeName=node["metadata"]["name"])
        await asyncio.sleep(60)
        assert [each["metadata"]["name"] for each in world.nodes()] == [node["metadata"]["name"]]
        assert not world.nodes()[0]["spec"].get("taints")


@pytest.mark.accept("G11")
@simulated
async def test_a_groups_minimum_is_kept() -> None:
    world = World()
    world.add_pool(minimum=1, limits__maxIdleSeconds=60)
    async with runtime(world):
        await asyncio.sleep(600)
        assert len(world.nodes()) == 3
        assert not any(node["spec"].get("taints") for node in world.nodes())


@pytest.mark.accept("G23")
@simulated
async def test_a_living_foreign_scaler_is_left_alone_and_replaced_once_it_is_gone() -> None:
    world = World()
    world.add_pool(limits__maxIdleSeconds=60)
    lease = {"holderIdentity": "ca-0", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    metadata = {"name": "cluster-autoscaler", "namespace": "kube-system"}
    world.cluster.create(kinds.LEASES, {"metadata": metadata, "spec": lease})
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one")
        await asyncio.sleep(15)
        assert world.desired() == {}
        assert (
            "cluster-autoscaler (ca-0) scales this cluster's nodes" in world.events("NotTriggerScaleUp")[0]["message"]
        )
        await asyncio.sleep(100)
        assert set(world.bound()) == {"one"}


@simulated
async def test_who_observes_asks_for_nothing() -> None:
    world = World()
    world.add_pool()
    async with runtime(world, observe=True):
        await asyncio.sleep(5)
        world.add_pod("one")
        await asyncio.sleep(60)
        assert world.desired() == {}


@simulated
async def test_an_instance_that_is_lost_is_replaced_if_it_is_needed() -> None:
    world = World()
    world.add_pool()
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one")
        await asyncio.sleep(90)
        (instance,) = world.cloud.instances.values()
        world.cloud.break_down(instance.id)
        await asyncio.sleep(60)
        world.add_pod("two")
        await asyncio.sleep(120)
        assert "two" in world.bound()


@pytest.mark.accept("G16")
@simulated
async def test_an_outage_of_the_cloud_delays_and_harms_nothing() -> None:
    world = World()
    world.add_pool()
    async with runtime(world):
        await asyncio.sleep(5)
        world.cloud.faults.add(faults.Effect.REFUSE, times=None)
        world.add_pod("one")
        await asyncio.sleep(300)
        assert world.desired() == {}
        world.cloud.faults.clear()
        await asyncio.sleep(120)
        assert set(world.bound()) == {"one"}


@pytest.mark.accept("P9")
@simulated
async def test_instances_are_recorded_under_names_that_are_used_again() -> None:
    world = World()
    world.add_pool(limits__maxIdleSeconds=60)
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(4):
            world.add_pod(f"p-{number}", cpu="3")
        await asyncio.sleep(120)
        assert [each["metadata"]["name"] for each in world.instances()] == [f"workers-00{n}" for n in (1, 2, 3, 4)]
        assert {each["status"]["phase"] for each in world.instances()} == {"Ready"}
        first = world.instances()[0]["status"]
        instance = world.cloud.instances[first["providerID"].rsplit("/", 1)[-1]]
        assert first["instanceCreatedAt"] == clock.to_rfc3339(math.ceil(instance.launched_at))
        for number in range(4):
            world.delete_pod(f"p-{number}")
        await asyncio.sleep(180)
        assert {each["status"]["phase"] for each in world.instances()} == {"Terminated"}
        world.add_pod("again", cpu="3")
        await asyncio.sleep(120)
        (living,) = [each for each in world.instances() if each["status"]["phase"] == "Ready"]
        assert living["metadata"]["name"] == "workers-001"
        assert living["status"]["registeredAt"] == first["registeredAt"]
        assert living["status"]["instanceCreatedAt"] != first["instanceCreatedAt"]


@pytest.mark.accept("P14")
@simulated
async def test_the_books_say_what_the_clouds_own_record_says() -> None:
    world = World()
    world.add_pool(limits__maxIdleSeconds=300)
    async with runtime(world):
        for hour in range(6):
            for number in range(5 + hour):
                world.add_pod(f"p-{hour}-{number}", cpu="2")
            await asyncio.sleep(1800)
            for number in range(5 + hour):
                world.delete_pod(f"p-{hour}-{number}")
            await asyncio.sleep(1800)
        await asyncio.sleep(900)
    assert world.nodes() == []
    counted = sum(each["status"]["months"]["2026-01"]["seconds"] for each in world.instances())
    lived = sum(instance.seconds(world.cloud.clock.now()) for instance in world.cloud.instances.values())
    assert abs(counted - lived) <= len(world.cloud.instances)  # whole seconds


@pytest.mark.accept("P8")
@simulated
async def test_a_restart_forgets_neither_lives_nor_how_long_instances_were_idle() -> None:
    world = World()
    world.add_pool(limits__maxIdleSeconds=600)
    async with runtime(world):
        world.add_pod("one")
        await asyncio.sleep(120)
        world.delete_pod("one")
        await asyncio.sleep(300)
    async with runtime(world, "b"):
        await asyncio.sleep(200)
        assert len(world.nodes()) == 1
        await asyncio.sleep(200)
        assert world.nodes() == []
        assert [each["status"]["phase"] for each in world.instances()] == ["Terminated"]


@pytest.mark.accept("G19")
@simulated
async def test_an_instance_that_never_becomes_a_node_is_ended_and_another_offering_is_tried() -> None:
    world = World()
    world.silent = {"a", "b"}
    world.add_pool(registrationTimeoutSeconds=120)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one")
        await asyncio.sleep(600)
        assert set(world.bound()) == {"one"}
        assert len(world.nodes()) == 1
        assert sum(world.desired().values()) == 1
        told = {(event["reason"], event["involvedObject"]["name"]) for event in world.events("NeverJoined")}
        assert told == {("NeverJoined", "workers")}


@pytest.mark.accept("G25")
@simulated
async def test_a_node_that_is_lost_and_stays_so_is_replaced_also_at_the_groups_minimum() -> None:
    world = World()
    world.add_pool(minimum=1, zones=("a",))
    async with runtime(world):
        await asyncio.sleep(120)
        (node,) = world.nodes()
        world.kubelets.fail(node["metadata"]["name"])
        await asyncio.sleep(600)
        assert [each["metadata"]["name"] for each in world.nodes()] == [node["metadata"]["name"]]
        await asyncio.sleep(900)
        (other,) = world.nodes()
        assert other["metadata"]["name"] != node["metadata"]["name"]
        assert world.desired() == {"workers-a-m5.xlarge": 1}


@simulated
async def test_a_spot_instance_that_will_be_taken_away_is_drained_before_it_goes() -> None:
    world = World()
    world.add_pool()
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one")
        await asyncio.sleep(90)
        (instance,) = world.cloud.instances.values()
        world.cloud.interrupt(instance.id)
        await asyncio.sleep(60)
        assert "one" not in world.bound()  # evicted a minute before the instance goes
        world.add_pod("two")
        await asyncio.sleep(200)
        assert world.bound()["two"] != f"ip-{instance.id}"


@pytest.mark.accept("G12")
@simulated
async def test_what_must_not_be_evicted_is_not() -> None:
    world = World()
    world.add_pool()
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("stays", annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})
        world.add_pod("guarded", labels={"app": "guarded"})
        metadata = {"name": "guard", "namespace": "default"}
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
        world.cluster.create(kinds.DISRUPTION_BUDGETS, {"metadata": metadata, "spec": spec})
        await asyncio.sleep(90)
        (instance,) = world.cloud.instances.values()
        world.cloud.interrupt(instance.id)
        await asyncio.sleep(60)
        assert {"stays", "guarded"} <= set(world.bound())


@pytest.mark.accept("G22")
@simulated
async def test_idle_instances_of_an_old_template_are_replaced_and_working_ones_wait() -> None:
    world = World()
    world.add_pool(minimum=1, zones=("a",), limits__maxIdleSeconds=36_000)
    async with runtime(world):
        world.add_pod("works", cpu="3")
        await asyncio.sleep(10)
        world.add_pod("ends", cpu="3")
        await asyncio.sleep(120)
        busy = world.bound()["works"]
        world.delete_pod("ends")
        await asyncio.sleep(60)
        assert len(world.nodes()) == 2
        (name,) = world.cloud.groups
        world.cloud.retemplate(name, cloud.Template(image_id="ami-2", user_data_sha256="1" * 64))
        (idle,) = {node["metadata"]["name"] for node in world.nodes()} - {busy}
        await asyncio.sleep(180)
        assert idle not in {node["metadata"]["name"] for node in world.nodes()}
        assert world.bound()["works"] == busy
        world.delete_pod("works")
        await asyncio.sleep(180)
        (node,) = world.nodes()
        assert node["metadata"]["name"] != busy
        assert world.desired() == {str(name): 1}


@simulated
async def test_an_instance_that_was_recorded_says_at_once_where_it_stands() -> None:
    world = World()
    world.add_pool()
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one")
        before: set[str] = set()
        for _ in range(600):
            await asyncio.sleep(0.1)
            silent = {each["metadata"]["name"] for each in world.instances() if "phase" not in each.get("status", {})}
            assert not silent & before
            before = silent
        assert world.instances()


@simulated
async def test_a_group_that_two_accounts_see_grows_once() -> None:
    world = World()
    world.cluster.create(kinds.custom(resources.ProviderAccount), builders.resource("ProviderAccount", name="aaa"))
    world.add_pool()
    with structlog.testing.capture_logs() as logged:
        async with runtime(world):
            await asyncio.sleep(5)
            world.add_pod("one")
            await asyncio.sleep(60)
            assert len(world.cloud.instances) == 1
    assert not [entry for entry in logged if entry["event"] == "launch_outdated"]  # we know what we wrote
