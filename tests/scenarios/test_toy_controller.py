"""A controller is one room and one line: with both, it runs, is simulated, and has its rights in the stack."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
ROOM = '''
"""Toys: one ConfigMap, kept."""

from autoscaler import control
from autoscaler.kube import kinds, objects; from autoscaler.kube.writing import writer
from autoscaler.options import Options


class Toy:
    def __init__(self, context: control.ControllerContext) -> None:
        self._context = context
        self._maps = context.watch(kinds.CONFIG_MAPS, objects.simple)

    async def reconcile(self, dirty: control.Dirty) -> float | None:
        target = writer.Target(resource=kinds.CONFIG_MAPS, decode=objects.simple, table=self._maps)
        metadata = {"namespace": self._context.namespace, "name": "toy"}
        if objects.Key(**metadata) not in self._maps:
            await self._context.writer.create(target, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def build(context: control.ControllerContext, options: Options) -> control.Controller:
    return Toy(context)
'''
LINE = """\
    Controller(name="toy", kube=(permissions.rule("", "configmaps", "create list watch", Where.CLUSTER),)),
"""
ABOVE = "_REGISTERED: Final = (\n"
RIGHT = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "list", "watch"]}


def probe(directory: Path) -> dict[str, Any]:
    """Add the room and the line to a copy of the repository, and ask there."""
    for part in ("autoscaler", "components", "stacks"):
        shutil.copytree(REPOSITORY / part, directory / part)
    registry = directory / "autoscaler" / "api" / "controllers.py"
    text = registry.read_text()
    assert text.count(ABOVE) == 1
    registry.write_text(text.replace(ABOVE, ABOVE + LINE))
    (directory / "autoscaler" / "toy.py").write_text(ROOM)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tests.scenarios.toy_probe"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(directory), str(REPOSITORY)))},
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert Path(answer["copy"]).is_relative_to(directory)
    return answer


@pytest.mark.simulated
def test_one_file_and_one_line_make_a_controller(tmp_path: Path) -> None:
    answer = probe(tmp_path)
    assert answer["known"] == ["toy", "workers", "admission", "machines", "capacity"]
    # It runs, under the cluster's Lease, and nobody else's room was opened for it.
    assert answer["runtime"] == ["default/toy", "kube-system/sluice"]
    assert answer["imported"] == ["toy"]
    # It runs in the simulation, beside the others.
    others = ["kube-system/sluice", "kube-system/sluice-workers", "sluice-system/sluice-machines"]
    assert answer["simulation"] == [*others, "sluice-system/toy"]
    # The stack starts it, and grants what it needs.
    assert answer["stack"]["started"] == "toy,workers,admission,machines,capacity"
    assert RIGHT in answer["stack"]["cluster"]
