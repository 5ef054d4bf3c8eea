"""The example worker says what the runtime says, and needs nothing but Python."""

import ast
import runpy
import sys
from pathlib import Path

import pytest
import yaml

from autoscaler.api import resources
from autoscaler.queues import port
from autoscaler.workers import pods

EXAMPLE = Path(__file__).parent.parent.parent.parent / "examples" / "worker"
PROGRAMS = ("worker.py", "queue_server.py")


def test_it_reads_the_variables_that_workers_are_given() -> None:
    strings = {
        node.value
        for node in ast.walk(ast.parse((EXAMPLE / "worker.py").read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert {pods.IDLE_TIMEOUT, pods.POOL} <= strings


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_needs_the_standard_library_alone(name: str) -> None:
    tree = ast.parse((EXAMPLE / name).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {module.partition(".")[0] for module in imported} <= sys.stdlib_module_names


@pytest.mark.parametrize(
    ("given", "want"),
    [("8080", ("127.0.0.1", 8080)), ("0.0.0.0:80", ("0.0.0.0", 80))],  # noqa: S104
)
def test_its_queue_lets_others_in_only_where_it_is_told_to(given: str, want: tuple[str, int]) -> None:
    assert runpy.run_path(str(EXAMPLE / "queue_server.py"))["address"](given) == want


def test_its_manifests_fit_together() -> None:
    manifests = list(yaml.safe_load_all((EXAMPLE / "worker-pool.yaml").read_text()))
    named = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in manifests}
    pool = resources.WorkerPool.model_validate(
        next(manifest for manifest in manifests if manifest["kind"] == "WorkerPool")
    )
    template = pool.spec.worker_spec.pod_template
    source = named[template.source.kind, template.source.name]["spec"]
    assert source["replicas"] == 0
    assert [container["name"] for container in source["template"]["spec"]["containers"]] == [template.container_name]
    secret = named["Secret", pool.spec.queue.source.secret_name or ""]
    assert port.API_KEY in secret["stringData"]
    assert ("Service", "queue") in named
    queue = named["Deployment", "queue"]["spec"]["template"]["spec"]["containers"][0]
    assert queue["command"][-1] == "0.0.0.0:8080"  # other pods ask it
    assert {manifest["metadata"]["namespace"] for manifest in manifests} == {"default"}
