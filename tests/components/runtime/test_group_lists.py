"""Group lists: one for each pool, of exactly its groups, made after these and after the runtime, with time to drain."""

import json
from typing import Any

from autoscaler.api import keys
from autoscaler.api.settings import group_list
from tests.components import configs, monitor
from tests.components.runtime.test_drain_object import evaluate


def made(**pools: Any) -> dict[str, monitor.Made]:
    world = evaluate(nodePools={"services": configs.SERVICES, **pools})
    found = world.named("core/v1:ConfigMap")
    return {name.removeprefix("bench.groups."): one for name, one in found.items() if name.startswith("bench.groups.")}


def groups(one: monitor.Made) -> list[tuple[str, str]]:
    listed = group_list.GroupList.model_validate_json(one.inputs["data"][group_list.FIELD])
    return [(key.zone, key.instance_type) for key in listed.groups]


def test_each_pool_has_a_list_of_its_own_groups() -> None:
    lists = made(w=configs.pool(instanceTypes=["p3.8xlarge", "m5.large"], zones=["eu-west-1b", "eu-west-1a"]))
    assert set(lists) == {"services", "w"}
    one = lists["w"]
    assert one.inputs["metadata"]["labels"][keys.GROUP_LIST] == "w"
    assert one.inputs["metadata"]["namespace"] == "sluice-system"
    zones = ("eu-west-1a", "eu-west-1b")
    want = [(zone, kind) for zone in zones for kind in ("m5.large", "p3.8xlarge")]
    assert groups(one) == want
    listed = json.loads(one.inputs["data"][group_list.FIELD])
    assert (listed["cluster"], listed["pool"]) == ("test-bench", "w")


def test_the_order_of_types_and_zones_in_the_file_changes_no_list() -> None:
    types, zones = ["p3.8xlarge", "m5.large"], ["eu-west-1b", "eu-west-1a"]
    one = made(w=configs.pool(instanceTypes=types, zones=zones))["w"]
    other = made(w=configs.pool(instanceTypes=types[::-1], zones=zones[::-1]))["w"]
    assert one.inputs == other.inputs


def test_another_list_is_another_object_that_is_made_before_the_old_one_goes() -> None:
    one = made(w=configs.pool(instanceTypes=["m5.large"]))["w"]
    assert "name" not in one.inputs["metadata"]  # Pulumi chooses one that no list had before
    assert one.replace_on_changes == ("data",)
    assert one.inputs["immutable"] is True
    assert not one.delete_before_replace


def test_a_list_goes_before_its_groups_and_the_runtime_and_has_time_to_drain() -> None:
    one = made(w=configs.pool(instanceTypes=["m5.large"], zones=["eu-west-1a"], drainSeconds=7200))["w"]
    waited = {urn.rpartition("::")[2] for urn in one.dependencies}
    kinds = {urn.split("::")[2].rpartition("$")[2] for urn in one.dependencies}
    assert "bench.pool.w.eu-west-1a.m5.large" in waited
    assert "bench.pool.services.eu-west-1a.m5.large" not in waited  # of its own pool alone
    assert "kubernetes:apps/v1:Deployment" in kinds
    assert one.timeouts == {"delete": "8100s"}
