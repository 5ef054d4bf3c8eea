"""How long a preview takes in the real engine, by the number of Auto Scaling groups."""

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from components import loading
from components.config import reading
from components.regions import offerings
from tests.bench import results
from tests.e2e.engine import stacks
from tools.engine.engine import Engine
from tools.engine.layout import Surroundings

GROUPS = (0, 150, 300, 600)
TYPES_PER_POOL = 50


def preview(scale: float) -> None:
    """A preview of a new cluster with 0, 150, 300 and 600 groups besides its own three (bar: 600 in 60 s, linear)."""
    with tempfile.TemporaryDirectory() as scratch:
        engine = Engine.open(Path(scratch), Surroundings.nowhere())
        for wanted in GROUPS:
            document = _document(int(wanted * scale))
            engine.write_stack("bench", document)
            evaluated = _evaluate(document)
            started = time.perf_counter()
            made = engine.preview("bench").of("create", type="aws:autoscaling/group:Group")
            seconds = time.perf_counter() - started
            results.tell("preview", groups=len(made), seconds=seconds, config_and_grid_seconds=evaluated)


def _document(groups: int) -> dict[str, Any]:
    """A stack with so many groups in pools of many types, each in three zones."""
    offered = offerings.load(stacks.REGION, loading.OFFERINGS)
    everywhere = [name for name, offer in offered.types.items() if len(offer.zones) == len(offered.zones)]
    chosen = everywhere[: groups // len(offered.zones)]
    batches = [chosen[start : start + TYPES_PER_POOL] for start in range(0, len(chosen), TYPES_PER_POOL)]
    pools = {f"pool-{number}": {"nodeType": "worker", "instanceTypes": batch} for number, batch in enumerate(batches)}
    return stacks.document({"bench": stacks.eks(nodePools=pools)}, asgQuota=1000)


def _evaluate(document: dict[str, Any]) -> float:
    raw = reading.Raw.of("bench", json.loads(json.dumps(document["config"])), frozenset())
    started = time.perf_counter()
    loading.load(raw)
    return time.perf_counter() - started
