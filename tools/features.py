"""List the promises of docs/features.md with the tests that prove them. A test may not claim an unknown promise."""

import argparse
import contextlib
import io
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import pytest

ROOT = Path(__file__).parent.parent
PROMISES = ROOT / "docs" / "features.md"


class Proof(TypedDict):
    name: str
    tier: str


class Feature(TypedDict):
    id: str
    tests: list[Proof]


class _Collector:
    """A pytest plugin that remembers which test claims which promise."""

    def __init__(self) -> None:
        self.proofs: dict[str, dict[str, Proof]] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            name = item.nodeid.partition("[")[0]
            for marker in item.iter_markers("accept"):
                for promise in marker.args:
                    self.proofs.setdefault(promise, {})[name] = Proof(name=name, tier=_tier(item))


def main(argv: Sequence[str] | None = None) -> int:
    """Print the list; fail where a test claims what nobody promised."""
    parser = argparse.ArgumentParser(prog="python -m tools.features", description=__doc__)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text for people, json for programs")
    form = parser.parse_args(argv).format
    promises = read_promises(PROMISES.read_text(encoding="utf-8"))
    proofs = _collect()
    unknown = sorted(proofs.keys() - promises.keys())
    if unknown:
        print(f"tests claim promises that {PROMISES.relative_to(ROOT)} does not list: {', '.join(unknown)}")
        return 1
    features = [Feature(id=promise, tests=sorted(proofs.get(promise, {}).values(), key=_name)) for promise in promises]
    print(json.dumps(features, indent=1) if form == "json" else render(features, promises))
    return 0


def read_promises(text: str) -> dict[str, str]:
    """Read the rows `| id | promise |` of the list."""
    return dict(re.findall(r"^\| ([A-Z][0-9]+) \| (.+?) \|", text, flags=re.MULTILINE))


def render(features: Sequence[Feature], promises: dict[str, str]) -> str:
    """Write one line per promise, its tests below, and a closing count."""
    lines: list[str] = []
    for feature in features:
        tiers = sorted({proof["tier"] for proof in feature["tests"]})
        lines.append(f"{feature['id']:4} {', '.join(tiers) or '-':22} {promises[feature['id']][:90]}")
        lines.extend(f"{'':10}{proof['tier']:10} {proof['name']}" for proof in feature["tests"])
    proven = sum(bool(feature["tests"]) for feature in features)
    return "\n".join([*lines, f"{proven} of {len(features)} promises have a test"])


def _collect() -> dict[str, dict[str, Proof]]:
    collector = _Collector()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = pytest.main(["--collect-only", "-qq", str(ROOT / "tests")], [collector])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit(f"{said.getvalue()}\nthe tests could not be collected, so there is no list")
    return collector.proofs


def _tier(item: pytest.Item) -> str:
    if item.get_closest_marker("real"):
        return "real"
    return "simulated" if item.get_closest_marker("simulated") else "unit"


def _name(proof: Proof) -> str:
    return proof["name"]


if __name__ == "__main__":
    sys.exit(main())
