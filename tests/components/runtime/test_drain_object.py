"""The drain object: made after everything that work needs, with time to drain, and with nothing that could change."""

import json
import runpy
from pathlib import Path
from typing import Any

from autoscaler.api import names
from components.config.clusters import Cluster
from components.runtime import drain_object
from tests.components import configs, monitor

ROOT = Path(__file__).parents[3]


def evaluate(**fields: Any) -> monitor.World:
    sluice = configs.values(clusters={"bench": configs.cluster(**fields)})
    config = {"aws:region": configs.REGION, **{f"sluice:{key}": value for key, value in sluice.items()}}
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}

    def program() -> None:
        runpy.run_path(str(ROOT / "__main__.py"))

    return monitor.run(program, config=texts)


def test_it_is_made_after_everything_that_work_needs_until_it_has_ended() -> None:
    world = evaluate(
        nodePools={"services": configs.SERVICES, "w": configs.pool(instanceTypes=["p3.8xlarge"], drainSeconds=7200)},
        scopes={"research": {"namespaces": ["research"], "pools": [{"name": "w"}]}},
    )
    made = world.one("core/v1:ConfigMap", "bench.drain-object")
    assert made.inputs["metadata"]["name"] == names.DRAIN_OBJECT
    assert made.inputs["metadata"]["namespace"] == "sluice-system"
    assert "data" not in made.inputs  # another value would replace it, and so begin a farewell
    assert made.timeouts == {"delete": "8100s"}
    waited = {urn.rpartition("::")[2] for urn in made.dependencies}
    kinds = {urn.split("::")[2].rpartition("$")[2] for urn in made.dependencies}
    assert {"kubernetes:apps/v1:Deployment", "kubernetes:core/v1:Namespace"} <= kinds
    assert {"kubernetes:apps/v1:DaemonSet", "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding"} <= kinds
    assert {"bench.objects.instancepool.w", "bench.objects.scope.research"} <= waited
    assert "bench.namespaces.research" in waited
    assert "bench.groups.w" in waited


def test_leaving_may_take_as_long_as_the_slowest_pool_drains() -> None:
    pools = {"services": {**configs.SERVICES, "drainSeconds": 10}, "slow": configs.pool(drainSeconds=100)}
    assert drain_object.seconds(Cluster.model_validate_json(json.dumps(configs.cluster(nodePools=pools)))) == 1000
