"""Leaving in part on real parts: a type or a zone is taken out of a pool, and its groups are emptied before they go."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoscaler.api import keys
from tests.e2e import waiting
from tests.e2e.engine import stacks
from tests.e2e.engine.test_leaving import (
    PATIENCE_SECONDS,
    draining,
    end_work,
    node_of,
    nodes_of_service,
    run_service,
    run_work,
    start,
    under_way,
)
from tools.engine.engine import Engine, EngineError
from tools.engine.layout import Surroundings
from tools.engine.results import Result
from tools.local.components import Options
from tools.local.plane import Plane

GROUP = "aws:autoscaling/group:Group"
LIST = "kubernetes:core/v1:ConfigMap"
HOME = "/api/v1/namespaces/sluice-system/configmaps"
ZONE = "eu-west-1b"
OLD, NEW = f"local.more.{ZONE}.r5.large", f"local.more.{ZONE}.m5.xlarge"
MORE = {"nodeType": "worker", "instanceTypes": ["r5.large", "m5.xlarge"], "zones": [ZONE], "drainSeconds": 600}


@pytest.fixture
def plane(start_plane: Callable[[Options], Plane]) -> Plane:
    return start_plane(Options(boot_seconds=0.5))


@pytest.fixture
def engine(plane: Plane, tmp_path: Path) -> Engine:
    return Engine.open(tmp_path / "engine", Surroundings.of_plane(plane))


def write(engine: Engine, **more: Any) -> None:
    """Write the local stack's file with one pool more."""
    document = stacks.local()
    document["config"]["sluice:clusters"]["local"]["nodePools"]["more"] = MORE | more
    engine.write_stack("local", document)


def lists(plane: Plane, pool: str = "more") -> dict[str, list[str]]:
    """Return the pool's group lists, with their finalizers."""
    found = plane.api.get(HOME, {"labelSelector": f"{keys.GROUP_LIST}={pool}"})["items"]
    return {one["metadata"]["name"]: one["metadata"].get("finalizers", []) for one in found}


def held(plane: Plane) -> bool:
    return list(lists(plane).values()) == [[keys.FINALIZER]]


@pytest.mark.accept("S17")
def test_a_type_that_leaves_a_pool_is_emptied_before_its_group_goes(plane: Plane, engine: Engine) -> None:
    aws = stacks.Aws(plane=plane)
    write(engine, instanceTypes=["r5.large"])
    engine.up("local")
    start(plane)
    waiting.eventually(lambda: held(plane))
    node = run_work(plane, "sums", "more")
    run_service(plane, "web")
    waiting.eventually(lambda: set(nodes_of_service(plane, "web")) == {node}, within_seconds=PATIENCE_SECONDS)

    write(engine, instanceTypes=["m5.xlarge"])
    engine.refresh("local")
    nodes = aws.groups()[OLD]["DesiredCapacity"]
    want = f"pool more loses 1 Auto Scaling group with {nodes} node"
    assert want in (told := engine.preview("local").diagnostics)
    assert f"{OLD} ({nodes}); their nodes are drained first" in told
    with under_way(lambda: engine.up("local")) as running:
        waiting.eventually(lambda: draining(plane, "more").get("reason") == "WorkRunning", within_seconds=60)
        waiting.eventually(
            lambda: (moved := nodes_of_service(plane, "web")) and len(moved) == 2 and node not in moved,
            within_seconds=2 * PATIENCE_SECONDS,
        )
        assert not running.done()
        assert aws.groups()[OLD]["Instances"]
        assert node_of(plane, "sums") == node
        run_work(plane, "next", "more")  # the rest of the pool goes on
        assert aws.groups()[NEW]["Instances"]
        end_work(plane, "sums")
    assert OLD not in aws.groups()
    assert NEW in aws.groups()
    deleted = [f"{entry.type} {entry.name}" for entry in engine.journal() if entry.method == "delete"]
    assert stacks.before(deleted, f"{LIST} local.groups.more", f"{GROUP} local.pool.more")
    assert held(plane)
    assert not draining(plane, "more")
    again = engine.preview("local")
    assert again.changes == ()
    assert "loses" not in again.diagnostics


