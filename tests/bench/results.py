"""How a measurement is told: one JSON line."""

import json
import resource
import time
from pathlib import Path
from typing import Any


def tell(name: str, **figures: Any) -> None:
    """Print one result."""
    rounded = {key: round(value, 3) if isinstance(value, float) else value for key, value in figures.items()}
    print(json.dumps({"bench": name, **rounded}), flush=True)


def resident_mb() -> float:
    """Return how much memory this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def cpu_seconds() -> float:
    """Return the processor time this process has used."""
    return time.process_time()