@pytest.mark.accept("S17")
def test_a_zone_leaves_comes_back_and_leaves_again_although_updates_break_off(plane: Plane, engine: Engine) -> None:
    aws, zones = stacks.Aws(plane=plane), [ZONE, "eu-west-1c"]
    gone = "local.more.eu-west-1c.m5.xlarge"
    write(engine, instanceTypes=["m5.xlarge"], zones=zones)
    engine.up("local")
    start(plane)
    waiting.eventually(lambda: held(plane))
    for zone in zones:
        add_work(plane, f"in-{zone}", zone)
    waiting.eventually(lambda: node_of(plane, "in-eu-west-1b") and node_of(plane, "in-eu-west-1c"), within_seconds=60)
    places = {zone: node_of(plane, f"in-{zone}") for zone in zones}

    # The update breaks off before the old list is deleted: nothing leaves, and to put the zone back is no change.
    write(engine, instanceTypes=["m5.xlarge"], zones=zones[:1])
    engine.fail_once(type=LIST, name="local.groups.more", method="delete")
    with pytest.raises(EngineError, match=r"local\.groups\.more"):
        engine.up("local")
    assert len(lists(plane)) == 2
    write(engine, instanceTypes=["m5.xlarge"], zones=zones)
    engine.up("local")
    assert len(lists(plane)) == 1
    assert not draining(plane, "more")
    assert {zone: node_of(plane, f"in-{zone}") for zone in zones} == places

    # It breaks off after the zone was drained: the group stays, and takes nothing.
    waiting.eventually(lambda: held(plane))
    write(engine, instanceTypes=["m5.xlarge"], zones=zones[:1])
    engine.fail_once(type=GROUP, name="local.pool.more.eu-west-1c.m5.xlarge", method="delete")
    with under_way(lambda: broken_off(engine)) as up:
        waiting.eventually(lambda: draining(plane, "more").get("reason") == "WorkRunning", within_seconds=60)
        assert "1 node group (m5.xlarge in eu-west-1c) has been leaving" in draining(plane, "more")["message"]
        assert not up.done()
        assert aws.groups()[gone]["Instances"]
        end_work(plane, "in-eu-west-1c")
    assert any(urn.endswith("local.pool.more.eu-west-1c.m5.xlarge") for urn in up.result().failed)
    assert gone in aws.groups()
    add_work(plane, "late", "eu-west-1c")
    waiting.eventually(lambda: "the group is being removed" in events_of(plane, "late"), within_seconds=60)
    assert node_of(plane, "late") == ""

    # The same command again ends it.
    engine.up("local")
    assert gone not in aws.groups()
    assert node_of(plane, "in-eu-west-1b") == places["eu-west-1b"]


def broken_off(engine: Engine) -> Result:
    """Bring the stack up, and return what was done until it failed."""
    with pytest.raises(EngineError) as failure:
        engine.up("local")
    return failure.value.result


def add_work(plane: Plane, name: str, zone: str) -> None:
    """Add a pod that ends by itself, for the pool's instances in a zone."""
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1", "memory": "512Mi"}}}
    selector = {keys.INSTANCE_POOL: "more", keys.ZONE: zone}
    spec = {"containers": [container], "nodeSelector": selector, "restartPolicy": "Never"}
    plane.api.create("/api/v1/namespaces/default/pods", {"metadata": {"name": name}, "spec": spec})


def events_of(plane: Plane, pod: str) -> str:
    """Return what a pod was told."""
    found = plane.api.get("/api/v1/namespaces/default/events", {"fieldSelector": f"involvedObject.name={pod}"})
    return "\n".join(event["message"] for event in found["items"])
